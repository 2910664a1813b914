"""Carrier classes with a CarrierDefinition, for tests: their slots are a list in `carrier.box`."""

import dataclasses

from orlop import Carrier, DType, Layout, Shape, Stride, Tensor
from orlop.carriers.extension import CarrierDefinition, StorageProvider, register_carrier_definition

FLOAT, INT, BOOL = DType.Float32, DType.Int32, DType.Bool


def allocate(carrier, slots):
    carrier.box = [carrier.dtype() is FLOAT and 0.0] * slots


BOX = StorageProvider(
    supports_dtype=lambda carrier, dtype: dtype in (FLOAT, INT, BOOL),
    physical_size=lambda carrier: len(carrier.box),
    allocate=allocate,
    release=lambda carrier: setattr(carrier, "box", []),
    read=lambda carrier, index: carrier.box[index],
    write=lambda carrier, index, value: carrier.box.__setitem__(index, value),
    elementwise_fallback=True,
)


def box(**changes):
    """The provider with some callbacks replaced."""
    return dataclasses.replace(BOX, **changes)


def defined(name="Boxed", base=Carrier, *, storage=BOX, transfers=(), **definition):
    """A fresh class with a definition; `transfers` may be a function of the class."""
    made = type(name, (base,), {})
    routes = transfers(made) if callable(transfers) else transfers
    register_carrier_definition(made, CarrierDefinition(storage, transfers=routes, **definition))
    return made


def whole(carrier):
    """All slots as a Tensor of one mode."""
    return Tensor(carrier, 0, Layout(Shape(carrier.size()), Stride(1)))


def filled(carrier_class, values, dtype=FLOAT):
    """A carrier of the class that holds `values`."""
    carrier = carrier_class(len(values), dtype=dtype)
    carrier.box = list(values)
    return carrier


def snapshot(carrier):
    """What a failed call must leave as it is."""
    return carrier.size(), carrier.version, carrier.is_owned(), carrier.is_released(), carrier.is_mutable()
