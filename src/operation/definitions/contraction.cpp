// matmul: the contraction of the second modes of two operands, and its gradient (P66); the same for batches.
#include <array>

#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "operation/matrix.hpp"
#include "operation/modes.hpp"

namespace orlop::inline v0 {

namespace {

/// The view with the first two modes swapped.
Tensor transposed(const Tensor& tensor) {
  constexpr std::size_t order[] = {1, 0, 2};
  return Tensor::trusted(tensor.carrier(), tensor.offset(),
                         tensor.layout().select(std::span(order).first(tensor.layout().rank())));
}

class Matmul final : public Definition {
 public:
  Matmul() : Matmul("matmul", 2) {}
  Matmul(std::string_view kernel_name, std::size_t rank) : Definition("matmul", kernel_name), rank_(rank) {}

  void check_arguments(std::span<const Argument> arguments) const override {
    if (takes_layout()) return;  // no caller's
    if (arguments.size() != 2)
      raise<TypeError>(name(), "takes two Tensors: got ", arguments.size(), " arguments");
    for (const Argument& argument : arguments)
      if (argument.tensor() == nullptr)
        raise<TypeError>(name(), "both operands must be Tensors; use mul to multiply by a number");
  }

  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    const Layout& lhs = arguments[0].tensor()->layout();
    const Layout& rhs = arguments[1].tensor()->layout();
    for (const Layout* layout : {&lhs, &rhs})
      if (layout->rank() != rank_)
        raise<ValueError>(name(), "both operands must have two top-level modes: got ", layout->shape(),
                          "; rearrange it first");
    if (leaves_of_modes(lhs, 1, 2).size() != leaves_of_modes(rhs, 1, 2).size())
      raise<ValueError>(name(), "the second modes are contracted and must have one size: got ", lhs.shape(),
                        " and ", rhs.shape(), "; permute or rearrange one of them");
    return {takes_layout() ? *arguments[2].get<Layout>() : Layout::canonical(product_shape(lhs, rhs)), {}};
  }

  /// lhs[i, k]: Σ_j g[i, j] · rhs[j, k]; rhs[j, k]: Σ_i g[i, j] · lhs[i, k].
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override {
    const Tensor& g = context.cotangent();
    return context.per_tensor([&](std::size_t position) {
      // The other operand's second mode may be nested differently; its ordinals are the same.
      const Layout& own = context.tensor(position).layout();
      const bool is_compact = own.is_injective() && own.cosize() == own.size();
      const Layout layout = takes_layout() && is_compact ? own : Layout::canonical(own.shape());
      const std::array<Argument, 3> arguments{position == 0 ? g : transposed(g),
                                              transposed(context.tensor(1 - position)), Argument::of(layout)};
      const Tensor product = run_definition(*this, std::span(arguments).first(takes_layout() ? 3 : 2),
                                            context.options(), context.carrier_class(), false);
      return context.fit(position, Tensor::trusted(product.carrier(), 0, layout));
    });
  }

 private:
  /// Products of batches come in the layout that the third argument says.
  [[nodiscard]] bool takes_layout() const { return rank_ > 2; }

  std::size_t rank_;  // of the operands
};

}  // namespace

const Definition& batch_matmul_definition() {
  static const Matmul batch_matmul(batch_matmul_kernel, 3);
  return batch_matmul;
}

DefinitionList contraction_definitions() {
  static const Matmul matmul;
  static const Definition* const list[] = {&matmul};
  return list;
}

}  // namespace orlop::inline v0
