// What a definition's gradient is written with: the saved inputs, the cotangent, and ungated arithmetic on
// the carrier class of the forward call (P65).
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

class Definition;

/// The state of one backward call. `is_wanted` says for each argument whether its gradient is asked for;
/// empty: every one is.
class GradientContext {
 public:
  GradientContext(const Definition& definition, std::span<const Argument> arguments, const Tensor& cotangent,
                  CarrierClass carrier_class, const OperationExecutionOptions* options,
                  std::vector<bool> is_wanted = {})
      : definition_(definition),
        arguments_(arguments),
        cotangent_(cotangent),
        carrier_class_(carrier_class),
        options_(options),
        is_wanted_(std::move(is_wanted)) {}

  /// All positional arguments of the forward call, Tensors included.
  [[nodiscard]] std::span<const Argument> arguments() const noexcept { return arguments_; }
  [[nodiscard]] const Argument& argument(std::size_t position) const { return arguments_[position]; }
  /// The Tensor argument at `position`.
  [[nodiscard]] const Tensor& tensor(std::size_t position) const { return *arguments_[position].tensor(); }
  /// The incoming cotangent, of the result's shape.
  [[nodiscard]] const Tensor& cotangent() const noexcept { return cotangent_; }
  [[nodiscard]] CarrierClass carrier_class() const noexcept { return carrier_class_; }
  [[nodiscard]] const OperationExecutionOptions* options() const noexcept { return options_; }
  /// Whether the argument at `position` is a differentiable Tensor whose gradient is asked for.
  [[nodiscard]] bool wants(std::size_t position) const;

  /// The forward result, computed again from the saved inputs.
  [[nodiscard]] Tensor result() const;
  /// The result of a table operation on Tensors of the forward call's carrier class.
  [[nodiscard]] Tensor compute(std::string_view name, std::initializer_list<Argument> arguments) const;
  /// The same for a definition that gradient rules alone know.
  [[nodiscard]] Tensor compute(const Definition& definition, std::initializer_list<Argument> arguments) const;
  /// A Float32 constant of `shape` on one slot.
  [[nodiscard]] Tensor constant(const Shape& shape, float value) const;
  /// Zeros in fresh storage, in `layout`.
  [[nodiscard]] Tensor zeros(const Layout& layout) const;
  /// `cotangent` (of the result's shape) as the gradient of the argument at `position`: summed over the
  /// leaves that the operation widened, in the argument's layout where that is injective, otherwise
  /// canonical.
  [[nodiscard]] Tensor fit(std::size_t position, const Tensor& cotangent) const;

  /// One entry per Tensor argument, in order: `entry(position)` where the argument wants a gradient.
  template <class Entry>
  [[nodiscard]] Gradients per_tensor(Entry entry) const {
    Gradients gradients;
    for (std::size_t position = 0; position < arguments_.size(); ++position) {
      if (arguments_[position].tensor() == nullptr) continue;
      if (wants(position))
        gradients.emplace_back(entry(position));
      else
        gradients.emplace_back();
    }
    return gradients;
  }

 private:
  const Definition& definition_;
  std::span<const Argument> arguments_;
  const Tensor& cotangent_;
  CarrierClass carrier_class_;
  const OperationExecutionOptions* options_;
  std::vector<bool> is_wanted_;
};

/// `tensor` summed over every leaf whose extent in `shape` (same profile) is one; itself where there is none.
[[nodiscard]] Tensor sum_to_shape(const Tensor& tensor, const Shape& shape);

/// Fresh storage of the carrier's class with `slots` slots: the elements of `tensor` at `offset + layout`, a
/// layout of the same shape, and zero elsewhere.
[[nodiscard]] Ref<Carrier> scatter_into_zeros(const Tensor& tensor, const Layout& layout, Index offset,
                                              Index slots);

/// The same elements in another layout of the same shape, in fresh storage of the carrier's class (holes
/// zero).
[[nodiscard]] Tensor copy_to_layout(const Tensor& tensor, const Layout& layout);

/// The same Tensor in fresh storage like `prototype`, in its own layout.
[[nodiscard]] Tensor copy_to_carrier(const Tensor& tensor, const Carrier& prototype);

/// The layout a gradient of `layout` has: itself where injective, otherwise canonical (P65, P86).
[[nodiscard]] Layout gradient_layout(const Layout& layout);

}  // namespace orlop::inline v0
