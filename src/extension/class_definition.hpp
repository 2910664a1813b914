// The registered form of a CarrierDefinition: what the layers below extension and the carriers themselves
// ask.
#pragma once

#include <map>
#include <span>
#include <string>

#include "extension/executor.hpp"
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
  [[nodiscard]] const InvocationExecutor* executor() const noexcept override { return &executor_; }
  [[nodiscard]] MoveRoute route_to(CarrierClass destination_class) const override;
  [[nodiscard]] bool copies_elementwise() const noexcept override {
    return definition_.storage->elementwise_fallback();
  }
  [[nodiscard]] const CarrierFacet* facet(const std::type_info& type) const noexcept override;

  /// One more pack, under the registry's lock (X15).
  void add(KernelPack pack, bool is_observed);
  /// The kernels of one operation in the order in which they are asked; from the first observation on.
  [[nodiscard]] std::span<const KernelPattern* const> candidates(const OperationDefinition& operation) const;

 private:
  void require_fitting(const KernelPack& pack, bool is_observed) const;

  CarrierClass carrier_class_;
  CarrierDefinition definition_;
  std::map<std::pair<std::string, std::string>, KernelPack> packs_;  // by namespace and version
  std::map<const OperationDefinition*, std::vector<const KernelPattern*>> candidates_;
  ClassExecutor executor_{*this};
};

/// The definition of a class, or null. Observes nothing.
[[nodiscard]] inline const ClassDefinition* find_class_definition(CarrierClass carrier_class) noexcept {
  return dynamic_cast<const ClassDefinition*>(
      carrier_class.record()->definition.load(std::memory_order_acquire));
}

}  // namespace orlop::inline v0
