// Tiles read, added and summed up, one at a time.
#include "carriers/tiled_evictable/tile_values.hpp"

#include <array>

#include "orlop/operation/operation.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

bool has_same_tiles(const TiledEvictable& a, const TiledEvictable& b) {
  return a.grid().grid_shape() == b.grid().grid_shape() && a.grid().tile_shape() == b.grid().tile_shape();
}

Tensor fresh_tile(const TiledEvictable& tiled) {
  const Layout& layout = tiled.grid().tile_layout();
  return {tiled.primary_prototype().allocate_like(layout.size(), {.dtype = tiled.dtype(), .empty = true}), 0,
          layout};
}

Tensor add_tiles(const Tensor& lhs, const Tensor& rhs) {
  const std::array<Argument, 2> arguments{Argument(lhs), Argument(rhs)};
  return execute_lowered_operation(*lhs.carrier()->dispatch_op("add"), arguments);
}

bool is_implicit_zero(const Tensor& from, const TiledEvictable& tiled, Index tile) {
  const auto* carrier = dynamic_cast<const TiledEvictable*>(from.carrier().get());
  return carrier != nullptr && has_same_tiles(*carrier, tiled) &&
         carrier->tile_state(tile).location == TileLocation::implicit;
}

void read_tile(const TileGrid& grid, const Tensor& from, Index tile, const Tensor& storage) {
  const Carrier& source = *from.carrier();
  const Index slot_bytes = source.dtype().slot_bytes();
  std::vector<std::byte> values(slots_to_bytes(source.dtype(), grid.tile_size()));
  for (Index position = 0; position < grid.tile_size(); position += grid.run())
    source.read_span(from.offset() + grid.slot({tile, position}), grid.run(),
                     values.data() + position * slot_bytes);
  storage.carrier()->write_span(storage.offset(), grid.tile_size(), values.data());
}

Ref<Carrier> TiledEvictable::sum_gradients(const Tensor& first, const Tensor* second) const {
  const bool is_unshared = first.object()->reference_count() == 1 && reference_count() == 1;
  if (second == nullptr && is_unshared) return first.carrier();
  Ref<TiledEvictable> sum = make_like(true);
  for (Index tile = 0; tile < grid_.tile_count(); ++tile) {
    const bool has_first = !is_implicit_zero(first, *this, tile);
    const bool has_second = second != nullptr && !is_implicit_zero(*second, *this, tile);
    if (has_first && has_second) {
      const Tensor lhs = fresh_tile(*this);
      const Tensor rhs = fresh_tile(*this);
      read_tile(grid_, first, tile, lhs);
      read_tile(grid_, *second, tile, rhs);
      sum->install_tile(tile, add_tiles(lhs, rhs).carrier(), false);
    } else if (has_first || has_second) {
      read_tile(grid_, has_first ? first : *second, tile, sum->start_tile(tile));
      sum->finish_tile(tile, false);
    }
  }
  return sum;
}

}  // namespace orlop::inline v0
