"""Lifetimes: many carriers, cycles through references held in C++, nothing left at interpreter exit."""

import gc
import os
import resource
import subprocess
import sys
import textwrap
import weakref

import pytest

import orlop
from orlop import CPU, Carrier, DType, Evictable, FileBacked, Generic, Layout, Operation, Shape, Stride, Tensor
from orlop.operation import table_operation

FLOAT = DType.Float32
PAGE = resource.getpagesize()


class Store(Carrier):
    """A mutable carrier composed of a Generic."""

    def __init__(self, slots):
        super().__init__()
        self.slots = slots

    def size(self):
        return self.slots.size()

    def dtype(self):
        return self.slots.dtype()

    def get_value(self, index):
        return self.slots[index]

    def set_value(self, index, value):
        self.slots[index] = value

    def new_like(self, values, *, mutable=True, dtype=None):
        return Store(self.slots.new_like(values, mutable=mutable, dtype=dtype))

    def allocate_like(self, size, *, mutable=True, dtype=None):
        return Store(self.slots.allocate_like(size, mutable=mutable, dtype=dtype))

    def scatter(self, to_scatter, scatter_onto, mapping, mapping_offset=0):
        raise NotImplementedError

    def _is_mutable(self):
        return self.slots.is_mutable()

    def _dispatch_op(self, name):
        return table_operation(name)


def store(*values):
    return Store(Generic(values, dtype=FLOAT))


def flat(carrier):
    return Tensor(carrier, 0, Layout(Shape(carrier.size()), Stride(1)))


def resident_bytes():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * PAGE


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def use_cpu():
    x = flat(CPU(16))
    orlop.add(x, x)


def use_generic():
    x = flat(Generic([1.0] * 4, dtype=FLOAT))
    orlop.mul(x, x).carrier.release()


def use_file_backed():
    carrier = FileBacked(dtype=FLOAT).new_like([1.0, 2.0])
    carrier[0] = 3.0
    carrier.allocate_like(0)


def use_evictable():
    carrier = Evictable(CPU(4), FileBacked(dtype=FLOAT))
    carrier[0] = 1.0
    carrier.evict()
    carrier.promote()


def use_python_carrier():
    x = flat(store(1.0, 2.0))
    x.carrier[0] = 2.0
    x.carrier.allocate_like(3)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc to count pages and descriptors")
@pytest.mark.skipif(
    "ORLOP_SANITIZED" in os.environ, reason="AddressSanitizer keeps freed memory aside, so that it grows by design"
)
@pytest.mark.parametrize(
    "use",
    [
        use_cpu,
        use_generic,
        use_python_carrier,
        pytest.param(use_file_backed, marks=pytest.mark.slow),
        pytest.param(use_evictable, marks=pytest.mark.slow),
    ],
)
def test_ten_thousand_carriers_leave_nothing_behind(use):
    for _ in range(500):
        use()
    gc.collect()
    memory, opened = resident_bytes(), descriptors()
    for _ in range(10_000):
        use()
    gc.collect()
    assert descriptors() <= opened
    assert resident_bytes() - memory < 4 << 20  # 10,000 leaks of the smallest carrier would be more


# --- Cycles -----------------------------------------------------------------------------------------------


def cycle_of_a_carrier_and_its_tensor():
    carrier = CPU(1)
    carrier.tensor = flat(carrier)
    return carrier


def cycle_of_a_python_carrier_and_its_tensor():
    carrier = store(1.0)
    carrier.tensor = flat(carrier)
    return carrier


def cycle_of_a_hierarchy_and_its_tier():
    tier = store(1.0)
    tier.owner = Evictable(tier, FileBacked(dtype=FLOAT))
    return tier


def cycle_of_a_node_and_its_result():
    x = flat(CPU(1))
    x.retain_grad()
    y = orlop.mul(x, x)
    y.autograd_ctx.ctx["result"] = y
    y.autograd_ctx.mine = x
    return y.autograd_ctx


def cycle_of_an_operation_and_what_it_keeps():
    class Keeping(Operation):
        def _forward(self, x):
            self.store_inputs(x)
            return flat(CPU(1))

    operation = Keeping()
    carrier = CPU(1)
    carrier.operation = operation
    operation.forward(flat(carrier))
    operation.store_inputs(flat(carrier))
    return operation


@pytest.mark.parametrize(
    "make",
    [
        cycle_of_a_carrier_and_its_tensor,
        cycle_of_a_python_carrier_and_its_tensor,
        cycle_of_a_hierarchy_and_its_tier,
        cycle_of_a_node_and_its_result,
        cycle_of_an_operation_and_what_it_keeps,
    ],
)
def test_a_cycle_through_references_in_cpp_is_collected(make):
    gone = weakref.ref(make())
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("make", [cycle_of_a_carrier_and_its_tensor, cycle_of_a_node_and_its_result])
def test_a_cycle_that_is_still_reached_stays(make):
    held = make()
    gone = weakref.ref(held)
    gc.collect()
    assert gone() is held
    del held
    gc.collect()
    assert gone() is None


def test_a_python_carrier_lives_while_cpp_holds_it():
    tensor = flat(store(1.0, 2.0))
    gc.collect()
    assert tensor.carrier.slots[1] == 2.0 and type(tensor.carrier) is Store


# --- Exit ------------------------------------------------------------------------------------------------------

PREAMBLE = """
    import orlop
    from orlop import *
    def flat(carrier):
        return Tensor(carrier, 0, Layout(Shape(carrier.size()), Stride(1)))
    cpu = CPU(3); generic = Generic([1.0], dtype=DType.Float32); files = FileBacked(dtype=DType.Float32).new_like([1.0])
    x = flat(CPU(0).new_like([1.0, 2.0])); x.retain_grad()
"""
PROGRAMS = {
    "globals": "y = orlop.mul(x, x)",
    "gradients": "y = orlop.mul(x, x); (g,) = orlop.grad(y, [x], flat(CPU(0).new_like([1.0, 1.0])))",
    "a hierarchy": "h = Evictable(CPU(2), FileBacked(dtype=DType.Float32)); h.evict()",
    "a cycle": "cpu.tensor = flat(cpu)",
    "an exception that was caught": """
    try:
        files.dispatch_op("add")
    except NotImplementedError as error:
        kept = error
    """,
    "an exception that was not caught": "raise SystemExit(0)",
    "a class and its instances": """
    class Mine(Carrier):
        size = dtype = get_value = new_like = allocate_like = scatter = lambda self, *a, **k: 0
    mine = [Mine() for _ in range(3)]
    class Twice(Operation):
        def _forward(self, x):
            return orlop.add(x, x)
    operation = Twice(); y = operation.forward(x); operation.me = operation
    """,
    "a registered capability": """
    from orlop.carriers.operation_capability import OperationCapability, register_operation_capabilities
    from orlop.carriers.operation_policy import resolve_operation_plan
    class Mine(Carrier):
        size = dtype = get_value = new_like = allocate_like = scatter = lambda self, *a, **k: 0
    plan = resolve_operation_plan("add", DType.Float32, DType.Float32)
    register_operation_capabilities(Mine, [OperationCapability.from_plan(plan)])
    """,
    "threads": """
    import threading
    def work():
        for _ in range(50):
            orlop.add(x, x)
    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]; [t.join() for t in threads]
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_left_at_interpreter_exit(name):
    code = textwrap.dedent(PREAMBLE) + textwrap.dedent(PROGRAMS[name])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
