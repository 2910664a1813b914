"""Modules, Parameters and orlop.nn (M801-M810, and number 23 of what the core model's tests must show)."""

import copy
import gc
import math
import pickle
import random
import subprocess
import sys
import weakref

import numpy as np
import pytest
from arrays import array, canonical, tensor
from list_carrier import ListCarrier, compound_tensor

import orlop
from orlop import (
    CPU,
    DType,
    Evictable,
    FileBacked,
    Generic,
    Layout,
    Module,
    Parameter,
    Shape,
    Stride,
    Tensor,
    friendly,
    nn,
)
from orlop.nn import init


def parameter(*values, name=None):
    return Parameter(friendly.tensor(list(values)), name=name)


# --- Parameter (M801, M802) --------------------------------------------------------------------------------------


def test_parameter_shares_the_storage_of_a_tensor():
    source = Tensor(CPU(8), 1, Layout(Shape(2, 3), Stride(3, 1)))
    shared = Parameter(source)
    assert isinstance(shared, Tensor) and type(shared) is Parameter
    assert (shared.carrier, shared.offset, shared.layout, shared.name) == (source.carrier, 1, source.layout, None)
    shared[1, 2] = 2.5
    assert source[1, 2] == 2.5
    assert shared.autograd_ctx is None and shared.grad is None and Parameter(shared).carrier is source.carrier


def test_parameter_is_placed_on_a_carrier():
    carrier, layout = CPU(7), Layout(Shape(3), Stride(2))
    placed = Parameter(carrier, 2, layout, name="w")
    assert (placed.carrier, placed.offset, placed.layout, placed.name) == (carrier, 2, layout, "w")
    assert Parameter(tensor_or_carrier=carrier, layout=layout, offset=0).offset == 0


@pytest.mark.parametrize("more", [(0,), (0, canonical((2,))), (None, canonical((2,)))])
def test_parameter_of_a_tensor_takes_neither_offset_nor_layout(more):
    with pytest.raises(TypeError, match="offset and layout"):
        Parameter(friendly.ones(2), *more)


@pytest.mark.parametrize("more", [(), (0,), (None, canonical((2,)))])
def test_parameter_on_a_carrier_needs_offset_and_layout(more):
    with pytest.raises(TypeError, match="both offset and layout"):
        Parameter(CPU(2), *more)


def test_parameter_refuses_what_a_tensor_refuses():
    line = canonical((2,))
    for wrong in (None, 3, [1.0], np.ones(2), CPU, Tensor):
        with pytest.raises(TypeError, match="Tensor, or a Carrier"):
            Parameter(wrong)
    with pytest.raises(TypeError):
        Parameter()
    with pytest.raises(TypeError):
        Parameter(CPU(2), 0, line, "name by position")
    for offset, layout in ((-1, line), (1, line)):
        with pytest.raises(ValueError):
            Parameter(CPU(2), offset, layout)
    for offset, layout in ((True, line), (0.0, line), (0, (2,)), (0, Shape(2))):
        with pytest.raises(TypeError):
            Parameter(CPU(2), offset, layout)
    released = friendly.ones(2)
    released.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        Parameter(released)
    with pytest.raises(NotImplementedError, match="Multi-subtensor Tensor Parameter"):
        Parameter(compound_tensor())


class Lying(str):
    """Says at every second look that it is another name."""

    def __str__(self):
        return "a.b"

    def __contains__(self, part):
        return False


@pytest.mark.parametrize("make", [lambda name: parameter(1.0, name=name), lambda name: Module(name=name)])
def test_names_are_checked(make):
    for wrong in (3, b"w", ["w"], True):
        with pytest.raises(TypeError, match="name must be None or a str"):
            make(wrong)
    with pytest.raises(ValueError, match="name must be non-empty"):
        make("")
    for wrong in (".", "a.b", "a.", Lying("a.b")):
        with pytest.raises(ValueError, match="name must not contain '.'"):
            make(wrong)
    named = make("w")
    assert named.name == "w" and type(make(Lying("w")).name) is str
    with pytest.raises(ValueError, match="name must not contain '.'"):
        named.name = "a.b"
    with pytest.raises(TypeError, match="name must be None or a str"):
        named.name = 3
    assert named.name == "w"
    named.name = None
    assert named.name is None


def test_what_is_computed_from_a_parameter_is_a_plain_tensor():
    weight = parameter(1.0, 2.0)
    results = [weight + 1, 1 - weight, -weight, weight * weight, orlop.exp(weight), weight == 1.0, weight[0:1],
               orlop.permute(weight, 0), orlop.unsqueeze(weight, 0)]  # fmt: skip
    assert {type(result) for result in results} == {Tensor}
    assert weight.carrier is results[-1].carrier


def test_gradients_arrive_at_the_parameter_itself():
    weight = parameter(1.0, 2.0)
    product = weight * weight
    assert product.autograd_ctx.inputs()[0] is weight
    friendly.sum(product).backward()
    assert type(weight.grad) is Tensor and friendly.to_list(weight.grad) == [2.0, 4.0]
    (towards,) = orlop.grad(friendly.sum(weight * 3), [weight], friendly.ones(1))
    assert friendly.to_list(towards) == [3.0, 3.0]


def test_parameter_says_what_it_is():
    assert repr(parameter(1.0, name="w")) == (
        "Parameter(1.0, shape=(1,), strides=(1,), dtype=Float32, carrier=CPU, residency=resident, version=0, name='w')"
    )


def test_parameter_takes_no_other_attributes_and_is_not_copied():
    weight = parameter(1.0)
    with pytest.raises(AttributeError):
        weight.other = 1
    with pytest.raises(AttributeError):
        weight.carrier = CPU(1)
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="friendly.to_list"):
            copying(weight)


@pytest.mark.filterwarnings("ignore:nanobind")
def test_parameter_that_was_never_initialised_raises_only():
    hollow = Parameter.__new__(Parameter)
    for use in (lambda: hollow.name, lambda: hollow.carrier, lambda: orlop.exp(hollow), lambda: hollow + 1,
                lambda: Parameter(hollow), lambda: repr(hollow)):  # fmt: skip
        with pytest.raises((TypeError, AttributeError)):
            use()


def test_subclass_of_parameter_is_collected_with_its_cycles():
    class Tagged(Parameter):
        pass

    tagged = Tagged(friendly.ones(2), name="w")
    tagged.product = tagged * 2.0  # the graph holds its operand, which holds the result
    watch = weakref.ref(tagged)
    del tagged
    gc.collect()
    assert watch() is None


# --- Module (M803-M805) ------------------------------------------------------------------------------------------


def named(module):
    return [name for name, _ in module.get_named_parameters()]


def test_public_attributes_register():
    module = Module()
    module.weight, module.plain, module.number = parameter(1.0), friendly.ones(2), 3
    module._hidden, module._child, module.child = parameter(2.0), Module(), Module()
    module.listed = [parameter(3.0)]
    assert [id(p) for p in module.parameters()] == [id(module.weight)]
    assert named(module) == ["weight"]
    assert module.modules() == (module, module.child)


def test_reassigning_and_deleting_updates():
    module = Module()
    module.first, module.second = parameter(1.0), parameter(2.0)
    module.first = replacement = parameter(3.0)
    assert [id(p) for p in module.parameters()] == [id(replacement), id(module.second)]
    module.first = friendly.ones(1)
    assert named(module) == ["second"]
    module.first = Module()
    assert len(module.modules()) == 2
    del module.first, module.second
    assert module.parameters() == () and module.modules() == (module,)
    with pytest.raises(AttributeError):
        del module.second


def test_modules_are_listed_in_pre_order_each_once():
    root, left, right, shared = (Module(name=name) for name in ("root", "left", "right", "shared"))
    root.left, root.right = left, right
    left.shared, right.shared, right.root = shared, shared, root
    assert root.modules() == (root, left, shared, right)
    assert isinstance(root.modules(), tuple)
    assert right.modules() == (right, shared, root, left)


def test_own_parameters_come_first_and_shared_ones_once_at_their_first_path():
    root, child = Module(), Module()
    root.child, root.weight = child, parameter(1.0)
    child.tied, child.own, child.again = root.weight, parameter(2.0), child
    root.late = child.own
    assert named(root) == ["weight", "late"]
    del root.late
    assert named(root) == ["weight", "child.own"]
    assert [id(p) for p in root.parameters()] == [id(root.weight), id(child.own)]
    assert isinstance(root.parameters(), tuple) and isinstance(root.get_named_parameters(), tuple)


def test_a_name_replaces_its_segment_and_the_root_adds_none():
    root, encoder, block = Module(name="model"), Module(name="enc"), Module()
    root.encoder, encoder.block = encoder, block
    root.scale, block.weight, block.bias = parameter(1.0), parameter(2.0, name="w"), parameter(3.0)
    assert named(root) == ["scale", "enc.block.w", "enc.block.bias"]
    assert named(encoder) == ["block.w", "block.bias"]
    encoder.name, block.name, block.weight.name = None, "deep", None
    assert named(root) == ["scale", "encoder.deep.weight", "encoder.deep.bias"]


def test_parameters_that_share_storage_are_two():
    module, values = Module(), friendly.ones(2)
    module.a, module.b = Parameter(values), Parameter(values)
    assert named(module) == ["a", "b"]


def test_forward_is_for_subclasses_and_calling_forwards():
    with pytest.raises(NotImplementedError, match="forward"):
        Module()(1)
    with pytest.raises(NotImplementedError, match="forward"):
        Module().forward()

    class Sum(Module):
        def forward(self, *numbers, start):
            return sum(numbers, start)

    assert Sum()(1, 2, start=3) == 6
    with pytest.raises(TypeError):
        Sum()(1)


def test_module_that_skips_the_base_constructor_still_works():
    class Bare(Module):
        def __init__(self):
            self.weight = parameter(1.0)

    assert Bare().name is None and named(Bare()) == ["weight"]


def test_long_chains_and_cycles_of_modules_are_walked():
    root = module = Module()
    for _ in range(5_000):
        module.next = Module()
        module = module.next
    module.weight, module.next = parameter(1.0), root
    assert len(root.modules()) == 5_001
    assert named(root) == ["next." * 5_000 + "weight"]


def test_cycle_of_modules_and_parameters_is_collected():
    class Held(Module):
        pass

    module = Held()
    module.weight, module.me = parameter(1.0), module
    module.loss = friendly.sum(module.weight * 2.0)
    module.loss.backward()
    watches = weakref.ref(module), weakref.ref(module.weight)
    del module
    gc.collect()
    assert [watch() for watch in watches] == [None, None]


# --- orlop.nn (M806-M809) ----------------------------------------------------------------------------------------

ACTIVATIONS = {
    "ELU": "elu",
    "GELU": "gelu",
    "LeakyReLU": "leaky_relu",
    "ReLU": "relu",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Tanh": "tanh",
}


def test_the_module_exports_its_classes():
    assert set(nn.__all__) == {*ACTIVATIONS, "Linear", "MSELoss", "SGD"}
    assert all(issubclass(getattr(nn, name), Module) for name in nn.__all__ if name != "SGD")
    assert set(nn.__all__).isdisjoint(orlop.__all__) and {"Module", "Parameter"} <= set(orlop.__all__)


def test_importing_the_package_loads_no_module_of_nn():
    seen = "import sys, orlop; print([m for m in sys.modules if m.startswith(('orlop.nn', 'orlop.core', 'numpy'))])"
    result = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_call_the_operation_of_their_name(name):
    module = getattr(nn, name)(name="act")
    assert module.name == "act" and module.parameters() == ()
    x = tensor(np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4))
    result = module(x)
    np.testing.assert_array_equal(array(result), array(getattr(orlop, ACTIVATIONS[name])(x)))
    assert result.autograd_ctx._operation_name == ACTIVATIONS[name]
    for wrong in (None, 1.0, [1.0]):
        with pytest.raises(TypeError):
            module(wrong)


def test_linear_draws_weight_and_bias_by_ordinal():
    layer, rng = nn.Linear(3, 2, rng=random.Random(7), name="fc"), random.Random(7)
    bound = 3**-0.5
    draws = np.array([rng.uniform(-bound, bound) for _ in range(8)], np.float32)
    np.testing.assert_array_equal(friendly.to_list(layer.weight), draws[:6])
    np.testing.assert_array_equal(friendly.to_list(layer.bias), draws[6:])
    assert layer.weight.layout == friendly.column_major(2, 3) and layer.bias.layout == friendly.column_major(2, 1)
    assert type(layer.weight.carrier) is CPU and layer.weight.dtype() is DType.Float32 and layer.name == "fc"
    assert (layer.in_features, layer.out_features) == (3, 2) and named(layer) == ["weight", "bias"]
    bare, rng = nn.Linear(3, 2, bias=False, rng=rng), None
    assert bare.bias is None and named(bare) == ["weight"]
    assert friendly.to_list(nn.Linear(3, 2).weight) != friendly.to_list(nn.Linear(3, 2).weight)


@pytest.mark.parametrize("bias", [True, False])
def test_linear_multiplies_and_adds(bias):
    layer = nn.Linear(3, 2, bias=bias, rng=random.Random(1))
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    result = layer(tensor(x))
    expected = x @ array(layer.weight).T + (array(layer.bias)[:, 0] if bias else 0)
    np.testing.assert_allclose(array(result), expected, rtol=1e-6)
    friendly.sum(result).backward()
    np.testing.assert_allclose(array(layer.weight.grad), np.tile(x.sum(0), (2, 1)), rtol=1e-5, atol=1e-6)
    if bias:
        assert friendly.to_list(layer.bias.grad) == [4.0, 4.0] and layer.bias.grad.layout == layer.bias.layout
    row_major = tensor(x, strides=(3, 1))
    np.testing.assert_array_equal(array(layer(row_major)), array(result))


def test_linear_refuses_wrong_features():
    for wrong in (0, -1, -(10**30)):
        for features in ((wrong, 2), (2, wrong)):
            with pytest.raises(ValueError, match="> 0"):
                nn.Linear(*features)
    for wrong in (2.0, "2", None, True):
        for features in ((wrong, 2), (2, wrong)):
            with pytest.raises(TypeError):
                nn.Linear(*features)
    for size in (2**62, 2**63, 10**30):
        with pytest.raises((OverflowError, MemoryError, ValueError)):
            nn.Linear(size, 2**10)
    for bias in (None, 1, "yes"):
        with pytest.raises(TypeError, match="bias"):
            nn.Linear(1, 1, bias=bias)
    with pytest.raises(AttributeError):
        nn.Linear(1, 1, rng=3)
    with pytest.raises(TypeError):
        nn.Linear(1, 1, True)
    with pytest.raises(ValueError, match="name must not contain '.'"):
        nn.Linear(1, 1, name="a.b")


def test_linear_refuses_wrong_inputs():
    layer = nn.Linear(3, 2)
    nested = Tensor(CPU(12), 0, Layout(Shape((2, 2), 3), Stride((1, 2), 4)))
    for wrong in (friendly.ones(3), friendly.ones(4, 3, 1), nested, Tensor(CPU(1), 0, Layout(Shape(), Stride()))):
        with pytest.raises(ValueError, match="flat two-mode"):
            layer(wrong)
    with pytest.raises(ValueError, match="input features"):
        layer(friendly.ones(3, 2))
    for wrong in (None, 3, [[1.0, 2.0, 3.0]], np.ones((1, 3))):
        with pytest.raises(TypeError, match="input must be a Tensor"):
            layer(wrong)
    with pytest.raises(TypeError):
        layer(tensor(np.ones((1, 3), np.float32), kind=Generic))


def test_linear_works_where_its_parameters_live():
    layer = nn.Linear(3, 2, rng=random.Random(3))
    x = tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
    expected = array(layer(x)).ravel(order="F").tolist()
    for name in ("weight", "bias"):
        held = getattr(layer, name)
        pair = Evictable(held.carrier, FileBacked(dtype=DType.Float32))
        setattr(layer, name, Parameter(pair, held.offset, held.layout))
    placed = Tensor(Evictable(x.carrier, FileBacked(dtype=DType.Float32)), x.offset, x.layout)
    result = layer(placed)
    assert type(result.carrier) is Evictable and friendly.to_list(result) == expected
    friendly.sum(result).backward()
    nn.SGD(layer.parameters(), 0.5).step()
    assert all(p.version > 0 for p in layer.parameters())


def test_mse_loss_is_the_mean_of_squares():
    prediction, target = tensor(np.float32([[1, 2], [3, 5]])), tensor(np.float32([[1, 0], [0, 4]]))
    loss = nn.MSELoss()(prediction, target)
    assert loss.layout == Layout(Shape(1), Stride(1)) and friendly.item(loss) == 3.5
    loss.backward()
    np.testing.assert_array_equal(array(prediction.grad), [[0, 1], [1.5, 0.5]])
    np.testing.assert_array_equal(array(target.grad), [[0, -1], [-1.5, -0.5]])


def test_mse_loss_refuses_other_layouts():
    loss, matrix = nn.MSELoss(), friendly.ones(2, 3)
    nested = Tensor(CPU(12), 0, Layout(Shape((2, 2), 3), Stride((1, 2), 4)))
    for wrong in (friendly.ones(6), friendly.ones(2, 3, 1), nested):
        for operands in ((wrong, matrix), (matrix, wrong), (wrong, wrong)):
            with pytest.raises(ValueError, match="flat two-mode"):
                loss(*operands)
    for other in (friendly.ones(3, 2), friendly.ones(2, 1), tensor(np.ones((2, 3), np.float32), strides=(3, 1))):
        with pytest.raises(ValueError, match="layouts must match"):
            loss(matrix, other)
    for wrong in (None, 1.0, np.ones((2, 3))):
        with pytest.raises(TypeError, match="must be a Tensor"):
            loss(matrix, wrong)


@pytest.mark.parametrize("lr", [0.1, 1, np.float32(0.25)])
def test_sgd_writes_against_the_gradient(lr):
    first, second, still = parameter(1.0, 2.0), parameter(-3.0), parameter(5.0)
    optimizer = nn.SGD(iter([first, second, first, still]), lr)
    friendly.sum(first * first).backward()
    friendly.sum(second * 4.0).backward()
    optimizer.step()
    step = np.float32(lr)
    expected = np.float32([1, 2]) - np.float32([2, 4]) * step
    assert friendly.to_list(first) == expected.tolist()
    assert friendly.to_list(second) == [np.float32(-3) - np.float32(4) * step]
    assert friendly.to_list(still) == [5.0] and still.version == 0
    assert first.autograd_ctx is None and first.grad is not None and orlop.is_grad_enabled()
    optimizer.zero_grad()
    assert (first.grad, second.grad, still.grad) == (None, None, None)
    optimizer.step()
    assert friendly.to_list(first) == expected.tolist()


KINDS = {
    "CPU": lambda values: CPU(0).new_like(values),
    "Generic": lambda values: Generic(values, dtype=DType.Float32),
    "Evictable": lambda values: Evictable(CPU(0).new_like(values), FileBacked(dtype=DType.Float32)),
    "FileBacked": lambda values: FileBacked(dtype=DType.Float32).new_like(values),
    "Python": lambda values: ListCarrier(values),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lay", [canonical((2, 3)), Layout(Shape((2,), 3), Stride((4,), 1))])
def test_writing_gives_the_same_bits_on_every_carrier(kind, lay):
    values = np.float32([0.1 * i for i in range(lay.cosize + 2)]).tolist()
    written = Parameter(KINDS[kind](values), 1, lay)
    model = np.float32(values)
    places = [1 + lay(i) for i in range(6)]
    written.grad = Tensor(KINDS[kind]([0.3 * i for i in range(lay.cosize)]), 0, lay)
    nn.SGD([written], 0.7).step()
    slopes = np.float32([0.3 * i for i in range(lay.cosize)])[[lay(i) for i in range(6)]]
    model[places] -= slopes * np.float32(0.7)
    assert [written.carrier[i] for i in range(len(values))] == model.tolist()
    init.fill_(written, 0.1)
    model[places] = 0.1
    assert [written.carrier[i] for i in range(len(values))] == model.tolist()
    init.kaiming_uniform_(written, 4, rng=random.Random(5))
    rng = random.Random(5)
    model[places] = [rng.uniform(-0.5, 0.5) for _ in range(6)]
    assert [written.carrier[i] for i in range(len(values))] == model.tolist()


def test_sgd_refuses_what_is_no_parameter_or_rate():
    weight = parameter(1.0)
    for wrong in (0, 0.0, -1, -0.5, math.nan, math.inf):
        with pytest.raises(ValueError, match="lr must be positive"):
            nn.SGD([weight], wrong)
    for wrong in (None, "0.1", 1j, True, weight):
        with pytest.raises(TypeError, match="lr must be a real number"):
            nn.SGD([weight], wrong)
    for wrong in (None, 3, weight, Module(), [CPU(1)], [weight, None], [1.0]):
        with pytest.raises(TypeError):
            nn.SGD(wrong, 0.1)
    with pytest.raises(TypeError):
        nn.SGD([weight])
    assert nn.SGD([], lr=0.1).step() is None


def test_sgd_writes_nothing_where_one_parameter_cannot_be_written():
    first, fixed = parameter(1.0), Parameter(CPU(0).new_like([2.0], mutable=False), 0, canonical((1,)))
    for one in (first, fixed):
        friendly.sum(one * one).backward()
    with pytest.raises(RuntimeError, match="cannot be written"):
        nn.SGD([first, fixed], 0.1).step()
    assert friendly.to_list(first) == [1.0] and first.version == 0
    away = Parameter(Evictable(CPU(1), FileBacked(dtype=DType.Float32)), 0, canonical((1,)))
    friendly.sum(away * 2.0).backward()
    away.carrier.evict()
    with pytest.raises(RuntimeError, match="promote"):
        nn.SGD([first, away], 0.1).step()
    integer = Parameter(friendly.ones(2, dtype=DType.Int32))
    with pytest.raises(RuntimeError):
        nn.SGD([first, integer], 0.1).step()
    assert first.version == 0


# --- orlop.nn.init (M810) ----------------------------------------------------------------------------------------


def test_fill_writes_every_element():
    weight = Parameter(CPU(9), 1, Layout(Shape(2, 3), Stride(4, 1)))
    assert init.fill_(weight, 2) is None
    assert friendly.to_list(weight) == [2.0] * 6 and [weight.carrier[i] for i in (0, 4, 8)] == [0.0] * 3
    flags, counts = (Parameter(friendly.zeros(2, dtype=dtype)) for dtype in (DType.Bool, DType.Int32))
    init.fill_(flags, True)
    init.fill_(counts, -(2**31))
    assert friendly.to_list(flags) == [True, True] and friendly.to_list(counts) == [-(2**31)] * 2
    for wrong, error in (("1", TypeError), (None, TypeError), (2**31, (OverflowError, ValueError))):
        with pytest.raises(error):
            init.fill_(counts, wrong)
    assert counts.version == 1


def test_initialisers_refuse_bad_input_and_write_nothing():
    weight = parameter(1.0, 2.0)
    for wrong in (0, -3):
        with pytest.raises(ValueError, match="> 0"):
            init.kaiming_uniform_(weight, wrong, rng=random)
    for wrong in (2.0, None, True, "3"):
        with pytest.raises(TypeError):
            init.kaiming_uniform_(weight, wrong, rng=random)
    with pytest.raises(TypeError):
        init.kaiming_uniform_(weight, 2)
    for wrong in (None, CPU(1), [1.0]):
        with pytest.raises(TypeError, match="parameter must be a Tensor"):
            init.fill_(wrong, 1.0)
        with pytest.raises(TypeError, match="parameter must be a Tensor"):
            init.kaiming_uniform_(wrong, 1, rng=random)

    class Stops:
        left = 1

        def uniform(self, low, high):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return low

    with pytest.raises(KeyboardInterrupt):
        init.kaiming_uniform_(weight, 1, rng=Stops())
    with pytest.raises(NotImplementedError, match="Multi-subtensor Tensor mutation"):
        init.fill_(compound_tensor(), 1.0)
    fixed = Parameter(CPU(0).new_like([2.0], mutable=False), 0, canonical((1,)))
    with pytest.raises(RuntimeError):
        init.fill_(fixed, 1.0)
    assert friendly.to_list(weight) == [1.0, 2.0] and weight.version == 0
    init.kaiming_uniform_(weight, 1, rng=None)
    assert weight.version == 1


# --- Training (§9, 23) -------------------------------------------------------------------------------------------


class Perceptron(Module):
    def __init__(self, rng, *, name=None):
        super().__init__(name=name)
        self.hidden, self.activation = nn.Linear(2, 8, rng=rng), nn.Tanh()
        self.output = nn.Linear(8, 1, rng=rng, name="out")

    def forward(self, x):
        return self.output(self.activation(self.hidden(x)))


def curved():
    """Sixteen points of the plane and a - b + a b / 2 at each."""
    rng = random.Random(0)
    points = [[rng.uniform(-1, 1), rng.uniform(-1, 1)] for _ in range(16)]
    return friendly.tensor(points), friendly.tensor([[a - b + a * b / 2] for a, b in points])


@pytest.mark.parametrize("seed", range(3))
def test_a_perceptron_learns_in_fifty_steps(seed):
    model = Perceptron(random.Random(seed), name="model")
    assert named(model) == ["hidden.weight", "hidden.bias", "out.weight", "out.bias"]
    (x, target), loss_function, optimizer = curved(), nn.MSELoss(), nn.SGD(model.parameters(), lr=0.2)
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = loss_function(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(friendly.item(loss))
    assert friendly.item(loss_function(model(x), target)) < losses[0] / 10


def test_backward_after_step_is_refused():
    model = Perceptron(random.Random(0))
    x, target = curved()
    loss = nn.MSELoss()(model(x), target)
    loss.backward(retain_graph=True)
    nn.SGD(model.parameters(), lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified in-place"):
        loss.backward()
