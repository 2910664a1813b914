"""CPU keeps the storage contract."""

from storage_suite import ANY, Record, StorageSuite

from orlop import CPU


class TestCPU(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: CPU(0, dtype=dtype).new_like(values, mutable=mutable),
        construct=lambda dtype: CPU(3, dtype=dtype),
        dtypes=ANY,
        zero_holes=True,
        scatters=True,
        computes=True,
        closed=True,
    )
