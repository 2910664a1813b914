// Generic: the reference store. It computes with plain loops in ordinal order, the oracle for every other
// carrier. Protocol: see orlop/storage/host_carrier.hpp.
#pragma once

#include "orlop/storage/host_carrier.hpp"

namespace orlop::inline v0 {

struct GenericOptions {
  bool is_mutable = true;
  DTypeRef dtype;  ///< Float32, Int32 or Bool; required
};

/// Normalized concrete values in storage of its own. `Generic::make(values, {.dtype = dtypes::Int32})`.
class ORLOP_API Generic final : public HostCarrier {
 public:
  /// Copies and normalizes `values`. TypeError without a dtype, ValueError for one that Generic cannot
  /// construct; TypeError or OverflowError for a value that the dtype does not take.
  [[nodiscard]] static Ref<Generic> make(Sequence<Scalar> values, const GenericOptions& options);
  /// `size` slots of zero.
  [[nodiscard]] static Ref<Generic> zeros(Index size, const GenericOptions& options);

  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values,
                                      const NewLikeOptions& options = {}) const override;
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options = {}) const override;
  void scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
               Index mapping_offset = 0) override;
  [[nodiscard]] const KernelTable* kernel_table() const noexcept override;

 protected:
  /// Any and Floating besides: the support table of the specification is wider than what can be constructed.
  [[nodiscard]] bool stores(const DType& dtype) const override;
  [[nodiscard]] Ref<Operation> make_operation(std::string_view operation_name) override;

 private:
  using HostCarrier::HostCarrier;
  template <class T, class... Args>
  friend Ref<T> make_ref(Args&&... args);
};

}  // namespace orlop::inline v0
