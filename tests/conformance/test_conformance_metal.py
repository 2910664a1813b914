"""Metal keeps the storage contract."""

import pytest
from metal_device import metal_device  # noqa: F401
from storage_suite import ANY, Record, StorageSuite

from orlop import Metal

pytestmark = pytest.mark.usefixtures("metal_device")


class TestMetal(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: Metal(0, dtype=dtype).new_like(values, mutable=mutable),
        construct=lambda dtype: Metal(3, dtype=dtype),
        dtypes=ANY,
        zero_holes=True,
        scatters=True,
        computes=True,
        closed=True,
    )
