"""The Metal carrier: every advertised plan in every geometry, storage, moves, faults, and the choice
of the runtime (design 06)."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from arrays import array, canonical, tensor
from list_carrier import ListHooks
from metal_device import RUNTIME, metal_device  # noqa: F401
from models import BOOL, ELEMENTWISE, FLOAT, INT, PLANS_OF_ALL, plan_name
from test_grid import cell, is_broadcasting, near, same_bits

import orlop
from orlop import CPU, Carrier, Evictable, FileBacked, Generic, Layout, Metal, Shape, Stride, Tensor, TiledEvictable, functional
from orlop._core import _replace_metal_runtime
from orlop.carriers import metal
from orlop.carriers.move import CpuToMetalMoveOperation, MetalToCpuMoveOperation, MetalToMetalMoveOperation, dispatch_move
from orlop.carriers.operation_capability import (
    UnsupportedOperationPlan,
    capabilities_for_carrier_class,
    supports_operation_plan,
)
from orlop.carriers.operation_policy import registered_operations

LENGTHS = [1, 3, 8, 9, 33, 1000]
# Units in the last place from the exact value, where Metal's own bound is wider than the other carriers': what the
# emulator shows, and what the Metal Shading Language promises for a device (docs/metal.md).
EMULATED = {"elu": 2, "erf": 2, "tanh": 3}
DEVICE = {
    **dict.fromkeys(["exp", "exp2", "log", "log2", "sin", "cos"], 4),
    **{"elu": 8, "erf": 4, "pow": 16, "rsqrt": 2, "sigmoid": 8, "silu": 9, "softplus": 8, "tanh": 5},
}
ULP = EMULATED if RUNTIME == "emulated" else DEVICE
SUBNORMAL = [1e-42, -1e-42] if RUNTIME == "emulated" else []  # a device may take them for 0


pytestmark = pytest.mark.usefixtures("metal_device")
on_the_emulator = pytest.mark.skipif(RUNTIME != "emulated", reason="about the emulator")

# --- Operations

PLANS = [plan for plan in PLANS_OF_ALL if supports_operation_plan(Metal, plan)]
CELLS = [
    (plan, way)
    for plan in PLANS
    for way in ["contiguous", "strided", "repeated", "widened"]
    if way != "widened" or is_broadcasting(plan)
]


def kept(values):
    """What a device keeps of results below 2^-126."""
    if RUNTIME == "emulated" or values.dtype.kind != "f":
        return values
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(0, values), values).astype(values.dtype)


@pytest.mark.parametrize(("plan", "way"), CELLS, ids=[f"{plan_name(plan)}-{way}" for plan, way in CELLS])
def test_an_advertised_plan_agrees_with_the_reference(plan, way):
    for length in LENGTHS:
        each = cell(plan, length, way)
        result = each.run(Metal)
        assert type(result.carrier) is Metal and result.carrier.dtype() is plan.output
        assert result.layout == canonical(tuple(result.shape)) and result.offset == 0
        values = array(result)
        if plan.output is FLOAT and (each.bound is not None or each.ulp > 0):
            near(kept(values), each._replace(expected=kept(each.expected), ulp=ULP.get(plan.operation, each.ulp)))
        else:
            same_bits(kept(values), kept(array(each.run(Generic))))


@pytest.mark.parametrize("spec", registered_operations(), ids=lambda spec: spec.name)
def test_dispatch_dispatch_every_registered_metal_name(spec):
    plans = [plan for plan in PLANS if plan.operation == spec.name]
    assert plans, "every registered name has a plan on Metal"
    carrier = Metal(1)
    first, second = carrier.dispatch_op(spec.name), carrier.dispatch_op(spec.name)
    assert first is not second
    for operation in (first, second):
        assert operation._operation_name == spec.name and operation._dispatch_carrier_class is Metal
    assert type(cell(plans[0], 3, "contiguous").run(Metal).carrier) is Metal


@pytest.mark.parametrize("spec", registered_operations(), ids=lambda spec: spec.name)
def test_what_metal_does_not_advertise_is_refused(spec):
    for plan in PLANS_OF_ALL:
        if plan.operation == spec.name and not supports_operation_plan(Metal, plan):
            with pytest.raises(UnsupportedOperationPlan):
                cell(plan, 1, "contiguous").run(Metal)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, *SUBNORMAL, 3.4e38, -3.4e38, 1.0, -1.0, 0.5, 2.5], np.float32)
UNARY = {plan.operation for plan in PLANS if plan.operation in ELEMENTWISE and len(plan.operands) == 1}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_special_values_are_those_of_the_reference(name):
    run = [array(getattr(functional, name)(tensor(SPECIAL, kind=kind))) for kind in (Metal, Generic)]
    ordinary = np.isfinite(run[1]) & (run[1] != 0) if run[1].dtype == np.float32 else np.zeros(len(SPECIAL), bool)
    np.testing.assert_array_equal(run[0][~ordinary], run[1][~ordinary])
    zeros = run[1] == 0
    if run[1].dtype == np.float32:
        np.testing.assert_array_equal(np.signbit(run[0][zeros]), np.signbit(run[1][zeros]))
        np.testing.assert_allclose(run[0][ordinary], run[1][ordinary], rtol=1e-6, atol=3e-44)


def reduced(name):
    return lambda x: x.carrier.dispatch_op(name).forward(Tensor(x.carrier, 0, Layout(Shape(1, 3), Stride(1, 1))))


@pytest.mark.parametrize("call", [
    lambda x: functional.add(x, x),
    lambda x: functional.mul(x, 2),
    lambda x: functional.sub(functional.neg(functional.relu(x)), 2),
    lambda x: functional.pow(x, 3),
    lambda x: functional.rem(x, functional.sub(x, x)),
    lambda x: functional.matmul(functional.reshape(x, Shape(3, 1)), functional.reshape(x, Shape(3, 1))),
    lambda x: functional.cumsum(x, 0),
    lambda x: functional.scatter_add(x, functional.sub(x, x), x, 0),
    reduced("reduce_sum"),
    reduced("reduce_prod"),
])
def test_what_leaves_int32_is_the_error_of_the_other_carriers_and_returns_nothing(call):
    messages = []
    for kind in (Metal, CPU):
        x = tensor(np.array([2**31 - 1, -5, 2**31 - 1], np.int32), kind=kind)
        with pytest.raises((OverflowError, ValueError), match="Int32") as raised:
            call(x)
        messages.append((raised.type, str(raised.value)))
        assert x.carrier.version == 0
        np.testing.assert_array_equal(array(functional.relu(x)), [2**31 - 1, 0, 2**31 - 1])
    assert messages[0] == messages[1]


LEAST, GREATEST = -(2**31), 2**31 - 1


@pytest.mark.parametrize(("call", "values", "expected"), [
    # 2^62 + 2^62 leaves 64 bits
    (functional.matmul, [[[LEAST, LEAST, LEAST, LEAST, 2**16, 3]], [[LEAST, LEAST, GREATEST, GREATEST, -(2**16), 1]]], [[3]]),
    (functional.matmul, [[[LEAST, LEAST, LEAST, LEAST, 2**16, 3]], [[LEAST, LEAST, GREATEST, GREATEST, -(2**16), -1]]], [[-3]]),
    (functional.rem, [[LEAST, -5, 5, 7], [-1, 3, -3, LEAST]], [0, -2, 2, 7]),
    (lambda x, y: functional.scatter_add(x, functional.sub(y, y), y, 0), [[GREATEST, 3], [GREATEST, LEAST, -9]], [GREATEST - 10, 3]),
])
def test_integers_are_exact_however_large_they_are_on_the_way(call, values, expected):
    result = call(*(tensor(np.array(value, np.int32), kind=Metal) for value in values))
    np.testing.assert_array_equal(array(result), expected)


@pytest.mark.parametrize(("base", "exponent"), [(0, 0), (0, 5), (-1, 2**31 - 1), (-2, 31), (2, 30), (7, 1), (46340, 2), (-1290, 3), (LEAST, 1)])
def test_powers_of_integers(base, exponent):
    assert array(functional.pow(tensor(np.array([base], np.int32), kind=Metal), exponent)).tolist() == [base**exponent]


def test_a_zero_brings_a_product_back_and_the_order_of_rows_does_not_matter():
    rows = np.full((3, 300), 2, np.int32)
    rows[0, 200], rows[1], rows[2, :] = 0, -1, 1
    rows[2, 250] = LEAST
    x = tensor(rows, kind=Metal)
    np.testing.assert_array_equal(array(x.carrier.dispatch_op("reduce_prod").forward(x)).ravel(), [0, 1, LEAST])


def test_sums_of_many_rows_and_long_rows():
    for extents in [(3, 1), (1, 127), (2, 128), (2, 129), (5, 3000)]:
        values = np.random.default_rng(1).integers(-9, 9, extents).astype(np.float32)
        on_metal = tensor(values, kind=Metal)
        sums = on_metal.carrier.dispatch_op("reduce_sum").forward(on_metal)
        np.testing.assert_array_equal(array(sums), values.sum(axis=1))


CONVOLUTIONS = [
    {"strides": [2, 1], "padding": [(1, 2), (0, 1)]},
    {"strides": [1, 1], "padding": [(0, 0), (2, 2)], "lhs_dilation": [2, 3], "kernel_dilation": [1, 2]},
    {"strides": [1, 1], "padding": [(0, 0), (0, 0)], "feature_groups": 2},
    {"strides": [1, 2], "padding": [(1, 1), (1, 1)], "lhs_dims": [3, 0, 1, 2], "kernel_dims": [3, 2, 0, 1], "output_dims": [3, 0, 1, 2]},
]


@pytest.mark.parametrize("options", CONVOLUTIONS)
def test_convolutions_of_every_kind(options):
    random = np.random.default_rng(3)
    shape_of_role = {0: 2, 1: 4, 2: 6, 3: 5}
    lhs_roles = options.get("lhs_dims", [0, 1, 2, 3])
    lhs_shape = [0] * 4
    for role, mode in enumerate(lhs_roles):
        lhs_shape[mode] = shape_of_role[role]
    kernel_extents = [4, 4 // options.get("feature_groups", 1), 3, 2]
    kernel_shape = [0] * 4
    for role, mode in enumerate(options.get("kernel_dims", [0, 1, 2, 3])):
        kernel_shape[mode] = kernel_extents[role]
    lhs = random.integers(-4, 5, lhs_shape).astype(np.float32)
    kernel = random.integers(-4, 5, kernel_shape).astype(np.float32)
    results = []
    for kind in (Metal, CPU):
        x, w = tensor(lhs, kind=kind), tensor(kernel, kind=kind)
        y = functional.conv_general(x, w, **options)
        y.backward(Tensor(kind(0).new_like([1.0] * y.size()), 0, y.layout))
        results.append([array(each) for each in (y, x.grad, w.grad)])
    for on_metal, on_cpu in zip(*results, strict=True):
        np.testing.assert_array_equal(on_metal, on_cpu)  # small integers: every order of summation is exact


def test_holes_of_a_convolution_meet_infinities_as_on_the_other_carriers():
    options = {"strides": [1], "padding": [(1, 1)]}
    results = []
    for kind in (Metal, CPU):
        x = tensor(np.array([[[1, 2, 3]]], np.float32), kind=kind)
        w = tensor(np.array([[[np.inf, 1, -1]]], np.float32), kind=kind)
        y = functional.conv_general(x, w, **options)
        y.backward(tensor(np.array([[[1, np.inf, 2]]], np.float32), kind=kind))
        results.append([array(each) for each in (y, x.grad, w.grad)])
    for on_metal, on_cpu in zip(*results, strict=True):
        np.testing.assert_array_equal(on_metal, on_cpu)


@pytest.mark.parametrize("options", [
    {"strides": [1], "padding": [(0, 0)], "lhs_dilation": [2**32]},
    {"strides": [2**33], "padding": [(2**33, 2**33)]},
    {"strides": [2**32], "padding": [(0, 2**32)], "kernel_dilation": [2**32]},
])
def test_a_convolution_whose_places_need_more_than_32_bits(options):
    on_metal, on_cpu = (
        array(functional.conv_general(*(tensor(np.full((1, 1, 1), 3, np.float32), kind=kind) for _ in "xw"), **options)) for kind in (Metal, CPU)
    )
    np.testing.assert_array_equal(on_metal, on_cpu)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_axis_between_others(axis, dtype):
    random = np.random.default_rng(4)
    values = random.integers(-3, 4, (3, 5, 4)).astype(dtype)
    if dtype is np.float32:
        values[1, 2, 3], values[0, 0, 0] = np.nan, -0.0
    indices = np.array([2, 0, 2], np.int32)
    calls = [
        lambda x, at: functional.sort(x, axis, descending=True).values,
        lambda x, at: functional.sort(x, axis).indices,
        lambda x, at: functional.topk(x, 2, axis).values,
        lambda x, at: functional.topk(x, 2, axis, largest=False).indices,
        lambda x, at: functional.gather(x, at, axis),
        lambda x, at: functional.scatter_add(x, at, functional.gather(x, at, axis), axis),
    ]
    for call in calls:
        on_metal, on_cpu = (array(call(tensor(values, kind=kind), tensor(indices, kind=kind))) for kind in (Metal, CPU))
        np.testing.assert_array_equal(on_metal, on_cpu)


def test_gradients_flow_on_metal():
    values = np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
    gradients = []
    for kind in (Metal, CPU):
        x = tensor(values, kind=kind)
        y = functional.gelu(functional.matmul(x, x))
        y.backward(tensor(np.ones((4, 4), np.float32), kind=kind))
        assert type(x.grad.carrier) is kind
        gradients.append(array(x.grad))
    np.testing.assert_allclose(*gradients, rtol=2e-6, atol=2e-6)


def test_views_stay_on_the_same_storage():
    x = tensor(np.arange(6, dtype=np.float32).reshape(2, 3), kind=Metal)
    for view in (functional.permute(x, 1, 0), functional.reshape(x, Shape(6)), functional.unsqueeze(x, 0)):
        assert view.carrier is x.carrier


# --- Storage


def test_storage_allocate_initialized_metal_storage():
    carrier = Metal(3, dtype=FLOAT)
    assert carrier.size() == 3 and carrier.dtype() is FLOAT
    assert carrier.is_mutable() and not carrier.is_released()
    assert [carrier[i] for i in range(3)] == [0.0, 0.0, 0.0]
    assert [Metal(1, dtype=dtype)[0] for dtype in (INT, BOOL)] == [0, False]


def test_storage_query_support_independently_of_current_storage():
    carrier = Metal(2, dtype=FLOAT)
    for _ in range(2):
        assert carrier.supports_storage_dtype(INT) is True
        carrier.release()


class LateFailure(ListHooks, Carrier):
    def get_value(self, index):
        if index == 1:
            raise OSError("the second value")
        return super().get_value(index)

    def _supports_storage_dtype(self, dtype):
        return dtype is FLOAT


def test_storage_fail_metal_scatter_atomically():
    carrier = Metal(0).new_like([1.0, 2.0, 3.0])
    onto = Tensor(carrier, 0, canonical((3,)))
    source = tensor(np.array([7.0, 8.0], np.float32))
    with pytest.raises(IndexError, match="range"):
        carrier.scatter(source, onto, Layout(Shape(2), Stride(2)), 1)
    late = Tensor(LateFailure([9.0, 9.0]), 0, canonical((2,)))
    with pytest.raises(OSError, match="the second value"):
        carrier.scatter(late, onto, Layout(Shape(2), Stride(2)), 0)
    assert [carrier[i] for i in range(3)] == [1.0, 2.0, 3.0] and carrier.version == 0
    carrier.scatter(source, onto, Layout(Shape(2), Stride(2)), 0)
    assert [carrier[i] for i in range(3)] == [7.0, 2.0, 8.0] and carrier.version == 1


def test_more_slots_than_kernels_count_are_refused_with_the_numbers():
    with pytest.raises(MemoryError, match="2147483393 slots.*2147483392"):
        Metal(2147483393)


def test_an_order_that_kernels_cannot_count_is_refused_with_the_numbers():
    x = Tensor(Metal(2**30 + 1, empty=True), 0, canonical((2**30 + 1,)))
    with pytest.raises(MemoryError, match="temporary buffer of 2147483648 slots.*2147483392 at most"):
        functional.topk(x, 1)


def test_no_dlpack():
    with pytest.raises(BufferError):
        Tensor(Metal(2), 0, canonical((2,))).__dlpack__()


# --- Moves


@pytest.mark.parametrize(("source", "destination", "operation"), [
    (CPU, Metal, CpuToMetalMoveOperation),
    (Metal, CPU, MetalToCpuMoveOperation),
    (Metal, Metal, MetalToMetalMoveOperation),
])
@pytest.mark.parametrize("values", [
    np.array([1.5, -0.0, np.nan, np.inf], np.float32), np.array([1, -2, 2**31 - 1, 0], np.int32), np.array([1, 0, 1, 1], bool),
])
def test_a_move_copies_the_span(source, destination, operation, values):
    assert dispatch_move(source, destination) is operation
    moving = tensor(values, strides=[2], offset=3, kind=source)
    target = destination(7, dtype=moving.carrier.dtype())
    moved = orlop.move(moving, target)
    assert moved.carrier is target and moved.offset == 0 and moved.layout == moving.layout
    assert moving.carrier.is_released()
    np.testing.assert_array_equal(array(moved), values)


def test_a_hierarchy_computes_on_metal_and_keeps_its_values_in_ram():
    values = np.array([1.0, -2.0, 3.0], np.float32)
    carrier = Evictable(Metal(0).new_like(values.tolist()), CPU(0))
    carrier.evict()
    carrier.promote()
    result = functional.relu(Tensor(carrier, 0, canonical((3,))))
    assert type(result.carrier) is Evictable and type(result.carrier.primary) is Metal
    assert [result.carrier[i] for i in range(3)] == [1.0, 0.0, 3.0]


def test_a_metal_tier_needs_registered_routes():
    with pytest.raises(RuntimeError, match="exact registered move operation"):
        Evictable(Metal(1), FileBacked(None, dtype=FLOAT))


def tiled(kind, budget=None):
    """The 4 x 6 numbers from 0 in tiles of 2 x 2."""
    seed = kind(0).new_like([float(slot) for slot in range(24)])
    return Tensor(TiledEvictable(seed, CPU(0), (2, 3), (2, 2), primary_budget_bytes=budget), 0, canonical((4, 6)))


@pytest.mark.parametrize("budget", [32, None])
@pytest.mark.parametrize("call", [
    lambda x, y: functional.relu(x),
    lambda x, y: functional.add(x, y),
    lambda x, y: functional.mul(x, 3.0),
    lambda x, y: functional.matmul(x, y),
    lambda x, y: x.carrier.dispatch_op("reduce_sum").forward(x),
])
def test_tiles_compute_on_metal(call, budget):
    results = []
    for kind in (Metal, CPU):
        x, y = tiled(kind, budget), tiled(kind, budget)
        result = call(x, y)
        assert type(result.carrier) is kind
        result.backward(tensor(np.ones(tuple(result.shape), np.float32), kind=kind))
        results.append((array(result), array(Tensor(x.grad.carrier, 0, x.layout))))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


# --- The runtime


def outcome(code, **environment):
    call = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(call, capture_output=True, text=True, env={**os.environ, **environment})
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@on_the_emulator
def test_the_emulator_is_never_chosen_silently():
    assert outcome("from orlop.carriers import metal; print(metal.runtime_info())", ORLOP_METAL_RUNTIME="") == "None"
    code = "import orlop; from orlop.carriers import metal; orlop.Metal(1); print(metal.runtime_info()['runtime'])"
    assert outcome(code, ORLOP_METAL_RUNTIME="emulated") == "emulated"
    misspelled = outcome(code, ORLOP_METAL_RUNTIME="emulator")
    assert misspelled.startswith("RuntimeError: [Metal] no Metal runtime is available: ORLOP_METAL_RUNTIME is emulator")
    assert outcome("import orlop; print(orlop.CPU(1)[0])", ORLOP_METAL_RUNTIME="emulator") == "0.0"
    assert outcome(code, ORLOP_METAL_RUNTIME="").startswith("RuntimeError: [Metal] no Metal runtime is available")


@on_the_emulator
def test_a_runtime_is_chosen_once():
    assert metal.runtime_info()["runtime"] == "emulated"
    metal.use_runtime("emulated")
    with pytest.raises(RuntimeError, match="there is no runtime apple here"):
        metal.use_runtime("apple")
    with pytest.raises(ValueError, match='no runtime has the name gpu; "apple" and "emulated" do'):
        metal.use_runtime("gpu")
    for name in (None, 3, b"apple"):
        with pytest.raises(TypeError, match="must be a str"):
            metal.use_runtime(name)


def test_capabilities_need_no_runtime():
    _replace_metal_runtime(None)
    assert {entry.operation for entry in capabilities_for_carrier_class(Metal)} == {spec.name for spec in registered_operations()}
