// gather, scatter and scatter_add along one mode, and their gradients (P68).
#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "operation/indexing_loops.hpp"

namespace orlop::inline v0 {

namespace {

/// (data, indices, …, axis).
class IndexingDefinition : public Definition {
 public:
  IndexingDefinition(std::string_view name, std::size_t tensors) : Definition(name), tensors_(tensors) {}

  void check_arguments(std::span<const Argument> arguments) const override {
    if (arguments.size() != tensors_ + 1)
      raise<TypeError>(name(), "takes ", tensors_, " Tensors and an axis: got ", arguments.size(),
                       " arguments");
    for (const Argument& argument : arguments.first(tensors_))
      if (argument.tensor() == nullptr)
        raise<TypeError>(name(), "takes ", tensors_, " Tensors and an axis: got ", argument.type_name(),
                         " for a Tensor");
    const Scalar* axis = arguments.back().scalar();
    if (axis == nullptr || !axis->is_integer())
      raise<TypeError>(name(), "axis must be an integer: got ", arguments.back().type_name());
  }

  [[nodiscard]] bool checks_values() const noexcept override { return true; }
  void check_values(std::span<const Argument> arguments,
                    std::span<const KernelOperand> operands) const override {
    const Layout& data = arguments[0].tensor()->layout();
    const std::size_t axis = axis_of(arguments);
    check_indices(name(), operands[1], leaves_of_modes(data, axis, axis + 1).size());
  }

 protected:
  [[nodiscard]] std::size_t axis_of(std::span<const Argument> arguments) const {
    return to_mode(name(), "axis", *arguments.back().scalar(), arguments[0].tensor()->layout().rank());
  }
  [[nodiscard]] Shape gathered(std::span<const Argument> arguments) const {
    return with_mode_replaced(arguments[0].tensor()->layout().shape(), axis_of(arguments),
                              arguments[1].tensor()->layout().shape());
  }
  [[nodiscard]] Resolution with_axis(std::span<const Argument> arguments, const Shape& shape) const {
    return {Layout::canonical(shape), {.axis = static_cast<Index>(axis_of(arguments))}};
  }

 private:
  std::size_t tensors_;
};

class Gather final : public IndexingDefinition {
 public:
  Gather() : IndexingDefinition("gather", 2) {}

  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    return with_axis(arguments, gathered(arguments));
  }

  /// Each source position gets the sum of what was read from it, in ordinal order.
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override {
    return context.per_tensor([&](std::size_t position) {
      const Tensor zeros = context.constant(context.tensor(position).layout().shape(), 0.0F);
      return context.fit(
          position, context.compute("scatter_add",
                                    {zeros, context.argument(1), context.cotangent(), context.argument(2)}));
    });
  }
};

/// (base, indices, updates, axis): the result has the base's shape, the updates have gather's.
class ScatteringDefinition : public IndexingDefinition {
 public:
  explicit ScatteringDefinition(std::string_view name) : IndexingDefinition(name, 3) {}

  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    const Shape expected = gathered(arguments);
    const Shape updates = arguments[2].tensor()->layout().shape();
    if (!(updates == expected))
      raise<ValueError>(name(),
                        "updates must have the base's modes with the axis replaced by those of indices, ",
                        expected, ": got ", updates);
    return with_axis(arguments, arguments[0].tensor()->layout().shape());
  }

  /// base: what the operation kept of it; updates: g gathered.
  [[nodiscard]] Gradients gradients(const GradientContext& context) const final {
    return context.per_tensor([&](std::size_t position) {
      if (position == 0) return context.fit(position, base_cotangent(context));
      return context.fit(position, context.compute("gather", {context.cotangent(), context.argument(1),
                                                              context.argument(3)}));
    });
  }

 private:
  [[nodiscard]] virtual Tensor base_cotangent(const GradientContext& context) const = 0;
};

class Scatter final : public ScatteringDefinition {
 public:
  Scatter() : ScatteringDefinition("scatter") {}

  void check_values(std::span<const Argument> arguments,
                    std::span<const KernelOperand> operands) const override {
    ScatteringDefinition::check_values(arguments, operands);
    check_distinct(name(), operands[1]);
  }

 private:
  /// g, and 0 where the base was overwritten.
  [[nodiscard]] Tensor base_cotangent(const GradientContext& context) const override {
    const Tensor zeros = context.constant(context.tensor(2).layout().shape(), 0.0F);
    return context.compute("scatter", {context.cotangent(), context.argument(1), zeros, context.argument(3)});
  }
};

class ScatterAdd final : public ScatteringDefinition {
 public:
  ScatterAdd() : ScatteringDefinition("scatter_add") {}

 private:
  [[nodiscard]] Tensor base_cotangent(const GradientContext& context) const override {
    return context.cotangent();
  }
};

}  // namespace

DefinitionList indexing_definitions() {
  static const Gather gather;
  static const Scatter scatter;
  static const ScatterAdd scatter_add;
  static const Definition* const list[] = {&gather, &scatter, &scatter_add};
  return list;
}

}  // namespace orlop::inline v0
