"""The scenarios of the storage specification, and the errors of its constructors."""

import ctypes
import math
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from orlop import CPU, DType, DTypeCategory, FileBacked, Generic, Layout, Metal, Shape, Stride, Tensor
from orlop.carriers.dtype import storage_zero

FLOAT, INT, BOOL = DType.Float32, DType.Int32, DType.Bool
COMPOUND = DType.from_name("MXFP4")
CATEGORIES = [DType.Any, DType.Floating, DType.Integer]
KINDS = [CPU, Generic, FileBacked]
NARROW = [DType.Float64, DType.Int8, DType.E4M3]


def make(kind, given=(1.0, 2.0, 3.0), dtype=FLOAT, **options):
    prototype = {CPU: lambda: CPU(0), Generic: lambda: Generic([], dtype=FLOAT), FileBacked: lambda: FileBacked(dtype=FLOAT)}
    return prototype[kind]().new_like(given, dtype=dtype, **options)


def construct(kind, dtype):
    """The constructor of a kind with `dtype`."""
    return {
        CPU: lambda: CPU(3, dtype=dtype),
        Generic: lambda: Generic([], dtype=dtype),
        FileBacked: lambda: FileBacked(dtype=dtype),
        Metal: lambda: Metal(3, dtype=dtype),
    }[kind]()


def values(carrier):
    return [carrier[i] for i in range(carrier.size())]


def flat(carrier, offset=0, size=None):
    return Tensor(carrier, offset, Layout(Shape(size or carrier.size() - offset), Stride(1)))


# --- Carrier exposes one homogeneous storage sequence -----------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_storage_read_and_write_one_slot(kind):
    carrier = make(kind)
    assert values(carrier) == [1.0, 2.0, 3.0]
    carrier[2] = 7.0
    assert carrier.set_value(0, -1.0) is None
    assert carrier[2] == carrier.get_value(2) == 7.0 and values(carrier) == [-1.0, 2.0, 7.0]


@pytest.mark.parametrize("kind", KINDS)
def test_storage_reject_an_invalid_physical_index(kind):
    carrier = make(kind)
    for index in (-1, 3, 2**40, 2**70):
        for access in (
            lambda: carrier[index],  # noqa: B023
            lambda: carrier.get_value(index),  # noqa: B023
            lambda: carrier.__setitem__(index, 1.0),  # noqa: B023
            lambda: carrier.set_value(index, 1.0),  # noqa: B023
        ):
            with pytest.raises(IndexError):
                access()
    assert values(carrier) == [1.0, 2.0, 3.0] and carrier.version == 0


# --- Storage support and unsupported construction ------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_storage_query_a_valid_unsupported_descriptor(kind):
    carrier = make(kind)
    for descriptor in (COMPOUND, DType.from_name("MXFP8_E4M3"), DType.Integer, *NARROW):
        assert carrier.supports_storage_dtype(descriptor) is False


@pytest.mark.parametrize("kind", [*KINDS, Metal])
def test_storage_reject_an_unsupported_simple_encoding(kind):
    for descriptor in NARROW:
        with pytest.raises(ValueError, match=f"{kind.__name__} dtype must be .*: got DType.{descriptor.name}"):
            construct(kind, descriptor)
    for other in ("Float32", float, 3):
        with pytest.raises(TypeError, match=f"{kind.__name__} dtype must be a DType"):
            construct(kind, other)
    if kind is not Metal:
        carrier = make(kind)
        for descriptor in NARROW:
            for factory in (lambda dtype: carrier.new_like([1], dtype=dtype), lambda dtype: carrier.allocate_like(1, dtype=dtype)):
                with pytest.raises(ValueError):
                    factory(descriptor)


@pytest.mark.parametrize("kind", [*KINDS, Metal])
def test_storage_reject_compound_homogeneous_storage(kind):
    message = "homogeneous storage cannot hold its several simple-dtype planes; multi-plane storage is deferred"
    with pytest.raises(ValueError, match=message):
        construct(kind, COMPOUND)
    if kind is not Metal:
        with pytest.raises(ValueError, match=message):
            make(kind).new_like([], dtype=COMPOUND)
        with pytest.raises(ValueError, match=message):
            make(kind).allocate_like(1, dtype=COMPOUND)


# --- CPU ---------------------------------------------------------------------------------------------------------


def test_storage_create_initialized_owned_cpu_storage():
    default = CPU(2)
    assert default.dtype() is FLOAT and default.is_mutable() and default.version == 0
    for dtype in (FLOAT, INT, BOOL):
        carrier = CPU(5, dtype=dtype, empty=False)
        assert carrier.size() == 5 and values(carrier) == [storage_zero(dtype)] * 5
        assert all(type(value) is type(storage_zero(dtype)) for value in values(carrier))
        assert carrier.pointer() > 0
    assert CPU(0).size() == 0 and CPU(0).pointer() > 0


@pytest.mark.parametrize("dtype, code", [(FLOAT, "3f"), (INT, "3i"), (BOOL, "3?")])
def test_storage_wrap_external_memory(dtype, code):
    given = [True, False, True] if dtype is BOOL else [1, -2, 3]
    memory = ctypes.create_string_buffer(struct.pack(code, *given))
    carrier = CPU(3, ctypes.addressof(memory), dtype=dtype)
    assert carrier.pointer() == ctypes.addressof(memory) and values(carrier) == given
    carrier[1] = True if dtype is BOOL else 9
    given[1] = carrier[1]
    assert carrier[1] == (True if dtype is BOOL else 9)
    assert list(struct.unpack_from(code, memory)) == given
    CPU(3, ctypes.addressof(memory), dtype=dtype, empty=True)  # changes no byte
    CPU(3, pointer=ctypes.addressof(memory), dtype=dtype)
    struct.pack_into(code, memory, 0, *given[::-1])
    assert values(carrier) == given[::-1]
    carrier.release()
    assert list(struct.unpack_from(code, memory)) == given[::-1]


def test_cpu_checks_its_arguments():
    for size in ("3", 3.0, None, True):
        with pytest.raises(TypeError):
            CPU(size)
    for size in (-1, -(2**63)):
        with pytest.raises(ValueError):
            CPU(size)
    with pytest.raises(OverflowError):
        CPU(2**63)
    with pytest.raises((MemoryError, OverflowError)):
        CPU(2**62)
    for pointer in ("1", 1.0, True, b"1"):
        with pytest.raises(TypeError):
            CPU(1, pointer)
    for pointer in (0, -1, -(2**63), 2**64):
        with pytest.raises(ValueError):
            CPU(1, pointer)
    for options in ({"mutable": 1}, {"empty": 0}, {"dtype": None}, {"dtype": "Int32"}, {"nosuch": 1}):
        with pytest.raises(TypeError):
            CPU(1, **options)
    with pytest.raises(TypeError, match="positional argument"):
        CPU(1, None, True)
    with pytest.raises(TypeError, match="'size'"):
        CPU()
    with pytest.raises(TypeError):
        CPU(1, size=2)


def test_cpu_memory_is_what_numpy_would_see():
    array = np.array([0.5, np.inf, -0.0], dtype=np.float32)
    carrier = CPU(3, array.ctypes.data)
    assert values(carrier) == [0.5, math.inf, 0.0] and math.copysign(1, carrier[2]) == -1
    carrier[0] = 1e39
    assert array[0] == np.inf
    with pytest.raises(TypeError):
        carrier[0] = "1"
    assert array[0] == np.inf


# --- Factories ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_storage_preserve_dtype_by_default(kind):
    for dtype in (FLOAT, INT):
        receiver = make(kind, [1, 2], dtype)
        made = receiver.new_like([5, 6, 7])
        assert type(made) is kind and made.dtype() is dtype and values(made) == [5, 6, 7] and made.is_mutable()
        assert not receiver.new_like([5], mutable=False).is_mutable()
        made[0] = 8
        assert values(receiver) == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_storage_override_factory_dtype(kind):
    receiver = make(kind, [0.5])
    made = receiver.new_like([1, 2], dtype=INT)
    assert made.dtype() is INT and values(made) == [1, 2] and type(made[0]) is int
    for value, error in [(0.5, TypeError), (2**31, OverflowError)]:
        with pytest.raises(error):
            receiver.new_like([value], dtype=INT)
    assert make(kind, [1], INT).new_like([0.1], dtype=FLOAT)[0] == 0.10000000149011612


@pytest.mark.parametrize("kind", KINDS)
def test_storage_allocate_initialized_storage(kind):
    for dtype in (FLOAT, INT):
        receiver = make(kind, [1, 2], dtype)
        made = receiver.allocate_like(3)
        assert type(made) is kind and made.dtype() is dtype and values(made) == [storage_zero(dtype)] * 3
        made[0] = 4
        assert values(receiver) == [1, 2]


def test_storage_request_an_empty_cpu_allocation():
    carrier = CPU(0, dtype=INT).allocate_like(1000, empty=True)
    assert carrier.size() == 1000 and carrier.dtype() is INT and carrier.is_mutable()
    for slot in range(1000):
        carrier[slot] = slot
    assert values(carrier) == list(range(1000))
    for kind in (Generic, FileBacked):  # they take the word and initialize all the same
        assert values(make(kind).allocate_like(3, empty=True)) == [0.0] * 3


@pytest.mark.parametrize("kind", [Generic, FileBacked, CPU])
def test_storage_reject_a_category_override(kind):
    receiver = make(kind)
    for category in CATEGORIES:
        with pytest.raises(ValueError, match=f"got DType.{category.name}"):
            receiver.new_like([1.0], dtype=category)
        with pytest.raises(ValueError, match=f"got DType.{category.name}"):
            receiver.allocate_like(1, dtype=category)
    for other in ("Float32", float, 3):
        with pytest.raises(TypeError):
            receiver.new_like([1.0], dtype=other)
        with pytest.raises(TypeError):
            receiver.allocate_like(1, dtype=other)


# --- Mutability and version -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_storage_query_an_immutable_carrier(kind):
    carrier = make(kind, mutable=False)
    assert carrier.is_mutable() is False and carrier.is_owned() is False
    for write in (lambda: carrier.__setitem__(0, 9.0), lambda: carrier.set_value(0, 9.0)):
        with pytest.raises(RuntimeError, match="not mutable"):
            write()
    if kind is not FileBacked:
        with pytest.raises(RuntimeError, match="not mutable"):
            carrier.scatter(flat(carrier), flat(carrier), Layout(Shape(3), Stride(1)))
    assert values(carrier) == [1.0, 2.0, 3.0] and carrier.version == 0
    carrier.release()  # an immutable carrier can be given up
    assert carrier.is_released()


@pytest.mark.parametrize("kind", KINDS)
def test_storage_version_an_indexed_write(kind):
    carrier = make(kind)
    for expected in (1, 2, 3):
        carrier[0] = 9.0
        assert carrier.version == expected
    carrier.set_value(0, 9.0)
    assert carrier.version == 4
    with pytest.raises(TypeError):
        carrier[0] = "9"
    assert carrier.version == 4 and carrier[0] == 9.0


# --- Scatter ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Generic, CPU])
def test_storage_scatter_through_a_mapping(kind):
    source = Tensor(make(kind, [9.0, 1.0, 2.0, 3.0, 4.0]), 1, Layout(Shape([2, 2]), Stride([2, 1])))
    carrier = make(kind, [0.0] * 10)
    onto = Tensor(carrier, 1, Layout(Shape(4), Stride(1)))
    version = carrier.version
    # Destination of logical index i: offset of the destination + mapping_offset + mapping.index(i).
    assert carrier.scatter(source, onto, Layout(Shape([2, 2]), Stride([1, 4])), 2) is None
    expected = [0.0] * 10
    for i, j, value in [(0, 0, 1.0), (1, 0, 3.0), (0, 1, 2.0), (1, 1, 4.0)]:
        expected[1 + 2 + i + 4 * j] = value
    assert values(carrier) == expected and carrier.version > version


@pytest.mark.parametrize("kind", [Generic, CPU])
def test_scatter_normalizes_before_it_writes(kind):
    carrier = make(kind, [7, 7, 7], INT)
    source = flat(make(kind, [1.0, 2.0, 3.0]))
    with pytest.raises(TypeError):
        carrier.scatter(source, flat(carrier), Layout(Shape(3), Stride(1)))
    assert values(carrier) == [7, 7, 7] and carrier.version == 0
    # Two values for one slot: the last in logical order stays.
    carrier.scatter(flat(make(kind, [4, 5, 6], INT)), flat(carrier), Layout(Shape(3), Stride(0)))
    assert values(carrier) == [6, 7, 7]
    # A carrier may be its own source: all values are read first.
    carrier.scatter(flat(carrier, size=2), flat(carrier), Layout(Shape(2), Stride(1)), 1)
    assert values(carrier) == [6, 6, 7]


# --- Release ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_storage_release_a_carrier_twice(kind):
    carrier = make(kind)
    path = carrier.path if kind is FileBacked else None
    assert not carrier.is_released()
    for _ in range(2):
        assert carrier.release() is None
        assert carrier.is_released()
        with pytest.raises(RuntimeError, match="released"):
            carrier[0]
        with pytest.raises(RuntimeError, match="released"):
            carrier[0] = 1.0
    assert carrier.dtype() is FLOAT and carrier.supports_storage_dtype(INT)
    assert path is None or not path.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_storage_create_fresh_storage_from_a_released_prototype(kind):
    carrier = make(kind)
    carrier.release()
    made = carrier.new_like([4.0, 5.0])
    assert values(made) == [4.0, 5.0] and made.dtype() is FLOAT and not made.is_released()
    assert values(carrier.allocate_like(2)) == [0.0, 0.0]
    made[0] = 6.0
    assert made[0] == 6.0


# --- Metal ---------------------------------------------------------------------------------------------------------------------------


def test_storage_preserve_cpu_only_use_without_accelerator_dependencies():
    code = """
        import sys
        import orlop
        t = orlop.Tensor(orlop.CPU(0).new_like([1.0, 2.0]), 0, orlop.Layout(orlop.Shape(2), orlop.Stride(1)))
        result = orlop.add(t, t).carrier
        assert [result[0], result[1]] == [2.0, 4.0]
        loaded = [name for name in sys.modules if any(word in name.lower() for word in ("metal", "tilelang", "torch", "numpy"))]
        assert loaded == [], loaded
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_storage_refuse_unavailable_metal_construction():
    for call in (lambda: Metal(3), lambda: Metal(0, mutable=False, dtype=INT, empty=True), lambda: Metal(size=3, dtype=BOOL)):
        with pytest.raises(RuntimeError, match="no Metal runtime is available.*needs macOS on Apple silicon"):
            call()


def test_metal_checks_its_arguments_before_its_runtime():
    for call in (
        lambda: Metal(),
        lambda: Metal("3"),
        lambda: Metal(3.0),
        lambda: Metal(True),
        lambda: Metal(3, None),
        lambda: Metal(3, mutable=1),
        lambda: Metal(3, empty=None),
        lambda: Metal(3, dtype="Float32"),
        lambda: Metal(3, nosuch=True),
    ):
        with pytest.raises(TypeError):
            call()
    for kind in (Metal, CPU):
        for size in (-1, -(2**70)):
            with pytest.raises(ValueError, match="negative"):
                kind(size)
    for dtype in (*CATEGORIES, *NARROW):
        with pytest.raises(ValueError, match="Metal dtype must be DType.Float32, DType.Int32, or DType.Bool"):
            Metal(3, dtype=dtype)
    with pytest.raises(OverflowError):
        Metal(2**63)


# --- Generic ---------------------------------------------------------------------------------------------------------------------------


def test_storage_construct_with_an_explicit_concrete_dtype():
    carrier = Generic([0.1, True, 3], dtype=FLOAT)
    assert carrier.dtype() is FLOAT and values(carrier) == [0.10000000149011612, 1.0, 3.0] and carrier.is_mutable()
    assert all(type(value) is float for value in values(carrier))
    assert values(Generic(iter([1, -2]), dtype=INT)) == [1, -2]
    assert values(Generic((x > 1 for x in range(3)), dtype=BOOL)) == [False, False, True]
    assert not Generic([1], mutable=False, dtype=INT).is_mutable()


def test_storage_require_the_keyword_only_dtype():
    for call in (lambda: Generic([1.0]), lambda: Generic([1.0], mutable=True)):
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'dtype'"):
            call()
    for call in (lambda: Generic([1.0], FLOAT), lambda: Generic([1.0], FLOAT, dtype=FLOAT)):
        with pytest.raises(TypeError, match="positional argument"):
            call()


def test_storage_own_concrete_input_storage():
    for given in ([1.0, 2.0], np.array([1.0, 2.0], dtype=np.float32), np.array([1.0, 2.0])):
        carrier = Generic(given, dtype=FLOAT)
        given[0] = 9.0
        assert values(carrier) == [1.0, 2.0]


def test_storage_reject_category_backed_generic_storage():
    extension = DTypeCategory("GenericTestCategory", supertype=DType.Floating, opaque_storage=True)
    consumed = []

    def given():
        consumed.append(True)
        yield 1.0

    for category in (*CATEGORIES, extension):
        with pytest.raises(ValueError, match="Generic dtype must be DType.Float32, DType.Int32, or DType.Bool"):
            Generic(given(), dtype=category)
    assert consumed == []


def test_generic_refuses_what_its_dtype_cannot_hold():
    for dtype, value, error in [
        (FLOAT, "1", TypeError),
        (FLOAT, None, TypeError),
        (INT, 1.0, TypeError),
        (INT, True, TypeError),
        (INT, None, TypeError),
        (INT, 2**31, OverflowError),
        (INT, -(2**31) - 1, OverflowError),
        (BOOL, 1, TypeError),
        (BOOL, None, TypeError),
        (BOOL, np.True_, TypeError),
    ]:
        with pytest.raises(error):
            Generic([value], dtype=dtype)
    for given in (3, None, object()):
        with pytest.raises(TypeError, match="iterable"):
            Generic(given, dtype=FLOAT)
    for dtype in ("Float32", float, None):
        with pytest.raises(TypeError):
            Generic([1.0], dtype=dtype)
    with pytest.raises(TypeError):
        Generic([1.0], mutable=1, dtype=FLOAT)
    with pytest.raises(TypeError):
        Generic(dtype=FLOAT)
