// The Generic carrier: construction, factories, and its place in dispatch.
#include <array>

#include "orlop/carriers/generic/generic.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/kernels.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/storage/storage_dtype.hpp"
#include "orlop/tensor/scatter.hpp"

namespace orlop::inline v0 {

namespace {

const CarrierClass generic_class = [] {
  const CarrierClass carrier_class = detail::declare_shipped_class(typeid(Generic), "Generic", false);
  detail::declare_shipped_capabilities(carrier_class, &CapabilitySet::of_every_plan);
  return carrier_class;
}();

const DType& require_dtype(DTypeRef dtype) {
  static const std::array<const DType*, 3> constructible{&dtypes::Float32, &dtypes::Int32, &dtypes::Bool};
  if (!dtype)
    raise<TypeError>("Generic", "a Generic carrier needs a dtype: got none; use Float32, Int32 or Bool");
  return validate_storage_dtype(*dtype, "Generic", constructible);
}

}  // namespace

Ref<Generic> Generic::zeros(Index size, const GenericOptions& options) {
  const DType& dtype = require_dtype(options.dtype);
  if (size < 0) raise<ValueError>("Generic", "size must not be negative: got ", size);
  return make_ref<Generic>(generic_class, size, options.is_mutable, dtype, false);
}

Ref<Generic> Generic::make(Sequence<Scalar> values, const GenericOptions& options) {
  Ref<Generic> result = zeros(static_cast<Index>(values.size()), options);
  result->fill(values);
  return result;
}

Ref<Carrier> Generic::new_like(Sequence<Scalar> values, const NewLikeOptions& options) const {
  return make(values, {options.is_mutable, options.dtype ? options.dtype : dtype()});
}

Ref<Carrier> Generic::allocate_like(Index size, const AllocateOptions& options) const {
  return zeros(size, {options.is_mutable, options.dtype ? options.dtype : dtype()});
}

void Generic::scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
                      Index mapping_offset) {
  scatter_values(*this, to_scatter, scatter_onto, mapping, mapping_offset);
  advance_version();
}

const KernelTable* Generic::kernel_table() const noexcept { return &reference_kernels(); }

bool Generic::stores(const DType& dtype) const {
  static const std::array<const DType*, 5> supported{&dtypes::Any, &dtypes::Floating, &dtypes::Float32,
                                                     &dtypes::Int32, &dtypes::Bool};
  return accepts_storage_dtype(dtype, supported);
}

Ref<Operation> Generic::make_operation(std::string_view operation_name) {
  return table_operation(operation_name);
}

}  // namespace orlop::inline v0
