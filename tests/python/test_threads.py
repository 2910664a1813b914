"""How many threads kernels use."""

import os
import subprocess
import sys

import pytest

import orlop


@pytest.fixture(autouse=True)
def unchanged_count():
    before = orlop.thread_count()
    yield
    orlop.set_thread_count(before)


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
