// Where chosen tiles lie in a compact Tensor, and the copies there and back.
#include "carriers/tiled_evictable/selected_tiles.hpp"

#include <algorithm>
#include <optional>

#include "layout/nest.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

namespace {

Shape compact_shape(const TileGrid& grid, const TileSelection& selection) {
  std::vector<Index> extents = selection.compact_grid_shape();
  for (std::size_t axis = 0; axis < extents.size(); ++axis) extents[axis] *= grid.tile_shape()[axis];
  return Shape::flat(extents);
}

/// copy_strided, and the interpreter goes on meanwhile where that is worth it.
void copy_elements(const std::byte* from, const Layout& from_layout, std::byte* to, const Layout& to_layout,
                   Index slot_bytes) {
  constexpr Index large = Index{1} << 20;
  std::optional<BlockingScope> scope;
  if (from_layout.size() * slot_bytes >= large) scope.emplace();
  copy_strided(from, from_layout, to, to_layout, slot_bytes);
}

}  // namespace

SelectedTiles::SelectedTiles(const TileGrid& grid, const DType& dtype, const Layout& layout,
                             const TileSelection& selection)
    : slot_bytes_(dtype.slot_bytes()), compact_layout_(Layout::canonical(compact_shape(grid, selection))) {
  const std::span<const Index> steps = compact_layout_.strides();
  std::vector<Index> extents{1};
  std::vector<Index> tile_strides{0};
  std::vector<Index> compact_strides{0};
  detail::ModeReader modes(layout);
  for (std::size_t axis = 0; axis < grid.rank(); ++axis) {
    // The leaves that count inside a tile come first; what they step over, others step from tile to tile.
    const Layout mode = modes.mode().coalesce();
    Index covered = 1;
    for (std::size_t i = 0; i < mode.extents().size() && covered < grid.tile_shape()[axis]; ++i) {
      const Index part = std::min(mode.extents()[i], grid.tile_shape()[axis] / covered);
      if (part == 1) continue;
      extents.push_back(part);
      tile_strides.push_back(grid.place(mode.strides()[i]).position);
      compact_strides.push_back(covered * steps[axis]);
      covered *= part;
    }
  }
  in_tile_ = Layout(Shape::flat(extents), Stride::flat(tile_strides));
  in_compact_ = Layout(Shape::flat(extents), Stride::flat(compact_strides));
  in_order_ = Layout::canonical(Shape::flat(extents));
  rows_ = Layout(Shape::flat(grid.tile_shape()), Stride::flat(steps));
  run_ = 1;
  for (std::size_t axis = 0; axis < grid.rank(); ++axis) {
    run_ *= grid.tile_shape()[axis];
    if (selection.per_axis()[axis].size() != 1) break;
  }

  const Layout places(Shape::flat(selection.compact_grid_shape()), [&] {
    std::vector<Index> strides(steps.begin(), steps.end());
    for (std::size_t axis = 0; axis < strides.size(); ++axis) strides[axis] *= grid.tile_shape()[axis];
    return Stride::flat(strides);
  }());
  Index ordinal = 0;
  for (const TileCoordinate& coordinate : selection.coordinates())
    entries_.push_back({grid.tile_number(coordinate), places.index_ordinal(ordinal++)});
  std::ranges::sort(entries_, {}, &Entry::tile);
}

/// Calls `run(slot, ordinal)` for each stretch of neighbours of the place at `first`.
template <class Run>
void SelectedTiles::for_each_run(Index first, Run run) const {
  for (Index ordinal = 0; ordinal < rows_.size(); ordinal += run_)
    run(first + rows_.index_ordinal(ordinal), ordinal);
}

void SelectedTiles::gather(const Tensor& tile, Carrier& compact, Index slot) const {
  const Carrier& source = *tile.carrier();
  std::vector<std::byte> staged;
  const std::byte* from = source.host_data();
  if (from != nullptr) {
    from += tile.offset() * slot_bytes_;
  } else {
    staged.resize(static_cast<std::size_t>(rows_.size() * slot_bytes_));
    source.read_span(tile.offset(), rows_.size(), staged.data());
    from = staged.data();
  }
  if (std::byte* to = compact.host_data())
    return copy_elements(from, in_tile_, to + slot * slot_bytes_, in_compact_, slot_bytes_);
  std::vector<std::byte> ordered(static_cast<std::size_t>(rows_.size() * slot_bytes_));
  copy_elements(from, in_tile_, ordered.data(), in_order_, slot_bytes_);
  for_each_run(slot, [&](Index at, Index ordinal) {
    compact.write_span(at, run_, ordered.data() + ordinal * slot_bytes_);
  });
}

void SelectedTiles::spread(const Carrier& compact, Index slot, const Tensor& tile) const {
  Carrier& target = *tile.carrier();
  std::vector<std::byte> staged;
  std::byte* to = target.host_data();
  const bool is_staged = to == nullptr;
  if (is_staged) {
    staged.resize(static_cast<std::size_t>(rows_.size() * slot_bytes_));
    to = staged.data();
  } else {
    to += tile.offset() * slot_bytes_;
  }
  if (const std::byte* from = compact.host_data()) {
    copy_elements(from + slot * slot_bytes_, in_compact_, to, in_tile_, slot_bytes_);
  } else {
    std::vector<std::byte> ordered(static_cast<std::size_t>(rows_.size() * slot_bytes_));
    for_each_run(slot, [&](Index at, Index ordinal) {
      compact.read_span(at, run_, ordered.data() + ordinal * slot_bytes_);
    });
    copy_elements(ordered.data(), in_order_, to, in_tile_, slot_bytes_);
  }
  if (is_staged) target.write_span(tile.offset(), rows_.size(), staged.data());
}

}  // namespace orlop::inline v0
