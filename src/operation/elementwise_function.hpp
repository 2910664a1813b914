// One elementwise operation as a backend's loops call it: a block of consecutive elements at a time. Nothing
// here runs code when it is loaded, so that units for one instruction set may include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "operation/cache_lines.hpp"
#include "orlop/dtype/storage_type.hpp"

namespace orlop::inline v0 {

/// Why an element has no result.
enum class ElementFault : std::uint8_t { none, outside_int32, zero_divisor };

/// Computes `count` elements from slots that lie side by side; where `stand_still`, from one slot of every
/// operand but the first. After a fault, which some element among them has, the result is partly meaningless.
using BlockFunction = ElementFault (*)(Index count, std::byte* result, const std::byte* const* operands,
                                       bool stand_still);

/// Computes a square, square_side rows of as many elements, which are side by side in the result; those of
/// operand i begin `strides[i]` bytes apart.
using SquareFunction = ElementFault (*)(std::byte* result, const std::byte* const* operands,
                                        const Index* strides);

/// One operation: its functions for each type that its last operand can be computed in; a null block ends the
/// list. There are squares of slots of 4 bytes alone.
struct ElementwiseFunction {
  struct Overload {
    StorageType last_operand;
    BlockFunction block;
    SquareFunction square;
  };
  std::string_view name;
  Overload overloads[4];
};

}  // namespace orlop::inline v0
