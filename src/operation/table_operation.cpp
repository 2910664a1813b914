// Built-in operations: forward through the table, backward through the definition's gradient.
#include "orlop/operation/table_operation.hpp"

#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "orlop/operation/grad_mode.hpp"

namespace orlop::inline v0 {

TableOperation::~TableOperation() = default;

std::string TableOperation::implementation_name() const { return "TableOperation"; }

bool TableOperation::accepts_compound() const { return definition_.accepts_compound(); }

Tensor TableOperation::forward_impl(std::span<const Argument> inputs) {
  others_.clear();
  argument_count_ = inputs.size();
  CarrierClass dispatch_class = dispatch_carrier_class();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (const Tensor* tensor = inputs[i].tensor()) {
      if (!dispatch_class) dispatch_class = tensor->carrier_type();
    } else {
      others_.emplace_back(i, inputs[i]);
    }
  }
  return run_definition(definition_, inputs, execution_options(), dispatch_class, true);
}

Gradients TableOperation::backward(const Tensor& gradient) {
  if (std::optional<Gradients> gradients = definition_.fixed_gradients()) return std::move(*gradients);
  // The call's arguments again: the kept Tensors fill the positions that hold nothing else.
  std::vector<Argument> arguments;
  arguments.reserve(argument_count_);
  std::size_t next_tensor = 0;
  auto other = others_.begin();
  for (std::size_t i = 0; i < argument_count_; ++i) {
    if (other != others_.end() && other->first == i) {
      arguments.push_back((other++)->second);
    } else if (next_tensor < inputs().size()) {
      arguments.emplace_back(inputs()[next_tensor++]);
    }
  }
  if (arguments.empty() || arguments.size() != argument_count_)
    raise<RuntimeError>(definition_.name(),
                        "nothing was saved for backward: run forward with gradients enabled "
                        "on differentiable Tensors first");
  if (definition_.is_view()) validate_input_versions();  // M504
  const NoGrad no_grad;
  const CarrierClass carrier_class = inputs().front().carrier_type();
  const GradientContext context(definition_, arguments, gradient, carrier_class, execution_options());
  definition_.check_cotangent(context);
  return definition_.gradients(context);
}

Ref<Operation> view_operation(std::string_view name) {
  const Definition* definition = find_definition(name);
  if (definition == nullptr || !definition->is_view()) return nullptr;
  return make_ref<TableOperation>(*definition);
}

Ref<Operation> table_operation(std::string_view name) {
  const Definition* definition = find_definition(name);
  if (definition == nullptr)
    raise<NotImplementedError>("table_operation", "no built-in operation has the name ", name);
  return make_ref<TableOperation>(*definition);
}

}  // namespace orlop::inline v0
