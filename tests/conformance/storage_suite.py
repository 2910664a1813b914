"""What every carrier owes its users: the storage specification as one suite, parameterised by a record.

A carrier's own test file is a subclass with its record:

    class TestShelf(StorageSuite):
        record = Record(make=lambda values, dtype, mutable: ..., dtypes=(DType.Float32,))
"""

import array
import copy
import dataclasses
import fractions
import gc
import math
import pickle
import threading
import typing
import weakref

import pytest

from orlop import CPU, DType, Layout, Operation, Shape, Stride, Tensor, move
from orlop.carriers.dtype import storage_zero

FLOAT, INT, BOOL = DType.Float32, DType.Int32, DType.Bool
ANY = (FLOAT, INT, BOOL)

# Three values a slot stores as they are, then values that it rounds, then refused ones with their error.
STORED = {FLOAT: [1.5, -2.25, 3.0], INT: [7, -(2**31), 2**31 - 1], BOOL: [True, False, True]}
ROUNDED = {
    FLOAT: [
        (0.1, 0.10000000149011612),
        (True, 1.0),
        (3, 3.0),
        (16777217, 16777216.0),
        (fractions.Fraction(1, 3), 0.3333333432674408),
        (1e39, math.inf),
        (-(10**400), -math.inf),
    ],
    INT: [],
    BOOL: [],
}
REFUSED = {
    FLOAT: [("1", TypeError), (1j, TypeError), (None, TypeError), ([1.0], TypeError)],
    INT: [(1.0, TypeError), (True, TypeError), ("1", TypeError), (None, TypeError), (2**31, OverflowError),
          (-(2**31) - 1, OverflowError), (2**80, OverflowError)],
    BOOL: [(1, TypeError), (0, TypeError), (1.0, TypeError), ("", TypeError), (None, TypeError)],
}
DESCRIPTORS = tuple(value for value in (getattr(DType, name) for name in dir(DType)) if isinstance(value, DType))
COMPOUND = DType.from_name("MXFP4")
NO_DTYPES = ("Float32", float, 3, b"Int32")


@dataclasses.dataclass(frozen=True)
class Record:
    """What is special about one carrier; the defaults are those of a small carrier from outside the library."""

    make: typing.Callable  # (values, dtype, mutable) -> a carrier holding one or more values
    dtypes: tuple  # what it can be made of
    supported: tuple | None = None  # what it says it stores, where that is more than `dtypes`
    construct: typing.Callable | None = None  # (dtype) -> a constructor that takes a dtype
    zero_holes: bool = False  # whether None in new_like is a zero
    scatters: bool = False
    growable: bool = False
    computes: bool = False
    closed: bool = False
    peer: typing.Callable = lambda slots, dtype: CPU(slots, dtype=dtype)  # a carrier to move to and from


class Position:
    """An integer for the index protocol."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def values(carrier):
    return [carrier[i] for i in range(carrier.size())]


def state(carrier):
    """What a failed mutation must leave alone."""
    return values(carrier), carrier.version, carrier.size(), carrier.is_owned(), carrier.is_released()


def whole(carrier, size=None):
    """A flat Tensor over the first slots."""
    return Tensor(carrier, 0, Layout(Shape(carrier.size() if size is None else size), Stride(1)))


class StorageSuite:
    record: Record

    def make(self, dtype, given=None, mutable=True):
        return self.record.make(STORED[dtype] if given is None else given, dtype, mutable)

    def any(self, **options):
        """A carrier of the first dtype, where the dtype does not matter."""
        return self.make(self.record.dtypes[0], **options)

    # --- One homogeneous storage sequence -----------------------------------------------------------------

    def test_slots_are_read_and_written(self, dtype):
        carrier = self.make(dtype)
        first, second, third = STORED[dtype]
        assert carrier.size() == 3 and carrier.dtype() is dtype and values(carrier) == STORED[dtype]
        assert [type(value) for value in values(carrier)] == [type(value) for value in STORED[dtype]]
        carrier[0] = third
        assert carrier[0] == third and carrier.get_value(0) == third
        assert carrier.set_value(2, second) is None
        assert values(carrier) == [third, second, second]

    def test_an_index_follows_the_index_protocol(self, dtype):
        carrier = self.make(dtype)
        _, second, third = STORED[dtype]
        assert carrier[Position(1)] == carrier.get_value(Position(1)) == carrier[True] == second
        carrier[Position(1)] = third
        assert carrier[1] == third
        carrier.set_value(Position(1), second)
        assert carrier[1] == second

    @pytest.mark.parametrize("index", ["1", 1.0, None, (1,), slice(1)])
    def test_an_index_of_another_type_is_a_type_error(self, index):
        self.refuses_index(index, TypeError)

    @pytest.mark.parametrize("index", [-1, 3, 4, 2**31, 2**63 - 1, -(2**63), 2**63, 2**70, -(2**70)])
    def test_an_index_out_of_range_is_an_index_error(self, index):
        self.refuses_index(index, IndexError)

    def test_an_error_of_the_index_itself_is_passed_on(self):
        self.refuses_index(Position(ZeroDivisionError()), ZeroDivisionError)

    def refuses_index(self, index, error):
        carrier = self.any()
        before, value = state(carrier), carrier[0]
        for access in (
            lambda: carrier[index],
            lambda: carrier.get_value(index),
            lambda: carrier.__setitem__(index, value),
            lambda: carrier.set_value(index, value),
        ):
            with pytest.raises(error):
                access()
        assert state(carrier) == before

    def test_values_are_normalized(self, dtype):
        carrier = self.make(dtype)
        for given, stored in ROUNDED[dtype]:
            carrier[0] = given
            assert carrier[0] == stored and type(carrier[0]) is float
            carrier[0] = 0.0
            carrier.set_value(0, given)
            assert carrier[0] == stored
            assert values(carrier.new_like([given])) == [stored]
        if dtype is INT:
            carrier[0] = Position(-5)
            assert carrier[0] == -5
        if dtype is FLOAT:
            carrier[0] = math.nan
            assert math.isnan(carrier[0])
            carrier[0] = -0.0
            assert math.copysign(1, carrier[0]) == -1

    def test_caller_code_may_release_the_carrier_in_between(self, dtype):
        class Releasing:
            def __init__(self, carrier):
                self.carrier = carrier

            def __index__(self):
                self.carrier.release()
                return 0

        for access in (
            lambda carrier: carrier[Releasing(carrier)],
            lambda carrier: carrier.get_value(Releasing(carrier)),
            lambda carrier: carrier.__setitem__(Releasing(carrier), STORED[dtype][0]),
            lambda carrier: carrier.set_value(Releasing(carrier), STORED[dtype][0]),
        ):
            carrier = self.make(dtype)
            version = carrier.version
            with pytest.raises(RuntimeError):
                access(carrier)
            assert carrier.is_released() and carrier.version == version
        if dtype is INT:
            carrier = self.make(dtype)
            with pytest.raises(RuntimeError):
                carrier[0] = Releasing(carrier)
            carrier = self.make(dtype)
            with pytest.raises(RuntimeError):
                carrier.set_value(0, Releasing(carrier))
        carrier = self.make(dtype)
        assert values(carrier.allocate_like(Releasing(carrier))) == [] and carrier.is_released()

    def test_a_refused_value_changes_nothing(self, dtype):
        carrier = self.make(dtype)
        before = state(carrier)
        for value, error in REFUSED[dtype]:
            with pytest.raises(error):
                carrier[1] = value
            with pytest.raises(error):
                carrier.set_value(1, value)
            if value is not None or not self.record.zero_holes:
                with pytest.raises(error):
                    carrier.new_like([STORED[dtype][0], value])
        assert state(carrier) == before

    # --- Storage support ------------------------------------------------------------------------------------

    def test_support_is_a_matter_of_identity(self, dtype):
        carrier = self.make(dtype)
        expected = self.record.supported or self.record.dtypes
        for descriptor in (*DESCRIPTORS, COMPOUND):
            assert carrier.supports_storage_dtype(descriptor) is any(descriptor is one for one in expected), descriptor
        for other in (*NO_DTYPES, None):
            with pytest.raises(TypeError):
                carrier.supports_storage_dtype(other)

    def test_support_does_not_depend_on_state(self, dtype):
        live, immutable, owned, released = (self.make(dtype, mutable=mutable) for mutable in (True, False, True, True))
        token = owned._claim_ownership()
        released.release()
        for descriptor in (*DESCRIPTORS, COMPOUND):
            answers = {one.supports_storage_dtype(descriptor) for one in (live, immutable, owned, released)}
            assert len(answers) == 1
        owned._relinquish_ownership(token)

    # --- Construction ---------------------------------------------------------------------------------------

    def refuses_dtypes(self, construct):
        for other in NO_DTYPES:
            with pytest.raises(TypeError):
                construct(other)
        for descriptor in DESCRIPTORS:
            if not any(descriptor is one for one in self.record.dtypes):
                with pytest.raises(ValueError):
                    construct(descriptor)
        with pytest.raises(ValueError, match="multi-plane"):
            construct(COMPOUND)

    def test_construction_refuses_other_dtypes(self):
        if self.record.construct is None:
            with pytest.raises(TypeError):  # no constructor of this carrier takes a dtype
                type(self.any())(dtype=FLOAT)
            return
        self.refuses_dtypes(self.record.construct)
        for dtype in self.record.dtypes:
            assert self.record.construct(dtype).dtype() is dtype

    def test_factories_refuse_other_dtypes(self, dtype):
        carrier = self.make(dtype)
        before = state(carrier)
        self.refuses_dtypes(lambda other: carrier.new_like([], dtype=other))
        self.refuses_dtypes(lambda other: carrier.allocate_like(1, dtype=other))
        assert state(carrier) == before

    # --- new_like ----------------------------------------------------------------------------------------------

    def is_fresh(self, carrier, receiver, dtype, expected, mutable=True):
        assert type(carrier) is type(receiver) and carrier is not receiver
        assert carrier.dtype() is dtype and values(carrier) == expected and carrier.size() == len(expected)
        assert carrier.is_mutable() is mutable and not carrier.is_owned() and not carrier.is_released()

    def test_new_like_keeps_the_dtype(self, dtype):
        receiver = self.make(dtype)
        before, stored = state(receiver), STORED[dtype][::-1]
        for given in (stored, tuple(stored), iter(stored), (value for value in stored)):
            self.is_fresh(receiver.new_like(given), receiver, dtype, stored)
        self.is_fresh(receiver.new_like(stored, mutable=False), receiver, dtype, stored, mutable=False)
        self.is_fresh(receiver.new_like([]), receiver, dtype, [])
        assert state(receiver) == before

    def test_new_like_takes_another_dtype(self, dtype):
        receiver = self.make(dtype)
        for other in self.record.dtypes:
            made = receiver.new_like(STORED[other], dtype=other)
            self.is_fresh(made, receiver, other, STORED[other])
            assert [type(value) for value in values(made)] == [type(value) for value in STORED[other]]

    def test_new_like_copies_buffers(self, dtype):
        code = {FLOAT: "f", INT: "i"}.get(dtype)
        if code is None:
            given = memoryview(bytes(STORED[dtype])).cast("?")
        else:
            given = array.array(code, STORED[dtype])
        receiver = self.make(dtype)
        made = receiver.new_like(given)
        assert values(made) == STORED[dtype]
        if code is not None:
            given[0] = 0
        assert values(made) == STORED[dtype]

    def test_holes(self, dtype):
        carrier = self.make(dtype)
        value = STORED[dtype][0]
        if self.record.zero_holes:
            assert values(carrier.new_like([None, value, None])) == [storage_zero(dtype), value, storage_zero(dtype)]
        else:
            with pytest.raises(TypeError):
                carrier.new_like([None, value])

    def test_new_like_refuses_what_it_cannot_iterate(self):
        carrier = self.any()

        def failing():
            yield carrier[0]
            raise ZeroDivisionError

        for given in (3, None, object()):
            with pytest.raises(TypeError):
                carrier.new_like(given)
        with pytest.raises(ZeroDivisionError):
            carrier.new_like(failing())
        with pytest.raises(TypeError):
            carrier.new_like()
        with pytest.raises(TypeError):
            carrier.new_like([], True)

    @pytest.mark.parametrize("mutable", [1, 0, None, "yes"])
    def test_mutable_is_exactly_a_bool(self, mutable):
        carrier = self.any()
        with pytest.raises(TypeError):
            carrier.new_like([carrier[0]], mutable=mutable)
        with pytest.raises(TypeError):
            carrier.allocate_like(1, mutable=mutable)

    # --- allocate_like -------------------------------------------------------------------------------------------

    def test_allocate_like_gives_zeros(self, dtype):
        receiver = self.make(dtype)
        before, zero = state(receiver), storage_zero(dtype)
        made = receiver.allocate_like(3)
        self.is_fresh(made, receiver, dtype, [zero] * 3)
        assert type(made[0]) is type(zero)
        self.is_fresh(receiver.allocate_like(Position(2)), receiver, dtype, [zero] * 2)
        self.is_fresh(receiver.allocate_like(2, mutable=False), receiver, dtype, [zero] * 2, mutable=False)
        self.is_fresh(receiver.allocate_like(0), receiver, dtype, [])
        made[0] = STORED[dtype][0]
        assert state(receiver) == before

    def test_allocate_like_takes_another_dtype(self, dtype):
        receiver = self.make(dtype)
        for other in self.record.dtypes:
            self.is_fresh(receiver.allocate_like(2, dtype=other), receiver, other, [storage_zero(other)] * 2)

    def test_an_empty_allocation_is_writable(self, dtype):
        carrier = self.make(dtype).allocate_like(3, empty=True)
        assert carrier.size() == 3 and carrier.is_mutable()
        for slot, value in enumerate(STORED[dtype]):
            carrier[slot] = value
        assert values(carrier) == STORED[dtype]

    def test_allocate_like_checks_the_size(self):
        carrier = self.any()
        for size, error in [("3", TypeError), (2.0, TypeError), (None, TypeError), (-1, ValueError),
                            (-(2**63), ValueError), (-(2**70), ValueError), (2**63, OverflowError),
                            (Position(ZeroDivisionError()), ZeroDivisionError)]:
            with pytest.raises(error):
                carrier.allocate_like(size)
        with pytest.raises(TypeError):
            carrier.allocate_like()
        with pytest.raises(TypeError):
            carrier.allocate_like(1, True)

    # --- Mutability and ownership ---------------------------------------------------------------------------------

    def test_an_immutable_carrier_refuses_writes(self, dtype):
        carrier = self.make(dtype, mutable=False)
        before = state(carrier)
        assert carrier.is_mutable() is False
        for write in (lambda: carrier.__setitem__(0, STORED[dtype][1]), lambda: carrier.set_value(0, STORED[dtype][1])):
            with pytest.raises(RuntimeError, match="not mutable"):
                write()
        with pytest.raises(RuntimeError, match="not mutable"):
            carrier[99] = STORED[dtype][1]
        assert state(carrier) == before

    def test_an_owned_carrier_is_written_through_its_owner_only(self, dtype):
        carrier = self.make(dtype)
        value = STORED[dtype][1]
        assert not carrier.is_owned()
        token = carrier._claim_ownership()
        assert token > 0 and carrier.is_owned() and not carrier.is_mutable() and not carrier._has_owner_access()
        before = state(carrier)
        for write in (
            lambda: carrier.__setitem__(0, value),
            lambda: carrier.set_value(0, value),
            carrier.release,
            carrier._increment_version,
            carrier._claim_ownership,
            lambda: carrier._relinquish_ownership(token + 1),
            lambda: carrier._begin_owner_access(token + 1),
            lambda: carrier._end_owner_access(token),
        ):
            with pytest.raises(RuntimeError):
                write()
        assert state(carrier) == before
        assert values(carrier.new_like([value])) == [value]  # a prototype all the same
        carrier._begin_owner_access(token)
        assert carrier.is_mutable() and carrier._has_owner_access()
        carrier[0] = value
        seen = []
        other = threading.Thread(target=lambda: seen.append((carrier.is_mutable(), carrier._has_owner_access())))
        other.start()
        other.join()
        assert seen == [(False, False)]
        with pytest.raises(RuntimeError):
            carrier._relinquish_ownership(token)
        carrier._end_owner_access(token)
        assert carrier[0] == value and not carrier.is_mutable()
        carrier._relinquish_ownership(token)
        assert carrier.is_mutable() and not carrier.is_owned()
        assert carrier._claim_ownership() != token

    def test_an_owner_may_release(self):
        carrier = self.any()
        token = carrier._claim_ownership()
        carrier._begin_owner_access(token)
        carrier.release()
        carrier._end_owner_access(token)
        assert carrier.is_released()
        carrier._relinquish_ownership(token)

    # --- Version -----------------------------------------------------------------------------------------------------

    def test_every_write_advances_the_version_once(self, dtype):
        carrier = self.make(dtype)
        start = carrier.version
        assert isinstance(start, int) and start >= 0
        for count, value in enumerate(STORED[dtype], 1):
            carrier[0] = value
            assert carrier.version == start + 2 * count - 1
            carrier.set_value(1, value)  # equal values count as well
            assert carrier.version == start + 2 * count

    def test_what_writes_no_value_keeps_the_version(self):
        carrier = self.any()
        version = carrier.version
        carrier.new_like([carrier[0]])
        carrier.allocate_like(2)
        carrier.is_mutable()
        carrier._relinquish_ownership(carrier._claim_ownership())
        carrier.release()
        assert carrier.version == version

    # --- Scatter -------------------------------------------------------------------------------------------------------

    def test_scatter(self, dtype):
        source = self.make(dtype)
        carrier = source.allocate_like(8)
        mapping, start = Layout(Shape(3), Stride(2)), carrier.version
        onto = Tensor(carrier, 1, Layout(Shape(7), Stride(1)))
        if not self.record.scatters:
            with pytest.raises(NotImplementedError):
                carrier.scatter(whole(source), onto, mapping)
            assert values(carrier) == [storage_zero(dtype)] * 8 and carrier.version == start
            return
        assert carrier.scatter(whole(source), onto, mapping, 1) is None
        first, second, third = STORED[dtype]
        zero = storage_zero(dtype)
        assert values(carrier) == [zero, zero, first, zero, second, zero, third, zero] and carrier.version > start
        version = carrier.version
        assert carrier.scatter(whole(source), onto, Layout(Shape(3), Stride(1))) is None
        assert values(carrier)[1:4] == STORED[dtype] and carrier.version > version

    def test_of_two_wrong_arguments_scatter_names_the_first_in_its_order(self, dtype):
        if not self.record.scatters:
            return self.test_scatter(dtype)
        source, carrier = whole(self.make(dtype)), self.make(dtype)
        onto, before = whole(carrier), state(carrier)
        mapping, short, wide = (Layout(Shape(n), Stride(d)) for n, d in [(3, 1), (2, 1), (3, 2**61)])
        for call, error, words in [
            (("source", 3, 3, 1.0), TypeError, "to_scatter"),
            ((source, 3, 3, 1.0), TypeError, "scatter_onto"),
            ((source, source, 3, 1.0), TypeError, "mapping must be a Layout"),
            ((source, source, short, 1.0), ValueError, "receiving carrier"),
            ((source, source, mapping, 1.0), ValueError, "receiving carrier"),
            ((source, source, mapping, -1), ValueError, "receiving carrier"),
            ((source, onto, short, 1.0), ValueError, "source shape"),
            ((source, onto, short, -1), ValueError, "source shape"),
            ((source, onto, wide, 1.0), TypeError, "mapping_offset"),
            ((source, onto, wide, -1), ValueError, "negative"),
        ]:
            with pytest.raises(error, match=words):
                carrier.scatter(*call)
            assert state(carrier) == before, call
        carrier.release()
        with pytest.raises(RuntimeError, match="released"):
            carrier.scatter("source", 3, 3, 1.0)

    def test_a_failed_scatter_changes_nothing(self, dtype):
        if not self.record.scatters:
            return self.test_scatter(dtype)
        source, carrier = self.make(dtype), self.make(dtype)
        mapping = Layout(Shape(3), Stride(1))
        onto, before = whole(carrier), state(carrier)
        for call, error in [
            (("source", onto, mapping), TypeError),
            ((whole(source), carrier, mapping), TypeError),
            ((whole(source), onto, Shape(3)), TypeError),
            ((whole(source), onto, mapping, "1"), TypeError),
            ((whole(source), onto, mapping, 1.0), TypeError),
            ((whole(source), whole(source), mapping), ValueError),
            ((whole(source), onto, Layout(Shape(2), Stride(1))), ValueError),
            ((whole(source), onto, mapping, -1), ValueError),
            ((whole(source), onto, mapping, 1), IndexError),
            ((whole(source), onto, Layout(Shape(3), Stride(2))), IndexError),
            ((whole(source), onto, mapping, 2**62), IndexError),
            ((whole(source), onto, mapping, 2**63 - 1), IndexError),
            ((whole(source), onto, mapping, 2**70), IndexError),
            ((whole(source), onto, mapping, -(2**70)), ValueError),
        ]:
            with pytest.raises(error):
                carrier.scatter(*call)
            assert state(carrier) == before, call
        immutable = self.make(dtype, mutable=False)
        with pytest.raises(RuntimeError, match="not mutable"):
            immutable.scatter(whole(source), whole(immutable), mapping)
        token = carrier._claim_ownership()
        with pytest.raises(RuntimeError, match="not mutable"):
            carrier.scatter(whole(source), onto, mapping)
        carrier._relinquish_ownership(token)
        assert state(carrier) == before
        carrier.release()
        with pytest.raises(RuntimeError, match="released"):
            carrier.scatter(whole(source), onto, mapping)

    # --- Release --------------------------------------------------------------------------------------------------------

    def test_release_is_for_good(self, dtype):
        carrier = self.make(dtype)
        assert carrier.is_released() is False
        assert carrier.release() is None and carrier.release() is None
        assert carrier.is_released() is True and carrier.dtype() is dtype and carrier.size() in (0, 3)
        for access in (
            lambda: carrier[0],
            lambda: carrier.get_value(0),
            lambda: carrier.__setitem__(0, STORED[dtype][0]),
            lambda: carrier.set_value(0, STORED[dtype][0]),
            carrier._claim_ownership,
        ):
            with pytest.raises(RuntimeError):
                access()
        with pytest.raises(TypeError):
            carrier["0"]
        assert carrier.is_released()

    def test_a_released_carrier_is_a_prototype(self, dtype):
        carrier = self.make(dtype)
        carrier.release()
        self.is_fresh(carrier.new_like(STORED[dtype]), carrier, dtype, STORED[dtype])
        self.is_fresh(carrier.allocate_like(2), carrier, dtype, [storage_zero(dtype)] * 2)

    def test_what_was_made_outlives_the_receiver(self, dtype):
        carrier = self.make(dtype)
        made, allocated = carrier.new_like(STORED[dtype]), carrier.allocate_like(1)
        carrier.release()
        del carrier
        gc.collect()
        assert values(made) == STORED[dtype] and values(allocated) == [storage_zero(dtype)]

    # --- Moves ------------------------------------------------------------------------------------------------------------

    def test_values_move_out_and_in(self, dtype):
        carrier, peer = self.make(dtype), self.record.peer(3, dtype)
        outside = move(whole(carrier), peer)
        assert outside.carrier is peer and values(peer) == STORED[dtype] and peer.version == 1
        assert carrier.is_released()
        destination = carrier.allocate_like(3)
        version = destination.version
        inside = move(outside, destination)
        assert inside.carrier is destination and values(destination) == STORED[dtype] and peer.is_released()
        assert not destination.is_owned()
        if self.record.closed:
            assert destination.version == version + 1
        else:  # where the hook counts its own writes, the move adds none
            assert destination.version > version

    def test_an_empty_carrier_grows_where_it_can(self, dtype):
        source = self.record.peer(0, dtype).new_like(STORED[dtype])
        destination = self.make(dtype).allocate_like(0)
        if self.record.growable:
            assert values(move(whole(source), destination).carrier) == STORED[dtype] and destination.size() == 3
            return
        with pytest.raises(ValueError, match="too small"):
            move(whole(source), destination)
        assert values(source) == STORED[dtype] and destination.size() == 0 and destination.version == 0

    def test_a_refused_move_changes_nothing(self, dtype):
        source, immutable, owned = CPU(3, dtype=dtype), self.make(dtype, mutable=False), self.make(dtype)
        token = owned._claim_ownership()
        before = [state(one) for one in (source, immutable, owned)]
        for call in (
            lambda: move(whole(source), immutable),
            lambda: move(whole(source), owned),
            lambda: move(whole(owned), source),
        ):
            with pytest.raises(RuntimeError):
                call()
        with pytest.raises(ValueError):
            move(whole(immutable), immutable)
        assert [state(one) for one in (source, immutable, owned)] == before
        owned._relinquish_ownership(token)

    # --- Growth, dispatch, identity ----------------------------------------------------------------------------------------

    def test_growth(self, dtype):
        carrier = self.make(dtype).allocate_like(0)
        version = carrier.version
        if self.record.growable:
            carrier._allocate(3)
            assert values(carrier) == [storage_zero(dtype)] * 3
        else:
            with pytest.raises(NotImplementedError):
                carrier._allocate(3)
            assert carrier.size() == 0
        assert carrier.version == version

    def test_operations_are_dispatched(self, dtype):
        carrier = self.make(dtype)
        if not self.record.computes:
            with pytest.raises(NotImplementedError, match="add"):
                carrier.dispatch_op("add")
            return
        one, two = carrier.dispatch_op("add"), carrier.dispatch_op("add")
        assert isinstance(one, Operation) and one is not two
        assert one._operation_name == "add" and one._dispatch_carrier_class is type(carrier)
        if dtype is BOOL:
            return  # nothing adds truth values
        given = [STORED[dtype][0]] * 2
        operand = self.make(dtype, given)
        result = one.forward(whole(operand), whole(operand))
        self.is_fresh(result.carrier, carrier, dtype, [2 * given[0]] * 2)
        with pytest.raises(NotImplementedError, match="no such name"):
            carrier.dispatch_op("no such name")

    def test_dispatching_wants_an_instance_and_a_name(self):
        carrier = self.any()
        with pytest.raises(TypeError):
            type(carrier).dispatch_op("add")
        for name in (None, 3, b"add"):
            with pytest.raises(TypeError):
                carrier.dispatch_op(name)

    def test_the_class_is_closed_where_it_should_be(self):
        kind = type(self.any())
        if self.record.closed:
            with pytest.raises(TypeError, match="closed carrier implementation.*sibling Carrier"):
                type("Derived", (kind,), {})
        else:
            assert issubclass(type("Derived", (kind,), {}), kind)

    def test_a_carrier_is_not_copied_implicitly(self):
        carrier = self.any()
        for copying in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                copying(carrier)

    def test_a_dropped_carrier_goes_at_once(self):
        carrier = self.any()
        gone = weakref.ref(carrier)
        tensor = whole(carrier)
        del carrier
        assert gone() is tensor.carrier
        del tensor
        assert gone() is None
