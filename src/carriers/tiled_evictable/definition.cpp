// What the class says about itself: the only shipped one with a definition, without routes, with one facet
// and the direct operations.
#include "carriers/tiled_evictable/direct.hpp"
#include "carriers/tiled_evictable/tile_store.hpp"
#include "orlop/operation/capability.hpp"

namespace orlop::inline v0 {

namespace {

class TiledClass final : public detail::DefinedClass {
 public:
  /// Each instance has its own.
  [[nodiscard]] std::shared_ptr<const CapabilitySet> freeze() override {
    return CapabilitySet::make(std::vector<CapabilitySet::Entry>());
  }
  [[nodiscard]] MoveRoute route_to(CarrierClass) const override { return {}; }
  [[nodiscard]] bool copies_elementwise() const noexcept override { return false; }
  [[nodiscard]] const CarrierFacet* facet(const std::type_info& type) const noexcept override {
    return type == typeid(TiledResidencyFacet) ? &residency_ : nullptr;
  }
  [[nodiscard]] const InvocationExecutor* executor() const noexcept override { return &direct_executor(); }

 private:
  TiledResidencyFacet residency_;
};

[[maybe_unused]] const bool is_defined = [] {
  const CarrierClass declared = detail::declare_shipped_class(typeid(TiledEvictable), "TiledEvictable", true);
  detail::define_class(declared, std::make_unique<TiledClass>());
  return true;
}();

}  // namespace

TiledResidencyFacet::~TiledResidencyFacet() = default;

AwaitResidency TiledResidencyFacet::promote_async(TiledEvictable& carrier, const TileSet& tiles) const {
  carrier.require_live();
  return AwaitResidency(carrier.tile_store().promote(tiles.numbers(carrier.grid().grid_shape()), nullptr));
}

AwaitResidency TiledResidencyFacet::evict_async(TiledEvictable& carrier, const TileSet& tiles) const {
  carrier.require_live();
  return AwaitResidency(carrier.tile_store().evict(tiles.numbers(carrier.grid().grid_shape()), nullptr));
}

}  // namespace orlop::inline v0
