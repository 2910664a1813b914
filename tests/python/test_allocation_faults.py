"""Allocations fail like the system calls of test_faults.py, in processes with allocation_faults.so preloaded."""

import pathlib

import pytest
from allocation import LIBRARY, run_preloaded

pytestmark = pytest.mark.skipif(
    not LIBRARY.exists(), reason="allocation_faults.so is built on Linux, without sanitizers, beside the C++ tests"
)

FOLDER = pathlib.Path(__file__).parent
MEMORY = FOLDER.parent / "faults"


@pytest.mark.parametrize(
    "file",
    [FOLDER / "test_faults.py", FOLDER / "test_tiled_faults.py", MEMORY / "test_memory.py"],
    ids=lambda file: file.stem,
)
def test_failing_allocations(file):
    status, words = run_preloaded("-m", "pytest", "-q", "-p", "no:cacheprovider", str(file))
    assert status == 0, words


def test_failing_allocations_of_python():
    pytest.importorskip("_testcapi", reason="this Python comes without its test hooks")
    status, words = run_preloaded("-m", "pytest", "-q", "-p", "no:cacheprovider", str(MEMORY / "test_python_memory.py"))
    assert status == 0, words


@pytest.mark.parametrize("code", ["ONE", "ALL_LATER"])
@pytest.mark.parametrize("name", ["operation", "move", "background", "hierarchy"])
def test_first_uses(name, code):
    program = f"import sys; sys.path.insert(0, {str(MEMORY)!r}); import test_memory as memory\n"
    status, words = run_preloaded("-c", program + f"memory.first_use({name!r}, memory.{code})")
    assert status == 0, words
