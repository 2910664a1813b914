"""How time grows with the number of elements: an exponent for each family of operations.

For every family the times at several sizes are fitted by time = c · n^e, over sizes large enough that a call's fixed
cost is small. Exponents above 1.1 are marked (for a sort n is n · log n, for a matrix product the number of products).
Memory alone is as steep where operands leave the caches: NumPy's addition shows it over the same sizes, or its `take`
for families that read at random. What is no steeper than 1.1 times that is told apart.

Options: --threads 1,2  --repeats N  --only TEXT  --quick  --results FOLDER
"""

import argparse
import functools
import json
import math
import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import harness
import numpy

STEEPEST = 1.1
TOO_STEEP, AS_MEMORY = "too steep", "steep as memory is"
SIZES = tuple(4**power for power in range(7, 12))  # 16 thousand to 4 million elements


class Family(NamedTuple):
    name: str
    call: Callable  # makes the function to be timed, for about n elements
    work: Callable = float  # how the time should grow with n
    memory: str = "in order"  # how it is read: a key of MEMORY


def vector(count, low=-1.0):
    from orlop import friendly

    random = numpy.random.default_rng(7)
    return friendly.tensor(random.uniform(low, 1.0, count).astype(numpy.float32))


def matrix(count):
    from orlop import friendly

    side = math.isqrt(count)
    return friendly.tensor(numpy.random.default_rng(7).standard_normal((side, side), dtype=numpy.float32))


def indices(count, most):
    import orlop
    from orlop import friendly

    drawn = numpy.random.default_rng(7).integers(0, most, count, dtype=numpy.int32)
    return friendly.tensor(drawn, dtype=orlop.DType.Int32)


def unary(name, low=-1.0):
    def call(orlop, count):
        x = vector(count, low)
        return lambda: getattr(orlop, name)(x)

    return Family(name, call)


def binary(name):
    def call(orlop, count):
        a, b = vector(count), vector(count)
        return lambda: getattr(orlop, name)(a, b)

    return Family(name, call)


def on_matrix(name, function, work=float):
    def call(orlop, count):
        x = matrix(count)
        return lambda: function(orlop, x)

    return Family(name, call, work)


def on_vector(name, function, work=float):
    def call(orlop, count):
        x = vector(count)
        return lambda: function(orlop, x)

    return Family(name, call, work)


def gathered(orlop, count):
    x, where = vector(count), indices(count, count)
    return lambda: orlop.gather(x, where, 0)


def scattered(orlop, count):
    x, where = vector(count), indices(count, count)
    return lambda: orlop.scatter_add(x, where, x, 0)


def selected(orlop, count):
    a, b = vector(count), vector(count)
    condition = orlop.lt(a, b)
    return lambda: orlop.select(condition, a, b)


def convolved(orlop, count):
    from orlop import friendly

    side = math.isqrt(count // 16)
    random = numpy.random.default_rng(7)
    x, kernel = (
        friendly.tensor(random.standard_normal(shape, dtype=numpy.float32))
        for shape in ((1, 16, side, side), (16, 16, 3, 3))
    )
    return lambda: orlop.conv_general(x, kernel, (1, 1), ((1, 1), (1, 1)))


def trained(orlop, count):
    from orlop import friendly

    x, one = vector(count), friendly.ones(1)

    def call():
        orlop.set_grad_enabled(True)
        loss = orlop.reduce_sum(orlop.tanh(x * x), "i -> 1")
        found = orlop.grad(loss, [x], one)
        orlop.set_grad_enabled(False)
        return found

    return call


FAMILIES = [
    binary("add"),
    binary("div"),
    unary("exp"),
    unary("tanh"),
    unary("log", low=0.1),
    on_matrix("add, one operand transposed", lambda orlop, x: orlop.add(x, orlop.permute(x, 1, 0))),
    on_matrix("mul by one of a transposed view", lambda orlop, x: orlop.mul(orlop.permute(x, 1, 0), 1.0)),
    Family("select", selected),
    on_matrix("reduce_sum, all", lambda orlop, x: orlop.reduce_sum(x, "i j -> 1")),
    on_matrix("reduce_sum, last axis", lambda orlop, x: orlop.reduce_sum(x, "i j -> i")),
    on_matrix("reduce_sum, first axis", lambda orlop, x: orlop.reduce_sum(x, "i j -> j")),
    on_matrix("reduce_max, last axis", lambda orlop, x: orlop.reduce_max(x, "i j -> i")),
    on_matrix("argmax, first axis", lambda orlop, x: orlop.argmax(x, "i j -> j")),
    on_vector("reduce_prod", lambda orlop, x: orlop.reduce_prod(x, "i -> 1")),
    on_vector("cumsum", lambda orlop, x: orlop.cumsum(x, 0)),
    on_vector("sort", lambda orlop, x: orlop.sort(x), lambda count: count * math.log(count)),
    on_vector("topk 10", lambda orlop, x: orlop.topk(x, 10)),
    Family("gather", gathered, memory="at random"),
    Family("scatter_add", scattered, memory="at random"),
    on_matrix("matmul", lambda orlop, x: orlop.matmul(x, x), lambda count: count**1.5),
    Family("conv_general", convolved),
    Family("gradient of sum(tanh(x · x))", trained),
]


def added(count):
    x, y = numpy.ones((2, count), numpy.float32)
    return lambda: numpy.add(x, y)


def taken(count):
    random = numpy.random.default_rng(7)
    x, where = numpy.ones(count, numpy.float32), random.integers(0, count, count, dtype=numpy.int32)
    return lambda: numpy.take(x, where)


MEMORY = {"in order": added, "at random": taken}


def exponent(work: list[float], times: list[float]) -> float:
    """The slope of the times over the work, both in logarithms: the line of least squares."""
    x, y = ([math.log(value) for value in values] for values in (work, times))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def measure(make: Callable, sizes: tuple[int, ...], repeats: int) -> list[float]:
    times = []
    for count in sizes:
        call = make(count)
        times.append(min(harness.time_once(call) for _ in range(repeats)))
    return times


def judge(found: float, memory: float) -> str:
    if found <= STEEPEST:
        return ""
    return AS_MEMORY if found <= STEEPEST * memory else TOO_STEEP


def fit(family: Family, sizes: tuple[int, ...], threads: int, repeats: int, memory: float) -> dict:
    import orlop

    orlop.set_grad_enabled(False)
    times = measure(functools.partial(family.call, orlop), sizes, repeats)
    found = exponent([family.work(count) for count in sizes], times)
    shown = "  ".join(f"{harness.show_time(seconds):>8}" for seconds in times)
    verdict = judge(found, memory)
    print(f"{family.name:32} {threads} thread(s)  n^{found:<5.2f} {shown}  {verdict}", flush=True)
    return {
        "family": family.name,
        "threads": threads,
        "exponent": found,
        "verdict": verdict,
        "times": dict(zip(sizes, times, strict=True)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="scaling.py")
    parser.add_argument(
        "--threads", default=f"1,{os.cpu_count()}", help="thread counts, separated by commas"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="families whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="one repeat of three sizes: a smoke test")
    parser.add_argument("--results", type=pathlib.Path, default=harness.RESULTS, help="the folder of the results")
    for name in ("--with-torch", "--plot"):  # of the other benchmarks
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.threads, options.repeats = "1", 1
    import orlop

    sizes = SIZES[:3] if options.quick else SIZES
    memory = {
        name: exponent(list(sizes), measure(make, sizes, options.repeats)) for name, make in MEMORY.items()
    }
    print("memory: " + ", ".join(f"{name} n^{found:.2f}" for name, found in memory.items()), flush=True)
    results = []
    for threads in dict.fromkeys(int(count) for count in options.threads.split(",")):
        orlop.set_thread_count(threads)
        for family in FAMILIES:
            if options.only in family.name:
                results.append(fit(family, sizes, threads, options.repeats, memory[family.memory]))
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "scaling.json").write_text(
        json.dumps({"machine": harness.describe_machine(), "families": results}, indent=1)
    )
    found = {
        verdict: ", ".join(result["family"] for result in results if result["verdict"] == verdict) or "none"
        for verdict in (TOO_STEEP, AS_MEMORY)
    }
    print(f"{len(results)} fits, " + "; ".join(f"{verdict}: {names}" for verdict, names in found.items()))


if __name__ == "__main__":
    main()
