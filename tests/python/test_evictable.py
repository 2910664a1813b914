"""Evictable from Python: construction, access, transitions, operations, gradients, factories, threads, collection."""

import errno
import gc
import threading
import weakref

import orlop
import pytest
from hypothesis import given
from hypothesis import strategies as st
from list_carrier import ListCarrier
from orlop import (
    CPU,
    Carrier,
    DType,
    Evictable,
    FileBacked,
    Generic,
    Layout,
    Profiler,
    Shape,
    Stride,
    Tensor,
    UnsupportedOperationPlan,
)
from orlop._testing import Gate, IoScript, file_backed_io
from orlop.carriers.move import (
    CpuToFileBackedMoveOperation,
    ElementwiseMoveOperation,
    MoveOperation,
    dispatch_move,
    register_move_operation,
    registered_move_operation,
    unregister_move_operation,
)
from orlop.carriers.operation_policy import resolve_operation_plan
from orlop.operation import EvictableOperation, Operation

FLOAT, INT, BOOL = DType.Float32, DType.Int32, DType.Bool


def cpu(values, **options):
    return CPU(0).new_like(values, **options)


def empty_file(dtype=FLOAT):
    return FileBacked(dtype=dtype)


def hierarchy(values, **options):
    return Evictable(cpu(values, **options), empty_file(options.get("dtype", FLOAT)))


def flat(carrier):
    return Tensor(carrier, 0, Layout(Shape(carrier.size()), Stride(1)))


def values(carrier):
    return [carrier[i] for i in range(carrier.size())]


# Each builds a promoted hierarchy over [0.5, -1.25, 8.0].
VALUES = [0.5, -1.25, 8.0]
HIERARCHIES = {
    "CPU-FileBacked": lambda: hierarchy(VALUES),
    "CPU-CPU": lambda: Evictable(cpu(VALUES), CPU(0)),
    "CPU-CPU of the same size": lambda: Evictable(cpu(VALUES), CPU(3)),
    "Generic-FileBacked": lambda: Evictable(Generic(VALUES, dtype=FLOAT), empty_file()),
    "FileBacked-CPU": lambda: Evictable(empty_file().new_like(VALUES), CPU(0)),
    "FileBacked-FileBacked": lambda: Evictable(empty_file().new_like(VALUES), empty_file()),
    "Python-FileBacked": lambda: Evictable(ListCarrier(VALUES), empty_file()),
    "CPU-Python": lambda: Evictable(cpu(VALUES), ListCarrier()),
    "Python-Python": lambda: Evictable(ListCarrier(VALUES), ListCarrier([0.0] * 5)),
    "Evictable-FileBacked": lambda: Evictable(hierarchy(VALUES), empty_file()),
    "CPU-Evictable": lambda: Evictable(cpu(VALUES), hierarchy([0.0])),
}
COMPUTING = [name for name in HIERARCHIES if not name.startswith("FileBacked")]


@pytest.fixture(params=HIERARCHIES.values(), ids=HIERARCHIES.keys())
def any_hierarchy(request):
    return request.param()


@pytest.fixture(params=[HIERARCHIES[name] for name in COMPUTING], ids=COMPUTING)
def computing(request):
    """Makes hierarchies whose primary computes."""
    return request.param


# --- Construction (S301, S302) -----------------------------------------------------------------------------------


def owned(carrier):
    carrier._claim_ownership()
    return carrier


def released(carrier):
    carrier.release()
    return carrier


# In the order of S301: each violates its own condition and, as far as they can be combined, later ones.
REFUSED = {
    "primary no Carrier": (lambda: (3, 4), TypeError, "primary must be a Carrier: got int"),
    "secondary no Carrier": (lambda: (released(CPU(0)), None), TypeError, "secondary must be a Carrier: got NoneType"),
    "same object": (lambda: (released(CPU(0)),) * 2, ValueError, "distinct"),
    "primary released": (lambda: (released(CPU(0)), released(CPU(0))), RuntimeError, "primary is released"),
    "secondary released": (
        lambda: (owned(CPU(0)), released(CPU(0, dtype=INT))),
        RuntimeError,
        "secondary is released",
    ),
    "primary owned": (lambda: (owned(CPU(0)), owned(CPU(0, dtype=INT))), RuntimeError, "primary is already owned"),
    "secondary owned": (lambda: (CPU(0), owned(CPU(0, dtype=INT))), RuntimeError, "secondary is already owned"),
    "dtypes differ": (lambda: (CPU(0), CPU(0, dtype=INT, mutable=False)), TypeError, "dtypes"),
    "secondary immutable": (lambda: (CPU(0), CPU(0, mutable=False)), RuntimeError, "mutable"),
    "primary empty": (lambda: (CPU(0), CPU(0)), ValueError, "at least one"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_construction_checks_in_order(name):
    make, error, words = REFUSED[name]
    tiers = make()
    ownership = [tier.is_owned() for tier in tiers if isinstance(tier, Carrier)]
    with pytest.raises(error, match=words):
        Evictable(*tiers)
    assert ownership == [tier.is_owned() for tier in tiers if isinstance(tier, Carrier)]


def test_construction_takes_two_arguments_by_position_or_name():
    assert Evictable(primary=CPU(1), secondary=empty_file()).size() == 1
    for arguments in ((), (CPU(1),), (CPU(1), empty_file(), 3)):
        with pytest.raises(TypeError, match="argument"):
            Evictable(*arguments)
    with pytest.raises(TypeError, match="unexpected keyword"):
        Evictable(CPU(1), empty_file(), mutable=True)


def test_the_class_is_closed():
    with pytest.raises(TypeError, match="closed carrier implementation"):
        type("Derived", (Evictable,), {})

    class Mixin:
        pass

    with pytest.raises(TypeError):
        type("Derived", (Mixin, Evictable), {})


class ForgetfulSecondary(ListCarrier):
    """Its dtype support cannot be asked for."""

    def _supports_storage_dtype(self, dtype):
        raise ZeroDivisionError("no idea")


def test_a_failing_snapshot_leaves_both_tiers_unowned():
    primary, secondary = CPU(2), ForgetfulSecondary()
    with pytest.raises(ZeroDivisionError):
        Evictable(primary, secondary)
    assert not primary.is_owned() and not secondary.is_owned()
    assert Evictable(primary, empty_file()).size() == 2


def test_a_carrier_whose_initialiser_did_not_run_is_refused():
    raw = ListCarrier.__new__(ListCarrier)
    with pytest.raises(TypeError, match="not initialised"):
        Evictable(raw, empty_file())
    with pytest.raises(TypeError, match="not initialised"):
        Evictable(CPU(1), raw)


# --- State and element access (S303, S304) -------------------------------------------------------------------------


def test_the_facts_of_a_hierarchy_hold_in_every_state(any_hierarchy):
    e = any_hierarchy
    facts = (e.dtype(), e.is_mutable(), e.supports_storage_dtype(FLOAT), e.operation_capabilities())
    assert e.size() == 3 and not e.is_evicted()
    e.evict()
    assert e.size() == 3 and e.is_evicted()
    assert facts == (e.dtype(), e.is_mutable(), e.supports_storage_dtype(FLOAT), e.operation_capabilities())
    e.promote()
    e.release()
    assert e.size() == 0 and not e.is_evicted()
    assert facts == (e.dtype(), e.is_mutable(), e.supports_storage_dtype(FLOAT), e.operation_capabilities())


def test_support_is_the_intersection_of_the_tiers():
    e = hierarchy([1.0])
    for dtype in (FLOAT, INT):
        assert e.supports_storage_dtype(dtype) is True
    for dtype in (BOOL, DType.Floating, DType.Any, DType.Integer, DType.Float64):
        assert e.supports_storage_dtype(dtype) is False
    assert Evictable(CPU(1), CPU(0)).supports_storage_dtype(BOOL) is True
    with pytest.raises(TypeError):
        e.supports_storage_dtype("Float32")


def test_capabilities_are_the_primarys_plans_that_both_tiers_store():
    over_file, over_cpu = hierarchy([1.0]), Evictable(CPU(1), CPU(0))
    comparison, product = resolve_operation_plan("eq", FLOAT, FLOAT), resolve_operation_plan("mul", FLOAT, FLOAT)
    assert over_cpu.supports_operation_plan(comparison) and over_cpu.supports_operation_plan(product)
    assert not over_file.supports_operation_plan(comparison)  # a file stores no Bool
    assert over_file.supports_operation_plan(product)
    with pytest.raises(UnsupportedOperationPlan):
        orlop.eq(flat(over_file), flat(over_file))
    assert orlop.eq(flat(over_cpu), flat(over_cpu)).dtype() is BOOL


def test_writes_advance_the_wrapper_by_exactly_one(any_hierarchy):
    e = any_hierarchy
    e[0] = 2.0
    assert (e[0], e.version) == (2.0, 1)
    e.set_value(1, 3.0)
    assert (values(e), e.version) == ([2.0, 3.0, 8.0], 2)
    tensor = flat(e)
    tensor[2] = 4.0
    assert (values(e), e.version, tensor.version) == ([2.0, 3.0, 4.0], 3, 3)


@pytest.mark.parametrize("name", ["CPU-FileBacked", "FileBacked-CPU", "Python-FileBacked", "Evictable-FileBacked"])
def test_a_failed_write_changes_nothing(name):
    e = HIERARCHIES[name]()
    for index, value, error in ((3, 1.0, IndexError), (-1, 1.0, IndexError), (2**70, 1.0, IndexError), ("0", 1.0, TypeError)):
        with pytest.raises(error):
            e[index] = value
        with pytest.raises(error):
            e[index]
    with pytest.raises(TypeError):
        e[0] = "one"
    assert (values(e), e.version) == (VALUES, 0)


def test_an_integer_hierarchy_normalises():
    e = hierarchy([1, 2], dtype=INT)
    for value, error in ((1.5, TypeError), (True, TypeError), (2**31, OverflowError)):
        with pytest.raises(error):
            e[0] = value
    assert (values(e), e.version) == ([1, 2], 0)


def test_access_in_the_evicted_state(any_hierarchy):
    e = any_hierarchy
    e.evict()
    view = Layout(Shape(3), Stride(1))
    for call in (
        lambda: e[0],
        lambda: e.get_value(0),
        lambda: e.__setitem__(0, 1.0),
        lambda: e.set_value(0, "not even a number"),
        lambda: e.dispatch_op("relu"),
        lambda: orlop.relu(flat(e)),
        lambda: e.scatter(3, 4, 5),
        lambda: e.scatter(flat(CPU(3)), Tensor(e, 0, view), view),
    ):
        with pytest.raises(RuntimeError, match="evicted.*promote"):
            call()
    with pytest.raises(IndexError):
        e[3]
    with pytest.raises(TypeError):
        e["0"]
    assert e.version == 0


def test_mutability_is_tested_before_residency():
    e = hierarchy(VALUES, mutable=False)
    e.evict()
    with pytest.raises(RuntimeError, match="not mutable"):
        e[0] = 1.0
    with pytest.raises(RuntimeError, match="not mutable"):
        e.scatter(3, 4, 5)


def test_access_after_release(any_hierarchy):
    e = any_hierarchy
    tensor = flat(e)
    e.release()
    for call in (
        lambda: e[0],
        lambda: e.__setitem__(0, 1.0),
        lambda: e.dispatch_op("relu"),
        lambda: orlop.relu(tensor),
        lambda: e.scatter(3, 4, 5),
        e.evict,
        e.promote,
    ):
        with pytest.raises(RuntimeError, match="released"):
            call()


def test_no_export(any_hierarchy):
    for prepare in (lambda: None, any_hierarchy.evict, any_hierarchy.release):
        prepare()
        with pytest.raises(BufferError, match="Evictable"):
            any_hierarchy.dlpack_info()


# --- Scatter (S305) --------------------------------------------------------------------------------------------------


def test_scatter_goes_to_the_primary_and_counts_once():
    e, mapping = hierarchy([0.0] * 6), Layout(Shape(3), Stride(2))
    e.scatter(flat(cpu([1.0, 2.0, 3.0])), flat(e), mapping, 1)
    assert (values(e), e.version) == ([0.0, 1.0, 0.0, 2.0, 0.0, 3.0], 1)
    e.scatter(flat(e.new_like([7.0, 8.0, 9.0])), flat(e), mapping)
    assert (values(e), e.version) == ([7.0, 1.0, 8.0, 2.0, 9.0, 3.0], 2)


def test_scatter_from_the_hierarchy_onto_itself():
    e = hierarchy([1.0, 2.0, 3.0])
    e.scatter(flat(e), flat(e), Layout(Shape(3), Stride(0)))
    assert (values(e), e.version) == ([3.0, 2.0, 3.0], 1)


def test_scatter_checks_in_order():
    e, source, mapping = hierarchy(VALUES), flat(cpu(VALUES)), Layout(Shape(3), Stride(1))
    with pytest.raises(TypeError, match="to_scatter"):
        e.scatter(3, 4, 5)
    with pytest.raises(TypeError, match="scatter_onto"):
        e.scatter(source, 4, 5)
    with pytest.raises(TypeError, match="mapping"):
        e.scatter(source, source, 5)
    with pytest.raises(ValueError, match="receiving carrier"):
        e.scatter(source, source, Layout(Shape(2), Stride(1)))
    with pytest.raises(ValueError, match="receiving carrier"):
        e.scatter(source, flat(e.primary), mapping)
    with pytest.raises(ValueError, match="shape"):
        e.scatter(source, flat(e), Layout(Shape(2), Stride(1)))
    with pytest.raises(ValueError, match="negative"):
        e.scatter(source, flat(e), mapping, -1)
    with pytest.raises(IndexError):
        e.scatter(source, flat(e), mapping, 1)
    with pytest.raises(ValueError, match="receiving carrier"):
        e.scatter(source, source, mapping, 1.0)
    other = hierarchy(VALUES)
    view = flat(other)
    other.evict()
    with pytest.raises(RuntimeError, match="evicted"):
        other.scatter(3, 4, 5, 1.0)
    with pytest.raises(RuntimeError, match="evicted"):
        e.scatter(view, flat(e), mapping)
    assert (values(e), e.version) == (VALUES, 0)


def test_scatter_over_a_primary_that_cannot():
    e = Evictable(empty_file().new_like(VALUES), CPU(0))
    with pytest.raises(NotImplementedError):
        e.scatter(flat(cpu(VALUES)), flat(e), Layout(Shape(3), Stride(1)))
    assert (values(e), e.version) == (VALUES, 0)


# --- Transitions (S306-S308) -----------------------------------------------------------------------------------------


def test_a_round_trip_keeps_values_version_and_mutability(any_hierarchy):
    e = any_hierarchy
    primary, secondary = e.primary, e.secondary
    assert e.evict() is None
    assert e.is_evicted() and e.primary is primary and primary.is_released() and primary.is_owned()
    kept = e.secondary
    if kept is not secondary:
        assert secondary.is_released() and not secondary.is_owned()
    assert not kept.is_released() and kept.is_owned() and values(kept)[:3] == VALUES
    assert e.evict() is None and e.secondary is kept
    assert e.promote() is None
    assert not e.is_evicted() and e.secondary is kept and kept.is_released()
    assert e.primary is not primary and not primary.is_owned()
    assert type(e.primary) is type(primary) and type(kept) is type(secondary)
    assert e.promote() is None
    assert (values(e), e.version, e.is_mutable()) == (VALUES, 0, True)
    e[1] = 2.5
    e.evict()
    e.promote()
    assert (values(e), e.version) == ([0.5, 2.5, 8.0], 1)


def test_storage_preserve_version_across_eviction_and_promotion():
    e = hierarchy([1.0, 2.0])
    e[0] = 5.0
    tensor = flat(e)
    for transition in (e.evict, e.promote, e.evict, e.promote):
        transition()
        assert e.version == tensor.version == 1
    assert values(e) == [5.0, 2.0]


@pytest.mark.parametrize("dtype, numbers", [(FLOAT, [float("inf"), -0.0, 1e-45]), (INT, [-(2**31), 2**31 - 1, 0])])
def test_values_survive_bit_for_bit(dtype, numbers):
    e = hierarchy(numbers, dtype=dtype)
    e.evict()
    e.promote()
    assert [repr(value) for value in values(e)] == [repr(value) for value in values(cpu(numbers, dtype=dtype))]


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=50))
def test_any_values_survive_every_pair_of_tiers(numbers):
    for e in (hierarchy(numbers), Evictable(ListCarrier(numbers), empty_file()), Evictable(hierarchy(numbers), CPU(0))):
        e.evict()
        e.promote()
        assert values(e) == numbers


@pytest.mark.parametrize("slots", [3, 5])
def test_a_live_secondary_that_fits_is_used(slots):
    secondary = CPU(slots)
    e = Evictable(cpu(VALUES), secondary)
    e.evict()
    assert e.secondary is secondary and values(secondary) == [*VALUES, 0.0, 0.0][:slots]


def test_a_secondary_that_is_too_small_is_replaced():
    secondary = CPU(2)
    e = Evictable(cpu(VALUES), secondary)
    e.evict()
    assert e.secondary is not secondary and e.secondary.size() == 3 and values(e.secondary) == VALUES
    assert secondary.is_released() and not secondary.is_owned()


def test_an_immutable_hierarchy_is_refilled_through_its_destination():
    e = hierarchy(VALUES, mutable=False)
    made = []

    class Watching(MoveOperation):
        def _copy(self, tensor, destination, output, element_count):
            made.append(destination)
            for slot in range(element_count):
                destination[slot] = tensor.carrier[slot]

    e.evict()
    entry = unregister_move_operation(FileBacked, CPU)
    try:
        with registered_move_operation(FileBacked, CPU, Watching):
            e.promote()
    finally:
        register_move_operation(FileBacked, CPU, entry)
    assert e.primary is made[0] and len(made) == 1
    assert (e.is_mutable(), values(e), e.version) == (False, VALUES, 0)
    with pytest.raises(RuntimeError, match="not mutable"):
        e[0] = 1.0


class Broken(Exception):
    pass


def failing_move(error):
    class Failing(MoveOperation):
        """Writes one slot, then fails."""

        def _copy(self, tensor, destination, output, element_count):
            destination[0] = 99.0
            raise error

    return Failing


@pytest.fixture
def no_file_routes():
    """Takes the routes between CPU and FileBacked away for a test that has its own."""
    pairs = [(CPU, FileBacked), (FileBacked, CPU)]
    entries = [unregister_move_operation(*pair) for pair in pairs]
    yield
    for pair, entry in zip(pairs, entries, strict=True):
        register_move_operation(*pair, entry)


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
def test_a_move_that_fails_halfway_leaves_everything(no_file_routes, error):
    e = hierarchy(VALUES)
    for transition, source, destination in ((e.evict, CPU, FileBacked), (e.promote, FileBacked, CPU)):
        primary, secondary, evicted = e.primary, e.secondary, e.is_evicted()
        fresh = []

        class Failing(failing_move(error())):
            def _copy(self, tensor, destination, output, element_count):
                fresh.append(destination)
                super()._copy(tensor, destination, output, element_count)

        with registered_move_operation(source, destination, Failing), pytest.raises(error):
            transition()
        assert (e.primary, e.secondary, e.is_evicted()) == (primary, secondary, evicted)
        assert (e.size(), e.version, e.is_owned()) == (3, 0, False)
        assert fresh[0].is_released() and not fresh[0].is_owned()
        live = secondary if evicted else primary
        assert live.is_owned() and not live.is_released() and values(live) == VALUES
        transition()
    assert values(e) == VALUES


def test_a_reused_tier_may_keep_partial_values_of_a_failed_move():
    e = Evictable(cpu(VALUES), CPU(3))
    secondary = e.secondary
    with registered_move_operation(CPU, CPU, failing_move(Broken())), pytest.raises(Broken):
        e.evict()
    assert e.secondary is secondary and not secondary.is_released() and secondary.is_owned()
    assert (values(e), e.version, e.is_evicted()) == (VALUES, 0, False)
    e.evict()
    e.promote()
    assert values(e) == VALUES


def test_transitions_run_the_forward_hook_and_no_shadowed_method(no_file_routes):
    calls = []

    class Shadowing(MoveOperation):
        source_class, destination_class = CPU, FileBacked

        def forward(self, *inputs, options=None):
            raise AssertionError("forward is not for transitions")

        def _execute_lowered(self, *inputs, options=None):
            raise AssertionError("_execute_lowered is not for transitions")

        def _forward(self, tensor, destination):
            calls.append((tensor.offset, tensor.layout, orlop.is_grad_enabled(), destination.is_mutable()))
            return super()._forward(tensor, destination)

        def _copy(self, tensor, destination, output, element_count):
            for slot in range(element_count):
                destination[slot] = tensor.carrier[slot]

    e = hierarchy(VALUES)
    with registered_move_operation(CPU, FileBacked, Shadowing):
        e.evict()
    assert calls == [(0, Layout(Shape(3), Stride(1)), False, True)]
    assert values(e.secondary) == VALUES


def test_a_result_elsewhere_is_refused_before_the_source_goes(no_file_routes):
    class Straying(MoveOperation):
        def _forward(self, tensor, destination):
            return flat(CPU(3))

    e = hierarchy(VALUES)
    with registered_move_operation(CPU, FileBacked, Straying), pytest.raises(RuntimeError, match="destination"):
        e.evict()
    assert not e.is_evicted() and values(e) == VALUES

    class Silent(MoveOperation):
        def _forward(self, tensor, destination):
            return None

    with registered_move_operation(CPU, FileBacked, Silent), pytest.raises(TypeError, match="Tensor"):
        e.evict()
    assert not e.is_evicted() and values(e) == VALUES


class Misbehaving(ListCarrier):
    """Its factory makes what `made` gives, or raises it."""

    made = None

    def allocate_like(self, size, *, mutable=True, dtype=None):
        if isinstance(self.made, Exception):
            raise self.made
        return type(self).made


def test_a_factory_that_fails_or_makes_something_else():
    e = Evictable(cpu(VALUES), Misbehaving())
    Misbehaving.made = Broken()
    with pytest.raises(Broken):
        e.evict()
    Misbehaving.made = other = CPU(3)
    with pytest.raises(TypeError, match="exact class"):
        e.evict()
    assert other.is_released()
    Misbehaving.made = e.secondary  # its own, which is owned
    with pytest.raises(RuntimeError, match="already owned"):
        e.evict()
    Misbehaving.made = small = Misbehaving([0.0])
    with pytest.raises(ValueError, match="too small"):
        e.evict()
    assert small.is_released() and not small.is_owned()
    assert (e.is_evicted(), values(e)) == (False, VALUES)
    Misbehaving.made = Misbehaving([0.0] * 3)
    e.evict()
    assert e.secondary is Misbehaving.made


class StubbornRelease(ListCarrier):
    """Refuses to be released while `stubborn`."""

    stubborn = True

    def _release(self):
        if type(self).stubborn:
            raise Broken()
        super()._release()


def test_a_source_that_cannot_be_released_stays_where_it_is():
    e = Evictable(StubbornRelease(VALUES), empty_file())
    StubbornRelease.stubborn = True
    with pytest.raises(Broken):
        e.evict()
    assert not e.is_evicted() and values(e) == VALUES and e.version == 0
    StubbornRelease.stubborn = False
    e.evict()
    assert e.is_evicted() and values(e.secondary) == VALUES


def test_a_full_disk_changes_nothing():
    e = hierarchy(VALUES)
    directory = e.secondary.path.parent
    gc.collect()
    before = sorted(directory.iterdir())
    with file_backed_io(IoScript(reserve=[("fail", errno.ENOSPC)])), pytest.raises(OSError) as caught:
        e.evict()
    assert caught.value.errno == errno.ENOSPC
    del caught
    gc.collect()
    assert sorted(directory.iterdir()) == before
    assert (e.is_evicted(), values(e), e.version) == (False, VALUES, 0)
    e.evict()
    assert values(e.secondary) == VALUES


def test_a_failing_device_changes_nothing():
    e = hierarchy(VALUES)
    with file_backed_io(IoScript(write=[("fail", errno.EIO)])), pytest.raises(OSError):
        e.evict()
    assert not e.is_evicted() and values(e) == VALUES
    e.evict()
    with file_backed_io(IoScript(read=[("short", 4), ("fail", errno.EIO)])), pytest.raises(OSError):
        e.promote()
    assert e.is_evicted() and values(e.secondary) == VALUES
    e.promote()
    assert values(e) == VALUES


def test_transitions_are_no_profile_events():
    e = hierarchy(VALUES)
    profiler = Profiler()
    with profiler:
        e.evict()
        e.promote()
    assert profiler.events() == ()


# --- Hierarchies in hierarchies -----------------------------------------------------------------------------------------


def test_an_inner_hierarchy_is_guarded():
    inner = hierarchy(VALUES)
    outer = Evictable(inner, empty_file())
    for transition in (inner.evict, inner.promote):
        with pytest.raises(RuntimeError, match="cannot be modified directly"):
            transition()
    with pytest.raises(RuntimeError, match="owned"):
        inner.release()
    with pytest.raises(RuntimeError, match="not mutable"):
        inner[0] = 1.0
    outer[0] = 7.0
    outer.evict()
    assert inner.is_released() and inner.primary.is_released()
    with pytest.raises(RuntimeError, match="cannot be modified directly"):
        inner.promote()
    outer.promote()
    assert type(outer.primary) is Evictable and values(outer) == [7.0, -1.25, 8.0]
    assert outer.version == 1


def test_dropping_a_hierarchy_frees_its_tiers():
    primary, secondary = cpu(VALUES), empty_file()
    e = Evictable(primary, secondary)
    del e
    gc.collect()
    assert not primary.is_owned() and not secondary.is_owned() and not primary.is_released()
    primary[0] = 3.0
    again = Evictable(primary, secondary)
    assert again[0] == 3.0


def test_an_evicted_hierarchy_can_be_a_tier():
    inner = hierarchy(VALUES)
    inner.evict()
    outer = Evictable(inner, empty_file())
    with pytest.raises(RuntimeError, match="evicted.*promote"):
        outer[0]
    with pytest.raises(RuntimeError, match="evicted.*promote"):
        outer.evict()
    assert not outer.is_evicted() and values(inner.secondary) == VALUES


# --- Factories (S309) ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prepare", [lambda e: None, lambda e: e.evict(), lambda e: e.release()])
def test_factories_in_every_state(any_hierarchy, prepare):
    e = any_hierarchy
    prepare(e)
    made = e.new_like([1.0, 2.0])
    assert type(made) is Evictable and not made.is_evicted() and values(made) == [1.0, 2.0]
    assert type(made.primary) is type(e.primary) and type(made.secondary) is type(e.secondary)
    assert made.secondary.size() == 0 and made.secondary._is_mutable is not None
    assert (made.version, made.is_mutable(), made.dtype()) == (0, True, FLOAT)
    zeros = e.allocate_like(4)
    assert (values(zeros), zeros.version, zeros.secondary.size()) == ([0.0] * 4, 0, 0)
    assert not e.new_like([1.0], mutable=False).is_mutable()
    assert not e.allocate_like(1, mutable=False).is_mutable()
    assert e.allocate_like(2, dtype=INT).dtype() is INT and e.new_like([3], dtype=INT)[0] == 3
    made.evict()
    made.promote()
    assert values(made) == [1.0, 2.0]


def test_factories_make_empty_hierarchies():
    e = hierarchy(VALUES)
    for made in (e.allocate_like(0), e.new_like([])):
        assert made.size() == 0
        made.evict()
        made.promote()
        assert made.size() == 0


def test_factories_check_their_arguments():
    e = hierarchy(VALUES)
    for dtype in (BOOL, DType.Any, DType.Floating, DType.Float64):
        with pytest.raises(ValueError):
            e.allocate_like(1, dtype=dtype)
        with pytest.raises(ValueError):
            e.new_like([1.0], dtype=dtype)
    with pytest.raises(TypeError):
        e.allocate_like("1")
    with pytest.raises(ValueError):
        e.allocate_like(-1)
    with pytest.raises(TypeError):
        e.allocate_like(1, mutable=1)
    with pytest.raises(TypeError):
        e.new_like(3)
    with pytest.raises(TypeError):
        e.new_like(["one"])


class CountedSecondary(ListCarrier):
    """Makes children until it may not; remembers them."""

    children = []
    failure = None

    def allocate_like(self, size, *, mutable=True, dtype=None):
        if type(self).failure:
            raise type(self).failure
        return super().allocate_like(size, mutable=mutable, dtype=dtype)


class RecordingPrimary(ListCarrier):
    made = []

    def new_like(self, values, *, mutable=True, dtype=None):
        type(self).made.append(super().new_like(values, mutable=mutable, dtype=dtype))
        return type(self).made[-1]


def test_a_failing_factory_releases_what_was_built():
    e = Evictable(RecordingPrimary(VALUES), CountedSecondary())
    CountedSecondary.failure = Broken()
    with pytest.raises(Broken):
        e.new_like([1.0])
    assert RecordingPrimary.made[0].is_released() and not RecordingPrimary.made[0].is_owned()
    CountedSecondary.failure = None
    assert e.new_like([1.0])[0] == 1.0


def test_fresh_storage_is_created_from_a_released_hierarchy():
    e = hierarchy(VALUES)
    e.release()
    made = e.new_like([1.0, 2.0])
    assert values(made) == [1.0, 2.0] and e.is_released()


# --- Release (S311) ------------------------------------------------------------------------------------------------------


def test_release_releases_both_tiers(any_hierarchy):
    e = any_hierarchy
    tiers = e.primary, e.secondary
    assert e.release() is None and e.release() is None
    assert e.is_released() and all(tier.is_released() and not tier.is_owned() for tier in tiers)


def test_release_of_an_evicted_hierarchy():
    e = hierarchy(VALUES)
    e.evict()
    path = e.secondary.path
    e.release()
    assert not path.exists() and e.secondary.is_released()


def test_a_failing_release_tries_the_other_tier_and_can_be_repeated():
    class SecondStubborn(StubbornRelease):
        stubborn = True

    first, second = StubbornRelease(VALUES), SecondStubborn()
    e = Evictable(first, second)
    StubbornRelease.stubborn, SecondStubborn.stubborn = True, False
    with pytest.raises(Broken):
        e.release()
    assert second.is_released() and not first.is_released() and not e.is_released()
    assert values(e) == VALUES
    StubbornRelease.stubborn = False
    e.release()
    assert first.is_released() and e.is_released()


# --- Operations (S310, S312) --------------------------------------------------------------------------------------------


def test_dispatch_execute_through_a_composed_backend(computing):
    e = computing()
    x = flat(e)
    y = orlop.relu(x)
    assert type(y.carrier) is Evictable and y.carrier is not e
    assert (values(y.carrier), y.carrier.version) == ([0.5, 0.0, 8.0], 0)
    assert type(y.carrier.primary) is type(e.primary) and type(y.carrier.secondary) is type(e.secondary)
    assert y.carrier.secondary.size() == 0 and not y.carrier.is_evicted()
    node = y.autograd_ctx
    assert type(node) is EvictableOperation and node.inputs() == (x,)
    assert node._operation_name == "relu" and node._dispatch_carrier_class is Evictable
    assert node.primary_operation._dispatch_carrier_class is type(e.primary)
    y.carrier.evict()
    y.carrier.promote()
    assert values(y.carrier) == [0.5, 0.0, 8.0]


def test_dispatch_lower_a_supported_outer_plan(computing):
    first, second = computing(), computing()
    total = orlop.add(flat(first), flat(second))
    assert values(total.carrier) == [1.0, -2.5, 16.0]
    assert type(total.carrier) is Evictable and type(total.carrier.primary) is type(first.primary)
    assert type(total.carrier.secondary) is type(first.secondary)
    assert first.version == second.version == 0


def test_a_profile_shows_two_linked_events():
    x = flat(hierarchy(VALUES))
    profiler = Profiler()
    with profiler:
        orlop.relu(x)
    outer, inner = profiler.events()
    assert (outer.name, outer.carrier_type, outer.implementation_type) == ("relu", Evictable, EvictableOperation)
    assert (inner.name, inner.carrier_type, inner.parent_id) == ("relu", CPU, outer.id)
    assert outer.parent_id is None and outer.succeeded and inner.succeeded


def test_views_stay_on_the_same_hierarchy(computing):
    e = computing()
    view = orlop.permute(flat(e), [0])
    assert view.carrier is e
    rows = orlop.unsqueeze(flat(e), 0)
    assert rows.carrier is e and rows.layout.shape == Shape([1, 3])
    e.evict()
    with pytest.raises(RuntimeError, match="evicted"):
        orlop.permute(flat(e), [0])


def test_views_on_a_primary_that_only_stores():
    e = Evictable(empty_file().new_like(VALUES), CPU(0))
    assert orlop.unsqueeze(flat(e), 0).carrier is e
    with pytest.raises(NotImplementedError):
        orlop.relu(flat(e))


def test_dispatch_refuse_mismatched_hierarchies():
    class Nested(Operation):
        def _forward(self, *inputs):
            raise AssertionError("nothing runs")

    x = flat(hierarchy(VALUES))
    for other in (
        Evictable(cpu(VALUES), CPU(0)),
        Evictable(Generic(VALUES, dtype=FLOAT), empty_file()),
        Evictable(hierarchy(VALUES), empty_file()),
    ):
        for left, right in ((x, flat(other)), (flat(other), x)):
            with pytest.raises(TypeError, match="tier classes"):
                orlop.add(left, right)
            with pytest.raises(TypeError, match="tier classes"):
                EvictableOperation(Nested()).forward(left, right)


def test_operands_of_an_adapter():
    x = flat(hierarchy(VALUES))
    adapter = x.carrier.dispatch_op("add")
    with pytest.raises(TypeError, match="at least one Tensor"):
        x.carrier.dispatch_op("mul").forward()
    with pytest.raises(TypeError, match="Evictable"):
        adapter.forward(x, flat(cpu(VALUES)))
    evicted = flat(hierarchy(VALUES))
    evicted.carrier.evict()
    with pytest.raises(RuntimeError, match="evicted.*promote"):
        adapter.forward(x, evicted)
    assert values(adapter.forward(x, x).carrier) == [1.0, -2.5, 16.0]  # what was refused did not use it up
    with pytest.raises(RuntimeError):
        adapter.forward(x, x)


def test_an_adapter_runs_once():
    x = flat(hierarchy([1, 2], dtype=INT))
    adapter = x.carrier.dispatch_op("add")
    adapter.forward(x, x)
    with pytest.raises(RuntimeError, match="once"):
        adapter.forward(x, x)


def test_an_adapter_takes_an_operation():
    for wrong in (None, 3, Operation, CPU(1)):
        with pytest.raises(TypeError, match="primary_operation must be an Operation"):
            EvictableOperation(wrong)
    with pytest.raises(TypeError):
        EvictableOperation()
    nested = CPU(1).dispatch_op("relu")
    adapter = EvictableOperation(nested)
    assert adapter.primary_operation is nested and adapter._operation_name is None
    assert values(adapter.forward(flat(hierarchy(VALUES))).carrier) == [0.5, 0.0, 8.0]


def test_each_dispatch_is_fresh_and_stamped():
    e = hierarchy(VALUES)
    first, second = e.dispatch_op("relu"), e.dispatch_op("relu")
    assert first is not second and first.primary_operation is not second.primary_operation
    assert first._operation_name == "relu" and first._dispatch_carrier_class is Evictable
    with pytest.raises(NotImplementedError):
        e.dispatch_op("no such operation")
    with pytest.raises(TypeError):
        e.dispatch_op(3)


def test_options_pass_through():
    from orlop.operation import operation_execution_options

    x = flat(hierarchy(VALUES))
    with pytest.raises(ValueError):
        x.carrier.dispatch_op("relu").forward(x, options=operation_execution_options("reduce_sum"))
    with pytest.raises(TypeError):
        x.carrier.dispatch_op("relu").forward(x, options=3)


class FloatingCarrier(ListCarrier):
    """Holds the abstract category."""

    allocations = 0

    def __init__(self, values=(), *, mutable=True, dtype=DType.Floating):
        super().__init__(values, mutable=mutable, dtype=dtype)

    def _supports_storage_dtype(self, dtype):
        return dtype is DType.Floating

    def allocate_like(self, size, *, mutable=True, dtype=None):
        type(self).allocations += 1
        return super().allocate_like(size, mutable=mutable, dtype=dtype)


def test_dispatch_reject_an_abstract_category_before_lowering():
    e = Evictable(FloatingCarrier([1.0, 2.0]), FloatingCarrier([0.0, 0.0]))
    assert e.dtype() is DType.Floating
    FloatingCarrier.allocations = 0

    class Nested(Operation):
        def _forward(self, *inputs):
            raise AssertionError("nothing is lowered")

    class Dispatching(FloatingCarrier):
        def _dispatch_op(self, operation_name):
            return Nested()

    over_hook = Evictable(Dispatching([1.0, 2.0]), FloatingCarrier([0.0, 0.0]))
    for hierarchy_ in (e, over_hook):
        with pytest.raises(TypeError):
            orlop.relu(flat(hierarchy_))
        with pytest.raises(TypeError):
            hierarchy_.dispatch_op("relu").forward(flat(hierarchy_))
    assert FloatingCarrier.allocations == 0


def test_a_plan_the_hierarchy_does_not_advertise_is_refused_before_lowering():
    e = Evictable(ListCarrier(VALUES), empty_file())
    with pytest.raises(UnsupportedOperationPlan):
        orlop.sigmoid(flat(e))


class Custom(Operation):
    """An operation outside the registry: doubles, with a gradient that is counted."""

    def _forward(self, x):
        self.store_inputs(x)
        return Tensor(x.carrier.new_like([2 * x[i] for i in range(x.size())]), 0, x.layout)

    def backward(self, gradient):
        assert type(gradient.carrier) is CustomCarrier and type(self.inputs()[0].carrier) is CustomCarrier
        return (Tensor(gradient.carrier.new_like([2 * gradient[i] for i in range(gradient.size())]), 0, gradient.layout),)


class CustomCarrier(ListCarrier):
    def _dispatch_op(self, operation_name):
        if operation_name == "twice":
            return Custom()
        return super()._dispatch_op(operation_name)


def test_an_operation_outside_the_registry_runs_unplanned():
    e = Evictable(CustomCarrier(VALUES), empty_file())
    x = flat(e)
    y = e.dispatch_op("twice").forward(x)
    assert type(y.carrier) is Evictable and values(y.carrier) == [1.0, -2.5, 16.0]
    y.backward(flat(Evictable(CustomCarrier([1.0, 1.0, 1.0]), empty_file())))
    assert type(x.grad.carrier) is Evictable and values(x.grad.carrier) == [2.0, 2.0, 2.0]


class Returning(Operation):
    """Returns `what` from both directions."""

    what = None

    def _forward(self, x):
        return self.what(x)

    def backward(self, gradient):
        return self.what(gradient)


@pytest.mark.parametrize(
    "what, error",
    [
        (lambda x: flat(cpu(VALUES)), TypeError),  # another class than the primary
        (lambda x: None, TypeError),
        (lambda x: Tensor(owned(CustomCarrier(VALUES)), 0, x.layout), RuntimeError),
    ],
)
def test_a_nested_result_that_cannot_be_restored(what, error):
    class Stray(Returning):
        pass

    Stray.what = staticmethod(what)
    with pytest.raises(error):
        EvictableOperation(Stray()).forward(flat(Evictable(CustomCarrier(VALUES), empty_file())))


# --- Gradients ------------------------------------------------------------------------------------------------------------


def ones(like):
    """A cotangent in a fresh hierarchy like `like`."""
    return flat(like.new_like([1.0] * 3))


def test_dispatch_backpropagate_through_an_adapter(computing):
    e = computing()
    x = flat(e)
    y = orlop.relu(x)
    node = y.autograd_ctx
    e.evict()
    e.promote()  # the nested operation saw another primary: backward refreshes it
    (gradient,) = node.backward(ones(e))
    assert type(gradient.carrier) is Evictable and values(gradient.carrier) == [1.0, 0.0, 1.0]
    assert type(gradient.carrier.primary) is type(e.primary)
    assert type(gradient.carrier.secondary) is type(e.secondary) and gradient.carrier.secondary.size() == 0
    y.backward(ones(e))
    assert values(x.grad.carrier) == [1.0, 0.0, 1.0] and type(x.grad.carrier) is Evictable


def test_gradients_of_two_operands_and_of_scalars(computing):
    a, b = flat(computing()), flat(computing())
    orlop.mul(a, b).backward(ones(a.carrier))
    assert values(a.grad.carrier) == values(b.grad.carrier) == VALUES
    orlop.mul(a, 2.0).backward(ones(a.carrier))
    assert values(a.grad.carrier) == [2.5, 0.75, 10.0]  # added to the first
    c = flat(computing())
    orlop.add(c, c).backward(ones(c.carrier))
    assert values(c.grad.carrier) == [2.0, 2.0, 2.0]


class Marked(ListCarrier):
    """What its factory makes has the same mark."""

    def __init__(self, *arguments, mark=None, **options):
        super().__init__(*arguments, **options)
        self.mark = mark

    def allocate_like(self, size, *, mutable=True, dtype=None):
        return type(self)([0.0] * size, dtype or self.held_dtype, mutable=mutable, mark=self.mark)


def test_each_gradient_lives_in_a_hierarchy_like_its_own_inputs():
    a, b = (flat(Evictable(cpu(VALUES), Marked(mark=mark))) for mark in "ab")
    operation = a.carrier.dispatch_op("mul")
    assert operation.forward(a, b).carrier.secondary.mark == "a"
    gradients = operation.backward(ones(a.carrier))
    assert [gradient.carrier.secondary.mark for gradient in gradients] == ["a", "b"]


def test_a_graph_over_several_operations(computing):
    x = flat(computing())
    y = orlop.relu(orlop.add(orlop.mul(x, x), x))  # relu(x² + x)
    y.backward(ones(x.carrier))
    assert values(x.grad.carrier) == [2.0, -1.5, 17.0]


def test_the_result_may_be_evicted_but_not_a_saved_input():
    x = flat(hierarchy(VALUES))
    y = orlop.mul(x, x)
    y.carrier.evict()
    y.backward(ones(x.carrier))
    assert values(x.grad.carrier) == [1.0, -2.5, 16.0]


def test_dispatch_reject_an_evicted_saved_input():
    x = flat(hierarchy(VALUES))
    y = orlop.mul(x, x)
    x.carrier.evict()
    with pytest.raises(RuntimeError, match="evicted.*promote"):
        y.backward(ones(x.carrier))
    assert x.grad is None
    x.carrier.promote()
    y.backward(ones(x.carrier))
    assert values(x.grad.carrier) == [1.0, -2.5, 16.0]


def test_a_mutated_saved_input_is_detected():
    x = flat(hierarchy(VALUES))
    y = orlop.mul(x, x)
    x[0] = 3.0
    with pytest.raises(RuntimeError, match="modified in-place"):
        y.backward(ones(x.carrier))


def test_a_cotangent_on_the_primarys_class_stays_the_callers():
    x = flat(hierarchy(VALUES))
    node = orlop.add(x, x).autograd_ctx
    mine = flat(cpu([1.0, 2.0, 3.0]))
    first, second = node.backward(mine)
    assert values(first.carrier) == values(second.carrier) == [1.0, 2.0, 3.0]
    assert not mine.carrier.is_owned() and mine.carrier.version == 0
    assert len({id(mine.carrier), id(first.carrier.primary), id(second.carrier.primary)}) == 3


def test_cotangents_of_another_kind_are_refused():
    x = flat(hierarchy(VALUES))
    node = orlop.relu(x).autograd_ctx
    for wrong in (None, 1.0, "gradient"):
        with pytest.raises(TypeError):
            node.backward(wrong)
    for carrier in (empty_file().new_like(VALUES), Generic(VALUES, dtype=FLOAT), Evictable(Generic(VALUES, dtype=FLOAT), CPU(0))):
        with pytest.raises(TypeError, match="gradient must be"):
            node.backward(flat(carrier))
    evicted = ones(x.carrier)
    evicted.carrier.evict()
    with pytest.raises(RuntimeError, match="evicted"):
        node.backward(evicted)
    (gradient,) = node.backward(ones(x.carrier))
    assert values(gradient.carrier) == [1.0, 0.0, 1.0]


def test_backward_before_forward():
    with pytest.raises(RuntimeError, match="forward"):
        hierarchy(VALUES).dispatch_op("relu").backward(ones(hierarchy(VALUES)))


@pytest.mark.parametrize(
    "what, error",
    [
        (lambda g: (), ValueError),
        (lambda g: (g, g), ValueError),
        (lambda g: (3,), TypeError),
        (lambda g: g, TypeError),
        (lambda g: (flat(cpu([1.0] * 3)),), TypeError),
    ],
)
def test_nested_gradients_of_the_wrong_kind(what, error):
    class Nested(Returning):
        def _forward(self, x):
            return Tensor(x.carrier.new_like(x.carrier.values), 0, x.layout)

    Nested.what = staticmethod(what)
    x = flat(Evictable(CustomCarrier(VALUES), empty_file()))
    adapter = EvictableOperation(Nested())
    adapter.forward(x)
    with pytest.raises(error):
        adapter.backward(flat(CustomCarrier([1.0] * 3)))


def test_none_stays_none():
    class Nested(Returning):
        def _forward(self, x):
            return Tensor(x.carrier.new_like(x.carrier.values), 0, x.layout)

    Nested.what = staticmethod(lambda g: (None,))
    x = flat(Evictable(CustomCarrier(VALUES), empty_file()))
    adapter = EvictableOperation(Nested())
    adapter.forward(x)
    assert adapter.backward(flat(CustomCarrier([1.0] * 3))) == (None,)


def test_a_nested_hierarchy_computes_and_differentiates():
    x = flat(Evictable(hierarchy(VALUES), empty_file()))
    y = orlop.relu(x)
    assert type(y.carrier.primary) is Evictable and type(y.carrier.primary.primary) is CPU
    y.backward(flat(hierarchy([1.0, 1.0, 1.0])))  # on the primary's class, which is Evictable
    assert values(x.grad.carrier) == [1.0, 0.0, 1.0] and type(x.grad.carrier.primary) is Evictable


# --- Threads, interruption, collection ----------------------------------------------------------------------------------


def run_together(*calls):
    """Runs each call on its own thread; the exceptions they raised."""
    errors = []

    def run(call):
        try:
            call()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_a_running_transition_refuses_other_transitions_writes_and_release():
    e = hierarchy(VALUES)
    gate = Gate()
    with file_backed_io(IoScript(write=[("hold", gate)])):
        thread = threading.Thread(target=e.evict)
        thread.start()
        gate.wait_entered(30)
        try:
            for call in (e.evict, e.release, lambda: e.__setitem__(0, 1.0)):
                with pytest.raises(RuntimeError):
                    call()
            e.promote()  # it still is promoted: nothing to do
            assert values(e) == VALUES and not e.is_released()  # reads still see the primary
        finally:
            gate.open()
            thread.join()
    assert e.is_evicted() and values(e.secondary) == VALUES and e.version == 0
    e.promote()
    assert values(e) == VALUES


def test_a_hook_that_comes_back_is_refused(no_file_routes):
    e = hierarchy(VALUES)
    seen = []

    class Returning(MoveOperation):
        def _copy(self, tensor, destination, output, element_count):
            for call in (e.evict, e.release):
                with pytest.raises(RuntimeError, match="running"):
                    call()
            seen.append(values(e))
            for slot in range(element_count):
                destination[slot] = tensor.carrier[slot]

    with registered_move_operation(CPU, FileBacked, Returning):
        e.evict()
    assert seen == [VALUES] and e.is_evicted()


def test_a_hook_that_writes_to_its_source_is_refused(no_file_routes):
    e = hierarchy(VALUES)

    class Writing(MoveOperation):
        def _copy(self, tensor, destination, output, element_count):
            e[0] = 42.0

    with registered_move_operation(CPU, FileBacked, Writing), pytest.raises(RuntimeError, match="changed"):
        e.evict()
    assert not e.is_evicted() and e[0] == 42.0 and e.version == 1


def test_many_threads_on_one_hierarchy_end_in_one_piece():
    e = Evictable(cpu([float(i) for i in range(2000)]), empty_file())
    wrong = []

    def transitions():
        for _ in range(60):
            for call in (e.evict, e.promote):
                try:
                    call()
                except RuntimeError:
                    pass

    def reads():
        for i in range(600):
            try:
                if e[i] != float(i):
                    wrong.append(i)
            except RuntimeError:
                pass

    def operations():
        for _ in range(60):
            try:
                y = orlop.relu(flat(e))
                if y[1999] != 1999.0:
                    wrong.append(y)
            except RuntimeError:
                pass

    assert run_together(transitions, transitions, reads, operations, reads) == []
    assert wrong == [] and e.version == 0
    e.promote()
    assert values(e) == [float(i) for i in range(2000)]


def is_collected(make):
    """Whether what `make` builds is gone after its names are: `make` returns a weak reference."""
    reference = make()
    gc.collect()
    return reference() is None


def test_cycles_through_tiers_are_collected():
    def through_a_secondary():
        secondary = ListCarrier()
        e = Evictable(cpu(VALUES), secondary)
        secondary.owner = e
        return weakref.ref(e)

    def through_an_evicted_secondary():
        e = Evictable(cpu(VALUES), ListCarrier())
        e.evict()
        e.secondary.owner = flat(e)
        return weakref.ref(e)

    def through_a_nested_one():
        inner = Evictable(ListCarrier(VALUES), empty_file())
        outer = Evictable(inner, empty_file())
        inner.primary.owner = outer
        return weakref.ref(outer)

    def through_a_node():
        e = Evictable(ListCarrier(VALUES), empty_file())
        y = orlop.relu(flat(e))
        e.primary.result = y
        return weakref.ref(e)

    def through_its_own_attribute():
        e = hierarchy(VALUES)
        e.me = e
        return weakref.ref(e)

    def through_a_gradient():
        e = Evictable(ListCarrier(VALUES), empty_file())
        x = flat(e)
        orlop.relu(x).backward(ones(e))
        e.primary.leaf = x
        return weakref.ref(e)

    for make in (
        through_a_secondary,
        through_an_evicted_secondary,
        through_a_nested_one,
        through_a_node,
        through_its_own_attribute,
        through_a_gradient,
    ):
        assert is_collected(make), make.__name__


def test_the_registered_routes_are_what_the_tests_found():
    assert dispatch_move(CPU, FileBacked) is CpuToFileBackedMoveOperation
    assert dispatch_move(CPU, CPU) is ElementwiseMoveOperation
