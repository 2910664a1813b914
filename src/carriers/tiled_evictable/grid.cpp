// Slots, tiles and positions, and the proof that a layout keeps to its tiles.
#include <algorithm>
#include <cstdint>
#include <map>

#include "layout/nest.hpp"
#include "orlop/base/checked.hpp"
#include "orlop/carriers/tiled_evictable/tile_grid.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::string_view what = "TiledEvictable";

/// The sums Σ c·stride over 0 ≤ c < extent of some leaves, as a product of (1 - x^(extent·stride)) /
/// (1 - x^stride). The factors are independent of one another, so that two such multisets of sums are equal
/// exactly where the exponents are. No leaf has stride 0 and an extent above 1.
class SumSet {
 public:
  void add(Index extent, Index stride) {
    if (extent == 1) return;
    const auto step = static_cast<std::uint64_t>(stride);
    count(static_cast<std::uint64_t>(extent) * step, 1);
    count(step, -1);
  }
  friend bool operator==(const SumSet&, const SumSet&) = default;

 private:
  void count(std::uint64_t exponent, int by) {
    const auto entry = exponents_.try_emplace(exponent, 0).first;
    entry->second += by;
    if (entry->second == 0) exponents_.erase(entry);
  }
  std::map<std::uint64_t, int> exponents_;
};

/// Splits one mode at the tile's extent: the leaves inside a tile go to `inside`; those across tiles must
/// step from tile to tile, `tile_step` slots each. False where they do not, or where a leaf straddles.
bool split_mode(const Layout& mode, Index tile_extent, Index tile_step, SumSet& inside) {
  const Layout merged = mode.coalesce();
  Index covered = 1;  // coordinates of the mode that the leaves so far count
  for (std::size_t i = 0; i < merged.extents().size(); ++i) {
    Index extent = merged.extents()[i];
    Index stride = merged.strides()[i];
    if (extent == 1) continue;
    if (stride <= 0) return false;
    if (covered < tile_extent) {
      const Index wanted = tile_extent / covered;
      const Index part = std::min(extent, wanted);
      if (tile_extent % (covered * part) != 0 || extent % part != 0) return false;
      inside.add(part, stride);
      covered *= part;
      extent /= part;
      stride *= part;
      if (extent == 1) continue;
      if (covered != tile_extent) return false;
    }
    if (stride != covered / tile_extent * tile_step) return false;
    covered *= extent;
  }
  return true;
}

}  // namespace

void TileGrid::check_shape(std::span<const Index> shape, std::string_view name) {
  if (shape.empty()) raise<ValueError>(what, name, " must not be empty; give one entry per axis");
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] <= 0) raise<ValueError>(what, name, "[", axis, "] must be positive: got ", shape[axis]);
}

TileGrid::TileGrid(std::vector<Index> grid_shape, std::vector<Index> tile_shape)
    : grid_shape_(std::move(grid_shape)), tile_shape_(std::move(tile_shape)) {
  check_shape(grid_shape_, "grid_shape");
  check_shape(tile_shape_, "tile_shape");
  if (grid_shape_.size() != tile_shape_.size())
    raise<ValueError>(what, "grid_shape and tile_shape must have the same rank: got ", grid_shape_.size(),
                      " and ", tile_shape_.size());
  Index logical = 1;
  bool is_whole = true;  // every axis so far lies in one tile
  bool is_row = false;   // the axis before was the first that does not
  for (std::size_t axis = 0; axis < grid_shape_.size(); ++axis) {
    logical_shape_.push_back(checked_multiply(grid_shape_[axis], tile_shape_[axis], what));
    tile_count_ = checked_multiply(tile_count_, grid_shape_[axis], what);
    tile_size_ = checked_multiply(tile_size_, tile_shape_[axis], what);
    logical = checked_multiply(logical, logical_shape_[axis], what);
    if (is_row) runs_in_row_ = tile_shape_[axis];
    is_row = is_whole && grid_shape_[axis] != 1;
    if (is_whole) {
      run_ = tile_size_;
      run_step_ = logical;
    }
    is_whole = is_whole && grid_shape_[axis] == 1;
  }
  tile_layout_ = Layout::canonical(Shape::flat(tile_shape_));
}

TileGrid::Place TileGrid::place(Index slot) const noexcept {
  Place place{0, 0};
  Index tile_step = 1;
  Index position_step = 1;
  for (std::size_t axis = 0; axis < grid_shape_.size(); ++axis) {
    const Index coordinate = slot % logical_shape_[axis];
    slot /= logical_shape_[axis];
    place.tile += coordinate / tile_shape_[axis] * tile_step;
    place.position += coordinate % tile_shape_[axis] * position_step;
    tile_step *= grid_shape_[axis];
    position_step *= tile_shape_[axis];
  }
  return place;
}

Index TileGrid::slot(Place place) const noexcept {
  Index slot = 0;
  Index step = 1;
  for (std::size_t axis = 0; axis < grid_shape_.size(); ++axis) {
    slot += (place.tile % grid_shape_[axis] * tile_shape_[axis] + place.position % tile_shape_[axis]) * step;
    place.tile /= grid_shape_[axis];
    place.position /= tile_shape_[axis];
    step *= logical_shape_[axis];
  }
  return slot;
}

Index TileGrid::tile_number(std::span<const Index> coordinate) const noexcept {
  Index tile = 0;
  for (std::size_t axis = grid_shape_.size(); axis-- > 0;) tile = tile * grid_shape_[axis] + coordinate[axis];
  return tile;
}

std::vector<Index> TileGrid::coordinate(Index tile) const {
  std::vector<Index> coordinate;
  for (const Index extent : grid_shape_) {
    coordinate.push_back(tile % extent);
    tile /= extent;
  }
  return coordinate;
}

// Inside a tile, offsets from its first slot do not depend on the tile; so the tensor's elements of any tile
// must be those of the first one, moved from first slot to first slot. And those of the first one must be its
// slots, each once.
bool TileGrid::has_footprints(const Layout& layout, Index offset) const {
  if (offset != 0) return false;
  SumSet elements;
  SumSet slots;
  Index step = 1;
  detail::ModeReader modes(layout);
  for (std::size_t axis = 0; axis < rank(); ++axis) {
    slots.add(tile_shape_[axis], step);
    if (!split_mode(modes.mode(), tile_shape_[axis], tile_shape_[axis] * step, elements)) return false;
    step *= logical_shape_[axis];
  }
  return elements == slots;
}

void TileGrid::check_layout(std::string_view of, const Layout& layout, Index offset) const {
  if (layout.rank() != rank())
    raise<ValueError>(of, "a full Tensor on this carrier has ", rank(), " top-level modes: got ",
                      layout.rank());
  if (offset == 0 && layout.is_canonical() && layout.is_flat() &&
      std::ranges::equal(layout.extents(), logical_shape_))
    return;
  detail::ModeReader modes(layout);
  for (std::size_t axis = 0; axis < rank(); ++axis)
    if (const Index size = modes.mode().size(); size != logical_shape_[axis])
      raise<ValueError>(of, "mode ", axis, " of a full Tensor on this carrier has size ",
                        logical_shape_[axis], ": got ", size);
  if (!has_footprints(layout, offset))
    raise<ValueError>(of, "the layout leaves its tile footprints: ", layout, " from slot ", offset,
                      "; every tile's elements must be exactly the slots of that tile, in any order");
}

}  // namespace orlop::inline v0
