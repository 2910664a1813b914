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

// 0.5·(1+erf(x·c1)) + (x·exp((−0.5·x)·x))·c2 with c1 = √½ and c2 = 1/√(2π)
Gradients gelu_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    const Tensor& x = context.tensor(0);
    const Tensor erf = context.compute("erf", {context.compute("mul", {x, Scalar(0.7071067812F)})});
    const Tensor share = context.compute("mul", {context.compute("add", {erf, Scalar(1.0F)}), Scalar(0.5F)});
    const Tensor bell =
        context.compute("exp", {context.compute("mul", {context.compute("mul", {x, Scalar(-0.5F)}), x})});
    const Tensor slope = context.compute("mul", {context.compute("mul", {x, bell}), Scalar(0.3989422804F)});
    return context.compute("add", {share, slope});
  });
}

// s + (x·s)·(1−s) with s the sigmoid of x
Gradients silu_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    const Tensor& x = context.tensor(0);
    const Tensor s = context.compute("sigmoid", {x});
    const Tensor rest = context.compute("sub", {Scalar(1.0F), s});
    return context.compute("add", {s, context.compute("mul", {context.compute("mul", {x, s}), rest})});
  });
}

Gradients softplus_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] { return context.compute("sigmoid", {context.tensor(0)}); });
}

// 1 where x > 0, otherwise exp(x)
Gradients elu_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    const Tensor& x = context.tensor(0);
    const Tensor one = context.constant(x.layout().shape(), 1.0F);
    return context.compute("select",
                           {context.compute("lt", {Scalar(0.0F), x}), one, context.compute("exp", {x})});
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
  static const std::array<ElementwiseDefinition, 8> definitions{{
      {"relu", 1, relu_gradients},
      {"sigmoid", 1, sigmoid_gradients},
      {"tanh", 1, tanh_gradients},
      {"gelu", 1, gelu_gradients},
      {"silu", 1, silu_gradients},
      {"softplus", 1, softplus_gradients},
      {"elu", 1, elu_gradients},
      {"leaky_relu", 1, leaky_relu_gradients},
  }};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
