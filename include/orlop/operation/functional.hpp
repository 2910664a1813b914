// The functional layer: one function per operation name (P51). The operation reference gives each one's domain,
// value and gradient.
#pragma once

#include <span>
#include <string_view>

#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

/// Runs the operation `name` on the carrier class of its first Tensor argument. Every Tensor argument must be on that
/// exact class (TypeError).
ORLOP_API Tensor apply_operation(std::string_view name, std::span<const Argument> arguments,
                                 const OperationExecutionOptions* options = nullptr);

struct AccumulatorOptions {
  DTypeRef accumulator_dtype{};  ///< absent: the plan's default
};

// Either side may be a weak scalar where the operation's plans say so; add, mul and maximum run a scalar-first call
// as (tensor, scalar).
ORLOP_API Tensor add(const Argument& lhs, const Argument& rhs);
ORLOP_API Tensor sub(const Argument& lhs, const Argument& rhs);
ORLOP_API Tensor mul(const Argument& lhs, const Argument& rhs);
ORLOP_API Tensor elementwise_mul(const Tensor& lhs, const Tensor& rhs);
ORLOP_API Tensor div(const Argument& lhs, const Argument& rhs);
ORLOP_API Tensor pow(const Argument& base, const Argument& exponent);
ORLOP_API Tensor maximum(const Argument& lhs, const Argument& rhs);
ORLOP_API Tensor eq(const Argument& lhs, const Argument& rhs);
ORLOP_API Tensor ne(const Argument& lhs, const Argument& rhs);
ORLOP_API Tensor lt(const Argument& lhs, const Argument& rhs);
ORLOP_API Tensor le(const Argument& lhs, const Argument& rhs);
/// lt and le with the operands swapped; nodes and events say so.
ORLOP_API Tensor gt(const Argument& lhs, const Argument& rhs);
ORLOP_API Tensor ge(const Argument& lhs, const Argument& rhs);

ORLOP_API Tensor neg(const Tensor& tensor);
ORLOP_API Tensor exp(const Tensor& tensor);
ORLOP_API Tensor log(const Tensor& tensor);
ORLOP_API Tensor relu(const Tensor& tensor);
ORLOP_API Tensor tanh(const Tensor& tensor);
ORLOP_API Tensor sigmoid(const Tensor& tensor);

ORLOP_API Tensor select(const Tensor& condition, const Tensor& on_true, const Tensor& on_false);
/// y[i, j] = Σ_k lhs[i, k] · rhs[j, k] over the second modes of both (P66).
ORLOP_API Tensor matmul(const Tensor& lhs, const Tensor& rhs, AccumulatorOptions options = {});
ORLOP_API Tensor gather(const Tensor& tensor, const Tensor& indices, Index axis);

}  // namespace orlop::inline v0
