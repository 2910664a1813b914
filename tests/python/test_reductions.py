"""Reductions, matmul, gather and scatter_add on CPU and Generic beside NumPy (P10, P60, P64-P66, P68)."""

import itertools
import math

import numpy as np
import pytest
from arrays import array, canonical, carrier_of, leaf_index, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

import orlop
from orlop import CPU, DType, FileBacked, Generic, Layout, Shape, Stride, Tensor

KINDS = [CPU, Generic]
INT32_MAX = 2**31 - 1
NAN, INF = math.nan, math.inf
NAMES = ["a", "b", "c", "d"]
FUNCTIONS = [orlop.reduce_sum, orlop.reduce_max, orlop.reduce_min, orlop.argmax, orlop.argmin]


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


@pytest.mark.parametrize("function", FUNCTIONS)
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
