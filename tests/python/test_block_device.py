"""Block devices: opening, extents, slots, moves, faults, locking, closing, forks, real loop devices."""

import array
import errno
import gc
import numbers
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import weakref

import orlop
import pytest
from orlop import CPU, BlockDevice, BlockDeviceCarrier, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride
from orlop import Tensor, friendly, move, move_async
from orlop._testing import Gate, IoScript, open_block_device
from orlop.carriers import move as moves

CAPACITY = 1 << 20
PATIENCE = 60


@pytest.fixture
def node(tmp_path):
    path = tmp_path / "node"
    path.write_bytes(b"")
    os.truncate(path, CAPACITY)
    return path


@pytest.fixture
def device(node):
    return open_block_device(node, capacity=CAPACITY)


def scripted(node, **script):
    script = IoScript(**script)
    return open_block_device(node, capacity=CAPACITY, script=script), script


def line(carrier, count, offset=0, stride=1):
    return Tensor(carrier, offset, Layout(Shape(count), Stride(stride)))


def cpu_line(*values):
    return line(CPU(0).new_like(values), len(values))


def values(carrier):
    return [carrier[i] for i in range(carrier.size())]


def floats(node, offset, count):
    with open(node, "rb") as file:
        file.seek(offset)
        return array.array("f", file.read(4 * count)).tolist()


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


# --- Opening


def test_other_nodes_are_refused_and_left_alone(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"kept")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    before = descriptors()
    for path in (file, str(file), tmp_path, "/dev/null", fifo):
        with pytest.raises(ValueError, match="block device"):
            BlockDevice(path)
    with pytest.raises(FileNotFoundError) as caught:
        BlockDevice(tmp_path / "none")
    assert caught.value.filename == str(tmp_path / "none")
    assert file.read_bytes() == b"kept" and descriptors() == before


class Path:
    def __init__(self, result):
        self.result, self.calls = result, 0

    def __fspath__(self):
        self.calls += 1
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_a_path_is_asked_once_for_its_str(node):
    path = Path(str(node))
    device = open_block_device(path, capacity=CAPACITY)
    assert path.calls == 1 and device.path == str(node) and type(device.path) is str
    for other in (3, None, b"/dev/null", Path(b"/dev/null"), Path(3)):
        with pytest.raises(TypeError):
            BlockDevice(other)
    with pytest.raises(ZeroDivisionError):
        BlockDevice(Path(ZeroDivisionError()))
    with pytest.raises(ValueError, match="embedded NUL"):
        BlockDevice("/dev/\0null")


def test_the_geometry_is_shown(node):
    device = open_block_device(pathlib.Path(node), capacity=CAPACITY, logical=1024, physical=8192)
    assert (device.capacity_bytes, device.logical_block_size, device.physical_block_size) == (CAPACITY, 1024, 8192)
    assert device.allocation_alignment == 8192 and not device.is_closed() and not device.is_faulted()
    assert weakref.ref(device)() is device
    with pytest.raises(TypeError):
        type("Derived", (BlockDevice,), {})


@pytest.mark.parametrize(
    ("geometry", "error"),
    [
        ({"capacity": 0}, ValueError),
        ({"capacity": 4096, "logical": 0}, ValueError),
        ({"capacity": 4096, "physical": 0}, ValueError),
        ({"capacity": 4096 + 1}, ValueError),
        ({"capacity": 6144, "logical": 1024, "physical": 1536}, ValueError),
    ],
)
def test_a_useless_geometry_is_refused(node, geometry, error):
    before = descriptors()
    with pytest.raises(error):
        open_block_device(node, **geometry)
    assert descriptors() == before


def test_every_failing_call_of_opening_closes_the_descriptor(node):
    before = descriptors()
    for call in range(1, 4):
        with pytest.raises(OSError) as caught:
            scripted(node, fail_at=call, fail_errno=errno.EIO)
        assert caught.value.errno == errno.EIO and caught.value.filename == str(node)
        assert descriptors() == before
    scripted(node, fail_at=4)


# --- Extents


def test_dispatch_allocate_through_a_block_device_resource(device):
    carrier = device.allocate(3)
    tensor = line(carrier, 3)
    assert type(carrier) is BlockDeviceCarrier and tensor.carrier is carrier and carrier.device is device
    assert not isinstance(device, orlop.Carrier)
    with pytest.raises(TypeError):
        Tensor(device, 0, tensor.layout)


def test_extents_are_aligned_and_the_lowest_fit_is_taken(device):
    first, second = device.allocate(1), device.allocate(1)
    assert [(c.device_offset_bytes, c.extent_bytes) for c in (first, second)] == [(0, 4096), (4096, 4096)]
    first.release()
    second.release()
    large = device.allocate(2048)
    assert (large.device_offset_bytes, large.extent_bytes) == (0, 8192)
    nothing = device.allocate(0)
    assert (nothing.device_offset_bytes, nothing.extent_bytes, nothing.size()) == (0, 0, 0)
    more = [device.allocate(1) for _ in range(3)]
    more[1].release()
    assert device.allocate(1025).device_offset_bytes == 8192 + 3 * 4096
    assert device.allocate(1024).device_offset_bytes == 8192 + 4096


def test_a_full_device_is_a_memory_error_before_any_write(node):
    device, script = scripted(node)
    kept = device.allocate(CAPACITY // 4 - 1024, empty=True)
    with pytest.raises(MemoryError, match="no room"):
        device.allocate(1025)
    assert script.writes == 0
    last = device.allocate(1024, empty=True)
    with pytest.raises(MemoryError):
        device.allocate(1)
    assert script.writes == 0 and not device.is_faulted() and last.extent_bytes == 4096
    kept.release()
    assert values(device.allocate(2)) == [0.0, 0.0]


def test_dropped_carriers_give_their_extents_back(device):
    for _ in range(1000):
        device.allocate(CAPACITY // 8, empty=True)
    assert device.allocate(CAPACITY // 4, empty=True).device_offset_bytes == 0


def test_allocate_checks_its_arguments_in_order(device):
    for arguments, keywords, error in [
        (("3",), {"mutable": 1}, TypeError),
        ((-1,), {"mutable": 1}, ValueError),
        ((-(2**70),), {"mutable": 1}, ValueError),
        ((2**61,), {"mutable": 1}, OverflowError),
        ((2**70,), {"mutable": 1}, OverflowError),
        ((1,), {"mutable": 1, "dtype": 3}, TypeError),
        ((1,), {"dtype": 3, "empty": 1}, TypeError),
        ((1,), {"dtype": DType.Int32, "empty": 1}, ValueError),
        ((1,), {"empty": 1}, TypeError),
        ((2**61 - 1,), {}, OverflowError),
        ((2**60,), {}, MemoryError),
        ((), {}, TypeError),
        ((1, True), {}, TypeError),
    ]:
        with pytest.raises(error):
            device.allocate(*arguments, **keywords)
    assert device.allocate(1).device_offset_bytes == 0


def test_fresh_slots_are_zero_whatever_the_device_held(node):
    node.write_bytes(b"\xff" * CAPACITY)
    device = open_block_device(node, capacity=CAPACITY)
    carrier = device.allocate(2000)
    assert friendly.to_list(line(carrier, 2000)) == [0.0] * 2000
    assert node.read_bytes()[8192:] == b"\xff" * (CAPACITY - 8192)


def test_a_carrier_is_made_by_its_device_only():
    with pytest.raises(TypeError, match=r"use BlockDevice\.allocate"):
        BlockDeviceCarrier()
    with pytest.raises(TypeError, match="closed carrier implementation"):
        type("Derived", (BlockDeviceCarrier,), {})


# --- Slots


def test_slots_lie_in_the_extent(device, node):
    device.allocate(1, empty=True)
    carrier = device.allocate(0).new_like([1.5, None, -2.0])
    assert values(carrier) == [1.5, 0.0, -2.0] and carrier.version == 0
    carrier[1] = 7
    assert carrier.version == 1
    kept = device.allocate(0).new_like(array.array("f", [3.0]))
    assert floats(node, carrier.device_offset_bytes, 3) == [1.5, 7.0, -2.0] and values(kept) == [3.0]


def test_dispatch_refuse_block_storage_computation(device):
    carrier = device.allocate(4)
    for name in ("add", "relu", "matmul", "scatter", "no such name"):
        with pytest.raises(NotImplementedError, match=name):
            carrier.dispatch_op(name)
    with pytest.raises(NotImplementedError):
        line(carrier, 4) + 1.0
    with pytest.raises(NotImplementedError):
        carrier.scatter(cpu_line(1.0), line(carrier, 4), Layout(Shape(1), Stride(1)))
    with pytest.raises(BufferError):
        carrier.dlpack_info()


def test_views_of_a_carrier_cost_no_transfer(node):
    device, script = scripted(node)
    tensor = Tensor(device.allocate(6, empty=True), 0, Layout(Shape([2, 3]), Stride([1, 2])))
    with orlop.no_grad():
        views = [
            orlop.permute(tensor, 1, 0),
            orlop.reshape(tensor, Shape(6)),
            orlop.unsqueeze(tensor, 0),
            orlop.broadcast_to(orlop.unsqueeze(tensor, 0), Shape([4, 2, 3])),
            tensor[0, 1:],
        ]
    assert all(view.carrier is tensor.carrier for view in views)
    assert (script.reads, script.writes) == (0, 0)


# --- Moves


def test_spans_move_in_and_out(device, node):
    source = CPU(0).new_like([float(i) for i in range(10)])
    destination = device.allocate(9)
    inside = move(line(source, 3, offset=2, stride=3), destination)
    assert inside.carrier is destination and inside.offset == 0 and destination.version == 1 and source.is_released()
    assert floats(node, destination.device_offset_bytes, 9) == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.0, 0.0]
    back = CPU(0).new_like([9.0] * 8)
    outside = move(line(destination, 2, offset=1, stride=3), back)
    assert friendly.to_list(outside) == [3.0, 6.0] and back.version == 1
    assert values(back) == [3.0, 4.0, 5.0, 6.0, 9.0, 9.0, 9.0, 9.0] and destination.is_released()
    assert moves.dispatch_move(CPU, BlockDeviceCarrier) is moves.CpuToBlockDeviceMoveOperation
    assert moves.dispatch_move(BlockDeviceCarrier, CPU) is moves.BlockDeviceToCpuMoveOperation


def test_only_the_built_in_routes_run(device):
    tensor, carrier = cpu_line(1.0), device.allocate(1)
    for source, destination in [
        (line(carrier, 1), Generic([0.0], dtype=DType.Float32)),
        (line(carrier, 1), FileBacked(dtype=DType.Float32)),
        (line(carrier, 1), device.allocate(1)),
        (line(Generic([0.0], dtype=DType.Float32), 1), carrier),
    ]:
        with pytest.raises(NotImplementedError, match="block-device carrier pair"):
            move(source, destination)
        with pytest.raises(NotImplementedError):
            moves.ElementwiseMoveOperation().forward(source, destination)

    class Mine(moves.CpuToBlockDeviceMoveOperation):
        pass

    for operation in (moves.ElementwiseMoveOperation(), Mine()):
        with pytest.raises(NotImplementedError, match="exact built-in"):
            operation.forward(tensor, carrier)
    with pytest.raises(ValueError, match="protected built-ins"):
        moves.register_move_operation(CPU, BlockDeviceCarrier, Mine)
    with pytest.raises(ValueError, match="protected built-ins"):
        moves.unregister_move_operation(CPU, BlockDeviceCarrier)
    assert friendly.to_list(moves.CpuToBlockDeviceMoveOperation().forward(tensor, carrier)) == [1.0]


def test_a_gradient_passes_through_the_device(device):
    tensor = cpu_line(1.0, 2.0, 3.0)
    back = move(move(tensor, device.allocate(3)), CPU(3))
    (back * 2.0).backward(cpu_line(2.0, 2.5, 3.0))
    assert friendly.to_list(tensor.grad) == [4.0, 5.0, 6.0] and type(tensor.grad.carrier) is CPU


def test_a_hierarchy_spills_to_the_device(device):
    hierarchy = Evictable(CPU(0).new_like([1.0, 2.0, 3.0]), device.allocate(0))
    tensor = line(hierarchy, 3)
    for _ in range(3):
        hierarchy.evict()
        assert type(hierarchy.secondary) is BlockDeviceCarrier and hierarchy.secondary.extent_bytes == 4096
        hierarchy.promote()
        assert friendly.to_list(tensor + tensor) == [2.0, 4.0, 6.0]
    with pytest.raises(TypeError, match="not a supported primary tier"):
        Evictable(device.allocate(1), device.allocate(1))
    with pytest.raises(NotImplementedError):
        Evictable(Generic([0.0], dtype=DType.Float32), device.allocate(1))
    hierarchy.release()
    assert device.allocate(CAPACITY // 4, empty=True).device_offset_bytes == 0


# --- Faults


def test_interrupted_and_short_transfers_go_on(node):
    device, script = scripted(node, write=[("intr",), ("short", 3), ("short", 1)], read=[("short", 5), ("intr",)])
    carrier = device.allocate(2, empty=True)
    result = move(cpu_line(1.5, -2.0), carrier)
    assert script.writes == 4 and friendly.to_list(result) == [1.5, -2.0]


def test_a_failed_move_in_faults_the_device(node):
    device, script = scripted(node, write=[("short", 5), ("zero",)])
    carrier, other = device.allocate(2, empty=True), device.allocate(1, empty=True)
    tensor = cpu_line(1.0, 2.0)
    with pytest.raises(RuntimeError, match="completed 5 of 8 bytes"):
        move(tensor, carrier)
    assert device.is_faulted() and carrier.version == 1 and friendly.to_list(tensor) == [1.0, 2.0]
    assert not tensor.carrier.is_owned() and not carrier.is_owned()
    before = script.calls
    for attempt in (
        lambda: carrier[0],
        lambda: carrier[99],
        lambda: other.__setitem__(0, 1.0),
        lambda: device.allocate(0),
        lambda: other.new_like([1.0]),
        lambda: other.allocate_like(1),
        lambda: move(tensor, carrier),
        lambda: move(line(other, 1), CPU(1)),
    ):
        with pytest.raises(RuntimeError, match="faulted"):
            attempt()
    assert carrier.version == 1 and script.calls == before
    assert (carrier.size(), carrier.device_offset_bytes, carrier.extent_bytes) == (2, 0, 4096)
    carrier.release()
    other.release()
    assert (carrier.size(), carrier.device_offset_bytes, carrier.extent_bytes) == (0, 0, 0)
    del carrier, other
    gc.collect()
    device.close()


def test_a_failed_move_out_may_have_changed_the_prefix(node):
    device, _ = scripted(node, read=[("short", 4), ("fail", errno.EIO)])
    carrier = device.allocate(0).new_like([1.0, 2.0])
    destination = CPU(0).new_like([8.0, 9.0])
    with pytest.raises(OSError) as caught:
        move(line(carrier, 2), destination)
    assert caught.value.errno == errno.EIO and caught.value.filename == str(node)
    assert destination.version == 1 and values(destination) == [1.0, 9.0]
    assert not carrier.is_released() and not carrier.is_owned() and device.is_faulted()


def test_a_failed_write_of_a_slot_keeps_the_version(node):
    device, _ = scripted(node, write=[("fail", errno.ENOSPC)])
    carrier = device.allocate(1, empty=True)
    with pytest.raises(OSError):
        carrier[0] = 1.0
    assert carrier.version == 0 and device.is_faulted()


def test_a_failed_initialisation_leaves_no_carrier_and_no_extent(node):
    device, _ = scripted(node, write=[("short", 512), ("fail", errno.EIO)])
    with pytest.raises(OSError):
        device.allocate(1000)
    gc.collect()
    assert device.is_faulted()
    device.close()


def test_what_is_refused_before_a_transfer_does_not_fault(device):
    carrier = device.allocate(1)
    for attempt, error in [
        (lambda: carrier[1], IndexError),
        (lambda: carrier.__setitem__(0, "x"), TypeError),
        (lambda: carrier.new_like([1.0, "x"]), TypeError),
        (lambda: move(cpu_line(1.0, 2.0), carrier), ValueError),
        (lambda: device.allocate(2**40), MemoryError),
    ]:
        with pytest.raises(error):
            attempt()
    assert not device.is_faulted() and carrier.version == 0


# --- Locking


def test_a_running_write_holds_up_writes_and_releases(node):
    gate = Gate()
    device, _ = scripted(node, write=[("hold", gate)])
    one, two, three = (device.allocate(1, empty=True) for _ in range(3))
    ended = []

    def run(name, call):
        call()
        ended.append(name)

    first = threading.Thread(target=run, args=("held", lambda: one.__setitem__(0, 1.0)))
    first.start()
    assert gate.wait_entered(PATIENCE)
    others = [
        threading.Thread(target=run, args=("write", lambda: two.__setitem__(0, 2.0))),
        threading.Thread(target=run, args=("release", three.release)),
        threading.Thread(target=run, args=("allocate", lambda: device.allocate(1))),
    ]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join(0.05)
    assert ended == [] and not device.is_faulted() and device.capacity_bytes == CAPACITY
    gate.open()
    for thread in (first, *others):
        thread.join(PATIENCE)
    assert sorted(ended) == ["allocate", "held", "release", "write"]
    assert (one[0], two[0]) == (1.0, 2.0)


def test_caller_code_may_come_back_to_the_device(device):
    carrier = device.allocate(2)

    class Number:
        def __index__(self):
            device.allocate(1)[0] = 3.0
            return 1

    class Finalised:
        def __del__(self):
            device.allocate(1).release()

    class Iterable:
        def __iter__(self):
            held = Finalised()
            yield carrier[0]
            del held
            yield device.allocate(1)[0]

        def __length_hint__(self):
            device.allocate(1)
            return 2

    class Real(numbers.Real):
        """A number whose value comes from the device."""

        def __float__(self):
            return device.allocate(0).new_like([2.5])[0]

        def refuse(self, *others):
            raise AssertionError("not asked for")

        for name in numbers.Real.__abstractmethods__ - {"__float__"}:
            locals()[name] = refuse
        del name

    carrier[Number()] = 4.0
    assert carrier[Number()] == 4.0
    carrier[0] = Real()
    assert values(carrier) == [2.5, 4.0] and values(carrier.new_like(Iterable())) == [2.5, 0.0]
    assert values(carrier.allocate_like(Number())) == [0.0]


def test_preconditions_are_tested_again_after_caller_code(device):
    carrier = device.allocate(1)

    class Releasing:
        def __index__(self):
            carrier.release()
            return 0

    with pytest.raises(RuntimeError, match="released"):
        carrier[Releasing()] = 1.0
    assert carrier.version == 0


def test_many_threads_share_one_device(device):
    failures = []

    def run(seed):
        for i in range(60):
            carrier = device.allocate(0).new_like([float(seed), float(i)])
            tensor = line(carrier, 2)
            if friendly.to_list(move_async(tensor, CPU(2)).wait()) != [float(seed), float(i)]:
                failures.append((seed, i))

    threads = [threading.Thread(target=run, args=[seed]) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    gc.collect()
    assert device.allocate(CAPACITY // 4, empty=True).device_offset_bytes == 0


# --- Closing


def test_a_device_with_carriers_stays_open(node):
    device, script = scripted(node, close_errno=errno.EIO)
    carrier = device.allocate(1)
    carrier.release()
    with pytest.raises(RuntimeError, match="Carrier object exists"):
        device.close()
    assert not device.is_closed() and values(carrier.new_like([1.0])) == [1.0]
    del carrier
    gc.collect()
    with pytest.raises(OSError) as caught:
        device.close()
    assert caught.value.errno == errno.EIO and caught.value.filename == str(node)
    assert device.is_closed() and device.close() is None and script.closes == 1
    with pytest.raises(RuntimeError, match="closed"):
        device.allocate(1)
    assert device.capacity_bytes == CAPACITY and device.path == str(node)


def test_a_device_is_a_context_manager(node):
    before = descriptors()
    with open_block_device(node, capacity=CAPACITY) as device:
        assert values(device.allocate(1)) == [0.0] and descriptors() == before + 1
    assert device.is_closed() and descriptors() == before
    device, _ = scripted(node, close_errno=errno.EIO)
    with pytest.raises(OSError) as caught:
        with device:
            raise KeyError("body")
    assert isinstance(caught.value.__context__, KeyError)
    with pytest.raises(KeyError):
        with open_block_device(node, capacity=CAPACITY):
            raise KeyError("body")


def test_a_dropped_device_is_closed_once_and_carriers_keep_it(node):
    before = descriptors()
    device, script = scripted(node)
    carrier = device.allocate(0).new_like([1.0])
    del device
    gc.collect()
    assert script.closes == 0 and carrier[0] == 1.0
    del carrier
    gc.collect()
    assert script.closes == 1 and descriptors() == before


def test_a_forked_child_may_only_close(node, device):
    carrier = device.allocate(0).new_like([1.0])
    child = os.fork()
    if child == 0:
        try:
            for attempt in (lambda: carrier[0], lambda: carrier.__setitem__(0, 2.0), lambda: device.allocate(1),
                            lambda: move(line(carrier, 1), CPU(1))):
                try:
                    attempt()
                except RuntimeError as error:
                    assert "fork" in str(error)
                else:
                    raise AssertionError("no error")
            carrier.release()
            del carrier, attempt
            gc.collect()
            device.close()
            assert device.is_closed()
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert carrier[0] == 1.0 and device.allocate(1).device_offset_bytes == 4096


# --- A real device


def loop_device(path):
    """The node of a loop device over `path`, or nothing where the system permits none."""
    if os.geteuid() != 0 or shutil.which("losetup") is None:
        return None
    made = subprocess.run(["losetup", "--find", "--show", str(path)], capture_output=True, text=True)
    return made.stdout.strip() if made.returncode == 0 else None


def test_a_loop_device_is_storage(node):
    path = loop_device(node)
    if path is None:
        pytest.skip("loop devices need root, losetup and a kernel that permits them")
    try:
        with BlockDevice(path) as device:
            assert device.capacity_bytes == CAPACITY and device.allocation_alignment >= 512
            result = move(cpu_line(1.0, 2.0), device.allocate(2))
            assert friendly.to_list(move(result, CPU(2))) == [1.0, 2.0]
            del result
            gc.collect()
    finally:
        subprocess.run(["losetup", "--detach", path], check=True)
