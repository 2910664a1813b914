// One call of a definition on a carrier class with a definition, from binding to the graph (X27–X32).
#include "orlop/operation/definition_operation.hpp"

#include <algorithm>

#include "operation/dispatch.hpp"
#include "operation/gradient.hpp"
#include "operation/operand_guard.hpp"
#include "operation/results.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/grad_mode.hpp"
#include "orlop/operation/views.hpp"

namespace orlop::inline v0 {

InvocationExecutor::~InvocationExecutor() = default;

void InvocationExecutor::check_operands(const Carrier& carrier, const BoundOperationCall& call) const {
  for (const Argument& operand : call.operands())
    if (const Tensor* tensor = operand.tensor();
        tensor != nullptr && tensor->carrier_type() != carrier.carrier_class())
      raise<TypeError>(call.definition().name(), "every Tensor operand must live on the dispatching class ",
                       carrier.carrier_class(), ": got one on ", tensor->carrier_type(), "; move it first");
}

std::vector<CarrierClass> InvocationExecutor::result_carriers(const Carrier& carrier,
                                                              const ResolvedInvocation& invocation) const {
  return std::vector<CarrierClass>(invocation.results().size(), carrier.carrier_class());
}

std::optional<Gradients> InvocationExecutor::gradients(const VJPContext&, Cotangents) const {
  return std::nullopt;
}

// --- Dispatch ---------------------------------------------------------------------------------------------

Ref<Operation> dispatch_definition(Carrier& carrier, std::string_view name) {
  const CarrierClass carrier_class = carrier.carrier_class();
  if (carrier.is_released()) throw RuntimeError(text(carrier_class, " is released"));
  const OperationDefinition* definition = find_operation_definition(name);
  if (definition == nullptr && is_view_operation(name))
    raise<NotImplementedError>(
        carrier_class.name(), "a class with a definition has no views, of which ", name,
        " is one; make a Tensor(carrier, offset, layout) of the same slots, "
        "or move the Tensor (of a tiled one, project() the tiles) and view the result");
  if (definition == nullptr)
    raise<NotImplementedError>(carrier_class.name(), "the name ", name,
                               " has no operation definition; define_operation makes one, of a dotted name");
  invocation_executor(carrier_class)->check_name(carrier, *definition);
  return make_ref<DefinitionOperation>(Ref<Carrier>(&carrier), *definition);
}

std::vector<Tensor> execute_definition_invocation(Carrier& carrier, const ResolvedInvocation& invocation) {
  const Ref<Operation> operation = carrier.dispatch_op(invocation.name());
  if (auto* defined = dynamic_cast<DefinitionOperation*>(operation.get()))
    return defined->forward_invocation(invocation);
  raise<TypeError>(invocation.name(), carrier.carrier_class(),
                   " has no carrier definition, and runs no resolved invocation; call the operation instead");
}

DefinitionOperation::DefinitionOperation(Ref<Carrier> carrier, const OperationDefinition& definition)
    : carrier_(std::move(carrier)), definition_(definition) {}

DefinitionOperation::~DefinitionOperation() = default;

std::string DefinitionOperation::implementation_name() const { return "DefinitionOperation"; }

// --- Calls (X27) ------------------------------------------------------------------------------------------

ResolvedInvocation DefinitionOperation::resolve(std::span<const Argument> inputs,
                                                const OperationExecutionOptions* options) const {
  OperationOptions keywords;
  if (options != nullptr)
    keywords.emplace("accumulator_dtype", Argument::of<const DType*>(options->accumulator_dtype()));
  return definition_.resolve_call(definition_.bind({inputs.begin(), inputs.end()}, std::move(keywords)));
}

std::vector<Tensor> DefinitionOperation::forward_all(Sequence<Argument> inputs,
                                                     const OperationExecutionOptions* options) {
  check_forward(inputs, options);
  detail::ProfiledSpan span(
      is_dispatched(), [this] { return profiled_call(); }, [&] { return shapes_of(inputs); });
  std::vector<Tensor> results = run(resolve(inputs, options), true);
  span.succeed();
  return results;
}

std::vector<Tensor> DefinitionOperation::forward_invocation(const ResolvedInvocation& invocation) {
  if (&invocation.definition() != &definition_)
    raise<ValueError>(definition_.name(), "the invocation is one of ", invocation.name(),
                      "; dispatch that name");
  const std::span<const Argument> inputs = invocation.operands();
  check_forward(inputs, nullptr);
  detail::ProfiledSpan span(
      is_dispatched(), [this] { return profiled_call(); }, [&] { return shapes_of(inputs); });
  std::vector<Tensor> results = run(invocation, true);
  span.succeed();
  return results;
}

namespace {

Tensor only_result(const OperationDefinition& definition, std::vector<Tensor> results) {
  if (results.size() != 1)
    raise<RuntimeError>(definition.name(), "the operation has ", results.size(),
                        " results and forward gives one; call forward_all");
  return std::move(results.front());
}

}  // namespace

Tensor DefinitionOperation::forward(Sequence<Argument> inputs, const OperationExecutionOptions* options) {
  return only_result(definition_, forward_all(inputs, options));
}

Tensor DefinitionOperation::forward_impl(std::span<const Argument> inputs) {
  lowered_.keep(inputs);
  return only_result(definition_, run(resolve(inputs, execution_options()), false));
}

void DefinitionOperation::check_carriers(const InvocationExecutor& executor,
                                         const BoundOperationCall& call) const {
  const Tensor* first = nullptr;  // on the dispatching class
  for (const Argument& operand : call.operands()) {
    const Tensor* tensor = operand.tensor();
    if (first == nullptr && tensor != nullptr && tensor->carrier_type() == carrier_->carrier_class())
      first = tensor;
  }
  if (first == nullptr || first->carrier() != carrier_)
    raise<TypeError>(definition_.name(), "the first Tensor must live on the very ", carrier_->carrier_class(),
                     " that dispatched the operation",
                     first == nullptr ? ": none lives on that class" : ": it lives on another one",
                     "; dispatch on its carrier");
  executor.check_operands(*carrier_, call);
  for (const Argument& operand : call.operands())
    if (const Tensor* tensor = operand.tensor()) tensor->carrier()->require_live();
}

namespace {

/// The operands that a gradient may flow to: Tensors whose positions the definition calls differentiable.
std::vector<Tensor> differentiable_tensors(const BoundOperationCall& call) {
  std::vector<Tensor> tensors;
  for (const std::size_t position : call.definition().differentiable_operands(call))
    tensors.push_back(*call.tensor(position));
  return tensors;
}

bool wants_graph(const BoundOperationCall& call) {
  if (!is_grad_enabled() || !call.definition().semantics().differentiable()) return false;
  return std::ranges::any_of(differentiable_tensors(call),
                             [](const Tensor& tensor) { return tensor.is_differentiable(); });
}

/// X28: a graph through an operand that is its own result would be a loop.
void refuse_aliases(const ResolvedInvocation& invocation) {
  const std::vector<Tensor> tensors = differentiable_tensors(invocation.call());
  const auto is_differentiable = [&](const Tensor& operand) {
    return operand.is_differentiable() && std::ranges::find(tensors, operand) != tensors.end();
  };
  for (const ResultSpec& result : invocation.results())
    if (result.alias_of && is_differentiable(*invocation.tensor(*result.alias_of)))
      raise<ValueError>(invocation.name(), "a result is the exact-object aliased operand ", *result.alias_of,
                        ", which is differentiable; run it under no_grad, or on an operand that is not");
}

}  // namespace

std::vector<Tensor> DefinitionOperation::run(const ResolvedInvocation& invocation, bool records) {
  if (!carrier_)
    raise<RuntimeError>(definition_.name(), "the operation's state was released; dispatch a fresh one");
  const InvocationExecutor& executor = *invocation_executor(carrier_->carrier_class());
  check_carriers(executor, invocation.call());
  const bool records_graph = records && wants_graph(invocation.call());
  if (records_graph) refuse_aliases(invocation);
  executor.require_plan(*carrier_, invocation);
  std::vector<Tensor> results = execute(executor, invocation);
  if (records_graph) record(invocation, results);
  return results;
}

std::vector<Tensor> DefinitionOperation::execute(const InvocationExecutor& executor,
                                                 const ResolvedInvocation& invocation) {
  const NoGrad no_grad;  // what a provider does inside is no part of the graph
  const std::vector<CarrierClass> classes = executor.result_carriers(*carrier_, invocation);
  OperandEffects effects(invocation, !executor.is_shipped());
  std::vector<Tensor> results;
  try {
    results = executor.prepare(*carrier_, invocation)();
    check_results(invocation, results, classes);
    effects.check();
  } catch (...) {
    effects.restore();
    throw;
  }
  effects.commit();
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!invocation.results()[i].alias_of)
      release_iteratively(std::exchange(results[i].object()->autograd_node, {}));
  return results;
}

// --- Gradients (X32) --------------------------------------------------------------------------------------

namespace {

/// An equal invocation that nobody else holds, so that the collector sees everything through one owner.
ResolvedInvocation copy_of(const ResolvedInvocation& invocation) {
  const BoundOperationCall& call = invocation.call();
  const auto list = [](auto span) { return std::vector(span.begin(), span.end()); };
  const auto kinds = call.operand_kinds();
  return ResolvedInvocation(
      BoundOperationCall(make_ref<BoundCallObject>(call.definition(), list(call.operands()), call.options(),
                                                   std::vector<OperandKind>(kinds.begin(), kinds.end()))),
      invocation.shared_plan(), list(invocation.results()),
      {list(invocation.mutated_operands()), list(invocation.saved_operands()), invocation.kernel_id()});
}

}  // namespace

// The dispatched operation is the node of the first differentiable result; each other one has its own.
void DefinitionOperation::record(const ResolvedInvocation& invocation, std::span<const Tensor> results) {
  bool is_first = true;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].is_differentiable() || invocation.results()[i].alias_of) continue;
    if (std::exchange(is_first, false)) {
      keep(invocation, results, i);
      continue;
    }
    const auto sibling = make_ref<DefinitionOperation>(carrier_, definition_);
    sibling->dispatch_as(*this);
    sibling->keep(copy_of(invocation), results, i);
  }
}

void DefinitionOperation::keep(ResolvedInvocation invocation, std::span<const Tensor> results,
                               std::size_t position) {
  store_inputs(differentiable_tensors(invocation.call()));
  for (const std::size_t saved : invocation.saved_operands())
    saved_versions_.push_back(invocation.tensor(saved)->version_token());
  for (const Tensor& result : results)
    outputs_.push_back(Tensor::trusted(result.carrier(), result.offset(), result.layout()));
  invocation_ = std::move(invocation);
  position_ = position;
  become_node_of(results[position]);
}

void DefinitionOperation::validate_input_versions() const {
  if (!invocation_) return;
  const auto saved = invocation_->saved_operands();
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const Tensor& operand = *invocation_->tensor(saved[i]);
    if (!(operand.version_token() == saved_versions_[i])) refuse_changed_input(saved[i], operand);
  }
}

Gradients DefinitionOperation::backward(const Tensor& gradient) {
  const NoGrad no_grad;
  if (!invocation_) return lowered_gradients(gradient);
  validate_input_versions();
  std::vector<std::optional<Tensor>> cotangents(outputs_.size());
  cotangents[position_] = gradient;
  const ResolvedInvocation invocation = *invocation_;  // a rule may release this node's state
  const std::vector<Tensor> outputs = outputs_;
  return gradients(invocation, outputs, cotangents);
}

// The result may have left its storage since, so it is computed once more.
Gradients DefinitionOperation::lowered_gradients(const Tensor& gradient) {
  const std::vector<Argument> arguments = lowered_.with(inputs());
  if (arguments.empty())
    raise<RuntimeError>(definition_.name(),
                        "nothing was saved for backward: run forward with gradients enabled "
                        "on differentiable Tensors first");
  const Tensor* first = find_dispatching_tensor(definition_.name(), arguments);
  if (first != nullptr && first->carrier_type() == dispatch_carrier_class()) carrier_ = first->carrier();
  const ResolvedInvocation invocation = resolve(arguments, execution_options());
  const std::vector<std::optional<Tensor>> cotangents{gradient};
  Gradients of_differentiable = gradients(invocation, run(invocation, false), cotangents);
  const std::vector<std::size_t> positions = definition_.differentiable_operands(invocation.call());
  Gradients of_tensors;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].tensor() == nullptr) continue;
    const auto found = std::ranges::find(positions, i);
    of_tensors.push_back(found == positions.end()
                             ? std::nullopt
                             : of_differentiable[static_cast<std::size_t>(found - positions.begin())]);
  }
  return of_tensors;
}

Gradients DefinitionOperation::gradients(const ResolvedInvocation& invocation,
                                         std::span<const Tensor> outputs,
                                         std::span<const std::optional<Tensor>> cotangents) const {
  std::vector<Tensor> saved;
  for (const std::size_t position : invocation.saved_operands())
    saved.push_back(*invocation.tensor(position));
  const VJPContext context(invocation, {outputs.begin(), outputs.end()}, std::move(saved));
  const InvocationExecutor* executor = invocation_executor(dispatch_carrier_class());
  std::optional<Gradients> carried_out;
  if (executor != nullptr) carried_out = executor->gradients(context, cotangents);
  Gradients gradients = carried_out ? std::move(*carried_out) : call_vjp(context, cotangents);
  const std::vector<Tensor> operands = differentiable_tensors(invocation.call());
  if (gradients.size() != operands.size())
    raise<ValueError>(definition_.name(),
                      "backward must give one entry per differentiable operand: ", operands.size(),
                      " expected, got ", gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i] || !operands[i].is_differentiable()) continue;
    const Layout wanted = gradient_layout(operands[i].layout());
    if (!(gradients[i]->layout() == wanted)) gradients[i] = copy_to_layout(*gradients[i], wanted);
  }
  return gradients;
}

void DefinitionOperation::on_release_autograd_state() noexcept {
  invocation_.reset();
  outputs_.clear();
  saved_versions_.clear();
  lowered_.clear();
  carrier_.reset();
}

void DefinitionOperation::visit_references(ReferenceVisitor& visitor) const {
  Operation::visit_references(visitor);
  visitor.visit(carrier_);
  if (invocation_) visitor.visit(invocation_->ref());
  for (const Tensor& output : outputs_) visitor.visit(output.ref());
  lowered_.visit_references(visitor);
}

}  // namespace orlop::inline v0
