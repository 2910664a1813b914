// The storage rules shared by every carrier.
#include "orlop/storage/storage_dtype.hpp"

#include <algorithm>

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

namespace {

// "DType.A", "DType.A or DType.B", "DType.A, DType.B, or DType.C".
std::string alternatives(std::span<const DType* const> accepted) {
  std::string out;
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    if (i > 0 && accepted.size() > 2) out += ',';
    if (i > 0) out += i + 1 == accepted.size() ? " or " : " ";
    out += text("DType.", accepted[i]->name());
  }
  return out;
}

}  // namespace

const DType& validate_storage_dtype(const DType& dtype, std::string_view carrier,
                                    std::span<const DType* const> accepted) {
  if (accepts_storage_dtype(dtype, accepted)) return dtype;
  if (dtype.is_compound())
    raise<ValueError>(
        carrier, carrier, " cannot store compound dtype '", dtype.name(),
        "': one homogeneous storage cannot hold its several simple-dtype planes; multi-plane storage is "
        "deferred; give each plane its own carrier");
  if (accepted.empty()) raise<ValueError>(carrier, carrier, " accepts no dtype: got DType.", dtype.name());
  raise<ValueError>(carrier, carrier, " dtype must be ", alternatives(accepted), ": got DType.",
                    dtype.name());
}

bool accepts_storage_dtype(const DType& dtype, std::span<const DType* const> accepted) noexcept {
  return std::ranges::find(accepted, &dtype) != accepted.end();
}

std::optional<Scalar> storage_zero(const DType& dtype) {
  switch (dtype.storage_type()) {
    case StorageType::float32:
      return Scalar(0.0F);
    case StorageType::int32:
      return Scalar(std::int32_t{0});
    case StorageType::bool8:
      return Scalar(false);
    case StorageType::other:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace orlop::inline v0
