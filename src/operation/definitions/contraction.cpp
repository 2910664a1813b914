// matmul: the contraction of the second modes of two operands, and its gradient (P66); the same for batches.
#include <array>

#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "operation/matrix.hpp"
#include "operation/modes.hpp"

namespace orlop::inline v0 {

namespace {

/// The view with both modes swapped.
Tensor transposed(const Tensor& tensor) {
  constexpr std::size_t order[] = {1, 0};
  return Tensor::trusted(tensor.carrier(), tensor.offset(), tensor.layout().select(order));
}

class Matmul final : public Definition {
 public:
  Matmul() : Definition("matmul") {}

  void check_arguments(std::span<const Argument> arguments) const override {
    if (arguments.size() != 2)
      raise<TypeError>(name(), "takes two Tensors: got ", arguments.size(), " arguments");
    for (const Argument& argument : arguments)
      if (argument.tensor() == nullptr)
        raise<TypeError>(name(), "both operands must be Tensors: got ", argument.type_name(),
                         "; use mul to multiply by a number");
  }

  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    const Layout& lhs = arguments[0].tensor()->layout();
    const Layout& rhs = arguments[1].tensor()->layout();
    for (const Layout* layout : {&lhs, &rhs})
      if (layout->rank() != 2)
        raise<ValueError>(name(), "both operands must have two top-level modes: got ", layout->shape(),
                          "; rearrange it first");
    if (leaves_of_modes(lhs, 1, 2).size() != leaves_of_modes(rhs, 1, 2).size())
      raise<ValueError>(name(), "the second modes are contracted and must have one size: got ", lhs.shape(),
                        " and ", rhs.shape(), "; permute or rearrange one of them");
    constexpr std::size_t first[] = {0};
    return {Layout::canonical(Shape::concat(lhs.shape().select(first), rhs.shape().select(first))), {}};
  }

  /// lhs[i, k]: Σ_j g[i, j] · rhs[j, k]; rhs[j, k]: Σ_i g[i, j] · lhs[i, k].
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override {
    const Tensor& g = context.cotangent();
    return context.per_tensor([&](std::size_t position) {
      const std::array<Argument, 2> arguments{position == 0 ? g : transposed(g),
                                              transposed(context.tensor(1 - position))};
      const Tensor product =
          run_definition(*this, arguments, context.options(), context.carrier_class(), false);
      // The other operand's second mode may be nested differently; its ordinals are the same.
      const Shape shape = context.tensor(position).layout().shape();
      return context.fit(position, Tensor::trusted(product.carrier(), 0, Layout::canonical(shape)));
    });
  }
};

/// Only einsum calls it, with operands that it has checked.
class BatchMatmul final : public Definition {
 public:
  BatchMatmul() : Definition("matmul", batch_matmul_kernel) {}
  void check_arguments(std::span<const Argument>) const override {}
  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    return {*arguments[2].get<Layout>(), {}};
  }
};

}  // namespace

const Definition& batch_matmul_definition() {
  static const BatchMatmul batch_matmul;
  return batch_matmul;
}

DefinitionList contraction_definitions() {
  static const Matmul matmul;
  static const Definition* const list[] = {&matmul};
  return list;
}

}  // namespace orlop::inline v0
