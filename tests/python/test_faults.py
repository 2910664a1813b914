"""Every system call of storage fails once: for N = 1, 2, 3 … the N-th call fails until a run passes clean.

After each failure: the right error, values and versions as promised, no descriptor and no file left, and the next
call works. test_allocation_faults.py runs the same with failing allocations in place of calls.
"""

import array
import contextlib
import errno
import gc
import os

import pytest
from allocation import IS_PRELOADED, AllocationScript
from orlop import CPU, DType, Evictable, FileBacked, Layout, Shape, Stride, Tensor, move, move_async
from orlop._testing import IoScript, file_backed_io, open_block_device, open_temporary_files
from waiting import eventually

FLOAT = DType.Float32
VALUES = [1.0, 2.0, 3.0, 4.0]
CAPACITY = 1 << 16
MOST_CALLS = 1000


def line(carrier, count=4):
    return Tensor(carrier, 0, Layout(Shape(count), Stride(1)))


def cpu(values=VALUES):
    return CPU(0).new_like(values)


def file(values=VALUES):
    return FileBacked(dtype=FLOAT).new_like(values)


def values(carrier):
    return [carrier[i] for i in range(carrier.size())]


def leftovers():
    """What a run may not leave behind: descriptors beyond those of idle files, and files."""
    gc.collect()
    folder = FileBacked(dtype=FLOAT).path.parent
    return len(os.listdir("/proc/self/fd")) - open_temporary_files(), len(list(folder.iterdir()))


def settled_leftovers(expected):
    """The same once the background has dropped what it worked on, which it does after the waiters go on."""
    eventually(lambda: leftovers() == expected)
    return leftovers()


class Run:
    """One attempt: `make` builds what the call works on, `call` is made with the fault, `check` judges a failure."""

    def __init__(self, n, code):
        self.n, self.code, self.error = n, code, None
        self.script = IoScript(fail_at=n, fail_errno=code) if code in errno.errorcode else None
        self.script = self.script or AllocationScript(n, lasting=code == ALL_LATER)

    @contextlib.contextmanager
    def faults(self):
        with file_backed_io(self.script) if self.code in errno.errorcode else self.script.in_force():
            try:
                yield
            except OSError as error:
                self.error = error.errno
            except MemoryError:
                self.error = self.code


def until_clean(attempt, code=errno.EIO):
    """Calls `attempt(run)` for each N."""
    attempt(Run(MOST_CALLS, code))  # makes what is made once
    before, failed = leftovers(), 0
    for n in range(1, MOST_CALLS):
        run = Run(n, code)
        attempt(run)
        failed += run.error is not None
        assert run.error in (None, code)
        assert settled_leftovers(before) == before, f"call {n}"
        if run.script.calls < n:
            assert run.error is None
            # Idle descriptors make room for others, and some allocations are done without.
            assert failed or run.script.calls == 0 or code not in (errno.EIO, errno.ENOSPC)
            return
    raise AssertionError(f"no clean run within {MOST_CALLS} calls")


ONE, ALL_LATER = "one allocation", "all later allocations"
CODES = pytest.mark.parametrize(
    "code",
    [ONE, ALL_LATER] if IS_PRELOADED else [errno.EIO, errno.ENOSPC, errno.EMFILE],
    ids=lambda code: errno.errorcode.get(code, code),
)


# --- FileBacked


@CODES
@pytest.mark.parametrize(
    ("make", "result"),
    [
        (lambda _: FileBacked(dtype=FLOAT), []),
        (lambda prototype: prototype.allocate_like(3), [0.0] * 3),
        (lambda prototype: prototype.new_like(VALUES), VALUES),
    ],
    ids=["construct", "allocate_like", "new_like"],
)
def test_making_a_file(make, result, code):
    prototype = FileBacked(dtype=FLOAT)

    def attempt(run):
        made = None
        with run.faults():
            made = make(prototype)
        assert (made is None) == (run.error is not None)
        assert values(made if made is not None else make(prototype)) == result

    until_clean(attempt, code)


@CODES
def test_writing_a_slot(code):
    def attempt(run):
        carrier = file()
        with run.faults():
            carrier[1] = 9.0
        expected = [1.0, 2.0 if run.error else 9.0, 3.0, 4.0]
        assert values(carrier) == expected and carrier.version == (0 if run.error else 1)
        carrier[1] = 9.0
        assert carrier[1] == 9.0

    until_clean(attempt, code)


@CODES
def test_reading_a_slot(code):
    carrier = file()

    def attempt(run):
        seen = None
        with run.faults():
            seen = carrier[1]
        assert seen == (None if run.error else 2.0) and carrier[1] == 2.0

    until_clean(attempt, code)


@CODES
def test_scattering_from_a_file(code):
    source = file()

    def attempt(run):
        carrier = cpu([0.0] * 4)
        with run.faults():
            carrier.scatter(line(source), line(carrier), Layout(Shape(4), Stride(1)))
        assert values(carrier) == ([0.0] * 4 if run.error else VALUES)
        assert carrier.version == (0 if run.error else 1)
        carrier.scatter(line(source), line(carrier), Layout(Shape(4), Stride(1)))
        assert values(carrier) == VALUES

    until_clean(attempt, code)


@CODES
def test_releasing_a_file(code):
    def attempt(run):
        carrier = file()
        path = carrier.path
        with run.faults():
            carrier.release()
        if run.error:
            assert not carrier.is_released() and path.exists() and values(carrier) == VALUES
            carrier.release()
        assert carrier.is_released() and not path.exists()

    until_clean(attempt, code)


MOVES = pytest.mark.parametrize(
    "transfer", [move, lambda *given: move_async(*given).wait()], ids=["move", "move_async"]
)


@CODES
@MOVES
@pytest.mark.parametrize("size", [0, 6])
def test_moving_into_a_file(size, transfer, code):
    def attempt(run):
        source, destination = cpu(), file([9.0] * size)
        result = None
        with run.faults():
            result = transfer(line(source), destination)
        assert not source.is_owned() and not destination.is_owned()
        if run.error:
            assert not source.is_released() and values(source) == VALUES and source.version == 0
            assert destination.size() == size
            if destination.version == 0:
                assert values(destination) == [9.0] * size
            result = transfer(line(source), destination)
        assert source.is_released() and values(destination) == VALUES + [9.0] * (size - 4)
        assert result.carrier is destination and destination.version >= 1

    until_clean(attempt, code)


@CODES
@MOVES
def test_moving_out_of_a_file(transfer, code):
    def attempt(run):
        source, destination = file(), cpu([9.0] * 5)
        with run.faults():
            transfer(line(source), destination)
        assert not source.is_owned() and not destination.is_owned()
        if run.error:
            assert not source.is_released() and values(source) == VALUES
            if destination.version == 0:
                assert values(destination) == [9.0] * 5
            transfer(line(source), destination)
        assert source.is_released() and values(destination) == [*VALUES, 9.0]

    until_clean(attempt, code)


def test_a_move_out_that_read_nothing_leaves_the_version():
    source, destination = file(), cpu([9.0] * 4)
    with file_backed_io(IoScript(read=[("fail", errno.EIO)])), pytest.raises(OSError):
        move(line(source), destination)
    assert destination.version == 0
    with file_backed_io(IoScript(read=[("short", 4), ("fail", errno.EIO)])), pytest.raises(OSError):
        move(line(source), destination)
    assert destination.version == 1 and values(destination) == [1.0, 9.0, 9.0, 9.0]


# --- Hierarchies


@CODES
def test_evicting_to_a_file(code):
    def attempt(run):
        hierarchy = Evictable(cpu(), FileBacked(dtype=FLOAT))
        hierarchy[0] = 1.0
        with run.faults():
            hierarchy.evict()
        assert hierarchy.is_evicted() is (run.error is None)
        if run.error:
            assert values(hierarchy) == VALUES
            hierarchy.evict()
        hierarchy.promote()
        assert values(hierarchy) == VALUES and hierarchy.version == 1

    until_clean(attempt, code)


@CODES
def test_promoting_from_a_file(code):
    def attempt(run):
        hierarchy = Evictable(cpu(), FileBacked(dtype=FLOAT))
        hierarchy.evict()
        with run.faults():
            hierarchy.promote()
        assert hierarchy.is_evicted() is (run.error is not None)
        if run.error:
            hierarchy.promote()
        assert values(hierarchy) == VALUES and hierarchy.version == 0

    until_clean(attempt, code)


@CODES
def test_releasing_a_hierarchy(code):
    def attempt(run):
        hierarchy = Evictable(cpu(), file([0.0]))
        with run.faults():
            hierarchy.release()
        assert hierarchy.is_released() is (run.error is None)
        hierarchy.release()
        assert hierarchy.is_released()

    until_clean(attempt, code)


# --- BlockDevice: a transfer that fails ends the device


@pytest.fixture
def node(tmp_path):
    path = tmp_path / "node"
    path.write_bytes(b"")
    os.truncate(path, CAPACITY)
    return path


def device_until_clean(node, attempt, prepare=lambda device: None, code=errno.EIO):
    """`attempt(device, made)` meets the N-th call after those of opening and of `prepare`."""
    with open_block_device(node, capacity=CAPACITY, script=(probe := IoScript())) as device:
        made = prepare(device)
        first = probe.calls + 1
        del made
    before = leftovers()
    for n in range(first, MOST_CALLS):
        script = IoScript(fail_at=n, fail_errno=code)
        device = open_block_device(node, capacity=CAPACITY, script=script)
        made = prepare(device)
        failed = None
        try:
            attempt(device, made)
        except OSError as error:
            failed = error.errno, error.filename
        assert (failed is not None) is device.is_faulted() is (script.calls >= n)
        assert failed in (None, (code, str(node)))
        if failed:
            with pytest.raises(RuntimeError, match="faulted"):
                device.allocate(1)
        del made
        gc.collect()
        with contextlib.nullcontext() if failed else pytest.raises(OSError):  # the next call is that of closing
            device.close()
        assert device.is_closed() and settled_leftovers(before) == before
        if not failed:
            assert n > first
            return
    raise AssertionError("no clean run")


def stored(node, carrier):
    """The slots as the node has them, without the device."""
    with open(node, "rb") as file:
        file.seek(carrier.device_offset_bytes)
        return array.array("f", file.read(4 * carrier.size())).tolist()


def test_allocating_on_a_device(node):
    device_until_clean(node, lambda device, _: device.allocate(4))
    device_until_clean(node, lambda device, none: none.new_like(VALUES), lambda device: device.allocate(0))


def test_slots_of_a_device(node):
    def prepare(device):
        return device.allocate(0).new_like(VALUES)

    def write(device, carrier):
        try:
            carrier[0] = 9.0
        finally:
            assert carrier.version == (0 if device.is_faulted() else 1)

    device_until_clean(node, write, prepare)
    device_until_clean(node, lambda device, carrier: carrier[0], prepare)


@MOVES
def test_moves_of_a_device(node, transfer):
    def move_in(device, carrier):
        source = cpu()
        try:
            transfer(line(source), carrier)
            assert stored(node, carrier) == VALUES
        finally:
            assert source.is_released() is not device.is_faulted()
            assert carrier.version == 1 and not carrier.is_owned() and not source.is_owned()

    def move_out(device, carrier):
        destination = cpu([0.0] * 4)
        try:
            transfer(line(carrier), destination)
            assert values(destination) == VALUES
        finally:
            assert carrier.is_released() is not device.is_faulted()
            assert destination.version == 1 and not carrier.is_owned() and not destination.is_owned()

    def prepare(device):
        return device.allocate(0).new_like(VALUES)

    device_until_clean(node, move_in, prepare)
    device_until_clean(node, move_out, prepare)


def test_transitions_of_a_device(node):
    def evict(device, hierarchy):
        try:
            hierarchy.evict()
        finally:
            assert hierarchy.is_evicted() is not device.is_faulted() and hierarchy.version == 0
            if device.is_faulted():
                assert values(hierarchy) == VALUES

    def promote(device, hierarchy):
        try:
            hierarchy.promote()
            assert values(hierarchy) == VALUES
        finally:
            assert hierarchy.is_evicted() is device.is_faulted() and hierarchy.version == 0

    def hierarchy(device):
        return Evictable(cpu(), device.allocate(0))

    def evicted(device):
        made = hierarchy(device)
        made.evict()
        return made

    device_until_clean(node, evict, hierarchy)
    device_until_clean(node, promote, evicted)
    device_until_clean(node, lambda device, made: (made.release(), device.allocate(1)), evicted)


# --- Memory


def test_ten_thousand_carriers_leave_nothing(node):
    before = leftovers()
    with open_block_device(node, capacity=CAPACITY) as device:
        for i in range(10_000):
            device.allocate(1, empty=True)
            if i % 10 == 0:
                move_async(line(cpu([1.0]), 1), CPU(1)).wait()
        gc.collect()
        assert device.allocate(CAPACITY // 4, empty=True).device_offset_bytes == 0
    assert settled_leftovers(before) == before
