// Which dtypes a carrier stores: identity against an ordered list, and the zero of a slot.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "orlop/base/scalar.hpp"
#include "orlop/dtype/dtype.hpp"

namespace orlop::inline v0 {

/// Returns `dtype` where it is one of `accepted`. Otherwise ValueError: naming what `carrier` accepts, or,
/// for a compound dtype, that homogeneous storage cannot hold its planes (multi-plane storage is deferred).
ORLOP_API const DType& validate_storage_dtype(const DType& dtype, std::string_view carrier,
                                              std::span<const DType* const> accepted);

/// Whether `dtype` is identical to one of `accepted`.
[[nodiscard]] ORLOP_API bool accepts_storage_dtype(const DType& dtype,
                                                   std::span<const DType* const> accepted) noexcept;

/// What a fresh slot holds: 0.0, 0, False for Float32, Int32, Bool; nothing for every other dtype.
[[nodiscard]] ORLOP_API std::optional<Scalar> storage_zero(const DType& dtype);

}  // namespace orlop::inline v0
