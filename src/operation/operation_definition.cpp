// Schemas, calls and definitions of operations, and their registry (X21–X25, X31, X32).
#include "orlop/operation/operation_definition.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <shared_mutex>

#include "operation/builtin_definitions.hpp"
#include "operation/definition.hpp"
#include "operation/dispatch.hpp"
#include "operation/results.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/definition_operation.hpp"
#include "orlop/operation/grad_mode.hpp"

namespace orlop::inline v0 {

ProviderContractError::~ProviderContractError() = default;

// --- Schemas ----------------------------------------------------------------------------------------------

std::string_view value_of(OperandKind kind) noexcept {
  switch (kind) {
    case OperandKind::tensor:
      return "tensor";
    case OperandKind::weak_scalar:
      return "weak_scalar";
    case OperandKind::structural:
      break;
  }
  return "structural";
}

namespace {

/// As Python has it; letters beyond ASCII are taken as they are.
bool is_identifier(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

void check_identifier(std::string_view what, std::string_view name) {
  if (!is_identifier(name))
    raise<ValueError>(what, "name must be an identifier: got '", name, "'; use letters, digits and _");
}

}  // namespace

OperandSpec::OperandSpec(std::string operand_name, OperandKind operand_kind, bool is_differentiable)
    : name(std::move(operand_name)), kind(operand_kind), differentiable(is_differentiable) {
  check_identifier("OperandSpec", name);
  if (differentiable && kind != OperandKind::tensor)
    raise<ValueError>("OperandSpec", "only a Tensor operand can be differentiable: '", name, "' is ",
                      value_of(kind));
}

OptionSpec::OptionSpec(std::string option_name, std::optional<Argument> default_argument)
    : name(std::move(option_name)), default_value(std::move(default_argument)) {
  check_identifier("OptionSpec", name);
}

OperationSchema::OperationSchema(std::vector<OperandSpec> operand_specs, std::vector<OptionSpec> option_specs)
    : operands(std::move(operand_specs)), options(std::move(option_specs)) {
  if (operands.empty())
    raise<ValueError>("OperationSchema", "operands must not be empty; an operation has one");
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(names, name) != names.end())
      raise<ValueError>("OperationSchema", "names of operands and options must be unique: '", name,
                        "' stands twice");
    names.push_back(name);
  };
  for (const OperandSpec& operand : operands) add(operand.name);
  for (const OptionSpec& option : options) add(option.name);
}

// --- Calls ------------------------------------------------------------------------------------------------

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

// --- Definitions ------------------------------------------------------------------------------------------

OperationSemantics::~OperationSemantics() = default;

std::vector<Tensor> OperationSemantics::reference(const ResolvedInvocation& invocation) const {
  throw UnsupportedOperationPlan(
      RefusalKind::Invocation, CarrierClass(), invocation.plan(),
      message(invocation.name(), "the operation has no reference; run it on a carrier with a kernel for it"));
}

Gradients OperationSemantics::vjp(const VJPContext& context, Cotangents) const {
  raise<RuntimeError>(context.invocation().name(), "the operation has no VJP: it is not differentiable");
}

OperationDefinition::OperationDefinition(std::string name, OperationSchema schema,
                                         std::shared_ptr<const OperationSemantics> semantics, bool is_builtin)
    : name_(std::move(name)),
      schema_(std::move(schema)),
      semantics_(std::move(semantics)),
      is_builtin_(is_builtin) {}

OperationDefinition::~OperationDefinition() = default;

namespace {

OperandKind bound_kind(std::string_view operation, const OperandSpec& spec, const Argument& value) {
  if (spec.kind == OperandKind::tensor && value.tensor() == nullptr)
    raise<TypeError>(operation, "operand '", spec.name, "' must be a Tensor: got ", value.type_name());
  if (spec.kind == OperandKind::weak_scalar && value.scalar() == nullptr)
    raise<TypeError>(operation, "operand '", spec.name, "' must be a weak scalar, a real number: got ",
                     value.type_name());
  if (value.tensor() != nullptr) return OperandKind::tensor;
  return value.scalar() != nullptr ? OperandKind::weak_scalar : OperandKind::structural;
}

OperationOptions bound_options(std::string_view operation, const OperationSchema& schema,
                               OperationOptions given) {
  for (const auto& [name, value] : given)
    if (std::ranges::find(schema.options, name, &OptionSpec::name) == schema.options.end())
      raise<TypeError>(operation, "unknown option '", name, "'; it takes ", schema.options.size(),
                       " options");
  for (const OptionSpec& option : schema.options) {
    if (given.contains(option.name)) continue;
    if (!option.default_value)
      raise<TypeError>(operation, "missing required option '", option.name, "'; give it by keyword");
    given.emplace(option.name, *option.default_value);
  }
  return given;
}

}  // namespace

BoundOperationCall OperationDefinition::bind(std::vector<Argument> operands, OperationOptions options) const {
  if (operands.size() != schema_.operands.size())
    raise<TypeError>(name_, "expects ", schema_.operands.size(), " operands: got ", operands.size());
  OperationOptions bound = bound_options(name_, schema_, std::move(options));
  std::vector<OperandKind> kinds;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const OperandKind kind = bound_kind(name_, schema_.operands[i], operands[i]);
    // An axis, say, is a number that no plan of a built-in speaks about.
    kinds.push_back(is_builtin_ && !is_planned_operand(name_, i) ? OperandKind::structural : kind);
  }
  return BoundOperationCall(
      make_ref<BoundCallObject>(*this, std::move(operands), std::move(bound), std::move(kinds)));
}

ResolvedInvocation OperationDefinition::resolve_call(const BoundOperationCall& call) const {
  if (&call.definition() != this)
    raise<ValueError>(name_, "the call is bound to another definition: ", call.definition().name());
  ResolvedInvocation invocation = semantics_->resolve(call);
  if (!(invocation.call() == call))
    raise<ValueError>(name_,
                      "resolve lost the bound-call identity: it must return an invocation of the very "
                      "call it was given");
  return invocation;
}

std::vector<Tensor> OperationDefinition::call(std::vector<Argument> operands,
                                              OperationOptions options) const {
  const Tensor* first = find_dispatching_tensor(name_, operands);
  if (first == nullptr)
    throw UnsupportedOperationPlan(
        RefusalKind::Operation, CarrierClass(),
        message(name_, "a call needs a Tensor operand, whose carrier runs it: got none"));
  const Ref<Operation> operation = first->carrier()->dispatch_op(name_);
  if (auto* defined = dynamic_cast<DefinitionOperation*>(operation.get())) {
    if (options.empty()) return defined->forward_all(operands);
    return defined->forward_invocation(resolve_call(bind(std::move(operands), std::move(options))));
  }
  // A class without a definition: its own operation, called as everybody calls it.
  const BoundOperationCall bound = bind(std::move(operands), std::move(options));
  const auto execution_options = execution_options_of(bound);
  return operation->forward_all(table_order(bound), execution_options ? &*execution_options : nullptr);
}

std::vector<std::size_t> OperationDefinition::differentiable_operands(const BoundOperationCall& call) const {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < call.operands().size(); ++i) {
    const OperandSpec& spec = schema_.operands[i];
    const bool is_builtin_tensor =
        is_builtin_ && spec.kind == OperandKind::structural && call.tensor(i) != nullptr;
    if (spec.differentiable || is_builtin_tensor) positions.push_back(i);
  }
  return positions;
}

// --- The registry -----------------------------------------------------------------------------------------

namespace {

class DefinitionRegistry {
 public:
  static DefinitionRegistry& get() {
    static DefinitionRegistry& registry = *std::make_unique<DefinitionRegistry>().release();
    return registry;
  }

  DefinitionRegistry() {
    for (std::unique_ptr<const OperationDefinition>& definition : builtin_operation_definitions()) {
      const std::string& name = definition->name();
      definitions_.emplace(name, std::move(definition));
    }
  }

  const OperationDefinition& add(std::unique_ptr<const OperationDefinition> definition) {
    const std::unique_lock lock(mutex_);
    const auto [found, is_new] = definitions_.emplace(definition->name(), nullptr);
    if (!is_new)
      raise<ValueError>("define_operation", "the operation '", definition->name(),
                        "' is already defined; a definition is for good");
    found->second = std::move(definition);
    return *found->second;
  }

  const OperationDefinition* find(std::string_view name) const noexcept {
    const std::shared_lock lock(mutex_);
    const auto found = definitions_.find(name);
    return found == definitions_.end() ? nullptr : found->second.get();
  }

  std::vector<const OperationDefinition*> outside() const {
    const std::shared_lock lock(mutex_);
    std::vector<const OperationDefinition*> list;
    for (const auto& [name, definition] : definitions_)
      if (!definition->is_builtin()) list.push_back(definition.get());
    return list;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::unique_ptr<const OperationDefinition>, std::less<>> definitions_;
};

}  // namespace

void detail::check_operation_name(std::string_view name) {
  constexpr std::string_view what = "define_operation";
  std::vector<std::string_view> parts;
  std::string_view rest = name;
  while (true) {
    const auto dot = rest.find('.');
    parts.push_back(rest.substr(0, dot));
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (parts.size() < 2 || !std::ranges::all_of(parts, is_identifier))
    raise<ValueError>(what,
                      "the name must be namespaced, two or more identifiers with dots between them: got '",
                      name, "'; for example 'acme.layer_norm'");
  if (parts.front() == "orlop" || find_definition(parts.front()) != nullptr)
    raise<ValueError>(what, "the namespace '", parts.front(), "' of '", name,
                      "' is reserved; use one of your own");
}

std::vector<const OperationDefinition*> detail::outside_definitions() {
  return DefinitionRegistry::get().outside();
}

namespace {

class ForgottenSemantics final : public OperationSemantics {
 public:
  [[nodiscard]] ResolvedInvocation resolve(const BoundOperationCall& call) const override {
    raise<RuntimeError>(call.definition().name(), "the operation went with the interpreter that defined it");
  }
  [[nodiscard]] bool differentiable() const override { return false; }
};

}  // namespace

void detail::forget_semantics(const OperationDefinition& definition) {
  auto& held = const_cast<OperationDefinition&>(definition);  // the registry's own, made there
  for (OptionSpec& option : held.schema_.options) option.default_value.reset();
  held.semantics_ = std::make_shared<const ForgottenSemantics>();
}

const OperationDefinition& define_operation(std::string name, OperationSchema schema,
                                            std::shared_ptr<const OperationSemantics> semantics) {
  detail::check_operation_name(name);
  if (semantics == nullptr) raise<TypeError>("define_operation", "the semantics of '", name, "' are null");
  return DefinitionRegistry::get().add(std::make_unique<const OperationDefinition>(
      std::move(name), std::move(schema), std::move(semantics), false));
}

const OperationDefinition* find_operation_definition(std::string_view name) noexcept {
  return DefinitionRegistry::get().find(name);
}

const OperationDefinition& operation_definition(std::string_view name) {
  if (const OperationDefinition* definition = find_operation_definition(name)) return *definition;
  raise<LookupError>("operation_definition", "no operation has the name '", name,
                     "'; define_operation makes one");
}

// --- Carrying out -----------------------------------------------------------------------------------------

namespace {

[[noreturn]] void refuse_result(const ResolvedInvocation& invocation, std::size_t position,
                                std::string_view field, const auto&... parts) {
  raise<ProviderContractError>(invocation.name(), "result ", position, " has the wrong ", field, ": ",
                               parts...);
}

/// The position of the operand that `result` is, or nothing.
std::optional<std::size_t> operand_of(const ResolvedInvocation& invocation, const Tensor& result) {
  for (std::size_t i = 0; i < invocation.operands().size(); ++i)
    if (const Tensor* operand = invocation.tensor(i); operand != nullptr && *operand == result) return i;
  return std::nullopt;
}

void check_aliasing(const ResolvedInvocation& invocation, std::size_t position,
                    std::span<const Tensor> results) {
  const Tensor& result = results[position];
  const std::optional<std::size_t> promised = invocation.results()[position].alias_of;
  if (promised) {
    if (!(*invocation.tensor(*promised) == result))
      refuse_result(invocation, position, "aliasing", "it must be the very operand ", *promised);
    return;
  }
  if (const auto operand = operand_of(invocation, result))
    refuse_result(invocation, position, "aliasing", "it aliases operand ", *operand,
                  ", which the invocation does not promise");
  for (std::size_t i = 0; i < position; ++i)
    if (results[i] == result) refuse_result(invocation, position, "aliasing", "it aliases result ", i);
}

void check_placement(const ResolvedInvocation& invocation, std::size_t position, const Tensor& result,
                     CarrierClass expected) {
  if (expected && result.carrier_type() != expected)
    refuse_result(invocation, position, "carrier role", expected, " expected, it lives on ",
                  result.carrier_type());
  if (result.offset() != 0)
    refuse_result(invocation, position, "offset", "0 expected, got ", result.offset());
  const Index size = result.carrier()->size();
  if (size != result.layout().cosize())
    refuse_result(invocation, position, "size", "storage of ", result.layout().cosize(),
                  " slots expected, got ", size);
}

}  // namespace

void check_results(const ResolvedInvocation& invocation, std::span<const Tensor> results,
                   std::span<const CarrierClass> classes) {
  const std::span<const ResultSpec> specs = invocation.results();
  if (results.size() != specs.size())
    raise<ProviderContractError>(invocation.name(), "the count of results must be ", specs.size(), ": got ",
                                 results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Tensor& result = results[i];
    if (!result) raise<ProviderContractError>(invocation.name(), "result ", i, " is no Tensor");
    if (&result.dtype() != specs[i].dtype)
      refuse_result(invocation, i, "dtype", specs[i].dtype->name(), " expected, got ", result.dtype().name());
    if (!(result.layout().shape() == specs[i].shape))
      refuse_result(invocation, i, "shape", specs[i].shape, " expected, got ", result.layout().shape());
    if (!result.is_single_subtensor() || !(result.layout() == specs[i].layout))
      refuse_result(invocation, i, "layout", specs[i].layout, " expected, got ", result.layout());
    check_aliasing(invocation, i, results);
    if (!specs[i].alias_of)
      check_placement(invocation, i, result, i < classes.size() ? classes[i] : CarrierClass());
  }
}

std::vector<Tensor> execute_reference(const ResolvedInvocation& invocation) {
  const NoGrad no_grad;
  std::vector<Tensor> results = invocation.definition().semantics().reference(invocation);
  if (results.empty()) raise<ProviderContractError>(invocation.name(), "the reference gave no results");
  check_results(invocation, results, {});
  return results;
}

Gradients call_vjp(const VJPContext& context, Cotangents cotangents) {
  const ResolvedInvocation& invocation = context.invocation();
  const std::string& name = invocation.name();
  const std::span<const ResultSpec> specs = invocation.results();
  if (cotangents.size() != specs.size())
    raise<ValueError>(name, "cotangents must have one entry per result: ", specs.size(), " expected, got ",
                      cotangents.size());
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (!cotangents[i]) continue;
    const Tensor& cotangent = *cotangents[i];
    if (&cotangent.dtype() != specs[i].dtype)
      raise<TypeError>(name, "cotangent ", i, " must have the result's dtype ", specs[i].dtype->name(),
                       ": got ", cotangent.dtype().name());
    if (!(cotangent.layout().shape() == specs[i].shape))
      raise<ValueError>(name, "cotangent ", i, " must have the result's shape ", specs[i].shape, ": got ",
                        cotangent.layout().shape());
  }
  if (!invocation.definition().semantics().differentiable())
    raise<RuntimeError>(name, "the operation has no VJP: it is not differentiable");
  const NoGrad no_grad;
  Gradients gradients = invocation.definition().semantics().vjp(context, cotangents);
  const std::vector<std::size_t> positions =
      invocation.definition().differentiable_operands(invocation.call());
  if (gradients.size() != positions.size())
    raise<ValueError>(name, "the VJP must give one entry per differentiable operand: ", positions.size(),
                      " expected, got ", gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    const Tensor& operand = *invocation.tensor(positions[i]);
    if (&gradients[i]->dtype() != &operand.dtype())
      raise<TypeError>(name, "the gradient of operand ", positions[i], " must have its dtype ",
                       operand.dtype().name(), ": got ", gradients[i]->dtype().name());
    if (!(gradients[i]->layout().shape() == operand.layout().shape()))
      raise<ValueError>(name, "the gradient of operand ", positions[i], " must have its shape ",
                        operand.layout().shape(), ": got ", gradients[i]->layout().shape());
  }
  return gradients;
}

}  // namespace orlop::inline v0
