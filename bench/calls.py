"""What one call costs: additions of one element (Q116, Q118) and the import of the package (Q119)."""

import functools
import subprocess
import sys

import harness

IMPORT = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def orlop_add(wrap, graph):
    import orlop
    from orlop import friendly

    orlop.set_grad_enabled(graph)
    lhs, rhs = (wrap(friendly.full(1, value=value)) for value in (1.0, 2.0))
    return functools.partial(orlop.add, lhs, rhs)


def on_evictable(tensor):
    from orlop import CPU
    from orlop.carriers import Evictable
    from orlop.core import Tensor

    return Tensor(Evictable(tensor.carrier, CPU(1)), 0, tensor.layout)


def numpy_add():
    import numpy

    return functools.partial(numpy.add, numpy.ones(1, numpy.float32), numpy.ones(1, numpy.float32))


def torch_add(graph):
    import torch

    torch.set_grad_enabled(graph)
    return functools.partial(torch.add, *(torch.ones(1, requires_grad=graph) for _ in range(2)))


def import_in_fresh_process(module):
    program = IMPORT.format(module=module)

    def run():
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return harness.Seconds(done.stdout)

    return run


def add_row(name, graph, mark):
    cpu = functools.partial(orlop_add, lambda tensor: tensor, graph)
    others = {"numpy": numpy_add, "torch": functools.partial(torch_add, graph)}
    return harness.Row("Q116", f"add, one element, {name}", mark, {"orlop": cpu, **others})


def evictable_row(name, graph):
    evictable = functools.partial(orlop_add, on_evictable, graph)
    cpu = functools.partial(orlop_add, lambda tensor: tensor, graph)
    return harness.Row(
        "Q118", f"add, one element, {name}, Evictable over CPU", 3.0, {"orlop": evictable, "orlop CPU": cpu}
    )


ROWS = [
    add_row("no_grad", False, 2.0),
    add_row("with graph", True, 3.36),  # PyTorch's 0.94 µs over NumPy's 0.28 µs, which has no graph
    evictable_row("no_grad", False),
    evictable_row("with graph", True),
    harness.Row(
        "Q119",
        "import in a fresh process",
        None,
        {name: functools.partial(import_in_fresh_process, name) for name in ("orlop", "numpy", "torch")},
        limit=25e-3,
    ),
]

if __name__ == "__main__":
    harness.main(__file__, ROWS, threads="1")
