// Metal: storage on an Apple accelerator, which computes with kernels written in TileLang.
//
// Who owns the bytes: the carrier together with its exports; they lie in memory that the processor and the
// device share. Atomic: a slot write from the processor, as in host_carrier.hpp; an operation has written all
// of its result when it returns, since it waits for the device. Durable: nothing.
#pragma once

#include "orlop/carriers/metal/runtime.hpp"
#include "orlop/storage/host_carrier.hpp"

namespace orlop::inline v0 {

struct MetalOptions {
  bool is_mutable = true;
  DTypeRef dtype = dtypes::Float32;
  bool empty = false;  ///< slots may start unwritten
};

/// Typed accelerator storage: Float32, Int32 and Bool. Exports no DLPack.
class ORLOP_API Metal final : public HostCarrier {
 public:
  /// The most slots of one carrier: kernels count them in 32 bits.
  static constexpr Index largest_size = 2147483392;

  /// Checks its arguments first: ValueError for a negative size or a dtype that Metal does not store. Then
  /// RuntimeError, before any storage, where there is no Metal runtime; MemoryError with the numbers beyond
  /// `largest_size`, the device's limit, or its memory.
  [[nodiscard]] static Ref<Metal> make(Index size, const MetalOptions& options = {});

  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values,
                                      const NewLikeOptions& options = {}) const override;
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options = {}) const override;
  /// Everything is checked before the first slot is written.
  void scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
               Index mapping_offset = 0) override;
  [[nodiscard]] const KernelTable* kernel_table() const noexcept override;
  [[nodiscard]] bool holes_are_zero() const noexcept override { return true; }

 protected:
  [[nodiscard]] bool stores(const DType& dtype) const override;
  [[nodiscard]] Ref<Operation> make_operation(std::string_view operation_name) override;

 private:
  using HostCarrier::HostCarrier;
  template <class T, class... Args>
  friend Ref<T> make_ref(Args&&... args);
};

}  // namespace orlop::inline v0
