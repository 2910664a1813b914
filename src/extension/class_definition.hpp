// The registered form of a CarrierDefinition: what the layers below extension and the carriers themselves
// ask.
#pragma once

#include "orlop/extension/definition.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/capability.hpp"

namespace orlop::inline v0 {

class ClassDefinition final : public detail::DefinedClass {
 public:
  ClassDefinition(CarrierClass carrier_class, CarrierDefinition definition)
      : carrier_class_(carrier_class), definition_(std::move(definition)) {}

  [[nodiscard]] const CarrierDefinition& definition() const noexcept { return definition_; }

  [[nodiscard]] std::shared_ptr<const CapabilitySet> freeze() override;
  [[nodiscard]] MoveRoute route_to(CarrierClass destination_class) const override;
  [[nodiscard]] bool copies_elementwise() const noexcept override {
    return definition_.storage->elementwise_fallback();
  }
  [[nodiscard]] const CarrierFacet* facet(const std::type_info& type) const noexcept override;

 private:
  CarrierClass carrier_class_;
  CarrierDefinition definition_;
};

/// The definition of a class, or null. Observes nothing.
[[nodiscard]] inline const ClassDefinition* find_class_definition(CarrierClass carrier_class) noexcept {
  return dynamic_cast<const ClassDefinition*>(
      carrier_class.record()->definition.load(std::memory_order_acquire));
}

}  // namespace orlop::inline v0
