"""Calls of operations on carrier classes with a definition: order, aliases, results, effects, gradients (X25-X32)."""

import gc
import itertools
import pathlib
import runpy
import weakref

import pytest
from defined_carrier import box, defined, filled, whole

import orlop
from orlop import Carrier, DType, Generic, Layout, ResultSpec, Shape, Stride, Tensor, friendly
from orlop.carriers.definition_dispatch import execute_definition_invocation
from orlop.carriers.extension import (
    KernelExecutionInterface,
    KernelPattern,
    KernelProvider,
    PreparedKernel,
    ProviderResult,
)
from orlop.carriers.operation_capability import OperationCapability, UnsupportedOperationPlan
from orlop.carriers.operation_policy import (
    Arithmetic,
    OperandPlan,
    OperandRole,
    OperationPlan,
    resolvable_plans,
    resolve_operation_plan,
)
from orlop.operation import (
    NON_DIFFERENTIABLE,
    OperandKind,
    OperandSpec,
    OperationSchema,
    OptionSpec,
    ProviderContractError,
    ResolvedInvocation,
    define_operation,
    execute_reference,
    operation_definition,
)

FLOAT = DType.Float32
INTERFACE = KernelExecutionInterface("test")
NAMES = (f"calls{number}.operation" for number in itertools.count())
X = OperandSpec("x", OperandKind.TENSOR, True)


def plan_for(name, operands=1):
    operand = OperandPlan(OperandRole.TENSOR, FLOAT, FLOAT)
    return OperationPlan(name, (operand,) * operands, Arithmetic.BINARY32, None, None, FLOAT)


def define(*, operands=(X,), options=(), results=1, alias_of=None, vjp=NON_DIFFERENTIABLE, **effects):
    """An operation whose results look like its first operand."""

    def resolve(call):
        tensor = call.operands[0]
        spec = ResultSpec(FLOAT, tensor.layout.shape, tensor.layout, alias_of)
        return ResolvedInvocation(call, plan_for(call.definition.name, len(operands)), [spec] * results, **effects)

    return define_operation(next(NAMES), OperationSchema(operands, options), resolve, None, vjp)


def pattern(definition, work, plans=None):
    """A kernel that gives what `work(invocation)` gives."""
    plans = plans or [plan_for(definition.name, len(definition.schema.operands))]

    def prepare(invocation, interface):
        return PreparedKernel(interface, lambda: work(invocation))

    return KernelPattern(definition, [OperationCapability.from_plan(plan) for plan in plans], definition.name, prepare)


def carrier_class(*patterns, **definition):
    return defined(kernels=KernelProvider(INTERFACE, patterns), **definition)


def results_of(*tables):
    """Work that makes fresh results of the class of the first operand."""

    def work(invocation):
        carrier = invocation.operands[0].carrier
        return ProviderResult([whole(filled(type(carrier), table)) for table in tables])

    return work


def builtin(name, work=None):
    """A kernel of a built-in name for all its plans: the reference unless a test brings its own."""
    plans = [plan for plan in resolvable_plans((FLOAT, DType.Int32, DType.Bool)) if plan.operation == name]
    definition = operation_definition(name)
    return pattern(definition, work or (lambda invocation: ProviderResult(execute_reference(invocation))), plans)


def tensor_on(kind, *values):
    return whole(filled(kind, list(values)))


# --- Dispatch


def test_a_dispatched_operation_is_fresh_and_bound_to_the_definition():
    seen = []

    def work(invocation):
        seen.append(invocation)
        return results_of([5.0, 6.0])(invocation)

    definition = define()
    kind = carrier_class(pattern(definition, work))
    x = tensor_on(kind, 1.0, 2.0)
    operation = x.carrier.dispatch_op(definition.name)
    assert operation.definition is definition
    assert (operation._operation_name, operation._dispatch_carrier_class) == (definition.name, kind)
    assert operation is not x.carrier.dispatch_op(definition.name)
    assert x.carrier.dispatch_op(definition.name).definition is definition
    assert friendly.to_list(operation.forward(x)) == [5.0, 6.0]
    assert seen[0].definition is definition and seen[0].operands[0] is x


def test_an_operation_is_bound_to_the_very_carrier():
    definition = define()
    x = tensor_on(carrier_class(pattern(definition, results_of([3.0]))), 1.0)
    operation = x.carrier.dispatch_op(definition.name)
    assert operation.definition is operation_definition(definition.name)
    with pytest.raises(TypeError, match="dispatched"):  # bound to that carrier, not to its class
        operation.forward(tensor_on(type(x.carrier), 1.0))
    assert friendly.item(operation.forward(x)) == 3.0


# --- X25, X26


def test_refusals_of_a_dispatch_come_in_order():
    kind = carrier_class(builtin("relu"))
    x = tensor_on(kind, 1.0)
    with pytest.raises(NotImplementedError, match="definition") as refused:
        x.carrier.dispatch_op("nobody")
    assert not isinstance(refused.value, UnsupportedOperationPlan)
    with pytest.raises(UnsupportedOperationPlan, match="no kernel"):
        x.carrier.dispatch_op("add")
    with pytest.raises(TypeError, match="str"):
        x.carrier.dispatch_op(3)
    with pytest.raises(TypeError):
        Carrier.dispatch_op("relu")


def test_a_definition_is_called_with_options_or_without():
    definition = define(options=[OptionSpec("scale", 2.0)])
    seen = []

    def work(invocation):
        seen.append(invocation.options["scale"])
        return results_of([1.0])(invocation)

    x = tensor_on(carrier_class(pattern(definition, work)), 1.0)
    for options in ({}, {"scale": 3.0}, {"scale": None}):
        definition(x, **options)
    assert seen == [2.0, 3.0, None]
    with pytest.raises(TypeError, match="unknown option"):
        definition(x, speed=1)
    with pytest.raises(TypeError, match="only options"):
        x.carrier.dispatch_op(definition.name).forward(x, scale=1)


def test_several_results_come_as_a_tuple_and_one_as_itself():
    two, one = define(results=2), define()
    kind = carrier_class(pattern(two, results_of([1.0], [2.0])), pattern(one, results_of([3.0])))
    x = tensor_on(kind, 0.0)
    assert [friendly.item(result) for result in two(x)] == [1.0, 2.0]
    assert friendly.item(one(x)) == 3.0
    (again,) = execute_definition_invocation(x.carrier, one.resolve_call(one.bind(x)))
    assert friendly.item(again) == 3.0
    relu = operation_definition("relu")
    with pytest.raises(TypeError, match="carrier definition"):
        execute_definition_invocation(Generic([1.0], dtype=FLOAT), relu.resolve_call(relu.bind(x)))
    with pytest.raises(TypeError, match="ResolvedInvocation"):
        execute_definition_invocation(x.carrier, x)


# --- X27


def test_the_first_tensor_is_the_dispatching_carriers_own():
    definition = define(operands=(X, OperandSpec("y", OperandKind.TENSOR)))
    kind = carrier_class(pattern(definition, results_of([1.0])))
    x, y = tensor_on(kind, 1.0), tensor_on(kind, 2.0)
    x.carrier.dispatch_op(definition.name).forward(x, y)
    with pytest.raises(TypeError, match="dispatched"):
        x.carrier.dispatch_op(definition.name).forward(y, x)
    elsewhere = friendly.tensor([1.0])
    with pytest.raises(TypeError, match="class"):
        x.carrier.dispatch_op(definition.name).forward(x, elsewhere)
    y.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        x.carrier.dispatch_op(definition.name).forward(x, y)


def test_a_plan_that_is_not_advertised_asks_nobody():
    asked = []
    definition = operation_definition("relu")
    plan = resolve_operation_plan("relu", DType.Int32)
    kind = carrier_class(KernelPattern(definition, [OperationCapability.from_plan(plan)], "ints",
                                       lambda invocation, interface: asked.append(invocation)))
    with pytest.raises(UnsupportedOperationPlan):
        orlop.relu(tensor_on(kind, 1.0))
    assert not asked


# --- X28


def test_a_differentiable_alias_is_refused_and_another_comes_back_untouched():
    plain = define(alias_of=0)
    ruled = define(alias_of=0, vjp=lambda context, cotangents: cotangents)
    asked = []

    def work(invocation):
        asked.append(invocation.name)
        return ProviderResult(invocation.operands)

    kind = carrier_class(pattern(plain, work), pattern(ruled, work), builtin("relu"))
    x = orlop.relu(tensor_on(kind, 1.0))
    node = x.autograd_ctx
    with pytest.raises(ValueError, match="exact-object aliased"):
        ruled(x)
    assert not asked
    assert plain(x) is x and x.autograd_ctx is node
    with orlop.no_grad():
        assert ruled(x) is x and x.autograd_ctx is node
    assert asked == [plain.name, ruled.name]
    x.carrier.release()
    with pytest.raises(RuntimeError, match="is released"):
        ruled(x)


# --- X29

WRONG_RESULTS = {
    "count": lambda x: [tensor_on(type(x.carrier), 1.0, 2.0)] * 2,
    "dtype": lambda x: [whole(filled(type(x.carrier), [1, 2], DType.Int32))],
    "shape": lambda x: [tensor_on(type(x.carrier), 1.0)],
    "layout": lambda x: [Tensor(filled(type(x.carrier), [1.0, 2.0, 3.0]), 0, Layout(Shape(2), Stride(2)))],
    "carrier role": lambda x: [friendly.tensor([1.0, 2.0])],
    "aliases": lambda x: [x],
    "offset": lambda x: [Tensor(filled(type(x.carrier), [0.0, 1.0, 2.0]), 1, Layout(Shape(2), Stride(1)))],
    "size": lambda x: [Tensor(filled(type(x.carrier), [1.0, 2.0, 3.0]), 0, Layout(Shape(2), Stride(1)))],
}


@pytest.mark.parametrize("field", WRONG_RESULTS)
def test_a_result_that_does_not_fit_is_refused_by_field(field):
    definition = define(vjp=lambda context, cotangents: cotangents)
    kind = carrier_class(pattern(definition, lambda invocation: ProviderResult(
        WRONG_RESULTS[field](invocation.operands[0]))))
    x = tensor_on(kind, 1.0, 2.0)
    with pytest.raises(ProviderContractError, match=field):
        definition(x)
    assert (x.version, x.autograd_ctx, friendly.to_list(x)) == (0, None, [1.0, 2.0])


def test_a_bare_tensor_from_submit_is_refused():
    definition = define()
    x = tensor_on(carrier_class(pattern(definition, lambda invocation: invocation.operands[0])), 1.0)
    with pytest.raises(TypeError):
        definition(x)


# --- X30


def write(invocation, *values):
    for value in values:
        invocation.operands[0].carrier[0] = value
    return results_of([0.0, 0.0])(invocation)


def raise_after_writing(invocation):
    write(invocation, 9.0)
    raise ZeroDivisionError("kernel")


TAMPERING = {
    "values": lambda invocation: (invocation.operands[0].carrier.box.__setitem__(1, 9.0), write(invocation))[1],
    "version": lambda invocation: (invocation.operands[0].carrier._increment_version(), write(invocation))[1],
    "release": lambda invocation: (invocation.operands[0].carrier.release(), write(invocation))[1],
    "ownership": lambda invocation: (invocation.operands[0].carrier._claim_ownership(), write(invocation))[1],
    "writes": lambda invocation: write(invocation, 7.0, 8.0),
}


@pytest.mark.parametrize("change", TAMPERING)
def test_an_undeclared_change_of_an_operand_is_undone(change):
    definition = define()
    x = tensor_on(carrier_class(pattern(definition, TAMPERING[change])), 1.0, 2.0)
    with pytest.raises(ProviderContractError, match="unauthorized operand"):
        definition(x)
    carrier = x.carrier
    assert (carrier.version, carrier.is_released(), carrier.is_owned()) == (0, False, False)
    assert friendly.to_list(x) == [1.0, 2.0]
    carrier[0] = 5.0
    assert friendly.to_list(x) == [5.0, 2.0]


def test_a_declared_change_counts_once():
    definition = define(mutated_operands=[0])
    kind = carrier_class(pattern(definition, lambda invocation: write(invocation, 4.0, 5.0, 6.0)))
    x = tensor_on(kind, 1.0, 2.0)
    definition(x)
    assert (x.version, friendly.to_list(x)) == (1, [6.0, 2.0])
    quiet = define(mutated_operands=[0])
    x = tensor_on(carrier_class(pattern(quiet, write)), 1.0, 2.0)
    quiet(x)
    assert x.version == 1


def test_a_carrier_may_change_only_where_every_operand_on_it_may():
    definition = define(operands=(X, OperandSpec("y", OperandKind.TENSOR)), mutated_operands=[0])
    kind = carrier_class(pattern(definition, lambda invocation: write(invocation, 4.0)))
    x = tensor_on(kind, 1.0, 2.0)
    with pytest.raises(ProviderContractError, match="unauthorized operand"):
        definition(x, whole(x.carrier))
    assert friendly.to_list(x) == [1.0, 2.0]
    definition(x, tensor_on(kind, 1.0, 2.0))
    assert friendly.to_list(x) == [4.0, 2.0]


def test_a_failed_kernel_leaves_declared_operands_as_they_were():
    definition = define(mutated_operands=[0])
    x = tensor_on(carrier_class(pattern(definition, raise_after_writing)), 1.0, 2.0)
    with pytest.raises(ZeroDivisionError, match="kernel"):
        definition(x)
    assert (x.version, friendly.to_list(x)) == (0, [1.0, 2.0])


def test_a_carrier_that_refuses_to_be_put_back_is_said():
    calls = []

    def write_once(carrier, index, value):
        calls.append(value)
        if len(calls) > 1:
            raise ValueError("stuck")
        carrier.box[index] = value

    definition = define()
    kind = carrier_class(pattern(definition, lambda invocation: write(invocation, 7.0)), storage=box(write=write_once))
    x = tensor_on(kind, 1.0, 2.0)
    with pytest.raises(ProviderContractError, match="stuck"):
        definition(x)


# --- X32


def test_each_result_has_its_own_context():
    seen = []

    def vjp(context, cotangents):
        seen.append((cotangents, [friendly.item(output) for output in context.outputs], context.saved_operands))
        return (next(filter(None, cotangents)),)

    definition = define(results=2, saved_operands=[0], vjp=vjp)
    x = tensor_on(carrier_class(pattern(definition, results_of([1.0], [2.0]))), 3.0)
    first, second = definition(x)
    assert first.autograd_ctx is not second.autograd_ctx
    assert first.autograd_ctx._resolved_invocation == second.autograd_ctx._resolved_invocation
    g = tensor_on(type(x.carrier), 1.0)
    second.backward(g, retain_graph=True)
    first.backward(g, retain_graph=True)
    given = [[cotangent is not None for cotangent in cotangents] for cotangents, _, _ in seen]
    assert given == [[False, True], [True, False]]
    assert all(outputs == [1.0, 2.0] and saved == (x,) for _, outputs, saved in seen)


def test_nothing_stays_alive_without_a_graph():
    definition = define(saved_operands=[0], vjp=lambda context, cotangents: cotangents)
    x = tensor_on(carrier_class(pattern(definition, results_of([1.0]))), 3.0)
    watched = weakref.ref(x), weakref.ref(x.carrier)
    with orlop.no_grad():
        y = definition(x)
    assert y.autograd_ctx is None
    del x
    gc.collect()
    assert [watch() for watch in watched] == [None, None]


def test_a_graph_is_collected_with_the_carriers_it_runs_through():
    definition = define(results=2, saved_operands=[0], vjp=lambda context, cotangents: cotangents[:1])
    x = tensor_on(carrier_class(pattern(definition, results_of([1.0], [2.0]))), 3.0)
    x.carrier.results = definition(x)
    watched = weakref.ref(x), weakref.ref(x.carrier)
    del x
    gc.collect()
    assert [watch() for watch in watched] == [None, None]


def test_only_saved_operands_are_watched():
    y_spec = OperandSpec("y", OperandKind.TENSOR)
    definition = define(operands=(X, y_spec), saved_operands=[1], vjp=lambda context, cotangents: cotangents)
    kind = carrier_class(pattern(definition, results_of([1.0])))
    x, y, g = (tensor_on(kind, 1.0) for _ in range(3))
    result = definition(x, y)
    x.carrier[0] = 2.0
    result.backward(g, retain_graph=True)
    assert friendly.to_list(x.grad) == [1.0] and y.grad is None
    y.carrier[0] = 2.0
    with pytest.raises(RuntimeError, match="modified in-place"):
        result.backward(g)


def test_a_gradient_takes_the_layout_of_its_operand():
    layout = Layout(Shape(2, 2), Stride(2, 1))
    kind = carrier_class(builtin("relu"), builtin("mul"), builtin("matmul"))
    x = Tensor(filled(kind, [1.0, -2.0, 3.0, 4.0]), 0, layout)
    y = orlop.mul(orlop.relu(x), 3.0)
    assert y.layout == Layout(Shape(2, 2), Stride(1, 2))
    y.backward(Tensor(filled(kind, [1.0, 1.0, 1.0, 1.0]), 0, y.layout))
    assert x.grad.layout == layout and type(x.grad.carrier) is kind
    assert friendly.to_list(x.grad) == [3.0, 3.0, 0.0, 3.0]


@pytest.mark.parametrize("name", ["sub", "div", "maximum", "sigmoid", "exp", "reduce_max", "cumsum", "clamp", "gather"])
def test_a_builtin_beyond_the_six_runs_with_a_kernel_from_outside(name):
    kind = carrier_class(builtin(name))

    def run(make):
        x = make([1.0, -2.0, 3.0, 0.5])
        operands = {"sub": (x, 1.0), "div": (x, 2.0), "maximum": (x, 0.0), "cumsum": (x, 1), "clamp": (x, -1.0, 2.0),
                    "gather": (x, make([1, 0], (2,), DType.Int32), 0)}.get(name, (x,))
        y = operation_definition(name)(*operands)
        y.backward(make([1.0, 2.0, 3.0, 4.0][: y.layout.size], y.shape))
        return friendly.to_list(y), friendly.to_list(x.grad)

    def make_on(new):
        def make(values, shape=(2, 2), dtype=FLOAT):
            return Tensor(new(values, dtype), 0, friendly.column_major(*shape))

        return make

    assert run(make_on(lambda values, dtype: filled(kind, values, dtype))) == run(
        make_on(lambda values, dtype: Generic(values, dtype=dtype)))


@pytest.mark.parametrize("name", ["mul", "gather", "custom"])
def test_a_hierarchy_over_a_defined_primary_goes_backward(name):
    custom = define(options=[OptionSpec("scale", 2.0)], saved_operands=[0], vjp=lambda context, cotangents: (
        tensor_on(type(cotangents[0].carrier), *friendly.to_list(context.outputs[0])),))
    kind = carrier_class(pattern(custom, results_of([5.0, 6.0])), builtin("mul"), builtin("gather"))

    def hierarchy(values, dtype=FLOAT):
        return orlop.Evictable(filled(kind, values, dtype), kind(0, dtype=dtype))

    x = whole(hierarchy([1.0, 2.0]))
    y = {"mul": lambda: orlop.mul(x, 3.0), "gather": lambda: orlop.gather(x, whole(hierarchy([1, 0], DType.Int32)), 0),
         "custom": lambda: x.carrier.dispatch_op(custom.name).forward(x)}[name]()
    x.carrier.evict()
    x.carrier.promote()
    y.backward(whole(hierarchy([10.0, 20.0])))
    expected = {"mul": [30.0, 60.0], "gather": [20.0, 10.0], "custom": [5.0, 6.0]}[name]
    assert friendly.to_list(x.grad) == expected and type(x.grad.carrier) is orlop.Evictable


def test_the_profiler_sees_the_outer_operation_alone():
    kind = carrier_class(builtin("relu"))
    x = tensor_on(kind, 1.0)
    with orlop.profile() as profiler:
        orlop.relu(x)
    (event,) = profiler.events()
    assert (event.name, event.carrier_type) == ("relu", kind)


def test_example_of_layer_norm_agrees_with_differences():
    example = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "examples/layer_norm.py"), run_name="__main__")
    layer_norm, like, rows = example["layer_norm"], example["like"], example["rows"]
    desk = example["Desk"](6, dtype=FLOAT)
    x = like(Tensor(desk, 0, friendly.column_major(2, 3)), [[1.0, 2.0, 6.0], [4.0, 4.0, 1.0]])
    (g,) = orlop.grad(layer_norm(x), [x], like(x, [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]))
    step = 1e-2
    for i, j in itertools.product(range(2), range(3)):
        weighted = []
        for sign in (1, -1):
            table = rows(x)
            table[i][j] += sign * step
            y = rows(layer_norm(like(x, table)))
            weighted.append(y[0][0] + 2.0 * y[1][1])
        assert rows(g)[i][j] == pytest.approx((weighted[0] - weighted[1]) / (2 * step), abs=2e-3)


