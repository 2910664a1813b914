// Functions of one operand (P61).
#include "operation/definitions/elementwise.hpp"

namespace orlop::inline v0 {

namespace {

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

Gradients log_gradients(const GradientContext& context) {
  return scaled_cotangent(context, [&] { return context.compute("div", {Scalar(1.0F), context.tensor(0)}); });
}

}  // namespace

DefinitionList unary_definitions() {
  static const std::array<ElementwiseDefinition, 11> definitions{{
      {"neg", 1, neg_gradients},
      {"abs", 1, abs_gradients},
      {"sign", 1, zero_gradients},
      {"recip", 1, recip_gradients},
      {"sqrt", 1, sqrt_gradients},
      {"rsqrt", 1, rsqrt_gradients},
      {"exp", 1, exp_gradients},
      {"log", 1, log_gradients},
      {"floor", 1, zero_gradients},
      {"ceil", 1, zero_gradients},
      {"round", 1, zero_gradients},
  }};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
