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

}  // namespace

DefinitionList ternary_definitions() {
  static const std::array<ElementwiseDefinition, 1> definitions{{{"select", 3, select_gradients}}};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
