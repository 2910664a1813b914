// Activations (P61).
#include "operation/definitions/elementwise.hpp"

namespace orlop::inline v0 {

namespace {

Gradients relu_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) {
    const Tensor& g = context.cotangent();
    const Tensor is_positive = context.compute("lt", {Scalar(0.0F), context.tensor(position)});
    const Tensor zero = context.constant(g.layout().shape(), 0.0F);
    return context.fit(position, context.compute("select", {is_positive, g, zero}));
  });
}

// y·(1−y)
Gradients sigmoid_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    const Tensor y = context.result();
    return context.compute("mul", {y, context.compute("sub", {Scalar(1.0F), y})});
  });
}

// 1−y·y
Gradients tanh_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    const Tensor y = context.result();
    return context.compute("sub", {Scalar(1.0F), context.compute("mul", {y, y})});
  });
}

}  // namespace

DefinitionList activation_definitions() {
  static const std::array<ElementwiseDefinition, 3> definitions{{
      {"relu", 1, relu_gradients},
      {"sigmoid", 1, sigmoid_gradients},
      {"tanh", 1, tanh_gradients},
  }};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
