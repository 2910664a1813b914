// Functions over the table: the checks of P51, then dispatch on the first Tensor's carrier.
#include "orlop/operation/functional.hpp"

#include <array>
#include <optional>

#include "operation/convolution.hpp"
#include "operation/dispatch.hpp"
#include "operation/modes.hpp"
#include "orlop/operation/command.hpp"
#include "orlop/operation/invocation_executor.hpp"
#include "orlop/operation/views.hpp"

namespace orlop::inline v0 {

Tensor apply_operation(std::string_view name, Sequence<Argument> arguments,
                       const OperationExecutionOptions* options) {
  const Tensor* first = find_dispatching_tensor(name, arguments);
  if (first == nullptr) raise<TypeError>(name, "needs at least one Tensor operand: got none");
  return first->carrier()->dispatch_op(name)->forward(arguments, options);
}

namespace {

template <class... Arguments>
Tensor apply(std::string_view name, Arguments... arguments) {
  const std::array<Argument, sizeof...(Arguments)> list{Argument(std::move(arguments))...};
  return apply_operation(name, list);
}

/// An operation along an axis, which is judged before any carrier is asked (P51).
template <class... Arguments>
Tensor apply_along(std::string_view axis_word, Index axis, std::string_view name, const Tensor& tensor,
                   Arguments... arguments) {
  const std::array<Argument, 1 + sizeof...(Arguments)> list{Argument(tensor),
                                                            Argument(std::move(arguments))...};
  static_cast<void>(find_dispatching_tensor(name, list));  // the classes come first
  static_cast<void>(to_mode(public_name(name), axis_word, Scalar(axis), tensor.layout().rank()));
  return apply_operation(name, list);
}

/// A commutative operation: its plans have the weak scalar last, but for products where there is a definition
/// (X33).
Tensor apply_commutative(std::string_view name, Argument lhs, Argument rhs) {
  const Tensor* second = rhs.tensor();
  const bool takes_scalar_first =
      name == "mul" && second != nullptr && invocation_executor(second->carrier_type()) != nullptr;
  if (lhs.tensor() == nullptr && !takes_scalar_first) std::swap(lhs, rhs);
  return apply(name, std::move(lhs), std::move(rhs));
}

}  // namespace

Tensor add(Argument lhs, Argument rhs) { return apply_commutative("add", std::move(lhs), std::move(rhs)); }
Tensor sub(Argument lhs, Argument rhs) { return apply("sub", std::move(lhs), std::move(rhs)); }
Tensor mul(Argument lhs, Argument rhs) { return apply_commutative("mul", std::move(lhs), std::move(rhs)); }
Tensor elementwise_mul(const Tensor& lhs, const Tensor& rhs) { return apply("elementwise_mul", lhs, rhs); }
Tensor div(Argument lhs, Argument rhs) { return apply("div", std::move(lhs), std::move(rhs)); }
Tensor pow(Argument base, Argument exponent) { return apply("pow", std::move(base), std::move(exponent)); }
Tensor maximum(Argument lhs, Argument rhs) {
  return apply_commutative("maximum", std::move(lhs), std::move(rhs));
}
Tensor minimum(Argument lhs, Argument rhs) {
  return apply_commutative("minimum", std::move(lhs), std::move(rhs));
}
Tensor rem(const Tensor& lhs, const Tensor& rhs) { return apply("rem", lhs, rhs); }
Tensor eq(Argument lhs, Argument rhs) { return apply("eq", std::move(lhs), std::move(rhs)); }
Tensor ne(Argument lhs, Argument rhs) { return apply("ne", std::move(lhs), std::move(rhs)); }
Tensor lt(Argument lhs, Argument rhs) { return apply("lt", std::move(lhs), std::move(rhs)); }
Tensor le(Argument lhs, Argument rhs) { return apply("le", std::move(lhs), std::move(rhs)); }
Tensor gt(Argument lhs, Argument rhs) { return apply("lt", std::move(rhs), std::move(lhs)); }
Tensor ge(Argument lhs, Argument rhs) { return apply("le", std::move(rhs), std::move(lhs)); }
Tensor neg(const Tensor& tensor) { return apply("neg", tensor); }
Tensor abs(const Tensor& tensor) { return apply("abs", tensor); }
Tensor sign(const Tensor& tensor) { return apply("sign", tensor); }
Tensor recip(const Tensor& tensor) { return apply("recip", tensor); }
Tensor sqrt(const Tensor& tensor) { return apply("sqrt", tensor); }
Tensor rsqrt(const Tensor& tensor) { return apply("rsqrt", tensor); }
Tensor exp(const Tensor& tensor) { return apply("exp", tensor); }
Tensor exp2(const Tensor& tensor) { return apply("exp2", tensor); }
Tensor log(const Tensor& tensor) { return apply("log", tensor); }
Tensor log2(const Tensor& tensor) { return apply("log2", tensor); }
Tensor sin(const Tensor& tensor) { return apply("sin", tensor); }
Tensor cos(const Tensor& tensor) { return apply("cos", tensor); }
Tensor erf(const Tensor& tensor) { return apply("erf", tensor); }
Tensor floor(const Tensor& tensor) { return apply("floor", tensor); }
Tensor ceil(const Tensor& tensor) { return apply("ceil", tensor); }
Tensor round(const Tensor& tensor) { return apply("round", tensor); }
Tensor logical_not(const Tensor& tensor) { return apply("logical_not", tensor); }
Tensor relu(const Tensor& tensor) { return apply("relu", tensor); }
Tensor tanh(const Tensor& tensor) { return apply("tanh", tensor); }
Tensor gelu(const Tensor& tensor) { return apply("gelu", tensor); }
Tensor silu(const Tensor& tensor) { return apply("silu", tensor); }
Tensor softplus(const Tensor& tensor) { return apply("softplus", tensor); }
Tensor elu(const Tensor& tensor) { return apply("elu", tensor); }
Tensor sigmoid(const Tensor& tensor) { return apply("sigmoid", tensor); }
Tensor leaky_relu(const Tensor& tensor) { return apply("leaky_relu", tensor); }
Tensor select(const Tensor& condition, const Tensor& on_true, const Tensor& on_false) {
  return apply("select", condition, on_true, on_false);
}
Tensor clamp(const Tensor& tensor, Argument lower, Argument upper) {
  return apply("clamp", tensor, std::move(lower), std::move(upper));
}

Tensor matmul(const Tensor& lhs, const Tensor& rhs, AccumulatorOptions options) {
  const std::array<Argument, 2> arguments{Argument(lhs), Argument(rhs)};
  if (!options.accumulator_dtype) return apply_operation("matmul", arguments);
  const OperationExecutionOptions bound("matmul", options.accumulator_dtype.get());
  return apply_operation("matmul", arguments, &bound);
}

namespace {

/// Whether dims that were given can permute `rank` modes.
bool can_permute(const Argument& dims, std::size_t rank) {
  if (dims.get<std::nullptr_t>() != nullptr) return true;
  const auto* order = dims.get<std::vector<Index>>();
  return order != nullptr && is_permutation_of_modes(*order, rank);
}

Tensor permute_by(const Tensor& tensor, const Argument& dims) {
  const auto* order = dims.get<std::vector<Index>>();
  return order == nullptr ? tensor : permute(tensor, *order);
}

Argument to_argument(const std::optional<std::vector<Index>>& integers) {
  return integers ? Argument::of(*integers) : Argument::of(nullptr);
}

}  // namespace

Tensor conv_general(Sequence<Argument> arguments) {
  using namespace convolution_arguments;
  const bool has_operands = arguments.size() == count && arguments[lhs].tensor() != nullptr &&
                            arguments[kernel].tensor() != nullptr;
  const std::size_t rank = has_operands ? arguments[lhs].tensor()->layout().rank() : 0;
  const auto can_permute_by = [&](std::size_t dims) { return can_permute(arguments[dims], rank); };
  // What cannot be permuted is for the operation to refuse, in the order of its checks.
  if (!has_operands || arguments[kernel].tensor()->layout().rank() != rank || !can_permute_by(lhs_dims) ||
      !can_permute_by(kernel_dims) || !can_permute_by(output_dims))
    return apply_operation("conv_general", arguments);
  std::vector<Argument> in_order(arguments.begin(), arguments.end());
  in_order[lhs] = permute_by(*arguments[lhs].tensor(), arguments[lhs_dims]);
  in_order[kernel] = permute_by(*arguments[kernel].tensor(), arguments[kernel_dims]);
  for (const std::size_t dims : {lhs_dims, kernel_dims, output_dims}) in_order[dims] = Argument::of(nullptr);
  return permute_by(apply_operation("conv_general", in_order), arguments[output_dims]);
}

Tensor conv_general(const Tensor& lhs, const Tensor& kernel, Sequence<Index> strides,
                    Sequence<Padding> padding, const ConvolutionOptions& options) {
  std::vector<std::vector<Index>> pairs;
  for (const Padding& mode : padding) pairs.push_back({mode.low, mode.high});
  const std::array<Argument, convolution_arguments::count> arguments{
      lhs,
      kernel,
      Argument::of(std::vector<Index>(strides.begin(), strides.end())),
      Argument::of(std::move(pairs)),
      to_argument(options.lhs_dilation),
      to_argument(options.kernel_dilation),
      Scalar(options.feature_groups),
      to_argument(options.lhs_dims),
      to_argument(options.kernel_dims),
      to_argument(options.output_dims)};
  return conv_general(arguments);
}

Tensor gather(const Tensor& tensor, const Tensor& indices, Index axis) {
  return apply_along("axis", axis, "gather", tensor, indices, Scalar(axis));
}

Tensor scatter(const Tensor& base, const Tensor& indices, const Tensor& updates, Index axis) {
  return apply_along("axis", axis, "scatter", base, indices, updates, Scalar(axis));
}

Tensor scatter_add(const Tensor& base, const Tensor& indices, const Tensor& updates, Index axis) {
  return apply_along("axis", axis, "scatter_add", base, indices, updates, Scalar(axis));
}

Tensor cumsum(const Tensor& tensor, Index dimension) {
  return apply_along("dimension", dimension, "cumsum", tensor, Scalar(dimension));
}

SortResult sort(const Tensor& tensor, Index axis, bool descending) {
  Tensor values = apply_along("axis", axis, "_sort_values", tensor, Scalar(axis), Scalar(descending));
  return {std::move(values), apply("_sort_indices", tensor, Scalar(axis), Scalar(descending))};
}

TopKResult topk(const Tensor& tensor, Index k, Index axis, bool largest) {
  Tensor values = apply_along("axis", axis, "_topk_values", tensor, Scalar(k), Scalar(axis), Scalar(largest));
  return {std::move(values), apply("_topk_indices", tensor, Scalar(k), Scalar(axis), Scalar(largest))};
}

Tensor rearrange(const Tensor& tensor, std::string_view description) {
  const RearrangeSpec& spec = parse_rearrange(description);
  return rearrange(tensor, spec.output, spec.selection);
}

namespace {

/// The options bound to `name`, or nothing where the caller asked for none.
std::optional<OperationExecutionOptions> bind_options(std::string_view name,
                                                      const AccumulatorOptions& options) {
  if (!options.accumulator_dtype) return std::nullopt;
  return OperationExecutionOptions(std::string(name), options.accumulator_dtype.get());
}

/// Whether the modes are as a description wants them already. Classes with a definition have no views.
bool needs_no_view(const Tensor& tensor, const ReduceSpec& spec) {
  return invocation_executor(tensor.carrier_type()) != nullptr &&
         tensor.layout().rearrange(spec.rearrange_output, spec.selection) == tensor.layout();
}

/// Rearranges to the modes (kept, reduced) and reduces the second.
Tensor reduce(std::string_view name, const Tensor& tensor, std::string_view description,
              const AccumulatorOptions& options = {}) {
  const ReduceSpec& spec = parse_reduce(description);
  const std::optional<OperationExecutionOptions> bound = bind_options(name, options);
  const Argument argument(
      needs_no_view(tensor, spec) ? tensor : rearrange(tensor, spec.rearrange_output, spec.selection));
  return apply_operation(name, std::span(&argument, 1), bound ? &*bound : nullptr);
}

}  // namespace

Tensor reduce_sum(const Tensor& tensor, std::string_view description, AccumulatorOptions options) {
  return reduce("reduce_sum", tensor, description, options);
}
Tensor reduce_prod(const Tensor& tensor, std::string_view description) {
  return reduce("reduce_prod", tensor, description);
}
Tensor reduce_max(const Tensor& tensor, std::string_view description) {
  return reduce("reduce_max", tensor, description);
}
Tensor reduce_min(const Tensor& tensor, std::string_view description) {
  return reduce("reduce_min", tensor, description);
}
Tensor argmax(const Tensor& tensor, std::string_view description) {
  return reduce("argmax", tensor, description);
}
Tensor argmin(const Tensor& tensor, std::string_view description) {
  return reduce("argmin", tensor, description);
}

}  // namespace orlop::inline v0
