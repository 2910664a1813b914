// Functions of one operand (P61).
#include "operation/definitions/elementwise.hpp"

namespace orlop::inline v0 {

namespace {

Gradients neg_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) {
    return context.fit(position, context.compute("neg", {context.cotangent()}));
  });
}

Gradients exp_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] { return context.result(); });
}

Gradients log_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] { return context.compute("div", {Scalar(1.0F), context.tensor(0)}); });
}

}  // namespace

DefinitionList unary_definitions() {
  static const std::array<ElementwiseDefinition, 3> definitions{{
      {"neg", 1, neg_gradients},
      {"exp", 1, exp_gradients},
      {"log", 1, log_gradients},
  }};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
