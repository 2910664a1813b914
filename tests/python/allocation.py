"""Failing allocations, in a process that was started with allocation_faults.so preloaded."""

import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys

import orlop

LIBRARY = pathlib.Path(orlop.__file__).parent.parent / "allocation_faults.so"
_process = ctypes.PyDLL(None)
IS_PRELOADED = hasattr(_process, "orlop_fail_allocations")
if IS_PRELOADED:
    # nanobind ends the process where its table of instances cannot grow. It never shrinks.
    [orlop.CPU(0) for _ in range(50_000)].clear()


class AllocationScript:
    """Lets the `fail_at`-th allocation of C++ fail, and with `lasting` every later one; `calls` of them were made."""

    def __init__(self, fail_at=0, *, lasting=False):
        self.fail_at, self.lasting, self.calls = fail_at, lasting, 0

    @contextlib.contextmanager
    def in_force(self):
        _process.orlop_fail_allocations(ctypes.c_long(self.fail_at), ctypes.c_int(self.lasting))
        try:
            yield
        finally:
            self.calls = _process.orlop_end_allocation_faults()


def run_preloaded(*arguments):
    """Python with the library preloaded; its exit status and what it said."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"LD_PRELOAD": str(LIBRARY), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    return ended.returncode, ended.stdout + ended.stderr
