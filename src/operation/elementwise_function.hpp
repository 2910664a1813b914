// One elementwise operation as a backend's loops call it: a block of consecutive elements at a time. Nothing
// here runs code when it is loaded, so that units for one instruction set may include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "orlop/dtype/storage_type.hpp"

namespace orlop::inline v0 {

/// Why an element has no result.
enum class ElementFault : std::uint8_t { none, outside_int32, zero_divisor };

/// Computes `count` elements from slots that lie side by side; where `stand_still`, from one slot of every
/// operand but the first. After a fault, which some element among them has, the result is partly meaningless.
using BlockFunction = ElementFault (*)(Index count, std::byte* result, const std::byte* const* operands,
                                       bool stand_still);

/// One operation: a block function for each type that its last operand can be computed in; null ends the
/// list.
struct ElementwiseFunction {
  struct Overload {
    StorageType last_operand;
    BlockFunction block;
  };
  std::string_view name;
  Overload overloads[4];
};

}  // namespace orlop::inline v0
