"""Kernels on several threads, and several threads on kernels."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import orlop
from orlop import DType, friendly

pytestmark = pytest.mark.usefixtures("unchanged_thread_count")


def count_with(variable: str | None) -> str:
    """What a fresh process counts, or the error that it ends with."""
    environment = {key: value for key, value in os.environ.items() if key != "ORLOP_NUM_THREADS"}
    if variable is not None:
        environment["ORLOP_NUM_THREADS"] = variable
    script = "import orlop; print(orlop.thread_count())"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def test_count_is_that_of_the_processors_unless_the_environment_says_otherwise():
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert 1 <= int(count_with(None)) <= available
    assert count_with("") == count_with(None)
    assert count_with("1") == "1"
    assert count_with("7") == "7"


@pytest.mark.parametrize("variable", ["0", "-1", "1025", "two", "2 ", "1e3", "9" * 30])
def test_environment_variable_must_be_a_count(variable):
    assert "ValueError: [ORLOP_NUM_THREADS] must be a whole number from 1 to 1024" in count_with(variable)


def test_set_thread_count_is_what_thread_count_says():
    for count in (1, 3, 1024):
        orlop.set_thread_count(count)
        assert orlop.thread_count() == count


@pytest.mark.parametrize("count", [0, -1, 1025, 2**63, -(2**70)])
def test_counts_out_of_range_are_value_errors(count):
    before = orlop.thread_count()
    with pytest.raises(ValueError, match=r"\[set_thread_count\]"):
        orlop.set_thread_count(count)
    assert orlop.thread_count() == before


@pytest.mark.parametrize("count", [True, 2.0, "2", None])
def test_counts_must_be_integers(count):
    with pytest.raises(TypeError):
        orlop.set_thread_count(count)


def large(value=0.5, count=1 << 20):
    return friendly.full(count, value=value)


def test_long_kernels_run_without_the_interpreter():
    """No thread is switched to by the clock: another one runs only where the kernel lets the interpreter go."""
    x = large(count=1 << 23)
    gate = threading.Lock()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        for _ in range(200):
            ran = []
            with gate:
                other = threading.Thread(target=lambda ran=ran: gate.acquire() and ran.append(1) or gate.release())
                other.start()
            orlop.exp(x)
            seen = bool(ran)
            other.join()
            if seen:
                return
    finally:
        sys.setswitchinterval(interval)
    pytest.fail("no other thread ran during a kernel")


LONG_CALLS = {
    "product": (lambda: friendly.ones(4608, 4608), lambda operand: orlop.matmul(operand, operand)),
    "elementwise": (lambda: friendly.full(1 << 26, value=1.5), lambda operand: orlop.pow(operand, operand)),
    "order": (lambda: orlop.sin(friendly.arange(1 << 23, dtype=DType.Float32)), orlop.sort),
}


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("name", LONG_CALLS)
def test_an_interrupt_ends_a_long_call(name):
    make, call = LONG_CALLS[name]
    operand = make()

    def seconds_of(work):
        """Of the processors, which do not count what others do; and of the clock."""
        processors, clock = time.process_time(), time.monotonic()
        work()
        return time.process_time() - processors, time.monotonic() - clock

    def interrupted(delay):
        timer = threading.Timer(delay, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            call(operand)
            timer.join()  # where the call was faster

    def is_ended():
        whole, duration = seconds_of(lambda: call(operand))
        return seconds_of(lambda: interrupted(duration / 8))[0] < whole / 2

    # Where others keep the processors from one of the two calls, or from the timer, that proves nothing.
    assert any(is_ended() for _ in range(10))
    assert operand.carrier.version == 0


def test_an_interrupt_does_not_end_a_write_midway():
    source, target = friendly.full(1 << 25, value=1.5), friendly.zeros(1 << 25)
    former = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # afterwards
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            target.carrier.scatter(source, target, source.layout)
            time.sleep(10)
    finally:
        signal.signal(signal.SIGALRM, former)
    assert target.carrier.version == 1
    assert friendly.item(orlop.reduce_min(target, "i -> 1")) == 1.5


def test_operand_released_by_another_thread_stays_valid_for_the_kernel_that_reads_it():
    expected = friendly.to_list(orlop.exp(large(count=1)))[0]
    for _ in range(20):
        x = large()
        other = threading.Thread(target=x.carrier.release)
        other.start()
        try:
            y = orlop.exp(x)
        except RuntimeError as error:
            assert "released" in str(error)
        else:
            assert friendly.item(orlop.reduce_max(y, "i -> 1")) == expected
            assert friendly.item(orlop.reduce_min(y, "i -> 1")) == expected
        other.join()
        assert x.carrier.is_released()


def test_child_of_a_fork_computes_what_its_parent_does():
    x = large()
    expected = friendly.item(orlop.reduce_sum(orlop.exp(x), "i -> 1"))
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        same = friendly.item(orlop.reduce_sum(orlop.exp(x), "i -> 1")) == expected
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_many_threads_compute_at_once():
    x = large()
    expected = friendly.item(orlop.reduce_sum(orlop.exp(x), "i -> 1"))
    found = []

    def compute():
        for _ in range(5):
            found.append(friendly.item(orlop.reduce_sum(orlop.exp(x), "i -> 1")))

    threads = [threading.Thread(target=compute) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 40


def test_no_gradient_of_a_shared_leaf_is_lost():
    shared = friendly.full(500_000, value=1.0)  # so large that its sums let other threads go on

    def work():
        for _ in range(5):
            orlop.reduce_sum(shared * 1.0, "a -> 1").backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared.grad[0] == shared.grad[499_999] == 20.0


ENDS = """
import threading, time
from orlop import CPU, DType, FileBacked, exp, friendly, move

large = friendly.full(1 << 18, value=0.5)

def kernels():
    exp(large)

def files():
    move(friendly.full(1 << 16, value=1.0), FileBacked(dtype=DType.Float32))

def gradients():
    x = friendly.full(1 << 17, value=1.0)
    friendly.sum(exp(x)).backward()

def forever(action):
    while True:
        action()

for action in (kernels, files, gradients):
    threading.Thread(target=forever, args=(action,), daemon=True).start()
time.sleep(0.05)
print("end")
"""


@pytest.mark.parametrize("attempt", range(5))
def test_interpreter_ends_in_order_while_daemon_threads_compute(attempt):
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


FORKS = """
import os, sys, threading
from orlop import exp, friendly

large = friendly.full(1 << 18, value=0.5)
stopped = threading.Event()

def compute():
    while not stopped.is_set():
        exp(large)

threads = [threading.Thread(target=compute) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        exp(large)
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
stopped.set()
"""


def test_a_child_forked_beside_computing_threads_exits_quietly():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


IMPORTS = """
import _xxsubinterpreters as interpreters

other = interpreters.create()
interpreters.run_string(other, '''
try:
    import orlop
    orlop.CPU
except ImportError as error:
    print(error)
''')
interpreters.destroy(other)
from orlop import friendly
print(friendly.item(friendly.ones(1) + 1.0))
"""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the module of interpreters has another name")
@pytest.mark.parametrize("before", ["", "import orlop; orlop.CPU\n"])
def test_sub_interpreters_are_refused_and_the_main_one_goes_on(before):
    done = subprocess.run([sys.executable, "-c", before + IMPORTS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    refusal, result = done.stdout.splitlines()
    assert "sub-interpreter" in refusal and result == "2.0"


PACKAGES = """
import importlib, pathlib, sys
import orlop

root = pathlib.Path(orlop.__file__).parent
for path in sorted(root.rglob("*.py")):
    parts = ["orlop", *path.relative_to(root).with_suffix("").parts]
    if any(part.startswith("_") for part in parts[1:]):
        continue
    value = sys.modules["orlop"]
    for part in parts[1:]:
        value = getattr(value, part)
    assert value is importlib.import_module(".".join(parts)), parts
"""


def test_every_public_module_is_an_attribute_of_its_package_before_its_import():
    subprocess.run([sys.executable, "-c", PACKAGES], check=True)
