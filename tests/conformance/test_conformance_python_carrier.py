"""A carrier written in Python from outside the library keeps the storage contract."""

from storage_suite import ANY, Record, StorageSuite

from orlop import Carrier, CarrierDefinition, DType, Generic, StorageProvider, register_carrier_definition


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


class Boxed(Carrier):
    """A class with a CarrierDefinition: its provider keeps the slots in a list."""


register_carrier_definition(
    Boxed,
    CarrierDefinition(
        StorageProvider(
            supports_dtype=lambda carrier, dtype: dtype in ANY,
            physical_size=lambda carrier: len(carrier.box),
            allocate=lambda carrier, slots: setattr(carrier, "box", [None] * slots),
            release=lambda carrier: setattr(carrier, "box", []),
            read=lambda carrier, index: carrier.box[index],
            write=lambda carrier, index, value: carrier.box.__setitem__(index, value),
            elementwise_fallback=True,
        )
    ),
)


class TestBoxed(StorageSuite):
    record = Record(
        make=lambda values, dtype, mutable: Boxed(0, dtype=dtype).new_like(values, mutable=mutable),
        dtypes=ANY,
        construct=lambda dtype: Boxed(1, dtype=dtype),
        scatters=True,
        growable=True,
        peer=lambda slots, dtype: Boxed(slots, dtype=dtype),
    )
