// EXACT_INTEGER (P10): sums and products over the integers, of which only a stored value must be an Int32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace orlop::inline v0 {

/// Wide enough for any sum of Int32 values or of their products.
__extension__ using Int128 = __int128;

/// OverflowError for an exact result beyond Int32; `which` says which one.
[[noreturn]] void raise_int32_overflow(std::string_view operation, std::string_view which);
[[noreturn]] void raise_int32_overflow(std::string_view operation, Int128 value);

/// `value` as an Int32; OverflowError beyond it.
template <class Integer>
[[nodiscard]] std::int32_t checked_int32(std::string_view operation, Integer value) {
  const auto stored = static_cast<std::int32_t>(value);
  if (stored != value) raise_int32_overflow(operation, Int128{value});
  return stored;
}

/// A product of Int32 values that left Int32 for good: only a zero can bring it back.
constexpr std::int64_t lost_product = (std::int64_t{1} << 31) + 1;
/// `product` times `factor`, with every lost product as ±`lost_product`.
[[nodiscard]] inline std::int64_t multiply(std::int64_t product, std::int32_t factor) {
  return std::clamp(product * factor, -lost_product, lost_product);
}
/// `product` as an Int32; OverflowError beyond it.
[[nodiscard]] std::int32_t checked_product(std::string_view operation, std::int64_t product);

/// As decimal digits.
[[nodiscard]] std::string to_string(Int128 value);

}  // namespace orlop::inline v0
