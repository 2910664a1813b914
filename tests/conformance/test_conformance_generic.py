"""Generic keeps the storage contract."""

from storage_suite import ANY, Record, StorageSuite

from orlop import DType, Generic


class TestGeneric(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: Generic(values, dtype=dtype, mutable=mutable),
        construct=lambda dtype: Generic([], dtype=dtype),
        dtypes=ANY,
        supported=(DType.Any, DType.Floating, *ANY),
        scatters=True,
        computes=True,
        closed=True,
    )
