// Execution options: what a caller may ask of an operation beside its operands (P11).
#pragma once

#include <string>
#include <string_view>

#include "orlop/base/export.hpp"
#include "orlop/dtype/dtype.hpp"

namespace orlop::inline v0 {

/// The keyword part of `operation_execution_options`.
struct ExecutionOptionFields {
  const DType* accumulator_dtype = nullptr;
};

/// Validated options bound to one operation name. An accumulator dtype changes neither conversions, compute
/// nor output of a plan. Null means the policy's default accumulator.
class ORLOP_API OperationExecutionOptions {
 public:
  /// Checks P11: the operation must be configurable ("reduce_sum", "matmul"; TypeError), the accumulator a
  /// simple dtype (TypeError), and one of Float32 and Float64 (NotImplementedError).
  explicit OperationExecutionOptions(std::string operation, const DType* accumulator_dtype = nullptr);

  [[nodiscard]] const std::string& operation() const noexcept { return operation_; }
  [[nodiscard]] const DType* accumulator_dtype() const noexcept { return accumulator_dtype_; }
  friend bool operator==(const OperationExecutionOptions&, const OperationExecutionOptions&) = default;

 private:
  std::string operation_;
  const DType* accumulator_dtype_;
};

/// Equals constructing OperationExecutionOptions:
/// `operation_execution_options("matmul", {.accumulator_dtype = &dtypes::Float64})`.
ORLOP_API OperationExecutionOptions operation_execution_options(std::string_view operation,
                                                                ExecutionOptionFields fields = {});

/// Whether `operation` takes an accumulator dtype: "reduce_sum" and "matmul" do (P2).
ORLOP_API bool is_accumulator_configurable(std::string_view operation) noexcept;

}  // namespace orlop::inline v0
