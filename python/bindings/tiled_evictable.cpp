// The Python face of TiledEvictable.
#include "tiled_evictable.hpp"

namespace orlop::bindings {

void bind_tiled_evictable(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("_tiled");
  bind_tile_sets(module);
}

}  // namespace orlop::bindings
