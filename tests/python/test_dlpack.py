"""DLPack both ways: every row of S701 and S709 with its exception, ownership, hostile producers."""

import ctypes
import gc
import math
import subprocess
import sys
import threading
import weakref

import dlpack_structs as dl
import numpy as np
import pytest
from arrays import compound
from dlpack_structs import Producer
from hypothesis import given
from hypothesis import strategies as st
from list_carrier import ListCarrier

import orlop
from orlop import CPU, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride, Tensor, friendly

FLOAT, INT, BOOL = DType.Float32, DType.Int32, DType.Bool


def vector(count=3, dtype=FLOAT):
    return friendly.tensor(list(range(count)), dtype=dtype)


class Lender(ListCarrier):
    """A Python carrier that says anything about its memory."""

    info = None

    def dlpack_info(self):
        return self.info


def lender(info, dtype=FLOAT):
    carrier = Lender([1.0, 2.0], dtype=dtype)
    carrier.info = info
    return Tensor(carrier, 0, Layout(Shape(2), Stride(1)))


# --- Export, S701 in order


def test_export_of_a_compound_tensor_is_not_implemented_before_anything_else():
    for call in (lambda: compound().__dlpack__(copy=True), lambda: compound().__dlpack_device__()):
        with pytest.raises(NotImplementedError, match="Multi-subtensor"):
            call()


def test_copy_exports_are_refused_before_the_carrier_is_asked():
    with pytest.raises(BufferError, match="copy exports"):
        lender("asked").__dlpack__(copy=True)
    with pytest.raises(BufferError, match="copy exports"):
        vector().__dlpack__(copy=1)
    assert dl.name_of(vector().__dlpack__(copy=False)) == b"dltensor"

    class Raises:
        def __bool__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        vector().__dlpack__(copy=Raises())


@pytest.mark.parametrize(
    ("info", "error"),
    [
        (3, TypeError),
        ("words", TypeError),
        ([1, 2], TypeError),
        ({}, KeyError),
        ({"pointer": 64, "device_type": 1}, KeyError),
        ({"pointer": 1.5, "device_type": 1, "device_id": 0}, TypeError),
        ({"pointer": True, "device_type": 1, "device_id": 0}, TypeError),
        ({"pointer": -4, "device_type": 1, "device_id": 0}, ValueError),
        ({"pointer": 2**70, "device_type": 1, "device_id": 0}, ValueError),
        ({"pointer": 64, "device_type": 2**40, "device_id": 0}, ValueError),
        ({"pointer": 0, "device_type": 1, "device_id": 0}, BufferError),
    ],
)
def test_what_a_python_carrier_says_of_its_memory_is_checked(info, error):
    for call in (lambda: lender(info).__dlpack__(), lambda: lender(info).__dlpack_device__()):
        with pytest.raises(error):
            call()


def test_a_python_carrier_may_lend_memory_of_its_own():
    values = np.array([5.0, 6.0], np.float32)
    pairs = [("pointer", values.ctypes.data), ("device_type", 1), ("device_id", 0), ("more", "ignored")]
    for info in (dict(pairs), pairs):  # anything that makes a dict
        tensor = lender(info)
        assert tensor.__dlpack_device__() == (1, 0)
        assert np.from_dlpack(tensor).tolist() == [5.0, 6.0]

    def fails(self):
        raise LookupError("the hook's own")

    class Failing(Lender):
        dlpack_info = fails

    with pytest.raises(LookupError, match="the hook's own"):
        Tensor(Failing([1.0]), 0, Layout(Shape(1), Stride(1))).__dlpack__()


def test_carriers_without_memory_to_lend_refuse():
    layout = Layout(Shape(1), Stride(1))
    for carrier in (
        Generic([1.0], dtype=FLOAT),
        ListCarrier([1.0]),
        Evictable(CPU(1), FileBacked(dtype=FLOAT)),
        FileBacked(dtype=FLOAT).allocate_like(1),
    ):
        tensor = Tensor(carrier, 0, layout)
        for call in (tensor.__dlpack__, tensor.__dlpack_device__):
            with pytest.raises(BufferError):
                call()
    with pytest.raises(BufferError, match="Evictable"):
        Tensor(Evictable(CPU(1), CPU(0)), 0, layout).__dlpack__()
    with pytest.raises(BufferError, match="not supported"):
        Tensor(Generic([1.0], dtype=FLOAT), 0, layout).__dlpack__()


def test_a_released_carrier_lends_nothing():
    tensor = vector()
    tensor.carrier.release()
    for call in (lambda: tensor.__dlpack__(dl_device=3), tensor.__dlpack_device__):
        with pytest.raises(BufferError, match="released"):
            call()


@pytest.mark.parametrize(
    ("device", "error", "words"),
    [
        ("cpu", TypeError, "tuple"),
        ((1,), ValueError, "two"),
        ((1, 0, 0), ValueError, "two"),
        ((2, 0), BufferError, "cross-device"),
        ([1, 1], BufferError, "cross-device"),
        (("a", "b"), BufferError, "cross-device"),
    ],
)
def test_another_device_is_refused(device, error, words):
    with pytest.raises(error, match=words):
        vector(dtype=INT).__dlpack__(dl_device=device, max_version="later")
    assert dl.name_of(vector().__dlpack__(dl_device=[1, 0])) == b"dltensor"


def test_bool_has_a_device_but_no_export():
    tensor = friendly.tensor([True, False], dtype=BOOL)
    assert tensor.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="Float32.*Int32"):
        tensor.__dlpack__(max_version="later")


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("1.0", TypeError),
        (1, TypeError),
        ((1,), ValueError),
        ((-1, 0), ValueError),
        ((1, -1), ValueError),
        ((1.0, 0), TypeError),
        ((2**80, 0), ValueError),
    ],
)
def test_a_malformed_version_is_refused(version, error):
    with pytest.raises(error):
        vector().__dlpack__(max_version=version)


def test_a_tuple_that_lies_about_its_length_is_no_pair():
    class Liar(tuple):
        def __len__(self):
            return 2

        def __iter__(self):
            return iter(())

    for option in ("max_version", "dl_device"):
        with pytest.raises(ValueError, match="two"):
            vector().__dlpack__(**{option: Liar((1, 0))})


def test_the_version_chooses_the_capsule():
    tensor = vector(dtype=INT)
    for version in (None, (0, 8), [0, 0]):
        assert dl.name_of(tensor.__dlpack__(max_version=version)) == b"dltensor"
    for version in ((1, 0), (1, 3), [2, 0]):
        capsule = tensor.__dlpack__(7, max_version=version)
        assert dl.name_of(capsule) == b"dltensor_versioned"
        struct = dl.managed_of(capsule)
        assert (struct.version.major, struct.version.minor) == (1, 0)


def test_geometry_is_that_of_the_leaf_modes():
    tensor = Tensor(CPU(40, dtype=INT), 5, Layout(Shape(3, (2, 2)), Stride(1, (0, 6))))
    capsule = tensor.__dlpack__()
    lent = dl.managed_of(capsule).tensor
    assert (lent.ndim, lent.shape[:3], lent.strides[:3]) == (3, [3, 2, 2], [1, 0, 6])
    assert (lent.data, lent.byte_offset) == (tensor.carrier.pointer(), 20)
    assert (lent.dtype.code, lent.dtype.bits, lent.dtype.lanes) == (0, 32, 1)
    assert (lent.device.type, lent.device.id) == (1, 0)
    capsule = Tensor(CPU(1), 0, Layout.empty()).__dlpack__()
    scalar = dl.managed_of(capsule).tensor
    assert (scalar.ndim, scalar.dtype.code) == (0, 2)


def test_numpy_sees_nested_modes_and_byte_strides():
    tensor = Tensor(CPU(12), 0, Layout(Shape(3, (2, 2)), Stride(1, (3, 6))))
    array = np.from_dlpack(tensor)
    assert (array.shape, array.strides) == ((3, 2, 2), (4, 12, 24))
    array[2, 1, 1] = 8.0
    assert tensor[2, (1, 1)] == 8.0


def test_the_read_only_flag_says_whether_the_tensor_is_mutable():
    def flags(tensor):
        capsule = tensor.__dlpack__(max_version=(1, 0))
        return dl.managed_of(capsule).flags

    layout = Layout(Shape(2), Stride(1))
    assert flags(vector()) == 0
    assert flags(Tensor(CPU(2, mutable=False), 0, layout)) == 1
    tensor = Tensor(CPU(2), 0, layout)
    hierarchy = Evictable(tensor.carrier, CPU(0))
    assert flags(tensor) == 1  # owned: not publicly mutable
    assert hierarchy.is_mutable()
    assert not np.from_dlpack(Tensor(CPU(2, mutable=False), 0, layout)).flags.writeable


def test_export_touches_nothing():
    x = vector()
    y = x * 2
    before = (y.version, y.autograd_ctx, y.grad, y.carrier.is_owned())
    array = np.from_dlpack(y)
    assert (y.version, y.autograd_ctx, y.grad, y.carrier.is_owned()) == before
    array[0] = 9.0
    assert y[0] == 9.0 and y.version == before[0]


# --- Ownership


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_an_unconsumed_capsule_frees_its_tensor_once(version):
    tensor = vector()
    gone = weakref.ref(tensor)
    capsule = tensor.__dlpack__(max_version=version)
    del tensor
    gc.collect()
    assert gone() is not None
    del capsule
    assert gone() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_consumed_capsule_frees_through_its_consumer(version):
    tensor = vector()
    gone = weakref.ref(tensor)
    capsule = tensor.__dlpack__(max_version=version)
    managed = dl.consume(capsule)
    del tensor, capsule
    assert gone() is not None
    thread = threading.Thread(target=dl.delete, args=[managed])  # on any thread
    thread.start()
    thread.join()
    assert gone() is None


@pytest.mark.parametrize("count", [3, 100_000])
def test_owned_memory_outlives_release_and_move(count):
    for give_up in (
        lambda tensor: tensor.carrier.release(),
        lambda tensor: orlop.move(tensor, FileBacked(dtype=FLOAT)),
        lambda tensor: None,
    ):
        tensor = vector(count)
        array, view = np.from_dlpack(tensor), memoryview(tensor)
        give_up(tensor)
        gone = weakref.ref(tensor.carrier)
        del tensor
        assert array[-1] == view[-1] == count - 1
        array[0] = 4.0
        assert view[0] == 4.0
        del array
        view.release()
        gc.collect()
        assert gone() is None


def test_exports_leak_nothing():
    tensor = vector()
    references = sys.getrefcount(tensor)
    for _ in range(100):
        for version in (None, (1, 0)):
            tensor.__dlpack__(max_version=version)
            dl.delete(dl.consume(tensor.__dlpack__(max_version=version)))
        np.from_dlpack(tensor)
        for bad in ({"copy": True}, {"dl_device": (2, 0)}, {"max_version": "x"}):
            with pytest.raises((BufferError, TypeError)):
                tensor.__dlpack__(**bad)
    assert sys.getrefcount(tensor) == references


def child(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


def test_capsules_arrays_and_borrowed_tensors_survive_the_end_of_the_interpreter():
    ended = child("""if True:
        import atexit, sys
        import numpy as np, orlop
        from orlop import friendly
        tensor = friendly.tensor([1.0] * 1000)
        capsule = tensor.__dlpack__()
        array = np.from_dlpack(tensor)
        view = memoryview(tensor)
        borrowed = orlop.from_dlpack(np.arange(1000, dtype=np.int32))
        buffered = orlop.from_buffer(np.arange(1000, dtype=np.int32))
        again = orlop.from_dlpack(borrowed)
        sys.kept = [capsule, array, view, borrowed, buffered, again]
        class Late:
            def __del__(self):
                print("late", len(self.kept))
        late = Late(); late.kept = sys.kept
        atexit.register(lambda: print(float(array[0]), int(again[999])))
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1.0 999\nlate 6\n", "")


def test_a_forked_child_ends_its_copies_alone():
    ended = child("""if True:
        import os
        import numpy as np, orlop
        from orlop import friendly
        tensor = friendly.tensor([1.0] * 1000)
        array, borrowed = np.from_dlpack(tensor), orlop.from_dlpack(np.ones(9, np.float32))
        pid = os.fork()
        if pid == 0:
            tensor.carrier.release(); borrowed.carrier.release()
            del tensor, borrowed
            os._exit(0 if array.sum() == 1000 else 1)
        print(os.waitpid(pid, 0)[1], tensor[3], borrowed[8], array.sum())
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0 1.0 1.0 1000.0\n", "")


# --- Import


def array_memory(values, dtype=np.float32):
    array = np.array(values, dtype)
    return array, array.ctypes.data


def borrowed(**options):
    array, address = array_memory(range(12))
    producer = Producer(address, options.pop("shape", (3, 4)), options.pop("strides", None), **options)
    producer.array = array
    return producer


def test_a_transposed_int32_array_is_shared_both_ways():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    tensor = orlop.from_dlpack(array.T)
    assert type(tensor.carrier) is CPU and tensor.carrier.pointer() == array.ctypes.data
    assert tensor.layout == Layout(Shape(4, 3), Stride(1, 4))
    assert (tensor.dtype(), tensor.version, tensor.offset, tensor.carrier.size()) == (INT, 0, 0, 12)
    assert tensor.autograd_ctx is None and tensor.is_mutable()
    tensor[1, 2] = 70
    array[0, 3] = 80
    assert array[2, 1] == 70 and tensor[3, 0] == 80
    assert np.from_dlpack(tensor).__array_interface__["data"][0] == array.ctypes.data


@pytest.mark.parametrize("kind", [dl.Managed, dl.ManagedVersioned])
def test_the_producer_is_let_go_exactly_once(kind):
    producer = borrowed(kind=kind)
    tensor = orlop.from_dlpack(producer)
    assert tensor[2, 3] == 11.0 and producer.deleted == 0
    del tensor
    gc.collect()
    assert producer.deleted == 1

    producer = borrowed(kind=kind)
    tensor = orlop.from_dlpack(producer)
    tensor.carrier.release()
    assert producer.deleted == 1
    tensor.carrier.release()
    del tensor
    gc.collect()
    assert producer.deleted == 1


def test_an_export_of_a_borrowed_tensor_keeps_the_producer():
    producer = borrowed()
    tensor = orlop.from_dlpack(producer)
    array = np.from_dlpack(tensor)
    again = orlop.from_dlpack(array)
    tensor.carrier.release()
    del tensor, array
    gc.collect()
    assert producer.deleted == 0 and again[2, 3] == 11.0
    thread = threading.Thread(target=again.carrier.release)
    thread.start()
    thread.join()
    assert producer.deleted == 1


def test_with_a_copy_the_producer_goes_before_the_return():
    events = []
    producer = borrowed(on_delete=lambda: events.append("deleted"), flags=1)
    tensor = orlop.from_dlpack(producer, copy=True)
    events.append("returned")
    assert events == ["deleted", "returned"]
    assert tensor.is_mutable() and tensor.layout == Layout(Shape(3, 4), Stride(1, 3))
    assert friendly.to_list(tensor) == producer.array.reshape(3, 4).ravel("F").tolist()


def test_a_read_only_producer_makes_an_immutable_tensor():
    tensor = orlop.from_dlpack(borrowed(flags=1))
    assert not tensor.is_mutable()
    with pytest.raises(RuntimeError, match="not mutable"):
        tensor[0, 0] = 1.0
    assert orlop.from_dlpack(borrowed(kind=dl.Managed)).is_mutable()


def test_what_is_asked_of_the_producer():
    producer = borrowed()
    orlop.from_dlpack(producer)
    assert producer.requests == [{"max_version": (1, 0)}]

    class Old:
        def __init__(self):
            self.producer = borrowed(kind=dl.Managed)

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self):
            return self.producer.__dlpack__()

    old = Old()
    assert orlop.from_dlpack(old)[0, 1] == 1.0
    assert old.producer.requests == [{}]


def test_arguments_of_from_dlpack():
    array = np.ones(3, np.float32)
    for wrong in (3, "abc", [1.0], object(), array.__dlpack__()):
        with pytest.raises(TypeError, match="__dlpack"):
            orlop.from_dlpack(wrong)
    for device in (None, "cpu", (1, 0)):
        assert orlop.from_dlpack(array, device=device)[0] == 1.0
    for device in ("gpu", (2, 0), (1, 1), (1,)):
        with pytest.raises(BufferError, match="device"):
            orlop.from_dlpack(array, device=device)
    for device in (1, [1, 0], object()):
        with pytest.raises(TypeError, match="device"):
            orlop.from_dlpack(array, device=device)
    for copy in (1, 0, "yes", np.True_):
        with pytest.raises(TypeError, match="copy"):
            orlop.from_dlpack(array, copy=copy)
    with pytest.raises(TypeError):
        orlop.from_dlpack(x=array)


def test_a_producer_elsewhere_is_refused_before_a_capsule_is_asked_for():
    producer = borrowed(device=(2, 0))
    with pytest.raises(BufferError, match="device"):
        orlop.from_dlpack(producer)
    assert producer.requests == []
    for device in (None, (1,), [1, 0], ("cpu", 0), (1, 2**70)):
        producer.device = device
        with pytest.raises((TypeError, OverflowError)):
            orlop.from_dlpack(producer)
    assert producer.requests == []


def test_what_is_no_fresh_capsule_is_refused():
    class Gives:
        def __init__(self, given):
            self.given = given

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            return self.given

    capsule = np.ones(3, np.float32).__dlpack__()
    orlop.from_dlpack(Gives(capsule))
    assert dl.name_of(capsule) == b"used_dltensor"
    with pytest.raises(BufferError, match="used"):
        orlop.from_dlpack(Gives(capsule))
    capsule = np.ones(3, np.float32).__dlpack__(max_version=(1, 0))
    orlop.from_dlpack(Gives(capsule))
    with pytest.raises(BufferError, match="used"):
        orlop.from_dlpack(Gives(capsule))
    with pytest.raises(TypeError, match="capsule"):
        orlop.from_dlpack(Gives(3))
    with pytest.raises(TypeError, match="capsule"):
        orlop.from_dlpack(borrowed(capsule_name=b"another"))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"major": 2}, BufferError, "version 2"),
        ({"dtype": (2, 64, 1)}, BufferError, "float64.*float32, int32 or bool"),
        ({"dtype": (2, 16, 1)}, BufferError, "float16"),
        ({"dtype": (4, 16, 1)}, BufferError, "bfloat16"),
        ({"dtype": (0, 64, 1)}, BufferError, "int64"),
        ({"dtype": (1, 8, 1)}, BufferError, "uint8"),
        ({"dtype": (6, 1, 1)}, BufferError, "bool1"),
        ({"dtype": (2, 32, 4)}, BufferError, "4 lanes"),
        ({"dtype": (2, 32, 0)}, BufferError, "0 lanes"),
        ({"dtype": (200, 32, 1)}, BufferError, "code 200"),
        ({"ndim": -1}, BufferError, "-1"),
        ({"ndim": 65}, BufferError, "65"),
        ({"ndim": 2**31 - 1}, BufferError, "dimensions"),
        ({"shape": (3, 0)}, ValueError, "extent is 0"),
        ({"shape": (3, -4)}, BufferError, "negative"),
        ({"strides": (-4, 1)}, ValueError, "copy=True"),
        ({"strides": (-(2**63), 1)}, OverflowError, "64 bits"),
        ({"shape": (2**40, 2**40)}, OverflowError, "64 bits"),
        ({"shape": (2**40, 2**40), "strides": (0, 0)}, OverflowError, "64 bits"),
        ({"shape": (2**31, 2**31), "strides": (2**32, 1)}, OverflowError, "64 bits"),
        ({"shape": (2**61,), "strides": (1,)}, OverflowError, "64 bits"),
        ({"byte_offset": 2}, BufferError, "misaligned"),
        ({"byte_offset": 2**64 - 4}, OverflowError, "byte offset"),
    ],
)
def test_a_hostile_struct_is_refused_unconsumed(options, error, words):
    producer = borrowed(**options)
    with pytest.raises(error, match=words):
        orlop.from_dlpack(producer)
    assert producer.deleted == 0  # the capsule is still the producer's


def test_null_and_misaligned_data_are_refused():
    for address, words in ((None, "null"), (array_memory([1.0, 2.0])[1] + 1, "misaligned")):
        producer = Producer(address, (1,))
        for copy in (None, True):
            with pytest.raises(BufferError, match=words):
                orlop.from_dlpack(producer, copy=copy)
        assert producer.deleted == 0


def test_a_null_shape_and_a_null_deleter():
    producer = borrowed()
    producer.managed.tensor.shape = ctypes.POINTER(ctypes.c_int64)()
    with pytest.raises(BufferError, match="shape"):
        orlop.from_dlpack(producer)
    producer = borrowed()
    producer.managed.deleter = dl.DELETER()
    assert orlop.from_dlpack(producer)[0, 0] == 0.0
    assert orlop.from_dlpack(producer, copy=True)[0, 1] == 1.0


def test_no_dimensions_make_one_element():
    array, address = array_memory([7.0])
    for copy in (None, True):
        tensor = orlop.from_dlpack(Producer(address, ()), copy=copy)
        assert tensor.layout == Layout(Shape(1), Stride(1)) and tensor[0] == array[0]


def test_zero_strides_share_one_slot():
    array = np.broadcast_to(np.float32(3.0), (1000, 1000))
    producer = Producer(array.ctypes.data, (1000, 1000), (0, 0))
    tensor = orlop.from_dlpack(producer)
    assert tensor.carrier.size() == 1 and tensor.layout == Layout(Shape(1000, 1000), Stride(0, 0))
    assert tensor[999, 5] == 3.0
    tiny = orlop.from_dlpack(Producer(array.ctypes.data, (2, 3), (0, 0)), copy=True)
    assert friendly.to_list(tiny) == [3.0] * 6 and tiny.carrier.size() == 6


def test_any_byte_but_zero_is_true():
    raw = np.array([0, 1, 2, 255], np.uint8)
    tensor = orlop.from_dlpack(Producer(raw.ctypes.data, (4,), dtype=dl.BOOL))
    assert friendly.to_list(tensor) == [False, True, True, True]
    copied = orlop.from_dlpack(Producer(raw.ctypes.data, (4,), dtype=dl.BOOL), copy=True)
    assert bytes(memoryview(copied).cast("B")) == b"\0\1\1\1"


def test_an_error_inside_a_producer_is_its_own():
    class Fails:
        def __dlpack_device__(self):
            raise ZeroDivisionError("mine")

        def __dlpack__(self, **options):
            raise ArithmeticError

    with pytest.raises(ZeroDivisionError, match="mine"):
        orlop.from_dlpack(Fails())


# numpy's own arrays as the model


def strided_arrays():
    @st.composite
    def draw(pick):
        dtype = pick(st.sampled_from([np.float32, np.int32, np.bool_]))
        extents = pick(st.lists(st.integers(1, 4), min_size=1, max_size=4))
        base = np.arange(np.prod(extents)).reshape(extents).astype(dtype)
        order = pick(st.permutations(range(len(extents))))
        keys = tuple(
            slice(pick(st.integers(0, extent - 1)), None, pick(st.sampled_from([1, 1, 2, 3]))) for extent in extents
        )
        return base[keys].transpose(order)

    return draw()


@given(strided_arrays())
def test_imports_agree_with_numpy(array):
    shared, copied = orlop.from_dlpack(array), orlop.from_dlpack(array, copy=True)
    assert shared.shape == copied.shape == array.shape
    assert friendly.to_list(shared) == friendly.to_list(copied) == array.ravel("F").tolist()
    assert shared.carrier.pointer() == array.ctypes.data
    if array.dtype != np.bool_:
        assert np.array_equal(np.from_dlpack(shared), array)
        assert np.from_dlpack(shared).strides == array.strides


@given(strided_arrays(), st.data())
def test_negative_strides_are_copied(array, data):
    flipped = array[tuple(slice(None, None, data.draw(st.sampled_from([-1, 1]))) for _ in array.shape)]
    copied = orlop.from_dlpack(flipped, copy=True)
    assert friendly.to_list(copied) == flipped.ravel("F").tolist()


def test_special_values_cross_bit_for_bit():
    bits = np.array([0x7FC00001, 0xFF800001, 0x80000000, 1, 0x7F800000], np.uint32)
    tensor = orlop.from_dlpack(bits.view(np.float32))
    assert np.from_dlpack(tensor).view(np.uint32).tolist() == bits.tolist()
    copied = orlop.from_dlpack(bits.view(np.float32)[::-1], copy=True)
    assert np.from_dlpack(copied).view(np.uint32).tolist() == bits.tolist()[::-1]


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (4, 1, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.int32, np.bool_])
def test_round_trips_with_other_libraries(library, shape, kind):
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    array = np.arange(math.prod(shape)).reshape(shape).astype(kind)
    if kind is np.float32:
        array.flat[0] = np.nan
    take, give = {
        "torch": lambda: (module.from_dlpack, module.from_numpy),
        "jax": lambda: (module.dlpack.from_dlpack, module.numpy.asarray),
    }[library]()
    there = orlop.from_dlpack(give(array))
    assert there.shape == shape and np.array_equal(np.asarray(there), array, equal_nan=kind is np.float32)
    if kind is np.bool_:  # has no export (S701)
        with pytest.raises(BufferError, match="Bool|Float32"):
            take(there)
        return
    back = take(there * 1)
    assert np.array_equal(np.asarray(back), array, equal_nan=kind is np.float32)
    again = orlop.from_dlpack(back)
    del there, back
    gc.collect()
    assert np.array_equal(np.asarray(again), array, equal_nan=kind is np.float32)
