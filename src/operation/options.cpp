// Checks of execution options (P11).
#include "orlop/operation/options.hpp"

#include <algorithm>
#include <array>

#include "orlop/base/error.hpp"
#include "orlop/dtype/dtype.hpp"
#include "orlop/operation/plan.hpp"

namespace orlop::inline v0 {

bool is_accumulator_configurable(std::string_view operation) noexcept {
  return operation == "reduce_sum" || operation == "matmul";
}

std::span<const DType* const> supported_accumulator_dtypes() {
  static const std::array<const DType*, 2> dtypes{&dtypes::Float32, &dtypes::Float64};
  return dtypes;
}

OperationExecutionOptions::OperationExecutionOptions(std::string operation, const DType* accumulator_dtype)
    : operation_(std::move(operation)), accumulator_dtype_(accumulator_dtype) {
  if (!is_accumulator_configurable(operation_))
    raise<TypeError>("operation options", "operation '", operation_,
                     "' takes no accumulator dtype; only matmul and reduce_sum do; leave the options out");
  if (accumulator_dtype == nullptr) return;
  if (!accumulator_dtype->is_simple())
    raise<TypeError>("operation options", "accumulator_dtype must be a SimpleDType: got ",
                     accumulator_dtype->name(), "; use Float32 or Float64");
  if (std::ranges::find(supported_accumulator_dtypes(), accumulator_dtype) ==
      supported_accumulator_dtypes().end())
    raise<NotImplementedError>("operation options", "'", operation_, "' cannot accumulate in ",
                               accumulator_dtype->name(), "; use Float32 or Float64");
}

OperationExecutionOptions operation_execution_options(std::string_view operation,
                                                      ExecutionOptionFields fields) {
  return OperationExecutionOptions(std::string(operation), fields.accumulator_dtype);
}

}  // namespace orlop::inline v0
