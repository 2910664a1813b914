// Operands as steps see them.
#include "carriers/tiled_evictable/steps.hpp"

#include "carriers/tiled_evictable/step_geometry.hpp"

namespace orlop::inline v0 {

StepOperand::StepOperand(Layout layout, Index offset, bool is_tiled, std::vector<Index> grid_shape,
                         std::vector<Index> tile_shape, std::vector<Index> tile_steps)
    : layout_(std::move(layout)),
      offset_(offset),
      is_tiled_(is_tiled),
      grid_shape_(std::move(grid_shape)),
      tile_shape_(std::move(tile_shape)),
      tile_steps_(std::move(tile_steps)) {}

StepOperand StepOperand::tiled(const Layout& layout, std::span<const Index> grid_shape,
                               std::span<const Index> tile_shape) {
  std::vector<Index> logical;
  logical.reserve(grid_shape.size());
  for (std::size_t axis = 0; axis < grid_shape.size(); ++axis)
    logical.push_back(grid_shape[axis] * tile_shape[axis]);
  const std::vector<Index> slot_steps = steps_of(logical);
  const std::vector<Index> position_steps = steps_of(tile_shape);
  std::vector<std::size_t> long_axes;  // a few: the others' coordinates are 0
  for (std::size_t axis = 0; axis < logical.size(); ++axis)
    if (logical[axis] > 1) long_axes.push_back(axis);
  // A step inside a tile is linear in positions as it is in slots; the others do not matter, since an element
  // is looked for from the first one of its tile.
  detail::Nest strides = layout.stride().nest();
  for (Index& stride : strides.leaves) {
    Index position = 0;
    for (const std::size_t axis : long_axes)
      position += stride / slot_steps[axis] % logical[axis] * position_steps[axis];
    stride = position;
  }
  return {Layout(layout.shape(), Stride(std::move(strides))),
          0,
          true,
          {grid_shape.begin(), grid_shape.end()},
          {tile_shape.begin(), tile_shape.end()},
          steps_of(grid_shape)};
}

StepOperand StepOperand::dense(const Layout& layout, Index offset) {
  std::vector<Index> sizes;
  sizes.reserve(layout.rank());
  ModeLeaves modes(layout);
  while (sizes.size() < layout.rank()) sizes.push_back(modes.next().size());
  std::vector<Index> grid(sizes.size(), 1);
  std::vector<Index> steps(sizes.size(), 0);
  return {layout, offset, false, std::move(grid), std::move(sizes), std::move(steps)};
}

StepOperand StepOperand::transposed() const {
  constexpr std::size_t order[] = {1, 0};
  const auto swapped = [](const std::vector<Index>& two) { return std::vector<Index>{two[1], two[0]}; };
  return {layout_.select(order), offset_, is_tiled_, swapped(grid_shape_), swapped(tile_shape_),
          swapped(tile_steps_)};
}

Index StepOperand::tile_count() const { return product(grid_shape_); }
Index StepOperand::tile_size() const { return product(tile_shape_); }

}  // namespace orlop::inline v0
