"""The buffer protocol and __array__: Tensors as exporters, from_buffer, and NumPy on either side (S708-S711)."""

import array as python_arrays
import ctypes
import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
from arrays import compound
from list_carrier import ListCarrier

import orlop
from orlop import CPU, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride, Tensor, friendly

FLOAT, INT, BOOL = DType.Float32, DType.Int32, DType.Bool


class Request(ctypes.Structure):
    """Py_buffer, to ask for exactly some flags."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


SIMPLE, WRITABLE, FORMAT, ND = 0, 0x1, 0x4, 0x8
STRIDES = 0x10 | ND
C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS = 0x20 | STRIDES, 0x40 | STRIDES, 0x80 | STRIDES


def request(tensor, flags):
    """What the view holds of format, shape and strides."""
    view = Request()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.POINTER(Request), ctypes.c_int]
    get(tensor, view, flags)
    found = (view.format, bool(view.shape), bool(view.strides), bool(view.readonly), view.len)
    release = ctypes.pythonapi.PyBuffer_Release
    release.argtypes = [ctypes.POINTER(Request)]
    release(view)
    return found


def matrix():
    return friendly.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


# --- Export


@pytest.mark.parametrize(("dtype", "code"), [(FLOAT, "f"), (INT, "i"), (BOOL, "?")])
def test_a_view_shares_memory_with_the_geometry_of_the_leaf_modes(dtype, code):
    tensor = Tensor(CPU(20, dtype=dtype), 2, Layout(Shape(3, (2, 2)), Stride(1, (0, 6))))
    view = memoryview(tensor)
    item = view.itemsize
    assert (view.format, view.shape, view.strides) == (code, (3, 2, 2), (item, 0, 6 * item))
    assert not view.readonly and view.nbytes == 12 * item
    array = np.asarray(tensor)
    assert array.__array_interface__["data"][0] == tensor.carrier.pointer() + 2 * item
    array[1, 1, 1] = 1
    assert tensor[1, (0, 1)] == 1 and tensor.version == 0


def test_a_view_of_an_immutable_tensor_is_read_only():
    tensor = Tensor(CPU(3, mutable=False), 0, Layout(Shape(3), Stride(1)))
    assert memoryview(tensor).readonly and not np.asarray(tensor).flags.writeable
    with pytest.raises(BufferError, match="not mutable"):
        request(tensor, WRITABLE)
    owned = Tensor(CPU(3), 0, Layout(Shape(3), Stride(1)))
    hierarchy = Evictable(owned.carrier, CPU(0))
    assert memoryview(owned).readonly and hierarchy.is_mutable()


@pytest.mark.parametrize(
    ("order", "accepted", "refused"),
    [
        ("C", [SIMPLE, ND, FORMAT, STRIDES, C_CONTIGUOUS, ANY_CONTIGUOUS], [F_CONTIGUOUS]),
        ("F", [STRIDES, F_CONTIGUOUS, ANY_CONTIGUOUS], [SIMPLE, ND, C_CONTIGUOUS]),
        ("strided", [STRIDES], [SIMPLE, ND, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS]),
    ],
)
def test_contiguity_is_kept_or_refused(order, accepted, refused):
    strides = {"C": Stride(3, 1), "F": Stride(1, 2), "strided": Stride(4, 1)}[order]
    tensor = Tensor(CPU(8), 0, Layout(Shape(2, 3), strides))
    for flags in accepted:
        form, shape, has_strides, readonly, length = request(tensor, flags | WRITABLE)
        assert form == (b"f" if flags & FORMAT else None)
        assert (shape, has_strides) == (bool(flags & ND), flags & STRIDES == STRIDES)
        assert (readonly, length) == (False, 24)
    for flags in refused:
        with pytest.raises(BufferError, match="contiguous"):
            request(tensor, flags)


def test_other_tensors_export_no_buffer():
    with pytest.raises(NotImplementedError, match="Multi-subtensor"):
        memoryview(compound())
    one = Layout(Shape(1), Stride(1))
    for carrier in (Generic([1.0], dtype=FLOAT), ListCarrier([1.0]), Evictable(CPU(1), CPU(0))):
        with pytest.raises(BufferError, match="CPU"):
            memoryview(Tensor(carrier, 0, one))
    released = matrix()
    released.carrier.release()
    evicted = Tensor(Evictable(CPU(1), FileBacked(dtype=FLOAT)), 0, one)
    evicted.carrier.evict()
    for tensor, word in ((released, "released"), (evicted, "evicted")):
        for look in (memoryview, Tensor.__array__):
            with pytest.raises(RuntimeError, match=word):
                look(tensor)
    with pytest.raises(BufferError, match="too many"):
        memoryview(Tensor(CPU(1), 0, Layout(Shape(2**62), Stride(0))))


def test_views_keep_the_tensor_and_leak_nothing():
    tensor = matrix()
    references, gone = sys.getrefcount(tensor), weakref.ref(tensor)
    for _ in range(100):
        memoryview(tensor)
        np.asarray(tensor)
        tensor.__array__()
        with pytest.raises(BufferError):
            request(tensor, C_CONTIGUOUS)
    assert sys.getrefcount(tensor) == references
    view = memoryview(tensor)
    del tensor
    assert gone() is not None and view[1, 2] == 6.0
    view.release()
    gc.collect()
    assert gone() is None


def test_bytes_of_a_tensor():
    tensor = Tensor(CPU(6), 0, Layout(Shape(2, 3), Stride(3, 1)))
    tensor[1, 2] = 1.0
    assert bytes(tensor) == bytes(20) + np.float32(1.0).tobytes()
    assert ctypes.c_float.from_buffer(memoryview(tensor).cast("B")).value == 0.0


# --- __array__


def test_numpy_takes_a_tensor_as_an_array():
    tensor = matrix()
    assert np.asarray(tensor).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert np.shares_memory(np.asarray(tensor), np.from_dlpack(tensor))
    assert not np.shares_memory(np.array(tensor), np.asarray(tensor))
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    assert np.sum(tensor.__array__()) == 21.0
    assert np.asarray(Tensor(CPU(1), 0, Layout.empty())).shape == ()


@pytest.mark.parametrize(
    "carrier",
    [
        lambda: Generic([1.0, 2.0, 3.0, 4.0], dtype=FLOAT),
        lambda: ListCarrier([1.0, 2.0, 3.0, 4.0]),
        lambda: Evictable(CPU(0).new_like([1.0, 2.0, 3.0, 4.0]), CPU(0)),
        lambda: FileBacked(dtype=FLOAT).new_like([1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_other_carriers_give_a_fresh_array(carrier):
    tensor = Tensor(carrier(), 0, Layout(Shape(2, 2), Stride(2, 1)))
    for array in (np.asarray(tensor), tensor.__array__(), tensor.__array__(copy=True)):
        assert array.tolist() == [[1.0, 2.0], [3.0, 4.0]] and array.dtype == np.float32
        array[0, 0] = 9.0
    assert tensor[0, 0] == 1.0
    with pytest.raises(ValueError, match="copy=False"):
        tensor.__array__(copy=False)


def test_a_carrier_of_any_values_gives_their_array():
    tensor = Tensor(ListCarrier([1.5, 2, True], dtype=DType.Any), 0, Layout(Shape(3), Stride(1)))
    assert tensor.__array__().tolist() == [1.5, 2.0, 1.0]


def test_dtype_and_copy_of_array():
    tensor = matrix()
    assert np.shares_memory(tensor.__array__(np.float32, copy=False), np.asarray(tensor))
    assert tensor.__array__("int64").tolist() == [[1, 2, 3], [4, 5, 6]]
    assert not np.shares_memory(tensor.__array__(copy=True), np.asarray(tensor))
    with pytest.raises(ValueError, match="copy=False"):
        tensor.__array__(np.float64, copy=False)
    with pytest.raises(TypeError, match="copy"):
        tensor.__array__(copy=1)
    with pytest.raises(TypeError):
        tensor.__array__("no such type")
    with pytest.raises(NotImplementedError):
        compound().__array__()


# --- from_buffer


@pytest.mark.parametrize(
    ("exporter", "dtype"),
    [
        (python_arrays.array("f", [1, 0, 1]), FLOAT),
        (python_arrays.array("i", [1, 0, 1]), INT),
        ((ctypes.c_float * 3)(1, 0, 1), FLOAT),
        ((ctypes.c_int32 * 3)(1, 0, 1), INT),
        (memoryview(bytearray(b"\1\0\5")).cast("?"), BOOL),
        (np.array([1, 0, 1], np.bool_), BOOL),
    ],
)
def test_native_buffers_are_shared(exporter, dtype):
    tensor = orlop.from_buffer(exporter)
    assert type(tensor.carrier) is CPU and tensor.dtype() is dtype
    assert friendly.to_list(tensor) == [1, 0, 1] and tensor.is_mutable() and tensor.version == 0
    tensor[1] = True if dtype is BOOL else 1
    assert exporter[1] == 1
    copied = orlop.from_buffer(exporter, copy=True)
    tensor[0] = False if dtype is BOOL else 0
    assert friendly.to_list(copied) == [1, 1, 1]


def test_the_exporter_is_held_until_the_last_export_is_gone():
    exporter = python_arrays.array("f", [1.0] * 9)
    tensor = orlop.from_buffer(exporter)
    view = memoryview(tensor)
    with pytest.raises(BufferError):
        exporter.append(1.0)
    tensor.carrier.release()
    with pytest.raises(BufferError):
        exporter.append(1.0)
    view.release()
    gc.collect()
    del tensor
    exporter.append(1.0)
    orlop.from_buffer(exporter, copy=True)
    exporter.append(1.0)  # the copy holds nothing
    released = orlop.from_buffer(exporter)
    released.carrier.release()
    exporter.append(1.0)


def test_arguments_of_from_buffer():
    for wrong in (3, "abc", [1.0], object()):
        with pytest.raises(TypeError, match="no buffer"):
            orlop.from_buffer(wrong)
    for copy in (1, "yes"):
        with pytest.raises(TypeError, match="copy"):
            orlop.from_buffer(b"", copy=copy)


@pytest.mark.parametrize(
    "exporter",
    [
        b"abcd",
        np.zeros(2, np.float64),
        np.zeros(2, np.float16),
        np.zeros(2, np.int64),
        np.zeros(2, np.uint32),
        np.zeros(2, np.complex64),
        np.zeros(2, np.dtype(np.float32).newbyteorder("S")),
        np.zeros(2, np.dtype(np.int32).newbyteorder("S")),
        np.zeros(2, [("a", np.float32)]),
        memoryview(bytearray(4)),
    ],
)
def test_other_items_are_refused(exporter):
    with pytest.raises(BufferError, match="float32, int32 or bool"):
        orlop.from_buffer(exporter)


def test_other_geometries_are_refused():
    packed = np.zeros(3, [("a", "f4"), ("b", "u1")])["a"]  # 5 bytes apart
    with pytest.raises(BufferError, match="multiple"):
        orlop.from_buffer(packed)
    raw = np.zeros(9, np.uint8)[1:].view(np.float32)
    with pytest.raises(BufferError):
        orlop.from_buffer(raw)
    with pytest.raises(ValueError, match="extent is 0"):
        orlop.from_buffer(np.zeros((2, 0), np.float32))
    array = np.arange(4, dtype=np.float32)
    with pytest.raises(ValueError, match="copy=True"):
        orlop.from_buffer(array[::-1])
    assert friendly.to_list(orlop.from_buffer(array[::-1], copy=True)) == [3.0, 2.0, 1.0, 0.0]


def test_a_read_only_exporter_makes_an_immutable_tensor():
    array = np.arange(3, dtype=np.int32)
    array.flags.writeable = False
    tensor = orlop.from_buffer(array)
    with pytest.raises(RuntimeError, match="not mutable"):
        tensor[0] = 1
    assert orlop.from_buffer(array, copy=True).is_mutable()


def test_a_transposed_array_is_shared_and_released_once():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    references = sys.getrefcount(array)
    tensor = orlop.from_buffer(array.T)
    assert tensor.carrier.pointer() == array.ctypes.data
    assert tensor.layout == Layout(Shape(3, 2), Stride(1, 3))
    tensor[2, 1] = 50
    assert array[1, 2] == 50
    del tensor
    gc.collect()
    assert sys.getrefcount(array) == references
    with pytest.raises(BufferError):
        orlop.from_buffer(np.zeros(3))
    assert orlop.from_buffer(np.array(7, np.int32)).layout == Layout(Shape(1), Stride(1))


def test_a_tensor_is_an_exporter_too():
    tensor = matrix()
    again = orlop.from_buffer(tensor)
    assert again.layout == tensor.layout and again.carrier.pointer() == tensor.carrier.pointer()
    again[0, 0] = 8.0
    assert tensor[0, 0] == 8.0


def test_numpy_is_not_loaded_by_any_of_this():
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "if True:\n"
            "    import array, sys, orlop\n"
            "    orlop.from_buffer(array.array('f', [1.0]))\n"
            "    orlop.from_dlpack(orlop.from_buffer(array.array('f', [1.0])))\n"
            "    assert 'numpy' not in sys.modules",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
