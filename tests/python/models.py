"""What every operation means in NumPy, and operands for each of its plans: the side that Orlop is compared with."""

import itertools
import math
from typing import NamedTuple

import numpy as np

from orlop import DType
from orlop.carriers.operation_policy import (
    ACCUMULATOR_CONFIGURABLE_OPERATIONS,
    WEAK_SCALAR_PROBES,
    OperandRole,
    OperationExecutionOptions,
    resolvable_plans,
    resolve_operation_plan,
)

FLOAT, INT, BOOL = DType.Float32, DType.Int32, DType.Bool
SPECIAL_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, 1e-45, 3e38, -3e38]
PLANS_OF_ALL = resolvable_plans((FLOAT, INT, BOOL))


class Model(NamedTuple):
    """`exact` from the converted operands; `ulp` 0 means correctly rounded."""

    exact: object
    ulp: float = 0.0
    bound: object = None  # of the absolute error, from the operands, instead of `ulp`


def maximum(a, b):
    """np.maximum with +0 above -0."""
    return np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b))


def minimum(a, b):
    return -maximum(-a, -b)


def relu(x):
    return np.where(x <= 0, 0, x)


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def gelu(x):
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


def silu(x):
    return x * sigmoid(x)


def rsqrt(x):
    return 1.0 / np.sqrt(x).astype(np.float32).astype(np.float64)


def sign(x):
    return np.sign(x) + np.zeros_like(x)


def extremum(x, is_minimum):
    """Along the second mode: the first NaN, and of equal zeros the one of the preferred sign."""
    best = x[:, 0]
    for column in x.T[1:]:
        best = (minimum if is_minimum else maximum)(best, column)
    return best


def order(x, is_descending):
    """Stable, with NaN as the greatest value."""
    positions = sorted(range(len(x)), key=lambda i: (bool(np.isnan(x[i])), 0.0 if np.isnan(x[i]) else x[i]),
                       reverse=is_descending)
    return np.array(positions, np.int64)


def convolution(lhs, kernel):
    """Of [1, features, n] with [outputs, features, width]: no padding, no dilation, stride one."""
    windows = np.lib.stride_tricks.sliding_window_view(lhs[0], kernel.shape[2], axis=1)
    return np.einsum("fnw,ofw->on", windows, kernel)[np.newaxis]


def scatter(base, indices, updates):
    result = base.copy()
    result[indices] = updates
    return result


def scatter_add(base, indices, updates):
    result = base.astype(np.float32) if base.dtype == np.float64 else base.copy()
    np.add.at(result, indices, updates.astype(result.dtype))
    return result


def sequential_product(x):
    return np.cumprod(x.astype(np.float32) if x.dtype == np.float64 else x, axis=1)[:, -1]


def integer_power(base, exponent):
    return base**exponent if base.dtype == np.int64 else np.power(base, exponent)


MODELS = {
    "add": Model(np.add),
    "sub": Model(np.subtract),
    "mul": Model(np.multiply),
    "elementwise_mul": Model(np.multiply),
    "div": Model(np.divide),
    "pow": Model(integer_power, ulp=1),
    "neg": Model(np.negative),
    "abs": Model(np.abs),
    "sign": Model(sign),
    "recip": Model(lambda x: 1.0 / x),
    "sqrt": Model(np.sqrt),
    "rsqrt": Model(rsqrt),
    "exp": Model(np.exp, ulp=1),
    "exp2": Model(np.exp2, ulp=1),
    "log": Model(np.log, ulp=1),
    "log2": Model(np.log2, ulp=1),
    "sin": Model(np.sin, ulp=1),
    "cos": Model(np.cos, ulp=1),
    "erf": Model(erf, ulp=1),
    "floor": Model(np.floor),
    "ceil": Model(np.ceil),
    "round": Model(np.rint),
    "logical_not": Model(lambda x: x == 0),
    "relu": Model(relu),
    "sigmoid": Model(sigmoid, ulp=3),
    "tanh": Model(np.tanh, ulp=1),
    "gelu": Model(gelu, bound=lambda x: 2.0**-23 * np.abs(x) + 2.0**-149),
    # Where the sigmoid is subnormal, its own rounding is multiplied by x.
    "silu": Model(silu, bound=lambda x: 4 * np.spacing(np.abs(silu(x)).astype(np.float32)) + np.abs(x) * 2.0**-149),
    "softplus": Model(lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0), ulp=3),
    "elu": Model(lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))), ulp=1),
    "leaky_relu": Model(lambda x: np.where(x >= 0, x, np.float64(np.float32(0.01)) * x)),
    "maximum": Model(maximum),
    "minimum": Model(minimum),
    "rem": Model(np.fmod),
    "eq": Model(np.equal),
    "ne": Model(np.not_equal),
    "lt": Model(np.less),
    "le": Model(np.less_equal),
    "select": Model(np.where),
    "clamp": Model(lambda x, lower, upper: minimum(maximum(x, lower), upper)),
    "reduce_sum": Model(lambda x: x.sum(axis=1) + 0.0 if x.dtype == np.float64 else x.sum(axis=1),
                        bound=lambda x: (x.shape[1] - 1, np.abs(x).sum(axis=1))),
    "reduce_prod": Model(sequential_product),
    "reduce_max": Model(lambda x: extremum(x, False)),
    "reduce_min": Model(lambda x: extremum(x, True)),
    "argmax": Model(lambda x: np.argmax(x, axis=1)),
    "argmin": Model(lambda x: np.argmin(x, axis=1)),
    "cumsum": Model(lambda x, _: np.cumsum(x) + x.dtype.type(0),
                    bound=lambda x, _: (np.arange(len(x)), np.cumsum(np.abs(x)))),
    "matmul": Model(lambda a, b: a @ b.T, bound=lambda a, b: (a.shape[1], np.abs(a) @ np.abs(b).T)),
    "conv_general": Model(lambda a, b, *_: convolution(a, b),
                          bound=lambda a, b, *_: (b[0].size, convolution(np.abs(a), np.abs(b)))),
    "gather": Model(lambda x, indices, _: x[indices]),
    "scatter": Model(lambda base, indices, updates, _: scatter(base, indices, updates)),
    "scatter_add": Model(lambda base, indices, updates, _: scatter_add(base, indices, updates)),
    "_sort_values": Model(lambda x, _, is_descending: x[order(x, is_descending)]),
    "_sort_indices": Model(lambda x, _, is_descending: order(x, is_descending)),
    "_topk_values": Model(lambda x, k, _, is_largest: x[order(x, is_largest)[:k]]),
    "_topk_indices": Model(lambda x, k, _, is_largest: order(x, is_largest)[:k]),
}
REDUCTIONS = {name for name in MODELS if name.startswith(("reduce_", "arg"))}
OF_FINITE_SUMS = {"reduce_sum", "matmul", "conv_general", "cumsum", "scatter_add", "reduce_prod"}
ELEMENTWISE = set(MODELS) - REDUCTIONS - OF_FINITE_SUMS - {"gather", "scatter"} - {
    name for name in MODELS if name.startswith("_")
}


# --- The operands of a plan


def numbers(kind, size, name, random):
    """Values on which `name` stays within Int32; floats with special ones where a sum does not have to be finite."""
    if kind is BOOL:
        return random.random(size) < 0.5
    if kind is INT:
        values = random.integers(-3, 4, size) if name in ("pow", "reduce_prod") else random.integers(-900, 900, size)
        if name == "reduce_prod":
            values = np.where(random.random(size) < 0.97, 1, values)
        if name == "rem":
            values = np.where(values == 0, 7, values)
        return values.astype(np.int32)
    values = (random.standard_normal(size) * 4).astype(np.float32)
    if name not in OF_FINITE_SUMS:
        chosen = random.random(size) < 0.2
        values[chosen] = random.choice(np.array(SPECIAL_FLOATS, np.float32), np.count_nonzero(chosen))
    return values


def extents_of(name, length):
    """The shape of each Tensor operand."""
    if name in REDUCTIONS:
        return [(2, length)]
    if name == "matmul":
        return [(2, length), (3, length)]
    if name == "conv_general":
        return [(1, 2, length + 2), (3, 2, 3)]
    few = min(length, 5)
    if name == "gather":
        return [(length,), (few,)]
    if name in ("scatter", "scatter_add"):
        return [(length,), (few,), (few,)]
    return [(length,)] * 3


def parameters_of(name, length):
    """The arguments after the operands."""
    return {
        "cumsum": (0,),
        "conv_general": ((1,), ((0, 0),), (1,), (1,), 1, None, None, None),
        "gather": (0,),
        "scatter": (0,),
        "scatter_add": (0,),
        "_sort_values": (-1, length % 2 == 0),
        "_sort_indices": (-1, length % 2 == 0),
        "_topk_values": (min(length, 4), -1, length % 2 == 0),
        "_topk_indices": (min(length, 4), -1, length % 2 == 0),
    }.get(name, ())


def index_values(name, length, count, random):
    if name == "scatter":
        return random.permutation(length)[:count].astype(np.int32)
    return random.integers(0, length, count).astype(np.int32)


def options_of(plan):
    """Execution options that ask for the plan's accumulator where that is a choice."""
    if plan.operation not in ACCUMULATOR_CONFIGURABLE_OPERATIONS or plan.accumulator_dtype is None:
        return None
    return OperationExecutionOptions(plan.operation, plan.accumulator_dtype)


def scalars_of(plan):
    """The weak scalars that resolve to this plan, by position."""
    positions = [i for i, operand in enumerate(plan.operands) if operand.role is OperandRole.WEAK_SCALAR]
    dtypes = [operand.dtype for operand in plan.operands]
    for values in itertools.product(WEAK_SCALAR_PROBES, repeat=len(positions)):
        for position, value in zip(positions, values, strict=True):
            dtypes[position] = value
        if resolve_operation_plan(plan.operation, *dtypes, options=options_of(plan)) == plan:
            return dict(zip(positions, values, strict=True))
    raise AssertionError(f"no probe resolves to {plan}")


def converted(values, plan, position):
    """As the plan computes with them, in a type that holds every exact result."""
    target = plan.operands[position].convert_to
    kind = {FLOAT: np.float32, INT: np.int32, BOOL: np.bool_}[target]
    wide = {FLOAT: np.float64, INT: np.int64, BOOL: np.bool_}[target]
    return np.asarray(values).astype(kind).astype(wide)


def plan_name(plan):
    def word(operand):
        return operand.dtype.name if operand.dtype else f"number_as_{operand.convert_to.name}"

    accumulator = f"-in_{plan.accumulator_dtype.name}" if plan.accumulator_dtype else ""
    return f"{plan.operation}-{'-'.join(map(word, plan.operands))}{accumulator}"
