// Schemas and definitions of operations, and their registry (X21–X25).
#include "orlop/operation/operation_definition.hpp"

#include <algorithm>
#include <mutex>
#include <shared_mutex>

#include "operation/builtin_definitions.hpp"
#include "operation/definition.hpp"
#include "operation/dispatch.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/definition_operation.hpp"

namespace orlop::inline v0 {

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

}  // namespace orlop::inline v0
