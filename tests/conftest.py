"""For every test: threads, interrupts, and the interpreter's end as the end of what the tests made."""

import gc
import signal

import pytest


@pytest.fixture
def unchanged_thread_count():
    """What the test does to the number of threads ends with it."""
    import orlop

    before = orlop.thread_count()
    yield
    orlop.set_thread_count(before)


@pytest.fixture(params=[1, 3])
def threads(request, unchanged_thread_count):
    """So many threads for a test."""
    import orlop

    orlop.set_thread_count(request.param)


@pytest.fixture
def interruptible():
    """Python's own handler of an interrupt, also where the process was started without one, in the background."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def pytest_unconfigure():
    # Hypothesis leaves a callback there, with all that its module knows. It would live on past the end of the
    # interpreter, where nanobind reports what was not destroyed.
    gc.callbacks.clear()
