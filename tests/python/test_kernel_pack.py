"""Kernels, packs and composites of classes with a CarrierDefinition: records, selection, submission (X13-X19, X26)."""

import dataclasses
import gc
import itertools
import subprocess
import sys
import textwrap
import threading

import pytest
from defined_carrier import BOX, FLOAT, INT, box, defined, filled, whole

import orlop
from orlop import CPU, Carrier, DependentCarrier, Generic, Layout, Shape, Stride, Tensor
from orlop.carriers.extension import (
    CarrierDefinition,
    CompositeProvider,
    KernelExecutionInterface,
    KernelPack,
    KernelPattern,
    KernelProvider,
    PreparedComposite,
    PreparedKernel,
    ProviderCompletion,
    ProviderResult,
    Unsupported,
    _require_provider_completion,
    register_carrier_definition,
    register_kernel_pack,
)
from orlop.carriers.operation_capability import (
    OperationCapability,
    UnsupportedOperationPlan,
    capabilities_for_carrier_class,
)
from orlop.carriers.operation_policy import (
    Arithmetic,
    OperandPlan,
    OperandRole,
    OperationPlan,
    resolve_operation_plan,
)
from orlop.operation import execute_reference, operation_definition
from orlop.operation_definition import (
    NON_DIFFERENTIABLE,
    OperandKind,
    OperandSpec,
    OperationSchema,
    ProviderContractError,
    ResolvedInvocation,
    ResultSpec,
    define_operation,
)

HOST = KernelExecutionInterface("1")
ADD, RELU = operation_definition("add"), operation_definition("relu")


def plan(name, *operands):
    return OperationCapability.from_plan(resolve_operation_plan(name, *operands))


ADD_F, ADD_I, RELU_F = plan("add", FLOAT, FLOAT), plan("add", INT, INT), plan("relu", FLOAT)


class Trouble(Exception):
    pass


def run(invocation, interface):
    """A kernel that does what the reference does."""
    return PreparedKernel(interface, lambda: ProviderResult(execute_reference(invocation)))


def declines(reason, log=None):
    def prepare(invocation, interface):
        if log is not None:
            log.append(reason)
        return Unsupported(reason)

    return prepare


def pattern(operation=ADD, plans=(ADD_F,), kernel_id="kernel", prepare=run, preference=0):
    return KernelPattern(operation, plans, kernel_id, prepare, preference)


def computing(*patterns, name="Computing", storage=BOX, **definition):
    return defined(name, storage=storage, kernels=KernelProvider(HOST, patterns), **definition)


def pack(made, *patterns, namespace="acme", version="1", interface=HOST):
    return KernelPack(namespace, version, made, interface, patterns)


def total(made, *given):
    """The sum of two Tensors on the class, by dispatch."""
    left, right = (whole(filled(made, values)) for values in given or ([1.0, 2.0], [3.0, 4.0]))
    return left.carrier.dispatch_op("add").forward(left, right)


# --- Records (X13, X14, X15)


def test_the_interface_is_immutable_and_compares_by_class_and_version():
    class Device(KernelExecutionInterface):
        def __init__(self, version, device):
            super().__init__(version)
            self.device = device

    assert HOST.compatibility_identity == (KernelExecutionInterface, "1")
    assert Device("1", "a").compatibility_identity == Device("1", "b").compatibility_identity == (Device, "1")
    for interface in (HOST, Device("1", "a")):
        for name in ("version", "compatibility_identity"):
            with pytest.raises(AttributeError, match="immutable"):
                setattr(interface, name, "2")
            with pytest.raises(AttributeError, match="immutable"):
                delattr(interface, name)
    with pytest.raises(AttributeError, match="immutable"):
        HOST.device = 3
    with pytest.raises(TypeError):
        KernelExecutionInterface(1)
    with pytest.raises(ValueError):
        KernelExecutionInterface("")


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ({"operation": "add", "plans": ()}, TypeError, "operation"),
        ({"plans": 3, "kernel_id": 3}, TypeError, "must be a finite iterable"),
        ({"plans": (), "kernel_id": 3}, ValueError, "plans"),
        ({"plans": (3,), "kernel_id": 3}, TypeError, "OperationCapability"),
        ({"plans": (ADD_F, ADD_F), "kernel_id": 3}, ValueError, "duplicate"),
        ({"plans": (RELU_F,), "kernel_id": 3}, ValueError, r"operation\.name"),
        ({"kernel_id": 3, "prepare": 3}, TypeError, "kernel_id"),
        ({"kernel_id": "", "prepare": 3}, ValueError, "kernel_id"),
        ({"prepare": 3, "preference": "1"}, TypeError, "prepare must be callable"),
        ({"preference": "1"}, TypeError, "signed integer"),
        ({"preference": True}, TypeError, "signed integer"),
    ],
)
def test_patterns_check_their_fields_in_order(bad, error, words):
    with pytest.raises(error, match=words):
        pattern(**bad)


def test_records_of_kernels_check_their_fields():
    made = computing()
    for call in (
        lambda: KernelProvider("1"),
        lambda: KernelProvider(HOST, [3]),
        lambda: PreparedKernel(3, print),
        lambda: PreparedKernel(HOST, 3),
        lambda: PreparedComposite(3),
        lambda: CompositeProvider(print, print, 3),
        lambda: KernelPack(3, "", made, HOST, ()),
        lambda: KernelPack("", 3, made, HOST, ()),
        lambda: KernelPack("", "", 3, HOST, ()),
        lambda: KernelPack("", "", made, 3, ()),
        lambda: KernelPack("", "", made, HOST, (3,)),
        lambda: ProviderResult([3]),
        lambda: ProviderResult(3),
        lambda: CarrierDefinition(BOX, kernels=3),
        lambda: CarrierDefinition(BOX, composite=3),
    ):
        with pytest.raises(TypeError):
            call()
    for call in (
        lambda: KernelProvider(HOST, [pattern(), pattern()]),
        lambda: KernelPack("", "1", made, HOST, (pattern(),)),
        lambda: KernelPack("acme", "", made, HOST, (pattern(),)),
        lambda: KernelPack("acme", "1", made, HOST, ()),
        lambda: pack(made, pattern(), pattern()),
        lambda: ProviderResult([]),
    ):
        with pytest.raises(ValueError):
            call()


def test_results_are_equal_where_their_tensors_are_the_same():
    tensor, other = whole(Generic([1.0], dtype=FLOAT)), whole(Generic([1.0], dtype=FLOAT))
    assert ProviderResult([tensor]) == ProviderResult((tensor,)) != ProviderResult([other])
    assert hash(ProviderResult([tensor])) == hash(ProviderResult((tensor,)))


# --- Packs and freezing (X15, X16)


def test_packs_are_judged_in_order():
    made = computing(pattern(kernel_id="own"))
    other = KernelExecutionInterface("2")
    assert register_kernel_pack(pack(made, pattern(kernel_id="first"))) is None
    with pytest.raises(TypeError, match="KernelPack"):
        register_kernel_pack(pattern())
    with pytest.raises(TypeError, match="does not match"):
        register_kernel_pack(pack(made, pattern(kernel_id="own"), interface=other))
    with pytest.raises(ValueError, match="namespace and version"):
        register_kernel_pack(pack(made, pattern(kernel_id="own")))
    for taken in ("own", "first"):
        with pytest.raises(ValueError, match="kernel_id"):
            register_kernel_pack(pack(made, pattern(kernel_id=taken), version="2"))
    register_kernel_pack(pack(made, pattern(RELU, (RELU_F,), "relu"), version="2"))
    assert capabilities_for_carrier_class(made) == (ADD_F, RELU_F)


@pytest.mark.parametrize(
    "observe",
    [lambda made: made(1, dtype=FLOAT), capabilities_for_carrier_class],
    ids=["construct", "query"],
)
def test_a_late_pack_changes_nothing(observe):
    made = computing(pattern())
    observe(made)
    before = capabilities_for_carrier_class(made)
    with pytest.raises(TypeError, match="already observed"):
        register_kernel_pack(pack(made, pattern(RELU, (RELU_F,), "late"), interface=KernelExecutionInterface("2")))
    with pytest.raises(TypeError, match="already has a CarrierDefinition"):
        register_carrier_definition(made, CarrierDefinition(BOX))
    assert capabilities_for_carrier_class(made) == before == (ADD_F,)


def test_packs_need_exactly_a_class_with_kernels():
    made = computing(pattern())
    sub = type("Sub", (made,), {})
    for target in (Generic, CPU, sub, type("Bare", (Carrier,), {}), type("Tiers", (DependentCarrier,), {})):
        with pytest.raises(TypeError, match="exact CarrierDefinition"):
            register_kernel_pack(pack(target, pattern(kernel_id="new")))
    for target in (composed(), orlop.TiledEvictable):
        with pytest.raises(TypeError, match="DependentCarrier"):
            register_kernel_pack(pack(target, pattern(kernel_id="new")))
    with pytest.raises(TypeError, match="storage-only"):
        register_kernel_pack(pack(defined(), pattern(kernel_id="new")))
    assert capabilities_for_carrier_class(made) == (ADD_F,)


def test_capabilities_are_the_union_of_all_plans():
    made = computing(pattern(plans=(ADD_I, ADD_F)), pattern(RELU, (RELU_F,), "relu"))
    register_kernel_pack(pack(made, pattern(plans=(ADD_F,), kernel_id="again")))
    assert capabilities_for_carrier_class(made) == (ADD_F, ADD_I, RELU_F)
    assert made(1, dtype=FLOAT).operation_capabilities() == (ADD_F, ADD_I, RELU_F)
    assert made(1, dtype=FLOAT).operation_capabilities("relu") == (RELU_F,)


def test_a_pack_racing_the_first_use_is_in_or_refused():
    for round_ in range(50):
        made, outcomes, start = computing(pattern()), [], threading.Barrier(2)

        def add(made=made, outcomes=outcomes, start=start):
            start.wait()
            try:
                register_kernel_pack(pack(made, pattern(RELU, (RELU_F,), "relu")))
                outcomes.append(True)
            except TypeError:
                outcomes.append(False)

        adding = threading.Thread(target=add)
        adding.start()
        start.wait()
        if round_ % 2:
            made(1, dtype=FLOAT)
        seen = capabilities_for_carrier_class(made)
        adding.join()
        assert seen == ((ADD_F, RELU_F) if outcomes == [True] else (ADD_F,))


# --- Dispatch (X26)


def test_dispatch_dispatch_a_storage_only_carrier():
    carrier = defined()(2, dtype=FLOAT)
    for handled in (NotImplementedError, UnsupportedOperationPlan):
        with pytest.raises(handled, match="storage-only") as caught:
            carrier.dispatch_op("add")
        assert "add" in str(caught.value)
    with pytest.raises(NotImplementedError, match="no such name"):
        carrier.dispatch_op("no such name")
    carrier.release()
    for name in ("add", "no such name"):
        with pytest.raises(RuntimeError, match="^Boxed is released$"):
            carrier.dispatch_op(name)


def test_a_name_without_kernel_is_refused():
    carrier = computing(pattern())(2, dtype=FLOAT)
    with pytest.raises(UnsupportedOperationPlan, match="no kernel") as caught:
        carrier.dispatch_op("relu")
    assert caught.value.kind == "operation" and caught.value.carrier_class is type(carrier)


def test_dispatch_dispatch_from_an_instance():
    carrier = computing(pattern())(2, dtype=FLOAT)
    one, two = carrier.dispatch_op("add"), carrier.dispatch_op("add")
    assert one is not two and one._operation_name == "add" and one._dispatch_carrier_class is type(carrier)


def test_a_plan_outside_the_capabilities_is_refused():
    made = computing(pattern(plans=(ADD_I,)))
    with pytest.raises(UnsupportedOperationPlan) as caught:
        total(made)
    assert caught.value.kind == "shape"


def double_plan(dtype, name="acme_packs.double"):
    return OperationPlan(name, (OperandPlan(OperandRole.TENSOR, dtype, dtype),), Arithmetic.BINARY32,
                         None, None, dtype)


def resolve_double(call):
    tensor = call.operands[0]
    return ResolvedInvocation(call, double_plan(tensor.dtype()),
                              (ResultSpec(tensor.dtype(), tensor.layout.shape, tensor.layout),))


DOUBLE = define_operation(
    "acme_packs.double", OperationSchema([OperandSpec("tensor", OperandKind.TENSOR, differentiable=True)]),
    resolve_double, vjp=lambda context, cotangents: (context.invocation.definition(cotangents[0]),))
DOUBLE_F = OperationCapability.from_plan(double_plan(FLOAT))


def double_box(invocation, interface):
    def submit():
        tensor = invocation.operands[0]
        made = tensor.carrier.new_like([2 * value for value in tensor.carrier.box])
        return ProviderResult([Tensor(made, 0, tensor.layout)])

    return PreparedKernel(interface, submit)


def test_dispatch_dispatch_a_custom_definition_backed_operation():
    seen = []

    def prepare(invocation, interface):
        seen.append((invocation.definition, invocation.name, interface))
        return double_box(invocation, interface)

    made = computing(pattern(DOUBLE, (DOUBLE_F,), "double", prepare))
    tensor = whole(filled(made, [1.0, 2.0]))
    operation = tensor.carrier.dispatch_op("acme_packs.double")
    assert operation is not tensor.carrier.dispatch_op("acme_packs.double")
    result = operation.forward(tensor)
    assert type(result.carrier) is made and result.carrier.box == [2.0, 4.0]
    assert [(definition is DOUBLE, name, interface is HOST) for definition, name, interface in seen] == [
        (True, "acme_packs.double", True)]
    result.backward(whole(filled(made, [1.0, 10.0])))
    assert tensor.grad.carrier.box == [2.0, 20.0] and len(seen) == 2
    assert DOUBLE(tensor).carrier.box == [2.0, 4.0]


# --- Selection (X17)


def test_kernels_are_tried_by_preference_then_by_namespace():
    log = []
    made = computing(pattern(kernel_id="own", prepare=declines("own", log)),
                     pattern(kernel_id="wanted", prepare=declines("wanted", log), preference=10))
    register_kernel_pack(pack(made, pattern(kernel_id="z", prepare=declines("zeta", log)), namespace="zeta"))
    register_kernel_pack(pack(made, pattern(kernel_id="a", prepare=declines("alpha", log)), namespace="alpha"))
    register_kernel_pack(pack(made, pattern(kernel_id="low", prepare=run, preference=-1), namespace="alpha",
                              version="2"))
    assert total(made).carrier.box == [4.0, 6.0]
    assert log == ["wanted", "own", "alpha", "zeta"]


def test_only_matching_kernels_are_asked():
    log = []
    made = computing(pattern(plans=(ADD_I,), kernel_id="integers", prepare=declines("integers", log), preference=3),
                     pattern(RELU, (RELU_F,), "relu", declines("relu", log), 2), pattern())
    total(made)
    assert log == []


def test_a_kernel_that_declines_gives_way_and_a_prepared_one_ends_the_search():
    log = []
    made = computing(pattern(kernel_id="first", prepare=declines("first", log)), pattern(kernel_id="second"),
                     pattern(kernel_id="third", prepare=declines("third", log)))
    assert total(made).carrier.box == [4.0, 6.0] and log == ["first"]


def test_all_reasons_are_told():
    made = computing(pattern(kernel_id="first", prepare=declines("alignment")),
                     pattern(kernel_id="second", prepare=declines("shape")))
    with pytest.raises(UnsupportedOperationPlan, match="first: alignment; second: shape") as caught:
        total(made)
    assert caught.value.kind == "invocation" and caught.value.plan == resolve_operation_plan("add", FLOAT, FLOAT)
    assert capabilities_for_carrier_class(made) == (ADD_F,)


def test_an_exception_of_prepare_ends_the_call():
    def fail(invocation, interface):
        raise Trouble

    made = computing(pattern(kernel_id="first", prepare=fail), pattern(kernel_id="second"))
    with pytest.raises(Trouble):
        total(made)


@pytest.mark.parametrize("answer", [None, 3, ProviderResult([whole(CPU(1))])])
def test_another_answer_of_prepare_is_refused(answer):
    made = computing(pattern(prepare=lambda invocation, interface: answer), pattern(kernel_id="second"))
    with pytest.raises(TypeError, match="prepare"):
        total(made)


def test_the_prepared_interface_must_be_the_providers():
    class Device(KernelExecutionInterface):
        pass

    for interface in (KernelExecutionInterface("2"), Device("1")):
        made = computing(pattern(prepare=lambda invocation, _, used=interface: run(invocation, used)))
        with pytest.raises(TypeError, match="interface"):
            total(made)
    equal = KernelExecutionInterface("1")
    assert total(computing(pattern(prepare=lambda invocation, _: run(invocation, equal)))).carrier.box == [4.0, 6.0]


# --- Submission (X18)


class Completion:
    """A completion that tests may hold open or break."""

    def __init__(self, result, *, done=True, error=None):
        self.result, self.error, self.waits, self.finished = result, error, 0, done

    @property
    def done(self):
        return self.finished

    def wait(self):
        self.waits += 1
        if self.error is not None:
            raise self.error
        return self.result


def submitting(submit):
    """A class whose add submits what `submit(invocation)` returns."""
    return computing(pattern(
        prepare=lambda invocation, interface: PreparedKernel(interface, lambda: submit(invocation))))


def test_submit_is_called_once_per_call():
    calls = []

    def submit(invocation):
        calls.append(1)
        return ProviderResult(execute_reference(invocation))

    made = submitting(submit)
    total(made)
    total(made)
    assert calls == [1, 1]


def test_a_call_waits_for_the_completion():
    completions = []

    def submit(invocation):
        completions.append(Completion(ProviderResult(execute_reference(invocation))))
        return completions[-1]

    result = total(submitting(submit))
    assert isinstance(result, Tensor) and result.carrier.box == [4.0, 6.0] and completions[0].waits == 1
    assert isinstance(completions[0], ProviderCompletion)


def test_the_exception_of_wait_is_the_exception_of_the_call():
    error = Trouble()
    with pytest.raises(Trouble) as caught:
        total(submitting(lambda invocation: Completion(None, error=error)))
    assert caught.value is error


class Coroutine(Completion):
    def __await__(self):
        yield


@pytest.mark.parametrize(
    ("submitted", "words"),
    [
        (None, "completion"),
        (whole(CPU(2)), "completion"),
        ([whole(CPU(2))], "completion"),
        (Coroutine(None), "must not expose a coroutine"),
        (Completion(3), "completion"),
        (Completion(None), "completion"),
        (Completion(ProviderResult([whole(CPU(2))]), done=False), "done"),
        (Completion(ProviderResult([whole(CPU(2))]), done=1), "done must be a bool"),
    ],
)
def test_what_submit_may_not_give(submitted, words):
    with pytest.raises(TypeError, match=words):
        total(submitting(lambda invocation: submitted))


def test_completions_are_checked_the_same_everywhere():
    _require_provider_completion(Completion(None))
    for wrong in (3, object(), Coroutine(None)):
        with pytest.raises(TypeError):
            _require_provider_completion(wrong)


def test_an_exception_of_submit_propagates():
    def submit(invocation):
        raise Trouble

    with pytest.raises(Trouble):
        total(submitting(submit))


def test_calls_from_many_threads_are_independent():
    made = submitting(lambda invocation: Completion(ProviderResult(execute_reference(invocation))))
    results = {}

    def work(number):
        results[number] = total(made, [float(number)], [1.0]).carrier.box

    threads = [threading.Thread(target=work, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [number + 1.0] for number in range(16)}


# --- Effects and results across the border (X29, X30)


def test_a_write_to_an_operand_that_is_not_declared_is_taken_back():
    def submit(invocation):
        invocation.operands[0].carrier[0] = 9.0
        return ProviderResult(execute_reference(invocation))

    made = submitting(submit)
    left, right = whole(filled(made, [1.0, 2.0])), whole(filled(made, [3.0, 4.0]))
    with pytest.raises(ProviderContractError, match="unauthorized operand"):
        left.carrier.dispatch_op("add").forward(left, right)
    assert left.carrier.box == [1.0, 2.0] and left.carrier.version == right.carrier.version == 0


def resolve_bump(call):
    tensor = call.operands[0]
    spec = ResultSpec(tensor.dtype(), tensor.layout.shape, tensor.layout)
    return ResolvedInvocation(call, double_plan(tensor.dtype(), "acme_packs.bump"), (spec,), mutated_operands=(0,))


BUMP = define_operation("acme_packs.bump", OperationSchema([OperandSpec("tensor", OperandKind.TENSOR)]), resolve_bump,
                        vjp=NON_DIFFERENTIABLE)
BUMP_F = dataclasses.replace(DOUBLE_F, operation="acme_packs.bump")


def test_a_declared_write_counts_once():
    def bump(invocation, interface):
        def submit():
            tensor = invocation.operands[0]
            for slot in range(3):
                tensor.carrier[slot] = 7.0
            return ProviderResult([Tensor(tensor.carrier.new_like([0.0] * 3), 0, tensor.layout)])

        return PreparedKernel(interface, submit)

    made = computing(pattern(BUMP, (BUMP_F,), "bump", bump))
    tensor = whole(filled(made, [1.0, 2.0, 3.0]))
    tensor.carrier.dispatch_op("acme_packs.bump").forward(tensor)
    assert tensor.carrier.box == [7.0] * 3 and tensor.carrier.version == 1


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (lambda left: [left, left], "count"),
        (lambda left: [whole(left.carrier.new_like([1, 2], dtype=INT))], "dtype"),
        (lambda left: [whole(left.carrier.new_like([1.0]))], "shape"),
        (lambda left: [Tensor(left.carrier.new_like([1.0] * 4), 0, Layout(Shape(2), Stride(2)))], "layout"),
        (lambda left: [whole(CPU(2))], "carrier role"),
        (lambda left: [left], "alias"),
        (lambda left: [Tensor(left.carrier.new_like([1.0] * 3), 1, Layout(Shape(2), Stride(1)))], "offset"),
        (lambda left: [Tensor(left.carrier.new_like([1.0] * 3), 0, Layout(Shape(2), Stride(1)))], "size"),
    ],
)
def test_results_must_be_what_was_resolved(results, words):
    made = submitting(lambda invocation: ProviderResult(results(invocation.operands[0])))
    with pytest.raises(ProviderContractError, match=words):
        total(made)


# --- Composites (X19)


def composite(**changes):
    """Adds by taking the values to a Generic and back."""

    def prepare(carrier, invocation):
        def submit():
            operands = [whole(tensor.carrier.inner) for tensor in invocation.operands]
            inner = operands[0].carrier.dispatch_op("add").forward(*operands)
            made = carrier.allocate_like(inner.carrier.size())
            made.inner = inner.carrier
            return ProviderResult([Tensor(made, 0, inner.layout)])

        return PreparedComposite(submit)

    provider = CompositeProvider(
        capabilities=lambda carrier: iter([ADD_F]),
        result_carriers=lambda carrier, invocation: (type(carrier),),
        prepare=prepare,
    )
    return dataclasses.replace(provider, **changes)


INNER = box(
    physical_size=lambda carrier: carrier.inner.size(),
    allocate=lambda carrier, slots: setattr(carrier, "inner", Generic([0.0] * slots, dtype=carrier.dtype())),
    release=lambda carrier: setattr(carrier, "inner", None),
    read=lambda carrier, index: carrier.inner[index],
    write=lambda carrier, index, value: carrier.inner.__setitem__(index, value),
)


def composed(**changes):
    return defined("Composed", DependentCarrier, storage=INNER, composite=composite(**changes))


def pair(made):
    carriers = [made(2, dtype=FLOAT), made(2, dtype=FLOAT)]
    for carrier in carriers:
        carrier[0], carrier[1] = 1.5, 2.5
    return [whole(carrier) for carrier in carriers]


def test_a_composite_computes_on_what_it_is_built_from():
    made = composed()
    left, right = pair(made)
    assert left.carrier.operation_capabilities() == (ADD_F,) and capabilities_for_carrier_class(made) == ()
    result = left.carrier.dispatch_op("add").forward(left, right)
    assert type(result.carrier) is made and [result[0], result[1]] == [3.0, 5.0]
    result.backward(pair(made)[0])
    assert [left.grad[0], left.grad[1]] == [1.5, 2.5]
    with pytest.raises(UnsupportedOperationPlan, match="does not support"):
        left.carrier.dispatch_op("relu")


def test_definitions_of_composites_are_checked():
    kernels = KernelProvider(HOST)
    with pytest.raises(TypeError, match="requires composite"):
        defined(base=DependentCarrier)
    with pytest.raises(TypeError, match="forbids kernels"):
        defined(base=DependentCarrier, composite=composite(), kernels=kernels)
    with pytest.raises(TypeError, match="must not supply a composite"):
        defined(composite=composite())


@pytest.mark.parametrize(
    ("answer", "error"),
    [([3], TypeError), (3, TypeError), ([ADD_F, ADD_F], ValueError)],
)
def test_wrong_capabilities_end_the_construction(answer, error):
    kept = []

    def capabilities(carrier):
        kept.append(carrier)
        return answer

    with pytest.raises(error):
        composed(capabilities=capabilities)(2, dtype=FLOAT)
    assert kept[0].is_released()


def test_an_exception_of_capabilities_ends_the_construction():
    def capabilities(carrier):
        raise Trouble

    with pytest.raises(Trouble):
        composed(capabilities=capabilities)(2, dtype=FLOAT)


def test_capabilities_are_frozen_with_the_instance():
    asked = []

    def capabilities(carrier):
        asked.append(carrier)
        return [ADD_F] if len(asked) == 1 else []

    made = composed(capabilities=capabilities)
    carrier = made(1, dtype=FLOAT)
    assert carrier.operation_capabilities() == carrier.operation_capabilities() == (ADD_F,) and asked == [carrier]
    carrier.release()
    assert carrier.operation_capabilities() == (ADD_F,)


@pytest.mark.parametrize("answer", [None, [CPU], (3,), (Carrier,), (DependentCarrier,)])
def test_result_carriers_are_a_tuple_of_concrete_classes(answer):
    left, right = pair(composed(result_carriers=lambda carrier, invocation: answer))
    with pytest.raises(TypeError, match="result_carriers"):
        left.carrier.dispatch_op("add").forward(left, right)


def test_another_number_of_result_carriers_is_both_kinds_of_error():
    prepared = []
    left, right = pair(composed(result_carriers=lambda carrier, invocation: (),
                                prepare=lambda *arguments: prepared.append(arguments)))
    for handled in (ProviderContractError, ValueError):
        with pytest.raises(handled, match="one class per result"):
            left.carrier.dispatch_op("add").forward(left, right)
    assert prepared == []


def test_results_of_a_composite_may_live_on_its_dependencies():
    def prepare(carrier, invocation):
        operands = [whole(tensor.carrier.inner) for tensor in invocation.operands]
        return PreparedComposite(lambda: ProviderResult([operands[0].carrier.dispatch_op("add").forward(*operands)]))

    made = composed(prepare=prepare, result_carriers=lambda carrier, invocation: (Generic,))
    left, right = pair(made)
    result = left.carrier.dispatch_op("add").forward(left, right)
    assert type(result.carrier) is Generic and [result[0], result[1]] == [3.0, 5.0]


def test_answers_of_a_composites_prepare():
    left, right = pair(composed(prepare=lambda carrier, invocation: Unsupported("evicted")))
    with pytest.raises(UnsupportedOperationPlan, match="evicted"):
        left.carrier.dispatch_op("add").forward(left, right)
    left, right = pair(composed(prepare=lambda carrier, invocation: None))
    with pytest.raises(TypeError, match="prepare"):
        left.carrier.dispatch_op("add").forward(left, right)


# --- Lifetimes


def test_calls_leave_nothing():
    made = computing(pattern())
    for _ in range(10):
        total(made)
    gc.collect()
    before = len(gc.get_objects())
    for _ in itertools.repeat(None, 500):
        total(made)
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def test_nothing_of_kernels_is_left_at_interpreter_exit():
    program = """
        import sys
        sys.path.insert(0, {folder!r})
        from test_kernel_pack import *
        made = computing(pattern())
        register_kernel_pack(pack(made, pattern(kernel_id="more")))
        kept = total(made)
        kept.carrier.me = made.kept = kept
        tiers = composed()
        other = pair(tiers)
        print(kept.carrier.box)
    """.format(folder=__file__.rpartition("/")[0])
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[4.0, 6.0]\n", "")
