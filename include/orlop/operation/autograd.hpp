// Reverse-mode gradients over recorded operations (P80-P91).
#pragma once

#include <optional>
#include <vector>

#include "orlop/base/sequence.hpp"
#include "orlop/operation/grad_mode.hpp"
#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

struct BackwardOptions {
  bool retain_graph = false;
};

struct GradOptions {
  bool batched = false;
  bool retain_graph = false;
};

/// The operation that produced `tensor`, or null. Not differentiable: null.
[[nodiscard]] ORLOP_API Ref<Operation> autograd_node(const Tensor& tensor);
ORLOP_API void set_autograd_node(const Tensor& tensor, Ref<Operation> node);
/// The accumulated gradient, or the null handle. RuntimeError where the Tensor is not differentiable (P81).
[[nodiscard]] ORLOP_API Tensor gradient_of(const Tensor& tensor);
ORLOP_API void set_gradient(const Tensor& tensor, Tensor gradient);
/// Whether a Tensor that is no leaf keeps its gradient too.
ORLOP_API void retain_grad(const Tensor& tensor, bool retain = true);

/// Adds gradients to every leaf below `tensor` (P83-P88). `gradient` may be left out for one element.
ORLOP_API void backward(const Tensor& tensor, const std::optional<Tensor>& gradient = std::nullopt,
                        BackwardOptions options = {});
/// The same, started at a node (P89).
ORLOP_API void backwards_traversal(const Tensor& gradient, const Ref<Operation>& operation,
                                   BackwardOptions options = {});
/// Gradients of `output` towards `inputs`, detached; nothing where one is not reached. Touches no `.grad`
/// (P90).
[[nodiscard]] ORLOP_API std::vector<std::optional<Tensor>> grad(const Tensor& output, Sequence<Tensor> inputs,
                                                                const Tensor& cotangents,
                                                                GradOptions options = {});

/// P84: whether `cotangent` may stand for a gradient of `target`; TypeError or ValueError.
ORLOP_API void check_cotangent(const Tensor& target, const Tensor& cotangent);

}  // namespace orlop::inline v0
