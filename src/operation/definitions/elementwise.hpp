// The shape rule of every elementwise operation: structural broadcasting of all Tensor operands at once
// (P54).
#pragma once

#include <algorithm>
#include <array>

#include "operation/definition.hpp"
#include "operation/gradient.hpp"

namespace orlop::inline v0 {

/// The broadcast of the arguments' shapes. ValueError naming the leaf where profiles or extents do not agree.
[[nodiscard]] Layout broadcast_result(std::string_view name, std::span<const Argument> arguments);

/// An elementwise operation of `arity` operands; which of them may be weak scalars is said by its plans.
class ElementwiseDefinition final : public Definition {
 public:
  using GradientRule = Gradients (*)(const GradientContext&);
  /// Without a rule the result carries no gradient.
  ElementwiseDefinition(std::string_view name, std::size_t arity, GradientRule rule = nullptr)
      : Definition(name), arity_(arity), rule_(rule) {}

  void check_arguments(std::span<const Argument> arguments) const override;
  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments,
                                   const OperationPlan& plan) const override;
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override;

 private:
  std::size_t arity_;
  GradientRule rule_;
};

/// The gradient of a unary function: the cotangent times `slope()`.
template <class Slope>
[[nodiscard]] Gradients scaled_cotangent(const GradientContext& context, Slope slope) {
  return context.per_tensor([&](std::size_t position) {
    return context.fit(position, context.compute("mul", {context.cotangent(), slope()}));
  });
}

/// Nothing to any Tensor: the gradient of a function that is constant between its jumps.
[[nodiscard]] Gradients zero_gradients(const GradientContext& context);

/// `predicate(lhs, rhs) ? on_true : on_false`, element by element.
[[nodiscard]] Tensor choose(const GradientContext& context, std::string_view predicate, const Argument& lhs,
                            const Argument& rhs, const Tensor& on_true, const Tensor& on_false);

/// What maximum, or minimum, of `own` and `other` passes of its cotangent `g` to `own`: all where it won,
/// half where both are equal, NaN beside a NaN (P62).
enum class Extremum : std::uint8_t { maximum, minimum };
[[nodiscard]] Tensor share_of_extremum(const GradientContext& context, Extremum extremum, const Tensor& g,
                                       const Argument& own, const Argument& other);

/// A family's definitions as the table wants them.
template <std::size_t count>
[[nodiscard]] std::array<const Definition*, count> pointers_to(
    const std::array<ElementwiseDefinition, count>& definitions) {
  std::array<const Definition*, count> pointers;
  std::ranges::transform(definitions, pointers.begin(),
                         [](const Definition& definition) { return &definition; });
  return pointers;
}

}  // namespace orlop::inline v0
