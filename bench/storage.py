"""Values between memory and files, block devices or memory, single elements of a file, array files (Q201 to Q204, Q209).

Every way out makes its destination and gives up its source, and so does every way back; a file is removed when it
has been read. A block device is a file of the right size, which stays. All files lie in one folder, ORLOP_TMPDIR or else /var/tmp, the page cache is warm, nothing is synced.
"""

import functools
import mmap
import operator
import os
import tempfile

import harness

FOLDER = os.environ.setdefault("ORLOP_TMPDIR", "/var/tmp")
MIB = 1 << 20


def fresh_memory(size):
    """In huge pages, as the others have it."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class Path:
    """A file name of this process."""

    def __init__(self):
        self.path = f"{FOLDER}/orlop-bench-{os.getpid()}"


class SystemCalls(Path):
    """A loop of pwrite or pread, one call for as much as the system takes at once, as FileBacked does it."""

    def __init__(self, size):
        super().__init__()
        self.size, self.memory = size, fresh_memory(size)
        self.memory[:] = bytes(range(256)) * (size // 256)

    def out(self):
        descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        with memoryview(self.memory) as view:
            done = 0
            while done < self.size:
                done += os.pwrite(descriptor, view[done:], done)
        os.close(descriptor)
        self.memory.close()

    def back(self):
        self.memory = fresh_memory(self.size)
        descriptor = os.open(self.path, os.O_RDONLY)
        with memoryview(self.memory) as view:
            done = 0
            while done < self.size:
                done += os.preadv(descriptor, [view[done:]], done)
        os.close(descriptor)
        os.unlink(self.path)


class NumpyFile(Path):
    def __init__(self, size):
        import numpy

        super().__init__()
        self.read, self.array = numpy.fromfile, numpy.arange(size // 4, dtype=numpy.float32)

    def out(self):
        self.array.tofile(self.path)
        del self.array

    def back(self):
        self.array = self.read(self.path, dtype="float32")
        os.unlink(self.path)


class NumpyMemory:
    """A plain copy into fresh memory."""

    def __init__(self, size):
        import numpy

        self.array = numpy.arange(size // 4, dtype=numpy.float32)

    def out(self):
        self.array = self.array.copy()

    back = out


class Moves:
    def __init__(self, size):
        import orlop
        from orlop import friendly

        self.orlop, self.count = orlop, size // 4
        self.tensor = friendly.arange(self.count)

    def out(self):
        self.tensor = self.orlop.move(self.tensor, self.orlop.FileBacked(dtype=self.orlop.DType.Float32))

    def back(self):
        self.tensor = self.orlop.move(self.tensor, self.orlop.CPU(self.count, empty=True))


def preallocated(size):
    """A descriptor of a nameless file whose blocks are there, and a path to it while this process lives."""
    with tempfile.TemporaryFile(dir=FOLDER) as file:
        descriptor = os.dup(file.fileno())
    for start in range(0, size, MIB):
        os.pwrite(descriptor, bytes(MIB), start)
    return descriptor, f"/proc/self/fd/{descriptor}"


class SystemCallsInPlace(SystemCalls):
    """The same loop over a file that is there already."""

    def __init__(self, size):
        super().__init__(size)
        self.descriptor, self.path = preallocated(size)

    def out(self):
        with memoryview(self.memory) as view:
            done = 0
            while done < self.size:
                done += os.pwrite(self.descriptor, view[done:], done)
        self.memory.close()

    def back(self):
        self.memory = fresh_memory(self.size)
        with memoryview(self.memory) as view:
            done = 0
            while done < self.size:
                done += os.preadv(self.descriptor, [view[done:]], done)


class BlockMoves(Moves):
    def __init__(self, size):
        from orlop._testing import open_block_device

        super().__init__(size)
        _, path = preallocated(size)
        self.device = open_block_device(path, capacity=size)

    def out(self):
        self.tensor = self.orlop.move(self.tensor, self.device.allocate(self.count, empty=True))


class Tiers:
    def __init__(self, secondary, size):
        import orlop
        from orlop import friendly
        from orlop.carriers import Evictable

        dtype = orlop.DType.Float32
        made = {
            "CPU": lambda: orlop.CPU(0),
            "Generic": lambda: orlop.Generic([], dtype=dtype),
            "FileBacked": lambda: orlop.FileBacked(dtype=dtype),
        }[secondary]()
        hierarchy = Evictable(friendly.arange(size // 4).carrier, made)
        self.out, self.back = hierarchy.evict, hierarchy.promote


def there_and_back(place, size):
    place = place(size)

    def run():
        place.out()
        place.back()

    return run


def out(place, size):
    place = place(size)
    return harness.restored(place.out, place.back)


def back(place, size):
    place = place(size)
    place.out()
    return harness.restored(place.back, place.out)


def row(identifier, name, mark, way, size, places):
    return harness.Row(
        identifier,
        f"{name}, {size // MIB} MiB",
        mark,
        {library: functools.partial(way, place, size) for library, place in places.items()},
    )


def file_rows(identifier, name, way, size, ours):
    """One row for each reference, since their marks differ: 0.9 of the plain loop's rate, all of NumPy's."""
    return [
        row(identifier, f"{name}, beside a plain loop", 1 / 0.9, way, size, {"orlop": ours, "os": SystemCalls}),
        row(identifier, f"{name}, beside tofile and fromfile", 1.0, way, size, {"orlop": ours, "numpy": NumpyFile}),
    ]


def memory_rows(name, secondary, size):
    places = {"orlop": functools.partial(Tiers, secondary), "numpy": NumpyMemory}
    return [
        row("Q203", f"evict, Evictable over (CPU, {name})", 2.0, out, size, places),
        row("Q203", f"promote, Evictable over (CPU, {name})", 2.0, back, size, places),
    ]


def element_of_file(write):
    import orlop

    carrier = orlop.FileBacked(dtype=orlop.DType.Float32).new_like([1.0] * 1024)
    if write:
        return functools.partial(operator.setitem, carrier, 7, 2.0)
    return functools.partial(operator.getitem, carrier, 7)


def element_by_system_call(write):
    path = Path().path
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    os.unlink(path)
    os.pwrite(descriptor, bytes(4096), 0)
    if write:
        return functools.partial(os.pwrite, descriptor, b"1234", 28)
    return functools.partial(os.pread, descriptor, 4, 28)


def element_row(name, write):
    libraries = {"orlop": element_of_file, "os": element_by_system_call}
    prepared = {library: functools.partial(make, write) for library, make in libraries.items()}
    return harness.Row("Q204", name, None, prepared, limit=2e-6)


WEIGHTS, EACH = 12, 91_000_000 // 4 // 12


def weights_file():
    """A safetensors file of 91 MB, open by descriptor only, and its path while this process lives."""
    import orlop
    from orlop import friendly

    path = Path().path
    orlop.io.save_safetensors(path, {f"w{i}": friendly.arange(EACH) for i in range(WEIGHTS)})
    descriptor = os.open(path, os.O_RDONLY)
    os.unlink(path)
    return f"/proc/self/fd/{descriptor}"


def load_weights():
    import orlop

    return functools.partial(orlop.io.load_safetensors, weights_file())


def read_weights():
    """The same bytes as one array."""
    import numpy

    return functools.partial(numpy.fromfile, weights_file(), dtype="float32")


def load_weights_elsewhere():
    from safetensors.numpy import load_file

    return functools.partial(load_file, weights_file())


over_file = functools.partial(Tiers, "FileBacked")

IN_PLACE = {"orlop": BlockMoves, "os": SystemCallsInPlace}

ROWS = [
    *file_rows("Q201", "move to FileBacked and back", there_and_back, 256 * MIB, Moves),
    *file_rows("Q202", "evict", out, 64 * MIB, over_file),
    *file_rows("Q202", "promote", back, 64 * MIB, over_file),
    row("Q201", "move to a block device", 1 / 0.9, out, 64 * MIB, IN_PLACE),
    row("Q201", "move from a block device", 1 / 0.9, back, 64 * MIB, IN_PLACE),
    row("Q201", "move to a block device and back", 1 / 0.9, there_and_back, 4 * MIB, IN_PLACE),
    *memory_rows("CPU", "CPU", 64 * MIB),
    *memory_rows("Generic", "Generic", 64 * MIB),
    element_row("read an element of a FileBacked", False),
    element_row("write an element of a FileBacked", True),
    harness.Row(
        "Q209",
        "load 91 MB of safetensors to CPU, beside fromfile and the safetensors package",
        1.0,
        {"orlop": load_weights, "numpy": read_weights, "safetensors": load_weights_elsewhere},
    ),
]

if __name__ == "__main__":
    harness.main(__file__, ROWS, threads="1")
