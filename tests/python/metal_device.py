"""Who runs Metal's kernels in the tests: the emulator, or the device where ORLOP_METAL_RUNTIME=apple says so."""

import os

import pytest

from orlop._core import _replace_metal_runtime

RUNTIME = os.environ.get("ORLOP_METAL_RUNTIME") or "emulated"


@pytest.fixture
def metal_device():
    _replace_metal_runtime(RUNTIME)
    yield
    _replace_metal_runtime(None)
