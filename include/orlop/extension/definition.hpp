// CarrierDefinition: everything that a carrier class from outside the library says about itself, registered
// once for the exact class (X6-X8).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "orlop/extension/composite.hpp"
#include "orlop/extension/facet.hpp"
#include "orlop/extension/kernel.hpp"
#include "orlop/extension/storage_provider.hpp"
#include "orlop/extension/transfer.hpp"

namespace orlop::inline v0 {

/// How the slots are kept, what computes, which routes lead away, which facets there are. The objects in it
/// are immutable and live as long as the process once they are registered.
struct ORLOP_API CarrierDefinition {
  std::shared_ptr<const StorageProvider> storage;
  std::optional<KernelProvider> kernels{};  ///< absent: storage-only, or a composite
  std::vector<TransferRoute> transfers{};
  std::shared_ptr<const CompositeProvider> composite{};  ///< of a DependentCarrier, and only of one
  std::vector<std::shared_ptr<const CarrierFacet>> facets{};

  /// TypeError for a missing storage, an incomplete route or a null facet; ValueError ‹duplicate exact
  /// transfer routes›, ‹duplicate exact facet types›.
  void validate() const;
};

/// Gives an exact class its definition, all or nothing, once, before the first use of the class. Errors, all
/// TypeError: a shipped class, a route from another class, a DependentCarrier without composite or with
/// kernels, another class with a composite, capabilities already declared by hand, a class already observed
/// or defined (X7); and those of `validate()`.
ORLOP_API void register_carrier_definition(CarrierClass carrier_class, CarrierDefinition definition);

}  // namespace orlop::inline v0
