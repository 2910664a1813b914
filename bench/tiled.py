"""Operations streamed from a file through a small part of memory, beside plain reads and operands in memory
(Q205 to Q208).

The operands are tiled carriers over files in one folder, ORLOP_TMPDIR or else /var/tmp, with a warm page cache; the
budget is a quarter of an operand. A plain read is a loop of preadv into memory that is kept, or fresh where the
operation makes a result of that size. What a row asserts beside its time fails the row.
"""

import functools
import mmap
import os
import subprocess
import sys

import harness

FOLDER = os.environ.setdefault("ORLOP_TMPDIR", "/var/tmp")
MIB = 1 << 20
SIZE = 256 * MIB
BLOCK = 8 * MIB


def tiled_over_file(shape, tiles, budget):
    """A Tensor of this shape, cut into so many tiles along each mode, in a file."""
    import orlop
    from orlop import friendly
    from orlop.carriers.tiled_evictable import TiledEvictable

    rows, columns = shape
    seed = orlop.move(friendly.arange(rows * columns), orlop.FileBacked(dtype=orlop.DType.Float32)).carrier
    tile = tuple(extent // count for extent, count in zip(shape, tiles, strict=True))
    carrier = TiledEvictable(orlop.CPU(0), seed, tiles, tile, primary_budget_bytes=budget)
    return orlop.Tensor(carrier, 0, orlop.Layout(orlop.Shape(rows, columns), orlop.Stride(1, rows)))


def stripes():
    """256 MiB in 32 tiles, each in one piece of the file."""
    return tiled_over_file((1024, SIZE // 4096), (1, 32), SIZE // 4)


def streamed(name, operands):
    import orlop

    tensors = [stripes() for _ in range(operands)]
    if name == "reduce_sum":
        return functools.partial(orlop.reduce_sum, *tensors, "a b -> a")
    return functools.partial(getattr(orlop, name), *tensors)


class PlainFile:
    def __init__(self):
        path = f"{FOLDER}/orlop-bench-{os.getpid()}-{id(self)}"
        self.descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        os.unlink(path)
        block = bytes(range(256)) * (BLOCK // 256)
        for offset in range(0, SIZE, BLOCK):
            os.pwrite(self.descriptor, block, offset)

    def read(self, memory):
        """Block after block, over and over into the same memory where that is smaller than the file."""
        with memoryview(memory) as view:
            for offset in range(0, SIZE, BLOCK):
                place = offset % len(memory)
                done = 0
                while done < BLOCK:
                    done += os.preadv(self.descriptor, [view[place + done : place + BLOCK]], offset + done)


def fresh_memory(size):
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def plain(has_result, operands):
    """Reads every operand; the first one into fresh memory where there is a result of its size."""
    files = [PlainFile() for _ in range(operands)]
    kept = fresh_memory(SIZE // 4)

    def run():
        result = fresh_memory(SIZE) if has_result else kept
        files[0].read(result)
        for file in files[1:]:
            file.read(kept)

    return run


# --- matmul

SIDE, CUTS = 4096, 2


def operand_bytes():
    return 4 * SIDE * SIDE


def least_bytes():
    """What X108 allows with one tile of each operand."""
    operand, tile = operand_bytes(), operand_bytes() // CUTS**2
    return operand + CUTS * operand - (CUTS - 1) * CUTS * tile


def streamed_matmul():
    import orlop

    x, y = (tiled_over_file((SIDE, SIDE), (CUTS, CUTS), operand_bytes() // 4) for _ in range(2))

    def run():
        for tensor in (x, y):
            tensor.carrier.evict(tensor.carrier.primary_tiles)
            tensor.carrier.reset_residency_stats()
        orlop.matmul(x, y)
        moved = sum(tensor.carrier.residency_stats().bytes_read for tensor in (x, y))
        assert moved <= 1.1 * least_bytes(), f"{moved} bytes moved, {least_bytes()} are the bound"

    return run


def matmul_in_memory():
    import orlop
    from orlop import friendly

    layout = orlop.Layout(orlop.Shape(SIDE, SIDE), orlop.Stride(1, SIDE))
    x, y = (orlop.Tensor(friendly.arange(SIDE * SIDE).carrier, 0, layout) for _ in range(2))
    return functools.partial(orlop.matmul, x, y)


# --- Bookkeeping and memory

STEPS = 1 << 14


def many_small_steps():
    """All tiles primary: what is left is the way from step to step, and a kernel of 16 elements in each."""
    import orlop

    x = tiled_over_file((16, STEPS), (1, STEPS), None)
    x.carrier.promote(x.carrier.valid_tiles)
    return functools.partial(orlop.relu, x)


MEASURED = """
import sys
sys.path.insert(0, {folder!r})
import tiled
run = tiled.{make}
def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
before = status("VmRSS")
run()
grown = status("VmHWM") - before
assert grown <= {allowed}, f"{{grown}} bytes more than at the start, at most {allowed} are allowed"
"""


def peak_memory(make, allowed):
    """Runs in a process of its own, from the moment when the operands are ready (Linux only)."""
    code = MEASURED.format(folder=os.path.dirname(os.path.abspath(__file__)), make=make, allowed=allowed)
    return functools.partial(subprocess.run, [sys.executable, "-c", code], check=True)


def streaming_row(name, operands, has_result):
    return harness.Row(
        "Q205",
        f"{name} over four times the budget, {operands} × {SIZE // MIB} MiB, beside a plain read",
        1 / 0.85,
        {
            "orlop": functools.partial(streamed, name, operands),
            "os": functools.partial(plain, has_result, operands),
        },
    )


def memory_row(name, make, operands, result):
    allowed = operands * result[0] + result[1] + 64 * MIB
    return harness.Row(
        "Q208", f"{name}: memory within budget, result and 64 MiB", None, {"orlop": lambda: peak_memory(make, allowed)}
    )


ROWS = [
    streaming_row("reduce_sum", 1, False),
    streaming_row("relu", 1, True),
    streaming_row("add", 2, True),
    harness.Row(
        "Q206",
        f"matmul {SIDE}³ over four times the budget of each operand, beside operands in memory",
        1 / 0.85,
        {"orlop": streamed_matmul, "orlop CPU": matmul_in_memory},
    ),
    harness.Row(
        "Q207",
        f"{STEPS} small steps of relu: 1 µs for each beside a kernel",
        None,
        {"orlop": many_small_steps},
        limit=STEPS * 2e-6,
    ),
    memory_row("reduce_sum", "streamed('reduce_sum', 1)", 1, (SIZE // 4, 0)),
    memory_row("relu", "streamed('relu', 1)", 1, (SIZE // 4, SIZE)),
    memory_row("matmul", "streamed_matmul()", 2, (operand_bytes() // 4, operand_bytes())),
]

if __name__ == "__main__":
    harness.main(__file__, ROWS)
