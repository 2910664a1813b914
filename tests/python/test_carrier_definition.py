"""Carrier definitions: records, registration, observation, storage through a provider, facets (X1-X12)."""

import dataclasses
import gc
import itertools
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref

import pytest
from defined_carrier import BOX, FLOAT, INT, box, defined, filled, snapshot, whole

import orlop
from orlop import CPU, Carrier, DependentCarrier, DType, FileBacked, Generic, move, no_grad
from orlop.carriers import extension
from orlop.carriers.extension import (
    CarrierDefinition,
    CarrierFacet,
    PreparedTransfer,
    StorageProvider,
    TransferProvider,
    TransferRoute,
    Unsupported,
    register_carrier_definition,
)
from orlop.carriers.move import (
    ElementwiseMoveOperation,
    dispatch_move,
    register_move_operation,
    unregister_move_operation,
)
from orlop.carriers.operation_capability import capabilities_for_carrier_class, register_operation_capabilities


def fresh(name="Fresh", base=Carrier):
    return type(name, (base,), {})


# --- Names and records (X1, X4, X6, X10)


def test_names_are_the_same_objects_everywhere():
    shared = {
        "CarrierDefinition", "CarrierFacet", "CompositeProvider", "KernelExecutionInterface", "KernelPack",
        "KernelPattern", "KernelProvider", "StorageProvider", "TransferRoute", "Unsupported",
        "register_carrier_definition", "register_kernel_pack",
    }
    module_only = {
        "PreparedComposite", "PreparedKernel", "PreparedTransfer", "ProviderCompletion", "ProviderResult",
        "TransferProvider", "TransferRequest",
    }
    assert set(extension.__all__) == shared | module_only
    for name in shared:
        assert getattr(orlop, name) is getattr(extension, name) and name in orlop.__all__
    assert not module_only & set(orlop.__all__)


@pytest.mark.parametrize(
    "record",
    [BOX, CarrierDefinition(BOX), Unsupported("no"), PreparedTransfer(print), TransferProvider(print),
     TransferRoute(CPU, Generic, "route", TransferProvider(print))],
    ids=lambda record: type(record).__name__,
)
def test_records_are_frozen_dataclasses(record):
    copy = dataclasses.replace(record)
    assert copy == record and hash(copy) == hash(record)
    field = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, field, None)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(StorageProvider)][:-1])
def test_callbacks_of_storage_must_be_callable(field):
    with pytest.raises(TypeError, match=f"{field} must be callable"):
        box(**{field: 3})


def test_the_fallback_flag_is_exactly_a_bool():
    with pytest.raises(TypeError, match="elementwise_fallback"):
        box(elementwise_fallback=1)


def route(source=CPU, destination=Generic, name="route", provider=TransferProvider(print)):
    return TransferRoute(source, destination, name, provider)


class Lid(CarrierFacet):
    pass


class Label(CarrierFacet):
    pass


def test_the_definition_checks_its_fields_in_order():
    pair = (route(), route(name="other"))
    everything = {"storage": None, "kernels": 3, "transfers": pair, "composite": 3, "facets": (Lid(), Lid())}
    for field, good, error, words in [
        ("storage", BOX, TypeError, "storage"),
        ("kernels", None, TypeError, "kernels"),
        ("composite", None, TypeError, "composite"),
        ("transfers", (), ValueError, "duplicate exact transfer routes"),
        ("facets", (), ValueError, "duplicate exact facet types"),
    ]:
        with pytest.raises(error, match=words):
            CarrierDefinition(**everything)
        everything[field] = good
    CarrierDefinition(**everything)
    for bad in ({"transfers": [1]}, {"facets": [1]}, {"transfers": 3}, {"facets": 3}):
        with pytest.raises(TypeError):
            CarrierDefinition(BOX, **bad)
    with pytest.raises(TypeError, match="must be a finite iterable"):
        CarrierDefinition(BOX, transfers=3)


def test_iterables_are_walked_once_and_kept_as_tuples():
    routes = iter([route(), route(destination=FileBacked)])
    definition = CarrierDefinition(BOX, transfers=routes, facets=iter([Lid(), Label()]))
    assert [type(facet) for facet in definition.facets] == [Lid, Label] and len(definition.transfers) == 2


def test_routes_check_their_fields():
    for bad, words in [
        ({"source": 3}, "source_class"),
        ({"destination": "CPU"}, "destination_class"),
        ({"name": 3}, "route_id"),
        ({"provider": print}, "provider"),
    ]:
        with pytest.raises(TypeError, match=words):
            route(**bad)
    with pytest.raises(ValueError, match="route_id"):
        route(name="")
    with pytest.raises(TypeError):
        Unsupported(3)
    with pytest.raises(ValueError):
        Unsupported("")


# --- Registration and observation (X7, X8)


def test_dispatch_implement_a_sibling_carrier():
    """The specification's scenario; kernels take part in test_kernel_pack.py."""
    sibling = defined("Sibling", transfers=lambda made: [route(made, CPU, "to_cpu", TransferProvider(to_cpu))],
                      facets=(Lid(),))
    tensor = whole(filled(sibling, [1.0, 2.0]))
    assert type(tensor.carrier.facet(Lid)) is Lid
    assert capabilities_for_carrier_class(sibling) == ()
    with pytest.raises(NotImplementedError):
        tensor.carrier.dispatch_op("add")
    with pytest.raises(NotImplementedError, match="gradients are recorded and could not come back"):
        move(tensor, CPU(2))
    with no_grad():
        moved = move(tensor, CPU(2))
    assert [moved[0], moved[1]] == [1.0, 2.0] and tensor.carrier.is_released()


def to_cpu(request):
    def submit():
        for slot in range(request.physical_span):
            request.destination[slot] = request.tensor.carrier.box[request.tensor.offset + slot]

    return PreparedTransfer(submit)


@pytest.mark.parametrize("bad", [Carrier, DependentCarrier, int, 3, None])
def test_only_a_proper_carrier_subclass_is_defined(bad):
    with pytest.raises(TypeError, match="proper Carrier subclass"):
        register_carrier_definition(bad, CarrierDefinition(BOX))


def test_only_a_definition_defines():
    with pytest.raises(TypeError, match="CarrierDefinition"):
        register_carrier_definition(fresh(), BOX)


@pytest.mark.parametrize("shipped", [Generic, CPU, orlop.Metal, FileBacked, orlop.BlockDeviceCarrier, orlop.Evictable])
def test_shipped_carriers_stay_free_of_definitions(shipped):
    with pytest.raises(TypeError, match="definition-free shipped carrier"):
        register_carrier_definition(shipped, CarrierDefinition(BOX))


def test_routes_start_at_the_class_itself():
    with pytest.raises(TypeError, match="exact source_class"):
        register_carrier_definition(fresh(), CarrierDefinition(BOX, transfers=[route(CPU)]))


def test_a_dependent_class_needs_a_composite():
    with pytest.raises(TypeError, match="requires composite"):
        register_carrier_definition(fresh(base=DependentCarrier), CarrierDefinition(BOX))


def test_a_class_is_defined_once():
    made = defined()
    with pytest.raises(TypeError, match="already has a CarrierDefinition"):
        register_carrier_definition(made, CarrierDefinition(box()))
    made(1, dtype=FLOAT)
    with pytest.raises(TypeError, match="already has a CarrierDefinition"):
        register_carrier_definition(made, CarrierDefinition(box()))
    assert extension._has_carrier_definition(made) and extension._peek_carrier_definition(made).storage is BOX
    assert not extension._has_carrier_definition(CPU) and extension._peek_carrier_definition(CPU) is None


def test_manual_capabilities_and_a_definition_exclude_each_other():
    by_hand = fresh()
    register_operation_capabilities(by_hand, [])
    with pytest.raises(TypeError, match="by hand"):
        register_carrier_definition(by_hand, CarrierDefinition(BOX))
    with pytest.raises(TypeError, match="CarrierDefinition"):
        register_operation_capabilities(defined(), [])


class Legacy(Carrier):
    """The required hooks, over nothing."""

    def size(self):
        return 1

    def dtype(self):
        return FLOAT

    def get_value(self, index):
        return 0.0

    def new_like(self, values, *, mutable=True, dtype=None):
        return type(self)()

    def allocate_like(self, size, *, mutable=True, dtype=None):
        return type(self)()

    def scatter(self, to_scatter, scatter_onto, mapping, mapping_offset=0):
        raise NotImplementedError


@pytest.mark.parametrize(
    "observe",
    [
        lambda made: made(),
        lambda made: capabilities_for_carrier_class(made),
        lambda made: dispatch_move(made, CPU),
        lambda made: dispatch_move(CPU, made),
    ],
    ids=["construct", "query", "route from", "route to"],
)
def test_a_used_class_gets_no_definition_any_more(observe):
    made = fresh(base=Legacy)
    observe(made)
    with pytest.raises(TypeError, match="already observed"):
        register_carrier_definition(made, CarrierDefinition(BOX))
    assert not extension._has_carrier_definition(made)


def test_constructing_does_not_seal_capabilities_declared_by_hand():
    made = fresh(base=Legacy)
    made()
    register_operation_capabilities(made, [])
    queried = fresh(base=Legacy)
    capabilities_for_carrier_class(queried)
    with pytest.raises(TypeError, match="already observed"):
        register_operation_capabilities(queried, [])


def test_a_failed_construction_leaves_the_class_open():
    made = fresh()
    with pytest.raises(TypeError, match="required hooks"):
        made()
    with pytest.raises(TypeError, match="definition-free Carrier construction"):
        made(3, dtype=FLOAT)
    register_carrier_definition(made, CarrierDefinition(BOX))
    assert made(3, dtype=FLOAT).size() == 3


def test_of_racing_definitions_and_declarations_one_wins():
    for _ in range(50):
        made, outcomes, start = fresh(), [], threading.Barrier(4)

        def attempt(register, made=made, outcomes=outcomes, start=start):
            start.wait()
            try:
                register(made)
                outcomes.append("won")
            except TypeError:
                outcomes.append("lost")

        def define(made):
            register_carrier_definition(made, CarrierDefinition(BOX))

        def declare(made):
            register_operation_capabilities(made, [])

        threads = [threading.Thread(target=attempt, args=[call]) for call in (define, declare, define, declare)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["lost", "lost", "lost", "won"]


def test_the_move_registry_refuses_defined_classes():
    made = defined()
    for call in (
        lambda: register_move_operation(made, CPU, ElementwiseMoveOperation),
        lambda: register_move_operation(CPU, made, ElementwiseMoveOperation),
        lambda: unregister_move_operation(CPU, made),
        lambda: dispatch_move(made, made),
    ):
        with pytest.raises(RuntimeError, match="TransferRoute"):
            call()
    with pytest.raises(TypeError, match="operation_class"):
        register_move_operation(made, CPU, 3)


def test_a_subclass_of_a_defined_class_has_no_definition():
    sub = type("Sub", (defined(),), {})
    with pytest.raises(TypeError, match="definition-free Carrier construction"):
        sub(3, dtype=FLOAT)
    with pytest.raises(TypeError, match="required hooks"):
        sub()
    register_carrier_definition(sub, CarrierDefinition(BOX))
    assert type(sub(2, dtype=FLOAT).allocate_like(1)) is sub


# --- Construction (X9)


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "words"),
    [
        ((), {"dtype": FLOAT}, TypeError, "slots must be given"),
        ((None,), {"dtype": FLOAT}, TypeError, "slots must be given"),
        ((3,), {}, TypeError, "dtype must be given"),
        ((3.0,), {"dtype": 3}, TypeError, "slots must be an int"),
        ((True,), {"dtype": FLOAT}, TypeError, "slots must be an int"),
        ((-1,), {"dtype": 3}, ValueError, "negative"),
        ((2**70,), {"dtype": FLOAT}, OverflowError, "64 bits"),
        ((3,), {"dtype": "Float32", "mutable": 1}, TypeError, "dtype"),
        ((3,), {"dtype": DType.Int8, "mutable": 1}, TypeError, "mutable must be a bool"),
        ((3,), {"dtype": DType.Int8}, ValueError, "does not support storage dtype Int8"),
        ((3, 4), {"dtype": FLOAT}, TypeError, "positional"),
        ((3,), {"dtype": FLOAT, "size": 3}, TypeError, "unexpected keyword"),
    ],
)
def test_construction_checks_in_order(arguments, keywords, error, words):
    log = []
    made = defined(storage=box(allocate=lambda carrier, slots: log.append(slots)))
    with pytest.raises(error, match=words):
        made(*arguments, **keywords)
    assert log == []


def test_an_unsupported_dtype_is_both_kinds_of_error():
    allocated = []
    made = defined(storage=box(supports_dtype=lambda carrier, dtype: dtype is INT,
                               allocate=lambda carrier, slots: allocated.append(slots)))
    for handled in (ValueError, TypeError, orlop.UnsupportedStorageDTypeError):
        with pytest.raises(handled, match="does not support storage dtype Float32"):
            made(3, dtype=FLOAT)
    assert allocated == []


def test_factories_refuse_an_unsupported_dtype_alike():
    allocated = []

    def note(carrier, slots):
        allocated.append(slots)
        carrier.box = [0] * slots

    made = defined(storage=box(supports_dtype=lambda carrier, dtype: dtype is INT, allocate=note))
    carrier = made(2, dtype=INT)
    for call in (lambda: carrier.allocate_like(3, dtype=FLOAT), lambda: carrier.new_like([1.0], dtype=FLOAT)):
        with pytest.raises(ValueError, match="does not support storage dtype Float32"):
            call()
    assert allocated == [2]


def test_the_provider_sees_a_live_mutable_carrier_with_its_own_attributes():
    seen = []

    class Shelf(Carrier):
        def __init__(self, slots, *, dtype=None, mutable=True):
            self.label = "mine"
            super().__init__(slots, dtype=dtype, mutable=mutable)

    def note(carrier, slots):
        seen.append((carrier.label, carrier.is_mutable(), carrier.is_released(), carrier.dtype(), slots))
        carrier.box = [0.0] * slots

    register_carrier_definition(Shelf, CarrierDefinition(box(allocate=note)))
    carrier = Shelf(2, dtype=FLOAT, mutable=False)
    assert seen == [("mine", True, False, FLOAT, 2)] and not carrier.is_mutable()
    assert carrier.new_like([1.0]).label == "mine"


def test_another_size_than_requested_is_given_up():
    log = []
    made = defined(storage=box(physical_size=lambda carrier: 7, release=log.append))
    with pytest.raises(ValueError, match="requested physical size 3"):
        made(3, dtype=FLOAT)
    assert [type(carrier) for carrier in log] == [made] and log[0].is_released()


class Trouble(Exception):
    pass


def fail(*_):
    raise Trouble


def test_a_carrier_whose_construction_failed_is_released():
    kept = []

    def note(carrier, slots):
        kept.append(carrier)
        raise Trouble

    with pytest.raises(Trouble):
        defined(storage=box(allocate=note))(3, dtype=FLOAT)
    assert kept[0].is_released() and kept[0].size() == 0
    with pytest.raises(RuntimeError, match="released"):
        kept[0][0]


def test_construction_runs_once():
    carrier = defined()(3, dtype=FLOAT)
    with pytest.raises(TypeError), warnings.catch_warnings(action="ignore"):
        carrier.__init__(3, dtype=FLOAT)
    assert carrier.size() == 3


# --- Storage through the provider (X10, X11)


def test_slots_are_read_and_written_through_the_provider():
    carrier = filled(defined(), [1.5, 2.5])
    carrier[0] = 0.1
    carrier.set_value(1, 7)
    assert carrier.box == [0.10000000149011612, 7.0] and carrier.version == 2
    assert [carrier[0], carrier.get_value(1)] == [0.10000000149011612, 7.0]
    for index in (2, -1, 2**70):
        with pytest.raises(IndexError):
            carrier[index]
        with pytest.raises(IndexError):
            carrier.set_value(index, 1.0)
    assert carrier.version == 2


@pytest.mark.parametrize(
    ("callback", "answer", "use", "error"),
    [
        ("supports_dtype", 1, lambda carrier: carrier.supports_storage_dtype(INT), TypeError),
        ("physical_size", True, lambda carrier: carrier.size(), TypeError),
        ("physical_size", 2.0, lambda carrier: carrier.size(), TypeError),
        ("physical_size", -1, lambda carrier: carrier.size(), ValueError),
        ("physical_size", 2**70, lambda carrier: carrier.size(), OverflowError),
        ("release", 0, lambda carrier: carrier.release(), TypeError),
        ("read", "1", lambda carrier: carrier[0], TypeError),
        ("write", 0, lambda carrier: carrier.set_value(0, 1.0), TypeError),
    ],
)
def test_wrong_answers_of_callbacks(callback, answer, use, error):
    wrong = False

    def called(*arguments):
        return answer if wrong else getattr(BOX, callback)(*arguments)

    carrier = filled(defined(storage=box(**{callback: called})), [1.0])
    before = snapshot(carrier)
    wrong = True
    with pytest.raises(error):
        use(carrier)
    wrong = False
    assert snapshot(carrier) == before


def test_allocate_must_return_none():
    with pytest.raises(TypeError, match="allocate must return None"):
        defined(storage=box(allocate=lambda carrier, slots: 0))(1, dtype=FLOAT)


@pytest.mark.parametrize(
    ("callback", "use"),
    [
        ("supports_dtype", lambda carrier: carrier.supports_storage_dtype(INT)),
        ("physical_size", lambda carrier: carrier.size()),
        ("release", lambda carrier: carrier.release()),
        ("read", lambda carrier: carrier[0]),
        ("write", lambda carrier: carrier.__setitem__(0, 1.0)),
    ],
)
def test_exceptions_of_callbacks_propagate_and_change_nothing(callback, use):
    broken = False

    def called(*arguments):
        if broken:
            raise Trouble
        return getattr(BOX, callback)(*arguments)

    carrier = filled(defined(storage=box(**{callback: called})), [1.0])
    before = snapshot(carrier)
    broken = True
    with pytest.raises(Trouble):
        use(carrier)
    broken = False
    assert snapshot(carrier) == before


def test_release_runs_once_and_size_is_zero_afterwards():
    log = []
    carrier = filled(defined(storage=box(release=lambda carrier: log.append(1))), [1.0, 2.0])
    carrier.release()
    carrier.release()
    assert log == [1] and carrier.size() == 0 and carrier.dtype() is FLOAT
    assert carrier.supports_storage_dtype(INT) and carrier.new_like([3.0]).box == [3.0]


def test_factories_make_the_same_class_and_leave_the_version():
    carrier = filled(defined(), [1.0])
    made = carrier.new_like([1, 2], mutable=False, dtype=INT)
    assert type(made) is type(carrier) and made.box == [1, 2]
    assert made.version == 0 and not made.is_mutable() and made.dtype() is INT
    zeros = carrier.allocate_like(3)
    assert zeros.box == [0.0] * 3 and zeros.version == 0 and zeros.dtype() is FLOAT
    with pytest.raises(ValueError):
        carrier.allocate_like(-1)
    with pytest.raises(TypeError):
        carrier.new_like(["1"])


def test_fresh_storage_is_zero_whatever_the_provider_allocates():
    made = defined(storage=box(allocate=lambda carrier, slots: setattr(carrier, "box", [9.0] * slots)))
    assert made(1, dtype=FLOAT).allocate_like(2).box == [0.0, 0.0]
    assert made(1, dtype=FLOAT).allocate_like(2, empty=True).box == [9.0, 9.0]


def test_a_failing_write_gives_the_fresh_storage_up():
    released = []
    carrier = filled(defined(storage=box(write=fail, release=released.append)), [1.0])
    for call in (lambda: carrier.new_like([1.0]), lambda: carrier.allocate_like(2)):
        with pytest.raises(Trouble):
            call()
    assert len(released) == 2 and carrier not in released


def test_a_subclass_with_another_constructor_overrides_the_factories():
    class Named(Carrier):
        def __init__(self, name, slots, dtype):
            self.name = name
            super().__init__(slots, dtype=dtype)

        def new_like(self, values, *, mutable=True, dtype=None):
            result = Named(self.name, 0, dtype or self.dtype())
            result.box = list(values)
            return result

        def allocate_like(self, size, *, mutable=True, dtype=None):
            return Named(self.name, size, dtype or self.dtype())

    register_carrier_definition(Named, CarrierDefinition(BOX))
    carrier = Named("a", 2, FLOAT)
    assert carrier.new_like([1.0]).name == carrier.allocate_like(1).name == "a"
    moved = move(whole(filled(defined(), [1.0, 2.0])), carrier.allocate_like(2))
    assert moved.carrier.name == "a"


def test_an_override_may_call_the_base():
    class Counted(Carrier):
        made = 0

        def new_like(self, values, *, mutable=True, dtype=None):
            Counted.made += 1
            return super().new_like(values, mutable=mutable, dtype=dtype)

        def allocate_like(self, size, *, mutable=True, dtype=None, empty=False):
            Counted.made += 1
            return super().allocate_like(size, mutable=mutable, dtype=dtype, empty=empty)

        def scatter(self, *arguments):
            Counted.made += 1
            super().scatter(*arguments)

        def dlpack_info(self):
            return super().dlpack_info()

    register_carrier_definition(Counted, CarrierDefinition(BOX))
    carrier = Counted(2, dtype=FLOAT)
    assert carrier.new_like([1.0, 2.0]).box == [1.0, 2.0] and carrier.allocate_like(1).box == [0.0]
    carrier.scatter(whole(Generic([5.0, 6.0], dtype=FLOAT)), whole(carrier), whole(carrier).layout)
    assert carrier.box == [5.0, 6.0] and carrier.version == 1 and Counted.made == 3
    with pytest.raises(BufferError):
        carrier.dlpack_info()


def test_a_constructor_that_makes_another_class_is_refused():
    class Strange(Carrier):
        def __new__(cls, slots, *, dtype=None, mutable=True):
            return super().__new__(cls) if slots == 2 else CPU(slots)

    register_carrier_definition(Strange, CarrierDefinition(BOX))
    with pytest.raises(TypeError, match="same exact class"):
        Strange(2, dtype=FLOAT).allocate_like(3)


# --- Facets (X12)


def test_facets_are_found_by_their_exact_class():
    class SubLid(Lid):
        pass

    lid, label = Lid(), Label()
    carrier = defined(facets=(lid, label))(1, dtype=FLOAT)
    assert carrier.facet(Lid) is lid and carrier.require_facet(Label) is label
    assert carrier.facet(SubLid) is None and carrier.facet(CarrierFacet) is None and CPU(1).facet(Lid) is None
    with pytest.raises(NotImplementedError, match="SubLid"):
        carrier.require_facet(SubLid)
    for wrong in (int, 3, None, lid):
        with pytest.raises(TypeError, match="CarrierFacet subclass"):
            carrier.facet(wrong)
        with pytest.raises(TypeError, match="CarrierFacet subclass"):
            CPU(1).require_facet(wrong)


def test_the_tiled_carrier_is_the_one_shipped_class_with_a_definition():
    carrier = orlop.TiledEvictable(CPU(24), CPU(0), (2, 3), (2, 2))
    assert extension._has_carrier_definition(orlop.TiledEvictable)
    assert type(carrier.facet(orlop.TiledResidencyFacet)) is orlop.TiledResidencyFacet
    carrier.require_facet(orlop.TiledResidencyFacet).evict(carrier, orlop.TileSet([(0, 0)]))
    assert carrier.tile_state((0, 0)).location == "secondary"
    with pytest.raises(TypeError):
        register_carrier_definition(orlop.TiledEvictable, CarrierDefinition(BOX))
    for leaving in (lambda: move(whole(carrier), CPU(24)), lambda: move(whole(CPU(24)), carrier)):
        with pytest.raises(NotImplementedError, match="TiledEvictable"):
            leaving()


def test_facets_are_no_hooks():
    class Loud(CarrierFacet):
        def supports_dtype(self, *_):
            raise AssertionError

    carrier = defined(facets=(Loud(),))(1, dtype=FLOAT)
    assert carrier.operation_capabilities() == () and carrier.supports_storage_dtype(INT)


# --- Lifetimes


def test_cycles_through_records_are_collected():
    class Owner:
        pass

    owner = Owner()
    owner.definition = CarrierDefinition(box(release=lambda carrier: owner), transfers=[
        route(provider=TransferProvider(lambda request: owner))])
    seen = weakref.ref(owner)
    del owner
    gc.collect()
    assert seen() is None


def test_cycles_through_instances_are_collected():
    made = defined()
    carrier = made(1, dtype=FLOAT)
    carrier.me, seen = carrier, weakref.ref(carrier)
    del carrier
    gc.collect()
    assert seen() is None


def test_a_refused_registration_lets_its_objects_go():
    class Tag(CarrierFacet):
        pass

    tag = Tag()
    with pytest.raises(TypeError):
        register_carrier_definition(CPU, CarrierDefinition(BOX, facets=(tag,)))
    seen = weakref.ref(tag)
    del tag
    gc.collect()
    assert seen() is None


def test_nothing_is_left_at_interpreter_exit():
    program = """
        import orlop
        from orlop import CPU, Carrier, DType
        from orlop.carriers.extension import *
        class Boxed(Carrier):
            pass
        class Lid(CarrierFacet):
            pass
        storage = StorageProvider(
            lambda c, d: True, lambda c: len(c.box), lambda c, n: setattr(c, "box", [0.0] * n),
            lambda c: None, lambda c, i: c.box[i], lambda c, i, v: c.box.__setitem__(i, v))
        routes = [TransferRoute(Boxed, CPU, "out", TransferProvider(lambda request: Unsupported("no")))]
        register_carrier_definition(Boxed, CarrierDefinition(storage, transfers=routes, facets=(Lid(),)))
        kept = Boxed(3, dtype=DType.Float32)
        kept.me, Boxed.kept = kept, kept
        print(kept[0], kept.facet(Lid) is not None)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0.0 True\n", "")


def test_ten_thousand_carriers_leave_nothing():
    made = defined()
    gc.collect()
    before = len(gc.get_objects())
    for _ in itertools.repeat(None, 10_000):
        made(1, dtype=FLOAT).release()
    gc.collect()
    assert len(gc.get_objects()) - before < 100
