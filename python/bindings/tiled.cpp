// The submodule orlop._core._tiled: TiledEvictable and everything around it.
#include "tiled_evictable.hpp"

namespace orlop::bindings {

void bind_tiled_evictable(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("_tiled");
  bind_tile_sets(module);
  bind_tiled_carrier(module);
  bind_projection(module, parent);
  bind_streaming(module);
}

}  // namespace orlop::bindings
