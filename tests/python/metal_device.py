"""Who runs Metal's kernels in the tests: the emulator, or the device where ORLOP_METAL_RUNTIME=apple says so."""

import os

import models
import pytest

from orlop._core import _replace_metal_runtime

RUNTIME = os.environ.get("ORLOP_METAL_RUNTIME") or "emulated"


@pytest.fixture
def metal_device(monkeypatch):
    if RUNTIME != "emulated":  # a device may take numbers below 2^-126 for 0
        normal = [number for number in models.SPECIAL_FLOATS if number == 0 or not abs(number) < 2.0**-126]
        monkeypatch.setattr(models, "SPECIAL_FLOATS", normal)
    _replace_metal_runtime(RUNTIME)
    yield
    _replace_metal_runtime(None)
