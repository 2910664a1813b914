// Tile selections, tile sets and residency plans as values: order, checks, binding to a grid, size.
#include "orlop/carriers/tiled_evictable/tile_sets.hpp"

#include "backends.hpp"

namespace orlop::inline v0 {
namespace {

using testing::ElementsAre;
using testing_support::expect_refusal;

TEST(TileSelection, ListsTheProductInTheCallersOrderAxisZeroFastest) {
  const TileSelection selection{{2, 7}, {4, 1}};
  EXPECT_EQ(selection.rank(), 2U);
  EXPECT_THAT(selection.compact_grid_shape(), ElementsAre(2, 2));
  EXPECT_THAT(selection.coordinates(),
              ElementsAre(ElementsAre(2, 4), ElementsAre(7, 4), ElementsAre(2, 1), ElementsAre(7, 1)));
  EXPECT_EQ(selection.tile_set(), (TileSet{{2, 1}, {7, 1}, {2, 4}, {7, 4}}));
  EXPECT_EQ((TileSelection{{2, 7}, {4}}).to_string(), "TileSelection(per_axis=((2, 7), (4,)))");
  EXPECT_EQ(TileSelection{{3}}.to_string(), "TileSelection(per_axis=((3,),))");
  EXPECT_FALSE((TileSelection{{0, 1}} == TileSelection{{1, 0}}));
}

TEST(TileSelection, RefusesAxesThatChooseNothingOrTwice) {
  expect_refusal<ValueError>([] { TileSelection(std::vector<std::vector<Index>>()); }, "at least one axis");
  expect_refusal<ValueError>([] { static_cast<void>(TileSelection{{0}, {}}); }, "per_axis[1]");
  expect_refusal<ValueError>([] { static_cast<void>(TileSelection{{0, -1}}); }, "non-negative");
  expect_refusal<ValueError>([] { static_cast<void>(TileSelection{{0}, {4, 2, 4}}); }, "duplicate");
}

TEST(TileSelection, RefusesToListMoreThanMemoryHolds) {
  std::vector<Index> axis(100000);
  std::iota(axis.begin(), axis.end(), Index{0});
  const TileSelection vast{axis, axis, axis, axis};
  EXPECT_THAT(vast.compact_grid_shape(), ElementsAre(100000, 100000, 100000, 100000));
  expect_refusal<MemoryError>([&] { static_cast<void>(vast.tile_set()); }, "too many tiles");
}

TEST(TileSet, SortsByReversedCoordinate) {
  const TileSet tiles{{0, 1}, {1, 0}, {0, 0}};
  EXPECT_THAT(tiles.coordinates(), ElementsAre(ElementsAre(0, 0), ElementsAre(1, 0), ElementsAre(0, 1)));
  EXPECT_EQ(tiles.to_string(), "TileSet(coordinates=((0, 0), (1, 0), (0, 1)))");
  EXPECT_EQ(TileSet{{5}}.to_string(), "TileSet(coordinates=((5,),))");
  EXPECT_EQ(TileSet().to_string(), "TileSet(coordinates=())");
  EXPECT_EQ(tiles, (TileSet{{0, 0}, {0, 1}, {1, 0}}));
  EXPECT_EQ(tiles.hash(), (TileSet{{0, 0}, {0, 1}, {1, 0}}).hash());
  EXPECT_FALSE((tiles == TileSet{{0, 0}, {0, 1}, {1, 1}}));
  EXPECT_FALSE(tiles == TileSet());
}

TEST(TileSet, RefusesWhatIsNoSetOfTiles) {
  expect_refusal<ValueError>([] { static_cast<void>(TileSet{{0, -1}}); }, "non-negative");
  expect_refusal<ValueError>([] { static_cast<void>(TileSet{{0, 1}, {0}}); }, "same rank");
  expect_refusal<ValueError>([] { static_cast<void>(TileSet{{0, 1}, {1, 0}, {0, 1}}); }, "duplicate");
  expect_refusal<ValueError>([] { TileSet(std::vector<TileCoordinate>(1)); }, "at least one component");
}

TEST(TileSet, BindsToAGrid) {
  const std::vector<Index> grid{2, 3};
  const TileSet tiles{{1, 2}, {0, 1}};
  EXPECT_THAT(tiles.numbers(grid), ElementsAre(2, 5));
  EXPECT_EQ(TileSet::from_numbers(grid, std::vector<Index>{2, 5}), tiles);
  EXPECT_THAT(TileSet::all(grid).numbers(grid), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(TileSet().numbers(grid), ElementsAre());
  EXPECT_EQ(TileSet::from_numbers(grid, {}), TileSet());
  expect_refusal<ValueError>([&] { static_cast<void>(TileSet{{0, 3}}.numbers(grid)); }, "outside the grid");
  expect_refusal<ValueError>([&] { TileSet{{0, 0, 0}}.require_grid(grid); }, "rank");
  expect_refusal<ValueError>([&] { TileSelection{{0}}.require_grid(grid); }, "rank");
  expect_refusal<ValueError>([&] { TileSelection{{0}, {3, 0}}.require_grid(grid); }, "outside the grid");
  TileSelection{{1}, {2, 0}}.require_grid(grid);
}

TEST(TileSet, KnowsMembersAndOverlaps) {
  const TileSet tiles{{1, 2}, {0, 1}};
  EXPECT_TRUE(tiles.contains(std::vector<Index>{1, 2}));
  EXPECT_FALSE(tiles.contains(std::vector<Index>{0, 0}));
  EXPECT_FALSE(tiles.contains(std::vector<Index>{9, 9}));
  EXPECT_FALSE(tiles.contains(std::vector<Index>{1}));
  EXPECT_TRUE(tiles.intersects(TileSet{{0, 0}, {0, 1}}));
  EXPECT_FALSE(tiles.intersects(TileSet{{0, 0}, {1, 1}}));
  EXPECT_FALSE(tiles.intersects(TileSet()));
}

TEST(TileSet, HoldsAMillionTiles) {
  const std::vector<Index> grid{1000, 1000};
  const TileSet tiles = TileSet::all(grid);
  EXPECT_EQ(tiles.size(), 1000000U);
  EXPECT_EQ(tiles.numbers(grid).back(), 999999);
  const TileSet copy = tiles;
  EXPECT_EQ(copy, tiles);
}

TEST(ResidencyPlan, NamesEachTileOnce) {
  const TileSet one{{0, 0}};
  const TileSet two{{0, 0}, {1, 0}};
  ResidencyPlan{one, TileSet{{1, 0}}, TileSet{{0, 1}}}.validate();
  expect_refusal<ValueError>([&] { ResidencyPlan{one, two, {}}.validate(); }, "must be disjoint");
  expect_refusal<ValueError>([&] { ResidencyPlan{one, {}, two}.validate(); }, "must be disjoint");
  expect_refusal<ValueError>([&] { ResidencyPlan{{}, one, two}.validate(); }, "must be disjoint");
}

TEST(Purpose, HasTheWordThatPoliciesRead) {
  EXPECT_EQ(to_string(Purpose::operation), "operation");
  EXPECT_EQ(to_string(Purpose::projection), "projection");
  EXPECT_EQ(to_string(Purpose::scatter), "scatter");
  EXPECT_EQ(to_string(Purpose::backward), "backward");
}

}  // namespace
}  // namespace orlop::inline v0
