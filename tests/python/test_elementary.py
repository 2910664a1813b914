"""Elementary functions and the activations built on them, beside binary64 models (P54, P55, P60, P61, P65)."""

import math

import numpy as np
import pytest

import orlop
from arrays import array, canonical, floats, tensor
from orlop import CPU, DType, Generic, Layout, Shape, Stride, Tensor

INF, NAN = math.inf, math.nan
LENGTHS = [1, 3, 7, 8, 15, 16, 17, 33, 1000, 5000]


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


# Name: the binary64 model and the error allowed, in units in the last place; gelu is bounded beside its operand.
FUNCTIONS = {
    "exp2": (np.exp2, 1),
    "log2": (np.log2, 1),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "erf": (erf, 1),
    "gelu": (lambda x: 0.5 * x * (1 + erf(x * math.sqrt(0.5))), None),
    "silu": (lambda x: x * sigmoid(x), 4),
    "softplus": (softplus, 3),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(np.where(x > 0, 0, x))), 1),
}
FLOAT_ONLY = ["exp2", "log2", "sin", "cos", "erf"]
ACTIVATIONS = ["gelu", "silu", "softplus", "elu"]


def inputs(size, seed):
    """Every magnitude and sign, most of them near 1."""
    random = np.random.default_rng(seed)
    values = (random.standard_normal(size) * 4).astype(np.float32)
    anywhere = random.integers(0, 2**32, size, dtype=np.uint32).view(np.float32)
    specials = np.array([0.0, -0.0, 1, -1, INF, -INF, NAN, 1e-45, -1e-45, 3e38, -3e38, 2**21], np.float32)
    chosen = random.integers(0, 4, size)
    return np.choose(chosen, [values, values, anywhere, random.choice(specials, size)]).astype(np.float32)


def expect_within(name, values, x):
    model, ulp = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        exact = model(x.astype(np.float64))
        nearest = exact.astype(np.float32)
        if ulp is None:
            nearest = np.where(x == -INF, np.float32(NAN), nearest)
    assert values.dtype == np.float32
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(values[~finite], nearest[~finite])
    error = np.abs(values[finite].astype(np.float64) - exact[finite])
    size = np.abs(x[finite].astype(np.float64))
    smallest = 2.0**-149
    if ulp is None:
        assert np.all(error <= np.maximum(2.0**-23 * size, smallest))
    else:
        allowed = ulp * np.spacing(np.abs(nearest[finite])).astype(np.float64)
        if name == "silu":  # the factor s(x) may be subnormal and keep few bits
            allowed += np.where(x[finite] < -87, size * smallest, 0)
        assert np.all(error <= allowed)
        zero = finite & (exact == 0)
        np.testing.assert_array_equal(np.signbit(values[zero]), np.signbit(exact[zero]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_within_their_error_however_the_operand_lies(name):
    function = getattr(orlop, name)
    for size in LENGTHS:
        x = inputs(size, size)
        expect_within(name, array(function(tensor(x))), x)
        expect_within(name, array(function(tensor(x, strides=[3], offset=2))), x)
        repeated = tensor(np.full(size, x[0]), strides=[0], offset=1)
        expect_within(name, array(function(repeated)), np.full(size, x[0]))
    matrix = inputs(12, 0).reshape(3, 4)
    y = function(tensor(matrix, strides=[4, 1]))
    assert y.layout == canonical((3, 4))
    expect_within(name, array(y), matrix)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_convert_integers(name):
    x = np.array([0, 1, -1, 5, -7, 16777217, -(2**31), 2**31 - 1], np.int32)
    expect_within(name, array(getattr(orlop, name)(tensor(x))), x.astype(np.float32))


@pytest.mark.parametrize("name", FLOAT_ONLY)
def test_functions_of_floats_refuse_integers(name):
    with pytest.raises(TypeError):
        getattr(orlop, name)(tensor(np.array([1], np.int32)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_operands_are_refused(name):
    function = getattr(orlop, name)
    x = floats(1, 2)
    for operands in [(1.0,), ("x",), (None,), ([1.0],), (), (x, x)]:
        with pytest.raises(TypeError):
            function(*operands)
    with pytest.raises(NotImplementedError):
        function(tensor(np.array([True])))
    x.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        function(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_too_large_for_memory_is_refused(name):
    one = CPU(1, dtype=DType.Float32)
    with pytest.raises((MemoryError, OverflowError)):
        getattr(orlop, name)(Tensor(one, 0, Layout(Shape(2**61), Stride(0))))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_generic_agrees_with_cpu_bit_for_bit(name):
    x = inputs(300, 9)
    function = getattr(orlop, name)
    result, reference = array(function(tensor(x))), array(function(tensor(x, kind=Generic)))
    numbers = ~np.isnan(result)
    np.testing.assert_array_equal(np.isnan(reference), ~numbers)
    np.testing.assert_array_equal(reference[numbers].view(np.uint32), result[numbers].view(np.uint32))


def test_sine_and_cosine_know_where_huge_arguments_lie():
    x = np.array([2**21, 2**21 - 0.25, 1e10, 2.0**127, 3.4028235e38, 1.6e38, 16367173 * 2.0**72], np.float32)
    for name in ("sin", "cos"):
        for values in (x, -x):
            expect_within(name, array(getattr(orlop, name)(tensor(values))), values)


# --- gradients


def slope(name, x):
    model, step = FUNCTIONS[name][0], 1e-6
    return (model(x + step) - model(x - step)) / (2 * step)


@pytest.mark.parametrize("kind", [CPU, Generic])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_agree_with_central_differences(name, kind):
    random = np.random.default_rng(3)
    for size in (1, 17, 200) if kind is CPU else (5,):
        x = random.uniform(0.3, 3, size).astype(np.float32)
        if name != "log2":
            x *= random.choice(np.array([-1, 1], np.float32), size)
        cotangent = random.standard_normal(size).astype(np.float32)
        for strides in ([1], [3]):
            leaf = tensor(x, strides=strides, kind=kind)
            (gradient,) = orlop.grad(getattr(orlop, name)(leaf), [leaf], tensor(cotangent, kind=kind))
            assert gradient.layout == leaf.layout
            expected = cotangent * slope(name, x.astype(np.float64))
            np.testing.assert_allclose(array(gradient), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_repeated_elements(name):
    leaf = tensor(np.full((2, 3), 0.5, np.float32), strides=[0, 1])
    y = getattr(orlop, name)(leaf)
    (gradient,) = orlop.grad(y, [leaf], tensor(np.ones((2, 3), np.float32)))
    np.testing.assert_allclose(array(gradient), np.full((2, 3), 2 * slope(name, 0.5)), rtol=2e-5)


def gradient_at(name, *points):
    leaf = floats(*points)
    (gradient,) = orlop.grad(getattr(orlop, name)(leaf), [leaf], floats(*([1.0] * len(points))))
    return array(gradient)


@pytest.mark.parametrize(
    ("name", "points", "expected"),
    [
        ("exp2", [-INF, 128, NAN], [0, INF, NAN]),
        ("log2", [0.0, -0.0, INF, NAN], [INF, -INF, 0, NAN]),
        ("sin", [0, INF, NAN], [1, NAN, NAN]),
        ("cos", [0, INF, NAN], [0, NAN, NAN]),
        ("erf", [INF, -INF, NAN], [0, 0, NAN]),
        ("gelu", [0, -40, 40, -INF, INF, NAN], [0.5, 0, 1, NAN, NAN, NAN]),
        ("silu", [0, -200, 200, -INF, INF, NAN], [0.5, 0, 1, NAN, NAN, NAN]),
        ("softplus", [0, -INF, INF, NAN], [0.5, 0, 1, NAN]),
        ("elu", [1, 0, -0.0, -INF, INF, NAN], [1, 1, 1, 0, 1, NAN]),
    ],
)
def test_gradients_at_the_edges(name, points, expected):
    np.testing.assert_array_equal(gradient_at(name, *points), np.array(expected, np.float32))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_integer_operands_record_nothing(name):
    assert getattr(orlop, name)(tensor(np.array([1, 2], np.int32))).autograd_ctx is None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_changed_operand_is_noticed(name):
    x = floats(1, 2)
    y = getattr(orlop, name)(x)
    x[0] = 5.0
    with pytest.raises(RuntimeError):
        y.backward(floats(1, 1))
    assert x.grad is None
