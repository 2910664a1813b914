// Direct operations on tiled carriers beside the same operations on dense Tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/carriers/generic/generic.hpp"
#include "orlop/carriers/tiled_evictable/streaming.hpp"
#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

enum class Kind { cpu, generic };
constexpr Kind kinds[] = {Kind::cpu, Kind::generic};

Ref<Carrier> empty_carrier(Kind kind, const DType& dtype = dtypes::Float32) {
  if (kind == Kind::cpu) return CPU::make(0, {.dtype = dtype});
  return Generic::make({}, {.dtype = dtype});
}

Ref<Carrier> carrier_of(Kind kind, const std::vector<float>& values) {
  Ref<Carrier> carrier = empty_carrier(kind)->allocate_like(static_cast<Index>(values.size()));
  carrier->write_span(0, carrier->size(), values.data());
  return carrier;
}

std::vector<float> slots(const Carrier& carrier) {
  std::vector<float> values(static_cast<std::size_t>(carrier.size()));
  carrier.read_span(0, carrier.size(), values.data());
  return values;
}

std::vector<float> random_values(Index count, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return values;
}

/// One Tensor twice: tiled with every tile in the secondary tier, and dense.
struct Both {
  Tensor tiled, dense;
  [[nodiscard]] TiledEvictable& carrier() const { return dynamic_cast<TiledEvictable&>(*tiled.carrier()); }
};

struct Geometry {
  std::vector<Index> grid, tile;
  [[nodiscard]] Shape shape() const {
    std::vector<Index> extents;
    for (std::size_t axis = 0; axis < grid.size(); ++axis) extents.push_back(grid[axis] * tile[axis]);
    return Shape::flat(extents);
  }
  [[nodiscard]] Index tile_size() const {
    Index size = 1;
    for (const Index extent : tile) size *= extent;
    return size;
  }
};

Both make_both(Kind kind, const Geometry& geometry, const Layout& layout, std::mt19937& random,
               std::optional<std::int64_t> budget = std::nullopt) {
  const std::vector<float> values = random_values(layout.size(), random);
  const Ref<TiledEvictable> tiled = TiledEvictable::make(
      empty_carrier(kind), carrier_of(Kind::cpu, values),
      {.grid_shape = geometry.grid, .tile_shape = geometry.tile, .primary_budget_bytes = budget});
  return {Tensor(tiled, 0, layout), Tensor(carrier_of(kind, values), 0, layout)};
}

Both make_both(Kind kind, const Geometry& geometry, std::mt19937& random,
               std::optional<std::int64_t> budget = std::nullopt) {
  return make_both(kind, geometry, Layout::canonical(geometry.shape()), random, budget);
}

/// X61, X53: dense, on the primary's class, canonical, from slot 0 of its own storage.
void expect_dense(const Tensor& result, const Tensor& like) {
  EXPECT_EQ(result.carrier_type(), like.carrier_type());
  EXPECT_EQ(result.layout(), like.layout());
  EXPECT_EQ(result.offset(), 0);
  EXPECT_EQ(result.carrier()->size(), like.carrier()->size());
}

void expect_same_bits(const Tensor& result, const Tensor& expected) {
  expect_dense(result, expected);
  EXPECT_EQ(slots(*result.carrier()), slots(*expected.carrier()));
}

void expect_close(const Tensor& result, const Tensor& expected, float tolerance = 1e-4F) {
  expect_dense(result, expected);
  const auto ours = slots(*result.carrier()), theirs = slots(*expected.carrier());
  for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], theirs[i], tolerance) << i;
}

/// Sums on Generic go on from one tile to the next as if there were none; elsewhere they are close.
void expect_sum(Kind kind, const Tensor& result, const Tensor& expected) {
  if (kind == Kind::generic)
    expect_same_bits(result, expected);
  else
    expect_close(result, expected);
}

const Geometry tall{{2, 3}, {2, 2}};

TEST(TiledOperations, PointwiseResultsHaveTheDenseBits) {
  std::mt19937 random(1);
  for (const Kind kind : kinds)
    for (const auto& budget : {std::optional<std::int64_t>(), std::optional<std::int64_t>(16)}) {
      const Both x = make_both(kind, tall, random, budget), y = make_both(kind, tall, random, budget);
      expect_same_bits(relu(x.tiled), relu(x.dense));
      expect_same_bits(mul(x.tiled, Scalar(3.0)), mul(x.dense, Scalar(3.0)));
      expect_same_bits(mul(Scalar(3.0), x.tiled), mul(x.dense, Scalar(3.0)));
      expect_same_bits(add(x.tiled, y.tiled), add(x.dense, y.dense));
      expect_same_bits(mul(x.tiled, y.tiled), mul(x.dense, y.dense));
      expect_same_bits(elementwise_mul(x.tiled, x.tiled), elementwise_mul(x.dense, x.dense));
      EXPECT_EQ(x.tiled.version(), 0);
    }
}

TEST(TiledOperations, LargeTilesInEveryOrderOfMemory) {
  std::mt19937 random(2);
  const Geometry large{{3, 2}, {100, 70}};
  const Layout inside(Shape{{100, 3}, {70, 2}}, Stride{{1, 100}, {300, 21000}});
  const Both x = make_both(Kind::cpu, large, random, 28000);
  const Both y = make_both(Kind::cpu, {{2, 4}, {150, 35}}, random, 21000);
  expect_same_bits(add(x.tiled, y.tiled), add(x.dense, y.dense));
  const Both z = make_both(Kind::cpu, large, inside, random);
  expect_same_bits(relu(z.tiled), relu(z.dense));
  const Both line = make_both(Kind::cpu, {{5}, {40000}}, random, 160000);
  expect_same_bits(relu(line.tiled), relu(line.dense));
}

TEST(TiledOperations, BroadcastOperands) {
  std::mt19937 random(3);
  for (const Kind kind : kinds) {
    const Both x = make_both(kind, tall, random, 16);
    for (const Geometry& other :
         {Geometry{{2, 1}, {2, 1}}, Geometry{{1, 2}, {1, 3}}, Geometry{{1, 1}, {1, 1}}}) {
      const Both y = make_both(kind, other, random);
      expect_same_bits(mul(x.tiled, y.tiled), mul(x.dense, y.dense));
      expect_same_bits(add(y.tiled, x.tiled), add(y.dense, x.dense));
      expect_same_bits(add(y.dense, x.tiled), add(y.dense, x.dense));
    }
  }
}

TEST(TiledOperations, SumsFoldAcrossTiles) {
  std::mt19937 random(4);
  const AccumulatorOptions in_double{.accumulator_dtype = dtypes::Float64};
  for (const Kind kind : kinds)
    for (const Geometry& geometry : {tall, Geometry{{3, 5}, {7, 11}}}) {
      const Both x = make_both(kind, geometry, random, 4 * geometry.tile_size() * 2);
      expect_sum(kind, reduce_sum(x.tiled, "a b -> a"), reduce_sum(x.dense, "a b -> a"));
      expect_same_bits(reduce_sum(x.tiled, "a b -> a", in_double),
                       reduce_sum(x.dense, "a b -> a", in_double));
      expect_sum(kind, matmul(x.tiled, x.tiled), matmul(x.dense, x.dense));
      expect_close(matmul(x.tiled, x.tiled, in_double), matmul(x.dense, x.dense, in_double), 1e-6F);
    }
}

TEST(TiledOperations, ContractionsOfDifferentTilings) {
  std::mt19937 random(5);
  for (const Kind kind : kinds) {
    const Both x = make_both(kind, {{2, 4}, {5, 3}}, random, 60),
               y = make_both(kind, {{3, 2}, {2, 6}}, random, 48);
    expect_sum(kind, matmul(x.tiled, y.tiled), matmul(x.dense, y.dense));
    expect_sum(kind, matmul(x.dense, y.tiled), matmul(x.dense, y.dense));
    expect_sum(kind, matmul(x.tiled, y.dense), matmul(x.dense, y.dense));
  }
}

TEST(TiledOperations, BudgetAndResidencyChangeNoBits) {
  std::mt19937 random(6);
  const Geometry geometry{{3, 4}, {8, 8}};
  const std::vector<float> values = random_values(24 * 32, random);
  std::vector<std::vector<float>> results;
  for (const auto& budget : {std::optional<std::int64_t>(), std::optional<std::int64_t>(512),
                             std::optional<std::int64_t>(1024), std::optional<std::int64_t>(3072)})
    for (const bool is_warm : {false, true}) {
      const Ref<TiledEvictable> carrier = TiledEvictable::make(
          empty_carrier(Kind::cpu), carrier_of(Kind::cpu, values),
          {.grid_shape = geometry.grid, .tile_shape = geometry.tile, .primary_budget_bytes = budget});
      if (is_warm) carrier->promote({{1, 2}});
      const Tensor x(carrier, 0, Layout::canonical(geometry.shape()));
      results.push_back(slots(*reduce_sum(x, "a b -> a").carrier()));
      const std::vector<float> product = slots(*matmul(x, x).carrier());
      results.back().insert(results.back().end(), product.begin(), product.end());
    }
  for (const auto& result : results) EXPECT_EQ(result, results.front());
}

TEST(TiledOperations, ExactIntegersAreNarrowedOnceAtTheEnd) {
  const auto tiled = [](const std::vector<std::int32_t>& values, Geometry geometry) {
    const Ref<Carrier> seed = CPU::make(static_cast<Index>(values.size()), {.dtype = dtypes::Int32});
    seed->write_span(0, seed->size(), values.data());
    return Tensor(TiledEvictable::make(empty_carrier(Kind::cpu, dtypes::Int32), seed,
                                       {.grid_shape = geometry.grid, .tile_shape = geometry.tile}),
                  0, Layout::canonical(geometry.shape()));
  };
  constexpr std::int32_t most = 2147483647;
  const Tensor sums = reduce_sum(tiled({most, most, -most, -5}, {{1, 4}, {1, 1}}), "a b -> a");
  EXPECT_EQ(*sums.at(0).as_integer(), most - 5);
  EXPECT_THROW(reduce_sum(tiled({most, 1, 0, 0}, {{1, 4}, {1, 1}}), "a b -> a"), OverflowError);
  const Tensor x = tiled({most, most, -most, -7}, {{1, 4}, {1, 1}});
  const Tensor y = tiled({most, 1, most, 1}, {{1, 2}, {1, 2}});
  EXPECT_EQ(*matmul(x, y).at(0).as_integer(), most - 7);
  EXPECT_THROW(matmul(x, x), OverflowError);
  try {
    static_cast<void>(mul(tiled({1, 2, 3, most}, {{4}, {1}}), Scalar(2)));
    ADD_FAILURE();
  } catch (const OverflowError& error) {
    EXPECT_THAT(error.what(), HasSubstr("element 3"));
  }
}

// --- Gradients

/// Gradients of Σ f(a, b) · cotangent, tiled and dense.
void expect_gradients(Kind kind, const std::function<Tensor(const Tensor&, const Tensor&)>& operation,
                      const Tensor& a, const Tensor& b, const Tensor& dense_a, const Tensor& dense_b,
                      std::mt19937& random) {
  const Tensor result = operation(a, b), expected = operation(dense_a, dense_b);
  const Tensor cotangent(carrier_of(kind, random_values(expected.size(), random)), 0, expected.layout());
  const std::array inputs{a, b}, dense_inputs{dense_a, dense_b};
  const auto ours = grad(result, inputs, cotangent), theirs = grad(expected, dense_inputs, cotangent);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(ours[i]);
    const Tensor& gradient = *ours[i];
    EXPECT_EQ(gradient.carrier_type(), inputs[i].carrier_type());
    EXPECT_EQ(gradient.layout(), inputs[i].layout());
    const auto values = slots(*gradient.carrier()), wanted = slots(*theirs[i]->carrier());
    ASSERT_EQ(values.size(), wanted.size());
    for (std::size_t k = 0; k < values.size(); ++k)
      ASSERT_NEAR(values[k], wanted[k], 1e-4F) << i << ": " << k;
    const auto* source = dynamic_cast<const TiledEvictable*>(inputs[i].carrier().get());
    if (source == nullptr) continue;
    const auto& made = dynamic_cast<const TiledEvictable&>(*gradient.carrier());
    EXPECT_EQ(made.grid().grid_shape(), source->grid().grid_shape());
    EXPECT_EQ(made.primary_budget_bytes(), source->primary_budget_bytes());
    EXPECT_EQ(static_cast<Index>(made.valid_tiles().size()), made.grid().tile_count());
  }
}

TEST(TiledGradients, OfEveryOperationBesideTheDenseOnes) {
  std::mt19937 random(7);
  const auto two = [](Tensor (*operation)(const Tensor&, const Tensor&)) {
    return std::function<Tensor(const Tensor&, const Tensor&)>(operation);
  };
  const std::function<Tensor(const Tensor&, const Tensor&)> operations[] = {
      [](const Tensor& a, const Tensor& b) { return add(a, b); },
      [](const Tensor& a, const Tensor& b) { return mul(a, b); }, two(elementwise_mul),
      [](const Tensor& a, const Tensor& b) { return add(relu(a), mul(b, Scalar(3.0))); }};
  for (const Kind kind : kinds)
    for (const auto& operation : operations) {
      const Both x = make_both(kind, tall, random, 16), y = make_both(kind, {{4, 2}, {1, 3}}, random, 24);
      expect_gradients(kind, operation, x.tiled, y.tiled, x.dense, y.dense, random);
    }
}

TEST(TiledGradients, OfWidenedOperands) {
  std::mt19937 random(8);
  for (const Kind kind : kinds)
    for (const Geometry& other :
         {Geometry{{2, 1}, {2, 1}}, Geometry{{1, 2}, {1, 3}}, Geometry{{1, 1}, {1, 1}}}) {
      const Both x = make_both(kind, tall, random, 16), y = make_both(kind, other, random);
      const auto sum = [](const Tensor& a, const Tensor& b) { return add(a, b); };
      const auto product = [](const Tensor& a, const Tensor& b) { return elementwise_mul(a, b); };
      expect_gradients(kind, sum, x.tiled, y.tiled, x.dense, y.dense, random);
      expect_gradients(kind, product, y.tiled, x.tiled, y.dense, x.dense, random);
      expect_gradients(kind, product, y.dense, x.tiled, y.dense, x.dense, random);
    }
}

TEST(TiledGradients, OfContractionsAndSums) {
  std::mt19937 random(9);
  const auto contract = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  const auto in_double = [](const Tensor& a, const Tensor& b) {
    return matmul(a, b, {.accumulator_dtype = dtypes::Float64});
  };
  for (const Kind kind : kinds) {
    const Both x = make_both(kind, {{2, 4}, {5, 3}}, random, 60),
               y = make_both(kind, {{3, 2}, {2, 6}}, random, 48);
    expect_gradients(kind, contract, x.tiled, y.tiled, x.dense, y.dense, random);
    expect_gradients(kind, contract, x.dense, y.tiled, x.dense, y.dense, random);
    expect_gradients(kind, contract, x.tiled, y.dense, x.dense, y.dense, random);
    expect_gradients(kind, in_double, x.tiled, y.tiled, x.dense, y.dense, random);
  }
}

TEST(TiledGradients, OfTilesTransposedInside) {
  std::mt19937 random(10);
  const Layout transposed(Shape{{2, 2}, {2, 3}}, Stride{{4, 2}, {1, 8}});
  for (const Kind kind : kinds) {
    const Both x = make_both(kind, tall, transposed, random, 16),
               y = make_both(kind, tall, transposed, random, 16);
    const auto mixed = [](const Tensor& a, const Tensor& b) { return elementwise_mul(a, b); };
    expect_gradients(kind, mixed, x.tiled, y.tiled, x.dense, y.dense, random);
    const auto contract = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
    expect_gradients(kind, contract, x.tiled, y.tiled, x.dense, y.dense, random);
    const auto rest = [](const Tensor& a, const Tensor& b) { return mul(relu(a), relu(b)); };
    expect_gradients(kind, rest, x.tiled, y.tiled, x.dense, y.dense, random);
  }
}

// --- Progress and refusals

TEST(TiledOperations, ProgressTellsTheStepsToTheInnermostScope) {
  std::mt19937 random(11);
  const Both x = make_both(Kind::cpu, tall, random, 32);
  std::vector<Index> outer, inner;
  const streaming::ProgressScope first(
      [&](const streaming::TiledProgress& now) { outer.push_back(now.step); });
  {
    const streaming::ProgressScope second([&](const streaming::TiledProgress& now) {
      EXPECT_EQ(now.operation, "relu");
      EXPECT_EQ(now.phase, "forward");
      EXPECT_EQ(now.steps, 6);
      EXPECT_LE(now.primary_bytes, 32);
      inner.push_back(now.step);
    });
    static_cast<void>(relu(x.tiled));
  }
  EXPECT_THAT(inner, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(outer.empty());
  static_cast<void>(reduce_sum(x.tiled, "a b -> a"));
  EXPECT_EQ(outer.size(), 7U);
  EXPECT_THROW(streaming::ProgressScope(nullptr), TypeError);
}

}  // namespace
}  // namespace orlop
