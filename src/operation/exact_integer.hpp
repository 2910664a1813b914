// EXACT_INTEGER (P10): sums and products over the integers, of which only a stored value must be an Int32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orlop::inline v0 {

/// Wide enough for any sum of Int32 values or of their products.
__extension__ using Int128 = __int128;

/// OverflowError for an exact result beyond Int32; `which` says which one.
[[noreturn]] void raise_int32_overflow(std::string_view operation, std::string_view which);

/// `value` as an Int32; OverflowError beyond it.
[[nodiscard]] std::int32_t checked_int32(std::string_view operation, Int128 value);

/// As decimal digits.
[[nodiscard]] std::string to_string(Int128 value);

}  // namespace orlop::inline v0
