// Structural broadcasting and the argument rule of elementwise operations.
#include "operation/definitions/elementwise.hpp"

#include <limits>

#include "layout/nest.hpp"

namespace orlop::inline v0 {

namespace {

/// "1.0.2" for a leaf: the modes that lead to it.
std::string leaf_path(const Shape& shape, std::size_t leaf) {
  std::string path;
  for (detail::NestCursor cursor(shape.nest());; cursor.open()) {
    std::size_t mode = 0;
    for (detail::NestCursor next = cursor;; cursor = next) {
      const std::size_t leaves = next.skip().size();
      if (leaves > leaf) break;
      leaf -= leaves;
      ++mode;
    }
    path += text(path.empty() ? "" : ".", mode);
    if (cursor.at_leaf()) return path;
  }
}

}  // namespace

Layout broadcast_result(std::string_view name, std::span<const Argument> arguments) {
  const Layout* first = nullptr;
  bool is_uniform = true;
  for (const Argument& argument : arguments) {
    const Tensor* tensor = argument.tensor();
    if (tensor == nullptr) continue;
    if (first == nullptr)
      first = &tensor->layout();
    else
      is_uniform = is_uniform && tensor->layout() == *first;
  }
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): no plan is without a Tensor
  if (is_uniform && first->is_canonical()) return *first;

  const Shape shape = first->shape();
  detail::Nest result = shape.nest();
  for (const Argument& argument : arguments) {
    const Tensor* tensor = argument.tensor();
    if (tensor == nullptr) continue;
    const Shape other = tensor->layout().shape();
    if (!other.same_profile(shape))
      raise<ValueError>(
          name, "operands are not broadcast-compatible, they must have the same shape profile: ", shape,
          " and ", other, "; unsqueeze, rearrange or reshape one of them");
    for (std::size_t i = 0; i < result.leaves.size(); ++i) {
      const Index extent = other.leaves()[i];
      if (extent == 1) continue;
      if (result.leaves[i] != 1 && result.leaves[i] != extent)
        raise<ValueError>(name, "operands are not broadcast-compatible, they do not broadcast at leaf ",
                          leaf_path(shape, i), ": extents ", result.leaves[i], " and ", extent,
                          "; extents other than 1 must agree");
      result.leaves[i] = extent;
    }
  }
  return Layout::canonical(Shape(std::move(result)));
}

void ElementwiseDefinition::check_arguments(std::span<const Argument> arguments) const {
  if (arguments.size() != arity_)
    raise<TypeError>(name(), "takes ", arity_, arity_ == 1 ? " operand: got " : " operands: got ",
                     arguments.size());
  bool has_tensor = false;
  for (const Argument& argument : arguments) {
    has_tensor = has_tensor || argument.tensor() != nullptr;
    if (argument.tensor() == nullptr && argument.scalar() == nullptr)
      raise<TypeError>(name(), "every operand must be a Tensor or a real number: got ", argument.type_name());
  }
  if (!has_tensor) raise<TypeError>(name(), "needs at least one Tensor operand: got only numbers");
}

Resolution ElementwiseDefinition::resolve(std::span<const Argument> arguments, const OperationPlan&) const {
  return {broadcast_result(name(), arguments), {}};
}

Gradients zero_gradients(const GradientContext& context) {
  return context.per_tensor([&](std::size_t position) {
    return context.zeros(gradient_layout(context.tensor(position).layout()));
  });
}

Tensor choose(const GradientContext& context, std::string_view predicate, const Argument& lhs,
              const Argument& rhs, const Tensor& on_true, const Tensor& on_false) {
  return context.compute("select", {context.compute(predicate, {lhs, rhs}), on_true, on_false});
}

Tensor share_of_extremum(const GradientContext& context, Extremum extremum, const Tensor& g,
                         const Argument& own, const Argument& other) {
  const bool is_maximum = extremum == Extremum::maximum;
  const Argument& lesser = is_maximum ? other : own;  // where own wins
  const Argument& greater = is_maximum ? own : other;
  const Tensor zero = context.constant(g.layout().shape(), 0.0F);
  const Tensor nan = context.constant(g.layout().shape(), std::numeric_limits<float>::quiet_NaN());
  const Tensor half = context.compute("mul", {g, Scalar(0.5F)});
  const Tensor lost = choose(context, "lt", greater, lesser, zero, nan);
  const Tensor tied = choose(context, "eq", own, other, half, lost);
  return choose(context, "lt", lesser, greater, g, tied);
}

Gradients ElementwiseDefinition::gradients(const GradientContext& context) const {
  return rule_ != nullptr ? rule_(context) : Definition::gradients(context);
}

}  // namespace orlop::inline v0
