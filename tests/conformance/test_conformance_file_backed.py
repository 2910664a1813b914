"""FileBacked keeps the storage contract."""

from storage_suite import FLOAT, INT, Record, StorageSuite

from orlop import DType, FileBacked


class TestFileBacked(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: FileBacked(dtype=dtype).new_like(values, mutable=mutable),
        construct=lambda dtype: FileBacked(dtype=dtype),
        dtypes=(FLOAT, INT),
        supported=(DType.Floating, FLOAT, INT),
        zero_holes=True,
        growable=True,
        closed=True,
    )
