// Tiled carriers as they are watched: a symbol for each tile, and transitions in a profile.
#include <gtest/gtest.h>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"
#include "orlop/operation/profiler.hpp"

namespace orlop {
namespace {

/// Six tiles of two slots, all in a file, of which two may be primary.
Ref<TiledEvictable> cold() {
  const Ref<Carrier> file = FileBacked::make(dtypes::Float32)->allocate_like(12, {});
  return TiledEvictable::make(CPU::make(0), file,
                              {.grid_shape = {2, 3}, .tile_shape = {1, 2}, .primary_budget_bytes = 16});
}

TEST(TileSymbols, OneForEachTileFirstAxisFastest) {
  const Ref<TiledEvictable> carrier = cold();
  EXPECT_EQ(carrier->tile_symbols(), "......");
  carrier->promote(TileSet{{1, 0}});
  carrier->set_value(0, Scalar(2.0F));
  EXPECT_EQ(carrier->tile_symbols(), "*#....");
  EXPECT_EQ(carrier->make_like(true)->tile_symbols(), "000000");
  EXPECT_EQ(carrier->make_like(false)->tile_symbols(), "------");
  carrier->release();
  EXPECT_EQ(carrier->tile_symbols(), "------");
}

TEST(Profiler, SeesTilesComeAndGo) {
  const Ref<TiledEvictable> carrier = cold();
  Profiler profiler;
  profiler.enter();
  carrier->promote(TileSet{{0, 0}, {1, 0}});
  carrier->set_value(0, Scalar(2.0F));
  carrier->set_value(1, Scalar(2.0F));
  carrier->promote(TileSet{{0, 2}});  // writes a dirty tile back first
  carrier->evict(TileSet{{1, 0}});
  carrier->evict(TileSet{{1, 0}});  // nothing to do
  profiler.exit();
  std::vector<std::pair<std::string, Index>> seen;
  for (const ResidencyTransition& transition : profiler.transitions()) {
    EXPECT_TRUE(transition.succeeded);
    EXPECT_EQ(transition.carrier_type, carrier->carrier_class());
    seen.emplace_back(transition.name, transition.bytes);
  }
  const std::vector<std::pair<std::string, Index>> expected{
      {"promote", 16}, {"evict", 8}, {"promote", 8}, {"evict", 8}};
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace orlop
