// The functional layer: one function per operation name (P51). The operation reference gives each one's
// domain, value and gradient.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include "orlop/base/sequence.hpp"
#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

/// Runs the operation `name` on the carrier class of its first Tensor argument. Every Tensor argument must be
/// on that exact class (TypeError).
ORLOP_API Tensor apply_operation(std::string_view name, Sequence<Argument> arguments,
                                 const OperationExecutionOptions* options = nullptr);

struct AccumulatorOptions {
  DTypeRef accumulator_dtype{};  ///< absent: the plan's default
};

// Either side may be a weak scalar where the operation's plans say so; add, mul, maximum and minimum run a
// scalar-first call as (tensor, scalar).
ORLOP_API Tensor add(Argument lhs, Argument rhs);
ORLOP_API Tensor sub(Argument lhs, Argument rhs);
ORLOP_API Tensor mul(Argument lhs, Argument rhs);
ORLOP_API Tensor elementwise_mul(const Tensor& lhs, const Tensor& rhs);
ORLOP_API Tensor div(Argument lhs, Argument rhs);
ORLOP_API Tensor pow(Argument base, Argument exponent);
ORLOP_API Tensor maximum(Argument lhs, Argument rhs);
ORLOP_API Tensor minimum(Argument lhs, Argument rhs);
/// The remainder of the truncated division, of the sign of `lhs`. ValueError where an Int32 divisor is 0.
ORLOP_API Tensor rem(const Tensor& lhs, const Tensor& rhs);
ORLOP_API Tensor eq(Argument lhs, Argument rhs);
ORLOP_API Tensor ne(Argument lhs, Argument rhs);
ORLOP_API Tensor lt(Argument lhs, Argument rhs);
ORLOP_API Tensor le(Argument lhs, Argument rhs);
/// lt and le with the operands swapped; nodes and events say so.
ORLOP_API Tensor gt(Argument lhs, Argument rhs);
ORLOP_API Tensor ge(Argument lhs, Argument rhs);

ORLOP_API Tensor neg(const Tensor& tensor);
ORLOP_API Tensor abs(const Tensor& tensor);
ORLOP_API Tensor sign(const Tensor& tensor);
ORLOP_API Tensor recip(const Tensor& tensor);
ORLOP_API Tensor sqrt(const Tensor& tensor);
ORLOP_API Tensor rsqrt(const Tensor& tensor);
ORLOP_API Tensor exp(const Tensor& tensor);
ORLOP_API Tensor exp2(const Tensor& tensor);
ORLOP_API Tensor log(const Tensor& tensor);
ORLOP_API Tensor log2(const Tensor& tensor);
ORLOP_API Tensor sin(const Tensor& tensor);
ORLOP_API Tensor cos(const Tensor& tensor);
ORLOP_API Tensor erf(const Tensor& tensor);
ORLOP_API Tensor floor(const Tensor& tensor);
ORLOP_API Tensor ceil(const Tensor& tensor);
/// To the nearest integer, ties to even.
ORLOP_API Tensor round(const Tensor& tensor);
/// As Bool: true at 0 and at false.
ORLOP_API Tensor logical_not(const Tensor& tensor);
ORLOP_API Tensor relu(const Tensor& tensor);
ORLOP_API Tensor tanh(const Tensor& tensor);
ORLOP_API Tensor gelu(const Tensor& tensor);
ORLOP_API Tensor silu(const Tensor& tensor);
ORLOP_API Tensor softplus(const Tensor& tensor);
ORLOP_API Tensor elu(const Tensor& tensor);
ORLOP_API Tensor sigmoid(const Tensor& tensor);
/// The slope below 0 is 0.01.
ORLOP_API Tensor leaky_relu(const Tensor& tensor);

ORLOP_API Tensor select(const Tensor& condition, const Tensor& on_true, const Tensor& on_false);
/// minimum(maximum(tensor, lower), upper); each bound is a Tensor or a number.
ORLOP_API Tensor clamp(const Tensor& tensor, Argument lower, Argument upper);
/// y[i, j] = Σ_k lhs[i, k] · rhs[j, k] over the second modes of both (P66).
ORLOP_API Tensor matmul(const Tensor& lhs, const Tensor& rhs, AccumulatorOptions options = {});
/// Zeros that conv_general sees before and behind a spatial mode of the lhs.
struct Padding {
  Index low = 0;
  Index high = 0;
};
struct ConvolutionOptions {
  std::optional<std::vector<Index>> lhs_dilation{};     ///< one positive step per spatial mode; absent: ones
  std::optional<std::vector<Index>> kernel_dilation{};  ///< likewise
  Index feature_groups = 1;                             ///< divides the features of lhs and result
  std::optional<std::vector<Index>> lhs_dims{};         ///< the lhs' mode in each role; absent: as they are
  std::optional<std::vector<Index>> kernel_dims{};
  std::optional<std::vector<Index>> output_dims{};  ///< how the result is permuted
};
/// Cross-correlation (P67): lhs [batch, feature, spatial…] with kernel [out feature, in feature, spatial…]
/// gives [batch, out feature, spatial…]. One stride and one Padding per spatial mode; ValueError. Batch and
/// feature modes may be nested. Padding and what lhs_dilation puts between elements count as zeros, so an
/// infinite kernel value gives NaN there.
ORLOP_API Tensor conv_general(const Tensor& lhs, const Tensor& kernel, Sequence<Index> strides,
                              Sequence<Padding> padding, const ConvolutionOptions& options = {});
/// The same from the ten arguments that `forward` takes; here the dims do permute.
ORLOP_API Tensor conv_general(Sequence<Argument> arguments);
/// The entries of a mode at Int32 indices, which lie in [0, extent) (IndexError); the index modes take its
/// place.
ORLOP_API Tensor gather(const Tensor& tensor, const Tensor& indices, Index axis);
/// A copy of `base` in which `updates`, of the shape that gather gives, replace the entries at the indices.
/// ValueError where an index is repeated.
ORLOP_API Tensor scatter(const Tensor& base, const Tensor& indices, const Tensor& updates, Index axis);
/// A copy of `base` to which `updates`, of the shape that gather gives, are added at the indices, in ordinal
/// order.
ORLOP_API Tensor scatter_add(const Tensor& base, const Tensor& indices, const Tensor& updates, Index axis);
/// The sum of the elements up to and including each one, along a mode's ordinals. Float32 is carried in
/// binary64 and rounded once for each element (P64).
ORLOP_API Tensor cumsum(const Tensor& tensor, Index dimension);

/// The ordered elements, and where each was along the axis, as Int32.
struct SortResult {
  Tensor values;
  Tensor indices;
};
/// Orders the elements along a mode. Equal ones keep their order either way, NaN is the greatest, and both
/// zeros are equal (P69).
ORLOP_API SortResult sort(const Tensor& tensor, Index axis = -1, bool descending = false);

/// As SortResult.
struct TopKResult {
  Tensor values;
  Tensor indices;
};
/// The first k elements of `sort(tensor, axis, largest)`: k in 1 … the axis' size (ValueError).
ORLOP_API TopKResult topk(const Tensor& tensor, Index k, Index axis = -1, bool largest = true);

// With a command (operation/command.hpp): its errors come before those of operands (M707).

/// The view that the command describes: `rearrange(t, "b (h w) -> h w b")`.
ORLOP_API Tensor rearrange(const Tensor& tensor, std::string_view description);
/// Reduces the dimensions that the command leaves out, in the kept ones' canonical layout (P64):
/// `reduce_sum(t, "row column -> row")`.
ORLOP_API Tensor reduce_sum(const Tensor& tensor, std::string_view description,
                            AccumulatorOptions options = {});
/// The product from 1 on in ordinal order; over Int32 it is exact.
ORLOP_API Tensor reduce_prod(const Tensor& tensor, std::string_view description);
ORLOP_API Tensor reduce_max(const Tensor& tensor, std::string_view description);
ORLOP_API Tensor reduce_min(const Tensor& tensor, std::string_view description);
/// Positions in the reduced dimensions' ordinals, as Int32.
ORLOP_API Tensor argmax(const Tensor& tensor, std::string_view description);
ORLOP_API Tensor argmin(const Tensor& tensor, std::string_view description);
/// The contraction that the command describes: `einsum(a, b, "i k, j k -> i j")`. ValueError where a shared
/// dimension has two sizes.
ORLOP_API Tensor einsum(const Tensor& lhs, const Tensor& rhs, std::string_view description);

// Operators (M405): `1 - x * y`. One side may be a number. `==` asks for identity; elementwise it is eq.

namespace detail {
template <class L, class R>
concept TensorOperands = (std::same_as<L, Tensor> || std::same_as<R, Tensor>) &&
                         std::convertible_to<L, Argument> && std::convertible_to<R, Argument>;
}  // namespace detail

template <class L, class R>
  requires detail::TensorOperands<L, R>
[[nodiscard]] Tensor operator+(const L& lhs, const R& rhs) {
  return add(lhs, rhs);
}
template <class L, class R>
  requires detail::TensorOperands<L, R>
[[nodiscard]] Tensor operator-(const L& lhs, const R& rhs) {
  return sub(lhs, rhs);
}
template <class L, class R>
  requires detail::TensorOperands<L, R>
[[nodiscard]] Tensor operator*(const L& lhs, const R& rhs) {
  return mul(lhs, rhs);
}
template <class L, class R>
  requires detail::TensorOperands<L, R>
[[nodiscard]] Tensor operator/(const L& lhs, const R& rhs) {
  return div(lhs, rhs);
}
[[nodiscard]] inline Tensor operator-(const Tensor& tensor) { return neg(tensor); }

}  // namespace orlop::inline v0
