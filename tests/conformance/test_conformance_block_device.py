"""BlockDeviceCarrier keeps the storage contract."""

import os
import tempfile

from storage_suite import FLOAT, Record, StorageSuite

from orlop import CPU, Evictable
from orlop._testing import open_block_device

CAPACITY = 1 << 22


def open_device():
    """A device on a file without a name, which goes with it."""
    with tempfile.NamedTemporaryFile() as file:
        os.truncate(file.name, CAPACITY)
        return open_block_device(file.name, capacity=CAPACITY)


class TestBlockDeviceCarrier(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: open_device().allocate(0).new_like(values, mutable=mutable),
        construct=lambda dtype: open_device().allocate(1, dtype=dtype),
        dtypes=(FLOAT,),
        zero_holes=True,
        closed=True,
    )


class TestCPUOverBlockDevice(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: Evictable(
            CPU(0, dtype=dtype).new_like(values, mutable=mutable), open_device().allocate(0)
        ),
        dtypes=(FLOAT,),
        zero_holes=True,
        scatters=True,
        computes=True,
        closed=True,
    )
