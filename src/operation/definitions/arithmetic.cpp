// Arithmetic of two operands (P62).
#include "operation/definitions/elementwise.hpp"

namespace orlop::inline v0 {

namespace {

Gradients add_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) { return context.fit(position, context.cotangent()); });
}

Gradients sub_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) {
    const Tensor& g = context.cotangent();
    return context.fit(position, position == 0 ? g : context.compute("neg", {g}));
  });
}

Gradients mul_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) {
    return context.fit(position,
                       context.compute("mul", {context.cotangent(), context.argument(1 - position)}));
  });
}

// lhs: g/b; rhs: −(g·((a/b)/b)), in this order, because a/(b·b) loses range.
Gradients div_gradients(const GradientContext& context) {
  const Tensor& g = context.cotangent();
  const Argument& a = context.argument(0);
  const Argument& b = context.argument(1);
  return context.per_tensor([&](std::size_t position) {
    if (position == 0) return context.fit(position, context.compute("div", {g, b}));
    const Tensor ratio = context.compute("div", {context.compute("div", {a, b}), b});
    return context.fit(position, context.compute("neg", {context.compute("mul", {g, ratio})}));
  });
}

/// The operand as the forward call computed with it: a Float32 Tensor.
Tensor as_float32(const GradientContext& context, const Argument& operand) {
  if (const Scalar* scalar = operand.scalar())
    return context.constant(context.cotangent().layout().shape(), scalar->to_binary32());
  const Tensor& tensor = *operand.tensor();
  return tensor.is_differentiable() ? tensor : context.compute("mul", {tensor, Scalar(1.0F)});
}

// base: 0 if p = 0, otherwise g·p·x^(p−1); exponent: 0 if x = ±0 and p ≥ 0, otherwise (g·y)·log(x).
Gradients pow_gradients(const GradientContext& context) {
  const Tensor& g = context.cotangent();
  const Tensor x = as_float32(context, context.argument(0));
  const Tensor p = as_float32(context, context.argument(1));
  const Tensor zero = context.constant(g.layout().shape(), 0.0F);
  return context.per_tensor([&](std::size_t position) {
    if (position == 0) {
      const Tensor power = context.compute("pow", {x, context.compute("sub", {p, Scalar(1.0F)})});
      const Tensor slope = context.compute("mul", {context.compute("mul", {g, p}), power});
      return context.fit(0, choose(context, "eq", p, Scalar(0.0F), zero, slope));
    }
    const Tensor scaled = context.compute("mul", {g, context.result()});
    const Tensor slope = context.compute("mul", {scaled, context.compute("log", {x})});
    const Tensor at_zero = choose(context, "le", Scalar(0.0F), p, zero, slope);
    return context.fit(1, choose(context, "eq", x, Scalar(0.0F), at_zero, slope));
  });
}

template <Extremum extremum>
Gradients extremum_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) {
    return context.fit(position,
                       share_of_extremum(context, extremum, context.cotangent(), context.argument(position),
                                         context.argument(1 - position)));
  });
}

// lhs: g; rhs: −g·Q with the truncated quotient Q, which Float32 operations would round on the way.
Gradients rem_gradients(const GradientContext& context) {
  static const ElementwiseDefinition quotient("_rem_quotient", 2);
  return context.per_tensor([&](std::size_t position) {
    const Tensor& g = context.cotangent();
    if (position == 0) return context.fit(position, g);
    const Tensor whole = context.compute(quotient, {context.argument(0), context.argument(1)});
    return context.fit(position, context.compute("mul", {context.compute("neg", {g}), whole}));
  });
}

}  // namespace

DefinitionList arithmetic_definitions() {
  static const std::array<ElementwiseDefinition, 9> definitions{{
      {"add", 2, add_gradients},
      {"sub", 2, sub_gradients},
      {"mul", 2, mul_gradients},
      {"elementwise_mul", 2, mul_gradients},
      {"div", 2, div_gradients},
      {"pow", 2, pow_gradients},
      {"maximum", 2, extremum_gradients<Extremum::maximum>},
      {"minimum", 2, extremum_gradients<Extremum::minimum>},
      {"rem", 2, rem_gradients},
  }};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
