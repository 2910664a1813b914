"""The scripts of orlop._testing: what they accept, and how they count."""

import doctest

import pytest
from orlop import _testing
from orlop._testing import Gate, IoScript, file_backed_io, open_temporary_files


def test_the_documented_example_holds():
    assert doctest.testmod(_testing).failed == 0


def test_every_form_of_step_is_accepted():
    steps = [("pass",), ("intr",), ("short", 3), ("zero",), ("fail", 28), ("hold", Gate())]
    script = IoScript(steps, iter(steps), reserve=[steps[0], steps[1], steps[4], steps[5]], open_errno=2, close_errno=5)
    assert (script.reads_left, script.writes_left) == (6, 6)
    assert (script.calls, script.opens, script.reads, script.writes, script.closes) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"read": 5}, TypeError, "not iterable"),
        ({"read": ["pass"]}, TypeError, "must be a tuple: got str"),
        ({"read": [("hold", None)]}, TypeError, "needs a Gate"),
        ({"read": [("short", "1")]}, TypeError, "byte count"),
        ({"read": [("short", 0)]}, ValueError, "at least 1 byte"),
        ({"read": [()]}, ValueError, "a step must be"),
        ({"read": [(1,)]}, ValueError, "a step must be"),
        ({"read": [("pass", 1)]}, ValueError, "a step must be"),
        ({"write": [("fail", -1)]}, ValueError, "must be an errno"),
        ({"reserve": [("zero",)]}, ValueError, "all or nothing"),
        ({"reserve": [("short", 1)]}, ValueError, "all or nothing"),
        ({"open_errno": 4}, ValueError, "EINTR"),
        ({"open_errno": 2**70}, OverflowError, "64 bits"),
        ({"fail_at": 1.5}, TypeError, "fail_at"),
    ],
)
def test_a_bad_script_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        IoScript(**arguments)


def test_an_exception_while_iterating_steps_passes_through():
    def steps():
        yield ("pass",)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        IoScript(read=steps())


def test_a_scope_yields_its_script_and_is_entered_once():
    script = IoScript()
    scope = file_backed_io(script)
    with scope as entered:
        assert entered is script
        with pytest.raises(RuntimeError, match="entered already"):
            scope.__enter__()
    with pytest.raises(TypeError):
        file_backed_io(None)
    assert open_temporary_files() >= 0


def test_a_gate_waits_no_longer_than_asked():
    gate = Gate()
    assert gate.wait_entered(0.001) is False
    for timeout in (-1.0, float("nan"), 1e12):
        with pytest.raises(ValueError, match="timeout"):
            gate.wait_entered(timeout)
