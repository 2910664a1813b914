// Reductions of the second of two modes, and their gradients (P64).
#include <limits>

#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "operation/gradient_scan.hpp"
#include "operation/modes.hpp"

namespace orlop::inline v0 {

namespace {

class ReductionDefinition : public Definition {
 public:
  using Definition::Definition;

  void check_arguments(std::span<const Argument> arguments) const override {
    if (arguments.size() != 1 || arguments[0].tensor() == nullptr)
      raise<TypeError>(name(), "takes one Tensor: got ", arguments.size(),
                       arguments.size() == 1 ? " argument of another type" : " arguments");
  }

  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    const Layout& layout = arguments[0].tensor()->layout();
    if (layout.rank() != 2)
      raise<ValueError>(name(),
                        "the operand must have two top-level modes, the kept one and the reduced one: got ",
                        layout.shape(), "; rearrange it first");
    return {Layout::canonical(layout.shape().mode(0)), {}};
  }
};

/// `tensor`, which has the shape of the kept mode of `operand`, seen at every coordinate of `operand`.
Tensor over_fibres(const Tensor& tensor, const Layout& operand) {
  detail::Nest strides = operand.shape().nest();
  const auto kept = tensor.layout().strides();
  std::fill(std::copy(kept.begin(), kept.end(), strides.leaves.begin()), strides.leaves.end(), 0);
  return Tensor::trusted(tensor.carrier(), tensor.offset(),
                         Layout(operand.shape(), Stride(std::move(strides))));
}

class ReduceSum final : public ReductionDefinition {
 public:
  ReduceSum() : ReductionDefinition("reduce_sum") {}

  /// g at every position of the fibre.
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override {
    return context.per_tensor([&](std::size_t position) {
      const Layout& layout = context.tensor(position).layout();
      return copy_to_layout(over_fibres(context.cotangent(), layout), gradient_layout(layout));
    });
  }
};

class ReduceProd final : public ReductionDefinition {
 public:
  ReduceProd() : ReductionDefinition("reduce_prod") {}

  /// g · (the product of the elements before · that of the elements after), the former in ordinal order from
  /// the first, the latter from the last: no division, so that zeros do no harm.
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override {
    return context.per_tensor([&](std::size_t position) {
      const Tensor& operand = context.tensor(position);
      const auto products = [&](bool is_backward) {
        return gradient_scan(operand, {.axis = 1,
                                       .accumulation = Accumulation::SequentialBinary32Product,
                                       .is_backward = is_backward,
                                       .is_exclusive = true});
      };
      const Tensor others = context.compute("elementwise_mul", {products(false), products(true)});
      return context.fit(
          position,
          context.compute("elementwise_mul", {over_fibres(context.cotangent(), operand.layout()), others}));
    });
  }
};

class ReduceExtremum final : public ReductionDefinition {
 public:
  using ReductionDefinition::ReductionDefinition;

  /// g shared equally by the winners; a NaN result gives NaN to all.
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override {
    return context.per_tensor([&](std::size_t position) {
      const Tensor& operand = context.tensor(position);
      const Layout& layout = operand.layout();
      const Tensor result = context.result();
      const Tensor is_winner = context.compute("eq", {operand, over_fibres(result, layout)});
      const Tensor one = context.constant(layout.shape(), 1.0F);
      const Tensor zero = context.constant(layout.shape(), 0.0F);
      const Tensor winners =
          context.compute("reduce_sum", {context.compute("select", {is_winner, one, zero})});
      const Tensor share = context.compute("div", {context.cotangent(), winners});
      // A NaN equals nothing, so its fibre has no winner.
      const Tensor is_nan = context.compute("ne", {result, result});
      const Tensor nan = context.constant(result.layout().shape(), std::numeric_limits<float>::quiet_NaN());
      const Tensor nothing = context.constant(result.layout().shape(), 0.0F);
      const Tensor rest = context.compute("select", {is_nan, nan, nothing});
      return context.fit(position, context.compute("select", {is_winner, over_fibres(share, layout),
                                                              over_fibres(rest, layout)}));
    });
  }
};

class ExtremumPosition final : public ReductionDefinition {
 public:
  using ReductionDefinition::ReductionDefinition;

  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments,
                                   const OperationPlan& plan) const override {
    Resolution resolution = ReductionDefinition::resolve(arguments, plan);
    const Index fibre = leaves_of_modes(arguments[0].tensor()->layout(), 1, 2).size();
    if (fibre > std::numeric_limits<std::int32_t>::max())
      raise<OverflowError>(name(), "positions in the reduced mode must fit Int32: its size is ", fibre,
                           "; at most 2147483647 is allowed; reduce parts of it");
    return resolution;
  }
};

}  // namespace

DefinitionList reduction_definitions() {
  static const ReduceSum reduce_sum;
  static const ReduceProd reduce_prod;
  static const ReduceExtremum reduce_max("reduce_max");
  static const ReduceExtremum reduce_min("reduce_min");
  static const ExtremumPosition argmax("argmax");
  static const ExtremumPosition argmin("argmin");
  static const Definition* const list[] = {&reduce_sum, &reduce_prod, &reduce_max,
                                           &reduce_min, &argmax,      &argmin};
  return list;
}

}  // namespace orlop::inline v0
