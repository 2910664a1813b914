"""Reductions, cumsum, matmul, gather and scatter_add on CPU and Generic beside NumPy (P10, P60, P64-P66, P68)."""

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

KINDS = [CPU, Generic]
INT32_MAX = 2**31 - 1
NAN, INF = math.nan, math.inf
NAMES = ["a", "b", "c", "d"]
FUNCTIONS = [orlop.reduce_sum, orlop.reduce_max, orlop.reduce_min, orlop.argmax, orlop.argmin]
REDUCTIONS = [*FUNCTIONS, orlop.reduce_prod]


def floats(*values, kind=CPU):
    return tensor(np.array(values, np.float32), kind=kind)


def ints(*values, kind=CPU):
    return tensor(np.array(values, np.int32), kind=kind)


def item(result):
    return array(result).item()


@st.composite
def layouts(draw, extents):
    """A layout of these extents: its modes in any order in memory, with gaps, some of them in one place."""
    strides = [0] * len(extents)
    step = 1
    for mode in draw(st.permutations(range(len(extents)))):
        step += draw(st.integers(0, 1))
        strides[mode] = 0 if draw(st.integers(0, 4)) == 0 else step
        step *= extents[mode]
    return Layout(Shape(*extents), Stride(*strides))


@st.composite
def reductions(draw):
    """(layout, kept modes in the output's order, description)."""
    extents = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    names = NAMES[: len(extents)]
    kept = draw(st.permutations(range(len(names))))[: draw(st.integers(0, len(names) - 1))]
    output = " ".join(names[mode] for mode in kept) or "1"
    return draw(layouts(tuple(extents))), kept, f"{' '.join(names)} -> {output}"


def fibres(values, kept):
    """The kept axes first, then the reduced ones as one axis in ordinal order."""
    rest = [axis for axis in range(values.ndim) if axis not in kept]
    moved = values.transpose([*kept, *rest])
    return moved.reshape([values.shape[axis] for axis in kept] + [-1], order="F")


def placed(layout, slots, kind):
    return Tensor(carrier_of(slots, kind), 0, layout)


@pytest.mark.parametrize("kind", KINDS)
@given(reductions(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_reductions_agree_with_numpy(kind, reduction, random):
    layout, kept, description = reduction
    slots = np.array([random.randint(-9, 9) for _ in range(layout.cosize)], np.int32)
    expected = fibres(slots.astype(np.int64)[leaf_index(layout)], kept)
    models = [expected.sum(-1), expected.max(-1), expected.min(-1), expected.argmax(-1), expected.argmin(-1)]
    for values in (slots, slots.astype(np.float32)):
        source = placed(layout, values, kind)
        for function, model in zip(FUNCTIONS, models, strict=True):
            result = function(source, description)
            assert result.layout == canonical(model.shape or (1,))
            np.testing.assert_array_equal(array(result), model.reshape(model.shape or (1,)))


@pytest.mark.parametrize("kind", KINDS)
def test_integer_sums_are_exact_and_only_the_sum_is_checked(kind):
    assert item(orlop.reduce_sum(ints(INT32_MAX, INT32_MAX, -INT32_MAX, kind=kind), "k -> 1")) == INT32_MAX
    with pytest.raises(OverflowError, match="2147483648"):
        orlop.reduce_sum(ints(INT32_MAX, 1, kind=kind), "k -> 1")


def test_float_sums_follow_the_accumulator():
    values = (2.0**24, 1.0, 1.0, -(2.0**24))
    assert item(orlop.reduce_sum(floats(*values, kind=Generic), "k -> 1")) == 0.0
    for kind in KINDS:
        wide = orlop.reduce_sum(floats(*values, kind=kind), "k -> 1", accumulator_dtype=DType.Float64)
        assert item(wide) == 2.0


@pytest.mark.parametrize("kind", KINDS)
def test_extrema_follow_the_special_values(kind):
    def signbit(function, *values):
        return bool(np.signbit(array(function(floats(*values, kind=kind), "k -> 1"))[0]))

    assert not signbit(orlop.reduce_max, 0.0, -0.0)
    assert signbit(orlop.reduce_max, -0.0, -0.0)
    assert signbit(orlop.reduce_min, 0.0, -0.0)
    assert not signbit(orlop.reduce_sum, -0.0, -0.0)
    assert math.isnan(item(orlop.reduce_max(floats(1.0, NAN, INF, kind=kind), "k -> 1")))
    assert item(orlop.argmax(floats(4.0, NAN, 9.0, NAN, kind=kind), "k -> 1")) == 1
    assert item(orlop.argmin(floats(2.0, 0.0, -0.0, kind=kind), "k -> 1")) == 1
    assert item(orlop.argmax(floats(-INF, -INF, kind=kind), "k -> 1")) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_large_reductions_along_every_axis(kind):
    rng = np.random.default_rng(3)
    values = rng.integers(-50, 50, (70, 130)).astype(np.int32)
    for strides in (None, (130, 1), (262, 2)):
        for data in (values, values.astype(np.float32)):
            source = tensor(data, strides, kind=kind)
            for axis, description in enumerate(["r c -> c", "r c -> r"]):
                np.testing.assert_array_equal(array(orlop.reduce_sum(source, description)), values.sum(axis))
                np.testing.assert_array_equal(array(orlop.reduce_max(source, description)), values.max(axis))
                np.testing.assert_array_equal(array(orlop.argmin(source, description)), values.argmin(axis))
            assert item(orlop.reduce_sum(source, "r c -> 1")) == values.sum()
            assert item(orlop.argmax(source, "r c -> 1")) == values.reshape(-1, order="F").argmax()


@pytest.mark.parametrize("function", REDUCTIONS)
def test_reductions_check_the_description_before_the_operand(function):
    with pytest.raises(TypeError, match="description must be a str"):
        function(None, 3)
    with pytest.raises(ValueError, match="Reduce command must omit at least one dimension"):
        function(None, "a -> a")
    with pytest.raises(TypeError, match="tensor must be a Tensor"):
        function(None, "a -> 1")
    with pytest.raises(ValueError, match="layout and tree profile do not match"):
        function(floats(1.0), "a b -> a")


def test_reduce_sum_checks_the_accumulator_before_it_dispatches():
    stored = Tensor(FileBacked(dtype=DType.Float32).new_like([1.0]), 0, Layout(Shape(1), Stride(1)))
    for accumulator in (3, DType.Integer):
        with pytest.raises(TypeError):
            orlop.reduce_sum(stored, "k -> 1", accumulator_dtype=accumulator)
    with pytest.raises(NotImplementedError):
        orlop.reduce_sum(floats(1.0), "k -> 1", accumulator_dtype=DType.Int32)
    with pytest.raises(TypeError):
        orlop.reduce_sum(ints(1), "k -> 1", accumulator_dtype=DType.Float64)
    with pytest.raises(NotImplementedError):
        orlop.reduce_sum(orlop.eq(floats(1.0), 1.0), "k -> 1")


def numeric_gradient(function, values, cotangent):
    """Central differences of sum(function(values) * cotangent) in binary64."""
    values = np.asarray(values, np.float64)
    result = np.zeros_like(values)
    for position in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[position] = 1e-6
        result[position] = ((function(values + step) - function(values - step)) * cotangent).sum() / 2e-6
    return result


def gradients(function, *arrays, strides=None, kind=CPU):
    """(gradients of function(*tensors), the cotangent that was used)."""
    operands = [tensor(values, strides, kind=kind) for values in arrays]
    result = function(*operands)
    rng = np.random.default_rng(7)
    cotangent = rng.standard_normal(array(result).shape).astype(np.float32)
    result.backward(placed_like(result, cotangent, kind))
    for operand in operands:
        assert operand.grad.layout == operand.layout
    return [array(operand.grad) for operand in operands], cotangent.astype(np.float64)


def placed_like(result, values, kind):
    slots = np.zeros(result.layout.cosize, np.float32)
    slots[leaf_index(result.layout)] = values
    return placed(result.layout, slots, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strides", [None, (12, 4, 1), (1, 3, 10)])
@pytest.mark.parametrize(
    ("description", "axes"), [("a b c -> b", (0, 2)), ("a b c -> a b", (2,)), ("a b c -> c b", (0,))]
)
def test_gradients_of_sum_and_max_agree_with_differences(kind, strides, description, axes):
    values = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
    for function, model in ((orlop.reduce_sum, np.sum), (orlop.reduce_max, np.max), (orlop.reduce_min, np.min)):
        (gradient,), cotangent = gradients(lambda t, f=function: f(t, description), values, strides=strides, kind=kind)
        kept = cotangent.T if description.endswith("c b") else cotangent
        expected = numeric_gradient(lambda x, m=model: m(x, axis=axes), values, kept)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_reduce_max_shares_its_gradient_among_equal_winners(kind):
    for values, expected in [
        ((0.0, -0.0), [1.0, 1.0]),
        ((3.0, 1.0, 3.0), [1.0, 0.0, 1.0]),
        ((1.0, NAN), [NAN, NAN]),
        ((INF, INF, -INF), [1.0, 1.0, 0.0]),
    ]:
        operand = floats(*values, kind=kind)
        orlop.reduce_max(operand, "k -> 1").backward(floats(2.0, kind=kind))
        np.testing.assert_array_equal(array(operand.grad), np.array(expected, np.float32))


# --- reduce_prod and cumsum --------------------------------------------------------------------------------------


def sequential_product(values):
    """The binary32 product along the last axis, each step rounded."""
    product = np.ones(values.shape[:-1], np.float32)
    with np.errstate(all="ignore"):
        for position in range(values.shape[-1]):
            product = product * values[..., position]
    return product


@pytest.mark.parametrize("kind", KINDS)
@given(reductions(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_products_are_sequential_or_exact(kind, reduction, random):
    layout, kept, description = reduction
    slots = np.array([random.uniform(-3, 3) for _ in range(layout.cosize)], np.float32)
    expected = sequential_product(fibres(slots[leaf_index(layout)], kept))
    result = orlop.reduce_prod(placed(layout, slots, kind), description)
    assert result.layout == canonical(expected.shape or (1,))
    np.testing.assert_array_equal(array(result), expected.reshape(expected.shape or (1,)))

    factors = [-1, 1, 1, 1, 1, 1, 2, -3, random.choice([0, 2**16, -(2**31)])]
    slots = np.array([random.choice(factors) for _ in range(layout.cosize)], np.int32)
    exact = np.prod(fibres(slots.astype(object)[leaf_index(layout)], kept), axis=-1, keepdims=not kept)
    source = placed(layout, slots, kind)
    if np.all((exact >= -(2**31)) & (exact <= INT32_MAX)):
        np.testing.assert_array_equal(array(orlop.reduce_prod(source, description)), exact)
    else:
        with pytest.raises(OverflowError):
            orlop.reduce_prod(source, description)


@pytest.mark.parametrize("kind", KINDS)
def test_integer_products_check_only_the_final_value(kind):
    for values, expected in [
        ((65536, 65536, 0), 0),
        ((0, 2**30, 2**30, 2**30), 0),
        ((-65536, 32768), -(2**31)),
        ((65536, 32768, -1), -(2**31)),
        ((-(2**31), 1), -(2**31)),
        ((INT32_MAX, -1, -1), INT32_MAX),
    ]:
        assert item(orlop.reduce_prod(ints(*values, kind=kind), "k -> 1")) == expected
    for values in [
        (65536, 65536),
        (65536, -65536),
        (-65536, -32768),
        (-(2**31), -1),
        (-(2**31),) * 9,
        (65536, 65537, 65537, 1, -1),
    ]:
        with pytest.raises(OverflowError, match="reduce_prod"):
            orlop.reduce_prod(ints(*values, kind=kind), "k -> 1")


@pytest.mark.parametrize("kind", KINDS)
def test_products_along_every_axis_of_every_memory_order(kind):
    values = np.random.default_rng(4).uniform(0.5, 1.5, (70, 41)).astype(np.float32)
    for strides in (None, (41, 1), (84, 2)):
        source = tensor(values, strides, kind=kind)
        np.testing.assert_array_equal(array(orlop.reduce_prod(source, "r c -> r")), sequential_product(values))
        np.testing.assert_array_equal(array(orlop.reduce_prod(source, "r c -> c")), sequential_product(values.T))
        whole = sequential_product(values.reshape(-1, order="F"))
        assert item(orlop.reduce_prod(source, "r c -> 1")) == whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strides", [None, (200, 1), (2, 402)])
def test_extrema_among_infinities_of_both_signs(kind, strides):
    values = np.random.default_rng(5).standard_normal((70, 200)).astype(np.float32)
    values[3, ::7], values[66, ::7], values[40, ::3], values[41, 9::30] = INF, -INF, -INF, INF
    source = tensor(values, strides, kind=kind)
    for description, axis in (("r c -> r", 1), ("r c -> c", 0)):
        for name, model in (("max", np.max), ("min", np.min)):
            np.testing.assert_array_equal(
                array(getattr(orlop, f"reduce_{name}")(source, description)), model(values, axis)
            )
        for name, model in (("argmax", np.argmax), ("argmin", np.argmin)):
            np.testing.assert_array_equal(array(getattr(orlop, name)(source, description)), model(values, axis))
    assert item(orlop.argmax(source, "r c -> 1")) == np.argmax(values.reshape(-1, order="F"))
    assert item(orlop.reduce_min(source, "r c -> 1")) == -INF


@pytest.mark.parametrize("kind", KINDS)
def test_float_products_follow_the_special_values(kind):
    for values, expected in [
        ((-0.0,), -0.0),
        ((0.0, INF), NAN),
        ((1.0, NAN, 0.0), NAN),
        ((1e30, 1e30, 1e-30), INF),
        ((1e-30, 1e-30, 1e30), 0.0),
        ((-1e30, 1e30, 0.5), -INF),
    ]:
        result = item(orlop.reduce_prod(floats(*values, kind=kind), "k -> 1"))
        np.testing.assert_array_equal(result, expected)
        assert math.isnan(expected) or np.signbit(result) == np.signbit(expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strides", [None, (12, 4, 1), (1, 3, 10)])
@pytest.mark.parametrize(
    ("description", "axes"), [("a b c -> b", (0, 2)), ("a b c -> a b", (2,)), ("a b c -> 1", (0, 1, 2))]
)
def test_gradients_of_products_agree_with_differences(kind, strides, description, axes):
    values = np.random.default_rng(1).uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
    for zeros in ([], [(0, 1, 2)], [(0, 1, 2), (1, 1, 0)]):
        for zero in zeros:
            values[zero] = 0
        (gradient,), cotangent = gradients(
            lambda t: orlop.reduce_prod(t, description), values, strides=strides, kind=kind
        )

        def product(x):
            return np.prod(x, axis=axes)

        expected = numeric_gradient(product, values, cotangent if cotangent.size > 1 else cotangent[0])
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_one_zero_leaves_a_product_only_its_own_gradient(kind):
    for values, expected in [
        ((2.0, 0.0, 5.0), [0.0, 10.0, 0.0]),
        ((0.0, 3.0, 0.0), [0.0, 0.0, 0.0]),
        ((7.0,), [1.0]),
        ((1e30, 1e30, 0.0), [0.0, 0.0, INF]),
    ]:
        operand = floats(*values, kind=kind)
        orlop.reduce_prod(operand, "k -> 1").backward(floats(1.0, kind=kind))
        np.testing.assert_array_equal(array(operand.grad), np.array(expected, np.float32))


@st.composite
def scans(draw):
    """(layout, dimension)."""
    extents = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    return draw(layouts(extents)), draw(st.integers(0, len(extents) - 1))


@pytest.mark.parametrize("kind", KINDS)
@given(scans(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_cumsum_agrees_with_numpy(kind, scan, random):
    layout, dimension = scan
    slots = np.array([random.randint(-9, 9) for _ in range(layout.cosize)], np.int32)
    for values in (slots, slots.astype(np.float32) / 7):
        source = placed(layout, values, kind)
        wide = values.astype(np.int64 if values.dtype == np.int32 else np.float64)
        expected = wide[leaf_index(layout)].cumsum(dimension).astype(values.dtype)
        for name in (dimension, dimension - expected.ndim):
            result = orlop.cumsum(source, name)
            assert result.layout == canonical(expected.shape)
            assert result.dtype() is source.dtype()
            np.testing.assert_array_equal(array(result), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strides", [None, (41 * 5, 5, 1), (1, 71 * 5, 71), (2, 150, 6200)])
def test_cumsum_along_every_axis_of_every_memory_order(kind, strides):
    values = np.random.default_rng(6).standard_normal((70, 41, 5)).astype(np.float32)
    whole = (values * 1000).astype(np.int32)
    for dimension in range(3):
        for data, wide in ((values, np.float64), (whole, np.int64)):
            expected = data.astype(wide).cumsum(dimension).astype(data.dtype)
            result = orlop.cumsum(tensor(data, strides, kind=kind), dimension)
            np.testing.assert_array_equal(array(result), expected)


@pytest.mark.usefixtures("threads")
def test_scans_and_products_do_not_depend_on_the_threads():
    rng = np.random.default_rng(6)
    for shape in ((5, 70_001), (70_001, 5), (600, 501)):
        values = rng.uniform(0.9, 1.1, shape).astype(np.float32)
        whole = (values * 1000).astype(np.int32)
        for strides in (None, (shape[1], 1)):
            source = tensor(values, strides)
            np.testing.assert_array_equal(array(orlop.reduce_prod(source, "a b -> a")), sequential_product(values))
            for dimension in (0, 1):
                sums = array(orlop.cumsum(tensor(whole, strides), dimension))
                np.testing.assert_array_equal(sums, whole.astype(np.int64).cumsum(dimension))
                sums = values.astype(np.float64).cumsum(dimension).astype(np.float32)
                np.testing.assert_array_equal(array(orlop.cumsum(source, dimension)), sums)


@pytest.mark.parametrize("kind", KINDS)
def test_cumsum_of_a_nested_mode_follows_its_ordinals(kind):
    layout = Layout(Shape((2, 3), 2), Stride((3, 1), 6))
    source = placed(layout, np.arange(12, dtype=np.int32), kind)
    result = orlop.cumsum(source, 0)
    assert result.layout == Layout(Shape((2, 3), 2), Stride((1, 2), 6))
    np.testing.assert_array_equal(array(result)[..., 0].reshape(-1, order="F"), np.cumsum([0, 3, 1, 4, 2, 5]))


def test_cumsum_is_carried_in_binary64():
    for kind, count in ((CPU, 500_001), (Generic, 5_001)):
        source = placed(Layout(Shape(count), Stride(0)), np.array([0.0005], np.float32), kind)
        expected = np.cumsum(np.full(count, np.float32(0.0005), np.float64)).astype(np.float32)
        np.testing.assert_array_max_ulp(array(orlop.cumsum(source, 0)), expected, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_cumsum_follows_the_special_values(kind):
    for values, expected in [
        ((-0.0, -0.0, 1.0), [0.0, 0.0, 1.0]),
        ((1.0, INF, 2.0, -INF, 3.0), [1.0, INF, INF, NAN, NAN]),
        ((3.4e38, 3.4e38, -3.4e38), [3.4e38, INF, 3.4e38]),
        ((NAN, 1.0), [NAN, NAN]),
    ]:
        result = array(orlop.cumsum(floats(*values, kind=kind), 0))
        np.testing.assert_array_equal(result, np.array(expected, np.float32))
        assert not np.signbit(result[0])


@pytest.mark.parametrize("kind", KINDS)
def test_integer_cumsum_checks_every_output(kind):
    np.testing.assert_array_equal(
        array(orlop.cumsum(ints(INT32_MAX, -INT32_MAX, -(2**31), kind=kind), 0)), [INT32_MAX, 0, -(2**31)]
    )
    for values in [(INT32_MAX, 1, -1), (-(2**31), -1, 1), (0,) * 70 + (INT32_MAX, 1)]:
        with pytest.raises(OverflowError, match=str(abs(sum(values[:2])) if len(values) == 3 else 2**31)):
            orlop.cumsum(ints(*values, kind=kind), 0)
    rows = np.zeros((20, 3), np.int32)
    rows[17] = [2**30, 2**30, -1]
    with pytest.raises(OverflowError, match="2147483648"):
        orlop.cumsum(tensor(rows, kind=kind), 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strides", [None, (12, 4, 1), (1, 3, 10)])
@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_gradients_of_cumsum_are_sums_from_the_end(kind, strides, dimension):
    values = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
    (gradient,), cotangent = gradients(lambda t: orlop.cumsum(t, dimension), values, strides=strides, kind=kind)
    reverse = np.flip(cotangent.astype(np.float32), dimension)
    expected = np.flip(np.add.accumulate(reverse, dimension, dtype=np.float32), dimension)
    np.testing.assert_array_equal(gradient, expected)
    differences = numeric_gradient(lambda x: x.cumsum(dimension), values, cotangent)
    np.testing.assert_allclose(gradient, differences, rtol=1e-4, atol=1e-5)


def test_gradients_of_scans_are_the_same_bits_on_both_backends():
    rng = np.random.default_rng(8)
    for shape, description in (
        ((300,), "a -> 1"),
        ((3, 50), "a b -> a"),
        ((40, 30), "a b -> b"),
        ((5, 20, 6), "a b c -> c a"),
    ):
        values = rng.uniform(0.9, 1.1, shape).astype(np.float32)
        for function in (
            lambda t: orlop.cumsum(t, 0),
            lambda t: orlop.cumsum(t, -1),
            lambda t, d=description: orlop.reduce_prod(t, d),
        ):
            results = [gradients(function, values, kind=kind)[0][0] for kind in KINDS]
            np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("kind", KINDS)
def test_cumsum_checks_its_arguments(kind):
    source = floats(1.0, 2.0, kind=kind)
    for dimension in (1, -2, 2**63, -(2**70)):
        with pytest.raises(ValueError, match="dimension"):
            orlop.cumsum(source, dimension)
    for dimension in (True, 0.0, "0", None):
        with pytest.raises(TypeError):
            orlop.cumsum(source, dimension)
    with pytest.raises(TypeError):
        orlop.cumsum([1.0], 0)
    with pytest.raises(NotImplementedError):
        orlop.cumsum(orlop.eq(source, 1.0), 0)
    forward = source.carrier.dispatch_op("cumsum").forward
    for arguments in [(), (source,), (source, None), (source, 0.5), (source, True), (1.0, 0), (source, 0, 0)]:
        with pytest.raises(TypeError):
            forward(*arguments)


def hierarchy(values):
    return Evictable(carrier_of(np.array(values, np.float32)), FileBacked(dtype=DType.Float32))


@pytest.mark.parametrize("make", [ComputingCarrier, hierarchy])
def test_other_carriers_scan_and_multiply_as_well(make):
    layout = Layout(Shape(2, 2), Stride(1, 2))
    source = Tensor(make([2.0, 0.0, 3.0, 5.0]), 0, layout)
    sums = orlop.cumsum(source, 1)
    assert [sums.carrier[i] for i in range(4)] == [2.0, 0.0, 5.0, 5.0]
    sums.backward(Tensor(make([1.0, 2.0, 3.0, 4.0]), 0, layout))
    assert [source.grad.carrier[i] for i in range(4)] == [4.0, 6.0, 3.0, 4.0]
    source.grad = None
    products = orlop.reduce_prod(source, "a b -> a")
    assert [products.carrier[i] for i in range(2)] == [6.0, 0.0]
    products.backward(Tensor(make([1.0, 1.0]), 0, products.layout))
    assert [source.grad.carrier[i] for i in range(4)] == [3.0, 5.0, 2.0, 0.0]


@pytest.mark.parametrize(("extents", "strides"), [((2**62,), (0,)), ((3, 2**50), (1, 0))])
def test_prefixes_that_find_no_memory_are_refused(extents, strides):
    source = Tensor(CPU(3, dtype=DType.Float32), 0, Layout(Shape(*extents), Stride(*strides)))
    for dimension in (0, -1):
        with pytest.raises(MemoryError):
            orlop.cumsum(source, dimension)


# --- matmul ------------------------------------------------------------------------------------------------------


@st.composite
def products(draw):
    rows, columns, terms = (draw(st.integers(1, 6)) for _ in range(3))
    return draw(layouts((rows, terms))), draw(layouts((columns, terms)))


@pytest.mark.parametrize("kind", KINDS)
@given(products(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_matmul_agrees_with_numpy(kind, product, random):
    slots = [np.array([random.randint(-9, 9) for _ in range(layout.cosize)], np.int32) for layout in product]
    lhs, rhs = (values.astype(np.int64)[leaf_index(layout)] for values, layout in zip(slots, product, strict=True))
    expected = lhs @ rhs.T
    for types in itertools.product([np.int32, np.float32], repeat=2):
        operands = [
            placed(layout, values.astype(numpy_type), kind)
            for layout, values, numpy_type in zip(product, slots, types, strict=True)
        ]
        result = orlop.matmul(*operands)
        assert result.layout == canonical(expected.shape)
        assert result.dtype() is (DType.Int32 if types == (np.int32, np.int32) else DType.Float32)
        np.testing.assert_array_equal(array(result), expected)
        np.testing.assert_array_equal(array(operands[0] @ operands[1]), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strides", [None, (6, 1), (1, 9)])
def test_gradients_of_matmul_agree_with_differences(kind, strides):
    rng = np.random.default_rng(5)
    lhs, rhs = (rng.standard_normal((4, 5)).astype(np.float32) for _ in range(2))
    (left, right), cotangent = gradients(orlop.matmul, lhs, rhs, strides=strides, kind=kind)
    np.testing.assert_allclose(left, numeric_gradient(lambda x: x @ rhs.T, lhs, cotangent), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(right, numeric_gradient(lambda x: lhs @ x.T, rhs, cotangent), rtol=1e-4, atol=1e-5)


def test_large_matmuls_agree_with_numpy_in_every_layout():
    rng = np.random.default_rng(9)
    lhs, rhs = rng.standard_normal((130, 70)), rng.standard_normal((90, 70))
    lhs, rhs = lhs.astype(np.float32), rhs.astype(np.float32)
    exact = lhs.astype(np.float64) @ rhs.T.astype(np.float64)
    bound = 70 * 2.0**-24 * (np.abs(lhs).astype(np.float64) @ np.abs(rhs).T.astype(np.float64))
    for left in (None, (70, 1), (142, 2), (1, 131)):
        for right in (None, (70, 1), (1, 90)):
            operands = tensor(lhs, left), tensor(rhs, right)
            assert (np.abs(array(orlop.matmul(*operands)) - exact) <= bound).all()
            wide = array(orlop.matmul(*operands, accumulator_dtype=DType.Float64))
            np.testing.assert_array_equal(wide, exact.astype(np.float32))


# --- gather and scatter_add --------------------------------------------------------------------------------------


@st.composite
def gathers(draw):
    """(table layout, axis, index layout)."""
    extents = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    indices = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    return draw(layouts(extents)), draw(st.integers(0, len(extents) - 1)), draw(layouts(indices))


@pytest.mark.parametrize("kind", KINDS)
@given(gathers(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_gather_and_scatter_add_agree_with_numpy(kind, case, random):
    table, axis, index = case
    slots = np.array([random.randint(-9, 9) for _ in range(table.cosize)], np.int32)
    extent = table.infix()[axis][0]
    index_slots = np.array([random.randrange(extent) for _ in range(index.cosize)], np.int32)
    values, names = slots[leaf_index(table)], index_slots[leaf_index(index)]
    source, indices = placed(table, slots, kind), placed(index, index_slots, kind)
    expected = values.take(names, axis)
    gathered = orlop.gather(source, indices, axis - values.ndim)
    assert gathered.layout == canonical(expected.shape)
    np.testing.assert_array_equal(array(gathered), expected)

    updates = np.arange(expected.size, dtype=np.int32).reshape(expected.shape)
    added = values.copy()
    np.add.at(added, (slice(None),) * axis + (names,), updates)
    for numpy_type in (np.int32, np.float32):
        base = placed(table, slots.astype(numpy_type), kind)
        result = orlop.scatter_add(base, indices, tensor(updates.astype(numpy_type), kind=kind), axis)
        assert result.layout == canonical(added.shape)
        np.testing.assert_array_equal(array(result), added)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [-1, 3, INT32_MAX])
def test_gather_refuses_indices_outside_the_axis(kind, index):
    with pytest.raises(IndexError, match=str(index)):
        orlop.gather(floats(1.0, 2.0, 3.0, kind=kind), ints(0, index, kind=kind), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_a_stride_of_zero_repeats_is_looked_at_once(kind):
    repeated = [Tensor(ints(index, kind=kind).carrier, 0, Layout(Shape(2**60), Stride(0))) for index in (1, 3)]
    data = floats(1.0, 2.0, 3.0, kind=kind)
    with pytest.raises(MemoryError):
        orlop.gather(data, repeated[0], 0)
    with pytest.raises(IndexError, match="got 3"):
        orlop.gather(data, repeated[1], 0)


def test_gather_checks_its_arguments():
    data, indices = floats(1.0, 2.0, 3.0), ints(0, 1)
    for axis in (1, -2, 2**70):
        with pytest.raises((ValueError, OverflowError)):
            orlop.gather(data, indices, axis)
    for axis in (True, 1.0, "0", None):
        with pytest.raises(TypeError):
            orlop.gather(data, indices, axis)
    with pytest.raises(TypeError):
        orlop.gather(data, data, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_gather_sums_into_the_source(kind):
    data = floats(1.0, 2.0, 3.0, kind=kind)
    orlop.gather(data, ints(2, 0, 2, kind=kind), 0).backward(floats(1.0, 2.0, 4.0, kind=kind))
    np.testing.assert_array_equal(array(data.grad), [2.0, 0.0, 5.0])


@pytest.mark.parametrize("extents", [(24, 3, 20, 21), (70, 2, 90), (2, 5000), (5000, 3), (6, 2, 900)])
def test_many_results_in_another_order_than_their_terms(extents):
    random = np.random.default_rng(12)
    strides = [math.prod(extents[place + 1 :]) for place in range(len(extents))]
    integers = random.integers(-9, 9, extents).astype(np.int32)
    numbers = integers.astype(np.float32)
    numbers[random.random(extents) < 0.01] = math.nan
    numbers[random.random(extents) < 0.01] = -0.0
    names = "abcd"[: len(extents)]
    for axis in range(len(extents)):
        description = f"{' '.join(names)} -> {' '.join(names.replace(names[axis], ''))}"
        for order in (strides, None):
            source = tensor(integers, order)
            np.testing.assert_array_equal(array(orlop.reduce_sum(source, description)), integers.sum(axis))
            np.testing.assert_array_equal(array(orlop.reduce_max(source, description)), integers.max(axis))
            np.testing.assert_array_equal(array(orlop.argmin(source, description)), integers.argmin(axis))
            if extents[axis] < 8:
                np.testing.assert_array_equal(array(orlop.reduce_prod(source, description)), integers.prod(axis))
            source = tensor(numbers, order)
            np.testing.assert_array_equal(array(orlop.reduce_min(source, description)), numbers.min(axis))
            np.testing.assert_array_equal(array(orlop.argmax(source, description)), numbers.argmax(axis))
