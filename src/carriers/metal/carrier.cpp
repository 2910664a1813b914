// The Metal carrier: its name, and what its construction says where no runtime is available.
#include <array>

#include "orlop/carriers/metal/metal.hpp"
#include "orlop/storage/storage_dtype.hpp"

namespace orlop::inline v0 {

namespace {

[[maybe_unused]] const CarrierClass metal_class =
    detail::declare_shipped_class(typeid(Metal), "Metal", false);

}  // namespace

Ref<Metal> Metal::make(Index size, const MetalOptions& options) {
  static const std::array<const DType*, 3> accepted{&dtypes::Float32, &dtypes::Int32, &dtypes::Bool};
  if (size < 0)
    raise<ValueError>("Metal", "size must not be negative: got ", size, "; a carrier has 0 or more slots");
  const DType& dtype = validate_storage_dtype(*options.dtype, "Metal", accepted);
  raise<RuntimeError>("Metal", "no Metal runtime is available for ", size, " slots of ", dtype.name(),
                      ": this build of Orlop has none; Metal needs macOS on Apple silicon; use CPU here");
}

}  // namespace orlop::inline v0
