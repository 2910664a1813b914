// Projection and scatter from C++: values in any order inside tiles, destinations, gradients, policies.
#include "orlop/carriers/tiled_evictable/projection.hpp"

#include "backends.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop::inline v0 {
namespace {

using testing::ElementsAre;
using testing_support::elements;
using testing_support::expect_refusal;

const Layout& canonical() {
  static const Layout layout(Shape{4, 6}, Stride{1, 4});
  return layout;
}

/// Slot s holds s; tiles (2,2) in a grid (2,3), all of them in a file.
Ref<TiledEvictable> cold(std::optional<std::int64_t> budget = {},
                         std::shared_ptr<ResidencyPolicy> policy = nullptr) {
  const Ref<FileBacked> file = FileBacked::make(dtypes::Float32);
  file->allocate(24);
  for (Index slot = 0; slot < 24; ++slot) file->store(slot, Scalar(static_cast<double>(slot)));
  return TiledEvictable::make(CPU::make(0), file, {{2, 3}, {2, 2}, std::move(policy), budget});
}

Tensor dense(Index rows, Index columns, float first) {
  const Ref<CPU> carrier = CPU::make(rows * columns);
  for (Index slot = 0; slot < rows * columns; ++slot)
    carrier->store(slot, Scalar(static_cast<double>(first) + static_cast<double>(slot)));
  return {carrier, 0, Layout(Shape{rows, columns}, Stride{1, rows})};
}

TEST(Projection, GathersThroughTheTensorsLayout) {
  const TileSelection selection{{1, 0}, {2}};
  for (const std::optional<std::int64_t> budget :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(16)}) {
    const Ref<TiledEvictable> carrier = cold(budget);
    const Tensor plain = project(Tensor(carrier, 0, canonical()), selection).wait();
    EXPECT_THAT(elements<float>(plain), ElementsAre(18, 19, 16, 17, 22, 23, 20, 21));
    const Layout transposed(Shape{{2, 2}, {2, 3}}, Stride{{4, 2}, {1, 8}});
    const Tensor turned = project(Tensor(carrier, 0, transposed), selection).wait();
    EXPECT_THAT(elements<float>(turned), ElementsAre(18, 22, 16, 20, 19, 23, 17, 21));
    EXPECT_EQ(carrier->version(), 0);
  }
}

TEST(Projection, WritesToADestinationAndGivesItBack) {
  const Tensor source(cold(), 0, canonical());
  const Ref<CPU> roomy = CPU::make(6);
  const Tensor result = project(source, TileSelection{{1}, {0}}, roomy).wait();
  EXPECT_EQ(result.carrier(), roomy);
  EXPECT_FALSE(roomy->is_owned());
  EXPECT_THAT(elements<float>(result), ElementsAre(2, 3, 6, 7));
  expect_refusal<ValueError>([&] { project(source, TileSelection{{1}, {0}}, CPU::make(3)); }, "small");
  expect_refusal<TypeError>([&] { project(dense(2, 2, 0), TileSelection{{1}, {0}}); }, "TiledEvictable");
  expect_refusal<ValueError>([&] { project(source, TileSelection{{1}, {3}}); }, "outside the grid");
}

TEST(Projection, ItsGradientIsImplicitElsewhere) {
  const Tensor source(cold(16), 0, canonical());
  for (int turn = 0; turn < 2; ++turn) {
    const Tensor result = project(source, TileSelection{{1}, {0}}).wait();
    backward(result, dense(2, 2, 1));
  }
  const Tensor gradient = gradient_of(source);
  const auto& carrier = dynamic_cast<const TiledEvictable&>(*gradient.carrier());
  EXPECT_EQ(carrier.primary_tiles(), (TileSet{{1, 0}}));
  EXPECT_EQ(carrier.tile_state(Index{0}).location, TileLocation::implicit);
  EXPECT_EQ(carrier.primary_budget_bytes(), 16);
  EXPECT_THAT(elements<float>(project(gradient, TileSelection{{0, 1}, {0}}).wait()),
              ElementsAre(0, 0, 2, 4, 0, 0, 6, 8));
}

TEST(Scatter, ReplacesOrAddsInANewCarrier) {
  const Tensor source(cold(), 0, canonical());
  const TileSelection selection{{1}, {0, 2}};
  const Tensor compact = dense(2, 4, 100);
  const Tensor replaced = scatter(compact, source, selection).wait();
  const auto& carrier = dynamic_cast<const TiledEvictable&>(*replaced.carrier());
  EXPECT_EQ(carrier.version(), 1);
  EXPECT_EQ(carrier.valid_tiles(), selection.tile_set());
  EXPECT_EQ(carrier.dirty_tiles(), selection.tile_set());
  EXPECT_THAT(elements<float>(project(replaced, selection).wait()),
              ElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
  const Tensor added = scatter(compact, source, selection, Reduction::add).wait();
  EXPECT_THAT(elements<float>(project(added, selection).wait()),
              ElementsAre(102, 104, 108, 110, 122, 124, 128, 130));
  EXPECT_FALSE(compact.carrier()->is_owned());
}

TEST(Scatter, ItsGradientsAreTheChosenTilesAndTheOthers) {
  const Tensor source(cold(), 0, canonical());
  const Tensor compact = dense(2, 4, 0);
  const TileSelection selection{{1}, {0, 2}};
  const Tensor scattered = scatter(compact, source, selection).wait();
  backward(scattered, Tensor(cold(), 0, canonical()));
  EXPECT_THAT(elements<float>(gradient_of(compact)), ElementsAre(2, 3, 6, 7, 18, 19, 22, 23));
  const Tensor gradient = gradient_of(source);
  EXPECT_EQ(dynamic_cast<const TiledEvictable&>(*gradient.carrier()).tile_state(Index{1}).location,
            TileLocation::implicit);
  EXPECT_EQ(gradient.carrier()->at(0).to_binary64(), 0.0);
  EXPECT_EQ(gradient.carrier()->at(9).to_binary64(), 9.0);
}

struct Recording final : ResidencyPolicy {
  std::vector<std::pair<TileSet, Purpose>> calls;
  ResidencyPlan plan(const TileSet& required, Purpose purpose) override {
    calls.emplace_back(required, purpose);
    return {{}, {}, required};
  }
};

TEST(Projection, APolicyIsAskedOnceAndItsPlanHolds) {
  const auto policy = std::make_shared<Recording>();
  const Ref<TiledEvictable> carrier = cold({}, policy);
  const TileSelection selection{{0}, {1}};
  static_cast<void>(project(Tensor(carrier, 0, canonical()), selection).wait());
  EXPECT_EQ(policy->calls, (std::vector{std::pair(selection.tile_set(), Purpose::projection)}));
  EXPECT_EQ(carrier->primary_tiles(), TileSet());
}

}  // namespace
}  // namespace orlop::inline v0
