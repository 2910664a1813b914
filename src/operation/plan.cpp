// The plan records, the registry built from the plan table, and resolution (P1–P12).
#include "orlop/operation/plan.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <unordered_set>

#include "operation/dispatch.hpp"
#include "operation/plan_table.hpp"
#include "orlop/base/error.hpp"
#include "orlop/base/forever.hpp"
#include "orlop/dtype/dtype.hpp"

namespace orlop::inline v0 {

// --- Records ----------------------------------------------------------------------------------------------

std::string_view value_of(OperandRole role) noexcept {
  return role == OperandRole::Tensor ? "tensor" : "weak_scalar";
}

std::string_view value_of(WeakScalarKind kind) noexcept {
  return kind == WeakScalarKind::Integer ? "integer" : "float";
}

std::string_view value_of(Arithmetic arithmetic) noexcept {
  static constexpr std::string_view values[] = {"binary32", "int32_exact_checked", "int32_exact"};
  return values[static_cast<std::size_t>(arithmetic)];
}

std::string_view value_of(Accumulation accumulation) noexcept {
  static constexpr std::string_view values[] = {
      "floating", "sequential_binary32", "sequential_binary32_product", "maximum", "minimum", "argmax",
      "argmin",   "exact_integer"};
  return values[static_cast<std::size_t>(accumulation)];
}

OperandShape::OperandShape(OperandRole operand_role, const DType* operand_dtype,
                           const DType& operand_convert_to)
    : role(operand_role), dtype(operand_dtype), convert_to(operand_convert_to) {
  if (role == OperandRole::WeakScalar && dtype != nullptr)
    raise<TypeError>("operand", "a weak scalar has no dtype: got ", dtype->name(), "; use None");
  if (role == OperandRole::Tensor && (dtype == nullptr || !dtype->is_simple()))
    raise<TypeError>("operand", "a tensor operand needs a SimpleDType: got ",
                     dtype == nullptr ? "None" : dtype->name());
}

namespace {

constexpr std::size_t mix(std::size_t seed, std::size_t value) noexcept {
  return (seed ^ value) * 0x9E3779B97F4A7C15U + (seed >> 29U);
}

std::size_t mix(std::size_t seed, const DType* dtype) noexcept {
  return mix(seed, std::hash<const DType*>{}(dtype));
}

}  // namespace

template <class Operand>
std::size_t OperationShape<Operand>::hash() const noexcept {
  std::size_t seed = std::hash<std::string>{}(operation);
  for (const OperandShape& operand : operands) seed = mix(mix(seed, operand.dtype), &operand.convert_to);
  const std::size_t combination = accumulation ? 1 + static_cast<std::size_t>(*accumulation) : 0;
  return mix(mix(mix(seed, static_cast<std::size_t>(compute) + 4 * combination), accumulator_dtype), &output);
}

template class OperationShape<OperandPlan>;
template class OperationShape<OperandCapability>;

// --- Operand codes ----------------------------------------------------------------------------------------
// Each operand is one of seven things as far as a rule can tell; a plan is found by its operands' codes.

namespace {

constexpr std::size_t code_count = 8;
constexpr std::size_t scalar_code = 3;  // F, I, B, then the four scalar branches
constexpr std::size_t no_code = 7;
constexpr std::size_t accumulator_count = 3;  // none asked, Float32, Float64

std::span<const DType* const> planned_dtypes() {
  static const std::array<const DType*, 3> dtypes{&dtypes::Float32, &dtypes::Int32, &dtypes::Bool};
  return dtypes;
}

std::size_t code_of(const DType& dtype) noexcept {
  if (&dtype == &dtypes::Float32) return 0;
  if (&dtype == &dtypes::Int32) return 1;
  return &dtype == &dtypes::Bool ? 2 : no_code;
}

ScalarBranch branch_of(const Scalar& scalar) noexcept {
  if (!scalar.is_integer()) return ScalarBranch::Float;
  const std::optional<std::int64_t> integer = scalar.as_integer();
  using Int32 = std::numeric_limits<std::int32_t>;
  if (!integer || *integer < Int32::min() || *integer > Int32::max()) return ScalarBranch::Wide;
  return *integer < 0 ? ScalarBranch::Negative : ScalarBranch::NonNegative;
}

std::size_t code_of(const PlanOperand& operand) noexcept {
  if (const auto* dtype = std::get_if<std::reference_wrapper<const DType>>(&operand))
    return code_of(dtype->get());
  return scalar_code + static_cast<std::size_t>(branch_of(*std::get_if<Scalar>(&operand)));
}

RuleOperand operand_of_code(std::size_t code) {
  if (code < scalar_code) return {planned_dtypes()[code]};
  return {nullptr, static_cast<ScalarBranch>(code - scalar_code)};
}

OperandRole role_of(const PlanOperand& operand) noexcept {
  return std::holds_alternative<Scalar>(operand) ? OperandRole::WeakScalar : OperandRole::Tensor;
}

// The operand indices of the tensors that must carry one dtype, or of none.
bool breaks_same_dtype(const OperationOverload& overload, std::span<const DType* const> tensor_dtypes) {
  return std::ranges::any_of(overload.same_dtype, [&](std::size_t ordinal) {
    return tensor_dtypes[ordinal] != tensor_dtypes[overload.same_dtype.front()];
  });
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

OperationOverload overload_of(std::string_view operands) {
  OperationOverload overload;
  for (const std::string_view word : words_of(operands)) {
    overload.roles.push_back(word == "s" ? OperandRole::WeakScalar : OperandRole::Tensor);
    if (word == "s") continue;
    if (word.back() == '=') overload.same_dtype.push_back(overload.tensor_domains.size());
    std::vector<const DType*>& domain = overload.tensor_domains.emplace_back();
    for (const char letter : word.substr(0, word.find('=')))
      domain.push_back(planned_dtypes()[std::string_view("FIB").find(letter)]);
  }
  if (overload.same_dtype.size() < 2) overload.same_dtype.clear();
  return overload;
}

struct PlanHash {
  std::size_t operator()(const OperationPlan* plan) const noexcept { return plan->hash(); }
};
struct PlanEqual {
  bool operator()(const OperationPlan* a, const OperationPlan* b) const noexcept { return *a == *b; }
};

}  // namespace

// --- The registry -----------------------------------------------------------------------------------------

/// All specifications and all their plans, made from the table on first use and never destroyed.
class PlanRegistry {
 public:
  PlanRegistry() {
    struct Declared {
      std::string_view name;
      const OperationEntry* entry;
    };
    const std::vector<OperationEntry> table = plan_table();
    std::vector<Declared> declared;
    for (const OperationEntry& entry : table)
      for (const std::string_view name : words_of(entry.names)) declared.push_back({name, &entry});
    std::ranges::sort(declared, {}, &Declared::name);
    specs_.reserve(declared.size());
    for (const auto& [name, entry] : declared)
      (entry->use == NameUse::Gradient ? gradient_specs_ : specs_).push_back(make_spec(name, *entry));
  }

  static const PlanRegistry& get() {
    static Forever<PlanRegistry> registry;
    return *registry;
  }

  [[nodiscard]] std::span<const OperationSpec> specs() const { return specs_; }
  [[nodiscard]] std::span<const OperationSpec> gradient_specs() const { return gradient_specs_; }
  [[nodiscard]] std::size_t plan_count() const { return plans_.size(); }
  [[nodiscard]] const OperationPlan& plan(std::uint32_t number) const { return plans_[number - 1]; }
  [[nodiscard]] std::uint32_t number_of(const OperationPlan& plan) const {
    const auto found = index_.find(&plan);
    return found == index_.end() ? 0 : (*found)->builtin_number_;
  }

 private:
  OperationSpec make_spec(std::string_view name, const OperationEntry& entry) {
    OperationSpec spec;
    spec.name_ = name;
    spec.public_ = entry.use == NameUse::Public;
    spec.positions_ = entry.positions;
    for (const OverloadEntry& overload : entry.overloads)
      spec.overloads_.push_back(overload_of(overload.operands));
    std::size_t combinations = 1;
    for (std::size_t i = 0; i < spec.overloads_.front().roles.size(); ++i) combinations *= code_count;
    spec.plans_.resize(combinations * accumulator_count);
    for (std::size_t i = 0; i < entry.overloads.size(); ++i)
      for (std::size_t codes = 0; codes < combinations; ++codes)
        add_plan(spec, spec.overloads_[i], entry.overloads[i].rule, codes, combinations);
    return spec;
  }

  // Stores the plan of one combination of operand codes and its accumulator variants, if it has one.
  void add_plan(OperationSpec& spec, const OperationOverload& overload, PlanRule rule, std::size_t codes,
                std::size_t combinations) {
    const std::optional<std::vector<RuleOperand>> operands = accepted(overload, codes);
    if (!operands) return;
    const Outcome outcome = rule(*operands);
    std::vector<OperandPlan> plans;
    for (std::size_t i = 0; i < operands->size(); ++i) {
      const auto& [dtype, branch] = (*operands)[i];
      const DType& target = *outcome.convert_to[i];
      // OverflowError at resolution: the slot stays empty.
      if (dtype == nullptr && branch == ScalarBranch::Wide && &target == &dtypes::Int32) return;
      plans.emplace_back(overload.roles[i], dtype, target);
    }
    const auto plan_with = [&](const DType* accumulator) {
      return intern(OperationPlan(spec.name_, plans, outcome.compute, outcome.accumulation, accumulator,
                                  *outcome.output));
    };
    spec.plans_[codes] = plan_with(outcome.accumulator_dtype);
    if (!is_accumulator_configurable(spec.name_) || outcome.accumulation != Accumulation::Floating) return;
    for (std::size_t i = 0; i < supported_accumulator_dtypes().size(); ++i)
      spec.plans_[codes + (i + 1) * combinations] = plan_with(supported_accumulator_dtypes()[i]);
  }

  // The operands that `codes` stands for, if the overload takes them.
  static std::optional<std::vector<RuleOperand>> accepted(const OperationOverload& overload,
                                                          std::size_t codes) {
    std::vector<RuleOperand> operands;
    std::vector<const DType*> tensor_dtypes;
    for (const OperandRole role : overload.roles) {
      const std::size_t code = codes % code_count;
      codes /= code_count;
      if (code == no_code || (code < scalar_code) != (role == OperandRole::Tensor)) return std::nullopt;
      operands.push_back(operand_of_code(code));
      if (role == OperandRole::WeakScalar) continue;
      const std::vector<const DType*>& domain = overload.tensor_domains[tensor_dtypes.size()];
      if (std::ranges::find(domain, operands.back().dtype) == domain.end()) return std::nullopt;
      tensor_dtypes.push_back(operands.back().dtype);
    }
    if (breaks_same_dtype(overload, tensor_dtypes)) return std::nullopt;
    return operands;
  }

  const OperationPlan* intern(const OperationPlan& plan) {
    if (const auto found = index_.find(&plan); found != index_.end()) return *found;
    OperationPlan& kept = plans_.emplace_back(plan);
    kept.builtin_number_ = static_cast<std::uint32_t>(plans_.size());
    index_.insert(&kept);
    return &kept;
  }

  std::deque<OperationPlan> plans_;  // addresses stay
  std::unordered_set<const OperationPlan*, PlanHash, PlanEqual> index_;
  std::vector<OperationSpec> specs_;  // ascending by name, as the other
  std::vector<OperationSpec> gradient_specs_;
};

std::uint32_t builtin_plan_count() { return static_cast<std::uint32_t>(PlanRegistry::get().plan_count()); }
const OperationPlan& builtin_plan(std::uint32_t number) { return PlanRegistry::get().plan(number); }
std::uint32_t find_builtin_number(const OperationPlan& plan) { return PlanRegistry::get().number_of(plan); }

std::span<const OperationSpec> registered_operations() { return PlanRegistry::get().specs(); }

namespace {

const OperationSpec* find_spec(std::span<const OperationSpec> specs, std::string_view name) {
  const auto found = std::ranges::lower_bound(
      specs, name, {}, [](const OperationSpec& spec) -> std::string_view { return spec.name(); });
  return found != specs.end() && found->name() == name ? &*found : nullptr;
}

}  // namespace

const OperationSpec* find_operation_spec(std::string_view name) {
  return find_spec(registered_operations(), name);
}

const OperationSpec& table_spec(std::string_view name) {
  const OperationSpec* spec = find_spec(PlanRegistry::get().gradient_specs(), name);
  return spec != nullptr ? *spec : operation_spec(name);
}

const OperationSpec& operation_spec(std::string_view name) {
  if (const OperationSpec* spec = find_operation_spec(name)) return *spec;
  raise<NotImplementedError>("operation plan", "no operation is registered under the name '", name,
                             "'; registered_operations() lists the names");
}

// --- Resolution -------------------------------------------------------------------------------------------

const OperationPlan* OperationSpec::look_up(std::span<const PlanOperand> operands,
                                            const DType* accumulator_dtype) const {
  if (operands.size() != overloads_.front().roles.size()) return nullptr;
  std::size_t index = 0;
  std::size_t scale = 1;
  for (const PlanOperand& operand : operands) {
    index += scale * code_of(operand);
    scale *= code_count;
  }
  if (accumulator_dtype == nullptr) return plans_[index];
  if (accumulator_dtype == &dtypes::Float32) return plans_[index + scale];
  return accumulator_dtype == &dtypes::Float64 ? plans_[index + 2 * scale] : nullptr;
}

const OperationPlan& OperationSpec::resolve(std::span<const PlanOperand> operands,
                                            const DType* accumulator_dtype) const {
  if (const OperationPlan* plan = look_up(operands, accumulator_dtype)) [[likely]]
    return *plan;
  refuse(operands, accumulator_dtype);
}

namespace {

std::string signature_of(std::span<const OperandRole> roles) {
  std::string out;
  for (const OperandRole role : roles) out += text(out.empty() ? "" : ", ", value_of(role));
  return text('(', out, ')');
}

std::string names_of(std::span<const DType* const> dtypes) {
  std::string out;
  for (const DType* dtype : dtypes) out += text(out.empty() ? "" : ", ", dtype->name());
  return out;
}

const OperationOverload& matching_overload(const OperationSpec& spec, std::span<const PlanOperand> operands) {
  std::vector<OperandRole> roles;
  std::ranges::transform(operands, std::back_inserter(roles), role_of);
  const auto found = std::ranges::find(spec.overloads(), roles, &OperationOverload::roles);
  if (found != spec.overloads().end()) return *found;
  std::string allowed;
  for (const OperationOverload& overload : spec.overloads())
    allowed += text(allowed.empty() ? "" : " or ", signature_of(overload.roles));
  raise<TypeError>(public_name(spec.name()), "cannot be called with operands ", signature_of(roles),
                   "; it takes ", allowed);
}

// P7, first match.
void check_tensor_dtype(const OperationSpec& spec, const DType& dtype, std::span<const DType* const> domain,
                        std::size_t position) {
  const std::string_view name = public_name(spec.name());
  const std::string where = text("operand ", position, " has dtype ", dtype.name());
  if (dtype.is_compound())
    raise<NotImplementedError>(name, where, ", a compound; operations compute on ", names_of(domain),
                               "; decode the planes first");
  if (!dtype.is_simple()) raise<TypeError>(name, where, ", which is abstract; use one of ", names_of(domain));
  if (std::ranges::find(domain, &dtype) != domain.end()) return;
  if (code_of(dtype) == no_code || &dtype == &dtypes::Bool)
    raise<NotImplementedError>(name, where, ", on which it is not implemented; use one of ",
                               names_of(domain));
  raise<TypeError>(name, where, "; use one of ", names_of(domain));
}

}  // namespace

void OperationSpec::refuse(std::span<const PlanOperand> operands, const DType* accumulator_dtype) const {
  if (accumulator_dtype != nullptr) static_cast<void>(OperationExecutionOptions(name_, accumulator_dtype));
  const OperationOverload& overload = matching_overload(*this, operands);
  std::vector<const DType*> tensor_dtypes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto* dtype = std::get_if<std::reference_wrapper<const DType>>(&operands[i]);
    if (dtype == nullptr) continue;
    check_tensor_dtype(*this, *dtype, overload.tensor_domains[tensor_dtypes.size()], i);
    tensor_dtypes.push_back(&dtype->get());
  }
  if (breaks_same_dtype(overload, tensor_dtypes))
    raise<TypeError>(name_, "the tensor operands differ in dtype: ", names_of(tensor_dtypes),
                     "; convert them to one dtype first");
  if (accumulator_dtype != nullptr && look_up(operands, nullptr) != nullptr)
    raise<TypeError>(name_, "accumulates exactly over the integers for ", names_of(tensor_dtypes),
                     ": accumulator ", accumulator_dtype->name(),
                     " is a floating one; leave accumulator_dtype out");
  raise<OverflowError>(
      name_, "an integer scalar leaves Int32; use a value between -2147483648 and 2147483647, or a float");
}

const DType* requested_accumulator(std::string_view operation, const ResolveOptions& options) {
  if (options.options == nullptr) {
    if (options.accumulator_dtype == nullptr) return nullptr;
    return operation_execution_options(operation, {.accumulator_dtype = options.accumulator_dtype})
        .accumulator_dtype();
  }
  if (options.options->operation() != operation)
    raise<ValueError>("operation plan", "the options belong to '", options.options->operation(),
                      "', the operation is '", operation, "'; make options for this operation");
  if (options.accumulator_dtype != nullptr)
    raise<TypeError>("operation plan", "options and accumulator_dtype are both given; give one of them");
  return options.options->accumulator_dtype();
}

const OperationPlan& resolve_operation_plan(std::string_view operation, std::span<const PlanOperand> operands,
                                            const ResolveOptions& options) {
  const DType* accumulator = requested_accumulator(operation, options);
  return operation_spec(operation).resolve(operands, accumulator);
}

std::span<const DType* const> supported_tensor_dtypes() { return planned_dtypes().first(2); }

std::span<const Scalar> weak_scalar_probes() {
  static const std::array<Scalar, 3> probes{Scalar(3), Scalar(-1), Scalar(0.5)};
  return probes;
}

namespace {

// The product of the allowed dtypes and the scalars over an overload's operands, first operand slowest.
std::vector<std::vector<PlanOperand>> combinations_of(const OperationOverload& overload,
                                                      std::span<const DType* const> tensor_dtypes,
                                                      std::span<const Scalar> weak_scalars) {
  std::vector<std::vector<PlanOperand>> combinations(1);
  std::vector<std::vector<const DType*>> dtypes(1);  // parallel: the tensor dtypes of each combination
  std::size_t tensor = 0;
  for (const OperandRole role : overload.roles) {
    std::vector<std::vector<PlanOperand>> wider;
    std::vector<std::vector<const DType*>> wider_dtypes;
    const auto extend = [&](std::size_t i, const PlanOperand& operand, const DType* dtype) {
      wider.push_back(combinations[i]);
      wider.back().push_back(operand);
      wider_dtypes.push_back(dtypes[i]);
      if (dtype != nullptr) wider_dtypes.back().push_back(dtype);
    };
    for (std::size_t i = 0; i < combinations.size(); ++i) {
      if (role == OperandRole::WeakScalar)
        for (const Scalar& scalar : weak_scalars) extend(i, scalar, nullptr);
      else
        for (const DType* dtype : tensor_dtypes)
          if (std::ranges::find(overload.tensor_domains[tensor], dtype) !=
              overload.tensor_domains[tensor].end())
            extend(i, std::cref(*dtype), dtype);
    }
    if (role == OperandRole::Tensor) ++tensor;
    combinations = std::move(wider);
    dtypes = std::move(wider_dtypes);
  }
  std::vector<std::vector<PlanOperand>> kept;
  for (std::size_t i = 0; i < combinations.size(); ++i)
    if (!breaks_same_dtype(overload, dtypes[i])) kept.push_back(std::move(combinations[i]));
  return kept;
}

}  // namespace

std::vector<const OperationPlan*> resolvable_plans(std::span<const DType* const> tensor_dtypes,
                                                   std::span<const Scalar> weak_scalars) {
  std::vector<const OperationPlan*> plans;
  std::vector<bool> seen(PlanRegistry::get().plan_count() + 1);
  const auto add = [&](const OperationPlan& plan) {
    if (seen[plan.builtin_number()]) return;
    seen[plan.builtin_number()] = true;
    plans.push_back(&plan);
  };
  for (const OperationSpec& spec : registered_operations())
    for (const OperationOverload& overload : spec.overloads())
      for (const std::vector<PlanOperand>& operands :
           combinations_of(overload, tensor_dtypes, weak_scalars)) {
        const OperationPlan& plan = spec.resolve(operands);
        add(plan);
        if (!is_accumulator_configurable(spec.name()) || plan.accumulation != Accumulation::Floating)
          continue;
        for (const DType* accumulator : supported_accumulator_dtypes())
          add(spec.resolve(operands, accumulator));
      }
  return plans;
}

std::vector<OperationPlan> plan_accumulator_variants(const OperationPlan& plan) {
  std::vector<OperationPlan> variants{plan};
  if (!is_accumulator_configurable(plan.operation) || plan.accumulation != Accumulation::Floating)
    return variants;
  for (const DType* accumulator : supported_accumulator_dtypes())
    if (accumulator != plan.accumulator_dtype)
      variants.emplace_back(plan.operation, plan.operands, plan.compute, plan.accumulation, accumulator,
                            plan.output);
  return variants;
}

}  // namespace orlop::inline v0
