// The carrier's face to the rest of the library: slots, factories, dispatch.
#include <array>
#include <vector>

#include "orlop/carriers/block_device/block_device.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

namespace {
using Slot = std::array<std::byte, 4>;
}

Scalar BlockDeviceCarrier::get_value(Index index) const {
  check_readable(index);
  Slot slot;
  read_span(index, 1, slot.data());
  return decode_slot(dtypes::Float32, slot.data());
}

void BlockDeviceCarrier::set_value(Index index, const Scalar& value) {
  check_writable(index);
  Slot slot;
  encode_slot(dtypes::Float32, value, slot.data());
  write_span(index, 1, slot.data());
  advance_version();
}

Ref<Carrier> BlockDeviceCarrier::new_like(Sequence<Scalar> values, const NewLikeOptions& options) const {
  const auto count = static_cast<Index>(values.size());
  std::vector<std::byte> slots(slots_to_bytes(dtypes::Float32, count));
  for (std::size_t i = 0; i < values.size(); ++i)
    encode_slot(dtypes::Float32, values[i], slots.data() + i * sizeof(Slot));
  const Ref<Carrier> made =
      allocate_like(count, {.is_mutable = options.is_mutable, .dtype = options.dtype, .empty = true});
  made->write_span(0, count, slots.data());
  return made;
}

Ref<Carrier> BlockDeviceCarrier::allocate_like(Index size, const AllocateOptions& options) const {
  return device_->allocate(
      size, {options.is_mutable, options.dtype ? options.dtype : DTypeRef(dtypes::Float32), options.empty});
}

Ref<Operation> BlockDeviceCarrier::make_operation(std::string_view operation_name) {
  if (Ref<Operation> view = view_operation(operation_name)) return view;
  return Carrier::make_operation(operation_name);
}

}  // namespace orlop::inline v0
