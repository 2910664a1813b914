// Registration of carrier definitions.
#include "orlop/extension/definition.hpp"

#include <set>
#include <typeindex>

#include "extension/class_definition.hpp"
#include "storage/type_name.hpp"

namespace orlop::inline v0 {

void CarrierDefinition::validate() const {
  constexpr std::string_view what = "CarrierDefinition";
  if (storage == nullptr) raise<TypeError>(what, "storage must be a StorageProvider: there is none");
  if (kernels) kernels->validate();
  for (const TransferRoute& route : transfers) route.validate();
  for (std::size_t i = 0; i < transfers.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (transfers[i].source_class == transfers[j].source_class &&
          transfers[i].destination_class == transfers[j].destination_class)
        raise<ValueError>(what, "duplicate exact transfer routes for (", transfers[i].source_class, ", ",
                          transfers[i].destination_class, "): ", transfers[j].route_id, " and ",
                          transfers[i].route_id, "; give one route per pair");
  std::set<std::type_index> types;
  for (const auto& facet : facets) {
    if (facet == nullptr) raise<TypeError>(what, "facets must be CarrierFacet objects: one is null");
    const CarrierFacet& held = *facet;
    if (!types.insert(typeid(held)).second)
      raise<ValueError>(what, "duplicate exact facet types: ", short_name(typeid(held)),
                        "; give one of each");
  }
}

const CarrierFacet* ClassDefinition::facet(const std::type_info& type) const noexcept {
  for (const auto& facet : definition_.facets)
    if (const CarrierFacet& held = *facet; typeid(held) == type) return facet.get();
  return nullptr;
}

void register_carrier_definition(CarrierClass carrier_class, CarrierDefinition definition) {
  constexpr std::string_view what = "register_carrier_definition";
  if (!carrier_class) raise<TypeError>(what, "carrier_class must be a concrete Carrier class: got none");
  definition.validate();
  const std::string_view name = carrier_class.name();
  if (carrier_class.is_shipped() && !carrier_class.is_defined())
    raise<TypeError>(what, name, " is a definition-free shipped carrier; define a class of your own");
  for (const TransferRoute& route : definition.transfers)
    if (route.source_class != carrier_class)
      raise<TypeError>(what, "the exact source_class of every route must be ", name, ": ", route.route_id,
                       " starts at ", route.source_class);
  if (carrier_class.is_dependent() && definition.composite == nullptr)
    raise<TypeError>(what, name,
                     " is a DependentCarrier, whose definition requires composite: got none; give one");
  if (carrier_class.is_dependent() && definition.kernels)
    raise<TypeError>(
        what, name,
        " is a DependentCarrier, whose definition forbids kernels; leave them out: its composite computes");
  if (!carrier_class.is_dependent() && definition.composite != nullptr)
    raise<TypeError>(what, name, " is no DependentCarrier: its definition must not supply a composite");
  detail::define_class(carrier_class,
                       std::make_unique<ClassDefinition>(carrier_class, std::move(definition)));
}

}  // namespace orlop::inline v0
