// Capability records, sets and the registry of exact carrier classes (P20–P31).
#include "orlop/operation/capability.hpp"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "operation/dispatch.hpp"
#include "operation/plan_table.hpp"
#include "orlop/base/forever.hpp"
#include "orlop/dtype/dtype.hpp"

namespace orlop::inline v0 {

// --- Records ----------------------------------------------------------------------------------------------

OperationCapability::OperationCapability(std::string operation_name,
                                         std::vector<OperandCapability> operand_shapes, Arithmetic arithmetic,
                                         std::optional<Accumulation> combination, const DType* accumulator,
                                         const DType& result)
    : OperationShape(std::move(operation_name), std::move(operand_shapes), arithmetic, combination,
                     accumulator, result) {
  if (operands.empty())
    raise<ValueError>("operation capability", "'", operation,
                      "' has no operand; an operation has at least one");
}

namespace {

// The same operands as the other kind of record.
template <class To>
std::vector<To> operands_as(const auto& operands) {
  std::vector<To> copies;
  copies.reserve(operands.size());
  for (const OperandShape& operand : operands)
    copies.emplace_back(operand.role, operand.dtype, operand.convert_to);
  return copies;
}

}  // namespace

OperationCapability OperationCapability::from_plan(const OperationPlan& plan) {
  OperationCapability capability(plan.operation, operands_as<OperandCapability>(plan.operands), plan.compute,
                                 plan.accumulation, plan.accumulator_dtype, plan.output);
  capability.builtin_number_ = plan.builtin_number();
  return capability;
}

// --- Sets -------------------------------------------------------------------------------------------------

namespace {

std::string_view name_or_empty(const DType* dtype) {
  return dtype == nullptr ? std::string_view() : dtype->name();
}

template <class Operand>
std::string operands_text(const std::vector<Operand>& operands) {
  std::string out;
  for (const OperandShape& operand : operands)
    out += text(out.empty() ? "" : "|", value_of(operand.role), ':', name_or_empty(operand.dtype), ':',
                operand.convert_to.name());
  return out;
}

std::string_view accumulation_text(const std::optional<Accumulation>& accumulation) {
  return accumulation ? value_of(*accumulation) : std::string_view();
}

// P26. Bytes of UTF-8 compare as their code points do.
struct SortKey {
  std::string_view operation;
  std::string operands;
  std::string_view compute;
  std::string_view accumulation;
  std::string_view accumulator;
  std::string_view output;
  auto operator<=>(const SortKey&) const = default;
};

SortKey sort_key(const OperationCapability& entry) {
  return {entry.operation,
          operands_text(entry.operands),
          value_of(entry.compute),
          accumulation_text(entry.accumulation),
          name_or_empty(entry.accumulator_dtype),
          entry.output.name()};
}

std::vector<CapabilitySet::Entry> sorted_entries(std::vector<CapabilitySet::Entry> entries) {
  if (std::ranges::find(entries, nullptr) != entries.end())
    raise<TypeError>("operation capabilities", "an entry is null; every entry is an OperationCapability");
  std::vector<std::pair<SortKey, CapabilitySet::Entry>> keyed;
  keyed.reserve(entries.size());
  for (CapabilitySet::Entry& entry : entries) keyed.emplace_back(sort_key(*entry), std::move(entry));
  std::ranges::sort(keyed, {}, [](const auto& pair) -> const SortKey& { return pair.first; });
  std::ranges::transform(keyed, entries.begin(), [](auto& pair) { return std::move(pair.second); });
  return entries;
}

std::uint32_t builtin_number_of(const OperationCapability& entry) {
  if (entry.builtin_number() != 0) return entry.builtin_number();
  return find_builtin_number(OperationPlan(entry.operation, operands_as<OperandPlan>(entry.operands),
                                           entry.compute, entry.accumulation, entry.accumulator_dtype,
                                           entry.output));
}

}  // namespace

CapabilitySet::CapabilitySet(std::vector<Entry> entries) : entries_(sorted_entries(std::move(entries))) {
  if (entries_.empty()) return;
  by_number_.resize(builtin_plan_count() + 1);
  for (const Entry& entry : entries_) {
    if (!by_value_.insert(entry.get()).second)
      raise<ValueError>("operation capabilities", "two entries for '", entry->operation,
                        "' are equal: ", operands_text(entry->operands), "; give each shape once");
    if (const std::uint32_t number = builtin_number_of(*entry)) by_number_[number] = entry.get();
    if (std::ranges::find(outputs_, &entry->output) == outputs_.end()) outputs_.push_back(&entry->output);
  }
}

std::shared_ptr<const CapabilitySet> CapabilitySet::make(std::vector<Entry> entries) {
  return std::make_shared<const CapabilitySet>(std::move(entries));
}

std::shared_ptr<const CapabilitySet> CapabilitySet::make(std::span<const OperationCapability> entries) {
  std::vector<Entry> shared;
  shared.reserve(entries.size());
  for (const OperationCapability& entry : entries)
    shared.push_back(std::make_shared<const OperationCapability>(entry));
  return make(std::move(shared));
}

const std::shared_ptr<const CapabilitySet>& CapabilitySet::of_every_plan() {
  static const std::shared_ptr<const CapabilitySet> set = [] {
    std::vector<Entry> entries;
    const std::array<const DType*, 3> every{&dtypes::Float32, &dtypes::Int32, &dtypes::Bool};
    for (const OperationPlan* plan : resolvable_plans(every))
      entries.push_back(std::make_shared<const OperationCapability>(OperationCapability::from_plan(*plan)));
    return make(std::move(entries));
  }();
  return set;
}

std::shared_ptr<const CapabilitySet> CapabilitySet::where_output(
    const std::function<bool(const DType&)>& accepts) const {
  std::vector<const DType*> accepted;
  std::ranges::copy_if(outputs_, std::back_inserter(accepted),
                       [&](const DType* output) { return accepts(*output); });
  if (accepted.size() == outputs_.size()) return shared_from_this();
  const std::lock_guard lock(filtered_mutex_);
  std::shared_ptr<const CapabilitySet>& filtered = filtered_[accepted];
  if (filtered == nullptr) {
    std::vector<Entry> kept;
    std::ranges::copy_if(entries_, std::back_inserter(kept), [&](const Entry& entry) {
      return std::ranges::find(accepted, &entry->output) != accepted.end();
    });
    filtered = make(std::move(kept));
  }
  return filtered;
}

const OperationCapability* CapabilitySet::find_by_value(const OperationPlan& plan) const noexcept {
  const auto found = by_value_.find(&plan);
  return found == by_value_.end() ? nullptr : *found;
}

std::span<const CapabilitySet::Entry> CapabilitySet::named(std::string_view operation) const noexcept {
  const auto range = std::ranges::equal_range(
      entries_, operation, {}, [](const Entry& entry) -> std::string_view { return entry->operation; });
  return {range.begin(), range.end()};
}

// --- Refusal ----------------------------------------------------------------------------------------------

std::string_view value_of(RefusalKind kind) noexcept {
  static constexpr std::string_view values[] = {"operation", "shape", "invocation"};
  return values[static_cast<std::size_t>(kind)];
}

UnsupportedOperationPlan::UnsupportedOperationPlan(RefusalKind kind, CarrierClass carrier_class,
                                                   const OperationPlan& plan, const std::string& what)
    : NotImplementedError(what),
      plan_(std::make_shared<const OperationPlan>(plan)),
      carrier_class_(carrier_class),
      kind_(kind) {}

UnsupportedOperationPlan::UnsupportedOperationPlan(RefusalKind kind, CarrierClass carrier_class,
                                                   const std::string& what)
    : NotImplementedError(what), carrier_class_(carrier_class), kind_(kind) {}

UnsupportedOperationPlan::~UnsupportedOperationPlan() = default;

namespace {

std::string or_none(std::string_view name) { return std::string(name.empty() ? "none" : name); }

}  // namespace

RefusalKind detail::refusal_kind(const CapabilitySet& set, const OperationPlan& plan) {
  return set.named(plan.operation).empty() ? RefusalKind::Operation : RefusalKind::Shape;
}

std::string detail::unsupported_reason(std::string_view class_name, const CapabilitySet& set,
                                       const OperationPlan& plan) {
  if (set.find(plan) != nullptr) return {};
  if (refusal_kind(set, plan) == RefusalKind::Operation)
    return message(class_name, "does not support the operation '", described_name(plan.operation),
                   "': it advertises no plan of that name; move the operands to a carrier that does");
  return message(class_name, "supports '", described_name(plan.operation), "', but not this plan: operands ",
                 operands_text(plan.operands), " (role:dtype:conversion), compute ", value_of(plan.compute),
                 ", accumulation ", or_none(accumulation_text(plan.accumulation)), ", accumulator ",
                 or_none(name_or_empty(plan.accumulator_dtype)), ", output ", plan.output.name(),
                 "; operation_capabilities() lists what it does");
}

void detail::refuse_plan(CarrierClass carrier_class, const CapabilitySet& set, const OperationPlan& plan) {
  throw UnsupportedOperationPlan(refusal_kind(set, plan), carrier_class, plan,
                                 unsupported_reason(carrier_class.name(), set, plan));
}

// --- The registry of classes ------------------------------------------------------------------------------

namespace {

const std::shared_ptr<const CapabilitySet>& no_capabilities() {
  static const auto set = std::make_shared<const CapabilitySet>(std::vector<CapabilitySet::Entry>());
  return set;
}

enum class Origin { Undeclared, Declared, Shipped, Defined, Sealed };

struct Registration {
  Origin origin = Origin::Undeclared;
  detail::CapabilitySource source{};                // of a shipped class, until the first query
  std::unique_ptr<detail::DefinedClass> defined{};  // of a class with a CarrierDefinition
  std::shared_ptr<const CapabilitySet> set{};       // once it is known
};

// Guards the map; the set of a class is published in its record and then read without the lock.
class CapabilityRegistry {
 public:
  static CapabilityRegistry& get() {
    static Forever<CapabilityRegistry> registry;
    return *registry;
  }

  void check_open(CarrierClass carrier_class) {
    const std::lock_guard lock(mutex_);
    check_open_locked(carrier_class);
  }

  void declare(CarrierClass carrier_class, std::shared_ptr<const CapabilitySet> set) {
    const std::lock_guard lock(mutex_);
    check_open_locked(carrier_class);
    Registration& registration = registrations_[carrier_class];
    registration.origin = Origin::Declared;
    publish(carrier_class, registration, std::move(set));
  }

  void declare_shipped(CarrierClass carrier_class, detail::CapabilitySource source) {
    const std::lock_guard lock(mutex_);
    Registration& registration = registrations_[carrier_class];
    registration.origin = Origin::Shipped;
    registration.source = std::move(source);
  }

  void define(CarrierClass carrier_class, std::unique_ptr<detail::DefinedClass>& defined) {
    const std::lock_guard lock(mutex_);
    Registration& registration = registrations_[carrier_class];
    const auto refuse = [&](std::string_view why) {
      raise<TypeError>("carrier definition", carrier_class.name(), ' ', why,
                       "; register its definition once, before anything else uses the class");
    };
    const bool is_observed = carrier_class.record()->is_observed;
    if (registration.origin == Origin::Defined)
      refuse(is_observed ? "was already observed and already has a CarrierDefinition"
                         : describe(Origin::Defined));
    if (registration.origin == Origin::Declared || registration.origin == Origin::Sealed)
      refuse(describe(registration.origin));
    if (is_observed) refuse(describe(Origin::Sealed));
    registration.origin = Origin::Defined;
    registration.defined = std::move(defined);
    if (const InvocationExecutor* executor = registration.defined->executor())
      carrier_class.record()->executor.store(executor, std::memory_order_release);
    carrier_class.record()->definition.store(registration.defined.get(), std::memory_order_release);
  }

  void change(CarrierClass carrier_class, const std::function<void(detail::DefinedClass*, bool)>& change) {
    const std::lock_guard lock(mutex_);
    const auto found = registrations_.find(carrier_class);
    change(found == registrations_.end() ? nullptr : found->second.defined.get(),
           carrier_class.record()->is_observed);
  }

  void note_use(CarrierClass carrier_class) {
    const std::lock_guard lock(mutex_);
    note_use_locked(carrier_class, registrations_[carrier_class]);
  }

  const CapabilitySet& observe(CarrierClass carrier_class) {
    std::unique_lock lock(mutex_);
    Registration& registration = registrations_[carrier_class];  // stays where it is
    note_use_locked(carrier_class, registration);
    if (registration.origin == Origin::Undeclared) {
      registration.origin = Origin::Sealed;
      publish(carrier_class, registration, no_capabilities());
    }
    if (registration.set != nullptr) return *registration.set;
    const detail::CapabilitySource source = registration.source;
    lock.unlock();  // a source may run code that asks about other classes
    std::shared_ptr<const CapabilitySet> set = source();
    lock.lock();
    if (registration.set == nullptr) publish(carrier_class, registration, std::move(set));
    return *registration.set;
  }

  void detach() {
    const std::lock_guard lock(mutex_);
    for (auto& [carrier_class, registration] : registrations_) {
      if (registration.origin != Origin::Declared) continue;
      std::vector<OperationCapability> copies;
      for (const CapabilitySet::Entry& entry : registration.set->sorted()) copies.push_back(*entry);
      publish(carrier_class, registration, CapabilitySet::make(copies));
    }
  }

 private:
  static std::string_view describe(Origin origin) {
    switch (origin) {
      case Origin::Declared:
        return "has already declared its capabilities by hand";
      case Origin::Sealed:
        return "was already observed";
      case Origin::Defined:
        return "already has a CarrierDefinition";
      case Origin::Shipped:
      case Origin::Undeclared:
        break;
    }
    return "is a shipped class";
  }

  void check_open_locked(CarrierClass carrier_class) const {
    constexpr std::string_view what = "register_operation_capabilities";
    if (!carrier_class) raise<TypeError>(what, "no carrier class is given; declare the exact concrete class");
    if (carrier_class.is_shipped())
      raise<TypeError>(what, carrier_class.name(), " is a shipped class; declare a class of your own");
    if (carrier_class.is_defined())
      raise<TypeError>(what, carrier_class.name(), ' ', describe(Origin::Defined),
                       "; its kernels and packs say what it can execute");
    if (carrier_class.is_dependent())
      raise<TypeError>(what, carrier_class.name(),
                       " is a DependentCarrier, whose capabilities belong to each instance",
                       "; implement _generate_operation_capabilities()");
    if (const auto found = registrations_.find(carrier_class);
        found != registrations_.end() && found->second.origin != Origin::Undeclared)
      raise<TypeError>(what, carrier_class.name(), ' ', describe(found->second.origin),
                       "; declare once, before the first query");
  }

  static void note_use_locked(CarrierClass carrier_class, Registration& registration) {
    if (carrier_class.record()->is_observed) return;
    if (registration.defined != nullptr) publish(carrier_class, registration, registration.defined->freeze());
    carrier_class.record()->is_observed.store(true, std::memory_order_release);
  }

  static void publish(CarrierClass carrier_class, Registration& registration,
                      std::shared_ptr<const CapabilitySet> set) {
    registration.set = std::move(set);
    registration.source = nullptr;
    carrier_class.record()->capabilities.store(registration.set.get(), std::memory_order_release);
  }

  std::mutex mutex_;
  std::unordered_map<CarrierClass, Registration> registrations_;
};

}  // namespace

void register_operation_capabilities(CarrierClass carrier_class, std::vector<CapabilitySet::Entry> entries) {
  detail::check_capabilities_open(carrier_class);
  CapabilityRegistry::get().declare(carrier_class, CapabilitySet::make(std::move(entries)));
}

void register_operation_capabilities(CarrierClass carrier_class,
                                     std::span<const OperationCapability> entries) {
  detail::check_capabilities_open(carrier_class);
  CapabilityRegistry::get().declare(carrier_class, CapabilitySet::make(entries));
}

void detail::check_capabilities_open(CarrierClass carrier_class) {
  CapabilityRegistry::get().check_open(carrier_class);
}

void detail::declare_shipped_capabilities(CarrierClass carrier_class, CapabilitySource source) {
  CapabilityRegistry::get().declare_shipped(carrier_class, std::move(source));
}

detail::DefinedClass::~DefinedClass() = default;

void detail::define_class(CarrierClass carrier_class, std::unique_ptr<DefinedClass> defined) {
  CapabilityRegistry::get().define(carrier_class, defined);
}

void detail::change_defined_class(CarrierClass carrier_class,
                                  const std::function<void(DefinedClass*, bool)>& change) {
  CapabilityRegistry::get().change(carrier_class, change);
}

void detail::observe_class(CarrierClass carrier_class) {
  if (carrier_class.is_shipped() || carrier_class.record()->is_observed.load(std::memory_order_acquire))
    return;
  CapabilityRegistry::get().note_use(carrier_class);
}

void detail::detach_capabilities() { CapabilityRegistry::get().detach(); }

const CapabilitySet& detail::observe_capabilities(CarrierClass carrier_class) {
  if (!carrier_class || carrier_class.is_dependent()) return *no_capabilities();
  return CapabilityRegistry::get().observe(carrier_class);
}

std::vector<CapabilitySet::Entry> capabilities_for_carrier_class(CarrierClass carrier_class,
                                                                 std::optional<std::string_view> operation) {
  const CapabilitySet& set = detail::capabilities_of(carrier_class);
  const std::span<const CapabilitySet::Entry> entries = operation ? set.named(*operation) : set.sorted();
  return {entries.begin(), entries.end()};
}

std::optional<std::string> unsupported_plan_reason(CarrierClass carrier_class, const OperationPlan& plan) {
  std::string reason =
      detail::unsupported_reason(carrier_class.name(), detail::capabilities_of(carrier_class), plan);
  return reason.empty() ? std::nullopt : std::optional(std::move(reason));
}

}  // namespace orlop::inline v0
