// The baseline unit of the elementwise operations, and the choice among the units.
#include "operation/elementwise_functions.hpp"

#include <algorithm>
#include <array>

#include "operation/elementwise_unit.hpp"
#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

#if defined(__x86_64__)
namespace x86_64_v3 {
const ElementwiseFunction* elementwise_table();
}
namespace x86_64_v4 {
const ElementwiseFunction* elementwise_table();
}

namespace {

// By the features that came last: not every compiler takes the levels themselves.
bool is_x86_64_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
}
bool is_x86_64_v4() {
  return is_x86_64_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace
#endif

ElementwiseFunctions baseline_elementwise_functions() { return baseline::table; }

ElementwiseFunctions native_elementwise_functions() {
  const ElementwiseFunction* table = baseline::table;
#if defined(__x86_64__)
  if (is_x86_64_v4())
    table = x86_64_v4::elementwise_table();
  else if (is_x86_64_v3())
    table = x86_64_v3::elementwise_table();
#endif
  return {table, std::size(baseline::table)};
}

BlockTable::BlockTable(ElementwiseFunctions functions) {
  const std::array<const DType*, 3> dtypes{&dtypes::Float32, &dtypes::Int32, &dtypes::Bool};
  for (const OperationPlan* plan : resolvable_plans(dtypes)) {
    const auto function = std::ranges::find(functions, plan->operation, &ElementwiseFunction::name);
    if (function == functions.end()) continue;
    const StorageType computed = plan->operands.back().convert_to.storage_type();
    for (const auto& overload : function->overloads) {
      if (overload.block == nullptr || overload.last_operand != computed) continue;
      blocks_.resize(std::max<std::size_t>(blocks_.size(), plan->builtin_number() + 1));
      blocks_[plan->builtin_number()] = overload.block;
    }
  }
}

std::vector<KernelEntry> elementwise_entries(Kernel kernel) {
  std::vector<KernelEntry> entries;
  for (const ElementwiseFunction& function : baseline::table) entries.emplace_back(function.name, kernel);
  return entries;
}

void raise_int32_overflow(const KernelCall& call, Index ordinal) {
  raise<OverflowError>(
      call.plan.operation, "the exact result leaves Int32 at element ", ordinal,
      "; it must lie in -2147483648 to 2147483647; convert an operand to Float32 to compute in "
      "floating point");
}

}  // namespace orlop::inline v0
