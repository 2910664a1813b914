"""Capabilities of carrier classes and carriers, and the gate (P20-P31)."""

import dataclasses
import gc
import pickle
import threading
import weakref

import pytest
from list_carrier import ListHooks

import orlop
from orlop import CPU, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride, Tensor, functional
from orlop.carriers.base import Carrier, DependentCarrier
from orlop.carriers.operation_capability import (
    OperandCapability,
    OperationCapability,
    capabilities_for_carrier_class,
    matching_capability,
    register_operation_capabilities,
    require_capability,
    supports_operation_plan,
    unsupported_plan_reason,
)
from orlop.carriers.operation_policy import (
    Accumulation,
    Arithmetic,
    OperandRole,
    operation_execution_options,
    registered_operations,
    resolvable_plans,
    resolve_operation_plan,
)
from orlop.operation import table_operation

F, I, B, D = DType.Float32, DType.Int32, DType.Bool, DType.Float64
from_plan = OperationCapability.from_plan


def add_f():
    return resolve_operation_plan("add", F, F)


def add_i():
    return resolve_operation_plan("add", I, I)


def relu_f():
    return resolve_operation_plan("relu", F)


def fresh_class(name="Mine"):
    return type(name, (ListHooks, Carrier), {"_dispatch_op": lambda self, operation: table_operation(operation)})


class Composite(ListHooks, DependentCarrier):
    def __init__(self, capabilities=(), finalize=True):
        super().__init__()
        self.capabilities = capabilities
        if finalize:
            self._finalize_dependent_capabilities()

    def _generate_operation_capabilities(self):
        return self.capabilities


@pytest.mark.parametrize("operation", [spec.name for spec in registered_operations()])
@pytest.mark.parametrize("carrier_class", [CPU, Generic])
def test_every_plan_is_supported_by_ram_carriers(carrier_class, operation):
    plans = [plan for plan in resolvable_plans((F, I, B)) if plan.operation == operation]
    assert plans
    for plan in plans:
        assert supports_operation_plan(carrier_class, plan)
        entry = require_capability(carrier_class, plan)
        assert entry == from_plan(plan) and entry.matches(plan)
    assert len(capabilities_for_carrier_class(carrier_class, operation)) == len(plans)
    assert [field.name for field in dataclasses.fields(entry)] == [field.name for field in dataclasses.fields(plan)]


def test_changing_any_field_ends_the_match():
    plan = resolve_operation_plan("reduce_sum", F)
    entry = from_plan(plan)
    operand = plan.operands[0]
    for change in [
        {"operation": "reduce_max"},
        {"operands": ()},
        {"operands": (operand, operand)},
        {"operands": (dataclasses.replace(operand, dtype=I),)},
        {"operands": (dataclasses.replace(operand, convert_to=I),)},
        {"operands": (dataclasses.replace(operand, role=OperandRole.WEAK_SCALAR, dtype=None),)},
        {"compute": Arithmetic.INT32_EXACT},
        {"accumulation": None},
        {"accumulation": Accumulation.MAXIMUM},
        {"accumulator_dtype": None},
        {"accumulator_dtype": D},
        {"output": I},
    ]:
        assert not entry.matches(dataclasses.replace(plan, **change)), change
    assert entry.matches(dataclasses.replace(plan))


def test_records_check_their_fields():
    entry = from_plan(add_f())
    assert type(entry.operands[0]) is OperandCapability
    assert pickle.loads(pickle.dumps(entry)) == entry and hash(dataclasses.replace(entry)) == hash(entry)
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.operation = "x"
    with pytest.raises(ValueError, match="operand"):
        dataclasses.replace(entry, operands=())
    for operands in (list(entry.operands), add_f().operands, None):
        with pytest.raises(TypeError):
            dataclasses.replace(entry, operands=operands)
    for plan in (entry, "add", None):
        with pytest.raises(TypeError):
            from_plan(plan)
        with pytest.raises(TypeError):
            entry.matches(plan)


def test_a_declaration_belongs_to_one_class():
    mine = fresh_class()
    entry = from_plan(add_f())
    register_operation_capabilities(mine, iter([entry]))
    subclass = type("Sub", (mine,), {})
    assert matching_capability(mine, add_f()) is entry and require_capability(mine, add_f()) is entry
    assert matching_capability(mine, add_i()) is None
    assert capabilities_for_carrier_class(mine) == (entry,)
    for other in (subclass, fresh_class(), Carrier):
        assert not supports_operation_plan(other, add_f())
        assert capabilities_for_carrier_class(other) == ()
    assert mine().supports_operation_plan(add_f()) and not subclass().supports_operation_plan(add_f())


@pytest.mark.parametrize("target", ["Mine", Carrier, int, CPU, DependentCarrier, Composite, None, 3])
def test_only_an_open_class_declares(target):
    with pytest.raises(TypeError):
        register_operation_capabilities(target, [from_plan(add_f())])


def test_the_class_is_judged_before_the_entries():
    def entries():
        raise AssertionError("walked")
        yield

    with pytest.raises(TypeError):
        register_operation_capabilities(CPU, entries())


def test_a_rejected_declaration_leaves_the_class_open():
    mine = fresh_class()
    entry = from_plan(add_f())

    def broken():
        yield entry
        raise KeyboardInterrupt

    for capabilities, error in [
        ([entry, entry], ValueError),
        ([entry, dataclasses.replace(entry)], ValueError),
        ([entry, add_f()], TypeError),
        (3, TypeError),
        (broken(), KeyboardInterrupt),
    ]:
        with pytest.raises(error):
            register_operation_capabilities(mine, capabilities)
    register_operation_capabilities(mine, [])
    with pytest.raises(TypeError, match="already"):
        register_operation_capabilities(mine, [entry])
    assert capabilities_for_carrier_class(mine) == ()


@pytest.mark.parametrize(
    "query",
    [
        lambda cls: capabilities_for_carrier_class(cls),
        lambda cls: capabilities_for_carrier_class(cls, "add"),
        lambda cls: matching_capability(cls, add_f()),
        lambda cls: supports_operation_plan(cls, add_f()),
        lambda cls: unsupported_plan_reason(cls, add_f()),
        lambda cls: cls().operation_capabilities(),
        lambda cls: cls().supports_operation_plan(add_f()),
        lambda cls: cls().unsupported_plan_reason(add_f()),
    ],
)
def test_the_first_query_seals(query):
    mine = fresh_class()
    query(mine)
    with pytest.raises(TypeError, match="already observed"):
        register_operation_capabilities(mine, [from_plan(add_f())])
    assert not supports_operation_plan(mine, add_f())


def test_the_gate_seals():
    mine = fresh_class()
    with pytest.raises(orlop.UnsupportedOperationPlan):
        require_capability(mine, add_f())
    with pytest.raises(TypeError):
        register_operation_capabilities(mine, [])


def test_an_instance_does_not_seal():
    mine = fresh_class()
    mine([1.0])
    register_operation_capabilities(mine, [from_plan(add_f())])
    assert supports_operation_plan(mine, add_f())


def test_class_queries_check_their_arguments():
    for query in (matching_capability, supports_operation_plan, unsupported_plan_reason, require_capability):
        with pytest.raises(TypeError):
            query(CPU(1), add_f())
        with pytest.raises(TypeError):
            query(CPU, from_plan(add_f()))
        with pytest.raises(TypeError):
            query(CPU, None)
    with pytest.raises(TypeError):
        capabilities_for_carrier_class("CPU")
    with pytest.raises(TypeError):
        capabilities_for_carrier_class(CPU, 3)


def test_capabilities_are_listed_in_order():
    def key(entry):
        operands = "|".join(
            f"{each.role.value}:{each.dtype.name if each.dtype else ''}:{each.convert_to.name}" for each in entry.operands
        )
        accumulation = entry.accumulation.value if entry.accumulation else ""
        accumulator = entry.accumulator_dtype.name if entry.accumulator_dtype else ""
        return entry.operation, operands, entry.compute.value, accumulation, accumulator, entry.output.name

    listed = capabilities_for_carrier_class(CPU)
    assert list(listed) == sorted(listed, key=key)
    assert capabilities_for_carrier_class(CPU, "matmul") == tuple(e for e in listed if e.operation == "matmul")
    assert capabilities_for_carrier_class(CPU, "nosuch") == ()


def test_reasons():
    mine = fresh_class("Picky")
    register_operation_capabilities(mine, [from_plan(add_f())])
    assert unsupported_plan_reason(mine, add_f()) is None
    mixed = [resolve_operation_plan("add", *pair) for pair in [(I, F), (F, I), (I, I)]]
    shapes = {unsupported_plan_reason(mine, plan) for plan in mixed}
    assert len(shapes) == 3 and all("Picky" in text and "add" in text for text in shapes)
    assert unsupported_plan_reason(mine, relu_f()) == unsupported_plan_reason(mine, resolve_operation_plan("relu", I))
    for plan, kind in [(mixed[0], "shape"), (relu_f(), "operation")]:
        for refused in (lambda: require_capability(mine, plan), lambda: mine().require_operation_plan(plan)):  # noqa: B023
            with pytest.raises(orlop.UnsupportedOperationPlan) as caught:
                refused()
            error = caught.value
            assert isinstance(error, NotImplementedError)
            assert (error.plan, error.carrier_class, error.kind) == (plan, mine, kind)
            assert str(error) == unsupported_plan_reason(mine, plan)
            with pytest.raises(AttributeError):
                error.kind = "other"


def placed(carrier):
    return Tensor(carrier, 0, Layout(Shape(carrier.size()), Stride(1)))


def test_dispatch_refuse_a_plan_before_backend_work():
    mine = fresh_class()
    register_operation_capabilities(mine, [from_plan(add_f())])
    x = placed(mine([1.0, 2.0]))
    mine.allocations = 0
    with pytest.raises(orlop.UnsupportedOperationPlan) as caught:
        functional.mul(x, x)
    assert caught.value.carrier_class is mine and caught.value.kind == "operation"
    assert mine.allocations == 0
    assert functional.add(x, x).carrier.values == [2.0, 4.0]
    assert mine.allocations == 1


@pytest.mark.parametrize("category", [DType.Any, DType.Floating])
def test_dispatch_reject_a_category_before_backend_work(category):
    mine = fresh_class()
    x = placed(mine([1.0, 2.0], category))
    mine.allocations = 0
    with pytest.raises(TypeError, match=category.name):
        functional.relu(x)
    assert mine.allocations == 0
    register_operation_capabilities(mine, [])  # planning failed before the gate: nobody asked yet


def test_dispatch_reject_options_for_another_operation():
    x = placed(CPU(2))
    options = operation_execution_options("reduce_sum", accumulator_dtype=D)
    operation = x.carrier.dispatch_op("matmul")
    with pytest.raises(ValueError, match="reduce_sum"):
        operation.forward(x, x, options=options)
    with pytest.raises(ValueError, match="reduce_sum"):
        operation._execute_lowered(x, x, options=options)
    assert operation.inputs() == ()


def test_carrier_queries():
    carrier = CPU(3)
    assert carrier.operation_capabilities() == capabilities_for_carrier_class(CPU)
    assert carrier.operation_capabilities("relu") == capabilities_for_carrier_class(CPU, "relu")
    assert carrier.operation_capabilities(operation_name="nosuch") == ()
    assert carrier.supports_operation_plan(add_f()) and carrier.unsupported_plan_reason(add_f()) is None
    carrier.release()
    assert carrier.supports_operation_plan(add_i())
    for query in ("supports_operation_plan", "unsupported_plan_reason", "require_operation_plan"):
        with pytest.raises(TypeError):
            getattr(carrier, query)("add")
        with pytest.raises(TypeError):
            getattr(CPU, query)(add_f())
    with pytest.raises(TypeError):
        CPU.operation_capabilities()
    with pytest.raises(TypeError):
        carrier.operation_capabilities(3)


def test_dependent_capabilities_belong_to_the_instance():
    add, relu = from_plan(add_f()), from_plan(relu_f())
    one, two = Composite(iter([relu, add])), Composite([])
    assert one.operation_capabilities() == (add, relu)
    assert one.operation_capabilities()[0] is add and one.require_operation_plan(relu_f()) is relu
    assert two.operation_capabilities() == ()
    assert not supports_operation_plan(Composite, add_f())
    with pytest.raises(orlop.UnsupportedOperationPlan) as caught:
        two.require_operation_plan(add_f())
    assert caught.value.carrier_class is Composite
    with pytest.raises(RuntimeError):
        one._finalize_dependent_capabilities()
    assert one.operation_capabilities() == (add, relu)


def test_dependent_capabilities_before_finalization():
    carrier = Composite(finalize=False)
    for query in (
        carrier.operation_capabilities,
        lambda: carrier.supports_operation_plan(add_f()),
        lambda: carrier.unsupported_plan_reason(add_f()),
        lambda: carrier.require_operation_plan(add_f()),
    ):
        with pytest.raises(RuntimeError, match="finalized"):
            query()
    entry = from_plan(add_f())
    for capabilities, error in [([add_f()], TypeError), (3, TypeError), ([entry, entry], ValueError)]:
        carrier.capabilities = capabilities
        with pytest.raises(error):
            carrier._finalize_dependent_capabilities()
    carrier._generate_operation_capabilities = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        carrier._finalize_dependent_capabilities()
    with pytest.raises(RuntimeError):
        carrier.operation_capabilities()
    del carrier._generate_operation_capabilities
    carrier.capabilities = [entry]
    carrier._finalize_dependent_capabilities()
    assert carrier.operation_capabilities() == (entry,)


def test_a_dependent_class_without_the_hook():
    class Bare(ListHooks, DependentCarrier):
        pass

    with pytest.raises(NotImplementedError):
        Bare()._finalize_dependent_capabilities()


def test_carriers_that_only_store_advertise_nothing():
    storage = FileBacked(dtype=F)
    assert storage.operation_capabilities() == capabilities_for_carrier_class(FileBacked) == ()
    with pytest.raises(orlop.UnsupportedOperationPlan):
        storage.require_operation_plan(add_f())


def test_a_hierarchy_advertises_what_its_primary_does():
    mine = fresh_class()
    register_operation_capabilities(mine, [from_plan(relu_f())])
    whole = Evictable(CPU(2), FileBacked(dtype=F))
    small = Evictable(mine([1.0, 2.0]), FileBacked(dtype=F))
    # A file holds no Bool slots.
    stored = [entry for entry in CPU(1).operation_capabilities() if entry.output is not B]
    assert whole.operation_capabilities() == tuple(stored)
    assert small.operation_capabilities() == (from_plan(relu_f()),)
    assert capabilities_for_carrier_class(Evictable) == ()
    with pytest.raises(TypeError):
        register_operation_capabilities(Evictable, [])
    with pytest.raises(orlop.UnsupportedOperationPlan) as caught:
        functional.add(placed(small), placed(small))
    assert caught.value.carrier_class is Evictable


def test_nothing_outlives_a_dependent_instance():
    carrier = Composite([from_plan(add_f())])
    gone = weakref.ref(carrier)
    del carrier
    gc.collect()
    assert gone() is None


def test_one_of_two_racing_declarations_wins():
    for _ in range(20):
        mine = fresh_class()
        start = threading.Barrier(2)
        outcomes = []

        def declare(plan, mine=mine, start=start, outcomes=outcomes):
            start.wait()
            try:
                register_operation_capabilities(mine, [from_plan(plan)])
                outcomes.append("won")
            except TypeError:
                outcomes.append("lost")

        threads = [threading.Thread(target=declare, args=(plan,)) for plan in (add_f(), relu_f())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["lost", "won"]
        assert len(capabilities_for_carrier_class(mine)) == 1
