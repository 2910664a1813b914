// CPU: host memory that computes at the machine's speed. Protocol: see orlop/storage/host_carrier.hpp.
#pragma once

#include "orlop/storage/host_carrier.hpp"

namespace orlop::inline v0 {

struct CPUOptions {
  bool is_mutable = true;
  DTypeRef dtype = dtypes::Float32;
  bool empty = false;  ///< owned slots may start unwritten
};

/// Typed host storage, owned or wrapped. Stores Float32, Int32 and Bool.
/// `auto cpu = CPU::make(3, {.dtype = dtypes::Int32});`
class ORLOP_API CPU final : public HostCarrier {
 public:
  /// `size` owned slots; ValueError for a negative size or a dtype that CPU does not store.
  [[nodiscard]] static Ref<CPU> make(Index size, const CPUOptions& options = {});
  /// The caller's memory at `address` (positive, else ValueError), neither initialized nor owned. `owner`, if
  /// any, is let go once the carrier is released or destroyed and the last export gone.
  [[nodiscard]] static Ref<CPU> wrap(Index size, Index address, const CPUOptions& options = {},
                                     std::shared_ptr<void> owner = {});

  /// The positive address of slot 0. RuntimeError once released.
  [[nodiscard]] Index pointer() const;

  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values,
                                      const NewLikeOptions& options = {}) const override;
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options = {}) const override;
  void scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
               Index mapping_offset = 0) override;
  [[nodiscard]] DLPackInfo dlpack_info() const override;
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

/// The CPU kernels by operation name.
[[nodiscard]] ORLOP_API const KernelTable& cpu_kernels();

}  // namespace orlop::inline v0
