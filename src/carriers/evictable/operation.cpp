// The adapter between outer hierarchies and the primary's own operation.
#include <algorithm>

#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "orlop/carriers/evictable/evictable.hpp"
#include "orlop/operation/grad_mode.hpp"
#include "orlop/operation/table_operation.hpp"

namespace orlop::inline v0 {

namespace {

Evictable* hierarchy_of(const Tensor& tensor) { return dynamic_cast<Evictable*>(tensor.carrier().get()); }

Tensor on_primary(const Tensor& tensor) {
  return Tensor::trusted(hierarchy_of(tensor)->primary(), tensor.offset(), tensor.layout());
}

/// Every Tensor operand, checked to be promoted and of one pair of tier classes. The first of them.
Evictable& require_operands(std::string_view name, std::span<const Argument> inputs) {
  Evictable* first = nullptr;
  for (const Argument& input : inputs) {
    const Tensor* tensor = input.tensor();
    if (tensor == nullptr) continue;
    tensor->require_single_subtensor("operation execution");
    Evictable* hierarchy = hierarchy_of(*tensor);
    if (hierarchy == nullptr)
      raise<TypeError>(name, "every Tensor operand must live on an Evictable: got one on ",
                       tensor->carrier_type(), "; wrap or move it first");
    if (first == nullptr) first = hierarchy;
    const auto same_class = [](const Ref<Carrier>& a, const Ref<Carrier>& b) {
      return a->carrier_class() == b->carrier_class();
    };
    if (!same_class(hierarchy->primary(), first->primary()) ||
        !same_class(hierarchy->secondary(), first->secondary()))
      raise<TypeError>(name, "all operands must have the same tier classes: got (",
                       first->primary()->carrier_class(), ", ", first->secondary()->carrier_class(),
                       ") and (", hierarchy->primary()->carrier_class(), ", ",
                       hierarchy->secondary()->carrier_class(), ")");
  }
  if (first == nullptr) raise<TypeError>(name, "needs at least one Tensor operand: got none");
  for (const Argument& input : inputs)
    if (const Tensor* tensor = input.tensor()) hierarchy_of(*tensor)->require_promoted();
  return *first;
}

}  // namespace

EvictableOperation::EvictableOperation(Ref<Operation> primary_operation)
    : primary_operation_(std::move(primary_operation)) {
  if (!primary_operation_)
    raise<TypeError>("EvictableOperation", "primary_operation must be an Operation: got none");
}

EvictableOperation::~EvictableOperation() = default;

Tensor EvictableOperation::forward_impl(std::span<const Argument> inputs) {
  const std::string& name = primary_operation_->operation_name();
  if (was_run_) raise<RuntimeError>(name, "an EvictableOperation runs forward once; dispatch a fresh one");
  const Evictable& first = require_operands(name, inputs);
  if (const OperationPlan* plan = plan_of_call(name, inputs, execution_options()))
    first.require_operation_plan(*plan);
  was_run_ = true;
  std::vector<Argument> lowered;
  lowered.reserve(inputs.size());
  for (const Argument& input : inputs) {
    const Tensor* tensor = input.tensor();
    lowered.push_back(tensor != nullptr ? Argument(on_primary(*tensor)) : input);
  }
  const Tensor result = execute_lowered_operation(*primary_operation_, lowered, execution_options());
  for (const Argument& input : inputs) {
    const Tensor* tensor = input.tensor();
    if (tensor != nullptr && hierarchy_of(*tensor)->primary() == result.carrier())
      return Tensor::trusted(tensor->carrier(), result.offset(), result.layout());
  }
  if (result.carrier_type() != first.primary()->carrier_class())
    raise<TypeError>(name, "the primary's operation must return a Tensor on ",
                     first.primary()->carrier_class(), ": got one on ", result.carrier_type());
  return Tensor::trusted(first.hierarchy_over(result.carrier()), result.offset(), result.layout());
}

namespace {

/// Whether it is an operation of the table, perhaps below further hierarchies.
bool is_own(const Operation& operation) {
  return dynamic_cast<const TableOperation*>(&operation) != nullptr ||
         dynamic_cast<const EvictableOperation*>(&operation) != nullptr;
}

/// The cotangent on the primary's class.
Tensor lowered_gradient(std::string_view name, const Tensor& gradient, CarrierClass primary_class) {
  const Evictable* hierarchy = gradient ? hierarchy_of(gradient) : nullptr;
  if (hierarchy != nullptr && hierarchy->primary()->carrier_class() == primary_class) {
    hierarchy->require_promoted();
    return on_primary(gradient);
  }
  if (gradient && gradient.carrier_type() == primary_class) return gradient;
  raise<TypeError>(name, "the gradient must be an Evictable Tensor over ", primary_class, ", or one on ",
                   primary_class, ": got ", gradient ? text("one on ", gradient.carrier_type()) : "none");
}

}  // namespace

Gradients EvictableOperation::backward(const Tensor& gradient) {
  const std::string& name = primary_operation_->operation_name();
  if (!was_run_)
    raise<RuntimeError>(
        name, "backward needs a forward call first: there was none; call forward with gradients enabled");
  const std::vector<Tensor> saved = inputs();
  // Of an operation of the table the gradients may need nothing, or it says what is missing.
  if (saved.empty() && is_own(*primary_operation_)) return primary_operation_->backward(gradient);
  if (saved.empty())
    raise<RuntimeError>(name, "nothing was saved for backward: run forward with gradients enabled");
  const CarrierClass primary_class = hierarchy_of(saved.front())->primary()->carrier_class();
  const Tensor lowered = lowered_gradient(name, gradient, primary_class);
  std::vector<Tensor> current;
  for (const Tensor& tensor : saved) {
    hierarchy_of(tensor)->require_promoted();
    current.push_back(on_primary(tensor));
  }
  const NoGrad no_grad;
  primary_operation_->store_inputs(current);
  const Gradients nested = primary_operation_->backward(lowered);
  if (nested.size() != saved.size())
    raise<ValueError>(name, "the primary's backward must return one gradient or None per saved input: ",
                      saved.size(), " expected, ", nested.size(), " returned");
  Gradients gradients;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (!nested[i]) {
      gradients.emplace_back();
      continue;
    }
    const Tensor& entry = *nested[i];
    if (entry.carrier_type() != primary_class)
      raise<TypeError>(name, "the primary's backward must return gradients on ", primary_class,
                       ": got one on ", entry.carrier_type());
    // What somebody holds already, the caller among them, stays theirs.
    const bool is_held = entry.carrier()->is_owned() || entry.carrier() == gradient.carrier();
    const Tensor own = is_held ? copy_to_layout(entry, entry.layout()) : entry;
    gradients.emplace_back(
        Tensor::trusted(hierarchy_of(saved[i])->hierarchy_over(own.carrier()), own.offset(), own.layout()));
  }
  return gradients;
}

void EvictableOperation::on_release_autograd_state() noexcept {
  if (primary_operation_) primary_operation_->release_autograd_state();
}

void EvictableOperation::visit_references(ReferenceVisitor& visitor) const {
  Operation::visit_references(visitor);
  visitor.visit(primary_operation_);
}

}  // namespace orlop::inline v0
