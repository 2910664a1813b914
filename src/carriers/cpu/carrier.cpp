// The CPU carrier: construction, factories, and its place in dispatch.
#include <array>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/storage/storage_dtype.hpp"
#include "orlop/tensor/scatter.hpp"

namespace orlop::inline v0 {

namespace {

const CarrierClass cpu_class = [] {
  const CarrierClass carrier_class = detail::declare_shipped_class(typeid(CPU), "CPU", false);
  detail::declare_shipped_capabilities(carrier_class, &CapabilitySet::of_every_plan);
  return carrier_class;
}();

std::span<const DType* const> accepted_dtypes() {
  static const std::array<const DType*, 3> accepted{&dtypes::Float32, &dtypes::Int32, &dtypes::Bool};
  return accepted;
}

void require_size(Index size) {
  if (size < 0)
    raise<ValueError>("CPU", "size must not be negative: got ", size, "; a carrier has 0 or more slots");
}

}  // namespace

Ref<CPU> CPU::make(Index size, const CPUOptions& options) {
  require_size(size);
  const DType& dtype = validate_storage_dtype(*options.dtype, "CPU", accepted_dtypes());
  return make_ref<CPU>(cpu_class, size, options.is_mutable, dtype, options.empty);
}

Ref<CPU> CPU::wrap(Index size, Index address, const CPUOptions& options, std::shared_ptr<void> owner) {
  require_size(size);
  if (address <= 0) raise<ValueError>("CPU", "pointer must be a positive address: got ", address);
  const DType& dtype = validate_storage_dtype(*options.dtype, "CPU", accepted_dtypes());
  return make_ref<CPU>(cpu_class, size, reinterpret_cast<std::byte*>(address), options.is_mutable, dtype,
                       std::move(owner));
}

Index CPU::pointer() const {
  require_live();
  return reinterpret_cast<Index>(data());
}

Ref<Carrier> CPU::new_like(Sequence<Scalar> values, const NewLikeOptions& options) const {
  const DType& dtype = options.dtype ? *options.dtype : this->dtype();
  Ref<CPU> result = make(static_cast<Index>(values.size()), {options.is_mutable, dtype, true});
  result->fill(values);
  return result;
}

Ref<Carrier> CPU::allocate_like(Index size, const AllocateOptions& options) const {
  return make(size, {options.is_mutable, options.dtype ? *options.dtype : dtype(), options.empty});
}

void CPU::scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
                  Index mapping_offset) {
  scatter_values(*this, to_scatter, scatter_onto, mapping, mapping_offset);
  advance_version();
}

DLPackInfo CPU::dlpack_info() const { return {is_released() ? nullptr : data(), 1, 0}; }

const KernelTable* CPU::kernel_table() const noexcept { return &cpu_kernels(); }

bool CPU::stores(const DType& dtype) const { return accepts_storage_dtype(dtype, accepted_dtypes()); }

Ref<Operation> CPU::make_operation(std::string_view operation_name) {
  return table_operation(operation_name);
}

}  // namespace orlop::inline v0
