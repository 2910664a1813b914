// The members of Carrier that look for facets.
#include "orlop/extension/facet.hpp"

#include "orlop/operation/capability.hpp"
#include "storage/type_name.hpp"

namespace orlop::inline v0 {

CarrierFacet::~CarrierFacet() = default;

const CarrierFacet* Carrier::find_facet(const std::type_info& type) const {
  const auto* defined = carrier_class().record()->definition.load(std::memory_order_acquire);
  return defined == nullptr ? nullptr : defined->facet(type);
}

const CarrierFacet& Carrier::find_required_facet(const std::type_info& type) const {
  if (const CarrierFacet* facet = find_facet(type)) return *facet;
  raise<NotImplementedError>(carrier_class().name(), "the carrier offers no facet ", short_name(type),
                             "; a facet is found by its exact class");
}

}  // namespace orlop::inline v0
