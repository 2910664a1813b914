// TiledEvictable from C++: geometry, residency, budgets, failures, statistics, work over tiles.
#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"

#include <chrono>
#include <map>
#include <set>

#include "backends.hpp"
#include "carriers/tiled_evictable/tile_work.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/carriers/generic/generic.hpp"
#include "orlop/io/io_script.hpp"
#include "orlop/movement/move.hpp"

namespace orlop::inline v0 {
namespace {

using detail::IoScript;
using detail::IoScriptOptions;
using detail::ScopedIoCalls;
using testing::ElementsAre;
using testing_support::expect_refusal;
using testing_support::Slots;

using Tiles = std::vector<TileCoordinate>;

TileSet set(const Tiles& tiles) { return TileSet(tiles); }

// --- Geometry

/// What X42 says, digit by digit.
TileGrid::Place brute_place(const TileGrid& grid, Index slot) {
  TileGrid::Place place{0, 0};
  Index tile_step = 1;
  Index step = 1;
  for (std::size_t a = 0; a < grid.rank(); ++a) {
    const Index c = slot % grid.logical_shape()[a];
    slot /= grid.logical_shape()[a];
    place.tile += tile_step * (c / grid.tile_shape()[a]);
    place.position += step * (c % grid.tile_shape()[a]);
    tile_step *= grid.grid_shape()[a];
    step *= grid.tile_shape()[a];
  }
  return place;
}

TEST(TileGrid, MapsSlotsToTilesAndBack) {
  const TileGrid g({2, 3}, {2, 2});
  EXPECT_EQ(g.logical_shape(), (std::vector<Index>{4, 6}));
  const Index tile = g.tile_number(std::vector<Index>{0, 1});
  std::set<Index> owned;
  for (Index position = 0; position < 4; ++position) owned.insert(g.slot({tile, position}));
  EXPECT_EQ(owned, (std::set<Index>{8, 9, 12, 13}));
  EXPECT_EQ(g.place(13), (TileGrid::Place{tile, 3}));
  EXPECT_EQ(g.coordinate(tile), (std::vector<Index>{0, 1}));
  for (const TileGrid& grid : {g, TileGrid({3}, {4}), TileGrid({1, 2, 3}, {2, 3, 1}),
                               TileGrid({2, 1, 2}, {1, 4, 3}), TileGrid({1, 1}, {3, 2})})
    for (Index slot = 0; slot < grid.size(); ++slot) {
      EXPECT_EQ(grid.place(slot), brute_place(grid, slot));
      EXPECT_EQ(grid.slot(grid.place(slot)), slot);
    }
}

TEST(TileGrid, RunsAreTheLongestPiecesOfATileInSlotOrder) {
  const auto run = [](std::vector<Index> grid, std::vector<Index> tile) {
    return TileGrid(std::move(grid), std::move(tile)).run();
  };
  EXPECT_EQ(run({2, 3}, {2, 2}), 2);
  EXPECT_EQ(run({1, 3}, {4, 2}), 8);
  EXPECT_EQ(run({1, 1, 2}, {4, 2, 3}), 24);
  EXPECT_EQ(run({1, 2, 2}, {4, 2, 3}), 8);
}

TEST(TileGrid, RefusesWhatIsNoGrid) {
  expect_refusal<ValueError>([] { TileGrid({}, {}); }, "grid_shape must not be empty");
  expect_refusal<ValueError>([] { TileGrid({2}, {}); }, "tile_shape must not be empty");
  expect_refusal<ValueError>([] { TileGrid({2, 0}, {1, 1}); }, "grid_shape[1] must be positive");
  expect_refusal<ValueError>([] { TileGrid({2}, {-3}); }, "tile_shape[0] must be positive");
  expect_refusal<ValueError>([] { TileGrid({2}, {3, 1}); }, "same rank");
  expect_refusal<OverflowError>([] { TileGrid({Index{1} << 40}, {Index{1} << 40}); }, "64 bits");
}

/// X43, element by element.
bool brute_footprints(const TileGrid& grid, const Layout& layout, Index offset) {
  std::set<Index> seen;
  for (Index i = 0; i < layout.size(); ++i) {
    const Index slot = offset + layout(i);
    if (slot >= grid.size() || grid.place(slot).tile != grid.place(i).tile || !seen.insert(slot).second)
      return false;
  }
  return true;
}

TEST(TileGrid, AcceptsExactlyTheLayoutsThatKeepToTheirTiles) {
  const TileGrid g({2, 3}, {2, 2});
  const auto fits = [&](const Layout& layout, Index offset = 0) {
    EXPECT_EQ(g.has_footprints(layout, offset), brute_footprints(g, layout, offset)) << layout;
    return g.has_footprints(layout, offset);
  };
  EXPECT_TRUE(fits(Layout(Shape{4, 6}, Stride{1, 4})));
  EXPECT_TRUE(fits(Layout(Shape{{2, 2}, {2, 3}}, Stride{{4, 2}, {1, 8}})));
  EXPECT_FALSE(fits(Layout(Shape{4, 6}, Stride{1, 0})));
  EXPECT_FALSE(fits(Layout(Shape{4, 6}, Stride{6, 1})));
  EXPECT_FALSE(fits(Layout(Shape{{2, 2}, 6}, Stride{{2, 1}, 4})));
  EXPECT_FALSE(fits(Layout(Shape{{2, 2}, {2, 3}}, Stride{{1, 8}, {4, 2}})));
  EXPECT_FALSE(fits(Layout(Shape{4, 6}, Stride{1, 4}), 1));
  expect_refusal<ValueError>(
      [&] {
        g.check_layout("relu", Layout(Shape{4, 6}, Stride{6, 1}), 0);
      },
      "tile footprints");
  expect_refusal<ValueError>([&] { g.check_layout("relu", Layout(Shape{24}, Stride{1}), 0); },
                             "2 top-level modes");
  expect_refusal<ValueError>([&] { g.check_layout("relu", Layout(Shape{6, 4}, Stride{1, 6}), 0); }, "mode 0");
}

/// A mode of `extent` in up to three leaves.
std::vector<Index> random_factors(Index extent, std::mt19937& random) {
  std::vector<Index> factors;
  for (int i = 0; i < 2; ++i) {
    std::vector<Index> divisors;
    for (Index d = 1; d <= extent; ++d)
      if (extent % d == 0) divisors.push_back(d);
    factors.push_back(divisors[random() % divisors.size()]);
    extent /= factors.back();
  }
  factors.push_back(extent);
  return factors;
}

TEST(TileGrid, AgreesWithBruteForceOnRandomLayouts) {
  std::mt19937 random(20240607);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    const TileGrid grid({1 + Index(random() % 3), 1 + Index(random() % 3)},
                        {1 + Index(random() % 4), 1 + Index(random() % 4)});
    std::vector<Coordinate> shape;
    std::vector<Index> extents;
    for (std::size_t a = 0; a < 2; ++a) {
      std::vector<Coordinate> mode;
      for (const Index factor : random_factors(grid.logical_shape()[a], random)) {
        mode.emplace_back(factor);
        extents.push_back(factor);
      }
      shape.emplace_back(mode);
    }
    // Strides of a random compact order, of the canonical layout, or anything small.
    std::vector<Index> strides(extents.size());
    std::vector<std::size_t> order{0, 1, 2, 3, 4, 5};
    const auto kind = random() % 4;
    if (kind != 0) std::shuffle(order.begin(), order.end(), random);
    Index step = 1;
    for (const std::size_t leaf : order) {
      strides[leaf] = kind == 3 ? Index(random() % 13) : step;
      step *= extents[leaf];
    }
    std::vector<Coordinate> stride;
    for (std::size_t a = 0; a < 2; ++a)
      stride.emplace_back(std::vector<Coordinate>{strides[3 * a], strides[3 * a + 1], strides[3 * a + 2]});
    const Layout layout{Shape(Coordinate(shape)), Stride(Coordinate(stride))};
    const bool fits = grid.has_footprints(layout, 0);
    ASSERT_EQ(fits, brute_footprints(grid, layout, 0)) << layout << " tile " << grid.tile_layout();
    accepted += fits;
  }
  EXPECT_GT(accepted, 1000);
}

// --- Carriers

constexpr Index kSlots = 24;  // of G: grid (2,3), tile (2,2); slot s holds s

template <class C>
Ref<Carrier> zeros(Index slots) {
  if constexpr (std::is_same_v<C, FileBacked>)
    return FileBacked::make(dtypes::Float32)->allocate_like(slots);
  else if constexpr (std::is_same_v<C, Slots>)
    return make_ref<Slots>(slots, dtypes::Float32);
  else if constexpr (std::is_same_v<C, Generic>)
    return Generic::zeros(slots, {.dtype = dtypes::Float32});
  else
    return CPU::make(slots);
}

template <class C = CPU>
Ref<Carrier> counting(Index slots = kSlots) {
  Ref<Carrier> carrier = zeros<C>(slots);
  for (Index s = 0; s < slots; ++s) carrier->store(s, Scalar(static_cast<double>(s)));
  return carrier;
}

Ref<FileBacked> empty_file() { return FileBacked::make(dtypes::Float32); }

TiledOptions options(std::optional<std::int64_t> budget = std::nullopt,
                     std::shared_ptr<ResidencyPolicy> policy = nullptr) {
  return {.grid_shape = {2, 3},
          .tile_shape = {2, 2},
          .residency_policy = std::move(policy),
          .primary_budget_bytes = budget};
}

/// G, all tiles primary.
Ref<TiledEvictable> warm(std::optional<std::int64_t> budget = std::nullopt) {
  return TiledEvictable::make(counting(), empty_file(), options(budget));
}
/// G with an empty primary and a full secondary.
Ref<TiledEvictable> cold(std::optional<std::int64_t> budget = std::nullopt) {
  return TiledEvictable::make(CPU::make(0), counting<FileBacked>(), options(budget));
}

std::vector<float> values(const Carrier& carrier) {
  std::vector<float> result;
  for (Index s = 0; s < carrier.size(); ++s) result.push_back(carrier.at(s).to_binary32());
  return result;
}

std::vector<float> counted(Index slots = kSlots) {
  std::vector<float> result(static_cast<std::size_t>(slots));
  std::iota(result.begin(), result.end(), 0.0F);
  return result;
}

const Tiles kAll{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}};

TEST(TiledEvictable, ChecksItsTiersInOrderAndClaimsNothingOnFailure) {
  const Ref<CPU> cpu = CPU::make(kSlots);
  const Ref<CPU> ints = CPU::make(kSlots, {.dtype = dtypes::Int32});
  const Ref<CPU> released = CPU::make(1);
  released->release();
  const Ref<TiledEvictable> tiled = warm();
  const auto refuse = [&]<class E>(std::type_identity<E>, Ref<Carrier> primary, Ref<Carrier> secondary,
                                   const TiledOptions& given, const std::string& words) {
    expect_refusal<E>([&] { static_cast<void>(TiledEvictable::make(primary, secondary, given)); }, words);
    EXPECT_FALSE(cpu->is_owned());
  };
  const std::type_identity<TypeError> type_error;
  const std::type_identity<ValueError> value_error;
  const std::type_identity<RuntimeError> runtime_error;
  refuse(type_error, {}, cpu, options(), "primary must be a Carrier");
  refuse(type_error, cpu, {}, options(), "secondary must be a Carrier");
  refuse(type_error, cpu, tiled, options(), "secondary must not depend");
  refuse(value_error, cpu, cpu, options(), "distinct");
  refuse(runtime_error, released, tiled->primary(), options(), "primary is released");
  refuse(runtime_error, cpu, tiled->primary(), options(), "secondary is already owned");
  refuse(type_error, cpu, ints, {}, "dtypes must be identical");
  refuse(value_error, cpu, empty_file(), {.grid_shape = {2}, .tile_shape = {2, 2}}, "same rank");
  refuse(value_error, CPU::make(3), cpu, options(), "primary must be empty or hold the full extent");
  refuse(value_error, cpu, CPU::make(3), options(), "secondary must be empty or hold the full extent");
  refuse(value_error, cpu, empty_file(), options(15), "16 bytes");
  EXPECT_TRUE(TiledEvictable::make(cpu, empty_file(), options(16))->primary()->is_owned());
}

TEST(TiledEvictable, SeedsDecideWhereTheTilesAre) {
  EXPECT_EQ(warm()->primary_tiles(), set(kAll));
  EXPECT_EQ(warm()->dirty_tiles(), TileSet());
  EXPECT_EQ(cold()->secondary_tiles(), set(kAll));
  const Ref<TiledEvictable> both = TiledEvictable::make(counting(), CPU::make(kSlots), options());
  EXPECT_EQ(both->primary_tiles(), set(kAll));
  EXPECT_EQ(values(*both), counted());
  const Ref<TiledEvictable> none = TiledEvictable::make(CPU::make(0), CPU::make(0), options());
  EXPECT_EQ(none->valid_tiles(), TileSet());
  EXPECT_EQ(none->size(), kSlots);
  expect_refusal<RuntimeError>([&] { static_cast<void>(none->at(3)); }, "invalid");
  expect_refusal<RuntimeError>([&] { none->store(3, Scalar(1.0)); }, "invalid");
  EXPECT_EQ(none->version(), 0);
}

template <class Primary, class Secondary>
struct Tiers {
  using P = Primary;
  using S = Secondary;
};
template <class T>
class EveryHierarchy : public testing::Test {};
using Hierarchies = testing::Types<Tiers<CPU, FileBacked>, Tiers<CPU, CPU>, Tiers<Generic, FileBacked>,
                                   Tiers<CPU, Slots>, Tiers<Slots, Slots>, Tiers<Slots, FileBacked>>;
TYPED_TEST_SUITE(EveryHierarchy, Hierarchies);

TYPED_TEST(EveryHierarchy, ValuesSurviveEveryMixOfRequestsAndWrites) {
  using P = typename TypeParam::P;
  using S = typename TypeParam::S;
  std::mt19937 random(7);
  for (const std::optional<std::int64_t> budget : {std::optional<std::int64_t>(), {16}, {32}, {96}})
    for (const bool is_cold : {false, true}) {
      const Ref<TiledEvictable> carrier = TiledEvictable::make(
          is_cold ? zeros<P>(0) : counting<P>(), is_cold ? counting<S>() : zeros<S>(0), options(budget));
      std::vector<float> expected = counted();
      EXPECT_EQ(values(*carrier), expected);
      for (int round = 0; round < 60; ++round) {
        Tiles some;
        for (const TileCoordinate& tile : kAll)
          if (random() % 3 == 0 && (!budget || some.size() < static_cast<std::size_t>(*budget / 16)))
            some.push_back(tile);
        switch (random() % 3) {
          case 0:
            carrier->promote(set(some));
            for (const TileCoordinate& tile : some)
              EXPECT_EQ(carrier->tile_state(tile).location, TileLocation::primary);
            break;
          case 1:
            carrier->evict(set(some));
            for (const TileCoordinate& tile : some)
              EXPECT_EQ(carrier->tile_state(tile).location, TileLocation::secondary);
            break;
          default: {
            const auto slot = static_cast<Index>(random() % kSlots);
            expected[static_cast<std::size_t>(slot)] = static_cast<float>(round) + 0.5F;
            carrier->store(slot, Scalar(expected[static_cast<std::size_t>(slot)]));
            EXPECT_TRUE(carrier->tile_state(carrier->grid().place(slot).tile).dirty);
          }
        }
        ASSERT_EQ(values(*carrier), expected);
        if (budget) {
          EXPECT_LE(carrier->primary_bytes(), *budget);
        }
        EXPECT_EQ(carrier->primary_bytes(), 16 * static_cast<Index>(carrier->primary_tiles().size()));
      }
      if (budget) {
        EXPECT_LE(carrier->residency_stats().peak_primary_bytes, *budget);
      }
      carrier->release();
      EXPECT_TRUE(carrier->primary()->is_released());
      EXPECT_FALSE(carrier->secondary()->is_owned());
    }
}

}  // namespace
}  // namespace orlop::inline v0
