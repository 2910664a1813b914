// The view functions: each dispatches its name on the tensor's carrier.
#include "orlop/operation/views.hpp"

#include <array>

#include "operation/definition.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop::inline v0 {

namespace {

template <class... Parameters>
Tensor view(std::string_view name, const Tensor& tensor, Parameters&&... parameters) {
  const std::array<Argument, 1 + sizeof...(Parameters)> arguments{Argument(tensor),
                                                                  std::forward<Parameters>(parameters)...};
  return apply_operation(name, arguments);
}

}  // namespace

Tensor slice(const Tensor& tensor, SliceKeys keys) {
  return view("view", tensor, Argument::of(std::move(keys)));
}

Tensor Tensor::slice(SliceKeys keys) const { return orlop::slice(*this, std::move(keys)); }

Tensor permute(const Tensor& tensor, Sequence<Index> order) {
  std::vector<Argument> arguments{tensor};
  for (const Index mode : order) arguments.emplace_back(Scalar(mode));
  return apply_operation("permute", arguments);
}

Tensor reshape(const Tensor& tensor, const Shape& shape) {
  return view("reshape", tensor, Argument::of(shape));
}

Tensor as_strided(const Tensor& tensor, const Shape& shape, const Stride& stride) {
  return view("as_strided", tensor, Argument::of(shape), Argument::of(stride));
}

Tensor broadcast_to(const Tensor& tensor, const Shape& target) {
  return view("broadcast_to", tensor, Argument::of(target));
}

Tensor broadcast_in_dim(const Tensor& tensor, const Shape& target, Sequence<Index> broadcast_dimensions) {
  check_broadcast_dimensions(tensor.layout(), target, broadcast_dimensions);
  Tensor placed = tensor;
  auto next = broadcast_dimensions.begin();
  for (Index position = 0; position < static_cast<Index>(target.rank()); ++position) {
    if (next != broadcast_dimensions.end() && *next == position)
      ++next;
    else
      placed = unsqueeze(placed, position);
  }
  return broadcast_to(placed, target);
}

Tensor squeeze(const Tensor& tensor, Index dim) { return view("squeeze", tensor, Scalar(dim)); }

Tensor unsqueeze(const Tensor& tensor, Index dim) { return view("unsqueeze", tensor, Scalar(dim)); }

Tensor rearrange(const Tensor& tensor, const Tree& output, const std::optional<Tree>& selection) {
  if (selection) return view("rearrange", tensor, Argument::of(output), Argument::of(*selection));
  return view("rearrange", tensor, Argument::of(output));
}

bool is_view_operation(std::string_view name) noexcept {
  for (const Definition* definition : view_definitions())
    if (definition->name() == name) return true;
  return false;
}

}  // namespace orlop::inline v0
