// The members of Carrier that need operations and tensors: dispatch and the defaults of what works on
// Tensors.
#include "operation/dispatch.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/definition_operation.hpp"
#include "orlop/operation/invocation_executor.hpp"
#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

Ref<Operation> Carrier::dispatch_op(std::string_view operation_name) {
  detail::observe_class(carrier_class());
  Ref<Operation> operation = invocation_executor(carrier_class()) != nullptr
                                 ? dispatch_definition(*this, operation_name)
                                 : make_operation(operation_name);
  const std::string_view name = carrier_class().name();
  if (!operation) raise<TypeError>(name, "the dispatch hook returned no Operation for ", operation_name);
  if (operation->is_dispatched())
    raise<TypeError>(name, "the dispatch hook returned an operation that was dispatched before as ",
                     operation->operation_name(), "; return a fresh one each time");
  operation->name_ = operation_name;
  operation->dispatch_class_ = carrier_class();
  return operation;
}

const Tensor* find_dispatching_tensor(std::string_view name, std::span<const Argument> arguments) {
  const Tensor* first = nullptr;
  const Tensor* other = nullptr;  // the first one on another class
  for (const Argument& argument : arguments) {
    const Tensor* tensor = argument.tensor();
    if (tensor == nullptr) continue;
    if (first == nullptr)
      first = tensor;
    else if (other == nullptr && tensor->carrier_type() != first->carrier_type())
      other = tensor;
  }
  if (other == nullptr) return first;
  for (const Tensor* tensor : {first, other}) {
    const InvocationExecutor* executor = invocation_executor(tensor->carrier_type());
    if (executor != nullptr && executor->is_shipped()) return tensor;
  }
  raise<TypeError>(name, "all Tensors must live on one exact carrier class: got ", first->carrier_type(),
                   " and ", other->carrier_type(), "; move one of them first");
}

std::string_view public_name(std::string_view operation) noexcept {
  for (const std::string_view name : {"sort", "topk"})
    if (operation.starts_with('_') && operation.substr(1).starts_with(name)) return name;
  return operation;
}

std::string described_name(std::string_view operation) {
  const std::string_view name = public_name(operation);
  return name == operation ? std::string(operation) : text(name, " (", operation, ')');
}

Ref<Operation> Carrier::make_operation(std::string_view operation_name) {
  raise<NotImplementedError>(carrier_class().name(), "operation ", described_name(operation_name),
                             " is not supported on this carrier; move the Tensor to a carrier that computes");
}

Ref<Carrier> Carrier::sum_gradients(const Tensor&, const Tensor*) const { return {}; }

void Carrier::scatter(const Tensor&, const Tensor&, const Layout&, Index) {
  raise<NotImplementedError>(
      carrier_class().name(),
      "scatter is not supported on this carrier; write slots one by one or move the Tensor");
}

}  // namespace orlop::inline v0
