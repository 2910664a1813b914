"""Every plan of every operation on every carrier that computes, in every geometry, or refused (P5, P7, P30).

Generic is compared with a NumPy model in binary64 or 64-bit integers, CPU with Generic, Evictable with CPU bit for
bit. Operations are called by their dispatch names, as `carrier.dispatch_op(name).forward(...)`.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from arrays import array, canonical, numpy_type, tensor
from list_carrier import ListCarrier
from models import (
    BOOL,
    ELEMENTWISE,
    FLOAT,
    INT,
    MODELS,
    PLANS_OF_ALL,
    converted,
    extents_of,
    index_values,
    numbers,
    options_of,
    parameters_of,
    plan_name,
    scalars_of,
)

import orlop
from orlop import CPU, Evictable, FileBacked, Generic, Tensor
from orlop.carriers.operation_capability import (
    UnsupportedOperationPlan,
    capabilities_for_carrier_class,
    supports_operation_plan,
)
from orlop.carriers.operation_policy import Accumulation, OperandRole, registered_operations

LENGTHS = [1, 3, 4, 7, 8, 9, 31, 33, 1000, 5000]
UNIT = 2.0**-24


# --- Geometries


def strides_of(extents):
    """Last mode fastest, every second slot."""
    return [2 * math.prod(extents[mode + 1 :]) for mode in range(len(extents))]


def placed(values, way):
    """The same values in one of the geometries: a function that makes the Tensor on a carrier class."""
    if way == "contiguous" or way == "scalar":
        return lambda kind: tensor(values, kind=kind)
    if way == "strided":
        return lambda kind: tensor(values, strides=strides_of(values.shape), offset=3, kind=kind)
    if way == "widened":
        return lambda kind: tensor(values[:1], kind=kind)
    assert way == "repeated"
    return lambda kind: tensor(values, strides=[0] * values.ndim, offset=1, kind=kind)


def operands(plan, length, way):
    """For each argument its value for the model and a function that makes it on a carrier class."""
    random = np.random.default_rng(length)
    name = plan.operation
    result = []
    extents = extents_of(name, length)
    tensors = [operand for operand in plan.operands if operand.role is OperandRole.TENSOR]
    for operand in plan.operands:
        if operand.role is OperandRole.WEAK_SCALAR:
            result.append(None)
            continue
        ordinal = len([entry for entry in result if entry is not None])
        size = extents[ordinal]
        if name in ("gather", "scatter", "scatter_add") and ordinal == 1:
            values = index_values(name, length, size[0], random)
        else:
            values = numbers(operand.dtype, size, name, random)
        is_index = operand.dtype is INT and ordinal == 1 and name == "scatter"
        own_way = way
        if way == "widened" and ordinal != len(tensors) - 1 or is_index and way == "repeated":
            own_way = "contiguous"
        if own_way == "repeated":
            values = np.broadcast_to(values.reshape(-1)[:1].reshape((1,) * values.ndim), size).copy()
        made = placed(values, own_way)
        result.append((np.broadcast_to(values[:1], size) if own_way == "widened" else values, made))
    return result


class Cell(NamedTuple):
    """One call: what the model expects of it, and the call itself on a carrier class."""

    expected: np.ndarray
    bound: np.ndarray | None
    ulp: float
    run: object


def cell(plan, length, way):
    model, name = MODELS[plan.operation], plan.operation
    entries = operands(plan, length, way)
    scalars = scalars_of(plan)
    values = [scalars[i] if entry is None else entry[0] for i, entry in enumerate(entries)]
    parameters = parameters_of(name, length)
    exact_operands = [converted(value, plan, i) for i, value in enumerate(values)]
    with np.errstate(all="ignore"):
        expected = np.asarray(model.exact(*exact_operands, *parameters))
        bound = model.bound(*exact_operands, *parameters) if model.bound and plan.output is FLOAT else None
    if plan.accumulation is Accumulation.FLOATING:
        count, total = bound
        if plan.accumulator_dtype is FLOAT:
            bound = count * UNIT / (1 - count * UNIT) * total
        else:
            bound = (UNIT + count * 2.0**-53 / (1 - count * 2.0**-53)) * total + 2.0**-149

    def run(kind):
        arguments = [scalars[i] if entry is None else on(kind, entry[1], plan) for i, entry in enumerate(entries)]
        carrier = next(argument for argument in arguments if isinstance(argument, Tensor)).carrier
        return carrier.dispatch_op(name).forward(*arguments, *parameters, options=options_of(plan))

    return Cell(expected, bound, model.ulp, run)


def on(kind, made, plan):
    """The Tensor on a carrier class; a hierarchy has been evicted, to a file unless the plan has a Bool."""
    if kind is not Evictable:
        return made(kind)
    inside = made(CPU)
    dtype = inside.carrier.dtype()
    has_bool = plan.output is BOOL or any(operand.dtype is BOOL for operand in plan.operands)
    secondary = Generic([], dtype=dtype) if has_bool else FileBacked(None, dtype=dtype)
    carrier = Evictable(inside.carrier, secondary)
    travel(carrier)
    return Tensor(carrier, inside.offset, inside.layout)


def travel(hierarchy):
    hierarchy.evict()
    hierarchy.promote()


def elements(result):
    if type(result.carrier) is Evictable:
        travel(result.carrier)
        return array(Tensor(result.carrier.primary, result.offset, result.layout))
    return array(result)


def same_bits(values, expected):
    """The same bits, any NaN for a NaN."""
    assert values.dtype == expected.dtype
    np.testing.assert_array_equal(values, expected)
    if values.dtype == np.float32:
        are_numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(values[are_numbers]), np.signbit(expected[are_numbers]))


def near(values, cell):
    """Within the bound, or within `ulp` units in the last place; infinities and NaN exactly."""
    with np.errstate(over="ignore"):
        nearest = cell.expected.astype(np.float32)
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(values[~finite], nearest[~finite])
    bound = cell.bound if cell.bound is not None else cell.ulp * np.spacing(np.abs(nearest)).astype(np.float64)
    error = np.abs(values[finite].astype(np.float64) - cell.expected[finite])
    assert np.all(error <= np.broadcast_to(bound, finite.shape)[finite])


def check(plan, length, way):
    each = cell(plan, length, way)
    generic, cpu = (each.run(kind) for kind in (Generic, CPU))
    for result in (generic, cpu):
        assert result.carrier.dtype() is plan.output
        assert result.layout == canonical(tuple(result.shape)) and result.offset == 0
    is_close = plan.output is FLOAT and (each.bound is not None or each.ulp > 0)
    if is_close:
        near(elements(generic), each)
        near(elements(cpu), each)
    else:
        with np.errstate(over="ignore"):
            same_bits(elements(generic), each.expected.astype(numpy_type(plan.output)))
    if plan.accumulation is not Accumulation.FLOATING:
        same_bits(elements(cpu), elements(generic))
    if length in (1, 9, 1000):
        same_bits(elements(each.run(Evictable)), elements(cpu))


def is_broadcasting(plan):
    tensors = [operand for operand in plan.operands if operand.role is OperandRole.TENSOR]
    return plan.operation in ELEMENTWISE and len(tensors) > 1


CELLS = [
    (plan, way)
    for plan in PLANS_OF_ALL
    for way in ["contiguous", "strided", "repeated", "widened", "scalar"]
    if way != "widened" or is_broadcasting(plan)
]


@pytest.mark.parametrize(("plan", "way"), CELLS, ids=[f"{plan_name(plan)}-{way}" for plan, way in CELLS])
def test_a_plan_is_executed_everywhere(plan, way):
    for length in [1] if way == "scalar" else LENGTHS:
        check(plan, length, way)


def test_the_model_knows_every_operation():
    assert {spec.name for spec in registered_operations()} == set(MODELS)
    assert {plan.operation for plan in PLANS_OF_ALL} == set(MODELS)


# --- What is refused


def expected_refusal(spec, dtypes):
    """P7 for a call with Tensors only, or None where it has a plan."""
    overload = next(o for o in spec.overloads if OperandRole.WEAK_SCALAR not in o.roles)
    for dtype, domain in zip(dtypes, overload.tensor_domains, strict=True):
        if dtype in domain:
            continue
        return NotImplementedError if dtype is BOOL else TypeError
    if overload.same_dtype and len({dtypes[i] for i in overload.same_dtype}) > 1:
        return TypeError
    return None


@pytest.mark.parametrize("spec", registered_operations(), ids=lambda spec: spec.name)
@pytest.mark.parametrize("kind", [Generic, CPU])
def test_dtypes_outside_the_plans_are_refused(spec, kind):
    overload = next(o for o in spec.overloads if OperandRole.WEAK_SCALAR not in o.roles)
    parameters = parameters_of(spec.name, 1)
    extents = extents_of(spec.name, 1)
    for dtypes in itertools.product((FLOAT, INT, BOOL), repeat=len(overload.roles)):
        refusal = expected_refusal(spec, dtypes)
        if refusal is None:
            continue
        arguments = [ones(kind, dtype, size) for dtype, size in zip(dtypes, extents, strict=False)]
        with pytest.raises(refusal):
            arguments[0].carrier.dispatch_op(spec.name).forward(*arguments, *parameters)


def ones(kind, dtype, extents):
    return tensor(np.ones(extents, numpy_type(dtype)), kind=kind)


@pytest.mark.parametrize("spec", registered_operations(), ids=lambda spec: spec.name)
def test_a_file_computes_nothing(spec):
    with pytest.raises(NotImplementedError):
        FileBacked(None, dtype=FLOAT).dispatch_op(spec.name)


@pytest.mark.parametrize("plan", PLANS_OF_ALL, ids=plan_name)
def test_a_carrier_refuses_what_it_does_not_advertise(plan):
    if supports_operation_plan(ListCarrier, plan) or any(operand.dtype is BOOL for operand in plan.operands):
        return
    scalars = scalars_of(plan)
    extents = extents_of(plan.operation, 1)
    arguments, tensors = [], 0
    for position, operand in enumerate(plan.operands):
        if operand.role is OperandRole.WEAK_SCALAR:
            arguments.append(scalars[position])
            continue
        size = extents[tensors]
        slots = ListCarrier([0] * math.prod(size), dtype=operand.dtype)
        arguments.append(Tensor(slots, 0, canonical(size)))
        tensors += 1
    carrier = next(argument for argument in arguments if isinstance(argument, Tensor)).carrier
    operation = carrier.dispatch_op(plan.operation)
    with pytest.raises(UnsupportedOperationPlan) as refused:
        operation.forward(*arguments, *parameters_of(plan.operation, 1), options=options_of(plan))
    assert refused.value.plan == plan
    has_name = bool(capabilities_for_carrier_class(ListCarrier, plan.operation))
    assert refused.value.kind == ("shape" if has_name else "operation")


def test_every_function_has_a_row():
    functions = {spec.name for spec in registered_operations() if spec.public} | {"sort", "topk", "gt", "ge", "einsum"}
    assert functions <= set(orlop.functional.__all__)

