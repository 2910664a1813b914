"""A carrier of one's own: slots compressed in RAM with zlib, block by block, and a route that unpacks them in bulk.

The class says how its slots are kept and where they can move to; checks, versions, factories, growth and ownership come
with the library.
"""

import zlib
from array import array

from orlop import CPU, Carrier, DType, Layout, Shape, Stride, Tensor, move, no_grad
from orlop.carriers.extension import (
    CarrierDefinition,
    PreparedTransfer,
    StorageProvider,
    TransferProvider,
    TransferRoute,
    register_carrier_definition,
)

BLOCK = 4096  # slots


class Compressed(Carrier):
    """Float32 slots; one block at a time is unpacked for access."""


def allocate(carrier, slots):
    zeros = zlib.compress(bytes(4 * BLOCK))
    carrier.slots, carrier.blocks, carrier.open, carrier.changed = slots, [zeros] * -(-slots // BLOCK), None, False


def pack(carrier):
    if carrier.changed:
        carrier.blocks[carrier.open] = zlib.compress(carrier.values.tobytes())
        carrier.changed = False


def unpack(carrier, block):
    if carrier.open != block:
        pack(carrier)
        carrier.values, carrier.open = array("f", zlib.decompress(carrier.blocks[block])), block
    return carrier.values


def write(carrier, index, value):
    unpack(carrier, index // BLOCK)[index % BLOCK] = value
    carrier.changed = True


def to_cpu(request):
    def submit():
        start, span = request.tensor.offset, request.physical_span
        first, last = start // BLOCK, (start + span - 1) // BLOCK
        values = sum((unpack(request.tensor.carrier, block) for block in range(first, last + 1)), array("f"))
        slots = Tensor(request.destination, 0, Layout(Shape(span), Stride(1)))
        memoryview(slots)[:] = values[start - first * BLOCK :][:span]

    return PreparedTransfer(submit)


storage = StorageProvider(
    supports_dtype=lambda carrier, dtype: dtype is DType.Float32,
    physical_size=lambda carrier: carrier.slots,
    allocate=allocate,
    release=lambda carrier: allocate(carrier, 0),
    read=lambda carrier, index: unpack(carrier, index // BLOCK)[index % BLOCK],
    write=write,
)
routes = [TransferRoute(Compressed, CPU, "unpack", TransferProvider(to_cpu))]
register_carrier_definition(Compressed, CarrierDefinition(storage, transfers=routes))

carrier = Compressed(0, dtype=DType.Float32).new_like([float(i // 1000) for i in range(100_000)])
pack(carrier)
print(f"{4 * carrier.size():,} bytes of slots in {sum(map(len, carrier.blocks)):,}")
weights = Tensor(carrier, 0, Layout(Shape(100, 1000), Stride(1, 100)))
with no_grad():  # nothing leads from a CPU back into a class with a definition
    unpacked = move(weights, CPU(carrier.size()))
print(f"unpacked: {unpacked[99, 999]}, and the source is released: {carrier.is_released()}")
