// HostCarrier: typed slots in host memory, the part that CPU and Generic share.
//
// Who owns the bytes: the carrier together with its exports (the last of them frees), or the caller of
// `wrap`, who keeps them valid while the carrier lives, or hands over an owner that is let go with the last
// of them. Atomic: a slot write, as far as the processor writes 4 aligned bytes at once. Durable: nothing.
#pragma once

#include <array>
#include <memory>

#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

class ORLOP_API HostCarrier : public Carrier {
 public:
  ~HostCarrier() override;

  [[nodiscard]] Index size() const override { return size_; }
  [[nodiscard]] const DType& dtype() const override { return *dtype_; }
  [[nodiscard]] Scalar get_value(Index index) const override;
  void set_value(Index index, const Scalar& value) override;
  void read_span(Index first, Index count, void* out) const override;
  void write_span(Index first, Index count, const void* in) override;
  /// Null where wrapped memory is not aligned to its slots: then spans are the way in and out.
  [[nodiscard]] std::byte* host_data() const noexcept override { return is_aligned_ ? data_ : nullptr; }
  [[nodiscard]] std::shared_ptr<const void> host_memory() const noexcept override;

 protected:
  /// Owns `size` slots, zero unless `empty`. MemoryError with the numbers where there is no room.
  HostCarrier(CarrierClass carrier_class, Index size, bool is_mutable, const DType& dtype, bool empty);
  /// Uses the caller's slots as they are and holds `owner` until release.
  HostCarrier(CarrierClass carrier_class, Index size, std::byte* external, bool is_mutable,
              const DType& dtype, std::shared_ptr<void> owner);

  /// Normalizes and writes slot after slot from the first; the version stays.
  void fill(std::span<const Scalar> values);
  [[nodiscard]] bool intrinsic_mutable() const override { return is_mutable_; }
  void on_release() override;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  alignas(16) std::array<std::byte, 32> small_{};  // saves one-element results a trip to the heap
  const DType* dtype_;
  std::byte* data_;
  Index size_;
  bool is_mutable_;
  bool is_aligned_ = true;
  std::shared_ptr<std::byte> owned_;
};

}  // namespace orlop::inline v0
