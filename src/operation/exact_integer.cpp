// Narrowing exact integers.
#include "operation/exact_integer.hpp"

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

void raise_int32_overflow(std::string_view operation, std::string_view which) {
  raise<OverflowError>(
      operation, "the exact result leaves Int32", which,
      "; it must lie in -2147483648 to 2147483647; convert an operand to Float32 to compute in "
      "floating point");
}

void raise_int32_overflow(std::string_view operation, Int128 value) {
  raise_int32_overflow(operation, text(": ", to_string(value)));
}

std::int32_t checked_product(std::string_view operation, std::int64_t product) {
  if (product == lost_product || product == -lost_product)
    raise<OverflowError>(operation,
                         "a result leaves Int32: its magnitude exceeds 2147483648; results lie in ",
                         "[-2147483648, 2147483647]; use Float32 operands for larger ones");
  return checked_int32(operation, product);
}

std::string to_string(Int128 value) {
  std::string digits;
  const bool is_negative = value < 0;
  do {
    const int digit = static_cast<int>(value % 10);
    digits.insert(digits.begin(), static_cast<char>('0' + (is_negative ? -digit : digit)));
    value /= 10;
  } while (value != 0);
  return is_negative ? "-" + digits : digits;
}

}  // namespace orlop::inline v0
