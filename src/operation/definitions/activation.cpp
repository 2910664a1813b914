// Activations (P61).
#include "operation/definitions/elementwise.hpp"

namespace orlop::inline v0 {

namespace {

Gradients relu_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) {
    const Tensor& g = context.cotangent();
    const Tensor zero = context.constant(g.layout().shape(), 0.0F);
    return context.fit(position, choose(context, "lt", Scalar(0.0F), context.tensor(position), g, zero));
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

// 1 if x ≥ 0, otherwise the slope
Gradients leaky_relu_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) {
    const Tensor& g = context.cotangent();
    const Tensor lower = context.compute("mul", {g, Scalar(0.01F)});
    return context.fit(position, choose(context, "le", Scalar(0.0F), context.tensor(position), g, lower));
  });
}

}  // namespace

DefinitionList activation_definitions() {
  static const std::array<ElementwiseDefinition, 4> definitions{{
      {"relu", 1, relu_gradients},
      {"sigmoid", 1, sigmoid_gradients},
      {"tanh", 1, tanh_gradients},
      {"leaky_relu", 1, leaky_relu_gradients},
  }};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
