// What the binding files of TiledEvictable share.
#pragma once

#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// The module that these classes belong to in Python.
inline constexpr const char* tiled_home = "orlop.carriers.tiled_evictable";

nb::tuple from_indices(std::span<const Index> values);

/// The set of tiles in a TileSet or TileSelection, or TypeError.
TileSet to_tile_set(nb::handle value, std::string_view what, std::string_view name);
const TileSelection& to_selection(nb::handle value, std::string_view what);

/// The set of one tile with this coordinate; the errors of TileSet.
TileSet to_tile(nb::handle coordinate);

// The parts of the module _tiled, in this order.
void bind_tile_sets(nb::module_& module);
void bind_tiled_carrier(nb::module_& module);
/// `parent`: where the function of all scatters is.
void bind_projection(nb::module_& module, nb::module_& parent);
void bind_streaming(nb::module_& module);

}  // namespace orlop::bindings
