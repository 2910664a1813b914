// The baseline unit of the elementwise operations, and the choice among the units.
#include "operation/elementwise_functions.hpp"

#include <algorithm>

#include "operation/elementwise_unit.hpp"
#include "operation/exact_integer.hpp"
#include "operation/plan_table.hpp"
#include "operation/processor.hpp"
#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

ElementwiseFunctions baseline_elementwise_functions() { return baseline::table; }

ElementwiseFunctions native_elementwise_functions() {
#if defined(__x86_64__)
  const ElementwiseFunction* const table =
      native_of(baseline::elementwise_table, x86_64_v3::elementwise_table, x86_64_v4::elementwise_table)();
#else
  const ElementwiseFunction* const table = baseline::elementwise_table();
#endif
  return {table, std::size(baseline::table)};
}

OverloadTable::OverloadTable(ElementwiseFunctions functions) {
  overloads_.resize(builtin_plan_count() + 1);
  for (std::uint32_t number = 1; number <= builtin_plan_count(); ++number) {
    const OperationPlan& plan = builtin_plan(number);
    const auto function = std::ranges::find(functions, plan.operation, &ElementwiseFunction::name);
    if (function == functions.end()) continue;
    const StorageType computed = plan.operands.back().convert_to.storage_type();
    for (const auto& overload : function->overloads)
      if (overload.block != nullptr && overload.last_operand == computed) overloads_[number] = overload;
  }
}

std::vector<KernelEntry> elementwise_entries(KernelFunction kernel) {
  std::vector<KernelEntry> entries;
  for (const ElementwiseFunction& function : baseline::table) entries.emplace_back(function.name, kernel);
  return entries;
}

void raise_fault(const KernelCall& call, ElementFault fault, Index ordinal) {
  if (call.place != nullptr) ordinal = call.place->first + call.place->layout(ordinal);
  if (fault == ElementFault::zero_divisor)
    raise<ValueError>(
        call.plan.operation, "the divisor is 0 at element ", ordinal,
        "; an Int32 is divided by anything else; divide in Float32, where the remainder is NaN");
  raise_int32_overflow(call.plan.operation, text(" at element ", ordinal));
}

}  // namespace orlop::inline v0
