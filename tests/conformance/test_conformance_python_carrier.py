"""A carrier written in Python from outside the library keeps the storage contract."""

from storage_suite import ANY, Record, StorageSuite

from orlop import Carrier, DType, Generic


class Ledger(Carrier):
    """A sibling carrier composed of a Generic."""

    def __init__(self, slots):
        super().__init__()
        self.slots = slots

    def size(self):
        return self.slots.size()

    def dtype(self):
        return self.slots.dtype()

    def get_value(self, index):
        return self.slots[index]

    def set_value(self, index, value):
        if not self.is_mutable():
            raise RuntimeError("[Ledger] the carrier is not mutable")
        self.slots[index] = value
        self._increment_version()

    def new_like(self, values, *, mutable=True, dtype=None):
        return Ledger(self.slots.new_like(values, mutable=mutable, dtype=dtype))

    def allocate_like(self, size, *, mutable=True, dtype=None, empty=False):
        return Ledger(self.slots.allocate_like(size, mutable=mutable, dtype=dtype))

    def scatter(self, to_scatter, scatter_onto, mapping, mapping_offset=0):
        raise NotImplementedError("[Ledger] scatter is not supported")

    def _is_mutable(self):
        return self.slots.is_mutable()

    def _supports_storage_dtype(self, dtype):
        return self.slots.supports_storage_dtype(dtype)

    def _release(self):
        self.slots.release()

    def _allocate(self, size):
        self.slots = self.slots.allocate_like(size)


class TestLedger(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: Ledger(Generic(values, dtype=dtype, mutable=mutable)),
        dtypes=ANY,
        supported=(DType.Any, DType.Floating, *ANY),
        growable=True,
    )
