// Built-in operations: forward through the table, backward through the definition's gradient.
#include "orlop/operation/table_operation.hpp"

#include "operation/definition.hpp"
#include "operation/dispatch.hpp"
#include "operation/gradient.hpp"
#include "orlop/operation/grad_mode.hpp"

namespace orlop::inline v0 {

TableOperation::TableOperation(const Definition& definition, const Operation& other)
    : definition_(definition) {
  dispatch_as(other);
}

TableOperation::~TableOperation() = default;

std::string TableOperation::implementation_name() const { return "TableOperation"; }

bool TableOperation::accepts_compound() const { return definition_.accepts_compound(); }

Tensor TableOperation::forward_impl(std::span<const Argument> inputs) {
  others_.keep(inputs);
  CarrierClass dispatch_class = dispatch_carrier_class();
  for (const Argument& input : inputs)
    if (const Tensor* tensor = input.tensor(); tensor != nullptr && !dispatch_class)
      dispatch_class = tensor->carrier_type();
  return run_definition(definition_, inputs, execution_options(), dispatch_class, true);
}

Gradients TableOperation::backward(const Tensor& gradient) {
  return partial_backward(gradient, std::vector<bool>(inputs().size(), true));
}

Gradients TableOperation::partial_backward(const Tensor& gradient, const std::vector<bool>& wanted) {
  if (std::optional<Gradients> gradients = definition_.fixed_gradients()) return std::move(*gradients);
  const std::vector<Argument> arguments = others_.with(inputs());
  if (arguments.empty())
    raise<RuntimeError>(definition_.name(),
                        "nothing was saved for backward: run forward with gradients enabled "
                        "on differentiable Tensors first");
  std::vector<bool> is_wanted;  // by argument
  is_wanted.reserve(arguments.size());
  auto next = wanted.begin();
  for (const Argument& argument : arguments) is_wanted.push_back(argument.tensor() != nullptr && *next++);
  if (definition_.is_view()) validate_input_versions();  // M504
  const NoGrad no_grad;
  const CarrierClass carrier_class = inputs().front().carrier_type();
  const GradientContext context(definition_, arguments, gradient, carrier_class, execution_options(),
                                std::move(is_wanted));
  definition_.check_cotangent(context);
  return definition_.gradients(context);
}

Tensor apply_definition(const Definition& definition, std::span<const Argument> arguments) {
  const Tensor& first = *find_dispatching_tensor(definition.name(), arguments);
  const Ref<Operation> named = first.carrier()->dispatch_op(definition.name());
  return make_ref<TableOperation>(definition, *named)->forward(arguments);
}

Ref<Operation> view_operation(std::string_view name) {
  const Definition* definition = find_definition(name);
  if (definition == nullptr || !definition->is_view()) return nullptr;
  return make_ref<TableOperation>(*definition);
}

Ref<Operation> table_operation(std::string_view name) {
  const Definition* definition = find_definition(name);
  if (definition == nullptr)
    raise<NotImplementedError>("table_operation", "no built-in operation has this name: got '", name,
                               "'; registered_operations() lists those that there are");
  return make_ref<TableOperation>(*definition);
}

}  // namespace orlop::inline v0
