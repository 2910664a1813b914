// CarrierFacet: what a carrier offers beyond the common interface, found by its exact type (X12).
#pragma once

#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

/// Open marker base of facets. A CarrierDefinition lists the objects of a class; `carrier.facet<F>()` and
/// `carrier.require_facet<F>()` find the one of exactly the type `F`. A facet widens neither dtypes,
/// capabilities, kernel packs nor routes.
class ORLOP_API CarrierFacet {
 public:
  CarrierFacet() = default;
  CarrierFacet(const CarrierFacet&) = delete;
  CarrierFacet& operator=(const CarrierFacet&) = delete;
  virtual ~CarrierFacet();
};

}  // namespace orlop::inline v0
