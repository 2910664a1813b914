"""Ten thousand times the same: descriptors, files and memory stay as they are (Q302).

Each cycle runs in a process of its own. What the C++ heap and Python hold is compared exactly where the C library
tells; resident memory everywhere.
"""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    "ORLOP_SANITIZED" in os.environ, reason="a sanitizer keeps freed memory for a while, to see later uses of it"
)

CYCLES = {
    "memory": "CPU(100), CPU(1 << 19, empty=True), Generic(VALUES, dtype=FLOAT), cpu().allocate_like(3)",
    "files": "file = FileBacked(dtype=FLOAT).new_like(VALUES); file[1] = 2.0; file[1]; file.release()",
    "refusals": """
        for call in (lambda: CPU(-1), lambda: cpu()[9], lambda: X + line(CPU(3)), lambda: X.carrier._claim_ownership()
                     and X.carrier.release(), lambda: move(X, X.carrier), lambda: functional.exp(3)):
            try:
                call()
            except (ValueError, IndexError, RuntimeError, TypeError):
                pass
        if X.carrier.is_owned():
            X = line(cpu())
    """,
    "transitions": """
        store = Evictable(cpu(), FileBacked(dtype=FLOAT))
        store.evict(), store.promote()
        store[0] = 1.0
        if not i % 2:
            store.release()
    """,
    "one hierarchy": """
        H.evict()
        H.promote()
    """,
    "moves": "move(move(move(line(cpu()), FileBacked(dtype=FLOAT)), CPU(4)), Generic(VALUES, dtype=FLOAT))",
    "moves in the background": """
        handle = move_async(line(cpu()), FileBacked(dtype=FLOAT))
        if i % 3:
            handle.wait()
    """,
    "failed moves": """
        handle = move_async(line(cpu()), BrokenCarrier([0.0] * 4))
        try:
            handle.wait()
        except ArithmeticError:
            pass
    """,
    "operations": """
        (X + X) * 2 - 1
        functional.matmul(SQUARE, SQUARE), functional.sort(X, 0), functional.reduce_sum(SQUARE, "a b -> a")
        Y + Y  # a backend in turn with the other
        SQUARE[1, :], repr(X)
    """,
    "gradients": """
        z = functional.reduce_sum(functional.exp(X * X) + X, "a -> 1")
        z.backward()
        X.grad = None
    """,
    "graphs in cycles": """
        z = X * X
        z.carrier.mine = [z]
    """,
    "arrays": """
        from_dlpack(X), from_buffer(BYTES), from_buffer(BYTES, copy=True), memoryview(X).release()
        X.__dlpack__()
    """,
    "array files": """
        if not i % 10:
            io.save_npy(PATH, SQUARE), io.load_npy(PATH)
            io.save_safetensors(PATH, {"a": X}, metadata={"k": "v"}), io.load_safetensors(PATH, ["a"])
    """,
    "python carriers": "carrier = ListCarrier(VALUES); carrier[0] = 3.0; line(carrier) + line(carrier)",
    "tiles": """
        TILES.evict(ALL), TILES.promote(ALL)
        if not i % 10:
            carrier = cold(primary_budget_bytes=32)
            carrier[20] = 1.0
            project(full(carrier), PICK).wait(), scatter(dense(range(8), (4, 2)), full(carrier), PICK).wait()
    """,
    "direct operations": """
        DIRECT + DIRECT if i % 2 else functional.reduce_sum(DIRECT, "a b -> a")
        if not i % 20:
            weights = full(cold(primary_budget_bytes=48))
            functional.reduce_sum(functional.relu(weights) * DIRECT, "a b -> 1").backward()
            functional.matmul(weights, dense(range(12), (2, 6)))
            try:
                functional.add(DIRECT, DIRECT[0, :])
            except NotImplementedError:
                pass
    """,
    "definitions": """
        boxed = filled(BOXED, VALUES)
        boxed[1] = 2.0
        boxed.new_like(VALUES).release()
        moved = move(whole(boxed), BOXED(4, dtype=FLOAT))
        z = functional.mul(moved, moved)
        if not i % 10:
            z.backward(whole(filled(BOXED, VALUES)))
    """,
    "metal": """
        device = Metal(4).new_like(VALUES)
        device[1] = 3.0
        z = functional.reduce_sum(line(device) * line(device), "a -> 1")
        if not i % 10:
            z.backward()
        move(move(line(device), CPU(4)), Metal(4)).carrier.release()
    """,
    "devices": """
        block = DEVICE.allocate(4, empty=True)
        block[1] = 2.0
        kept = [kept[-1], block] if i else [block]
    """,
}

PROGRAM = """if True:
    import array, ctypes, gc, os, resource, sys, tempfile
    from defined_carrier import filled, whole
    from list_carrier import ListCarrier
    from orlop import (CPU, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride, Tensor, friendly,
                       from_buffer, from_dlpack, functional, io, move, move_async)
    from orlop import TileSelection, project
    from orlop.carriers import Metal
    from orlop._testing import open_block_device, open_temporary_files
    from orlop.functional import scatter
    from test_definition_calls import builtin, carrier_class
    from tiles import ALL, cold, dense, full, grid

    class BrokenCarrier(ListCarrier):
        def set_value(self, index, value):
            raise ArithmeticError

    FLOAT, VALUES, BYTES = DType.Float32, [1.0, 2.0, 3.0, 4.0], array.array("f", range(100))
    def cpu(): return CPU(0).new_like(VALUES)
    def line(carrier): return Tensor(carrier, 0, Layout(Shape(carrier.size()), Stride(1)))
    X, Y, SQUARE = line(cpu()), line(Generic(VALUES, dtype=FLOAT)), friendly.tensor([VALUES] * 4)
    H = Evictable(cpu(), FileBacked(dtype=FLOAT))
    TILES, PICK = grid(), TileSelection([[1, 0], [2]])
    TILES.evict(ALL)
    DIRECT = full(cold(primary_budget_bytes=48))
    BOXED = carrier_class(builtin("mul"), builtin("add"))
    folder = tempfile.TemporaryDirectory()
    PATH = os.path.join(folder.name, "a")
    node = os.path.join(folder.name, "node")
    with open(node, "wb") as opened:
        opened.truncate(1 << 20)
    DEVICE = open_block_device(node, capacity=1 << 20)
    session = FileBacked(dtype=FLOAT).path.parent
    H.evict(), H.promote()  # its file comes with the first eviction
    gc.collect()
    resting = len(os.listdir(session))

    class HeapUse(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks".split()]
        _fields_ += [(name, ctypes.c_size_t) for name in "uordblks fordblks keepcost".split()]
    heap_use = getattr(ctypes.CDLL(None), "mallinfo2", lambda: HeapUse())
    heap_use.restype = HeapUse

    def settle():
        import time
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            gc.collect()
            if len(os.listdir(session)) <= resting:
                return
            time.sleep(0.01)

    def state():
        settle()
        use = heap_use()
        with open("/proc/self/statm") as statm:
            resident = int(statm.read().split()[1]) * resource.getpagesize()
        descriptors = len(os.listdir("/proc/self/fd")) - open_temporary_files()
        return use.uordblks + use.hblkhd, sys.getallocatedblocks(), resident, descriptors, len(os.listdir(session))

    kept = []
    def cycles(count):
        global X, kept
        for i in range(count):
            BODY
        kept = []

    cycles(1000)
    gc.freeze()
    before = state()
    cycles(10_000)
    after = state()
    heap, blocks, resident, descriptors, files = (b - a for a, b in zip(before, after))
    # Threads keep some pieces for later; the smallest piece that a cycle could lose takes 32 bytes.
    assert heap < 24 * 10_000 and blocks < 1000 and resident < 4 << 20, (before, after)
    assert descriptors == files == 0, (before, after)
    folder.cleanup()
    gc.unfreeze()
"""


@pytest.mark.parametrize("name", CYCLES)
def test_ten_thousand_cycles(name, tmp_path):
    lines = [line.strip() if "\n" not in CYCLES[name] else line[8:] for line in CYCLES[name].strip("\n").split("\n")]
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else str(tmp_path)  # a thousand files a second on any disk
    program = PROGRAM.replace("BODY", "\n            ".join(lines))
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TMPDIR": folder,
                          "ORLOP_METAL_RUNTIME": "emulated"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0 and not ended.stderr, ended.stderr
