// What the elementwise kernels of a host backend are made of: the functions, and what their loops share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "operation/elementwise_function.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

// The tables of the units that are compiled for one instruction set each.
#if defined(__x86_64__)
namespace x86_64_v3 {
const ElementwiseFunction* elementwise_table();
}
namespace x86_64_v4 {
const ElementwiseFunction* elementwise_table();
}
#endif

using ElementwiseFunctions = std::span<const ElementwiseFunction>;
/// For every processor.
ElementwiseFunctions baseline_elementwise_functions();
/// For the processor that this runs on; same names in the same order, and same bits.
ElementwiseFunctions native_elementwise_functions();

/// The functions of every plan.
class OverloadTable {
 public:
  explicit OverloadTable(ElementwiseFunctions functions);
  [[nodiscard]] const ElementwiseFunction::Overload& operator[](const OperationPlan& plan) const {
    return overloads_[plan.builtin_number()];
  }

 private:
  std::vector<ElementwiseFunction::Overload> overloads_;  // by the plan's number
};

/// `kernel` under the name of every elementwise operation.
[[nodiscard]] std::vector<KernelEntry> elementwise_entries(KernelFunction kernel);

/// Whether the plan converts the operand from Int32 to Float32, the only conversion there is.
[[nodiscard]] inline bool is_converted(const KernelOperand& operand) {
  return operand.stored != operand.computed;
}

/// The Int32 in `slot`, rounded to nearest even.
[[nodiscard]] inline float int32_to_float(const std::byte* slot) {
  return static_cast<float>(*reinterpret_cast<const std::int32_t*>(slot));
}

/// The error for the element at `ordinal` of the result.
[[noreturn]] void raise_fault(const KernelCall& call, ElementFault fault, Index ordinal);

}  // namespace orlop::inline v0
