"""Elementwise operations on CPU beside NumPy: values, special cases, geometry, gradients (P54, P55, P60-P63, P65)."""

import math

import numpy as np
import pytest
from arrays import WAYS, array, canonical, expect, expect_slopes, floats, ints, numbers, placed, tensor

import orlop
from orlop import DType, Generic, Tensor

LENGTHS = [1, 3, 4, 7, 8, 9, 31, 33, 1000, 5000]
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INF, NAN = math.inf, math.nan


def expect_within(result, exact, ulp):
    """At most `ulp` units in the last place beside the binary64 values."""
    values = array(result)
    with np.errstate(over="ignore"):
        nearest = np.asarray(exact).astype(np.float32)
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(values[~finite], nearest[~finite])
    last_place = np.spacing(np.abs(nearest[finite])).astype(np.float64)
    assert np.all(np.abs(values[finite].astype(np.float64) - exact[finite]) <= ulp * last_place)


def np_maximum(a, b):
    return np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b))


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "elementwise_mul": np.multiply,
    "div": lambda a, b: np.divide(a, b, dtype=np.float32),
    "maximum": np_maximum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_operations_give_the_bits_of_numpy(name, size):
    for round_number, (left, right) in enumerate((left, right) for left in WAYS for right in WAYS):
        for numpy_type in (np.float32, np.int32):
            a, model_a = placed(numbers(numpy_type, size, round_number), left)
            b, model_b = placed(numbers(numpy_type, size, 100 + round_number), right)
            with np.errstate(all="ignore"):
                if numpy_type is np.int32 and name == "div":
                    model_a, model_b = model_a.astype(np.float32), model_b.astype(np.float32)
                expected = BINARY[name](model_a, model_b)
            if left == right == "widened":
                expected = expected[:1]
            expect(getattr(orlop, name)(a, b), expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "elementwise_mul", "div"])
def test_mixed_operands_are_converted_to_float32(name):
    for size in LENGTHS:
        for way in WAYS:
            a, model_a = placed(numbers(np.int32, size, size) * 50000, way)
            b, model_b = placed(numbers(np.float32, size, 7), "contiguous")
            with np.errstate(all="ignore"):
                expect(getattr(orlop, name)(a, b), BINARY[name](model_a.astype(np.float32), model_b))
                expect(getattr(orlop, name)(b, a), BINARY[name](model_b, model_a.astype(np.float32)))


@pytest.mark.parametrize("scalar", [3, -1, 0.5, 1e300, -0.0, INF, NAN, True, 10**30])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "eq", "ne", "lt", "le", "gt", "ge"])
def test_a_number_on_either_side_of_floats_is_rounded_once(name, scalar):
    x = numbers(np.float32, 33, 5)
    with np.errstate(all="ignore"):
        number = np.float32(scalar)
        expect(getattr(orlop, name)(tensor(x), scalar), BINARY[name](x, number))
        expect(getattr(orlop, name)(scalar, tensor(x)), BINARY[name](number, x))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "eq", "ne", "lt", "le"])
def test_an_integer_beside_int32_stays_exact_and_a_float_does_not(name):
    x = np.array([16777217, -5, 0], np.int32)
    expect(getattr(orlop, name)(tensor(x), 3), BINARY[name](x, np.int32(3)))
    expect(getattr(orlop, name)(tensor(x), 0.5), BINARY[name](x.astype(np.float32), np.float32(0.5)))
    with pytest.raises(OverflowError):
        getattr(orlop, name)(tensor(x), 2**31)


UNARY = {"exp": (np.exp, 1), "log": (np.log, 1), "tanh": (np.tanh, 1), "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 3)}


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_are_within_their_error(name, size):
    function, ulp = UNARY[name]
    for way in WAYS:
        x, model = placed(numbers(np.float32, size, size), way)
        with np.errstate(all="ignore"):
            expected = function(model.astype(np.float64))
        expect_within(getattr(orlop, name)(x), expected[:1] if way == "widened" else expected, ulp)


@pytest.mark.parametrize("size", LENGTHS)
def test_neg_and_relu_are_exact(size):
    for way in WAYS:
        for numpy_type in (np.float32, np.int32):
            x, model = placed(numbers(numpy_type, size, size), way)
            model = model[:1] if way == "widened" else model
            expect(orlop.neg(x), -model)
            expect(orlop.relu(x), np.where(model <= 0, numpy_type(0), model))


@pytest.mark.parametrize("size", LENGTHS)
def test_pow_of_floats_is_within_an_ulp(size):
    for way in WAYS:
        x, model_x = placed(numbers(np.float32, size, size), way)
        with np.errstate(all="ignore"):
            p, model_p = placed(np.round(numbers(np.float32, size, 3) * 2) / np.float32(2), "contiguous")
            expect_within(orlop.pow(x, p), np.power(model_x.astype(np.float64), model_p.astype(np.float64)), 1)


def test_pow_knows_every_special_pair():
    specials = np.array(
        [0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 2.5, -2.5, INF, -INF, NAN, 1e-45, -1e-45, 3e38, -3e38, 2**24 + 2, -(2**24)],
        np.float32,
    )
    x, p = np.meshgrid(specials, specials)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), p.astype(np.float64)).astype(np.float32)
    values = array(orlop.pow(tensor(x), tensor(p)))
    np.testing.assert_array_equal(values, expected)
    ordered = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(values[ordered]), np.signbit(expected[ordered]))


def test_pow_of_integers_is_exact_where_the_exponent_is_a_natural_number():
    bases = [0, 1, -1, 2, -2, 3, -7, 46340, -46340, INT32_MAX, INT32_MIN]
    for exponent in [0, 1, 2, 3, 5, 11, 30, 31, 32, 2**31 - 1]:
        fitting = [base for base in bases if abs(base) <= 1 or INT32_MIN <= base ** min(exponent, 40) <= INT32_MAX]
        small = exponent if exponent < 40 else 40 + exponent % 2  # the parity is all that ±1 and 0 see
        expect(orlop.pow(ints(*fitting), exponent), np.array([base**small for base in fitting], np.int32))
        for base in set(bases) - set(fitting):
            with pytest.raises(OverflowError):
                orlop.pow(ints(1, base), exponent)
    expect(orlop.pow(ints(2, -2), -1), np.array([0.5, -0.5], np.float32))
    expect(orlop.pow(ints(1), 2**31), np.array([1], np.float32))


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        (lambda: orlop.add(ints(0, INT32_MAX), 1), "add"),
        (lambda: orlop.sub(ints(0, INT32_MIN), 1), "sub"),
        (lambda: orlop.sub(0, ints(0, INT32_MIN)), "sub"),
        (lambda: orlop.mul(ints(1, 65536), ints(1, 32768)), "mul"),
        (lambda: orlop.elementwise_mul(ints(1, INT32_MIN), ints(1, -1)), "elementwise_mul"),
        (lambda: orlop.neg(ints(0, INT32_MIN)), "neg"),
        (lambda: orlop.pow(ints(0, 2), 31), "pow"),
    ],
)
def test_an_integer_result_outside_int32_is_an_overflow_error(compute, name):
    with pytest.raises(OverflowError, match=rf"^\[{name}\] the exact result leaves Int32 at element 1;"):
        compute()


def test_an_overflow_late_in_a_large_tensor_is_found():
    x = np.ones(100_003, np.int32)
    x[99_999] = INT32_MIN
    source = tensor(x)
    version = source.version
    with pytest.raises(OverflowError, match="element 99999;"):
        orlop.neg(source)
    assert source.version == version
    np.testing.assert_array_equal(array(source), x)


def test_bools_are_compared_and_selected_by_truth():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    expect(orlop.eq(tensor(a), tensor(b)), a == b)
    expect(orlop.ne(tensor(a), tensor(b)), a != b)
    with pytest.raises(NotImplementedError):
        orlop.lt(tensor(a), tensor(b))
    with pytest.raises(NotImplementedError):
        orlop.add(tensor(a), tensor(b))


@pytest.mark.parametrize("size", LENGTHS)
def test_select_reads_the_chosen_branch(size):
    for way in WAYS:
        condition, model = placed(numbers(np.bool_, size, size), way)
        for numpy_type in (np.float32, np.int32, np.bool_):
            a, b = numbers(numpy_type, size, 1), numbers(numpy_type, size, 2)
            expect(orlop.select(condition, tensor(a), tensor(b)), np.where(model, a, b))


SHAPES = [
    ((2, 1), (2, 3)),
    ((1, 3), (2, 1)),
    ((3, 1), (3, 5000)),
    ((1, 700), (3, 1)),
    ((1500, 1, 2), (1, 3, 1)),
    ((40, 60), (40, 60)),
    ((1, 1), (1030, 2)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_leaves_of_extent_one_are_widened_in_any_layout(left, right):
    for seed, reverse in enumerate([False, True]):
        a = numbers(np.float32, math.prod(left), seed).reshape(left)
        b = numbers(np.int32, math.prod(right), seed).reshape(right)

        def strides(extents, gap):
            order = range(len(extents))[::-1] if reverse else range(len(extents))
            result, step = [0] * len(extents), gap
            for mode in order:
                result[mode] = step
                step *= extents[mode]
            return result

        with np.errstate(all="ignore"):
            expected = a + b.astype(np.float32)
        result = orlop.add(tensor(a, strides(left, 2), 1), tensor(b, strides(right, 1)))
        expect(result, expected.astype(np.float32))
        expect(orlop.lt(tensor(b, strides(right, 3)), 7), b < 7)


@pytest.mark.parametrize("extents", [(2, 3001), (3, 3001), (9, 1001), (3001, 2), (3001, 7), (40, 70), (4, 30, 50)])
def test_bools_in_any_order_of_memory(extents):
    random = np.random.default_rng(8)
    a, b = (random.standard_normal(extents).astype(np.float32) for _ in range(2))
    in_rows = [math.prod(extents[place + 1 :]) for place in range(len(extents))]
    is_less = orlop.lt(tensor(a, in_rows), tensor(b, in_rows))
    expect(is_less, a < b)
    expect(orlop.lt(tensor(a, in_rows), tensor(b)), a < b)
    chosen = tensor(a > 0, in_rows)
    expect(orlop.logical_not(chosen), a <= 0)
    expect(orlop.eq(chosen, is_less), (a > 0) == (a < b))
    expect(orlop.select(chosen, tensor(a), tensor(b)), np.where(a > 0, a, b))
    first = tensor((a > 0)[:1])
    expect(orlop.select(orlop.broadcast_to(first, orlop.Shape(*extents)), tensor(a), tensor(b)), np.where((a > 0)[:1], a, b))


@pytest.mark.parametrize("extents", [(2500, 900), (900, 2500), (40, 33)])
@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_one_operand_repeated_along_either_axis_of_a_matrix(extents, by_rows, kind):
    random = np.random.default_rng(6)
    values = random.standard_normal(extents).astype(np.float32)
    matrix = tensor(values, strides=(extents[1], 1) if by_rows else None)
    for shape in ((1, extents[1]), (extents[0], 1)):
        other = random.integers(-9, 9, shape).astype(kind)
        expect(orlop.add(matrix, tensor(other)), values + other.astype(np.float32))
        expect(orlop.sub(tensor(other), matrix), other.astype(np.float32) - values)


@pytest.mark.parametrize("by_rows", [False, True])
def test_an_overflow_deep_in_a_long_line_names_its_element(by_rows):
    values = np.zeros((3000, 70), np.int32)
    values[2800, 2] = INT32_MAX
    matrix = tensor(values, strides=(70, 1) if by_rows else None)
    for other in (np.ones((1, 70), np.int32), np.ones((3000, 1), np.int32)):
        with pytest.raises(OverflowError, match=f"at element {2800 + 2 * 3000};"):
            orlop.add(matrix, tensor(other))


def test_shapes_that_do_not_agree_are_refused():
    two = floats(1, 2)
    with pytest.raises(ValueError, match="same shape profile"):
        orlop.add(two, tensor(np.ones((1, 2), np.float32)))
    with pytest.raises(ValueError, match="leaf 1: extents 3 and 4"):
        orlop.mul(tensor(np.ones((2, 3), np.float32)), tensor(np.ones((2, 4), np.float32)))


def test_wrong_operands_are_type_errors():
    x = floats(1, 2)
    for call in [
        lambda: orlop.add(1, 2),
        lambda: orlop.add(x, "2"),
        lambda: orlop.add(x, None),
        lambda: orlop.add(x, [1, 2]),
        lambda: orlop.elementwise_mul(x, 2),
        lambda: orlop.exp(1.0),
        lambda: orlop.log(ints(1)),
        lambda: orlop.maximum(x, ints(1, 2)),
        lambda: orlop.select(x, x, x),
        lambda: orlop.neg(x, x),
    ]:
        with pytest.raises(TypeError):
            call()
    gone = floats(1, 2)
    gone.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        orlop.add(x, gone)


@pytest.mark.parametrize("name", [*BINARY, "pow", *UNARY, "neg", "relu"])
def test_generic_agrees_with_cpu_bit_for_bit(name):
    arity = 1 if name in [*UNARY, "neg", "relu"] else 2
    operands = [numbers(np.float32, 200, seed) for seed in range(arity)]
    result = getattr(orlop, name)(*map(tensor, operands))
    layout = canonical((200,))
    generic = [Tensor(Generic(values.tolist(), dtype=DType.Float32), 0, layout) for values in operands]
    reference = getattr(orlop, name)(*generic)
    assert type(reference.carrier) is Generic
    expect(result, np.array([reference[i] for i in range(200)], array(result).dtype))


# --- gradients

SMOOTH = {
    "add": (lambda a, b: a + b, 2),
    "sub": (lambda a, b: a - b, 2),
    "mul": (lambda a, b: a * b, 2),
    "elementwise_mul": (lambda a, b: a * b, 2),
    "div": (lambda a, b: a / b, 2),
    "pow": (lambda a, b: a**b, 2),
    "maximum": (np.maximum, 2),
    "neg": (lambda a: -a, 1),
    "exp": (np.exp, 1),
    "log": (np.log, 1),
    "relu": (lambda a: np.maximum(a, 0), 1),
    "tanh": (np.tanh, 1),
    "sigmoid": (lambda a: 1 / (1 + np.exp(-a)), 1),
}


@pytest.mark.parametrize("size", [1, 7, 33, 1000])
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_agree_with_central_differences(name, size):
    function, arity = SMOOTH[name]
    random = np.random.default_rng(size)
    operands = [random.uniform(0.5, 2, size).astype(np.float32) for _ in range(arity)]
    expect_slopes(getattr(orlop, name), function, operands)


def gradients_of(function, *operands, cotangent):
    leaves = [floats(*operand) for operand in operands]
    return [array(gradient) for gradient in orlop.grad(function(*leaves), leaves, floats(*cotangent))]


def test_ties_of_maximum_share_the_cotangent():
    a, b = gradients_of(orlop.maximum, [0.0, INF, NAN, 3], [-0.0, INF, 1, 2], cotangent=[4, 4, 4, 4])
    np.testing.assert_array_equal(a, [2, 2, NAN, 4])
    np.testing.assert_array_equal(b, [2, 2, NAN, 0])


def test_zero_rules_of_pow():
    base, exponent = gradients_of(orlop.pow, [0, 0, -0.0], [0, -1, 2], cotangent=[1, 1, 1])
    np.testing.assert_array_equal(base, [0, -INF, 0])
    np.testing.assert_array_equal(exponent, [0, -INF, 0])


def test_the_gradient_of_division_keeps_its_range():
    _, b = gradients_of(orlop.div, [1e-20], [1e-25], cotangent=[1])
    np.testing.assert_allclose(b, [-1e30], rtol=1e-6)


def test_relu_passes_nothing_below_its_corner_whatever_the_cotangent():
    (x,) = gradients_of(orlop.relu, [1, 0, -0.0, -1, NAN], cotangent=[INF, INF, NAN, INF, 1])
    np.testing.assert_array_equal(x, [INF, 0, 0, 0, 0])


def test_select_sends_the_cotangent_where_the_value_came_from():
    condition = tensor(np.array([True, False]))
    a, b = gradients_of(lambda a, b: orlop.select(condition, a, b), [1, 2], [3, 4], cotangent=[5, NAN])
    np.testing.assert_array_equal(a, [5, 0])
    np.testing.assert_array_equal(b, [0, NAN])


def test_gradients_are_summed_over_widened_leaves():
    column = tensor(np.array([[1], [2]], np.float32))
    matrix = tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    product = orlop.mul(column, matrix)
    assert product.autograd_ctx.inputs() == (column, matrix)
    product.backward(tensor(np.ones((2, 3), np.float32)))
    expect(column.grad, np.array([[3], [12]], np.float32))
    expect(matrix.grad, np.array([[1, 1, 1], [2, 2, 2]], np.float32))


def test_integers_and_predicates_record_nothing():
    assert orlop.add(ints(1), ints(2)).autograd_ctx is None
    assert orlop.lt(floats(1), floats(2)).autograd_ctx is None
    assert orlop.exp(ints(1)).autograd_ctx is None
