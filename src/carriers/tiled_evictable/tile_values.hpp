// Values of single tiles as work on gradients and scatters needs them, without pins, policies or residency.
#pragma once

#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"

namespace orlop::inline v0 {

[[nodiscard]] bool has_same_tiles(const TiledEvictable& a, const TiledEvictable& b);

/// Storage of one tile on the primary's class that no carrier has yet.
[[nodiscard]] Tensor fresh_tile(const TiledEvictable& tiled);

/// lhs + rhs by the carrier class's own operation, in fresh storage.
[[nodiscard]] Tensor add_tiles(const Tensor& lhs, const Tensor& rhs);

/// Whether a tile of `tiled` is implicit in a Tensor, which may live anywhere.
[[nodiscard]] bool is_implicit_zero(const Tensor& from, const TiledEvictable& tiled, Index tile);

/// Writes into storage of a tile of `grid` what a Tensor on any carrier has there; the Tensor's slots, from
/// its offset on, are in the order of the grid's.
void read_tile(const TileGrid& grid, const Tensor& from, Index tile, const Tensor& storage);

}  // namespace orlop::inline v0
