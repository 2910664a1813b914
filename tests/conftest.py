"""For every test: the interpreter's end is the end of what the tests made."""

import gc


def pytest_unconfigure():
    # Hypothesis leaves a callback there, with all that its module knows. It would live on past the end of the
    # interpreter, where nanobind reports what was not destroyed.
    gc.callbacks.clear()
