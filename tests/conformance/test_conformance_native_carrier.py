"""A carrier written in C++ from outside the library keeps the storage contract."""

import pytest
from orlop_conformance import Crate, Minimal, Shelf
from run_length import RunLength
from storage_suite import ANY, COMPOUND, FLOAT, INT, Record, StorageSuite, values, whole

import orlop


class TestShelf(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: Shelf(0).new_like(values, dtype=dtype, mutable=mutable),
        dtypes=ANY,
    )


class TestCrate(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: Crate(0).new_like(values, dtype=dtype, mutable=mutable),
        dtypes=ANY,
        scatters=True,
        growable=True,
        peer=lambda slots, dtype: Crate(slots).allocate_like(slots, dtype=dtype),
    )


class TestRunLength(StorageSuite):
    """The example of a carrier in a Python module of its own, examples/carrier_extension."""

    record = Record(
        make=lambda values, dtype, mutable: RunLength(0).new_like(values, dtype=dtype, mutable=mutable),
        dtypes=(FLOAT,),
        scatters=True,
        growable=True,
        peer=lambda slots, dtype: RunLength(slots),
    )


def test_equal_neighbours_are_one_run():
    carrier = RunLength(1000)
    for index, value in [(0, 5.0), (1, 5.0), (999, 3.0), (500, 1.0), (501, 1.0), (500, 0.0), (501, 0.0)]:
        carrier[index] = value
    assert carrier.runs() == 3 and values(carrier) == [5.0] * 2 + [0.0] * 997 + [3.0]


def test_the_required_hooks_alone_make_an_immutable_carrier():
    carrier = Minimal(3)
    assert carrier.size() == 3 and values(carrier) == [0.0] * 3 and not carrier.is_mutable()
    for write in (lambda: carrier.__setitem__(0, 1.0), lambda: carrier.set_value(0, 1.0)):
        with pytest.raises(RuntimeError, match="not mutable"):
            write()
    for index in (3, -1, 2**70):
        with pytest.raises(IndexError):
            carrier[index]
        with pytest.raises(IndexError):
            carrier.get_value(index)
    assert carrier.supports_storage_dtype(FLOAT) and not carrier.supports_storage_dtype(INT)
    for dtype in (INT, COMPOUND, orlop.DType.Any):
        with pytest.raises(ValueError):
            carrier.new_like([], dtype=dtype)
    assert values(carrier.new_like([1, 0.1])) == [1.0, 0.10000000149011612]
    with pytest.raises(RuntimeError, match="not mutable"):
        carrier.scatter(whole(carrier), whole(carrier), whole(carrier).layout)
    with pytest.raises(BufferError):
        carrier.dlpack_info()


def test_an_opaque_dtype_takes_any_real_number():
    carrier = Minimal(2, opaque=True)
    assert carrier.dtype() is orlop.DType.Any
    assert values(carrier.new_like([1, 0.1, True])) == [1, 0.1, True]
    with pytest.raises(TypeError):
        carrier.new_like(["1"])
    with pytest.raises(TypeError):
        carrier.new_like(3)


def test_native_carriers_come_back_as_the_same_object():
    carrier = Shelf(2)
    carrier.label = "mine"
    assert whole(carrier).carrier is carrier and whole(carrier).carrier.label == "mine"
    assert type(carrier.allocate_like(1)) is Shelf
