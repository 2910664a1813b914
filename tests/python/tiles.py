"""What tests of tiled carriers share: the grid G of 24 slots, policies that keep a record, transfers held open."""

import contextlib
import threading

from list_carrier import ComputingCarrier

from orlop import CPU, DType, FileBacked, Layout, MoveOperation, Shape, Stride, Tensor
from orlop.carriers.move import registered_move_operation
from orlop.carriers.tiled_evictable import ResidencyPlan, TiledEvictable, TileSelection, TileSet

GRID, TILE, LOGICAL, SLOTS = (2, 3), (2, 2), (4, 6), 24
ALL = TileSelection([range(2), range(3)]).tile_set
NONE = TileSet()


def layout(shape, stride):
    return Layout(Shape(*shape), Stride(*stride))


CANONICAL = layout(LOGICAL, (1, 4))
TRANSPOSED = layout(((2, 2), (2, 3)), ((4, 2), (1, 8)))
# X43: a full layout whose tiles are not those of G.
MISFITS = [
    layout((4, 6), (1, 0)),
    layout((4, 6), (6, 1)),
    layout(((2, 2), 6), ((2, 1), 4)),
    layout(((2, 2), (2, 3)), ((1, 8), (4, 2))),
]


def cpu(values, **options):
    return CPU(0).new_like([float(value) for value in values], **options)


def grid(values=range(SLOTS), **options):
    """G with a full primary seed over a file."""
    return TiledEvictable(cpu(values), FileBacked(dtype=DType.Float32), GRID, TILE, **options)


def cold(values=range(SLOTS), **options):
    """The same values with an empty primary and a full secondary seed."""
    file = FileBacked(dtype=DType.Float32).new_like([float(value) for value in values])
    return TiledEvictable(CPU(0), file, GRID, TILE, **options)


def empty(**options):
    """All tiles invalid."""
    return TiledEvictable(CPU(0), FileBacked(dtype=DType.Float32), GRID, TILE, **options)


def full(carrier, placed=CANONICAL):
    return Tensor(carrier, 0, placed)


def values(carrier):
    return [carrier[slot] for slot in range(carrier.size())]


def elements(tensor):
    """The values of a Tensor in the order of its ordinals."""
    return [tensor.carrier[tensor.offset + tensor.layout(i)] for i in range(tensor.layout.size)]


def dense(numbers, shape):
    strides = [1]
    for extent in shape[:-1]:
        strides.append(strides[-1] * extent)
    return Tensor(cpu(numbers), 0, layout(shape, strides))


def tiles(*coordinates):
    return TileSet(coordinates)


def sets(carrier):
    """Everything that residency changes."""
    return carrier.primary_tiles, carrier.secondary_tiles, carrier.valid_tiles, carrier.dirty_tiles


def state(carrier):
    return sets(carrier), carrier.version, values(carrier)


class Recording:
    """Answers with the same plan and keeps what it was asked."""

    def __init__(self, plan=None):
        self.calls, self.answer = [], ResidencyPlan() if plan is None else plan

    def plan(self, required, purpose):
        self.calls.append((required, purpose))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Shelf(ComputingCarrier):
    """A secondary class of the tests' own, so that transfers from and to it are theirs."""


class Gate:
    """Holds transfers open: each waits until it may pass, and fails if told so."""

    def __init__(self):
        self.open, self.started, self.fails = threading.Event(), threading.Semaphore(0), []

    def pass_through(self, number):
        self.started.release()
        assert self.open.wait(30)
        if number in self.fails:
            raise ConnectionError(f"transfer {number} fails")


@contextlib.contextmanager
def gate(source, destination):
    """Every transfer of this pair goes through the Gate that is given."""
    held = Gate()
    count = iter(range(10**9))

    class Held(MoveOperation):
        def _copy(self, tensor, target, output, element_count):
            held.pass_through(next(count))
            for slot in range(element_count):
                target.set_value(slot, tensor.carrier[tensor.offset + slot])

    with registered_move_operation(source, destination, Held):
        try:
            yield held
        finally:
            held.open.set()


def shelved(**options):
    """G over a full Shelf: every promotion is a transfer (Shelf, CPU)."""
    return TiledEvictable(CPU(0), Shelf([float(i) for i in range(SLOTS)]), GRID, TILE, **options)
