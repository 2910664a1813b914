"""Evictable keeps the storage contract over every kind of tiers."""

from storage_suite import ANY, FLOAT, INT, Record, StorageSuite

from orlop import CPU, DType, Evictable, FileBacked, Generic


def cpu(dtype):
    return CPU(0, dtype=dtype)


def generic(dtype):
    return Generic([], dtype=dtype)


def file_backed(dtype):
    return FileBacked(dtype=dtype)


def hierarchy(primary, secondary, **about):
    def make(values, dtype, mutable):
        return Evictable(primary(dtype).new_like(values, mutable=mutable), secondary(dtype))

    return Record(make=make, scatters=True, computes=True, closed=True, **about)


class TestCPUOverFileBacked(StorageSuite):
    record = hierarchy(cpu, file_backed, dtypes=(FLOAT, INT), zero_holes=True)


class TestCPUOverCPU(StorageSuite):
    record = hierarchy(cpu, cpu, dtypes=ANY, zero_holes=True)


class TestGenericOverFileBacked(StorageSuite):
    record = hierarchy(generic, file_backed, dtypes=(FLOAT, INT), supported=(DType.Floating, FLOAT, INT))
