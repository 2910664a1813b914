// Integer arithmetic that reports overflow instead of wrapping.
#pragma once

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

/// `a + b`, or OverflowError naming `what`.
[[nodiscard]] inline Index checked_add(Index a, Index b, std::string_view what) {
  Index result;
  if (__builtin_add_overflow(a, b, &result))
    raise<OverflowError>(what, "the sum leaves 64 bits: ", a, " + ", b, "; use a smaller size");
  return result;
}

/// `a * b`, or OverflowError naming `what`.
[[nodiscard]] inline Index checked_multiply(Index a, Index b, std::string_view what) {
  Index result;
  if (__builtin_mul_overflow(a, b, &result))
    raise<OverflowError>(what, "the product leaves 64 bits: ", a, " * ", b, "; use a smaller size");
  return result;
}

}  // namespace orlop::inline v0
