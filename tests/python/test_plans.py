"""Plans, options and the operation registry (P1-P12)."""

import copy
import dataclasses
import fractions
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orlop
from orlop import DType
from orlop.carriers import operation_policy as policy
from orlop.carriers.operation_policy import (
    Accumulation,
    Arithmetic,
    OperandPlan,
    OperandRole,
    OperationExecutionOptions,
    OperationOverload,
    OperationPlan,
    OperationSpec,
    operation_execution_options,
    plan_accumulator_variants,
    registered_operations,
    resolvable_plans,
    resolve_operation_plan,
)

F, I, B, D = DType.Float32, DType.Int32, DType.Bool, DType.Float64
TENSOR, WEAK_SCALAR = OperandRole.TENSOR, OperandRole.WEAK_SCALAR


def add_fields():
    """The fields of the plan of adding two Int32 tensors."""
    operands = (OperandPlan(TENSOR, I, I), OperandPlan(TENSOR, I, I))
    return ["add", operands, Arithmetic.INT32_EXACT_CHECKED, None, None, I]


def conversions(plan):
    return [operand.convert_to for operand in plan.operands]


def test_enumerations_carry_their_values():
    assert [role.value for role in OperandRole] == ["tensor", "weak_scalar"]
    assert [kind.value for kind in policy.WeakScalarKind] == ["integer", "float"]
    assert [arithmetic.value for arithmetic in Arithmetic] == ["binary32", "int32_exact_checked", "int32_exact"]
    assert [(each.name, each.value) for each in Accumulation] == [
        (name.upper(), name)
        for name in ("floating", "sequential_binary32", "sequential_binary32_product", "maximum", "minimum", "argmax",
                     "argmin", "exact_integer")
    ]  # fmt: skip


def test_constants():
    assert (policy.INT32_MIN, policy.INT32_MAX) == (-(2**31), 2**31 - 1)
    assert policy.POW_INTEGER_EXPONENT_MAX == 2**31 - 1
    assert policy.SUPPORTED_TENSOR_DTYPES == (F, I)
    assert policy.SUPPORTED_ACCUMULATOR_DTYPES == (F, D)
    assert policy.WEAK_SCALAR_PROBES == (3, -1, 0.5)
    assert policy.ACCUMULATOR_CONFIGURABLE_OPERATIONS == frozenset({"reduce_sum", "matmul"})


def test_resolution_of_pairs():
    plan = resolve_operation_plan("add", I, F)
    assert conversions(plan) == [F, F]
    assert (plan.compute, plan.accumulation, plan.accumulator_dtype, plan.output) == (Arithmetic.BINARY32, None, None, F)
    assert resolve_operation_plan("add", I, I) == OperationPlan(*add_fields())
    convolution = resolve_operation_plan("conv_general", F, F)
    assert (convolution.accumulation, convolution.accumulator_dtype) == (Accumulation.FLOATING, F)


@pytest.mark.parametrize(
    ("error", "operation", "operands"),
    [
        (TypeError, "maximum", (F, I)),
        (TypeError, "select", (B, F, I)),
        (NotImplementedError, "add", (B, B)),
        (NotImplementedError, "scatter_add", (B, I, B)),
        (TypeError, "recip", (I,)),
        (TypeError, "add", (DType.Any, F)),
        (TypeError, "add", (DType.Integer, F)),
        (NotImplementedError, "add", (DType.MXFP4, F)),
        (NotImplementedError, "add", (DType.Int8, F)),
        (OverflowError, "mul", (I, 2**31)),
        (OverflowError, "mul", (I, -(10**400))),
        (TypeError, "mul", (2, F)),
        (TypeError, "add", (F,)),
        (TypeError, "add", (F, "F")),
        (TypeError, "add", (F, None)),
        (TypeError, "add", (F, 1j)),
        (TypeError, "add", (F, [1.0])),
        (NotImplementedError, "nosuch", (F,)),
        (NotImplementedError, "", ()),
        (TypeError, 3, (F,)),
    ],
)
def test_resolution_refuses(error, operation, operands):
    with pytest.raises(error):
        resolve_operation_plan(operation, *operands)


@pytest.mark.parametrize(
    ("operation", "operands", "output"),
    [
        ("eq", (B, B), B),
        ("mul", (F, 2**31), F),
        ("mul", (F, 10**400), F),
        ("mul", (I, True), F),
        ("mul", (I, fractions.Fraction(1, 3)), F),
        ("pow", (I, 2**31 - 1), I),
        ("pow", (I, 2**31), F),
        ("clamp", (I, 0, 2.5), F),
        ("clamp", (I, 0, 2), I),
        ("sub", (3, I), I),
        ("lt", (0.5, I), B),
    ],
)
def test_resolution_by_scalar(operation, operands, output):
    assert resolve_operation_plan(operation, *operands).output is output


def test_a_decimal_is_no_real_number():
    with pytest.raises(TypeError):
        resolve_operation_plan("mul", F, Decimal(1))


def test_an_object_that_equals_a_dtype_is_none():
    class Imposter:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash(F)

    with pytest.raises(TypeError):
        resolve_operation_plan("add", Imposter(), F)


def test_accumulator_requests():
    assert resolve_operation_plan("matmul", F, I, accumulator_dtype=D).accumulator_dtype is D
    options = operation_execution_options("matmul", accumulator_dtype=D)
    assert resolve_operation_plan("matmul", F, F, options=options).accumulator_dtype is D
    assert resolve_operation_plan("matmul", F, F, options=operation_execution_options("matmul")).accumulator_dtype is F
    for operation, operands in [("relu", (F,)), ("matmul", (I, I)), ("nosuch", (F,))]:
        with pytest.raises(TypeError):
            resolve_operation_plan(operation, *operands, accumulator_dtype=D)
    with pytest.raises(TypeError):
        resolve_operation_plan("matmul", F, F, accumulator_dtype="Float64")
    with pytest.raises(NotImplementedError):
        resolve_operation_plan("matmul", F, F, accumulator_dtype=I)


def test_options_are_checked_before_the_name():
    options = operation_execution_options("matmul", accumulator_dtype=D)
    with pytest.raises(ValueError, match="matmul"):
        resolve_operation_plan("reduce_sum", F, options=options)
    with pytest.raises(ValueError, match="matmul"):
        resolve_operation_plan("nosuch", F, options=options)
    with pytest.raises(TypeError):
        resolve_operation_plan("matmul", F, F, options=options, accumulator_dtype=D)
    with pytest.raises(TypeError):
        resolve_operation_plan("matmul", F, F, options={"accumulator_dtype": D})


def test_options_validate_themselves():
    assert operation_execution_options("reduce_sum") == OperationExecutionOptions("reduce_sum", None)
    assert operation_execution_options("matmul", accumulator_dtype=D) == OperationExecutionOptions("matmul", D)
    assert OperationExecutionOptions("matmul") != OperationExecutionOptions("matmul", F)
    for operation, accumulator, error in [
        ("conv_general", None, TypeError),
        ("add", D, TypeError),
        (None, None, TypeError),
        ("matmul", "Float64", TypeError),
        ("matmul", DType.Floating, TypeError),
        ("matmul", DType.NVFP4, TypeError),
        ("matmul", I, NotImplementedError),
    ]:
        with pytest.raises(error):
            OperationExecutionOptions(operation, accumulator)


@pytest.mark.parametrize(
    "make",
    [
        lambda: OperandPlan(TENSOR, I, F),
        lambda: OperandPlan(role=WEAK_SCALAR, dtype=None, convert_to=F),
        lambda: OperationPlan(*add_fields()),
        lambda: OperationExecutionOptions("matmul", D),
        lambda: registered_operations()[0],
        lambda: registered_operations()[0].overloads[0],
    ],
)
def test_records_are_frozen_dataclasses(make):
    record = make()
    first = dataclasses.fields(record)[0].name
    for name in (first, "unknown"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(record, first)
    same = dataclasses.replace(record)
    assert same is not record and same == record and hash(same) == hash(record)
    assert pickle.loads(pickle.dumps(record)) == record
    assert copy.deepcopy(record) == record
    assert record != object()
    assert repr(record).startswith(type(record).__name__ + "(")


def test_replace_checks_again():
    with pytest.raises(TypeError):
        dataclasses.replace(OperandPlan(TENSOR, I, F), dtype=None)
    assert dataclasses.replace(OperationPlan(*add_fields()), output=F).output is F


@pytest.mark.parametrize(
    "arguments",
    [
        ("tensor", F, F),
        (TENSOR, None, F),
        (TENSOR, DType.Any, F),
        (TENSOR, DType.MXFP4, F),
        (TENSOR, "Float32", F),
        (WEAK_SCALAR, F, F),
        (TENSOR, F, None),
        (TENSOR, F),
    ],
)
def test_operand_fields(arguments):
    with pytest.raises(TypeError):
        OperandPlan(*arguments)


@pytest.mark.parametrize("position", range(6))
def test_plan_fields(position):
    fields = add_fields()
    fields[position] = 3
    with pytest.raises(TypeError):
        OperationPlan(*fields)


def test_plan_operands_are_walked_once():
    operation, operands, *rest = add_fields()
    assert OperationPlan(operation, iter(operands), *rest).operands == operands
    with pytest.raises(TypeError, match="must be a finite iterable"):
        OperationPlan(operation, 3, *rest)


def test_registered_operations():
    names = [spec.name for spec in registered_operations()]
    assert names == sorted(names) and len(set(names)) == len(names)
    assert [spec.name for spec in registered_operations() if not spec.public] == [
        "_sort_indices",
        "_sort_values",
        "_topk_indices",
        "_topk_values",
    ]
    positions = {spec.name: spec.dtype_operand_positions for spec in registered_operations()}
    assert positions["cumsum"] == positions["_sort_values"] == (0,)
    assert positions["gather"] == positions["conv_general"] == (0, 1)
    assert positions["scatter"] == positions["scatter_add"] == (0, 1, 2)
    assert sum(value is not None for value in positions.values()) == 9
    assert all(overload.tensor_domains is not None for spec in registered_operations() for overload in spec.overloads)


def test_rules_of_registered_operations():
    specs = {spec.name: spec for spec in registered_operations()}
    assert specs["relu"].rule("relu", F) == resolve_operation_plan("relu", F)
    assert specs["relu"].roles == (TENSOR,)
    with pytest.raises(AttributeError):
        specs["mul"].rule  # noqa: B018
    with pytest.raises(AttributeError):
        specs["mul"].roles  # noqa: B018


def test_overloads_validate_themselves():
    def rule(operation, *operands):
        return resolve_operation_plan(operation, *operands)

    overload = OperationOverload([TENSOR, TENSOR], rule, [[F], [F, I]], same_dtype=[0, 1])
    assert overload == OperationOverload((TENSOR, TENSOR), rule, ((F,), (F, I)), same_dtype=(0, 1))
    for arguments, keywords, error in [
        (([TENSOR], None), {}, TypeError),
        (([3], rule), {}, TypeError),
        ((3, rule), {}, TypeError),
        (([TENSOR], rule, [[3]]), {}, TypeError),
        (([TENSOR], rule, []), {}, ValueError),
        (([TENSOR], rule, [[]]), {}, ValueError),
        (([TENSOR], rule, None, (0, 1)), {}, TypeError),
        (([TENSOR, TENSOR], rule), {"same_dtype": (0,)}, ValueError),
        (([TENSOR, TENSOR], rule), {"same_dtype": (0, 0)}, ValueError),
        (([TENSOR, WEAK_SCALAR], rule), {"same_dtype": (0, 1)}, ValueError),
        (([TENSOR, TENSOR], rule), {"same_dtype": (0, True)}, TypeError),
    ]:
        with pytest.raises(error):
            OperationOverload(*arguments, **keywords)


def test_specs_validate_themselves():
    one = OperationOverload([TENSOR], print)
    two = OperationOverload([TENSOR, TENSOR], print)
    assert OperationSpec("x", [one]).overloads == (one,)
    assert OperationSpec("x", [two], dtype_operand_positions=[0, 2]).dtype_operand_positions == (0, 2)
    for arguments, error in [
        ((3, [one]), TypeError),
        (("x", [print]), TypeError),
        (("x", one), TypeError),
        (("x", [one], 1), TypeError),
        (("x", []), ValueError),
        (("x", [one, one]), ValueError),
        (("x", [one], True, (-1,)), ValueError),
        (("x", [two], True, (1, 0)), ValueError),
        (("x", [two], True, (0, 0)), ValueError),
        (("x", [two], True, (0,)), ValueError),
        (("x", [one, two], True, (0,)), ValueError),
        (("x", [one], True, (1.0,)), TypeError),
    ]:
        with pytest.raises(error):
            OperationSpec(*arguments)


def test_resolvable_plans():
    plans = resolvable_plans()
    assert len(set(plans)) == len(plans)
    assert not any(B in (operand.dtype for operand in plan.operands) for plan in plans)
    everything = resolvable_plans((F, I, B))
    assert set(plans) < set(everything)
    names = [plan.operation for plan in everything]
    assert names == sorted(names) and set(names) == {spec.name for spec in registered_operations()}
    sums = [plan for plan in plans if plan.operation == "reduce_sum"]
    assert [(plan.output, plan.accumulator_dtype) for plan in sums] == [(F, F), (F, D), (I, None)]
    assert resolvable_plans((), ()) == ()
    assert resolvable_plans(iter([F]), iter([])) == resolvable_plans((F,), ())
    for arguments in [(3,), (["Float32"],), ((F,), 3), ((F,), ["x"])]:
        with pytest.raises(TypeError):
            resolvable_plans(*arguments)


def test_plan_accumulator_variants():
    plan = resolve_operation_plan("matmul", F, F)
    other = resolve_operation_plan("matmul", F, F, accumulator_dtype=D)
    assert plan_accumulator_variants(plan) == (plan, other)
    assert plan_accumulator_variants(plan)[0] is plan
    assert plan_accumulator_variants(other) == (other, plan)
    for single in (resolve_operation_plan("cumsum", F), resolve_operation_plan("matmul", I, I)):
        assert plan_accumulator_variants(single) == (single,)
    with pytest.raises(TypeError):
        plan_accumulator_variants("matmul")


def test_interrupting_arguments_propagate():
    class Interrupted:
        def __iter__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resolvable_plans(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        OperationPlan("add", Interrupted(), *add_fields()[2:])


@given(st.integers())
def test_an_integer_scalar_is_converted_where_it_fits(value):
    if policy.INT32_MIN <= value <= policy.INT32_MAX:
        assert conversions(resolve_operation_plan("mul", I, value)) == [I, I]
    else:
        with pytest.raises(OverflowError):
            resolve_operation_plan("mul", I, value)
    expected = I if 0 <= value <= policy.POW_INTEGER_EXPONENT_MAX else F
    assert resolve_operation_plan("pow", I, value).output is expected
    assert conversions(resolve_operation_plan("mul", F, value)) == [F, F]


@given(st.sampled_from([spec.name for spec in registered_operations()]), st.lists(
    st.sampled_from([F, I, B, D, DType.Any, DType.MXFP4, 3, -1, 0.5, 2**40, None]), max_size=4))  # fmt: skip
def test_resolution_gives_a_plan_or_one_of_its_errors(operation, operands):
    try:
        plan = resolve_operation_plan(operation, *operands)
    except (TypeError, NotImplementedError, OverflowError) as error:
        assert not isinstance(error, orlop.UnsupportedOperationPlan)
        return
    assert plan in set(resolvable_plans((F, I, B)))
    assert [operand.dtype for operand in plan.operands] == [x if isinstance(x, DType) else None for x in operands]
