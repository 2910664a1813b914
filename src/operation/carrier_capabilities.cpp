// What a carrier answers about its capabilities (P27): an independent one for its exact class, a dependent one from
// the snapshot of its construction (P29).
#include "orlop/operation/capability.hpp"
#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

namespace {

const CapabilitySet& capabilities_of_carrier(const Carrier& carrier) {
  const CarrierClass carrier_class = carrier.carrier_class();
  if (carrier_class.is_dependent()) return static_cast<const DependentCarrier&>(carrier).capability_snapshot();
  return detail::capabilities_of(carrier_class);
}

}  // namespace

std::vector<CapabilityEntry> Carrier::operation_capabilities(std::optional<std::string_view> operation_name) const {
  const CapabilitySet& set = capabilities_of_carrier(*this);
  const auto entries = operation_name ? set.named(*operation_name) : set.sorted();
  return {entries.begin(), entries.end()};
}

bool Carrier::supports_operation_plan(const OperationPlan& plan) const {
  return capabilities_of_carrier(*this).find(plan) != nullptr;
}

std::string Carrier::unsupported_plan_reason(const OperationPlan& plan) const {
  return detail::unsupported_reason(carrier_class(), capabilities_of_carrier(*this), plan);
}

void Carrier::require_operation_plan(const OperationPlan& plan) const {
  detail::require(carrier_class(), capabilities_of_carrier(*this), plan);
}

const CapabilitySet& DependentCarrier::capability_snapshot() const {
  if (!snapshot_)
    raise<RuntimeError>(carrier_class().name(), "the dependent capabilities are not finalized; the constructor must "
                        "call _finalize_dependent_capabilities last");
  return *snapshot_;
}

std::vector<CapabilityEntry> DependentCarrier::generate_operation_capabilities() const {
  raise<NotImplementedError>(carrier_class().name(), "the class implements no _generate_operation_capabilities");
}

void DependentCarrier::finalize_dependent_capabilities() {
  if (snapshot_)
    raise<RuntimeError>(carrier_class().name(), "the dependent capabilities are already finalized; they stay as they are");
  snapshot_ = CapabilitySet::make(generate_operation_capabilities());
}

}  // namespace orlop::inline v0
