// TiledEvictable from C++: geometry, residency, budgets, failures, statistics, work over tiles.
#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

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
  expect_refusal<ValueError>([&] { g.check_layout("relu", Layout(Shape{4, 6}, Stride{6, 1}), 0); },
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

// --- Elements

TEST(TiledEvictable, WritesTouchOneTileAndAdvanceTheVersionByOne) {
  const Ref<TiledEvictable> carrier = cold();
  static_cast<void>(carrier->at(0));
  EXPECT_EQ(carrier->secondary_tiles(), set(kAll));
  carrier->store(13, Scalar(7.0));
  EXPECT_EQ(carrier->version(), 1);
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 1}}));
  EXPECT_EQ(carrier->dirty_tiles(), set({{0, 1}}));
  EXPECT_THROW(carrier->store(24, Scalar(1.0)), IndexError);
  EXPECT_THROW(carrier->store(-1, Scalar(1.0)), IndexError);
  carrier->evict(set({{0, 1}}));
  EXPECT_EQ(carrier->dirty_tiles(), TileSet());
  EXPECT_EQ(carrier->at(13).to_binary32(), 7.0F);
  EXPECT_EQ(carrier->version(), 1);
  std::vector<float> expected = counted();
  expected[13] = 7.0F;
  EXPECT_EQ(values(*carrier), expected);
}

TEST(TiledEvictable, AnImplicitTileTakesStorageOnlyForAnotherValueThanItsZeros) {
  const auto carrier = dynamic_cast<TiledEvictable&>(*warm()).make_like(true);
  EXPECT_EQ(carrier->tile_state(0), (TileState{TileLocation::implicit, true, false}));
  carrier->store(0, Scalar(0.0));
  EXPECT_EQ(carrier->version(), 1);
  EXPECT_EQ(carrier->primary_bytes(), 0);
  carrier->evict(set(kAll));
  EXPECT_EQ(carrier->tile_state(0).location, TileLocation::implicit);
  carrier->store(0, Scalar(-0.0));
  EXPECT_EQ(carrier->tile_state(0), (TileState{TileLocation::primary, true, true}));
  EXPECT_TRUE(std::signbit(carrier->at(0).to_binary32()));
  EXPECT_EQ(carrier->at(1).to_binary32(), 0.0F);
  carrier->promote(set({{1, 2}}));
  EXPECT_EQ(carrier->tile_state(5), (TileState{TileLocation::primary, true, false}));
  EXPECT_EQ(carrier->residency_stats().bytes_read, 0);
  EXPECT_EQ(carrier->residency_stats().promotions, 2);
}

TEST(TiledEvictable, AnImmutablePrimaryMakesAnImmutableCarrierThatStillMoves) {
  const Ref<Carrier> seed = CPU::make(0, {.is_mutable = false});
  const Ref<TiledEvictable> carrier = TiledEvictable::make(seed, counting<FileBacked>(), options());
  EXPECT_FALSE(carrier->is_mutable());
  EXPECT_THROW(carrier->store(0, Scalar(1.0)), RuntimeError);
  carrier->promote(set(kAll));
  carrier->evict(set(kAll));
  EXPECT_EQ(values(*carrier), counted());
}

TEST(TiledEvictable, AnImmutableSecondarySeedIsReadAndNeverWritten) {
  std::vector<float> slots = counted();
  const Ref<CPU> seed = CPU::wrap(kSlots, static_cast<Index>(reinterpret_cast<std::intptr_t>(slots.data())),
                                  {.is_mutable = false});
  const Ref<TiledEvictable> carrier = TiledEvictable::make(CPU::make(0), seed, options());
  for (Index s = 0; s < kSlots; ++s) carrier->store(s, Scalar(static_cast<double>(s) + 100.0));
  carrier->evict(set(kAll));
  EXPECT_EQ(carrier->at(5).to_binary32(), 105.0F);
  EXPECT_EQ(slots, counted());
}

TEST(TiledEvictable, FactoriesKeepGeometryTiersAndBudget) {
  const Ref<TiledEvictable> carrier = warm(32);
  std::vector<Scalar> some(kSlots, Scalar(0.0));
  for (const Index s : {8, 12, 18, 22}) some[static_cast<std::size_t>(s)] = Scalar(1.0);
  for (const bool is_released : {false, true}) {
    if (is_released) carrier->release();
    const Ref<Carrier> made = carrier->new_like(some);
    const auto& tiled = dynamic_cast<const TiledEvictable&>(*made);
    EXPECT_EQ(tiled.primary_tiles(), set({{0, 1}, {1, 2}}));
    EXPECT_EQ(tiled.tile_state(0).location, TileLocation::implicit);
    EXPECT_EQ(tiled.primary_budget_bytes(), 32);
    EXPECT_EQ(tiled.at(22).to_binary32(), 1.0F);
    EXPECT_EQ(made->version(), 0);
    const Ref<Carrier> zeros = carrier->allocate_like(kSlots);
    EXPECT_EQ(values(*zeros), std::vector<float>(kSlots));
    const Ref<Carrier> blank = carrier->allocate_like(kSlots, {.empty = true});
    EXPECT_EQ(dynamic_cast<const TiledEvictable&>(*blank).valid_tiles(), TileSet());
    expect_refusal<ValueError>([&] { static_cast<void>(carrier->allocate_like(23)); }, "24 slots");
    expect_refusal<ValueError>(
        [&] { static_cast<void>(carrier->new_like(std::vector<Scalar>(3, Scalar(0.0)))); },
        "24 expected, 3 given");
  }
  const Ref<Carrier> full = warm(32)->new_like(std::vector<Scalar>(kSlots, Scalar(2.0)));
  const auto& tiled = dynamic_cast<const TiledEvictable&>(*full);
  EXPECT_EQ(tiled.primary_tiles(), set({{0, 0}, {1, 0}}));
  EXPECT_EQ(tiled.secondary_tiles().size(), 4U);
  EXPECT_EQ(values(*full), std::vector<float>(kSlots, 2.0F));
}

TEST(TiledEvictable, ReleaseEndsEverythingOnce) {
  const Ref<TiledEvictable> carrier = warm(32);
  const Tensor tensor(carrier, 0, Layout(Shape{4, 6}, Stride{1, 4}));
  carrier->release();
  carrier->release();
  EXPECT_EQ(carrier->size(), 0);
  EXPECT_EQ(carrier->tile_state(0), TileState());
  EXPECT_EQ(carrier->valid_tiles(), TileSet());
  EXPECT_TRUE(carrier->secondary()->is_released());
  expect_refusal<RuntimeError>([&] { carrier->promote(set({{0, 0}})); }, "released");
  expect_refusal<RuntimeError>([&] { carrier->evict(set({{0, 0}})); }, "released");
  expect_refusal<RuntimeError>([&] { static_cast<void>(carrier->at(0)); }, "released");
  expect_refusal<RuntimeError>([&] { carrier->check_tensor("relu", tensor); }, "released");
  EXPECT_EQ(carrier->residency_stats().peak_primary_bytes, 32);
  const Ref<CPU> primary = CPU::make(kSlots);
  static_cast<void>(TiledEvictable::make(primary, empty_file(), options()));
  EXPECT_FALSE(primary->is_released());
  EXPECT_FALSE(primary->is_owned());
}

TEST(TiledEvictable, TensorsOnItAreNotMoved) {
  const Ref<TiledEvictable> carrier = warm();
  const Tensor full(carrier, 0, Layout(Shape{4, 6}, Stride{1, 4}));
  expect_refusal<NotImplementedError>([&] { static_cast<void>(move(full, CPU::make(kSlots))); },
                                      "TiledEvictable");
  expect_refusal<NotImplementedError>(
      [&] { static_cast<void>(move(Tensor(CPU::make(kSlots), 0, full.layout()), carrier)); },
      "TiledEvictable");
  expect_refusal<BufferError>([&] { static_cast<void>(carrier->dlpack_info()); }, "TiledEvictable");
  EXPECT_FALSE(carrier->is_released());
  EXPECT_EQ(values(*carrier), counted());
}

TEST(TiledEvictable, ResidencyIsAFacetOfTheClass) {
  const Ref<TiledEvictable> carrier = warm();
  const auto& facet = carrier->require_facet<TiledResidencyFacet>();
  facet.evict(*carrier, set(kAll));
  facet.promote_async(*carrier, set({{1, 1}})).wait();
  EXPECT_EQ(carrier->primary_tiles(), set({{1, 1}}));
  EXPECT_EQ(carrier->primary()->facet<TiledResidencyFacet>(), nullptr);
}

TEST(TiledEvictable, ItsCapabilitiesAreThoseOfThePrimaryForTheSixNames) {
  const Ref<TiledEvictable> carrier = warm();
  carrier->release();
  std::set<std::string> names;
  int tensors = 0;
  int scalar_last = 0;
  int scalar_first = 0;
  for (const CapabilityEntry& entry : carrier->operation_capabilities()) {
    names.insert(entry->operation);
    const auto& operands = entry->operands;
    if (entry->operation == "mul")
      ++(operands[0].role == operands[1].role      ? tensors
         : operands[0].role == OperandRole::Tensor ? scalar_last
                                                   : scalar_first);
  }
  EXPECT_GT(tensors, 0);
  EXPECT_GT(scalar_last, 0);
  EXPECT_EQ(scalar_first, scalar_last);
  EXPECT_EQ(names, (std::set<std::string>{"add", "elementwise_mul", "matmul", "mul", "reduce_sum", "relu"}));
  using Operands = std::vector<PlanOperand>;
  const auto supports = [&](std::string_view name, const Operands& operands) {
    return carrier->supports_operation_plan(resolve_operation_plan(name, operands));
  };
  EXPECT_TRUE(supports("mul", {dtypes::Float32, Scalar(2.0)}));
  EXPECT_TRUE(supports("mul", {dtypes::Float32, dtypes::Float32}));
  EXPECT_TRUE(supports("matmul", {dtypes::Float32, dtypes::Float32}));
  EXPECT_FALSE(supports("add", {dtypes::Int32, dtypes::Float32}));
  EXPECT_FALSE(supports("exp", {dtypes::Float32}));
}

// --- Requests

TEST(TiledEvictable, RequestsRefuseWhatTheyCannotMove) {
  const Ref<TiledEvictable> carrier = warm();
  expect_refusal<ValueError>([&] { carrier->promote(set({{0}})); }, "rank");
  expect_refusal<ValueError>([&] { carrier->evict(set({{0, 3}})); }, "outside");
  carrier->promote(TileSet());
  const AwaitResidency nothing = carrier->promote_async(set(kAll));
  EXPECT_TRUE(nothing.done());
  nothing.wait();
  const Ref<TiledEvictable> blank = TiledEvictable::make(CPU::make(0), CPU::make(0), options());
  expect_refusal<RuntimeError>([&] { blank->promote(set({{0, 0}})); }, "invalid");
  blank->evict(set({{0, 0}}));
}

std::shared_ptr<IoScript> script(IoScriptOptions given) {
  return std::make_shared<IoScript>(std::move(given));
}
using Kind = detail::IoStep::Kind;

TEST(TiledEvictable, APendingTileRefusesEverybodyAndOtherTilesDoNot) {
  const Ref<TiledEvictable> carrier = cold();
  const auto gate = std::make_shared<detail::Gate>();
  const ScopedIoCalls scope(script({.read = {{.kind = Kind::kHold, .gate = gate}}}));
  std::optional<AwaitResidency> handle = carrier->promote_async(set({{0, 0}}));
  ASSERT_TRUE(gate->wait_entered(30));
  EXPECT_FALSE(handle->done());
  EXPECT_EQ(carrier->pending_requests(), 1);
  EXPECT_EQ(carrier->tile_state(0).location, TileLocation::secondary);
  expect_refusal<RuntimeError>([&] { carrier->promote(set({{1, 0}, {0, 0}})); }, "wait");
  expect_refusal<RuntimeError>([&] { carrier->evict(set({{0, 0}})); }, "pending");
  expect_refusal<RuntimeError>([&] { carrier->store(0, Scalar(1.0)); }, "wait");
  expect_refusal<RuntimeError>([&] { carrier->release(); }, "wait");
  expect_refusal<RuntimeError>([&] { TileWork({{carrier, std::nullopt}}, Purpose::operation); }, "wait");
  EXPECT_FALSE(carrier->is_released());
  carrier->promote(set({{1, 1}}));
  EXPECT_EQ(carrier->at(0).to_binary32(), 0.0F);
  handle.reset();
  gate->open();
  while (carrier->pending_requests() != 0) std::this_thread::yield();
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {1, 1}}));
  EXPECT_EQ(carrier->version(), 0);
}

TEST(TiledEvictable, ARequestThatFailsHalfwayChangesNothing) {
  const Ref<TiledEvictable> carrier = warm();
  carrier->store(0, Scalar(5.0));
  carrier->store(8, Scalar(6.0));
  carrier->evict(set({{1, 2}}));
  const TileSet two = set({{0, 0}, {0, 1}});
  carrier->reset_residency_stats();
  {
    const ScopedIoCalls scope(script({.write = {{}, {.kind = Kind::kFail, .code = EIO}}}));
    const AwaitResidency handle = carrier->evict_async(two);
    EXPECT_THROW(handle.wait(), OSError);
    EXPECT_THROW(handle.wait(), OSError);
  }
  EXPECT_EQ(carrier->secondary_tiles(), set({{1, 2}}));
  EXPECT_EQ(carrier->dirty_tiles(), two);
  EXPECT_EQ(carrier->version(), 2);
  EXPECT_EQ(carrier->residency_stats().evictions, 0);
  EXPECT_EQ(carrier->residency_stats().bytes_written, 0);
  carrier->evict(two);
  EXPECT_EQ(carrier->residency_stats().bytes_written, 32);
  std::vector<float> expected = counted();
  expected[0] = 5.0F;
  expected[8] = 6.0F;
  EXPECT_EQ(values(*carrier), expected);
}

TEST(TiledEvictable, EveryFailingCallLeavesAllValuesAndTheNextTryWorks) {
  for (const std::optional<std::int64_t> budget : {std::optional<std::int64_t>(), {32}}) {
    bool was_clean = false;
    for (Index n = 1; !was_clean; ++n) {
      const Ref<TiledEvictable> carrier = n % 2 == 0 ? cold(budget) : warm(budget);
      std::vector<float> expected = counted();
      const auto life = [&] {
        carrier->promote(set({{0, 0}, {1, 0}}));
        carrier->store(1, Scalar(9.0));
        expected[1] = 9.0F;
        carrier->promote(set({{1, 2}}));
        carrier->evict(set({{0, 0}, {1, 2}}));
        carrier->store(23, Scalar(8.0));
        expected[23] = 8.0F;
      };
      {
        const auto calls = script({.fail_at = n});
        const ScopedIoCalls scope(calls);
        try {
          life();
          was_clean = calls->counts().calls < n;
        } catch (const OSError&) {
        }
        EXPECT_EQ(carrier->pending_requests(), 0);
      }
      ASSERT_EQ(values(*carrier), expected) << "call " << n;
      EXPECT_EQ(carrier->primary_bytes(), 16 * static_cast<Index>(carrier->primary_tiles().size()));
      life();
      ASSERT_EQ(values(*carrier), expected) << "call " << n;
    }
  }
}

// --- Budgets

TEST(TiledEvictable, ABudgetRefusesMoreThanItHoldsAndKeepsSecondaryCopies) {
  const Ref<TiledEvictable> carrier = cold(32);
  expect_refusal<ValueError>([&] { carrier->promote(set(kAll)); }, "32");
  EXPECT_EQ(carrier->secondary_tiles(), set(kAll));
  carrier->store(0, Scalar(5.0));
  carrier->promote(set({{1, 0}}));
  carrier->promote(set({{0, 1}}));
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {0, 1}}));
  EXPECT_EQ(carrier->residency_stats().bytes_written, 0);
  carrier->evict(set({{0, 0}}));
  EXPECT_EQ(carrier->residency_stats().bytes_written, 16);
  EXPECT_EQ(carrier->at(0).to_binary32(), 5.0F);
  EXPECT_EQ(carrier->residency_stats().peak_primary_bytes, 32);
}

TEST(TiledEvictable, VictimsAreTheLeastRecentlyUsedOfTheCleanFirst) {
  const Ref<TiledEvictable> carrier = cold(48);
  carrier->promote(set({{0, 0}}));
  carrier->promote(set({{1, 0}}));
  carrier->promote(set({{0, 1}}));
  static_cast<void>(carrier->at(0));  // a use of (0,0)
  carrier->promote(set({{1, 1}}));
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {0, 1}, {1, 1}}));
  carrier->store(8, Scalar(1.0));  // (0,1): dirty
  carrier->store(0, Scalar(1.0));  // (0,0): dirty
  carrier->promote(set({{0, 2}}));
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {0, 1}, {0, 2}}));
  carrier->store(16, Scalar(1.0));
  carrier->promote(set({{1, 2}}));  // all dirty: the oldest use is that of (0,1)
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {0, 2}, {1, 2}}));
  EXPECT_EQ(carrier->residency_stats().bytes_written, 16);
}

TEST(TiledEvictable, AFullPrimarySeedBeyondTheBudgetGoesToSecondary) {
  const Ref<TiledEvictable> carrier = warm(32);
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {1, 0}}));
  EXPECT_EQ(carrier->secondary_tiles().size(), 4U);
  EXPECT_EQ(values(*carrier), counted());
  EXPECT_EQ(carrier->residency_stats().evictions, 0);
  EXPECT_EQ(carrier->residency_stats().peak_primary_bytes, 32);
}

TEST(TiledEvictable, TilesMadeOneByOneAreWrittenBackWhenFull) {
  const Ref<TiledEvictable> carrier = warm(32)->make_like(false);
  for (Index tile = 0; tile < 6; ++tile) {
    if (tile % 2 == 0) {
      const Tensor made = carrier->start_tile(tile);
      EXPECT_LE(carrier->primary_bytes(), 32);
      for (Index position = 0; position < 4; ++position)
        made.carrier()->store(position, Scalar(static_cast<double>(carrier->grid().slot({tile, position}))));
      carrier->finish_tile(tile, true);
    } else {
      const Ref<CPU> made = CPU::make(4);
      for (Index position = 0; position < 4; ++position)
        made->store(position, Scalar(static_cast<double>(carrier->grid().slot({tile, position}))));
      carrier->install_tile(tile, made, true);
      EXPECT_TRUE(made->is_owned());
    }
  }
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 2}, {1, 2}}));
  EXPECT_EQ(carrier->dirty_tiles(), set({{0, 2}, {1, 2}}));
  EXPECT_EQ(carrier->secondary_tiles().size(), 4U);
  EXPECT_EQ(values(*carrier), counted());
  EXPECT_LE(carrier->residency_stats().peak_primary_bytes, 32);
  expect_refusal<TypeError>([&] { carrier->install_tile(0, make_ref<Slots>(4, dtypes::Float32), true); },
                            "CPU");
  expect_refusal<ValueError>([&] { carrier->install_tile(0, CPU::make(3), true); }, "4 slots");
}

// --- Work

/// What an operation that needs one tile at a time does; the sum of all it saw.
double sweep(const Ref<TiledEvictable>& carrier, Purpose purpose = Purpose::operation) {
  TileWork work({{carrier, std::nullopt}}, purpose);
  double sum = 0;
  for (Index tile = 0; tile < 6; ++tile) {
    const TileWork::TileRef step{0, tile};
    const TileWork::TileRef next{0, tile + 1};
    work.enter_step({&step, 1}, {&next, tile + 1 < 6 ? 1U : 0U});
    const Tensor values = work.tile(step);
    EXPECT_EQ(values.layout(), Layout(Shape{2, 2}, Stride{1, 2}));
    EXPECT_EQ(values.carrier_type(), carrier->primary()->carrier_class());
    for (Index i = 0; i < values.size(); ++i) sum += values.at(i).to_binary32();
  }
  work.finish();
  return sum;
}

TEST(TileWork, StreamsAColdCarrierThroughItsBudget) {
  const Ref<TiledEvictable> carrier = cold(32);
  EXPECT_EQ(sweep(carrier), 276.0);
  streaming::ResidencyStats stats = carrier->residency_stats();
  EXPECT_EQ(stats, (streaming::ResidencyStats{6, 4, 96, 0, 0, 6, 32}));
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 2}, {1, 2}}));
  carrier->reset_residency_stats();
  EXPECT_EQ(carrier->residency_stats(), (streaming::ResidencyStats{.peak_primary_bytes = 32}));
  EXPECT_EQ(sweep(carrier), 276.0);
  EXPECT_EQ(carrier->residency_stats().hits + carrier->residency_stats().misses, 6);
}

TEST(TileWork, UnlimitedWorkBringsEachTileInOnce) {
  const Ref<TiledEvictable> carrier = cold();
  EXPECT_EQ(sweep(carrier), 276.0);
  EXPECT_EQ(sweep(carrier), 276.0);
  EXPECT_EQ(carrier->residency_stats(), (streaming::ResidencyStats{6, 0, 96, 0, 6, 6, 96}));
  EXPECT_EQ(carrier->primary_tiles(), set(kAll));
}

TEST(TileWork, ServesTilesThatStillLieInAFullPrimarySeed) {
  for (const std::optional<std::int64_t> budget : {std::optional<std::int64_t>(), {16}, {48}})
    EXPECT_EQ(sweep(warm(budget)), 276.0);
}

TEST(TileWork, EveryBudgetAndStartGivesTheSameValues) {
  std::mt19937 random(3);
  for (const std::int64_t budget : {16, 32, 48, 96})
    for (int round = 0; round < 20; ++round) {
      const Ref<TiledEvictable> carrier = cold(budget);
      for (int i = 0; i < 3; ++i) carrier->store(static_cast<Index>(random() % kSlots), Scalar(0.0));
      const std::vector<float> expected = values(*carrier);
      EXPECT_EQ(sweep(carrier), std::accumulate(expected.begin(), expected.end(), 0.0));
      EXPECT_EQ(values(*carrier), expected);
      EXPECT_LE(carrier->residency_stats().peak_primary_bytes, budget);
    }
}

TEST(TileWork, LooksAheadOnlyWhereBothStepsFit) {
  for (const std::int64_t budget : {16, 32}) {
    const Ref<TiledEvictable> carrier = cold(budget);
    const auto calls = script({});
    const ScopedIoCalls scope(calls);
    TileWork work({{carrier, std::nullopt}}, Purpose::operation);
    const std::vector<TileWork::TileRef> steps{{0, 0}, {0, 1}, {0, 2}};
    work.enter_step({&steps[0], 1}, {&steps[1], 1});
    EXPECT_EQ(carrier->pending_requests() != 0 || work.is_primary(steps[1]), budget == 32);
    work.enter_step({&steps[1], 1}, {&steps[2], 1});
    EXPECT_TRUE(work.is_primary(steps[1]));
  }
}

TEST(TileWork, PinsItsTilesAgainstOthersWhoMayRead) {
  const Ref<TiledEvictable> carrier = cold(32);
  carrier->promote(set({{0, 0}}));
  {
    TileWork work({{carrier, set({{0, 0}, {1, 0}})}}, Purpose::projection);
    expect_refusal<RuntimeError>([&] { carrier->evict(set({{0, 0}})); }, "pinned");
    expect_refusal<RuntimeError>([&] { carrier->promote(set({{1, 0}})); }, "pinned");
    expect_refusal<RuntimeError>([&] { carrier->store(0, Scalar(1.0)); }, "pinned");
    expect_refusal<RuntimeError>([&] { carrier->release(); }, "wait");
    EXPECT_EQ(carrier->at(0).to_binary32(), 0.0F);
    carrier->promote(set({{0, 0}}));
    carrier->promote(set({{1, 2}}));
    const std::vector<TileWork::TileRef> both{{0, 0}, {0, 1}};
    work.enter_step(both, {});
    expect_refusal<RuntimeError>([&] { carrier->promote(set({{0, 2}})); }, "wait");
    EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {1, 0}}));
  }
  carrier->store(0, Scalar(1.0));
  carrier->evict(set({{0, 0}, {1, 0}}));
}

TEST(TileWork, RefusesInvalidTilesAndTooSmallBudgetsBeforeThePolicyIsAsked) {
  struct Never final : ResidencyPolicy {
    ResidencyPlan plan(const TileSet&, Purpose) override {
      ADD_FAILURE();
      return {};
    }
  };
  const Ref<TiledEvictable> carrier =
      TiledEvictable::make(CPU::make(0), counting<FileBacked>(), options(16, std::make_shared<Never>()));
  expect_refusal<ValueError>([&] { TileWork({{carrier, std::nullopt, 2}}, Purpose::operation); }, "32");
  EXPECT_EQ(carrier->residency_stats(), streaming::ResidencyStats());
  const Ref<TiledEvictable> blank = warm()->make_like(false);
  expect_refusal<RuntimeError>([&] { TileWork({{blank, std::nullopt}}, Purpose::operation); }, "invalid");
  expect_refusal<RuntimeError>([&] { TileWork({{blank, set({{1, 1}})}}, Purpose::scatter); }, "invalid");
  TileWork({{blank, set({{1, 1}}), 1, false}}, Purpose::scatter).finish();
  blank->release();
}

/// Answers with one plan, and writes down what it was asked.
struct Planned final : ResidencyPolicy {
  explicit Planned(ResidencyPlan answer) : answer_(std::move(answer)) {}
  ResidencyPlan plan(const TileSet& required, Purpose purpose) override {
    asked.emplace_back(required, purpose);
    return answer_;
  }
  std::vector<std::pair<TileSet, Purpose>> asked;

 private:
  ResidencyPlan answer_;
};

TEST(TileWork, APolicyIsAskedOncePerWorkAndItsPlanIsKept) {
  const auto policy = std::make_shared<Planned>(
      ResidencyPlan{.promote = set({{1, 2}}), .retain = set({{0, 0}}), .evict = set({{1, 0}})});
  const Ref<TiledEvictable> carrier =
      TiledEvictable::make(CPU::make(0), counting<FileBacked>(), options(64, policy));
  carrier->promote(set({{0, 0}}));
  EXPECT_TRUE(policy->asked.empty());
  {
    TileWork work({{carrier, set({{1, 0}, {0, 1}, {1, 1}})}}, Purpose::projection);
    ASSERT_EQ(policy->asked.size(), 1U);
    EXPECT_EQ(policy->asked[0], std::pair(set({{1, 0}, {0, 1}, {1, 1}}), Purpose::projection));
    EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}}));
    for (const Index tile : {1, 2, 3}) {
      const TileWork::TileRef step{0, tile};
      work.enter_step({&step, 1}, {});
      EXPECT_EQ(carrier->tile_state(0).location, TileLocation::primary);
      if (tile == 1) {
        EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {1, 0}, {1, 2}}));
      }
    }
    work.finish();
  }
  EXPECT_EQ(policy->asked.size(), 1U);
  EXPECT_NE(carrier->tile_state(1).location, TileLocation::primary);
  EXPECT_EQ(carrier->tile_state(0).location, TileLocation::primary);
  expect_refusal<ValueError>(
      [&] {
        const auto wrong = std::make_shared<Planned>(ResidencyPlan{{}, {}, set({{7, 7}})});
        TileWork({{TiledEvictable::make(counting(), empty_file(), options({}, wrong)), std::nullopt}},
                 Purpose::operation);
      },
      "outside");
}

TEST(TileWork, RetainedTilesNeedRoomBesideTheSteps) {
  const auto policy = std::make_shared<Planned>(ResidencyPlan{{}, set({{0, 0}, {1, 0}}), {}});
  const Ref<TiledEvictable> carrier =
      TiledEvictable::make(CPU::make(0), counting<FileBacked>(), options(32, policy));
  EXPECT_EQ(sweep(carrier), 276.0);  // nothing of it is primary yet
  carrier->promote(set({{0, 0}, {1, 0}}));
  carrier->reset_residency_stats();
  expect_refusal<ValueError>([&] { static_cast<void>(sweep(carrier)); }, "48");
  EXPECT_EQ(carrier->residency_stats().promotions, 0);
  carrier->evict(set({{1, 0}}));
  EXPECT_EQ(sweep(carrier), 276.0);
  EXPECT_EQ(carrier->tile_state(0).location, TileLocation::primary);
}

TEST(TileWork, EvictionsWaitUntilOthersLetGo) {
  const auto policy = std::make_shared<Planned>(ResidencyPlan{{}, {}, set({{0, 0}})});
  const Ref<TiledEvictable> carrier =
      TiledEvictable::make(counting(), empty_file(), options(std::nullopt, policy));
  auto first = std::make_unique<TileWork>(std::vector<TileWork::Source>{{carrier, set({{0, 0}})}},
                                          Purpose::projection);
  TileWork second({{carrier, set({{0, 0}})}}, Purpose::projection);
  first->finish();
  first.reset();
  EXPECT_EQ(carrier->tile_state(0).location, TileLocation::primary);
  second.finish();
  EXPECT_EQ(carrier->tile_state(0).location, TileLocation::secondary);
}

TEST(TileWork, ATileInOnePieceOfAPrimarySeedIsReadThere) {
  const Ref<TiledEvictable> columns =
      TiledEvictable::make(counting<CPU>(), empty_file(), {.grid_shape = {1, 3}, .tile_shape = {4, 2}});
  const TileWork::TileRef step{0, 2};
  const auto enter = [&] {
    TileWork work({{columns, std::nullopt}}, Purpose::operation);
    work.enter_step({&step, 1}, {});
    EXPECT_EQ(work.tile(step).at(0).to_binary32(), columns->get_value(16).to_binary32());
    return work.tile(step);
  };
  EXPECT_EQ(enter().carrier(), columns->primary());
  EXPECT_EQ(enter().offset(), 16);
  columns->store(16, Scalar(-1.0F));
  EXPECT_NE(enter().carrier(), columns->primary());  // it has storage of its own since
}

TEST(TileWork, OneCarrierAsBothOperandsIsOneCarrier) {
  const auto policy = std::make_shared<Planned>(ResidencyPlan{});
  const Ref<TiledEvictable> carrier =
      TiledEvictable::make(CPU::make(0), counting<FileBacked>(), options(32, policy));
  TileWork work({{carrier, std::nullopt, 2}, {carrier, std::nullopt, 1}}, Purpose::operation);
  EXPECT_EQ(policy->asked.size(), 1U);
  const std::vector<TileWork::TileRef> step{{0, 3}, {1, 3}, {1, 4}};
  work.enter_step(step, {});
  EXPECT_EQ(work.tile(step[0]).carrier(), work.tile(step[1]).carrier());
  EXPECT_EQ(carrier->residency_stats().misses, 2);
}

TEST(TileWork, SecondWorkOnTilesStillToComeIsRefusedAndTheFirstGoesOn) {
  const Ref<TiledEvictable> carrier = cold();
  const auto begin = [&](Tiles tiles, Purpose purpose) {
    return std::make_unique<TileWork>(std::vector<TileWork::Source>{{carrier, set(tiles)}}, purpose);
  };
  const auto first = begin({{0, 0}, {1, 0}}, Purpose::projection);
  expect_refusal<RuntimeError>([&] { static_cast<void>(begin({{1, 0}}, Purpose::projection)); }, "wait");
  expect_refusal<RuntimeError>([&] { static_cast<void>(sweep(carrier)); }, "tile (0, 0) is pinned");
  const std::vector<TileWork::TileRef> step{{0, 0}, {0, 1}};
  first->enter_step(step, {});
  const auto second = begin({{1, 0}}, Purpose::projection);  // pins add up
  first->finish();
  second->finish();
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {1, 0}}));
}

TEST(TileWork, BudgetedOperationsTakeTurnsAndRefuseTheirOwnCallbacks) {
  const Ref<TiledEvictable> carrier = cold(32);
  const Ref<TiledEvictable> other = cold(32);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        std::vector<TileWork::Source> sources{{carrier, std::nullopt}, {other, std::nullopt}};
        if (i % 2 == 0) std::swap(sources[0], sources[1]);
        TileWork work(sources, Purpose::operation);
        for (Index tile = 0; tile < 6; ++tile) {
          const std::vector<TileWork::TileRef> step{{0, tile}, {1, 5 - tile}};
          work.enter_step(step, {});
          right +=
              work.tile(step[0]).at(0).to_binary32() == static_cast<float>(carrier->grid().first_slot(tile));
        }
        work.finish();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4 * 20 * 6);
  TileWork work({{carrier, std::nullopt}}, Purpose::backward);
  expect_refusal<RuntimeError>([&] { static_cast<void>(sweep(carrier)); }, "callbacks");
  EXPECT_EQ(sweep(other), 276.0);
}

TEST(TileWork, AFailingTransferLeavesEverythingReadable) {
  bool was_clean = false;
  for (Index n = 1; !was_clean; ++n) {
    const Ref<TiledEvictable> carrier = cold(32);
    carrier->store(0, Scalar(100.0));
    {
      const auto calls = script({.fail_at = n});
      const ScopedIoCalls scope(calls);
      try {
        EXPECT_EQ(sweep(carrier), 376.0);
        was_clean = calls->counts().calls < n;
      } catch (const OSError&) {
      }
    }
    EXPECT_EQ(carrier->pending_requests(), 0);
    EXPECT_EQ(sweep(carrier), 376.0);
    EXPECT_LE(carrier->residency_stats().peak_primary_bytes, 32);
    carrier->release();
  }
}

// --- Fork

TEST(TiledEvictableFork, AChildReadsAndMovesWhatItsParentIsMoving) {
  const Ref<TiledEvictable> carrier = cold(32);
  carrier->store(4, Scalar(0.5));
  const auto gate = std::make_shared<detail::Gate>();
  const ScopedIoCalls scope(script({.read = {{.kind = Kind::kHold, .gate = gate}}}));
  const AwaitResidency handle = carrier->promote_async(set({{1, 2}}));
  ASSERT_TRUE(gate->wait_entered(30));
  std::vector<float> expected = counted();
  expected[4] = 0.5F;
  std::fflush(nullptr);  // or the child prints it again
  const pid_t child = fork();
  if (child == 0) {
    bool good = handle.done() && carrier->pending_requests() == 0;
    try {
      handle.wait();
      good = false;
    } catch (const RuntimeError& error) {
      good = good && std::string(error.what()).find("fork") != std::string::npos;
    }
    good = good && values(*carrier) == expected && carrier->tile_state(5).location == TileLocation::secondary;
    carrier->promote(set({{1, 2}}));
    good = good && values(*carrier) == expected && carrier->primary_bytes() == 32;
    try {
      carrier->evict(set({{0, 0}}));  // dirty: the file is the parent's
      good = false;
    } catch (const RuntimeError&) {
    }
    good = good && values(*carrier) == expected;
    std::_Exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  gate->open();
  handle.wait();
  EXPECT_EQ(values(*carrier), expected);
}

// --- Size

TEST(TiledEvictable, AMillionTilesCostLittleToMakeAndToStepThrough) {
  constexpr Index side = 1000;
  const auto seconds = [](const auto& work) {  // of the processor: what others do does not count
    const std::clock_t begin = std::clock();
    work();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  Ref<TiledEvictable> carrier;
  const double made = seconds([&] {
    carrier = TiledEvictable::make(CPU::make(side * side), CPU::make(0),
                                   {.grid_shape = {side, side}, .tile_shape = {1, 1}});
  });
  EXPECT_LT(made, 2.0);
  EXPECT_EQ(carrier->primary_tiles().size(), static_cast<std::size_t>(side * side));
  std::vector<Index> some;
  for (Index tile = 0; tile < 1000; ++tile) some.push_back(tile);
  TileWork work({{carrier, std::nullopt}}, Purpose::operation);
  for (int pass = 0; pass < 2; ++pass) {
    const double stepped = seconds([&] {
      for (const Index tile : some) {
        const TileWork::TileRef step{0, tile};
        const TileWork::TileRef next{0, tile + 1};
        work.enter_step({&step, 1}, {&next, 1});
      }
    });
    if (pass == 1) RecordProperty("nanoseconds_per_step", static_cast<int>(stepped * 1e6));
    EXPECT_LT(stepped, 0.5);  // the first pass gives each tile storage of its own
  }
}

}  // namespace
}  // namespace orlop::inline v0
