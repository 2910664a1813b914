"""sort and topk on CPU and Generic beside a stable order of NumPy's (P60, P69)."""

import itertools
import math

import numpy as np
import pytest
from arrays import array, canonical, carrier_of, leaf_index, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from list_carrier import ComputingCarrier

import orlop
from orlop import CPU, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride, Tensor
from orlop.operation import table_operation

KINDS = [CPU, Generic]
NAN, INF = math.nan, math.inf
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
SPECIAL = [NAN, -NAN, 0.0, -0.0, INF, -INF, 1.0, -1.0, 1e-45, -1e-45, 3e38, -3e38]


def floats(*values, kind=CPU):
    return tensor(np.array(values, np.float32), kind=kind)


def ints(*values, kind=CPU):
    return tensor(np.array(values, np.int32), kind=kind)


def bits(values):
    return np.ascontiguousarray(values).view(np.int32)


def stable_order(values, axis, descending=False):
    """The positions in order. NaN is the greatest and there is one zero, so each element has an exact rank."""
    ranks = np.unique(np.where(np.isnan(values), INF, values), return_inverse=True)[1].reshape(values.shape)
    ranks = np.where(np.isnan(values), values.size, ranks)
    return np.argsort(-ranks if descending else ranks, axis, kind="stable")


def check_sort(source, values, axis, descending):
    order = stable_order(values, axis, descending)
    result = orlop.sort(source, axis, descending)
    assert result.values.layout.shape == result.indices.layout.shape == source.layout.shape
    assert result.indices.dtype() is DType.Int32
    np.testing.assert_array_equal(array(result.indices), order)
    np.testing.assert_array_equal(bits(array(result.values)), bits(np.take_along_axis(values, order, axis)))


def check_topk(source, values, k, axis, largest):
    order = stable_order(values, axis, largest).take(range(k), axis)
    result = orlop.topk(source, k, axis, largest)
    assert result.values.layout == result.indices.layout == canonical(order.shape)
    np.testing.assert_array_equal(array(result.indices), order)
    np.testing.assert_array_equal(bits(array(result.values)), bits(np.take_along_axis(values, order, axis)))


@st.composite
def orderings(draw):
    """(layout, axis): modes in any order in memory, with gaps, some of them in one place."""
    extents = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    strides, step = [0] * len(extents), 1
    for mode in draw(st.permutations(range(len(extents)))):
        step += draw(st.integers(0, 1))
        strides[mode] = 0 if draw(st.integers(0, 5)) == 0 else step
        step *= extents[mode]
    return Layout(Shape(*extents), Stride(*strides)), draw(st.integers(0, len(extents) - 1))


@pytest.mark.parametrize("kind", KINDS)
@given(orderings(), st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=150, deadline=None)
def test_sort_and_topk_agree_with_a_stable_order(kind, ordering, random, flag):
    layout, axis = ordering
    few_floats = np.array([random.choice([*SPECIAL, random.uniform(-2, 2)]) for _ in range(layout.cosize)], np.float32)
    few_ints = np.array([random.choice([INT32_MIN, INT32_MAX, -1, 0, 3]) for _ in range(layout.cosize)], np.int32)
    if kind is Generic:  # its slots hold values, not bits
        few_floats = np.where(np.isnan(few_floats), np.float32(NAN), few_floats)
    for slots in (few_floats, few_ints):
        source, values = Tensor(carrier_of(slots, kind), 0, layout), slots[leaf_index(layout)]
        for name in (axis, axis - values.ndim):
            check_sort(source, values, name, flag)
        check_topk(source, values, random.randint(1, values.shape[axis]), axis, flag)


SIZES = [1, 2, 47, 48, 49, 127, 128, 129, 300, 5000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("flag", [False, True])
def test_long_fibres_agree_with_a_stable_order(size, flag):
    rng = np.random.default_rng(size)
    contents = [
        rng.standard_normal(size).astype(np.float32),
        rng.choice(np.array(SPECIAL, np.float32), size),
        np.full(size, 2.5, np.float32),
        np.arange(size, dtype=np.float32),
        -np.arange(size, dtype=np.float32),
        rng.integers(0, 2**32, size, np.uint32).view(np.float32),  # every kind of NaN among them
        rng.integers(INT32_MIN, INT32_MAX, size, np.int32, endpoint=True),
        rng.integers(-3, 3, size).astype(np.int32),
    ]
    for values in contents:
        check_sort(tensor(values), values, 0, flag)
        for k in {1, min(2, size), min(10, size), size // 9 + 1, size}:
            check_topk(tensor(values), values, k, 0, flag)


@pytest.mark.parametrize("flag", [False, True])
def test_short_fibres_of_every_length_agree_with_a_stable_order(flag):
    random = np.random.default_rng(11)
    for size in (*range(1, 70), 96, 127, 128, 129, 255, 600):
        integers = random.integers(-9, 9, (size, 5)).astype(np.int32)
        for values in (random.choice(np.float32([*SPECIAL, *random.random(size)]), (size, 5)), integers):
            check_sort(tensor(values), values, 0, flag)
            for k in {1, min(size, 2), min(size, 7), min(size, 16), min(size, 17), size}:
                check_topk(tensor(values), values, k, 0, flag)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    "choices",
    [range(-1000, 1000), range(-(2**30), 2**30, 2**22), (INT32_MIN, INT32_MAX), range(250, 262), (7,), (255, 256, 2**24)],
    ids=["around zero", "far apart", "ends", "across a digit", "one value", "single bits"],
)
@pytest.mark.parametrize("flag", [False, True])
def test_integers_of_a_narrow_range_are_sorted(choices, flag):
    values = np.random.default_rng(3).choice(np.array(choices, np.int32), 5000)
    check_sort(ints(*values), values, 0, flag)


def test_results_do_not_depend_on_the_threads():
    rng = np.random.default_rng(9)
    specials = rng.choice(np.array([*SPECIAL, *rng.standard_normal(90)], np.float32), 300_001)
    for values in (specials, rng.integers(-(2**20), 2**20, 300_001).astype(np.int32)):
        for flag in (False, True):
            check_sort(tensor(values), values, 0, flag)
            check_topk(tensor(values), values, 100_000, 0, flag)
    rows = specials[: 500 * 600].reshape(500, 600)
    for axis, strides in itertools.product((0, 1), (None, (600, 1))):
        check_sort(tensor(rows, strides), rows, axis, False)
        check_topk(tensor(rows, strides), rows, 5, axis, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strides", [None, (7 * 60, 60, 1), (1, 60 * 41, 41), (2, 80, 640)])
def test_every_axis_of_every_memory_order_is_sorted(kind, strides):
    values = np.random.default_rng(2).integers(-20, 20, (40, 7, 60)).astype(np.int32)
    source = tensor(values, strides, kind=kind)
    for axis in range(3):
        check_sort(source, values, axis, axis == 1)
        check_topk(source, values, 3, axis, axis != 1)


@pytest.mark.parametrize("kind", KINDS)
def test_special_values_are_ordered_as_the_rule_says(kind):
    source = floats(NAN, 2.0, -0.0, 0.0, -INF, NAN, 1.0, kind=kind)
    np.testing.assert_array_equal(array(orlop.sort(source).indices), [4, 2, 3, 6, 1, 0, 5])
    np.testing.assert_array_equal(array(orlop.sort(source, descending=True).indices), [0, 5, 1, 6, 2, 3, 4])
    np.testing.assert_array_equal(array(orlop.topk(source, 3).indices), [0, 5, 1])
    np.testing.assert_array_equal(array(orlop.topk(source, 7, largest=False).indices), [4, 2, 3, 6, 1, 0, 5])
    np.testing.assert_array_equal(np.signbit(array(orlop.sort(source).values)[1:3]), [True, False])


@pytest.mark.parametrize("size", [4, 60])
def test_values_keep_their_bits(size):
    slots = np.zeros(size, np.int32)
    slots[:4] = [0x7FC00001, -0x80000000, 0x7F800005, -0x3FFFFF]  # NaN, -0, a signalling NaN, a negative NaN
    values = slots.view(np.float32)
    ascending = bits(array(orlop.sort(tensor(values)).values))
    assert ascending[0] == -0x80000000
    np.testing.assert_array_equal(ascending[-3:], [0x7FC00001, 0x7F800005, -0x3FFFFF])
    np.testing.assert_array_equal(
        bits(array(orlop.topk(tensor(values), 3).values)), [0x7FC00001, 0x7F800005, -0x3FFFFF]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_nested_mode_is_ordered_by_its_ordinals(kind):
    layout = Layout(Shape(2, (2, 3)), Stride(6, (3, 1)))
    slots = np.array([5, 1, 4, 0, 3, 2, 7, 7, 6, 9, 8, 8], np.int32)
    source = Tensor(carrier_of(slots, kind), 0, layout)
    result = orlop.sort(source)
    assert result.values.layout == Layout(Shape(2, (2, 3)), Stride(1, (2, 4)))
    fibres = np.array([[5, 0, 1, 3, 4, 2], [7, 9, 7, 8, 6, 8]])
    np.testing.assert_array_equal(array(result.values).reshape(2, 6, order="F"), np.sort(fibres))
    np.testing.assert_array_equal(
        array(result.indices).reshape(2, 6, order="F"), np.argsort(fibres, kind="stable")
    )
    best = orlop.topk(source, 2)
    assert best.values.layout == Layout(Shape(2, 2), Stride(1, 2))
    np.testing.assert_array_equal(array(best.values), [[5, 4], [9, 8]])
    assert orlop.topk(source, 1, 0).values.layout == Layout(Shape(1, (2, 3)), Stride(1, (1, 2)))


def test_results_are_named_tuples_of_one_class():
    source = floats(2.0, 1.0)
    values, indices = orlop.sort(tensor=source, axis=0, descending=False)
    assert type(values) is type(indices) is Tensor
    assert orlop.SortResult is orlop.functional.SortResult is orlop.operation.SortResult
    assert orlop.TopKResult is orlop.functional.TopKResult is orlop.operation.TopKResult
    assert type(orlop.sort(source)) is orlop.SortResult
    assert type(orlop.topk(tensor=source, k=1, axis=0, largest=True)) is orlop.TopKResult
    assert orlop.SortResult._fields == orlop.TopKResult._fields == ("values", "indices")


def test_two_operations_run_values_first():
    with orlop.profile() as profiler:
        orlop.sort(floats(1.0))
        orlop.topk(floats(1.0), 1)
    names = ["_sort_values", "_sort_indices", "_topk_values", "_topk_indices"]
    assert [event.name for event in profiler.events()] == names


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_arguments_are_refused(kind):
    source = floats(1.0, 2.0, 3.0, kind=kind)
    for flag in (0, 1, None, "True", 1.0, np.True_):
        with pytest.raises(TypeError):
            orlop.sort(source, 0, flag)
        with pytest.raises(TypeError):
            orlop.topk(source, 1, 0, flag)
    for axis in (True, 0.0, "0", None):
        with pytest.raises(TypeError):
            orlop.sort(source, axis)
        with pytest.raises(TypeError):
            orlop.topk(source, 1, axis)
    for axis in (1, -2, 2**70, -(2**63)):
        with pytest.raises(ValueError, match="axis"):
            orlop.sort(source, axis)
        with pytest.raises(ValueError, match="axis"):
            orlop.topk(source, 1, axis)
    for k in (True, False, 1.0, "1", None):
        with pytest.raises(TypeError):
            orlop.topk(source, k)
    for k in (0, -1, 4, 2**63, 2**70):
        with pytest.raises(ValueError, match="k "):
            orlop.topk(source, k)
    for other in (None, 1.0, [1.0]):
        with pytest.raises(TypeError, match="tensor must be a Tensor"):
            orlop.sort(other)
        with pytest.raises(TypeError, match="tensor must be a Tensor"):
            orlop.topk(other, 1)
    boolean = orlop.eq(source, 1.0)
    for call in (lambda: orlop.sort(boolean), lambda: orlop.topk(boolean, 1)):
        with pytest.raises(NotImplementedError):
            call()


def test_an_axis_beyond_int32_is_refused():
    for layout in (Layout(Shape(2**31), Stride(0)), Layout(Shape(1, (2**20, 2**11)), Stride(1, (0, 0)))):
        source = Tensor(CPU(1), 0, layout)
        with pytest.raises(OverflowError, match="2147483648"):
            orlop.sort(source)
        with pytest.raises(OverflowError, match="2147483648"):
            orlop.topk(source, 1)
        with pytest.raises(ValueError, match="k "):
            orlop.topk(source, 0)


@pytest.mark.parametrize(
    ("extents", "strides", "error"),
    [
        ((3, 2**50), (0, 0), MemoryError),
        ((2**62,), (0,), OverflowError),
        ((3, 2**60), (1, 0), MemoryError),
    ],
)
def test_results_that_cannot_be_are_refused(extents, strides, error):
    source = Tensor(CPU(3, dtype=DType.Float32), 0, Layout(Shape(*extents), Stride(*strides)))
    with pytest.raises(error):
        orlop.sort(source, 0)
    with pytest.raises(error):
        orlop.topk(source, 1, 0)


def hierarchy(values):
    return Evictable(carrier_of(np.array(values, np.float32)), FileBacked(dtype=DType.Float32))


@pytest.mark.parametrize("make", [ComputingCarrier, hierarchy])
def test_other_carriers_order_as_well(make):
    layout = Layout(Shape(3, 2), Stride(1, 3))
    source = Tensor(make([3.0, 1.0, 2.0, 0.0, 7.0, 5.0]), 0, layout)
    result = orlop.sort(source, 0)
    assert type(result.values.carrier) is type(result.indices.carrier) is type(source.carrier)
    assert [result.indices.carrier[i] for i in range(6)] == [1, 2, 0, 0, 2, 1]
    best = orlop.topk(source, 1, 1)
    assert [best.values.carrier[i] for i in range(3)] == [3.0, 7.0, 5.0]
    result.values.backward(Tensor(make([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0, layout))
    assert [source.grad.carrier[i] for i in range(6)] == [3.0, 1.0, 2.0, 4.0, 6.0, 5.0]


def test_a_file_orders_nothing():
    stored = Tensor(FileBacked(dtype=DType.Float32).new_like([1.0]), 0, Layout(Shape(1), Stride(1)))
    with pytest.raises(NotImplementedError, match=r"operation sort \(_sort_values\) is not supported"):
        orlop.sort(stored)
    with pytest.raises(NotImplementedError, match=r"operation topk \(_topk_values\) is not supported"):
        orlop.topk(stored, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_name_the_function_that_was_called(kind):
    flags = tensor(np.array([True, False]), kind=kind)
    with pytest.raises(NotImplementedError, match=r"^\[sort\] operand 0 has dtype Bool"):
        orlop.sort(flags)
    with pytest.raises(NotImplementedError, match=r"^\[topk\] operand 0 has dtype Bool"):
        orlop.topk(flags, 1)
    with pytest.raises(TypeError, match=r"^\[topk\] largest must be a bool: got number"):
        flags.carrier.dispatch_op("_topk_indices").forward(floats(1.0, kind=kind), 1, 0, 1)


def test_forward_has_the_defaults_of_the_functions():
    source = floats(2.0, NAN, 1.0)

    def forward(name, *arguments):
        return array(source.carrier.dispatch_op(name).forward(source, *arguments)).tolist()

    assert forward("_sort_indices") == forward("_sort_indices", -1) == forward("_sort_indices", 0, False) == [2, 0, 1]
    assert forward("_sort_indices", 0, True) == [1, 0, 2]
    assert forward("_topk_indices", 2) == forward("_topk_indices", 2, 0, True) == [1, 0]
    assert forward("_topk_indices", 2, -1, False) == [2, 0]
    for name, arguments in itertools.product(
        ("_sort_values", "_sort_indices"), [(0.5,), (None,), (0, 1), (0, False, 0), (True,)]
    ):
        with pytest.raises(TypeError):
            forward(name, *arguments)
    for name, arguments in itertools.product(
        ("_topk_values", "_topk_indices"), [(), (1.0,), (True,), (1, None), (1, 0, 1), (1, 0, True, 0), (source,)]
    ):
        with pytest.raises(TypeError):
            forward(name, *arguments)
    for name in ("_sort_values", "_topk_values"):
        with pytest.raises(TypeError):
            source.carrier.dispatch_op(name).forward(1.0, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strides", [None, (12, 4, 1), (1, 3, 10)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cotangents_go_to_their_source_positions(kind, strides, axis):
    values = np.random.default_rng(axis).standard_normal((2, 3, 4)).astype(np.float32)
    for name, count in (("sort", values.shape[axis]), ("topk", 2)):
        source = tensor(values, strides, kind=kind)
        sort = orlop.sort(source, axis, True) if name == "sort" else orlop.topk(source, 2, axis)
        order = stable_order(values, axis, True).take(range(count), axis)
        cotangent = np.arange(1, order.size + 1, dtype=np.float32).reshape(order.shape)
        sort.values.backward(tensor(cotangent, kind=kind))
        expected = np.zeros_like(values)
        np.put_along_axis(expected, order, cotangent, axis)
        assert source.grad.layout == source.layout
        np.testing.assert_array_equal(array(source.grad), expected)
        assert not sort.indices.is_differentiable() and sort.indices.autograd_ctx is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_that_several_coordinates_share_gets_the_sum_of_its_gradients(kind):
    source = Tensor(carrier_of(np.array([3.0, 1.0], np.float32), kind), 0, Layout(Shape(2, 3), Stride(1, 0)))
    result = orlop.sort(source, 0)
    result.values.backward(tensor(np.arange(6, dtype=np.float32).reshape(2, 3), kind=kind))
    assert source.grad.layout == canonical((2, 3))
    np.testing.assert_array_equal(array(source.grad), [[12.0] * 3, [3.0] * 3])


@pytest.mark.parametrize("kind", KINDS)
def test_indices_have_no_gradient(kind):
    source = floats(1.0, 2.0, kind=kind)
    for name, arguments in (("_sort_indices", ()), ("_topk_indices", (1,))):
        operation = source.carrier.dispatch_op(name)
        operation.forward(source, *arguments)
        assert operation.inputs() == ()
        assert operation.backward(source) == (None,)
        assert table_operation(name).backward(source) == (None,)


@pytest.mark.parametrize("kind", KINDS)
def test_indices_have_no_gradient_in_a_hierarchy_either(kind):
    inside = Evictable(floats(1.0, 2.0, kind=kind).carrier, FileBacked(dtype=DType.Float32))
    for carrier in (inside, Evictable(inside.new_like([1.0, 2.0]), Generic([0.0], dtype=DType.Float32))):
        source = Tensor(carrier, 0, canonical((2,)))
        for name, arguments in (("_sort_indices", ()), ("_topk_indices", (1,))):
            operation = carrier.dispatch_op(name)
            operation.forward(source, *arguments)
            assert operation.inputs() == () and operation.backward(source) == (None,)
        with orlop.no_grad():
            values = carrier.dispatch_op("_sort_values")
            values.forward(source)
        with pytest.raises(RuntimeError, match="nothing was saved for backward"):
            values.backward(source)


def test_integers_have_no_gradient():
    source = ints(2, 1)
    assert orlop.sort(source).values.autograd_ctx is None


def test_a_changed_operand_is_caught_before_its_gradient():
    source = floats(2.0, 1.0)
    values = orlop.sort(source).values
    source.carrier[0] = 0.0
    with pytest.raises(RuntimeError):
        values.backward(floats(1.0, 1.0))
    assert source.grad is None
