"""Reverse mode from end to end: what starts it, what it delivers and stores, what it releases, how it fails
(P42, P43, P80-P91)."""

import gc
import threading
import weakref

import numpy as np
import orlop
import pytest
from arrays import array, carrier_of, compound, floats, ints, leaf_index, tensor
from list_carrier import ListCarrier
from orlop import (
    CPU,
    DType,
    Generic,
    Layout,
    Operation,
    Shape,
    Stride,
    Tensor,
    grad,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from orlop.operation import execute_lowered_operation

KINDS = [CPU, Generic]
traverse = Tensor.backwards_traversal


def line(values, kind=CPU):
    return tensor(np.array(values, np.float32), kind=kind)


def ones(kind=CPU):
    return line([1, 1, 1], kind)


def placed(values, layout, kind=CPU):
    """A Tensor of these elements at the coordinates of `layout`."""
    slots = np.zeros(layout.cosize, np.float32)
    slots[leaf_index(layout)] = values
    return Tensor(carrier_of(slots, kind), 0, layout)


def numbers(tensor):
    return None if tensor is None else array(tensor).tolist()


class Custom(Operation):
    """Adds its Tensors; its gradients are what ctx["gradients"] makes of the cotangent."""

    def _forward(self, *inputs):
        return orlop.add(inputs[0], inputs[-1])

    def backward(self, gradient):
        return self.ctx["gradients"](gradient)


def custom(gradients, *inputs):
    operation = Custom()
    operation.ctx["gradients"] = gradients
    return operation.forward(*inputs)


class Same(Operation):
    def _forward(self, x):
        return x

    def backward(self, gradient):
        return (gradient,)


# --- which Tensors take part (P80-P82)


@pytest.mark.parametrize("x", [ints(1, 2), tensor(np.array([True]))])
def test_only_floats_are_differentiable(x):
    assert not x.is_differentiable()
    for use in (
        lambda: x.grad,
        x.retain_grad,
        x.backward,
        lambda: setattr(x, "grad", floats(1)),
        lambda: setattr(x, "autograd_ctx", Same()),
    ):
        with pytest.raises(RuntimeError, match="only Float32 and Floating"):
            use()
    x.grad = None
    x.autograd_ctx = None
    assert x.autograd_ctx is None


def test_gradients_and_nodes_have_their_types():
    x = floats(1)
    for wrong in (3, "x", Same()):
        with pytest.raises(TypeError):
            x.grad = wrong
    for wrong in (3, "x", x):
        with pytest.raises(TypeError):
            x.autograd_ctx = wrong
    for wrong in (1, None, "x"):
        with pytest.raises(TypeError):
            x.retain_grad(wrong)
        with pytest.raises(TypeError):
            set_grad_enabled(wrong)
    with pytest.raises(TypeError):
        orlop.neg(x).backward(create_graph=True)
    with pytest.raises(TypeError):
        grad(orlop.neg(x), [x], floats(1), create_graph=True)


def test_recording_is_switched_by_thread_and_restored():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
    with no_grad():
        thread.start()
        thread.join()
        assert not is_grad_enabled() and orlop.neg(floats(1)).autograd_ctx is None
        with no_grad():
            pass
        assert not is_grad_enabled()
    assert seen == [True] and is_grad_enabled()
    with pytest.raises(KeyError), no_grad():
        set_grad_enabled(True)
        raise KeyError
    assert is_grad_enabled()
    set_grad_enabled(False)
    try:
        with no_grad():
            pass
        assert not is_grad_enabled()
    finally:
        set_grad_enabled(True)


def test_one_scope_may_be_entered_inside_itself_and_by_several_threads():
    scope = no_grad()
    seen = []

    def other_thread():
        set_grad_enabled(False)
        with scope:
            entered.set()
            left.wait(10)
        seen.append(is_grad_enabled())

    entered, left = threading.Event(), threading.Event()
    thread = threading.Thread(target=other_thread)
    with scope:
        with scope:
            thread.start()
            assert entered.wait(10)
        assert not is_grad_enabled()
    left.set()
    thread.join()
    assert is_grad_enabled() and seen == [False]


# --- the call and its node (P42, P43)


def test_every_positional_tensor_is_saved_repeats_included():
    x, y = floats(1), floats(2)
    result = custom(lambda g: (g, None, g), x, "between", x, y)
    assert result.autograd_ctx.inputs() == (x, x, y)
    assert orlop.add(x, x).autograd_ctx.inputs() == (x, x)
    with no_grad():
        operation = x.carrier.dispatch_op("neg")
        assert operation.forward(x).autograd_ctx is None and operation.inputs() == ()
    operation = Custom()
    assert operation.forward(ints(1), ints(2)).autograd_ctx is None and operation.inputs() == ()


@pytest.mark.parametrize("arguments", [(floats(1, 2), floats(1, 2, 3)), (floats(1), "x"), (floats(1),)])
def test_a_failed_call_keeps_nothing(arguments):
    operation = arguments[0].carrier.dispatch_op("add")
    with pytest.raises((TypeError, ValueError)):
        operation.forward(*arguments)
    assert operation.inputs() == () and operation.input_versions() == ()


def test_an_argument_is_no_result_where_a_node_would_close_a_loop():
    x = floats(1)
    operation = Same()
    with pytest.raises(ValueError, match=r"^\[Operation\] .*own arguments"):
        operation.forward(x)
    assert operation.inputs() == () and x.autograd_ctx is None
    with no_grad():
        assert Same().forward(x) is x


def test_a_node_runs_once():
    operation = Custom()
    result = operation.forward(floats(1), floats(2))
    with pytest.raises(RuntimeError, match=r"^\[Operation\] .*already the autograd node"):
        operation.forward(floats(1), floats(2))
    assert result.autograd_ctx is operation


@pytest.mark.parametrize("run", [lambda o, *x: o._execute_lowered(*x), execute_lowered_operation])
def test_a_lowered_call_touches_nobodys_node(run):
    x = floats(1, 2)
    y = orlop.mul(x, 3.0)
    node = y.autograd_ctx
    operation = Same()
    operation.store_inputs(x)
    operation.ctx["kept"] = 1
    result = run(operation, y)
    assert result.autograd_ctx is None and y.autograd_ctx is node
    assert operation.inputs() == (x,) and operation.ctx == {"kept": 1}
    assert run(x.carrier.dispatch_op("neg"), y).autograd_ctx is None
    y.backward(floats(1, 1))
    assert numbers(x.grad) == [3, 3]


# --- the start (P83, P84)


def test_a_start_without_a_gradient_takes_one_element():
    x = floats(2)
    orlop.mul(x, 3.0).backward()
    assert numbers(x.grad) == [3]
    for shape in (Shape(2), Shape(1, 1), Shape([[1, 1]])):
        y = orlop.neg(Tensor(CPU(3), 0, Layout(shape, Stride(shape.top_level))))
        with pytest.raises(ValueError, match=r"shape \(1,\)"):
            y.backward()


def test_a_category_of_floats_starts_too():
    x = Tensor(ListCarrier([2.0, 3.0], dtype=DType.Floating), 0, Layout(Shape(1), Stride(1)))
    x.backward()
    assert type(x.grad.carrier) is ListCarrier and x.grad.dtype() is DType.Floating and x.grad.carrier[0] == 1.0
    x.grad = None
    y = x[0:1]
    y.retain_grad()
    y.backward(Tensor(ListCarrier([5.0], dtype=DType.Floating), 0, Layout(Shape(1), Stride(1))))
    assert y.grad.carrier[0] == 5.0


def test_nothing_starts_at_a_compound():
    with pytest.raises(NotImplementedError, match="Multi-subtensor"):
        compound().backward()
    with pytest.raises(NotImplementedError, match="Multi-subtensor"):
        grad(compound(), [], floats(1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cotangent_lies_as_its_tensor_does(kind):
    x = line([1, 2, 3], kind)
    y = orlop.mul(x, 2.0)
    for wrong, error in (
        (3, TypeError),
        (tensor(np.ones(3, np.int32), kind=kind), TypeError),
        (line([1, 1], kind), ValueError),
        (placed(np.ones(3), Layout(Shape(3), Stride(2)), kind), ValueError),
        (placed(1, Layout(Shape(3), Stride(0)), kind), ValueError),
    ):
        for start in (y.backward, x.backward, lambda g: grad(y, [x], g)):
            with pytest.raises(error):
                start(wrong)
    assert x.grad is None
    y.backward(ones(kind))
    assert numbers(x.grad) == [2, 2, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_slot_gets_the_sum_over_its_coordinates(kind):
    leaf = Tensor(carrier_of(np.array([1, 2], np.float32), kind), 0, Layout(Shape(3, 2), Stride(0, 1)))
    y = orlop.mul(leaf, 1.0)
    y.backward(placed([[1, 4], [2, 5], [3, 6]], y.layout, kind))
    assert leaf.grad.layout == Layout(Shape(3, 2), Stride(1, 3))
    assert numbers(leaf.grad) == [[6, 15]] * 3
    leaf.backward(placed([[1, 2]] * 3, Layout(Shape(3, 2), Stride(2, 1)), kind))
    assert numbers(leaf.grad) == [[9, 21]] * 3
    overlapping = Tensor(leaf.carrier, 0, Layout(Shape([2, 1]), Stride([1, 1])))
    with pytest.raises(ValueError):
        leaf.backward(overlapping)
    crossed = Tensor(carrier_of(np.zeros(4, np.float32), kind), 0, Layout(Shape(3, 2), Stride(1, 1)))
    with pytest.raises(ValueError, match="stride 0"):
        crossed.backward(placed(np.zeros((3, 2)), Layout(Shape(3, 2), Stride(1, 3)), kind))


def test_a_leaf_takes_a_cotangent_of_any_class():
    x = floats(1, 2, 3)
    x.backward(ones(Generic))
    orlop.mul(x, 2.0).backward(ones())
    assert numbers(x.grad) == [3, 3, 3]


# --- what is stored (P86)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored_is_a_copy_of_its_own(kind):
    x, y = line([1, 2, 3], kind), line([4, 5, 6], kind)
    cotangent = ones(kind)
    custom(lambda g: (g, g), x, y).backward(cotangent)
    carriers = [x.grad.carrier, y.grad.carrier, cotangent.carrier]
    assert len({id(carrier) for carrier in carriers}) == 3
    assert x.grad.autograd_ctx is None and type(x.grad.carrier) is kind
    x.backward(x.grad)
    assert numbers(x.grad) == [2, 2, 2]


def test_a_gradient_set_by_hand_is_added_to_wherever_it_lies():
    x = floats(1, 2, 3)
    x.grad = placed(10, Layout(Shape(3), Stride(0)))
    x.backward(floats(1, 2, 3))
    assert numbers(x.grad) == [11, 12, 13]
    x.grad = placed([10, 20, 30], Layout(Shape(3), Stride(2)), Generic)
    x.backward(floats(1, 2, 3))
    assert numbers(x.grad) == [11, 22, 33]


def test_retention_is_by_tensor_and_reversible():
    x = floats(1, 2, 3)
    kept, dropped = orlop.mul(x, 2.0), orlop.mul(x, 5.0)
    kept.retain_grad()
    dropped.retain_grad()
    dropped.retain_grad(False)
    orlop.add(orlop.mul(kept, 3.0), dropped).backward(ones())
    assert numbers(kept.grad) == [3, 3, 3] and dropped.grad is None and numbers(x.grad) == [11, 11, 11]


# --- the traversal (P85, P87, P88)


@pytest.mark.parametrize(
    "gradients, error",
    [
        (lambda g: (g,), ValueError),
        (lambda g: (), ValueError),
        (lambda g: (g, g, g), ValueError),
        (lambda g: (g, line([1, 1])), ValueError),
        (lambda g: (g, ints(1, 1, 1)), TypeError),
        (lambda g: (g, 3), TypeError),
        (lambda g: None, TypeError),
        (lambda g: {}["no"], KeyError),
    ],
)
def test_a_failed_traversal_changes_nothing(gradients, error):
    x, y = floats(1, 2, 3), floats(1, 2, 3)
    before = x.grad = floats(7, 7, 7)
    inner = orlop.mul(x, 2.0)
    inner.retain_grad()
    result = orlop.neg(custom(gradients, inner, y))
    for start in (
        lambda: result.backward(ones()),
        lambda: grad(result, [x], ones()),
        lambda: traverse(ones(), result.autograd_ctx),
    ):
        with pytest.raises(error):
            start()
        assert x.grad is before and y.grad is None and inner.grad is None
    assert not result.autograd_ctx._autograd_state_freed
    assert not inner.autograd_ctx._autograd_state_freed


def test_none_and_gradients_of_integers_are_dropped():
    x, count = floats(1, 2, 3), ints(1, 2, 3)
    custom(lambda g: [None, g], x, count).backward(ones())
    assert x.grad is None
    custom(lambda g: [g, g], x, count).backward(ones())
    custom(lambda g: [g, "anything"], x, count).backward(ones())
    assert numbers(x.grad) == [2, 2, 2]


def test_a_node_runs_once_after_all_its_consumers():
    calls = []

    def counted(g):
        calls.append(numbers(g))
        return (g, None)

    x = floats(1, 2, 3)
    shared = custom(counted, x, x)
    orlop.add(orlop.add(shared, orlop.mul(shared, 2.0)), shared).backward(ones())
    assert calls == [[4, 4, 4]] and numbers(x.grad) == [4, 4, 4]


def test_a_node_without_a_cotangent_does_not_run_and_is_released():
    x = floats(1, 2, 3)
    unreached = custom(lambda g: {}["no"], x, x)
    custom(lambda g: (None, g), unreached, x).backward(ones())
    assert numbers(x.grad) == [1, 1, 1] and unreached.autograd_ctx._autograd_state_freed


def test_shared_parts_go_with_the_first_root():
    x = floats(1, 2, 3)
    shared = orlop.mul(x, 2.0)
    first, second = orlop.mul(shared, 3.0), orlop.mul(shared, 5.0)
    first.backward(ones())
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        second.backward(ones())
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        first.backward(ones())
    assert numbers(x.grad) == [6, 6, 6]
    assert shared.autograd_ctx is not None and shared.autograd_ctx.inputs() == ()


def test_a_retained_graph_goes_again():
    x = floats(1, 2, 3)
    y = orlop.mul(x, x)
    y.backward(ones(), retain_graph=True)
    y.backward(ones())
    assert numbers(x.grad) == [4, 8, 12]
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward(ones())


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_input_that_changed_is_refused(kind):
    x, y = line([1, 2, 3], kind), line([1, 2, 3], kind)
    view = x[1:3]
    for result, cotangent in ((orlop.mul(x, y), ones(kind)), (orlop.mul(view, 2.0), line([1, 1], kind))):
        x.carrier[2] = 3.0
        for start in (result.backward, lambda g, r=result: grad(r, [y], g)):
            with pytest.raises(RuntimeError, match="modified in-place"):
                start(cotangent)
    assert x.grad is None and y.grad is None


class Released(Operation):
    def _forward(self, x):
        return orlop.neg(x)

    def backward(self, gradient):
        gradient = line(array(gradient))
        gradient.carrier.release()
        return (gradient,)


@pytest.mark.parametrize("kind", KINDS)
def test_released_storage_is_not_read(kind):
    size = 1000
    x, cotangent, gone = (line(np.ones(size), kind) for _ in range(3))
    gone.carrier.release()
    products = tensor(np.ones((size, 3), np.float32), kind=kind)
    result = orlop.reduce_prod(products, "a b -> a")
    products.carrier.release()
    leaf = line(np.ones(size), kind)
    leaf.grad = gone
    for run in (
        lambda: x.backward(gone),
        lambda: grad(x, [x], gone),
        lambda: orlop.mul(x, 2.0).backward(gone),
        lambda: x[0:size].backward(gone),
        lambda: Released().forward(x).backward(cotangent),
        lambda: result.autograd_ctx.backward(cotangent),
        lambda: result.backward(cotangent),
        lambda: leaf.backward(cotangent),
    ):
        with pytest.raises(RuntimeError, match="released"):
            run()
    assert x.grad is None and leaf.grad is gone


def test_a_long_chain_needs_no_stack():
    x = floats(1)
    y = x
    for _ in range(50_000):
        y = orlop.neg(y)
    y.backward()
    assert numbers(x.grad) == [1]
    node = weakref.ref(y.autograd_ctx)
    del y
    gc.collect()
    assert node() is None


# --- from a node (P89)


def test_a_traversal_from_a_node_stores_nothing_on_its_result():
    x = floats(1, 2, 3)
    y = orlop.mul(orlop.mul(x, 2.0), 3.0)
    y.retain_grad()
    node = y.autograd_ctx
    assert traverse(ones(), node, retain_graph=True) is None
    assert numbers(x.grad) == [6, 6, 6] and y.grad is None
    for wrong, error in ((3, TypeError), (line([1, 1]), ValueError), (ones(Generic), TypeError)):
        with pytest.raises(error):
            traverse(wrong, node)
    traverse(ones(), node)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        traverse(ones(), node)
    assert numbers(x.grad) == [12, 12, 12]


def test_a_traversal_from_no_node_does_nothing():
    assert traverse(ones(), None) is None
    for wrong in (3, "neg", ones()):
        with pytest.raises(AttributeError, match="autograd node or None"):
            traverse(ones(), wrong)


# --- grad (P90, P91)


def test_grad_gives_each_input_its_own_and_touches_nothing():
    x, apart = floats(1, 2, 3), floats(1)
    y = orlop.mul(x, 2.0)
    gradients = grad(y, iter([x, apart, y, x]), ones())
    assert type(gradients) is tuple
    assert [numbers(g) for g in gradients] == [[2, 2, 2], None, [1, 1, 1], [2, 2, 2]]
    assert gradients[0].carrier is not gradients[3].carrier and gradients[0].autograd_ctx is None
    assert x.grad is None and y.grad is None
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        grad(y, [x], ones())
    leaf = floats(1, 2, 3)
    assert [numbers(g) for g in grad(leaf, [leaf, x], ones())] == [[1, 1, 1], None]
    assert grad(orlop.neg(x), [], ones()) == ()


def test_grad_checks_its_arguments_in_order():
    x, count = floats(1, 2, 3), ints(1)
    y = orlop.mul(x, 2.0)
    for arguments, error in (
        ((3, x, 3), TypeError),
        ((y, x, ones()), TypeError),
        ((y, 3, ones()), TypeError),
        ((3, [x], ones()), TypeError),
        ((count, [3], ones()), RuntimeError),
        ((y, [3, count], ones()), TypeError),
        ((y, [count], 3), ValueError),
        ((y, [count], ones()), ValueError),
        ((y, [x], line([1, 1])), ValueError),
        ((y, [x], None), TypeError),
    ):
        with pytest.raises(error):
            grad(*arguments)
    for wrong in (1, None):
        with pytest.raises(TypeError):
            grad(y, [x], ones(), batched=wrong)
        with pytest.raises(TypeError):
            grad(y, [x], ones(), retain_graph=wrong)
    assert numbers(grad(y, [x], ones())[0]) == [2, 2, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0, 6, 7])
def test_a_batch_is_one_gradient_after_the_other(kind, step):
    x = placed([[1, 2, 3], [4, 5, 6]], Layout(Shape(2, 3), Stride(1, 4)), kind)
    y = orlop.mul(x, x)
    layout = Layout(Shape(4, 2, 3), Stride(step, 1, 2))
    slots = np.random.default_rng(0).standard_normal(layout.cosize).astype(np.float32)
    batch = Tensor(carrier_of(slots, kind), 0, layout)
    stacked, missing = grad(y, [x, line([1], kind)], batch, batched=True, retain_graph=True)
    assert missing is None and stacked.layout == Layout(Shape(4, 2, 3), Stride(x.layout.cosize, 1, 4))
    for k, cotangent in enumerate(array(batch)):
        (one,) = grad(y, [x], placed(cotangent, y.layout, kind), retain_graph=True)
        np.testing.assert_array_equal(array(stacked)[k], array(one))
    grad(y, [x], batch, batched=True)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        grad(y, [x], batch, batched=True)


def test_a_batch_has_one_leaf_mode_before_those_of_the_output():
    x = floats(1, 2, 3)
    y = orlop.mul(x, 2.0)
    for layout in (
        Layout(Shape(3), Stride(1)),
        Layout(Shape(3, 2), Stride(1, 3)),
        Layout(Shape([2, 1], 3), Stride([3, 6], 1)),
        Layout(Shape(2, 3), Stride(1, 2)),
    ):
        with pytest.raises(ValueError):
            grad(y, [x], placed(1, layout), batched=True)
    assert numbers(grad(y, [x], ones())[0]) == [2, 2, 2]


def test_entries_of_a_batch_that_nothing_reaches_are_zero():
    x, y = floats(1, 2, 3), floats(1, 2, 3)
    result = custom(lambda g: (g if array(g)[0] > 1 else None, None), x, y)
    batch = placed([[1, 1, 1], [2, 3, 4], [0, 0, 0], [5, 6, 7]], Layout(Shape(4, 3), Stride(3, 1)))
    stacked, missing = grad(result, [x, y], batch, batched=True)
    assert numbers(stacked) == [[0, 0, 0], [2, 3, 4], [0, 0, 0], [5, 6, 7]] and missing is None
