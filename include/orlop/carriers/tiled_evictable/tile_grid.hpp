// The geometry of a tiled carrier: which slot belongs to which tile, and which layouts follow it (X42, X43).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "orlop/layout/layout.hpp"

namespace orlop::inline v0 {

/// A grid of equal tiles. A tile's number is its coordinate with the first axis fastest; slots count the
/// coordinates of the whole in the same way, and so do positions inside a tile. Immutable.
///
///     const TileGrid grid({2, 3}, {2, 2});   // logical shape (4, 6)
///     grid.place(13)                         // tile (0,1), position 3
class ORLOP_API TileGrid {
 public:
  struct Place {
    Index tile;
    Index position;
    friend bool operator==(const Place&, const Place&) = default;
  };

  /// Rows 5 and 6 of X40: ValueError for an empty shape, an entry below 1, unequal ranks; OverflowError
  /// beyond 64 bits.
  TileGrid(std::vector<Index> grid_shape, std::vector<Index> tile_shape);
  /// The first of these checks alone, for one of the shapes, called `name` in messages.
  static void check_shape(std::span<const Index> shape, std::string_view name);

  [[nodiscard]] std::size_t rank() const noexcept { return grid_shape_.size(); }
  [[nodiscard]] const std::vector<Index>& grid_shape() const noexcept { return grid_shape_; }
  [[nodiscard]] const std::vector<Index>& tile_shape() const noexcept { return tile_shape_; }
  [[nodiscard]] const std::vector<Index>& logical_shape() const noexcept { return logical_shape_; }
  [[nodiscard]] Index tile_count() const noexcept { return tile_count_; }
  /// Slots of one tile.
  [[nodiscard]] Index tile_size() const noexcept { return tile_size_; }
  /// Slots of all tiles.
  [[nodiscard]] Index size() const noexcept { return tile_count_ * tile_size_; }
  /// Dense, of the tile's shape: the layout of a tile's own storage.
  [[nodiscard]] const Layout& tile_layout() const noexcept { return tile_layout_; }

  [[nodiscard]] Place place(Index slot) const noexcept;
  [[nodiscard]] Index slot(Place place) const noexcept;
  /// The lowest slot of a tile.
  [[nodiscard]] Index first_slot(Index tile) const noexcept { return slot({tile, 0}); }
  /// The number of a tile whose coordinate lies in the grid.
  [[nodiscard]] Index tile_number(std::span<const Index> coordinate) const noexcept;
  [[nodiscard]] std::vector<Index> coordinate(Index tile) const;

  /// How many neighbouring slots a tile has in one piece: the same for every piece of every tile.
  [[nodiscard]] Index run() const noexcept { return run_; }
  /// So many runs follow one another at steps of run_step() slots; then comes the next row of runs.
  [[nodiscard]] Index runs_in_row() const noexcept { return runs_in_row_; }
  [[nodiscard]] Index run_step() const noexcept { return run_step_; }

  /// Whether a tensor of that layout from slot `offset` means every tile's own slots by the tile's own
  /// coordinates (X43). The layout's top-level modes have the sizes of logical_shape().
  [[nodiscard]] bool has_footprints(const Layout& layout, Index offset) const;
  /// ValueError, of `what`, for another number of modes, other mode sizes, ‹tile footprints›.
  void check_layout(std::string_view what, const Layout& layout, Index offset) const;

 private:
  std::vector<Index> grid_shape_;
  std::vector<Index> tile_shape_;
  std::vector<Index> logical_shape_;
  Index tile_count_ = 1;
  Index tile_size_ = 1;
  Index run_ = 1;
  Index runs_in_row_ = 1;
  Index run_step_ = 1;
  Layout tile_layout_;
};

}  // namespace orlop::inline v0
