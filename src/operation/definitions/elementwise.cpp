// Structural broadcasting and the argument rule of elementwise operations.
#include "operation/definitions/elementwise.hpp"

namespace orlop::inline v0 {

namespace {

/// "1.0.2" for a leaf: the modes that lead to it.
std::string leaf_path(const Shape& shape, std::size_t leaf) {
  std::string path;
  Shape rest = shape;
  while (true) {
    std::size_t mode = 0;
    while (rest.mode(mode).leaves().size() <= leaf) leaf -= rest.mode(mode++).leaves().size();
    path += text(path.empty() ? "" : ".", mode);
    rest = rest.mode(mode);
    if (rest.is_int()) return path;
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
  if (is_uniform && first->is_canonical()) return *first;

  const Shape shape = first->shape();
  detail::Nest result = shape.nest();
  for (const Argument& argument : arguments) {
    const Tensor* tensor = argument.tensor();
    if (tensor == nullptr) continue;
    const Shape other = tensor->layout().shape();
    if (!other.same_profile(shape))
      raise<ValueError>(name, "operands must have the same shape profile to broadcast: ", shape, " and ",
                        other, "; rearrange or reshape one of them");
    for (std::size_t i = 0; i < result.leaves.size(); ++i) {
      const Index extent = other.leaves()[i];
      if (extent == 1) continue;
      if (result.leaves[i] != 1 && result.leaves[i] != extent)
        raise<ValueError>(name, "operands do not broadcast at leaf ", leaf_path(shape, i), ": extents ",
                          result.leaves[i], " and ", extent, "; extents other than 1 must agree");
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
      raise<TypeError>(name(), "every operand must be a Tensor or a real number");
  }
  if (!has_tensor) raise<TypeError>(name(), "needs at least one Tensor operand: got only numbers");
}

Resolution ElementwiseDefinition::resolve(std::span<const Argument> arguments, const OperationPlan&) const {
  return {broadcast_result(name(), arguments), {}};
}

Gradients ElementwiseDefinition::gradients(const GradientContext& context) const {
  return rule_ != nullptr ? rule_(context) : Definition::gradients(context);
}

}  // namespace orlop::inline v0
