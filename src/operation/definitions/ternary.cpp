// Operations of three operands (P63).
#include "operation/definitions/elementwise.hpp"

namespace orlop::inline v0 {

namespace {

// The condition has no gradient; each branch gets g where it was chosen.
Gradients select_gradients(const GradientContext& context) {
  const Tensor& g = context.cotangent();
  const Tensor zero = context.constant(g.layout().shape(), 0.0F);
  return context.per_tensor([&](std::size_t position) {
    const bool is_on_true = position == 1;
    return context.fit(position, context.compute("select", {context.argument(0), is_on_true ? g : zero,
                                                            is_on_true ? zero : g}));
  });
}

// minimum(maximum(x, lower), upper), rule by rule.
Gradients clamp_gradients(const GradientContext& context) {
  const Argument& x = context.argument(0);
  const Argument& lower = context.argument(1);
  const Argument& upper = context.argument(2);
  const Tensor raised = context.compute("maximum", {x, lower});
  const auto share_of = [&](Extremum extremum, const Tensor& g, const Argument& own, const Argument& other) {
    return share_of_extremum(context, extremum, g, own, other);
  };
  return context.per_tensor([&](std::size_t position) {
    const Tensor& g = context.cotangent();
    if (position == 2) return context.fit(2, share_of(Extremum::minimum, g, upper, raised));
    const Tensor inner = share_of(Extremum::minimum, g, raised, upper);
    return context.fit(
        position, share_of(Extremum::maximum, inner, position == 0 ? x : lower, position == 0 ? lower : x));
  });
}

}  // namespace

DefinitionList ternary_definitions() {
  static const std::array<ElementwiseDefinition, 2> definitions{
      {{"select", 3, select_gradients}, {"clamp", 3, clamp_gradients}}};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
