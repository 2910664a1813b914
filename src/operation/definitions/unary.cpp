// Functions of one operand (P61).
#include "operation/definitions/elementwise.hpp"

namespace orlop::inline v0 {

namespace {

constexpr float ln2 = 0.6931471806F;

Gradients neg_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) {
    return context.fit(position, context.compute("neg", {context.cotangent()}));
  });
}

Gradients abs_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] { return context.compute("sign", {context.tensor(0)}); });
}

// −(1/(x·x))
Gradients recip_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    const Tensor square = context.compute("mul", {context.tensor(0), context.tensor(0)});
    return context.compute("neg", {context.compute("recip", {square})});
  });
}

// 1/(2y)
Gradients sqrt_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    return context.compute("recip", {context.compute("mul", {context.result(), Scalar(2.0F)})});
  });
}

// −(y·y·y)/2
Gradients rsqrt_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    const Tensor y = context.result();
    const Tensor cube = context.compute("mul", {context.compute("mul", {y, y}), y});
    return context.compute("mul", {context.compute("neg", {cube}), Scalar(0.5F)});
  });
}

Gradients exp_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] { return context.result(); });
}

// ln(2)·y
Gradients exp2_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] { return context.compute("mul", {context.result(), Scalar(ln2)}); });
}

// 1/x
Gradients log_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] { return context.compute("div", {Scalar(1.0F), context.tensor(0)}); });
}

// 1/(x·ln(2))
Gradients log2_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    return context.compute("div", {Scalar(1.0F), context.compute("mul", {context.tensor(0), Scalar(ln2)})});
  });
}

Gradients sin_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] { return context.compute("cos", {context.tensor(0)}); });
}

Gradients cos_gradients(const GradientContext& context) {
  return scaled_cotangent(
      context, [&] { return context.compute("neg", {context.compute("sin", {context.tensor(0)})}); });
}

// (2/√π)·exp(−(x·x))
Gradients erf_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] {
    const Tensor& x = context.tensor(0);
    const Tensor bell = context.compute("exp", {context.compute("neg", {context.compute("mul", {x, x})})});
    return context.compute("mul", {bell, Scalar(1.1283791671F)});
  });
}

}  // namespace

DefinitionList unary_definitions() {
  static const std::array<ElementwiseDefinition, 16> definitions{{
      {"neg", 1, neg_gradients},
      {"abs", 1, abs_gradients},
      {"sign", 1, zero_gradients},
      {"recip", 1, recip_gradients},
      {"sqrt", 1, sqrt_gradients},
      {"rsqrt", 1, rsqrt_gradients},
      {"exp", 1, exp_gradients},
      {"exp2", 1, exp2_gradients},
      {"log", 1, log_gradients},
      {"log2", 1, log2_gradients},
      {"sin", 1, sin_gradients},
      {"cos", 1, cos_gradients},
      {"erf", 1, erf_gradients},
      {"floor", 1, zero_gradients},
      {"ceil", 1, zero_gradients},
      {"round", 1, zero_gradients},
  }};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
