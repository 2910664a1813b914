"""Allocations fail, one or all from one on, until a call passes clean: what test_faults.py does for system calls, for
all the rest. Run by tests/python/test_allocation_faults.py, in a process with allocation_faults.so preloaded.
"""

import array
import contextlib
import gc
import logging
import math
import os
import random

import pytest
from allocation import AllocationScript
from list_carrier import ListCarrier
from orlop import (
    CPU,
    DType,
    Evictable,
    FileBacked,
    Generic,
    Layout,
    Profiler,
    Shape,
    Stride,
    Tensor,
    einops,
    friendly,
    from_buffer,
    from_dlpack,
    functional,
    io,
    move,
    move_async,
    no_grad,
)
from orlop._testing import open_block_device
from test_faults import ALL_LATER, CAPACITY, ONE, VALUES, cpu, file, line, node, until_clean, values

CODES = pytest.mark.parametrize("code", [ONE, ALL_LATER])
FLOAT = DType.Float32
__all__ = ["node"]  # a fixture


@pytest.fixture(autouse=True, scope="module")
def quick_collections():
    gc.freeze()
    yield
    gc.unfreeze()


def check(call, code, *unchanged):
    """`call()` fails with MemoryError or succeeds; the Tensors `unchanged` stay as they are."""
    before = [(tensor.version, friendly.to_list(tensor)) for tensor in unchanged]

    def attempt(run):
        with run.faults():
            call()
        for tensor, state in zip(unchanged, before, strict=True):
            assert (tensor.version, friendly.to_list(tensor)) == state
            assert not tensor.carrier.is_owned() and not tensor.carrier.is_released()
        call()

    until_clean(attempt, code)


# --- Carriers


@CODES
@pytest.mark.parametrize(
    "make",
    [
        lambda: CPU(4),
        lambda: CPU(1000),
        lambda: CPU(1 << 19),
        lambda: CPU(1 << 20).new_like(VALUES),
        lambda: cpu().allocate_like(1000),
        lambda: Generic([1.0] * 40, dtype=FLOAT),
        lambda: Generic([], dtype=FLOAT).allocate_like(1000),
        lambda: Evictable(cpu(), cpu([])),
        lambda: Evictable(cpu(), file([])).new_like(VALUES),
        lambda: Evictable(cpu(), Generic([], dtype=FLOAT)).allocate_like(10),
        lambda: ListCarrier(VALUES).new_like(VALUES),
    ],
)
def test_making_carriers(make, code):
    check(make, code)


@CODES
@pytest.mark.parametrize(
    "make",
    [cpu, lambda: Generic(VALUES, dtype=FLOAT), lambda: Evictable(cpu(), file([]))],
    ids=["CPU", "Generic", "Evictable"],
)
def test_slots_and_scatter(make, code):
    def write(run):
        carrier = make()
        with run.faults():
            carrier[1] = 9.0
        assert carrier.version == (0 if run.error else 1) and carrier[1] == (2.0 if run.error else 9.0)
        carrier[1] = 9.0

    def scatter(run):
        carrier = make()
        with run.faults():
            carrier.scatter(line(cpu([9.0] * 4)), line(carrier), Layout(Shape(4), Stride(1)))
        assert carrier.version == (0 if run.error else 1)
        assert values(carrier) == (VALUES if run.error else [9.0] * 4)
        carrier.scatter(line(cpu([9.0] * 4)), line(carrier), Layout(Shape(4), Stride(1)))

    def read(run):
        carrier = make()
        with run.faults():
            carrier[1]
        assert carrier[1] == 2.0

    def release(run):
        carrier = make()
        with run.faults():
            carrier.release()
        assert carrier.is_released() is (run.error is None)
        carrier.release()

    for attempt in (write, scatter, read, release):
        until_clean(attempt, code)


# --- Moves and transitions


@CODES
@pytest.mark.parametrize("transfer", [move, lambda *given: move_async(*given).wait()], ids=["move", "move_async"])
@pytest.mark.parametrize("target", [lambda: CPU(4), lambda: Generic([0.0] * 4, dtype=FLOAT), lambda: file([])])
@pytest.mark.parametrize("keeps_graph", [False, True])
def test_moves(target, transfer, keeps_graph, code):
    def attempt(run):
        source, destination, result = line(cpu()), target(), None
        with run.faults():
            result = transfer(source, destination)
        assert not source.carrier.is_owned() and not destination.is_owned()
        if result is None:
            assert values(source.carrier) == VALUES and source.version == 0
            result = transfer(source, destination)
        assert source.carrier.is_released() and friendly.to_list(result) == VALUES
        assert (result.autograd_ctx is not None) is keeps_graph

    with contextlib.nullcontext() if keeps_graph else no_grad():
        until_clean(attempt, code)


@CODES
@pytest.mark.parametrize("secondary", [lambda: cpu([]), lambda: Generic([], dtype=FLOAT)])
def test_transitions(secondary, code):
    def attempt(run):
        hierarchy = Evictable(cpu(), secondary())
        with run.faults():
            hierarchy.evict()
        assert hierarchy.is_evicted() is (run.error is None)
        hierarchy.evict()
        with run.faults():
            hierarchy.promote()
        hierarchy.promote()
        assert values(hierarchy) == VALUES and hierarchy.version == 0

    until_clean(attempt, code)


@CODES
def test_watched_transitions(code, caplog):
    """A line of the log for which there is no memory is lost, and nothing else."""
    with caplog.at_level(logging.DEBUG, "orlop"):

        def attempt(run):
            hierarchy = Evictable(cpu(), file([]))
            with run.faults():
                hierarchy.evict()
            hierarchy.evict()
            hierarchy.release()
            caplog.clear()

        until_clean(attempt, code)


# --- Block devices


@CODES
def test_devices(node, code):
    def make(run):
        device = None
        with run.faults():
            device = open_block_device(node, capacity=CAPACITY)
        if device is not None:
            device.close()

    until_clean(make, code)
    with open_block_device(node, capacity=CAPACITY) as device:
        whole = CAPACITY // 4

        def new_like(run):
            with run.faults():
                device.allocate(0).new_like(VALUES)
            assert not device.is_faulted() or run.error
            device.allocate(whole, empty=True)  # nothing is kept

        def transitions(run):
            hierarchy = Evictable(cpu(), device.allocate(0))
            with run.faults():
                hierarchy.evict()
            hierarchy.evict()
            with run.faults():
                hierarchy.promote()
            hierarchy.promote()
            assert values(hierarchy) == VALUES
            del hierarchy
            gc.collect()
            device.allocate(whole, empty=True)

        until_clean(new_like, code)
        until_clean(transitions, code)
        gc.collect()


# --- Operations


def tensor(*shape, seed=1):
    generator = random.Random(seed)
    made = CPU(0).new_like([generator.uniform(0.5, 2.0) for _ in range(math.prod(shape))])
    return Tensor(made, 0, friendly.row_major(*shape))


def integers(*given):
    return friendly.tensor(list(given), dtype=DType.Int32)


A, B = tensor(3, 4), tensor(3, 4, seed=2)
SQUARE, IMAGES, FILTERS, LARGE = tensor(4, 4), tensor(2, 3, 6, 6), tensor(4, 3, 3, 3), tensor(400, 300)
NARROW = tensor(4, 300)

OPERATIONS = {
    "add": lambda: A + B,
    "scalar": lambda: 2 * A - 1,
    "compare": lambda: A < B,
    "exp": lambda: functional.exp(A),
    "gelu": lambda: functional.gelu(A),
    "matmul": lambda: A @ SQUARE,
    "large": lambda: LARGE @ NARROW,
    "sum": lambda: functional.reduce_sum(A, "a b -> b"),
    "max": lambda: functional.reduce_max(LARGE, "a b -> a"),
    "cumsum": lambda: functional.cumsum(A, 1),
    "argmax": lambda: functional.argmax(A, "a b -> a"),
    "sort": lambda: functional.sort(A, 1),
    "topk": lambda: functional.topk(A, 2, 1),
    "gather": lambda: functional.gather(A, integers(0, 2), 0),
    "conv": lambda: functional.conv_general(IMAGES, FILTERS, (1, 1), ((0, 0), (0, 0))),
    "where": lambda: functional.select(A < B, A, B),
    "einsum": lambda: functional.einsum(A, B, "a b, c b -> a c"),
    "scatter": lambda: functional.scatter_add(A, integers(0, 0), B[0:2, :], 0),
    "cast": lambda: A == 1,
    "view": lambda: friendly.to_list(A[1, :]),
    "rearrange": lambda: einops.rearrange(A, "a b -> (b a)"),
    "reduce": lambda: einops.reduce(A, "a b -> a"),
    "to_list": lambda: friendly.to_list(LARGE),
    "from_list": lambda: friendly.tensor([[1.0, 2.0], [3.0, 4.0]]),
    "text": lambda: repr(A),
    "buffer": lambda: from_buffer(array.array("f", VALUES)),
    "capsule": lambda: from_dlpack(A),
}


@CODES
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name, code):
    check(OPERATIONS[name], code, A, B, SQUARE)


@CODES
def test_operations_elsewhere(code):
    for made in (Generic(VALUES, dtype=FLOAT), Evictable(cpu(), file([])), ListCarrier(VALUES)):
        x = line(made)
        check(lambda: x * x + x, code, x)


@CODES
def test_profiled_operations(code):
    def attempt(run):
        with Profiler(record_shapes=True) as profiler, run.faults():
            A + B
        assert len(profiler.events()) <= 1
        A + B

    until_clean(attempt, code)


@CODES
@pytest.mark.parametrize(
    "forward",
    [
        lambda x: functional.reduce_sum(x * x, "a b -> 1"),
        lambda x: functional.reduce_sum(functional.tanh(x @ SQUARE), "a b -> 1"),
        lambda x: functional.reduce_sum(functional.sort(x, 1)[0], "a b -> 1"),
        lambda x: functional.reduce_sum(x[1:2, :], "a b -> 1") + functional.reduce_max(x, "a b -> 1"),
        lambda x: functional.reduce_sum(move(move(x * 1, file([])), CPU(12)), "a b -> 1"),
    ],
)
def test_gradients(forward, code):
    expected = None

    def attempt(run):
        nonlocal expected
        x = Tensor(CPU(0).new_like([float(i) for i in range(12)]), 0, friendly.row_major(3, 4))
        y = None
        with run.faults():
            y = forward(x)
            y.backward()
        assert x.version == 0
        if run.error:
            x.grad = None
            forward(x).backward()
        expected = expected or friendly.to_list(x.grad)
        assert friendly.to_list(x.grad) == expected

    until_clean(attempt, code)


# --- Array files


@CODES
@pytest.mark.parametrize("kind", [CPU, FileBacked])
def test_array_files(tmp_path, kind, code):
    npy, tensors = tmp_path / "a.npy", tmp_path / "a.safetensors"
    x = tensor(20, 30) if kind is CPU else move(tensor(20, 30), file([]))
    view = Tensor(x.carrier, 0, Layout(Shape(30, 20), Stride(1, 30)))
    io.save_npy(npy, x)
    io.save_safetensors(tensors, {"x": x, "b": A})
    kept = npy.read_bytes()
    for call in (
        lambda: io.save_npy(npy, x),
        lambda: io.save_npy(npy, x, progress=lambda done, total: None),
        lambda: io.load_npy(npy, carrier=kind),
        lambda: io.save_safetensors(tensors, {"x": x, "v": view}, metadata={"k": "v"}),
        lambda: io.load_safetensors(tensors, carrier=kind),
        lambda: io.safetensors_metadata(tensors),
    ):

        def attempt(run, call=call):
            with run.faults():
                call()
            assert npy.read_bytes() == kept and len(os.listdir(tmp_path)) == 2
            call()

        until_clean(attempt, code)


# --- What is made once


FIRST_USES = {
    "operation": "x = friendly.tensor([1.0, 2.0]); call = lambda: x + x",
    "move": "call = lambda: orlop.move(friendly.tensor([1.0]), orlop.FileBacked(dtype=orlop.DType.Float32))",
    "background": "call = lambda: orlop.move_async(friendly.tensor([1.0]), orlop.CPU(1)).wait()",
    "hierarchy": "call = lambda: orlop.Evictable(orlop.CPU(1), orlop.CPU(1))",
}


def first_use(name, code):
    """In a process of its own: allocations fail in larger and larger steps, since there are thousands."""
    scope = {}
    exec("import orlop; from orlop import friendly", scope)
    exec(FIRST_USES[name], scope)
    n = 1
    while True:
        script = AllocationScript(n, lasting=code == ALL_LATER)
        try:
            with script.in_force():
                scope["call"]()
        except MemoryError:
            assert script.calls >= n
        if script.calls < n:
            return
        n += 1 + n // 8
