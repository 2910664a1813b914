// The chosen tiles of a full Tensor beside their places in a compact one, and copies between the two.
#pragma once

#include <vector>

#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"

namespace orlop::inline v0 {

/// Made once for a selection of a Tensor of some layout. Elements meet by their logical coordinates: the
/// Tensor's layout may order them in any way inside a tile, the compact Tensor is dense.
class SelectedTiles {
 public:
  struct Entry {
    Index tile;  ///< number in the grid
    Index slot;  ///< of its first element in the compact Tensor
  };

  /// `layout` fits the grid, and so does the selection.
  SelectedTiles(const TileGrid& grid, const DType& dtype, const Layout& layout,
                const TileSelection& selection);

  /// In the order of the tiles' numbers.
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// Dense, of shape count[a] · tile_shape[a].
  [[nodiscard]] const Layout& compact_layout() const noexcept { return compact_layout_; }

  /// From a tile's storage to its place, which starts at `slot` of the carrier.
  void gather(const Tensor& tile, Carrier& compact, Index slot) const;
  /// From its place to a tile's storage, which nobody else has yet.
  void spread(const Carrier& compact, Index slot, const Tensor& tile) const;

 private:
  template <class Run>
  void for_each_run(Index slot, Run run) const;

  Index slot_bytes_;
  std::vector<Entry> entries_;
  Layout compact_layout_;
  // One tile's elements: in its storage, in the compact Tensor, and in order, with equal leaves.
  Layout in_tile_;
  Layout in_compact_;
  Layout in_order_;
  Layout rows_;  // ordinals of a tile to slots of the compact Tensor, by the tile's own axes
  Index run_;    // neighbours in the compact Tensor
};

}  // namespace orlop::inline v0
