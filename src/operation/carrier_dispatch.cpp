// The members of Carrier that need operations and tensors: dispatch and the defaults of what works on Tensors.
#include "orlop/operation/capability.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

Ref<Operation> Carrier::dispatch_op(std::string_view operation_name) {
  detail::observe_class(carrier_class());
  Ref<Operation> operation = make_operation(operation_name);
  const std::string_view name = carrier_class().name();
  if (!operation) raise<TypeError>(name, "the dispatch hook returned no Operation for ", operation_name);
  if (operation->is_dispatched())
    raise<TypeError>(name, "the dispatch hook returned an operation that was dispatched before as ",
                     operation->operation_name(), "; return a fresh one each time");
  operation->name_ = operation_name;
  operation->dispatch_class_ = carrier_class();
  return operation;
}

Ref<Operation> Carrier::make_operation(std::string_view operation_name) {
  raise<NotImplementedError>(carrier_class().name(), "operation ", operation_name,
                             " is not supported on this carrier; move the Tensor to a carrier that computes");
}

Ref<Carrier> Carrier::sum_gradients(const Tensor&, const Tensor*) const { return {}; }

void Carrier::scatter(const Tensor&, const Tensor&, const Layout&, Index) {
  raise<NotImplementedError>(
      carrier_class().name(),
      "scatter is not supported on this carrier; write slots one by one or move the Tensor");
}

}  // namespace orlop::inline v0
