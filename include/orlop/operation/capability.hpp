// Capabilities (P20–P31): which plans a carrier class can execute, and the gate that every operation passes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_set>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/base/export.hpp"
#include "orlop/operation/plan.hpp"
#include "orlop/storage/carrier_class.hpp"

namespace orlop::inline v0 {

class Carrier;
class CarrierFacet;
class InvocationExecutor;
struct MoveRoute;

/// One plan that a class declares it can execute (P20). Holds no executor.
class ORLOP_API OperationCapability final : public OperationShape<OperandCapability> {
 public:
  /// ValueError where there is no operand.
  OperationCapability(std::string operation_name, std::vector<OperandCapability> operand_shapes,
                      Arithmetic arithmetic, std::optional<Accumulation> combination,
                      const DType* accumulator, const DType& result);

  /// Copies every field of `plan`.
  [[nodiscard]] static OperationCapability from_plan(const OperationPlan& plan);
  /// Whether every field agrees with `plan`, dtypes by identity (P21).
  [[nodiscard]] bool matches(const OperationPlan& plan) const noexcept { return same_fields(*this, plan); }

  friend bool operator==(const OperationCapability& a, const OperationCapability& b) noexcept {
    return same_fields(a, b);
  }
};

/// The capabilities of one class, or of one dependent carrier: immutable, in P26 order, without repeats.
class ORLOP_API CapabilitySet : public std::enable_shared_from_this<CapabilitySet> {
 public:
  using Entry = std::shared_ptr<const OperationCapability>;

  /// Sorts `entries`. Errors: ValueError for two equal ones, TypeError for a null one.
  explicit CapabilitySet(std::vector<Entry> entries);
  [[nodiscard]] static std::shared_ptr<const CapabilitySet> make(std::vector<Entry> entries);
  [[nodiscard]] static std::shared_ptr<const CapabilitySet> make(
      std::span<const OperationCapability> entries);
  /// Every plan of `resolvable_plans((F, I, B))`; one set, shared by whoever can execute them all (P30).
  [[nodiscard]] static const std::shared_ptr<const CapabilitySet>& of_every_plan();

  CapabilitySet(const CapabilitySet&) = delete;
  CapabilitySet& operator=(const CapabilitySet&) = delete;
  ~CapabilitySet() = default;

  /// The stored entry that matches `plan`, or null. One load for the plans of the registry.
  [[nodiscard]] const OperationCapability* find(const OperationPlan& plan) const noexcept {
    const std::uint32_t number = plan.builtin_number();
    if (number == 0) return find_by_value(plan);
    return number < by_number_.size() ? by_number_[number] : nullptr;
  }
  [[nodiscard]] std::span<const Entry> sorted() const noexcept { return entries_; }
  /// The entries whose output passes `accepts`, which is asked once per dtype. Equal answers give one shared
  /// set; this very set where all pass.
  [[nodiscard]] std::shared_ptr<const CapabilitySet> where_output(
      const std::function<bool(const DType&)>& accepts) const;
  /// The entries of one operation name, in P26 order.
  [[nodiscard]] std::span<const Entry> named(std::string_view operation) const noexcept;

 private:
  struct Hash {
    using is_transparent = void;
    template <class Operand>
    std::size_t operator()(const OperationShape<Operand>* shape) const noexcept {
      return shape->hash();
    }
  };
  struct Equal {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const OperationShape<A>* a, const OperationShape<B>* b) const noexcept {
      return same_fields(*a, *b);
    }
  };

  [[nodiscard]] const OperationCapability* find_by_value(const OperationPlan& plan) const noexcept;

  std::vector<Entry> entries_;
  std::unordered_set<const OperationCapability*, Hash, Equal> by_value_;
  std::vector<const OperationCapability*> by_number_;  // by builtin_number() of the plan
  std::vector<const DType*> outputs_;                  // each once
  mutable std::mutex filtered_mutex_;
  mutable std::map<std::vector<const DType*>, std::shared_ptr<const CapabilitySet>> filtered_;  // by outputs
};

/// Why a plan is refused (P28).
enum class RefusalKind : std::uint8_t {
  Operation,   ///< nothing of that name is advertised
  Shape,       ///< the name is, this plan is not
  Invocation,  ///< the plan is, but every extension candidate declined
};
/// "operation", "shape" or "invocation".
ORLOP_API std::string_view value_of(RefusalKind kind) noexcept;

/// A carrier does not advertise a plan, or no operation that a call names. Nothing has been allocated yet.
class ORLOP_API UnsupportedOperationPlan : public NotImplementedError {
 public:
  UnsupportedOperationPlan(RefusalKind kind, CarrierClass carrier_class, const OperationPlan& plan,
                           const std::string& what);
  /// For a refusal before there is a plan: dispatch of a name, a call without a Tensor.
  UnsupportedOperationPlan(RefusalKind kind, CarrierClass carrier_class, const std::string& what);
  ~UnsupportedOperationPlan() override;

  [[nodiscard]] bool has_plan() const noexcept { return plan_ != nullptr; }
  /// The refused plan; only where there is one.
  [[nodiscard]] const OperationPlan& plan() const noexcept { return *plan_; }
  [[nodiscard]] CarrierClass carrier_class() const noexcept { return carrier_class_; }
  [[nodiscard]] RefusalKind kind() const noexcept { return kind_; }

 private:
  std::shared_ptr<const OperationPlan> plan_;
  CarrierClass carrier_class_;
  RefusalKind kind_;
};

/// Declares, once and for good, what exactly `carrier_class` can execute (P23). All or nothing. Errors:
/// TypeError for Carrier itself, a dependent, shipped or defined class, or one already declared or observed;
/// ValueError for two equal entries.
ORLOP_API void register_operation_capabilities(CarrierClass carrier_class,
                                               std::vector<CapabilitySet::Entry> entries);
ORLOP_API void register_operation_capabilities(CarrierClass carrier_class,
                                               std::span<const OperationCapability> entries);

namespace detail {

/// TypeError unless `carrier_class` may still declare capabilities.
ORLOP_API void check_capabilities_open(CarrierClass carrier_class);

using CapabilitySource = std::function<std::shared_ptr<const CapabilitySet>()>;
/// A shipped class advertises what `source` returns, asked at the first query. Without this call: nothing.
ORLOP_API void declare_shipped_capabilities(CarrierClass carrier_class, CapabilitySource source);

/// What a CarrierDefinition says to the layers below extension, which alone makes these.
class ORLOP_API DefinedClass {
 public:
  DefinedClass() = default;
  DefinedClass(const DefinedClass&) = delete;
  DefinedClass& operator=(const DefinedClass&) = delete;
  virtual ~DefinedClass();
  /// The class is observed now: what it advertises for good. Called once, under the registry's lock, so it
  /// runs no user code.
  [[nodiscard]] virtual std::shared_ptr<const CapabilitySet> freeze() = 0;
  /// What runs its operations; null where the class has said so itself.
  [[nodiscard]] virtual const InvocationExecutor* executor() const noexcept { return nullptr; }
  /// The exact route to another class; without a maker where there is none (S414).
  [[nodiscard]] virtual MoveRoute route_to(CarrierClass destination_class) const = 0;
  /// Whether values may be copied one by one where there is no route.
  [[nodiscard]] virtual bool copies_elementwise() const noexcept = 0;
  /// The facet of exactly this type, or null.
  [[nodiscard]] virtual const CarrierFacet* facet(const std::type_info& type) const noexcept = 0;
};

/// Gives a class its definition, which then lives as long as the process. Errors: TypeError where
/// capabilities were already declared by hand, the class was already observed, or it already has a definition
/// (X7).
ORLOP_API void define_class(CarrierClass carrier_class, std::unique_ptr<DefinedClass> defined);
/// Runs `change` under the registry's lock with the definition of the class, if any, and whether the class is
/// observed. No user code may run and no reference be dropped in it.
ORLOP_API void change_defined_class(CarrierClass carrier_class,
                                    const std::function<void(DefinedClass*, bool is_observed)>& change);
/// A class is used: an instance is constructed, a name dispatched, a route looked up. No definition of it can
/// come any more, and one that it has is frozen with its packs (X8). Says nothing about capabilities declared
/// by hand (P24).
ORLOP_API void observe_class(CarrierClass carrier_class);
/// Replaces every set by a copy that shares nothing with whoever registered it; for a binding's exit.
ORLOP_API void detach_capabilities();

/// Observes the class (P24) and gives its set; empty for what is not an independent concrete class.
ORLOP_API const CapabilitySet& observe_capabilities(CarrierClass carrier_class);

[[nodiscard]] inline const CapabilitySet& capabilities_of(CarrierClass carrier_class) {
  if (const CarrierClass::Record* record = carrier_class.record())
    if (const CapabilitySet* set = record->capabilities.load(std::memory_order_acquire)) return *set;
  return observe_capabilities(carrier_class);
}

/// What this carrier advertises: the set of its class, or of itself where it is dependent (P27).
ORLOP_API const CapabilitySet& capabilities_of(const Carrier& carrier);

/// The P28 text about the class of this name, or empty where `plan` is in `set`.
ORLOP_API std::string unsupported_reason(std::string_view class_name, const CapabilitySet& set,
                                         const OperationPlan& plan);
ORLOP_API RefusalKind refusal_kind(const CapabilitySet& set, const OperationPlan& plan);
[[noreturn]] ORLOP_API void refuse_plan(CarrierClass carrier_class, const CapabilitySet& set,
                                        const OperationPlan& plan);

}  // namespace detail

// --- P25: queries about exact classes. The first one about an undeclared class seals it empty.
// --------------

/// In P26 order, of one name or (absent) of all.
ORLOP_API std::vector<CapabilitySet::Entry> capabilities_for_carrier_class(
    CarrierClass carrier_class, std::optional<std::string_view> operation = std::nullopt);
/// The stored entry, or null.
[[nodiscard]] inline const OperationCapability* matching_capability(CarrierClass carrier_class,
                                                                    const OperationPlan& plan) {
  return detail::capabilities_of(carrier_class).find(plan);
}
[[nodiscard]] inline bool supports_operation_plan(CarrierClass carrier_class, const OperationPlan& plan) {
  return matching_capability(carrier_class, plan) != nullptr;
}
/// Nothing where the plan is supported, otherwise the P28 text.
ORLOP_API std::optional<std::string> unsupported_plan_reason(CarrierClass carrier_class,
                                                             const OperationPlan& plan);
/// The stored entry, or UnsupportedOperationPlan with the P28 text.
inline const OperationCapability& require_capability(CarrierClass carrier_class, const OperationPlan& plan) {
  const CapabilitySet& set = detail::capabilities_of(carrier_class);
  if (const OperationCapability* entry = set.find(plan)) [[likely]]
    return *entry;
  detail::refuse_plan(carrier_class, set, plan);
}

}  // namespace orlop::inline v0
