"""Elementwise functions whose results are correctly rounded, beside NumPy: abs, sign, recip, sqrt, rsqrt, floor, ceil,
round, logical_not, leaky_relu, minimum, rem and clamp (P60-P63)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from arrays import WAYS, array, canonical, expect, expect_slopes, floats, ints, numbers, placed, tensor
from hypothesis import given
from hypothesis import strategies as st

import orlop
from orlop import CPU, DType, Evictable, Generic, Tensor
from orlop.carriers.operation_policy import registered_operations

LENGTHS = [1, 3, 8, 33, 1000, 5000]
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INF, NAN = math.inf, math.nan
SLOPE = np.float32(0.01)

UNARY = {
    "abs": np.abs,
    "sign": lambda x: np.sign(x) + x.dtype.type(0),  # +0 at both zeros
    "recip": lambda x: np.float32(1) / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "logical_not": lambda x: x == 0,
    "leaky_relu": lambda x: np.where(x >= 0, x, SLOPE * x),
}
FLOAT_ONLY = ["recip", "sqrt", "rsqrt", "floor", "ceil", "round"]


def extremum(chosen):
    """np.maximum or np.minimum, which do not order the zeros."""
    plus_zero_wins = chosen is np.maximum
    return lambda a, b: np.where(a == b, np.where(np.signbit(a) == plus_zero_wins, b, a), chosen(a, b))


minimum, maximum = extremum(np.minimum), extremum(np.maximum)


def clamp(x, lower, upper):
    return minimum(maximum(x, lower), upper)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


# --- values


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_floats_have_the_bits_of_numpy(name, size):
    for seed, way in enumerate(WAYS):
        x, model = placed(numbers(np.float32, size, seed), way)
        expected = UNARY[name](model)
        expect(getattr(orlop, name)(x), expected[:1] if way == "widened" else expected)


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("name", ["abs", "sign", "logical_not", "leaky_relu"])
def test_functions_of_integers_have_the_bits_of_numpy(name, size):
    for seed, way in enumerate(WAYS):
        x, model = placed(numbers(np.int32, size, seed) // 20000, way)
        expected = UNARY[name](model.astype(np.float32) if name == "leaky_relu" else model)
        expect(getattr(orlop, name)(x), expected[:1] if way == "widened" else expected)


@pytest.mark.parametrize("name", FLOAT_ONLY)
def test_roots_and_roundings_refuse_integers(name):
    with pytest.raises(TypeError):
        getattr(orlop, name)(ints(1))


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("abs", [-0.0, -INF, NAN, -1e-45], [0.0, INF, NAN, 1e-45]),
        ("sign", [-0.0, 0.0, -INF, NAN, 1e-45, -3e38], [0.0, 0.0, -1, NAN, 1, -1]),
        ("recip", [0.0, -0.0, INF, -INF, NAN, 1e-45], [INF, -INF, 0.0, -0.0, NAN, INF]),
        ("sqrt", [-0.0, 0.0, -1e-45, INF, -INF, NAN, 4], [-0.0, 0.0, NAN, INF, NAN, NAN, 2]),
        ("rsqrt", [0.0, -0.0, INF, -1, NAN, 4], [INF, -INF, 0.0, NAN, NAN, 0.5]),
        ("floor", [-0.0, 0.5, -0.5, -1e-45, INF, -INF, NAN, 2**23 + 1, -(2**30)],
         [-0.0, 0.0, -1, -1, INF, -INF, NAN, 2**23 + 1, -(2**30)]),
        ("ceil", [-0.0, -0.5, 0.5, 1e-45, INF, -INF, NAN, 2**23 - 0.5], [-0.0, -0.0, 1, 1, INF, -INF, NAN, 2**23]),
        ("round", [0.5, 1.5, 2.5, -0.4, -0.5, -1.5, INF, NAN, 0.49999997, 8388607.5],
         [0.0, 2, 2, -0.0, -0.0, -2, INF, NAN, 0.0, 8388608]),
        ("leaky_relu", [0.0, -0.0, -1, INF, -INF, NAN, 5], [0.0, -0.0, -SLOPE, INF, -INF, NAN, 5]),
    ],
)  # fmt: skip
def test_special_values(name, values, expected):
    expect(getattr(orlop, name)(floats(*values)), np.array(expected, np.float32))


def test_logical_not_is_true_at_zero_and_false():
    expect(orlop.logical_not(floats(0.0, -0.0, NAN, 1e-45, INF)), np.array([True, True, False, False, False]))
    expect(orlop.logical_not(ints(0, 1, INT32_MIN)), np.array([True, False, False]))
    expect(orlop.logical_not(tensor(np.array([True, False]))), np.array([False, True]))


def test_the_size_of_the_lowest_integer_is_an_overflow_error():
    expect(orlop.abs(ints(INT32_MIN + 1, INT32_MAX)), np.array([INT32_MAX, INT32_MAX], np.int32))
    with pytest.raises(OverflowError, match=r"^\[abs\] the exact result leaves Int32 at element 2;"):
        orlop.abs(ints(1, 2, INT32_MIN))
    expect(orlop.sign(ints(INT32_MIN, INT32_MAX)), np.array([-1, 1], np.int32))


@pytest.mark.parametrize("size", LENGTHS)
def test_minimum_and_rem_have_the_bits_of_numpy(size):
    for seed, (left, right) in enumerate((left, right) for left in WAYS for right in WAYS):
        for kind in (np.float32, np.int32):
            a, model_a = placed(numbers(kind, size, seed), left)
            divisors = numbers(kind, size, 100 + seed)
            b, model_b = placed(np.where(divisors == 0, kind(7), divisors), right)
            width = 1 if left == right == "widened" else size
            expect(orlop.minimum(a, b), minimum(model_a, model_b)[:width])
            expect(orlop.rem(a, b), np.fmod(model_a, model_b)[:width])


def test_minimum_knows_nan_and_the_sign_of_zero():
    expect(
        orlop.minimum(floats(0.0, -0.0, 0.0, NAN, 1, -INF), floats(-0.0, 0.0, 0.0, 1, NAN, INF)),
        np.array([-0.0, -0.0, 0.0, NAN, NAN, -INF], np.float32),
    )
    expect(orlop.minimum(2, floats(1, 3)), np.array([1, 2], np.float32))
    expect(orlop.minimum(ints(1, 3), 2), np.array([1, 2], np.int32))
    expect(orlop.minimum(ints(1, 3), 2.5), np.array([1, 2.5], np.float32))
    for lhs, rhs in [(floats(1), ints(1)), (1, 2), (floats(1), "1")]:
        with pytest.raises(TypeError):
            orlop.minimum(lhs, rhs)


def test_rem_is_exact_over_the_whole_range():
    random = np.random.default_rng(3)
    patterns = random.integers(0, 2**32, (2, 20000), dtype=np.uint32).view(np.float32)
    edges = np.array(
        [0.0, 1e-45, 3e-45, 1.1754942e-38, 1.1754944e-38, 1, 1.0000001, 3, 2**24 - 1, 2**28 - 1, 2**28, 2**28 * 3.0, 3.4028235e38, INF, NAN],
        np.float32,
    )
    a, b = np.meshgrid(np.concatenate([edges, -edges]), np.concatenate([edges, -edges]))
    for dividend, divisor in [tuple(patterns), (a.ravel(), b.ravel())]:
        expect(orlop.rem(tensor(dividend), tensor(divisor)), np.fmod(dividend, divisor))


def test_rem_of_integers_truncates_and_never_traps():
    a = np.array([INT32_MIN, INT32_MIN, INT32_MIN, INT32_MAX, -5, 5, -5, 7, 0], np.int32)
    b = np.array([-1, 1, INT32_MIN, INT32_MIN, 3, -3, -3, 7, -9], np.int32)
    expect(orlop.rem(tensor(a), tensor(b)), np.array([0, 0, 0, INT32_MAX, -2, 2, -2, 0, 0], np.int32))
    random = np.random.default_rng(5)
    a, b = random.integers(INT32_MIN, INT32_MAX, (2, 20000), dtype=np.int32, endpoint=True)
    b >>= random.integers(0, 30, 20000, dtype=np.int32)
    b[b == 0] = -1
    expect(orlop.rem(tensor(a), tensor(b)), np.array([math.fmod(x, y) for x, y in zip(a, b)], np.int32))


@pytest.mark.parametrize("size", [2, 5000])
def test_an_integer_divided_by_zero_is_a_value_error(size):
    divisors = np.ones(size, np.int32)
    divisors[size - 1] = 0
    for kind in ("cpu", "generic"):
        a, b = tensor(np.full(size, 7, np.int32)), tensor(divisors)
        if kind == "generic":
            a, b = generic(np.full(size, 7, np.int32)), generic(divisors)
        with pytest.raises(ValueError, match=rf"^\[rem\] the divisor is 0 at element {size - 1};"):
            orlop.rem(a, b)


def test_a_fault_names_the_element_of_the_result_wherever_the_operands_lie():
    dividends = tensor(np.array([[7], [8]], np.int32), strides=[3, 9], offset=1)
    divisors = tensor(np.array([[1, 2, 0, 4]], np.int32), strides=[1, 2])
    with pytest.raises(ValueError, match="at element 4;"):
        orlop.rem(dividends, divisors)
    standing, _ = placed(np.zeros(3000, np.int32), "repeated")
    with pytest.raises(ValueError, match="at element 0;"):
        orlop.rem(ints(*range(3000)), standing)
    lowest, _ = placed(np.array([INT32_MIN] * 3, np.int32), "strided")
    with pytest.raises(OverflowError, match="at element 0;"):
        orlop.abs(lowest)


def test_a_divisor_of_zero_in_a_large_tensor_is_found():
    divisors = np.ones(1_000_003, np.int32)
    divisors[999_999] = 0
    source = tensor(divisors)
    version = source.version
    with pytest.raises(ValueError, match="at element 999999;"):
        orlop.rem(source, source)
    assert source.version == version
    np.testing.assert_array_equal(array(source), divisors)


def test_rem_takes_two_tensors_of_one_dtype():
    for lhs, rhs in [(floats(1), ints(1)), (floats(1), 2), (2, floats(1)), (tensor(np.array([True])), floats(1))]:
        with pytest.raises((TypeError, NotImplementedError)):
            orlop.rem(lhs, rhs)


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("lower_kind", ["tensor", "number"])
@pytest.mark.parametrize("upper_kind", ["tensor", "number"])
def test_clamp_is_the_minimum_of_the_maximum(lower_kind, upper_kind, size):
    for seed, way in enumerate(WAYS):
        for kind in (np.float32, np.int32):
            x, model = placed(numbers(kind, size, seed), way)
            bounds = [numbers(kind, size, seed + 1 + which) for which in range(2)]
            arguments, models = [], []
            for kind_of_bound, values in zip((lower_kind, upper_kind), bounds):
                number = values[0].item()
                arguments.append(tensor(values) if kind_of_bound == "tensor" else number)
                models.append(values if kind_of_bound == "tensor" else values[:1])
            expected = clamp(model, *models)
            if way == "widened" and lower_kind == upper_kind == "number":
                expected = expected[:1]
            expect(orlop.clamp(x, *arguments), expected)


def test_clamp_at_its_edges():
    expect(orlop.clamp(floats(2, NAN), 1.0, -1.0), np.array([-1, NAN], np.float32))
    expect(orlop.clamp(floats(2), NAN, 1), np.array([NAN], np.float32))
    expect(orlop.clamp(floats(-0.0), 0.0, 1), np.array([0.0], np.float32))
    expect(orlop.clamp(ints(-7, 2, 9), 0, 3), np.array([0, 2, 3], np.int32))
    expect(orlop.clamp(ints(-7, 2, 9), 0, 2.5), np.array([0, 2, 2.5], np.float32))
    expect(orlop.clamp(ints(5), ints(1), 4.5), np.array([4.5], np.float32))
    expect(orlop.clamp(tensor=floats(3), lower=0, upper=10**400), np.array([3], np.float32))
    with pytest.raises(OverflowError):
        orlop.clamp(ints(1), 0, 2**31)


def test_extrema_of_special_values_have_the_same_bits_on_cpu_and_generic():
    special = np.array([0.0, -0.0, 1, -1, 1e-45, -1e-45, 3e38, INF, -INF, NAN, -NAN], np.float32)
    special = np.append(special, np.array([0x7FC00001, 0xFFC12345], np.uint32).view(np.float32))
    x, lower, upper = (np.ascontiguousarray(grid.reshape(-1)) for grid in np.meshgrid(special, special, special))
    for name, model, operands in [
        ("maximum", maximum, (x, lower)),
        ("minimum", minimum, (x, lower)),
        ("clamp", clamp, (x, lower, upper)),
    ]:
        found = [
            array(getattr(orlop, name)(*(tensor(values, kind=kind) for values in operands))) for kind in (CPU, Generic)
        ]
        np.testing.assert_array_equal(found[0].view(np.uint32), found[1].view(np.uint32))
        expect(getattr(orlop, name)(*map(tensor, operands)), model(*operands))


def test_clamp_widens_all_operands_at_once():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    lower, upper = np.float32([[1], [4]]), np.float32([[2, 3, 9]])
    result = orlop.clamp(tensor(x, strides=[3, 1]), tensor(lower), tensor(upper))
    expect(result, clamp(x, lower, upper))
    assert len(result.autograd_ctx.inputs()) == 3


def test_clamp_refuses_other_operands():
    x = floats(1, 2)
    for arguments in [(x, None, 1), (x, 0, "1"), (1, x, x), (x, ints(1, 2), 3), (x, x), (x, x, x, x)]:
        with pytest.raises(TypeError):
            orlop.clamp(*arguments)
    with pytest.raises(NotImplementedError):
        orlop.clamp(tensor(np.array([True])), 0, 1)
    with pytest.raises(ValueError, match="do not broadcast at leaf 0"):
        orlop.clamp(x, floats(1, 2, 3), 1)


# --- backends


def generic(values):
    dtype = {np.float32: DType.Float32, np.int32: DType.Int32}[values.dtype.type]
    return Tensor(Generic(values.tolist(), dtype=dtype), 0, canonical(values.shape))


@pytest.mark.parametrize("name", [*UNARY, "minimum", "rem", "clamp"])
def test_generic_agrees_with_cpu_bit_for_bit(name):
    arity = {"minimum": 2, "rem": 2, "clamp": 3}.get(name, 1)
    operands = [numbers(np.float32, 200, seed) for seed in range(arity)]
    result = getattr(orlop, name)(*map(tensor, operands))
    reference = getattr(orlop, name)(*map(generic, operands))
    assert type(reference.carrier) is Generic
    expect(result, np.array([reference[i] for i in range(200)], array(result).dtype))


def test_what_only_gradients_use_is_no_operation():
    assert "_rem_quotient" not in [spec.name for spec in registered_operations()]
    assert not [entry for entry in floats(1).carrier.operation_capabilities() if entry.operation == "_rem_quotient"]
    with pytest.raises(NotImplementedError):
        floats(1).carrier.dispatch_op("_rem_quotient")


# --- gradients


def gradients_of(function, *operands, cotangent):
    leaves = [floats(*operand) for operand in operands]
    return [array(gradient) for gradient in orlop.grad(function(*leaves), leaves, floats(*cotangent))]


SMOOTH = {
    "abs": (np.abs, 1),
    "recip": (lambda a: 1 / a, 1),
    "sqrt": (np.sqrt, 1),
    "rsqrt": (lambda a: 1 / np.sqrt(a), 1),
    "leaky_relu": (lambda a: np.where(a >= 0, a, np.float64(SLOPE) * a), 1),
    "minimum": (np.minimum, 2),
    "rem": (np.fmod, 2),
    "clamp": (lambda x, lower, upper: np.minimum(np.maximum(x, lower), upper), 3),
}


@pytest.mark.parametrize(
    ("name", "sign"), [(name, sign) for name in SMOOTH for sign in (1, -1) if sign == 1 or "sqrt" not in name]
)
def test_gradients_agree_with_central_differences(name, sign):
    function, arity = SMOOTH[name]
    random = np.random.default_rng(arity)
    operands = [sign * random.uniform(0.5, 4, 300).astype(np.float32) for _ in range(arity)]
    expect_slopes(getattr(orlop, name), function, operands)


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round"])
def test_functions_with_steps_have_zero_gradients(name):
    (x,) = gradients_of(getattr(orlop, name), [0.5, -2, 0, NAN, INF], cotangent=[1, INF, NAN, 1, -1])
    expect(tensor(x), np.zeros(5, np.float32))


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("abs", [0.0, -0.0, -3, 5, NAN], [0.0, 0.0, -2, 2, NAN]),
        ("recip", [2, 0.0, INF], [-0.5, -INF, -0.0]),
        ("sqrt", [4, 0.0, INF], [0.5, INF, 0.0]),
        ("rsqrt", [4, 0.0, INF], [-0.125, -INF, -0.0]),
        ("leaky_relu", [0.0, -0.0, -1, 1], [2, 2, 2 * SLOPE, 2]),
    ],
)
def test_gradients_at_the_edges(name, x, expected):
    (gradient,) = gradients_of(getattr(orlop, name), x, cotangent=[2] * len(x))
    np.testing.assert_array_equal(gradient, np.array(expected, np.float32))


def test_ties_of_minimum_share_the_cotangent():
    a, b = gradients_of(orlop.minimum, [0.0, INF, NAN, 3], [-0.0, INF, 1, 2], cotangent=[4, 4, 4, 4])
    np.testing.assert_array_equal(a, [2, 2, NAN, 0])
    np.testing.assert_array_equal(b, [2, 2, NAN, 4])


def test_gradients_of_clamp_split_ties_rule_by_rule():
    x, lower, upper = gradients_of(
        orlop.clamp, [1, 0, 5, 1, 2, NAN], [1, 1, 1, 1, 3, 0], [1, 2, 2, 2, 1, 1], cotangent=[4] * 6
    )
    np.testing.assert_array_equal(x, [1, 0, 0, 2, 0, NAN])
    np.testing.assert_array_equal(lower, [1, 4, 0, 2, 0, NAN])
    np.testing.assert_array_equal(upper, [2, 0, 4, 0, 4, NAN])


def test_number_bounds_of_clamp_get_nothing_and_still_share_a_tie():
    leaf = floats(0, 0.5, 1, 2)
    (x,) = orlop.grad(orlop.clamp(leaf, 0, 1.0), [leaf], floats(4, 4, 4, 4))
    expect(x, np.array([2, 4, 2, 0], np.float32))
    lower = floats(1, 0)
    value, bound = orlop.grad(orlop.clamp(floats(1, 3), lower, 2), [lower, lower], floats(4, 4))
    expect(value, np.array([2, 0], np.float32))
    expect(bound, np.array([2, 0], np.float32))


def test_gradients_of_clamp_are_summed_over_widened_leaves():
    x = tensor(np.float32([[0, 5, 2], [3, 9, 1]]))
    lower, upper = tensor(np.float32([[1], [4]])), tensor(np.float32([[8, 4, 8]]))
    result = orlop.clamp(x, lower, upper)
    gx, gl, gu = orlop.grad(result, [x, lower, upper], tensor(np.ones((2, 3), np.float32)))
    expect(gx, np.float32([[0, 0, 1], [0, 0, 0]]))
    expect(gl, np.float32([[1], [2]]))
    expect(gu, np.float32([[0, 2, 0]]))


@pytest.mark.parametrize(
    ("name", "column_slopes", "row_slopes"),
    [("minimum", [[1.5], [0]], [[2, 1.5, 1]]), ("rem", [[3], [3]], [[-2 - 5, -1 - 2, 0 - 1]])],
)
def test_gradients_of_two_operands_are_summed_over_widened_leaves(name, column_slopes, row_slopes):
    column, row = tensor(np.float32([[2], [5]]), strides=[4, 1]), tensor(np.float32([[1, 2, 3]]))
    result = getattr(orlop, name)(column, row)
    to_column, to_row = orlop.grad(result, [column, row], tensor(np.ones((2, 3), np.float32)))
    assert to_column.layout == column.layout
    np.testing.assert_array_equal(array(to_column), column_slopes)
    np.testing.assert_array_equal(array(to_row), row_slopes)


def nearest(ratio):
    """The binary32 value nearest to a Fraction, ties to even, as a Fraction."""
    if ratio == 0:
        return Fraction(0)
    size = abs(ratio)
    exponent = max(math.floor(math.log2(size)) - 24, -149)
    while size / Fraction(2) ** exponent >= 2**24:
        exponent += 1
    while exponent > -149 and size / Fraction(2) ** exponent < 2**23:
        exponent -= 1
    value = round(size / Fraction(2) ** exponent) * Fraction(2) ** exponent
    return -value if ratio < 0 else value


def check_rem_gradient(a, b):
    lhs, rhs = gradients_of(orlop.rem, a, b, cotangent=[1] * len(a))
    np.testing.assert_array_equal(lhs, np.ones(len(a)))
    for dividend, divisor, gradient in zip(np.float32(a), np.float32(b), rhs):
        ratio = dividend / divisor
        if not np.isfinite(ratio):
            np.testing.assert_array_equal(gradient, -ratio)
        elif np.isinf(divisor):
            assert gradient == 0
        else:
            expected = -nearest(Fraction(math.trunc(Fraction(float(dividend)) / Fraction(float(divisor)))))
            assert Fraction(float(gradient)) == expected, (dividend, divisor)


def test_the_gradient_of_rem_is_the_exact_truncated_quotient():
    random = np.random.default_rng(9)
    for low, high in [(-3, 3), (0, 30), (20, 55), (-140, 120)]:
        a = random.uniform(-1, 1, 4000) * np.exp2(random.integers(low, high + 1, 4000))
        b = random.uniform(-1, 1, 4000) * (1 if low >= 0 else np.exp2(random.integers(low, high + 1, 4000)))
        a, b = a.astype(np.float32), b.astype(np.float32)
        check_rem_gradient(a[b != 0], b[b != 0])
    check_rem_gradient(
        [12582914.0 * 2**24, 1e30, -1e30, 7, -7, 3e38, 1, 0.0, INF, NAN, 1, INF, 2**24 + 2, 3, 16777215],
        [12582913, 3, 3, 2, 2, 1e-3, INF, 2, 2, 1, 0.0, INF, 1, 4, 0.33333334],
    )


@given(
    st.integers(1, 2**24 - 1),
    st.integers(2**23, 2**24 - 1),
    st.integers(-1, 1),
    st.integers(0, 60),
)
def test_the_quotient_of_rem_is_rounded_once_beside_every_boundary(odd, divisor, offset, shift):
    """Dividends next to (2k + 1)/2 units of a binary32 value times the divisor."""
    boundary = (2 * odd + 1) << shift
    dividend = float(np.float32(boundary * divisor))
    below = float(np.nextafter(np.float32(dividend), np.float32(INF if offset > 0 else 0)))
    check_rem_gradient([below if offset else dividend], [divisor])


def test_operations_and_their_gradients_run_in_a_hierarchy():
    def hierarchical(*values):
        return Tensor(Evictable(floats(*values).carrier, CPU(0)), 0, canonical((len(values),)))

    a, b = hierarchical(7.5, -9.0), hierarchical(2.0, 4.0)
    result = orlop.clamp(orlop.rem(a, b), -0.5, 1.5)
    assert type(result.carrier) is Evictable
    assert [result[i] for i in range(2)] == [1.5, -0.5]
    gradients = orlop.grad(result, [a, b], hierarchical(4, 4))
    assert [[gradient[i] for i in range(2)] for gradient in gradients] == [[2, 0], [-6, 0]]
