// Host memory: allocation and slot access.
#include "orlop/storage/host_carrier.hpp"

#include <cstring>
#include <limits>

#include "orlop/storage/normalize.hpp"
#include "storage/host_memory.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::size_t cache_line = 64;

std::size_t bytes_for(CarrierClass carrier_class, const DType& dtype, Index size) {
  const auto slot = dtype.slot_bytes();
  if (size > std::numeric_limits<Index>::max() / slot - static_cast<Index>(cache_line))
    raise<MemoryError>(carrier_class.name(), "no memory for ", size, " slots of ", slot,
                       " bytes each; use a smaller size");
  return static_cast<std::size_t>(size * slot);
}

}  // namespace

HostCarrier::HostCarrier(CarrierClass carrier_class, Index size, bool is_mutable, const DType& dtype,
                         bool empty)
    : Carrier(carrier_class), dtype_(&dtype), data_(small_.data()), size_(size), is_mutable_(is_mutable) {
  const std::size_t bytes = bytes_for(carrier_class, dtype, size);
  if (bytes <= small_.size()) return;
  owned_ = allocate_host_memory(bytes, !empty);
  if (!owned_)
    raise<MemoryError>(carrier_class.name(), "no memory for ", size, " slots of ", dtype.name(), ": ", bytes,
                       " bytes; use a smaller size, or keep the values in a file");
  data_ = owned_.get();
}

HostCarrier::HostCarrier(CarrierClass carrier_class, Index size, std::byte* external, bool is_mutable,
                         const DType& dtype, std::shared_ptr<void> owner)
    : Carrier(carrier_class),
      dtype_(&dtype),
      data_(external),
      size_(size),
      is_mutable_(is_mutable),
      is_aligned_(
          reinterpret_cast<std::uintptr_t>(external) % static_cast<std::uintptr_t>(dtype.slot_bytes()) == 0),
      owned_(std::move(owner), external) {
  static_cast<void>(bytes_for(carrier_class, dtype, size));
}

HostCarrier::~HostCarrier() = default;

std::shared_ptr<const void> HostCarrier::host_memory() const noexcept {
  if (data_ == small_.data()) return {std::shared_ptr<void>(), data_};  // stays as long as the carrier
  return owned_.use_count() == 0 ? nullptr : owned_;
}

Scalar HostCarrier::get_value(Index index) const {
  check_readable(index);
  return decode_slot(*dtype_, data_ + index * dtype_->slot_bytes());
}

void HostCarrier::set_value(Index index, const Scalar& value) {
  check_writable(index);
  encode_slot(*dtype_, value, data_ + index * dtype_->slot_bytes());
  advance_version();
}

void HostCarrier::read_span(Index first, Index count, void* out) const {
  if (count == 0) return;  // memcpy wants real addresses even for nothing
  std::memcpy(out, data_ + first * dtype_->slot_bytes(),
              static_cast<std::size_t>(count * dtype_->slot_bytes()));
}

void HostCarrier::write_span(Index first, Index count, const void* in) {
  if (count == 0) return;
  std::memcpy(data_ + first * dtype_->slot_bytes(), in,
              static_cast<std::size_t>(count * dtype_->slot_bytes()));
}

void HostCarrier::fill(std::span<const Scalar> values) {
  std::byte* slot = data_;
  for (const Scalar& value : values) {
    encode_slot(*dtype_, value, slot);
    slot += dtype_->slot_bytes();
  }
}

void HostCarrier::on_release() {
  size_ = 0;
  data_ = small_.data();
  is_aligned_ = true;
  owned_.reset();  // last: the owner may run its own code
}

}  // namespace orlop::inline v0
