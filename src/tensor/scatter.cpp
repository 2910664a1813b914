// Scatter: validate, gather the source densely, write.
#include "orlop/tensor/scatter.hpp"

#include <array>
#include <cstring>
#include <vector>

#include "orlop/layout/iteration.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

namespace {

/// The source values in ordinal order, encoded for slots of `dtype`.
std::vector<std::byte> normalized_values(const Tensor& source, const DType& dtype) {
  const Layout& layout = source.layout();
  const Carrier& carrier = *source.carrier();
  const DType& stored = carrier.dtype();
  std::vector<std::byte> span(slots_to_bytes(stored, layout.cosize()));
  carrier.read_span(source.offset(), layout.cosize(), span.data());
  // Slots of the same dtype are copied; a foreign Bool byte may hold more than 0 and 1.
  const bool is_same = &stored == &dtype && (dtype.storage_type() == StorageType::float32 ||
                                             dtype.storage_type() == StorageType::int32);
  if (is_same && layout.is_canonical()) return span;
  std::vector<std::byte> values(slots_to_bytes(dtype, layout.size()));
  std::byte* next = values.data();
  const std::array<const Layout*, 1> layouts{&layout};
  const StridedLoop loop = coalesce_together(layout.extents(), layouts);
  const Index step = loop.rank() == 0 ? 0 : loop.stride(0, 0);
  for_each_run(loop, 0, loop.size, [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i, next += dtype.slot_bytes()) {
      const std::byte* slot = span.data() + (offsets[0] + i * step) * stored.slot_bytes();
      if (is_same)
        std::memcpy(next, slot, sizeof(float));
      else
        encode_slot(dtype, decode_slot(stored, slot), next);
    }
  });
  return values;
}

}  // namespace

void check_scatter(const Carrier& receiver, const Tensor& to_scatter, const Tensor& scatter_onto,
                   const Layout& mapping) {
  const std::string_view name = receiver.carrier_class().name();
  receiver.require_live();
  receiver.require_mutable();
  receiver.require_reachable();
  to_scatter.require_single_subtensor("scatter");
  scatter_onto.require_single_subtensor("scatter");
  if (scatter_onto.carrier().get() != &receiver)
    raise<ValueError>(name, "scatter_onto must be backed by the receiving carrier: it lives on another ",
                      scatter_onto.carrier_type());
  if (!(mapping.shape() == to_scatter.layout().shape()))
    raise<ValueError>(name, "the mapping must have the source shape ", to_scatter.layout().shape(), ": got ",
                      mapping.shape());
}

void scatter_values(Carrier& receiver, const Tensor& to_scatter, const Tensor& scatter_onto,
                    const Layout& mapping, Index mapping_offset) {
  check_scatter(receiver, to_scatter, scatter_onto, mapping);
  const std::string_view name = receiver.carrier_class().name();
  if (mapping_offset < 0)
    raise<ValueError>(name, "mapping_offset must not be negative: got ", mapping_offset);
  // Both offsets are none below zero: what is left of the slots does not leave 64 bits.
  if (mapping.cosize() > receiver.size() - scatter_onto.offset() ||
      mapping_offset > receiver.size() - scatter_onto.offset() - mapping.cosize())
    raise<IndexError>(name, "a target slot is out of range: the mapping reaches slot ", mapping.cosize() - 1,
                      " from ", scatter_onto.offset(), " + ", mapping_offset, " on; the carrier has ",
                      receiver.size(), " slots");
  const Index base = scatter_onto.offset() + mapping_offset;
  to_scatter.carrier()->require_live();

  const DType& dtype = receiver.dtype();
  const std::vector<std::byte> values = normalized_values(to_scatter, dtype);
  const std::byte* next = values.data();
  const std::array<const Layout*, 1> layouts{&mapping};
  const StridedLoop loop = coalesce_together(mapping.extents(), layouts);
  const Index step = loop.rank() == 0 ? 0 : loop.stride(0, 0);
  for_each_run(loop, 0, loop.size, [&](std::span<const Index> offsets, Index count) {
    if (step == 1 || count == 1) {
      receiver.write_span(base + offsets[0], count, next);
      next += count * dtype.slot_bytes();
      return;
    }
    for (Index i = 0; i < count; ++i, next += dtype.slot_bytes())
      receiver.write_span(base + offsets[0] + i * step, 1, next);
  });
}

}  // namespace orlop::inline v0
