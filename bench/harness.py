"""Side-by-side measurements: each library in its own process, repeats in turns, results as JSON and Markdown.

A benchmark file lists rows and ends with `harness.main(__file__, ROWS)`. A row maps each library to a function
that prepares the operands and returns the function to be timed:

    def add_orlop(): ...; return lambda: orlop.add(a, b)
    ROWS = [harness.Row("Q101", "add 10^6", 1.0, {"orlop": add_orlop, "numpy": add_numpy})]

A library is named by the module that it imports (`os` for a plain loop of system calls), with a word after it
where a module is compared with itself (`orlop CPU`); one that cannot be imported has no figure. A function that
returns `Seconds` tells its own time. A row has a `mark` (our time over that of the best other), a `limit` (our time
itself), both or neither.

Options: --threads 1,2  --repeats N  --only TEXT  --with-torch  --plot  --quick  --results FOLDER
"""

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
FOREIGN_SHARE = 0.05  # of the machine's CPU time spent by others; above it a repeat counts as disturbed
MAX_TRIES = 5  # per repeat
TOLERANCE = 1.05  # a figure this much above its mark still counts as reaching it
# What makes OpenBLAS choose other kernels than the processor's best; unset for every library alike.
KERNEL_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "ORLOP_NUM_THREADS",
)


class Seconds(float):
    """The time of one call, measured by the called function itself."""


def restored(function: Callable[[], object], restore: Callable[[], object]) -> Callable[[], Seconds]:
    """Times `function` alone where the next call needs `restore` first."""

    def call() -> Seconds:
        start = time.perf_counter()
        function()
        elapsed = time.perf_counter() - start
        restore()
        return Seconds(elapsed)

    return call


class Row(NamedTuple):
    id: str
    name: str
    mark: float | None  # ours divided by the best of the others is at most this
    libraries: dict[str, Callable[[], Callable[[], object]]]
    limit: float | None = None  # ours is at most this many seconds


# --- The worker: one library, one thread count; reads row numbers, answers seconds per call -----------------


def time_once(function: Callable[[], object], seconds: float = 0.02) -> float:
    """Seconds per call, over as many calls as fill `seconds`, after one that does not count."""
    calls = 1
    if isinstance(function(), Seconds):
        told = function()
        while told < seconds:
            told += function()
            calls += 1
        return told / calls
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return elapsed / calls
        calls = max(calls * 2, int(calls * seconds / max(elapsed, 1e-9)))


def blas_kernels(library: str) -> list[str]:
    """The BLAS that came with a library and that it has loaded, with the processor that its kernels are for."""
    if library == "torch":
        import torch

        return re.findall(r"Math Kernel Library Version \S+", torch.__config__.show())
    if importlib.util.find_spec("threadpoolctl") is None:  # a smoke test
        return []
    import threadpoolctl

    return [
        f"{info['internal_api']} {info['version']} {info['architecture']}"
        for info in threadpoolctl.threadpool_info()
        if info["user_api"] == "blas"
        and pathlib.Path(info["filepath"]).parent.name.split(".")[0] == library.split()[0]
    ]


def work(rows: list[Row], library: str, threads: int) -> None:
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    prepared: tuple[int, Callable[[], object]] | None = None
    for line in sys.stdin:
        if line == "blas\n":
            print(json.dumps(blas_kernels(library)), flush=True)
            continue
        number = int(line)
        seconds = None
        try:
            if prepared is None or prepared[0] != number:
                prepared = None  # frees the operands of the row before
                prepared = number, rows[number].libraries[library]()
            seconds = time_once(prepared[1])
        except Exception:
            traceback.print_exc()
        print(json.dumps(seconds), flush=True)


class Worker:
    def __init__(self, script: str, library: str, threads: int):
        environment = os.environ | {name: str(threads) for name in THREAD_VARIABLES}
        for name in KERNEL_VARIABLES:
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, script, "--worker", library, "--threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, question: str) -> object:
        """The worker's answer; None from one that has ended."""
        try:
            self.process.stdin.write(f"{question}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            return None
        return json.loads(answer) if answer else None

    def measure(self, number: int) -> float | None:
        """Seconds per call, or None when the row failed there (its traceback is on stderr)."""
        return self.ask(str(number))

    def blas(self) -> list[str]:
        return self.ask("blas") or []

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


# --- The quiet of the machine -------------------------------------------------------------------------------


def busy_seconds() -> float:
    """CPU seconds that the whole machine has worked so far; 0 where the system does not tell."""
    try:
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0
    user, nice, system, _idle, _wait, interrupt, soft = map(int, fields[:7])
    return (user + nice + system + interrupt + soft) / os.sysconf("SC_CLK_TCK")


class ForeignLoad:
    """The share of the machine that processes other than one worker used between start and share()."""

    def __init__(self, pid: int):
        self.pid, self.wall, self.busy, self.own = (
            pid,
            time.monotonic(),
            busy_seconds(),
            self.worker_seconds(pid),
        )

    @staticmethod
    def worker_seconds(pid: int) -> float:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # with the children that it waited for

    def share(self) -> float:
        wall = time.monotonic() - self.wall
        foreign = (busy_seconds() - self.busy) - (self.worker_seconds(self.pid) - self.own)
        return max(0.0, foreign) / (wall * (os.cpu_count() or 1)) if wall > 0 else 0.0


def wait_for_quiet(limit: float = 60.0) -> None:
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        load = ForeignLoad(os.getpid())
        time.sleep(0.5)
        if load.share() < FOREIGN_SHARE:
            return
    print(f"the machine did not become quiet within {limit:.0f} s; figures may be disturbed", file=sys.stderr)


# --- The measuring process ----------------------------------------------------------------------------------


def measure_row(
    number: int, workers: dict[str, Worker], repeats: int, tries: int
) -> tuple[dict[str, list[float]], float]:
    """The times of each library, taken in turns, and the largest foreign share that was accepted."""
    times: dict[str, list[float]] = {library: [] for library in workers}
    worst = 0.0
    for _ in range(repeats):
        for library, worker in workers.items():
            best = None  # the least disturbed try
            for _ in range(tries):
                load = ForeignLoad(worker.process.pid)
                seconds = worker.measure(number)
                if seconds is None:
                    break
                share = load.share()
                if best is None or share < best[1]:
                    best = seconds, share
                if share < FOREIGN_SHARE:
                    break
            if best is not None:
                times[library].append(best[0])
                worst = max(worst, best[1])
    return times, worst


def summarise(row: Row, threads: int, times: dict[str, list[float]], foreign: float) -> dict:
    figures = {
        name: {"min": min(taken), "median": statistics.median(taken)}
        for name, taken in times.items()
        if taken
    }
    others = {name: figure["min"] for name, figure in figures.items() if name != "orlop"}
    best = min(others, key=lambda name: others[name], default=None)
    ours = figures["orlop"]["min"] if "orlop" in figures else None
    ratio = ours / others[best] if best and ours is not None else None
    verdicts = [
        value <= mark * TOLERANCE
        for value, mark in ((ratio, row.mark), (ours, row.limit))
        if value is not None and mark is not None
    ]
    return {
        "id": row.id,
        "row": row.name,
        "threads": threads,
        "figures": figures,
        "best": best,
        "ratio": ratio,
        "mark": row.mark,
        "limit": row.limit,
        "ok": all(verdicts) if verdicts else None,
        "foreign": foreign,
    }


def show_time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def render(title: str, results: list[dict], machine: dict) -> str:
    lines = [
        f"# {title}",
        "",
        ", ".join(f"{key} {value}" for key, value in machine.items()),
        "",
        "| id | row | threads | orlop min (median) | best other | ratio | mark | | foreign CPU |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        ours = result["figures"].get("orlop", {})
        other = (
            f"{show_time(result['figures'][result['best']]['min'])} ({result['best']})"
            if result["best"]
            else "–"
        )
        ratio = "–" if result["ratio"] is None else f"{result['ratio']:.2f}"
        verdict = {None: "–", True: "ok", False: "under"}[result["ok"]]
        marks = [] if result["mark"] is None else [f"{result['mark']:g}"]
        marks += [] if result["limit"] is None else [show_time(result["limit"])]
        lines.append(
            f"| {result['id']} | {result['row']} | {result['threads']} | {show_time(ours.get('min'))} "
            f"({show_time(ours.get('median'))}) | {other} | {ratio} | {', '.join(marks) or '–'} | {verdict} "
            f"| {result['foreign']:.0%} |"
        )
    return "\n".join(lines) + "\n"


def plot(path: pathlib.Path, results: list[dict]) -> None:
    """Ratios to the best other library as bars, the mark of each as a line; shorter is faster."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [result for result in results if result["ratio"] is not None and result["mark"] is not None]
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.28 * len(shown)), layout="constrained")
    places = range(len(shown))
    axes.barh(
        places,
        [result["ratio"] for result in shown],
        color=["tab:green" if result["ok"] else "tab:red" for result in shown],
    )
    axes.vlines(
        [result["mark"] for result in shown],
        [place - 0.4 for place in places],
        [place + 0.4 for place in places],
        color="black",
    )
    axes.set_yticks(places, [f"{result['row']}, {result['threads']} thr." for result in shown])
    axes.invert_yaxis()
    axes.set_xlabel("our time / best other (line: the mark)")
    figure.savefig(path, dpi=120)


def describe_machine() -> dict:
    model = platform.processor() or platform.machine()
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}


def main(script: str, rows: list[Row], threads: str = f"1,{os.cpu_count()}") -> None:
    """Entry point of every benchmark file, in the measuring process and in its workers alike."""
    parser = argparse.ArgumentParser(prog=pathlib.Path(script).name)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--threads", default=threads, help="thread counts, separated by commas")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="rows whose id or name contains this text")
    parser.add_argument(
        "--with-torch", action="store_true", help="measure PyTorch too, where it is installed"
    )
    parser.add_argument("--plot", action="store_true", help="draw the ratios as a picture too")
    parser.add_argument(
        "--quick", action="store_true", help="one repeat, one thread, however busy the machine is: a smoke test"
    )
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="the folder of the results")
    options = parser.parse_args()
    if options.worker:
        work(rows, options.worker, int(options.threads))
        return
    if options.quick:
        options.threads, options.repeats = "1", 1

    libraries = sorted(
        {library for row in rows for library in row.libraries}, key=lambda name: (name != "orlop", name)
    )
    libraries = [
        library
        for library in libraries
        if importlib.util.find_spec(library.split()[0]) is not None
        and (library != "torch" or options.with_torch)
    ]
    results, blas = [], {}
    tries = 1 if options.quick else MAX_TRIES
    if not options.quick:
        wait_for_quiet()
    for threads in dict.fromkeys(int(count) for count in options.threads.split(",")):
        workers = {library: Worker(script, library, threads) for library in libraries}
        for number, row in enumerate(rows):
            if options.only not in f"{row.id} {row.name}":
                continue
            able = {library: workers[library] for library in libraries if library in row.libraries}
            times, foreign = measure_row(number, able, options.repeats, tries)
            results.append(summarise(row, threads, times, foreign))
            print(f"{row.id} {row.name}: {threads} thread(s)", file=sys.stderr, flush=True)
        for library, worker in workers.items():
            blas |= {f"BLAS of {library.split()[0]}": kernel for kernel in worker.blas()}
            worker.close()
    name = pathlib.Path(script).stem
    folder = options.results
    folder.mkdir(parents=True, exist_ok=True)
    machine = describe_machine() | blas
    table = render(name, results, machine)
    (folder / f"{name}.json").write_text(json.dumps({"machine": machine, "rows": results}, indent=1))
    (folder / f"{name}.md").write_text(table)
    if options.plot:
        plot(folder / f"{name}.png", results)
    print(table)
    print(f"wrote {folder / name}.*")
