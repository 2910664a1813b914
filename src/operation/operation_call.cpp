// Bound calls, resolved invocations and what a gradient rule sees of them (X21, X22, X24).
#include <algorithm>
#include <cmath>

#include "orlop/operation/operation_definition.hpp"

namespace orlop::inline v0 {

BoundCallObject::BoundCallObject(const OperationDefinition& definition, std::vector<Argument> operands,
                                 OperationOptions options, std::vector<OperandKind> kinds)
    : definition_(definition),
      operands_(std::move(operands)),
      options_(std::move(options)),
      kinds_(std::move(kinds)) {}

namespace {

// A graph goes on behind each Tensor, of any length.
void release_tensors(std::vector<Tensor>& tensors) noexcept {
  for (Tensor& tensor : tensors) release_iteratively(tensor.detach());
  tensors.clear();
}

}  // namespace

BoundCallObject::~BoundCallObject() {
  std::vector<Tensor> tensors;
  for (const Argument& operand : operands_)
    if (const Tensor* tensor = operand.tensor()) tensors.push_back(*tensor);
  operands_.clear();
  release_tensors(tensors);
}

void BoundCallObject::visit_references(ReferenceVisitor& visitor) const {
  for (const Argument& operand : operands_) operand.visit_references(visitor);
  for (const auto& [name, value] : options_) value.visit_references(visitor);
}

void BoundCallObject::drop_references() noexcept {
  operands_.clear();
  options_.clear();
}

const Argument& BoundOperationCall::option(std::string_view name) const {
  const auto found = options().find(name);
  if (found == options().end())
    raise<LookupError>(definition().name(), "the operation has no option '", name, "'");
  return found->second;
}

ResultSpec::ResultSpec(const DType& result_dtype, Shape result_shape, Layout result_layout,
                       std::optional<std::size_t> aliased_operand, double absolute_tolerance,
                       double relative_tolerance)
    : dtype(&result_dtype),
      shape(std::move(result_shape)),
      layout(std::move(result_layout)),
      alias_of(aliased_operand),
      atol(absolute_tolerance),
      rtol(relative_tolerance) {
  if (!(layout.shape() == shape))
    raise<ValueError>("ResultSpec", "layout.shape must be the shape ", shape, ": got ", layout.shape());
  for (const double tolerance : {atol, rtol})
    if (!std::isfinite(tolerance) || tolerance < 0)
      raise<ValueError>("ResultSpec", "a tolerance must be finite and not negative: got ", tolerance);
}

InvocationObject::~InvocationObject() = default;

void InvocationObject::visit_references(ReferenceVisitor& visitor) const {
  visitor.visit(fields_.call.ref());
}

namespace {

void check_positions(std::string_view field, std::span<const std::size_t> positions) {
  for (auto position = positions.begin(); position != positions.end(); ++position)
    if (std::find(positions.begin(), position, *position) != position)
      raise<ValueError>("ResolvedInvocation", field, " names an operand twice: ", *position);
}

void check_tensor_position(std::string_view field, const BoundOperationCall& call, std::size_t position) {
  if (position >= call.operands().size())
    raise<ValueError>("ResolvedInvocation", field, " must name Tensor operands: ", position,
                      " is out-of-range, the call has ", call.operands().size());
  if (call.tensor(position) == nullptr)
    raise<ValueError>("ResolvedInvocation", field, " must name Tensor operands: operand ", position, " is ",
                      value_of(call.operand_kinds()[position]));
}

void check_roles(const OperationPlan& plan, const BoundOperationCall& call) {
  std::vector<std::string_view> bound;
  for (const OperandKind kind : call.operand_kinds())
    if (kind != OperandKind::structural) bound.push_back(value_of(kind));
  std::vector<std::string_view> planned;
  planned.reserve(plan.operands.size());
  for (const OperandPlan& operand : plan.operands) planned.push_back(value_of(operand.role));
  if (bound == planned) return;
  const auto list = [](const std::vector<std::string_view>& roles) {
    std::string out;
    for (const std::string_view role : roles) out += text(out.empty() ? "" : ", ", role);
    return text('(', out, ')');
  };
  raise<ValueError>("ResolvedInvocation", "the plan's roles must be those of the bound operands ",
                    list(bound), ": got ", list(planned));
}

}  // namespace

InvocationObject::InvocationObject(Fields fields) : fields_(std::move(fields)) {
  const BoundOperationCall& call = fields_.call;
  const std::string& name = call.definition().name();
  if (fields_.plan == nullptr)
    raise<TypeError>("ResolvedInvocation", "plan must be an OperationPlan: got none");
  if (fields_.results.empty()) raise<ValueError>("ResolvedInvocation", "results must not be empty");
  check_positions("mutated_operands", fields_.mutated_operands);
  check_positions("saved_operands", fields_.saved_operands);
  if (fields_.plan->operation != name)
    raise<ValueError>("ResolvedInvocation", "plan.operation must be the operation's name '", name, "': got '",
                      fields_.plan->operation, "'");
  check_roles(*fields_.plan, call);
  for (const std::size_t position : fields_.mutated_operands)
    check_tensor_position("mutated_operands", call, position);
  for (const std::size_t position : fields_.saved_operands)
    check_tensor_position("saved_operands", call, position);
  for (const ResultSpec& result : fields_.results)
    if (result.alias_of) check_tensor_position("alias_of", call, *result.alias_of);
  if (fields_.kernel_id.empty()) fields_.kernel_id = name;
}

ResolvedInvocation::ResolvedInvocation(BoundOperationCall call, std::shared_ptr<const OperationPlan> plan,
                                       std::vector<ResultSpec> results, Effects effects)
    : object_(make_ref<InvocationObject>(InvocationObject::Fields{
          std::move(call), std::move(plan), std::move(results), std::move(effects.mutated_operands),
          std::move(effects.saved_operands), std::move(effects.kernel_id)})) {}

const std::string& ResolvedInvocation::name() const noexcept { return definition().name(); }

std::shared_ptr<const OperationPlan> share_builtin_plan(const OperationPlan& plan) {
  return {std::shared_ptr<const void>(), &plan};
}

VJPContextObject::VJPContextObject(ResolvedInvocation invocation, std::vector<Tensor> outputs,
                                   std::vector<Tensor> saved)
    : invocation_(std::move(invocation)), outputs_(std::move(outputs)), saved_(std::move(saved)) {
  const std::span<const std::size_t> recipe = invocation_.saved_operands();
  const bool fits = std::ranges::equal(recipe, saved_, [this](std::size_t position, const Tensor& tensor) {
    return *invocation_.tensor(position) == tensor;
  });
  if (!fits)
    raise<ValueError>("VJPContext", "saved_operands must be what the save recipe of the invocation names, ",
                      recipe.size(), " operands in its order: got ", saved_.size());
  if (outputs_.size() != invocation_.results().size())
    raise<ValueError>("VJPContext", "outputs must have one entry per result: ", invocation_.results().size(),
                      " expected, got ", outputs_.size());
}

VJPContextObject::~VJPContextObject() { drop_references(); }

void VJPContextObject::visit_references(ReferenceVisitor& visitor) const {
  visitor.visit(invocation_.ref());
  for (const Tensor& output : outputs_) visitor.visit(output.ref());
  for (const Tensor& saved : saved_) visitor.visit(saved.ref());
}

void VJPContextObject::drop_references() noexcept {
  release_tensors(outputs_);
  release_tensors(saved_);
}

VJPContext::VJPContext(ResolvedInvocation invocation, std::vector<Tensor> outputs, std::vector<Tensor> saved)
    : object_(make_ref<VJPContextObject>(std::move(invocation), std::move(outputs), std::move(saved))) {}

}  // namespace orlop::inline v0
