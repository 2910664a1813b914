// Elementwise reference kernels: one element after the other in ordinal order.
#include <array>

#include "operation/elementwise_functions.hpp"
#include "operation/reference/kernels.hpp"
#include "operation/rounds.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::size_t max_operands = 3;
using Layouts = std::array<const Layout*, max_operands>;

void elementwise(const KernelCall& call) {
  static const OverloadTable overloads(baseline_elementwise_functions());
  const BlockFunction block = overloads[call.plan].block;
  const auto operands = call.operands;
  Layouts layouts{};
  std::ranges::transform(operands, layouts.begin(), &KernelOperand::layout);
  const StridedLoop loop = coalesce_together(call.layout.extents(), {layouts.data(), operands.size()});
  Index ordinal = 0;  // and the slot of the result, whose layout is canonical
  for_each_run_in_rounds(loop, 1, [&](std::span<const Index> offsets, Index count) {
    for (Index k = 0; k < count; ++k, ++ordinal) {
      std::array<float, max_operands> converted;
      std::array<const std::byte*, max_operands> elements;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const Index offset = offsets[i] + (k == 0 ? 0 : k * loop.stride(0, i));
        elements[i] = operands[i].data + offset * slot_bytes(operands[i].stored);
        if (!is_converted(operands[i])) continue;
        converted[i] = int32_to_float(elements[i]);
        elements[i] = reinterpret_cast<const std::byte*>(&converted[i]);
      }
      std::byte* const slot = call.result + ordinal * call.plan.output.slot_bytes();
      const ElementFault fault = block(1, slot, elements.data(), false);
      if (fault != ElementFault::none) raise_fault(call, fault, ordinal);
    }
  });
}

}  // namespace

KernelList reference_elementwise_kernels() {
  static const auto entries = elementwise_entries(elementwise);
  return entries;
}

}  // namespace orlop::inline v0
