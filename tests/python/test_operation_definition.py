"""Schemas, calls, invocations, definitions, references and gradient rules of operations, without a carrier's kernels."""

import copy
import dataclasses
import gc
import itertools
import math
import pickle
import weakref
from fractions import Fraction

import pytest

import orlop
from orlop import DType, Layout, Shape, Stride, friendly
from orlop.carriers.operation_capability import UnsupportedOperationPlan
from orlop.carriers.operation_policy import (
    Arithmetic,
    OperandPlan,
    OperandRole,
    OperationPlan,
    registered_operations,
    resolve_operation_plan,
)
from orlop.operation import (
    NON_DIFFERENTIABLE,
    REQUIRED,
    BoundOperationCall,
    OperandKind,
    OperandSpec,
    OperationCall,
    OperationDefinition,
    OperationSchema,
    OptionSpec,
    ProviderContractError,
    ResolvedInvocation,
    ResultSpec,
    VJPContext,
    call_vjp,
    define_operation,
    execute_reference,
    operation_definition,
)

TENSOR, WEAK, STRUCTURAL = OperandKind.TENSOR, OperandKind.WEAK_SCALAR, OperandKind.STRUCTURAL
FLOAT = DType.Float32
NAMES = (f"test{number}.operation" for number in itertools.count())
values = friendly.to_list


def plan_for(call):
    """A plan with the roles of the call."""
    operands = []
    for operand, kind in zip(call.operands, call.operand_kinds, strict=True):
        if kind is TENSOR:
            operands.append(OperandPlan(OperandRole.TENSOR, operand.dtype(), operand.dtype()))
        elif kind is WEAK:
            operands.append(OperandPlan(OperandRole.WEAK_SCALAR, None, FLOAT))
    return OperationPlan(call.definition.name, tuple(operands), Arithmetic.BINARY32, None, None, FLOAT)


def like(tensor, alias_of=None):
    return ResultSpec(FLOAT, tensor.layout.shape, tensor.layout, alias_of)


def resolve_like_first(call):
    return ResolvedInvocation(call, plan_for(call), [like(call.operands[0])])


def define(operands=(OperandSpec("x", TENSOR, True),), options=(), *, resolve=resolve_like_first, reference=None,
           vjp=NON_DIFFERENTIABLE):
    return define_operation(next(NAMES), OperationSchema(operands, options), resolve, reference, vjp)


def double(invocation):
    with orlop.no_grad():
        return invocation.operands[0] * 2.0


@pytest.fixture
def x():
    return friendly.tensor([1.0, 2.0])


# --- Names (X2, X5) and records (X4)


def test_names_are_where_they_belong():
    ten = {"NON_DIFFERENTIABLE", "OperandKind", "OperandSpec", "OperationDefinition", "OperationSchema", "OptionSpec",
           "ProviderContractError", "REQUIRED", "ResultSpec", "define_operation"}
    five = {"BoundOperationCall", "OperationCall", "OperationPlan", "ResolvedInvocation", "VJPContext"}
    assert ten <= set(orlop.__all__) and not five & set(orlop.__all__)
    assert ten | five <= set(orlop.operation.__all__)
    for name in ten:
        assert getattr(orlop, name) is getattr(orlop.operation, name)
    module = orlop.operation_definition
    assert module._operation_definition("add") is operation_definition("add")
    assert module._execute_reference is execute_reference and module._call_vjp is call_vjp


def test_records_are_frozen_dataclasses(x):
    operand = OperandSpec("x", TENSOR)
    call = operation_definition("relu").bind(x)
    records = [operand, OptionSpec("p", 3), OperationSchema([operand]), like(x), call, resolve_like_first(define().bind(x)),
               OperationCall(operation_definition("relu"), [x]), operation_definition("relu")]
    for record in records:
        assert dataclasses.is_dataclass(record)
        field = dataclasses.fields(record)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field, None)
        assert repr(record).startswith(type(record).__name__)
    assert dataclasses.replace(operand, differentiable=True) == OperandSpec("x", TENSOR, True) != operand
    assert hash(OperandSpec("x", TENSOR)) == hash(operand)
    assert operation_definition("relu").bind(x) == call and hash(operation_definition("relu").bind(x)) == hash(call)
    assert operation_definition("relu").bind(friendly.tensor([1.0, 2.0])) != call
    assert pickle.loads(pickle.dumps(OptionSpec("p"))).default is REQUIRED
    calls = [OperationCall(call.definition, [operand]) for operand in (x, x, friendly.tensor([1.0, 2.0]))]
    assert calls[0] == calls[1] != calls[2] and hash(calls[0]) == hash(calls[1])


def test_an_invocation_can_be_replaced_field_by_field(x):
    invocation = resolve_like_first(define().bind(x))
    assert invocation.kernel_id == invocation.name == invocation.definition.name
    changed = dataclasses.replace(invocation, kernel_id="fast", saved_operands=[0])
    assert (changed.kernel_id, changed.saved_operands, changed.results) == ("fast", (0,), invocation.results)
    assert changed.call is invocation.call and changed != invocation


@pytest.mark.parametrize("marker", [REQUIRED, NON_DIFFERENTIABLE])
def test_markers_stand_for_themselves(marker):
    for name in ("anything", "__class__"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(marker, name, 1)
    assert copy.deepcopy(marker) is marker and pickle.loads(pickle.dumps(marker)) is marker
    assert repr(marker) in ("REQUIRED", "NON_DIFFERENTIABLE")
    assert not dataclasses.is_dataclass(marker)
    with pytest.raises(TypeError):
        type(marker)()


def test_iterables_are_walked_once():
    schema = OperationSchema(iter([OperandSpec("x", TENSOR)]), (OptionSpec(name) for name in "ab"))
    assert [option.name for option in schema.options] == ["a", "b"]
    for make in (lambda: OperationSchema(3), lambda: OperationSchema([OperandSpec("x", TENSOR)], None)):
        with pytest.raises(TypeError, match="must be a finite iterable"):
            make()


# --- X21

REFUSED_RECORDS = [
    (lambda: OperandSpec(3, TENSOR), TypeError, "str"),
    (lambda: OperandSpec("", TENSOR), ValueError, "identifier"),
    (lambda: OperandSpec("a.b", TENSOR), ValueError, "identifier"),
    (lambda: OperandSpec("x", "tensor"), TypeError, "OperandKind"),
    (lambda: OperandSpec("x", TENSOR, 1), TypeError, "bool"),
    (lambda: OperandSpec("x", WEAK, True), ValueError, "only a Tensor"),
    (lambda: OperandSpec("2", WEAK, 1), ValueError, "identifier"),
    (lambda: OptionSpec(None), TypeError, "str"),
    (lambda: OptionSpec("1"), ValueError, "identifier"),
    (lambda: OperationSchema([]), ValueError, "must not be empty"),
    (lambda: OperationSchema([], [3]), ValueError, "must not be empty"),
    (lambda: OperationSchema(["x"]), TypeError, "OperandSpec"),
    (lambda: OperationSchema([OperandSpec("x", TENSOR)], ["p"]), TypeError, "OptionSpec"),
    (lambda: OperationSchema([OperandSpec("x", TENSOR)], [OptionSpec("x")]), ValueError, "unique"),
    (lambda: ResultSpec("Float32", Shape(2), Layout(Shape(2), Stride(1))), TypeError, "DType"),
    (lambda: ResultSpec(FLOAT, (2,), Layout(Shape(2), Stride(1))), TypeError, "Shape"),
    (lambda: ResultSpec(FLOAT, Shape(2), Shape(2)), TypeError, "Layout"),
    (lambda: ResultSpec(FLOAT, Shape(3), Layout(Shape(2), Stride(1))), ValueError, "layout.shape"),
    (lambda: ResultSpec(FLOAT, Shape(2), Layout(Shape(2), Stride(1)), True), TypeError, "int"),
    (lambda: ResultSpec(FLOAT, Shape(2), Layout(Shape(2), Stride(1)), -1), ValueError, "negative"),
    (lambda: ResultSpec(FLOAT, Shape(2), Layout(Shape(2), Stride(1)), -(2**80)), ValueError, "negative"),
    (lambda: ResultSpec(FLOAT, Shape(2), Layout(Shape(2), Stride(1)), atol=True), TypeError, "real"),
    (lambda: ResultSpec(FLOAT, Shape(2), Layout(Shape(2), Stride(1)), atol="0"), TypeError, "real"),
    (lambda: ResultSpec(FLOAT, Shape(2), Layout(Shape(2), Stride(1)), rtol=-1), ValueError, "negative"),
    (lambda: ResultSpec(FLOAT, Shape(2), Layout(Shape(2), Stride(1)), rtol=math.inf), ValueError, "finite"),
    (lambda: ResultSpec(FLOAT, Shape(2), Layout(Shape(2), Stride(1)), rtol=math.nan), ValueError, "finite"),
    (lambda: BoundOperationCall(), TypeError, "bind"),
    (lambda: BoundOperationCall(operation_definition("relu"), (), {}, ()), TypeError, "bind"),
    (lambda: OperationDefinition("acme.x"), TypeError, "define_operation"),
    (lambda: OperationCall("relu"), TypeError, "OperationDefinition"),
    (lambda: OperationCall(operation_definition("relu"), 3), TypeError, "finite iterable"),
    (lambda: OperationCall(operation_definition("relu"), (), [1]), TypeError, "mapping"),
]


@pytest.mark.parametrize(("make", "error", "words"), REFUSED_RECORDS, ids=range(len(REFUSED_RECORDS)))
def test_records_refuse_what_does_not_fit(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.filterwarnings("ignore:nanobind")
def test_an_uninitialised_record_is_refused(x):
    for kind in (BoundOperationCall, ResolvedInvocation, VJPContext):
        empty = kind.__new__(kind)
        with pytest.raises(TypeError):
            operation_definition("relu").resolve_call(empty)
        with pytest.raises(TypeError):
            execute_reference(empty)
        with pytest.raises(TypeError):
            repr(empty)


INVOCATIONS = [
    ({"call": 3}, TypeError, "call"),
    ({"plan": None}, TypeError, "plan"),
    ({"results": ()}, ValueError, "must not be empty"),
    ({"results": [3]}, TypeError, "ResultSpec"),
    ({"results": None}, TypeError, "finite iterable"),
    ({"mutated_operands": [True]}, TypeError, "int"),
    ({"mutated_operands": [1.0]}, TypeError, "int"),
    ({"saved_operands": [-1]}, ValueError, "negative"),
    ({"saved_operands": [0, 0]}, ValueError, "twice"),
    ({"plan": resolve_operation_plan("relu", FLOAT)}, ValueError, "plan.operation"),
    ({"saved_operands": [2**70]}, ValueError, "out-of-range"),
    ({"mutated_operands": [1]}, ValueError, "Tensor operands"),
    ({"kernel_id": 3}, TypeError, "str"),
    ({"kernel_id": ""}, ValueError, "kernel_id"),
    ({"kernel_id": 3, "saved_operands": [9]}, ValueError, "out-of-range"),
]


@pytest.mark.parametrize(("changes", "error", "words"), INVOCATIONS, ids=range(len(INVOCATIONS)))
def test_an_invocation_fits_its_call(x, changes, error, words):
    call = define([OperandSpec("x", TENSOR), OperandSpec("factor", WEAK)]).bind(x, 2)
    fields = {"call": call, "plan": plan_for(call), "results": [like(x)], **changes}
    with pytest.raises(error, match=words):
        ResolvedInvocation(**fields)


def test_the_plan_has_the_roles_of_the_bound_operands(x):
    call = define([OperandSpec("x", TENSOR), OperandSpec("y", STRUCTURAL)]).bind(x, "mode")
    assert ResolvedInvocation(call, plan_for(call), [like(x)]).plan == plan_for(call)
    swapped = OperationPlan(call.definition.name, (OperandPlan(OperandRole.WEAK_SCALAR, None, FLOAT),),
                            Arithmetic.BINARY32, None, None, FLOAT)
    with pytest.raises(ValueError, match="roles"):
        ResolvedInvocation(call, swapped, [like(x)])
    with pytest.raises(ValueError, match="Tensor operands"):
        ResolvedInvocation(call, plan_for(call), [like(x, alias_of=1)])


# --- X22


def test_binding_checks_the_schema_in_order(x):
    definition = define([OperandSpec("x", TENSOR), OperandSpec("factor", WEAK)], [OptionSpec("must"), OptionSpec("may", 7)])
    for operands, options, words in [
        ((x,), {"nobody": 1}, "expects 2 operands"),
        ((3, x), {"nobody": 1}, "unknown option"),
        ((3, x), {}, "missing required option 'must'"),
        ((3, x), {"must": 1}, "operand 'x' must be a Tensor"),
        ((x, x), {"must": 1}, "weak scalar"),
        ((x, "2"), {"must": 1}, "weak scalar"),
        ((x, None), {"must": 1}, "weak scalar"),
    ]:
        with pytest.raises(TypeError, match=words):
            definition.bind(*operands, **options)
    call = definition.bind(x, True, must=[1])
    assert call.operands == (x, True) and call.operands[0] is x and dict(call.options) == {"must": [1], "may": 7}
    assert call.operand_kinds == (TENSOR, WEAK)
    with pytest.raises(TypeError):
        call.options["must"] = 2
    assert OperationCall(definition, [x, 3], {"must": 1}).bind().options["must"] == 1


@pytest.mark.parametrize("value", [None, "axis", [1, 2], {"a": 1}, DType.Int32, object(), lambda: 3])
def test_a_structural_operand_and_an_option_are_anything(x, value):
    definition = define([OperandSpec("x", TENSOR), OperandSpec("y", STRUCTURAL)], [OptionSpec("p")])
    call = definition.bind(x, value, p=value)
    assert call.operands[1] is value and call.options["p"] is value and call.operand_kinds[1] is STRUCTURAL


@pytest.mark.parametrize(("value", "kind"), [(2, WEAK), (2.5, WEAK), (True, WEAK), (Fraction(1, 2), WEAK)])
def test_a_structural_operand_is_bound_by_its_value(x, value, kind):
    definition = define([OperandSpec("x", TENSOR), OperandSpec("y", STRUCTURAL)])
    assert definition.bind(x, value).operand_kinds == (TENSOR, kind) and definition.bind(x, value).operands[1] == value
    assert definition.bind(x, x).operand_kinds == (TENSOR, TENSOR)


def test_an_operand_that_raises_is_passed_on(x):
    class Odd:
        @property
        def __class__(self):
            raise KeyError("odd")

    with pytest.raises(KeyError, match="odd"):
        define([OperandSpec("x", TENSOR), OperandSpec("y", WEAK)]).bind(x, Odd())


# --- X23, X24


@pytest.mark.parametrize(("name", "error", "words"), [
    (3, TypeError, "str"), ("plain", ValueError, "namespaced"), ("", ValueError, "namespaced"),
    ("acme.", ValueError, "namespaced"), (".x", ValueError, "namespaced"), ("acme.1", ValueError, "namespaced"),
    ("orlop.x", ValueError, "reserved"), ("add.x", ValueError, "reserved"), ("reshape.x", ValueError, "reserved"),
])
def test_a_name_is_namespaced_and_not_reserved(name, error, words):
    with pytest.raises(error, match=words):
        define_operation(name, None, None)


def test_defining_checks_its_arguments_and_is_for_good():
    schema, name = OperationSchema([OperandSpec("x", TENSOR)]), next(NAMES)
    for arguments, error, words in [
        ((name, "schema", resolve_like_first), TypeError, "OperationSchema"),
        ((name, schema, 3), TypeError, "resolve must be callable"),
        ((name, schema, resolve_like_first, 3), TypeError, "reference must be callable"),
        ((name, schema, resolve_like_first, None, None), TypeError, "vjp must be callable"),
        ((name, schema, resolve_like_first), ValueError, "supplied explicitly"),
    ]:
        with pytest.raises(error, match=words):
            define_operation(*arguments)
        with pytest.raises(LookupError, match=name):
            operation_definition(name)
    made = define_operation(name, schema, resolve_like_first, vjp=NON_DIFFERENTIABLE)
    assert operation_definition(name) is made
    assert (made.name, made.schema, made.resolve, made.reference, made.vjp) == (
        name, schema, resolve_like_first, None, NON_DIFFERENTIABLE)
    with pytest.raises(ValueError, match="already defined"):
        define_operation(name, schema, resolve_like_first, vjp=NON_DIFFERENTIABLE)
    assert copy.deepcopy(made) is made and pickle.loads(pickle.dumps(made)) is made
    with pytest.raises(TypeError, match="str"):
        operation_definition(b"add")


def test_resolving_passes_exceptions_on_and_checks_what_comes_back(x):
    def fail(call):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        failing = define(resolve=fail)
        failing.resolve_call(failing.bind(x))
    for wrong in (None, x, (1, 2)):
        definition = define(resolve=lambda call, wrong=wrong: wrong)
        with pytest.raises(TypeError, match="ResolvedInvocation"):
            definition.resolve_call(definition.bind(x))
    other = define(resolve=lambda call: resolve_like_first(call.definition.bind(*call.operands)))
    with pytest.raises(ValueError, match="bound-call identity"):
        other.resolve_call(other.bind(x))
    with pytest.raises(ValueError, match="another definition"):
        other.resolve_call(operation_definition("relu").bind(x))
    with pytest.raises(TypeError, match="BoundOperationCall"):
        other.resolve_call(x)


def test_a_resolved_call_is_the_very_call(x):
    seen = []
    definition = define(resolve=lambda call: seen.append(call) or resolve_like_first(call))
    call = definition.bind(x)
    invocation = definition.resolve_call(call)
    assert seen == [call] and seen[0] is call and invocation.call is call
    assert invocation.operands == call.operands and invocation.options == call.options


# --- X25 on classes without a definition


def test_a_builtin_called_on_an_ordinary_carrier_takes_its_ordinary_path(x):
    with pytest.raises(UnsupportedOperationPlan, match="Tensor"):
        operation_definition("mul")(2.0, 3.0)
    with pytest.raises(TypeError, match="one exact carrier class"):
        operation_definition("add")(x, orlop.Tensor(orlop.Generic([1.0, 2.0], dtype=FLOAT), 0, x.layout))
    assert values(operation_definition("add")(x, x)) == [2.0, 4.0]
    assert values(operation_definition("mul")(2.0, x)) == [2.0, 4.0]
    matrix = friendly.tensor([[1.0, 2.0], [3.0, 4.0]])
    total = operation_definition("reduce_sum")(matrix, accumulator_dtype=DType.Float64)
    assert total.autograd_ctx._execution_options.accumulator_dtype is DType.Float64
    with pytest.raises(TypeError, match="accumulator_dtype"):
        operation_definition("matmul")(matrix, matrix, accumulator_dtype=3)
    with pytest.raises(NotImplementedError):
        define()(x)


# --- X31


def test_a_reference_is_checked_like_a_provider(x):
    def outcome(reference, results=None):
        definition = define(
            resolve=(lambda call: ResolvedInvocation(call, plan_for(call), results)) if results else resolve_like_first,
            reference=reference)
        return execute_reference(definition.resolve_call(definition.bind(x)))

    assert values(outcome(double)[0]) == [2.0, 4.0]
    assert values(outcome(lambda invocation: (double(invocation),))[0]) == [2.0, 4.0]
    assert outcome(lambda invocation: invocation.operands[0], [like(x, alias_of=0)])[0] is x
    for reference, error, words in [
        (None, UnsupportedOperationPlan, "no reference"),
        (lambda invocation: [double(invocation)], TypeError, "tuple"),
        (lambda invocation: None, TypeError, "Tensor"),
        (lambda invocation: (None,), TypeError, "Tensor"),
        (lambda invocation: (), ProviderContractError, "no results"),
        (lambda invocation: (double(invocation),) * 2, ProviderContractError, "count"),
        (lambda invocation: friendly.tensor([1, 2], dtype=DType.Int32), ProviderContractError, "dtype"),
        (lambda invocation: friendly.tensor([1.0]), ProviderContractError, "shape"),
        (lambda invocation: invocation.operands[0], ProviderContractError, "aliases"),
    ]:
        with pytest.raises(error, match=words):
            outcome(reference)
    with pytest.raises(ProviderContractError, match="alias"):
        outcome(double, [like(x, alias_of=0)])
    assert issubclass(ProviderContractError, RuntimeError)


def test_a_builtin_has_the_reference_of_the_table():
    x = friendly.tensor([[1.0, -2.0], [3.0, 4.0]])
    for name, operands in [("relu", (x,)), ("add", (x, x)), ("mul", (2.0, x)), ("mul", (x, 2.0)), ("matmul", (x, x)),
                           ("reduce_sum", (x,)), ("cumsum", (x, 1)), ("clamp", (x, -1.0, 2.0))]:
        definition = operation_definition(name)
        invocation = definition.resolve_call(definition.bind(*operands))
        (reference,) = definition.reference(invocation)
        assert values(reference) == values(definition(*operands))
        assert reference.layout == invocation.results[0].layout
    with pytest.raises(UnsupportedOperationPlan, match="table"):
        definition = operation_definition("relu")
        call = definition.bind(x)
        strange = OperationPlan("relu", (OperandPlan(OperandRole.TENSOR, DType.Bool, DType.Bool),),
                                Arithmetic.INT32_EXACT, None, None, DType.Bool)
        execute_reference(ResolvedInvocation(call, strange, [like(x)]))


# --- X32


def test_a_context_has_exactly_what_the_recipe_names(x):
    definition = define(resolve=lambda call: ResolvedInvocation(call, plan_for(call), [like(x)], saved_operands=[0]))
    invocation = definition.resolve_call(definition.bind(x))
    context = VJPContext(invocation, [x], [x])
    assert context.invocation is invocation and context.outputs == (x,) and context.saved_operands == (x,)
    for outputs, saved in [([x], []), ([x], [x, x]), ([x], [friendly.tensor([1.0, 2.0])])]:
        with pytest.raises(ValueError, match="save recipe"):
            VJPContext(invocation, outputs, saved)
    with pytest.raises(ValueError, match="one entry per result"):
        VJPContext(invocation, [], [x])
    for fields in [(3, [x], [x]), (invocation, [3], [x]), (invocation, [x], 3)]:
        with pytest.raises(TypeError):
            VJPContext(*fields)


def test_a_rule_is_checked_on_both_sides(x):
    y = friendly.tensor([3.0, 4.0])

    def outcome(answer, cotangents=(y,), vjp=None):
        definition = define([OperandSpec("x", TENSOR, True), OperandSpec("m", TENSOR)],
                            vjp=vjp or (lambda context, given: answer))
        invocation = definition.resolve_call(definition.bind(x, x))
        return call_vjp(VJPContext(invocation, [y], []), cotangents)

    assert outcome((y,)) == (y,) and outcome((None,)) == (None,) and outcome((None,), (None,)) == (None,)
    integers = friendly.tensor([1, 2], dtype=DType.Int32)
    for answer, cotangents, error, words in [
        ((y,), (), ValueError, "one entry per result"),
        ((y,), (integers,), TypeError, "dtype"),
        ((y,), (friendly.tensor([1.0]),), ValueError, "shape"),
        ((y,), (3,), TypeError, "Tensor"),
        ([y], (y,), TypeError, "tuple"),
        ((y, y), (y,), ValueError, "one entry per differentiable operand"),
        ((3,), (y,), TypeError, "Tensor"),
        ((integers,), (y,), TypeError, "dtype"),
        ((friendly.tensor([1.0]),), (y,), ValueError, "shape"),
    ]:
        with pytest.raises(error, match=words):
            outcome(answer, cotangents)
    with pytest.raises(RuntimeError, match="no VJP"):
        outcome(None, vjp=NON_DIFFERENTIABLE)


def test_the_gradients_of_the_six_are_those_of_the_table():
    x = friendly.tensor([[1.0, -2.0], [3.0, 4.0]])
    y = friendly.tensor([[0.5, 2.0], [1.0, -1.0]])
    g = friendly.tensor([[1.0, 2.0], [3.0, 4.0]])
    for name, operands, expected in [
        ("add", (x, y), ([1, 3, 2, 4], [1, 3, 2, 4])),
        ("elementwise_mul", (x, y), ([0.5, 3, 4, -4], [1, 9, -4, 16])),
        ("mul", (x, y), ([0.5, 3, 4, -4], [1, 9, -4, 16])),
        ("mul", (x, 3.0), ([3, 9, 6, 12],)),
        ("mul", (3.0, x), ([3, 9, 6, 12],)),
        ("relu", (x,), ([1, 3, 0, 4],)),
        ("matmul", (x, y), ([2.5, 5.5, 0, 2], [10, 14, 10, 12])),  # g·rhs, and g with its modes swapped, times lhs
    ]:
        definition = operation_definition(name)
        invocation = definition.resolve_call(definition.bind(*operands))
        saved = [invocation.operands[position] for position in invocation.saved_operands]
        gradients = definition.vjp(VJPContext(invocation, definition.reference(invocation), saved), (g,))
        assert [values(gradient) for gradient in gradients] == list(expected), name


# --- X33


def test_every_planned_name_has_a_definition():
    for spec in registered_operations():
        definition = operation_definition(spec.name)
        assert definition.name == spec.name and definition.reference is not None
        assert all(len(overload.roles) <= len(definition.schema.operands) for overload in spec.overloads)
    assert operation_definition("argmax").vjp is NON_DIFFERENTIABLE
    assert operation_definition("matmul").schema.options == (OptionSpec("accumulator_dtype", None),)
    with pytest.raises(LookupError):
        operation_definition("permute")


def test_mul_keeps_the_order_of_its_roles(x):
    definition = operation_definition("mul")
    plan = definition.resolve_call(definition.bind(2.0, x)).plan
    assert [operand.role.value for operand in plan.operands] == ["weak_scalar", "tensor"]
    with pytest.raises(TypeError, match="at least one Tensor"):
        definition.resolve_call(definition.bind(2.0, 3.0))


def test_builtin_resolution_refuses_what_the_table_refuses(x):
    def resolve(name, *operands):
        definition = operation_definition(name)
        return definition.resolve_call(definition.bind(*operands))

    matrix = friendly.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with pytest.raises(ValueError, match="broadcast-compatible"):
        resolve("add", x, friendly.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="two"):
        resolve("reduce_sum", x)
    with pytest.raises(ValueError, match="contracted"):
        resolve("matmul", matrix, friendly.tensor([[1.0, 2.0, 3.0]]))
    released = friendly.tensor([1.0, 2.0])
    released.carrier.release()
    with pytest.raises(RuntimeError, match="carrier is released"):
        resolve("add", x, released)


# --- Life


def test_what_a_call_holds_is_collected_in_a_cycle():
    class Token:
        pass

    token, tensor = Token(), friendly.tensor([1.0, 2.0])
    definition = define([OperandSpec("x", TENSOR), OperandSpec("y", STRUCTURAL)], [OptionSpec("p")])
    token.call = definition.bind(tensor, token, p=token)
    token.invocation = resolve_like_first(token.call)
    token.context = VJPContext(token.invocation, [tensor], [])
    watched = weakref.ref(token), weakref.ref(tensor), weakref.ref(token.call)
    del token, tensor
    gc.collect()
    assert [watch() for watch in watched] == [None] * 3
