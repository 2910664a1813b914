"""Python's own allocations fail once: a call raises MemoryError or succeeds, changes nothing by halves, and works the
next time. Run by tests/python/test_allocation_faults.py where this Python has its test hooks.
"""

import gc

import pytest
from orlop import CPU, DType, Evictable, FileBacked, Generic, friendly, functional, move
from test_faults import cpu, file, leftovers, line, settled_leftovers, values
from test_memory import OPERATIONS, A, B

_testcapi = pytest.importorskip("_testcapi", reason="this Python comes without its test hooks")

MOST_ALLOCATIONS = 500
QUIET = 20  # so many calls in a row without a failure are taken for the end

CALLS = {
    # nanobind dereferences a bound method that it had no memory for, and that is what from_dlpack asks arrays for. A
    # background thread is absent because Python ends the process where it has no memory for a thread's state.
    **{name: call for name, call in OPERATIONS.items() if name not in ("capsule", "to_list")},
    "carriers": lambda: (CPU(4), Generic([1.0], dtype=DType.Float32), cpu(), file()),
    "hierarchy": lambda: Evictable(cpu(), file([])).evict(),
    "move": lambda: move(move(line(cpu()), file([])), CPU(4)),
    "gradient": lambda: functional.reduce_sum(A * A, "a b -> 1").backward(),
    "slots": lambda: (A.carrier[1], A[1, 1], friendly.to_list(A)),  # a longer list takes too many tries
}


def until_quiet(call):
    for _ in range(2):  # what is made once
        call()
    gc.collect()
    before, quiet = leftovers(), 0
    kept = (values(A.carrier), values(B.carrier), A.version)
    for n in range(MOST_ALLOCATIONS):
        error = None
        try:
            _testcapi.set_nomemory(n, n + 1)
            call()
        except MemoryError as raised:
            error = raised
        finally:
            _testcapi.remove_mem_hooks()
        quiet = 0 if error else quiet + 1
        A.grad = None
        assert (values(A.carrier), values(B.carrier), A.version) == kept
        assert settled_leftovers(before) == before, f"allocation {n}"
        if quiet == QUIET:
            return
    raise AssertionError("no quiet run")


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    until_quiet(CALLS[name])


def test_operations_on_a_file_backed_hierarchy():
    hierarchy = Evictable(cpu(), FileBacked(dtype=DType.Float32))
    until_quiet(lambda: (hierarchy.evict(), hierarchy.promote()))
    assert values(hierarchy) == [1.0, 2.0, 3.0, 4.0] and hierarchy.version == 0
