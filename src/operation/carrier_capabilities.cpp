// What a carrier answers about plans (P27): an independent one from its exact class, a dependent one from the
// set frozen with the instance (P29).
#include "orlop/operation/capability.hpp"
#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

const CapabilitySet& detail::capabilities_of(const Carrier& carrier) {
  const CarrierClass exact = carrier.carrier_class();
  if (exact.is_dependent()) return static_cast<const DependentCarrier&>(carrier).capability_snapshot();
  return capabilities_of(exact);
}

std::vector<CapabilityEntry> Carrier::operation_capabilities(
    std::optional<std::string_view> operation_name) const {
  const CapabilitySet& set = detail::capabilities_of(*this);
  const auto entries = operation_name ? set.named(*operation_name) : set.sorted();
  return {entries.begin(), entries.end()};
}

bool Carrier::supports_operation_plan(const OperationPlan& plan) const {
  return detail::capabilities_of(*this).find(plan) != nullptr;
}

std::string Carrier::unsupported_plan_reason(const OperationPlan& plan) const {
  return detail::unsupported_reason(carrier_class().name(), detail::capabilities_of(*this), plan);
}

void Carrier::require_operation_plan(const OperationPlan& plan) const {
  const CapabilitySet& set = detail::capabilities_of(*this);
  if (set.find(plan) == nullptr) detail::refuse_plan(carrier_class(), set, plan);
}

const CapabilitySet& DependentCarrier::capability_snapshot() const {
  if (snapshot_ == nullptr)
    raise<RuntimeError>(carrier_class().name(),
                        "the dependent capabilities are not finalized; the constructor must ",
                        "call _finalize_dependent_capabilities last");
  return *snapshot_;
}

std::vector<CapabilityEntry> DependentCarrier::generate_operation_capabilities() const {
  raise<NotImplementedError>(carrier_class().name(),
                             "the class implements no _generate_operation_capabilities; ",
                             "return what this instance can do");
}

void DependentCarrier::finalize_dependent_capabilities() {
  require_unfinalized();
  finalize_dependent_capabilities(CapabilitySet::make(generate_operation_capabilities()));
}

void DependentCarrier::finalize_dependent_capabilities(std::shared_ptr<const CapabilitySet> capabilities) {
  require_unfinalized();
  snapshot_ = std::move(capabilities);
}

void DependentCarrier::require_unfinalized() const {
  if (snapshot_ != nullptr)
    raise<RuntimeError>(carrier_class().name(),
                        "the dependent capabilities are already finalized; they stay as they are");
}

}  // namespace orlop::inline v0
