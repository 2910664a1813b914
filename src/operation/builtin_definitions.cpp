// Adapters from the central table to operation definitions: every rule stays in the table (X33).
#include "operation/builtin_definitions.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "orlop/operation/capability.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::string_view accumulator_option = "accumulator_dtype";

/// Operands by position, where they are not one `tensor` or `lhs rhs`.
struct OperandNames {
  std::string_view operations;
  std::string_view operands;
};

constexpr std::array operand_names{
    OperandNames{"pow", "base exponent"},
    OperandNames{"cumsum", "tensor dimension"},
    OperandNames{
        "conv_general",
        "lhs kernel strides padding lhs_dilation kernel_dilation feature_groups lhs_dims kernel_dims "
        "output_dims"},
    OperandNames{"gather", "tensor indices axis"},
    OperandNames{"scatter scatter_add", "base indices updates axis"},
    OperandNames{"select", "condition on_true on_false"},
    OperandNames{"clamp", "tensor lower upper"},
    OperandNames{"_sort_values _sort_indices", "tensor axis descending"},
    OperandNames{"_topk_values _topk_indices", "tensor k axis largest"},
};

std::vector<std::string_view> words_of(std::string_view words) {
  std::vector<std::string_view> list;
  while (true) {
    const auto space = words.find(' ');
    list.push_back(words.substr(0, space));
    if (space == std::string_view::npos) return list;
    words.remove_prefix(space + 1);
  }
}

std::vector<std::string_view> names_of_operands(const OperationSpec& spec) {
  for (const OperandNames& entry : operand_names)
    if (std::ranges::count(words_of(entry.operations), std::string_view(spec.name())) != 0)
      return words_of(entry.operands);
  return words_of(spec.overloads().front().roles.size() == 1 ? "tensor" : "lhs rhs");
}

/// Which operand of the plan stands at `position` of a call, or nothing.
std::optional<std::size_t> plan_position(const OperationSpec& spec, std::size_t position) {
  const std::vector<std::size_t>* positions = spec.dtype_operand_positions();
  if (positions == nullptr) return position;
  const auto found = std::ranges::find(*positions, position);
  if (found == positions->end()) return std::nullopt;
  return static_cast<std::size_t>(found - positions->begin());
}

/// Whether some result of the operation carries a gradient.
bool is_differentiable(std::string_view name) {
  static const auto names = [] {
    const std::array<const DType*, 3> every{&dtypes::Float32, &dtypes::Int32, &dtypes::Bool};
    std::set<std::string, std::less<>> found;
    for (const OperationPlan* plan : resolvable_plans(every))
      if (&plan->output == &dtypes::Float32) found.insert(plan->operation);
    return found;
  }();
  return names.contains(name);
}

OperandSpec operand_spec(const OperationSpec& spec, std::string_view name, std::size_t position) {
  const auto planned = plan_position(spec, position);
  if (!planned) return {std::string(name), OperandKind::structural};
  bool may_be_number = false;
  bool may_be_float = false;
  for (const OperationOverload& overload : spec.overloads()) {
    const auto role = overload.roles.begin() + static_cast<std::ptrdiff_t>(*planned);
    if (*role == OperandRole::WeakScalar) {
      may_be_number = true;
      continue;
    }
    const auto tensor = std::count(overload.roles.begin(), role, OperandRole::Tensor);
    const auto& domain = overload.tensor_domains[static_cast<std::size_t>(tensor)];
    may_be_float = may_be_float || std::ranges::find(domain, &dtypes::Float32) != domain.end();
  }
  // X33: as a definition `add` is the sum of two Tensors, and either factor of `mul` may be a number.
  may_be_number = may_be_number || spec.name() == "mul";
  if (may_be_number && spec.name() != "add") return {std::string(name), OperandKind::structural};
  return {std::string(name), OperandKind::tensor, may_be_float && is_differentiable(spec.name())};
}

OperationSchema schema_of(const OperationSpec& spec) {
  std::vector<OperandSpec> operands;
  for (const std::string_view name : names_of_operands(spec))
    operands.push_back(operand_spec(spec, name, operands.size()));
  std::vector<OptionSpec> options;
  if (is_accumulator_configurable(spec.name()))
    options.emplace_back(std::string(accumulator_option), Argument::of(nullptr));
  return OperationSchema(std::move(operands), std::move(options));
}

/// What backward reads of the operands beyond their layouts.
std::vector<std::size_t> saved_positions(const BoundOperationCall& call) {
  const std::string_view name = call.definition().name();
  std::vector<std::size_t> positions;
  if (name == "add" || name == "reduce_sum") return positions;
  for (std::size_t i = 0; i < call.operands().size(); ++i)
    if (call.tensor(i) != nullptr) positions.push_back(i);
  if (name == "mul" && positions.size() == 1) positions.clear();  // the factor is a number
  return positions;
}

bool is_mirrored(const BoundOperationCall& call) {
  return call.definition().name() == "mul" && call.tensor(0) == nullptr && call.tensor(1) != nullptr;
}

/// The plan of number · Tensor, which the table has as Tensor · number.
std::shared_ptr<const OperationPlan> mirrored(const OperationPlan& plan) {
  return std::make_shared<const OperationPlan>(
      plan.operation, std::vector<OperandPlan>(plan.operands.rbegin(), plan.operands.rend()), plan.compute,
      plan.accumulation, plan.accumulator_dtype, plan.output);
}

class BuiltinSemantics final : public OperationSemantics {
 public:
  explicit BuiltinSemantics(const Definition& definition) : definition_(definition) {}

  [[nodiscard]] ResolvedInvocation resolve(const BoundOperationCall& call) const override {
    require_live(call);
    const std::shared_ptr<const OperationPlan> plan = plan_of(call);
    const Layout layout = definition_.resolve(call.operands(), *plan).layout;
    return ResolvedInvocation(call, plan, {ResultSpec(plan->output, layout.shape(), layout)},
                              {.saved_operands = saved_positions(call)});
  }

  [[nodiscard]] bool has_reference() const override { return true; }

  /// An invocation made by hand may name another plan than the table's, which no kernel has been made for.
  [[nodiscard]] std::vector<Tensor> reference(const ResolvedInvocation& invocation) const override {
    const BoundOperationCall& call = invocation.call();
    require_live(call);
    if (!(*plan_of(call) == invocation.plan()))
      throw UnsupportedOperationPlan(
          RefusalKind::Shape, CarrierClass(), invocation.plan(),
          message(definition_.name(), "the reference computes the plan of the table for these operands: ",
                  "the invocation has another one; resolve_call gives it"));
    const std::vector<Argument> operands = table_order(call);
    const OperationPlan& plan = table_plan(call, operands);
    return {run_kernel(definition_, plan, operands, definition_.resolve(operands, plan))};
  }

  [[nodiscard]] bool differentiable() const override { return is_differentiable(definition_.name()); }

  [[nodiscard]] Gradients vjp(const VJPContext& context, Cotangents cotangents) const override {
    const ResolvedInvocation& invocation = context.invocation();
    const auto positions = invocation.definition().differentiable_operands(invocation.call());
    if (!cotangents.front()) return Gradients(positions.size());
    const Tensor& cotangent = *cotangents.front();
    const std::vector<Argument> arguments = operands_beside(cotangent, invocation);
    const auto options = execution_options_of(invocation.call());
    const GradientContext rule(definition_, arguments, cotangent, cotangent.carrier_type(),
                               options ? &*options : nullptr);
    definition_.check_cotangent(rule);
    const Gradients of_tensors = definition_.gradients(rule);
    Gradients gradients;
    std::size_t tensor = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (invocation.tensor(i) == nullptr) continue;
      if (std::ranges::find(positions, i) != positions.end()) gradients.push_back(of_tensors[tensor]);
      ++tensor;
    }
    return gradients;
  }

 private:
  static void require_live(const BoundOperationCall& call) {
    for (const Argument& operand : call.operands())
      if (const Tensor* tensor = operand.tensor()) tensor->carrier()->require_live();
  }

  [[nodiscard]] const OperationPlan& table_plan(const BoundOperationCall& call,
                                                std::span<const Argument> operands) const {
    const auto options = execution_options_of(call);
    return *plan_of_call(definition_.name(), operands, options ? &*options : nullptr);
  }

  [[nodiscard]] std::shared_ptr<const OperationPlan> plan_of(const BoundOperationCall& call) const {
    const OperationPlan& plan = table_plan(call, table_order(call));
    return is_mirrored(call) ? mirrored(plan) : share_builtin_plan(plan);
  }

  /// The operands as the table takes them, on the class of the cotangent: a composite's result, and with it
  /// the cotangent, may live on another class than its operands.
  static std::vector<Argument> operands_beside(const Tensor& cotangent,
                                               const ResolvedInvocation& invocation) {
    std::vector<Argument> arguments = table_order(invocation.call());
    for (const std::size_t position : invocation.saved_operands()) {
      const Tensor& operand = *invocation.tensor(position);
      operand.carrier()->require_live();
      if (operand.carrier_type() != cotangent.carrier_type())
        arguments[position] = copy_to_carrier(operand, *cotangent.carrier());
    }
    return arguments;
  }

  const Definition& definition_;
};

}  // namespace

std::vector<std::unique_ptr<const OperationDefinition>> builtin_operation_definitions() {
  std::vector<std::unique_ptr<const OperationDefinition>> definitions;
  for (const OperationSpec& spec : registered_operations())
    definitions.push_back(std::make_unique<const OperationDefinition>(
        spec.name(), schema_of(spec), std::make_shared<const BuiltinSemantics>(*find_definition(spec.name())),
        true));
  return definitions;
}

bool is_planned_operand(std::string_view name, std::size_t position) {
  return plan_position(operation_spec(name), position).has_value();
}

std::vector<Argument> table_order(const BoundOperationCall& call) {
  std::vector<Argument> operands(call.operands().begin(), call.operands().end());
  if (is_mirrored(call)) std::swap(operands[0], operands[1]);
  return operands;
}

std::optional<OperationExecutionOptions> execution_options_of(const BoundOperationCall& call) {
  const auto found = call.options().find(accumulator_option);
  if (!call.definition().is_builtin() || found == call.options().end()) return std::nullopt;
  if (found->second.get<std::nullptr_t>() != nullptr) return std::nullopt;
  const auto* dtype = found->second.get<const DType*>();
  if (dtype == nullptr)
    raise<TypeError>(call.definition().name(), accumulator_option, " must be a DType or None: got ",
                     found->second.type_name());
  return OperationExecutionOptions(call.definition().name(), *dtype);
}

}  // namespace orlop::inline v0
