// The operations behind sort and topk, which order the elements along one mode (P69).
#include <limits>

#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "operation/modes.hpp"

namespace orlop::inline v0 {

namespace {

/// Only a name for the kernels: (positions along an axis, elements of that shape) to a shape whose axis those
/// positions lie in, with zeros elsewhere.
class Unordering final : public Definition {
 public:
  Unordering() : Definition("_unorder") {}
  void check_arguments(std::span<const Argument>) const override {}
};

const OperationPlan& unordering_plan() {
  static const OperationPlan plan("_unorder",
                                  {OperandPlan(OperandRole::Tensor, &dtypes::Int32, dtypes::Int32),
                                   OperandPlan(OperandRole::Tensor, &dtypes::Float32, dtypes::Float32)},
                                  Arithmetic::Binary32, std::nullopt, nullptr, dtypes::Float32);
  return plan;
}

/// (tensor, axis = -1, descending = False), or with a count (tensor, k, axis = -1, largest = True).
class OrderingDefinition : public Definition {
 public:
  OrderingDefinition(std::string_view name, bool has_count) : Definition(name), has_count_(has_count) {}

  /// The public function, whose two operations share their errors.
  [[nodiscard]] std::string_view what() const noexcept { return has_count_ ? "topk" : "sort"; }

  void check_arguments(std::span<const Argument> arguments) const override {
    const std::size_t required = axis_position();
    if (arguments.size() < required || arguments.size() > required + 2)
      raise<TypeError>(what(), "takes ", required, " to ", required + 2, " arguments: got ",
                       arguments.size());
    if (arguments[0].tensor() == nullptr)
      raise<TypeError>(what(), "the first argument must be a Tensor: got ", arguments[0].type_name());
    if (has_count_) require_integer(arguments[1], "k");
    if (arguments.size() > required) require_integer(arguments[required], "axis");
    if (arguments.size() > required + 1) {
      const Argument& given = arguments[required + 1];
      const Scalar* flag = given.scalar();
      if (flag == nullptr || !flag->is_bool())
        raise<TypeError>(what(), has_count_ ? "largest" : "descending", " must be a bool: got ",
                         given.type_name(), "; use True or False");
    }
  }

  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    const Layout& layout = arguments[0].tensor()->layout();
    const Scalar axis =
        arguments.size() > axis_position() ? *arguments[axis_position()].scalar() : Scalar(-1);
    const std::size_t mode = to_mode(what(), "axis", axis, layout.rank());
    const Index extent = leaves_of_modes(layout, mode, mode + 1).size();
    Shape shape = layout.shape();
    if (has_count_) shape = with_mode_replaced(shape, mode, Shape{count_of(arguments, extent)});
    if (extent > std::numeric_limits<std::int32_t>::max())
      raise<OverflowError>(what(), "positions along the axis must fit Int32: its size is ", extent,
                           "; at most 2147483647 is allowed; order parts of it");
    return {Layout::canonical(shape),
            {.axis = static_cast<Index>(mode), .is_descending = is_descending(arguments)}};
  }

 private:
  [[nodiscard]] std::size_t axis_position() const { return has_count_ ? 2 : 1; }

  void require_integer(const Argument& argument, std::string_view parameter) const {
    if (argument.scalar() == nullptr || !argument.scalar()->is_integer())
      raise<TypeError>(what(), parameter, " must be an integer: got ", argument.type_name());
  }

  [[nodiscard]] Index count_of(std::span<const Argument> arguments, Index extent) const {
    const Scalar& given = *arguments[1].scalar();
    const std::optional<Index> count = given.as_integer();
    if (!count || *count < 1 || *count > extent)
      raise<ValueError>(what(), "k must be from 1 to the axis' size ", extent, ": got ", given);
    return *count;
  }

  [[nodiscard]] bool is_descending(std::span<const Argument> arguments) const {
    const std::size_t position = axis_position() + 1;
    return arguments.size() > position ? arguments[position].scalar()->as_bool() : has_count_;
  }

  bool has_count_;
};

class OrderedIndices final : public OrderingDefinition {
 public:
  using OrderingDefinition::OrderingDefinition;
  [[nodiscard]] std::optional<Gradients> fixed_gradients() const override { return Gradients{std::nullopt}; }
};

class OrderedValues final : public OrderingDefinition {
 public:
  OrderedValues(std::string_view name, bool has_count, const OrderedIndices& indices)
      : OrderingDefinition(name, has_count), indices_(indices) {}

  /// Each element of the cotangent at its source position, 0 elsewhere.
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override {
    return context.per_tensor([&](std::size_t position) {
      const std::array<Argument, 2> operands{
          Argument(run_definition(indices_, context.arguments(), nullptr, context.carrier_class(), false)),
          Argument(context.cotangent())};
      static const Unordering unordering;
      const Resolution source = resolve_like(context);
      return context.fit(position, run_kernel(unordering, unordering_plan(), operands, source));
    });
  }

 private:
  /// The operand's shape, along the same axis.
  [[nodiscard]] Resolution resolve_like(const GradientContext& context) const {
    Resolution resolution = resolve(context.arguments(), unordering_plan());
    resolution.layout = Layout::canonical(context.tensor(0).layout().shape());
    return resolution;
  }

  const OrderedIndices& indices_;
};

}  // namespace

DefinitionList ordering_definitions() {
  static const OrderedIndices sort_indices("_sort_indices", false);
  static const OrderedValues sort_values("_sort_values", false, sort_indices);
  static const OrderedIndices topk_indices("_topk_indices", true);
  static const OrderedValues topk_values("_topk_values", true, topk_indices);
  static const Definition* const list[] = {&sort_indices, &sort_values, &topk_indices, &topk_values};
  return list;
}

}  // namespace orlop::inline v0
