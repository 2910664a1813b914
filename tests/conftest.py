"""For every test: threads, and the interpreter's end as the end of what the tests made."""

import gc

import pytest


@pytest.fixture(params=[1, 3])
def threads(request):
    """So many threads for a test."""
    import orlop

    before = orlop.thread_count()
    orlop.set_thread_count(request.param)
    yield
    orlop.set_thread_count(before)


def pytest_unconfigure():
    # Hypothesis leaves a callback there, with all that its module knows. It would live on past the end of the
    # interpreter, where nanobind reports what was not destroyed.
    gc.callbacks.clear()
