"""Views of storage that does not compute: they dispatch, record, and differentiate where the cotangent lives (P70)."""

import pytest

import orlop
from orlop import CPU, DType, FileBacked, Generic, Shape, Stride, Tensor, friendly

# The dispatch name, and the view of a tensor of shape (2, 1, 3).
VIEWS = {
    "as_strided": lambda t: orlop.as_strided(t, Shape(2, 2), Stride(1, 4)),
    "broadcast_to": lambda t: orlop.broadcast_to(t, Shape(2, 5, 3)),
    "permute": lambda t: orlop.permute(t, 2, 0, 1),
    "rearrange": lambda t: orlop.rearrange(t, "a b c -> c (a 1) b"),
    "reshape": lambda t: orlop.reshape(t, Shape(3, 2)),
    "squeeze": lambda t: orlop.squeeze(t, 1),
    "unsqueeze": lambda t: orlop.unsqueeze(t, 0),
    "view": lambda t: t[1, 0:1, 0:2],
}
NAMES = list(VIEWS)


def in_file(dtype=DType.Float32):
    layout = friendly.column_major(2, 1, 3)
    return Tensor(FileBacked(dtype=dtype).new_like(range(6), dtype=dtype), 0, layout)


def on_cpu():
    return friendly.tensor(range(6), layout=friendly.column_major(2, 1, 3))


def cotangent(view, kind):
    layout = view.layout if view.layout.is_injective else friendly.column_major(*view.shape)
    values = [0.5 + i for i in range(layout.cosize)]
    carrier = Generic(values, dtype=DType.Float32) if kind is Generic else CPU(0).new_like(values)
    if kind is FileBacked:
        carrier = FileBacked(dtype=DType.Float32).new_like(values)
    return Tensor(carrier, 0, layout)


@pytest.mark.parametrize("name", NAMES)
def test_view_of_a_file_is_a_window_on_it(name):
    source = in_file()
    view = VIEWS[name](source)
    assert view.carrier is source.carrier and view.layout == VIEWS[name](on_cpu()).layout
    assert friendly.to_list(view) == friendly.to_list(VIEWS[name](on_cpu()))
    assert view.autograd_ctx._operation_name == name and view.autograd_ctx.inputs() == (source,)
    assert (source.version, source.carrier.is_released()) == (0, False)


@pytest.mark.parametrize("name", NAMES)
def test_view_of_a_file_without_graph_is_a_leaf(name):
    with orlop.no_grad():
        assert VIEWS[name](in_file()).autograd_ctx is None
    assert VIEWS[name](in_file(DType.Int32)).autograd_ctx is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [CPU, Generic])
def test_gradient_of_a_view_of_a_file_lives_where_the_cotangent_does(name, kind):
    source, model = in_file(), on_cpu()
    view, expected = VIEWS[name](source), VIEWS[name](model)
    view.backward(cotangent(view, kind))
    expected.backward(cotangent(expected, CPU))
    assert friendly.to_list(source.grad) == friendly.to_list(model.grad)
    assert type(source.grad.carrier) is kind and source.grad.layout == source.layout


@pytest.mark.parametrize("name", NAMES)
def test_cotangent_in_a_file_is_refused_as_any_computation_there(name):
    source = in_file()
    view = VIEWS[name](source)
    gradient = cotangent(view, FileBacked)
    with pytest.raises(NotImplementedError, match=r"\[FileBacked\].*not supported on this carrier"):
        view.backward(gradient, retain_graph=True)
    assert source.grad is None
    view.backward(cotangent(view, CPU))
    assert source.grad is not None


def test_written_file_is_noticed_before_the_cotangent_is_looked_at():
    source = in_file()
    view = orlop.permute(source, 2, 0, 1)
    source[0, 0, 0] = 9.0
    for gradient in (cotangent(view, FileBacked), cotangent(view, CPU)):
        with pytest.raises(RuntimeError, match="modified in-place"):
            view.backward(gradient, retain_graph=True)
    assert source.grad is None


def test_window_of_a_file_moves_and_its_gradient_comes_back_as_a_file():
    source = in_file()
    window = source[0:2, 0, 1:3]
    on_host = orlop.move(window, CPU(4))
    assert friendly.to_list(on_host) == [2.0, 3.0, 4.0, 5.0]
    (gradient,) = on_host.autograd_ctx.backward(friendly.ones(2, 2))
    assert type(gradient.carrier) is FileBacked and friendly.to_list(gradient) == [1.0] * 4
    with pytest.raises(NotImplementedError, match="FileBacked"):
        friendly.sum(on_host * 2.0).backward()
    assert source.grad is None


def test_names_that_compute_stay_refused():
    source = in_file()
    for name in ("add", "exp", "matmul", "reduce_sum", "gather", "scatter_add"):
        with pytest.raises(NotImplementedError, match=name):
            source.carrier.dispatch_op(name)
