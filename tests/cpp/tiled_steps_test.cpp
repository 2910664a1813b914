// Steps of direct operations on tiles: order, tiles and elements against plain enumeration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "carriers/tiled_evictable/steps.hpp"

namespace orlop {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// A layout on a tiled carrier and its geometry.
struct Tiled {
  Layout layout;
  std::vector<Index> grid, tile;

  [[nodiscard]] StepOperand operand() const { return StepOperand::tiled(layout, grid, tile); }
  [[nodiscard]] Index tile_size() const { return operand().tile_size(); }

  /// X42: the tile and the position of a slot.
  [[nodiscard]] std::pair<Index, Index> place(Index slot) const {
    Index number = 0, position = 0, tile_step = 1, position_step = 1;
    for (std::size_t axis = 0; axis < grid.size(); ++axis) {
      const Index coordinate = slot % (grid[axis] * tile[axis]);
      slot /= grid[axis] * tile[axis];
      number += coordinate / tile[axis] * tile_step;
      position += coordinate % tile[axis] * position_step;
      tile_step *= grid[axis];
      position_step *= tile[axis];
    }
    return {number, position};
  }
};

Tiled canonical(std::vector<Index> grid, std::vector<Index> tile) {
  std::vector<Index> extents;
  for (std::size_t axis = 0; axis < grid.size(); ++axis) extents.push_back(grid[axis] * tile[axis]);
  return {Layout::canonical(Shape::flat(extents)), std::move(grid), std::move(tile)};
}

std::vector<Step> all_steps(const StepSequence& sequence) {
  std::vector<Step> steps{sequence.first()};
  for (Index i = 1; i < sequence.count(); ++i) {
    Step next = steps.back();
    sequence.advance(next);
    EXPECT_EQ(next.number, i);
    steps.push_back(next);
  }
  return steps;
}

std::vector<Piece> pieces_of(const StepSequence& sequence, const Step& step) {
  std::vector<Piece> pieces;
  sequence.for_each_piece(step, [&](const Piece& piece) { pieces.push_back(piece); });
  return pieces;
}

/// Distinct tiles read by all steps with room for one tile of each operand.
std::array<Index, 2> cold_reads(const std::vector<Step>& steps) {
  std::array<Index, 2> reads{};
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (std::size_t operand : {0U, 1U})
      if (i == 0 || steps[i].tiles[operand] != steps[i - 1].tiles[operand]) ++reads[operand];
  return reads;
}

/// Where one element comes from: tile and position, or 0 and the slot of a dense operand.
using Source = std::pair<Index, Index>;

/// Every element of a pointwise sequence: the result's ordinal, and where each operand's element lies.
std::map<Index, std::array<Source, 2>> elements_of(const StepSequence& sequence, std::size_t operands) {
  std::map<Index, std::array<Source, 2>> elements;
  for (const Step& step : all_steps(sequence))
    for (const Piece& piece : pieces_of(sequence, step))
      for (Index i = 0; i < piece.result.layout.size(); ++i) {
        std::array<Source, 2> sources{};
        for (std::size_t o = 0; o < operands; ++o)
          sources[o] = {step.tiles[o], piece.operands[o].offset + piece.operands[o].layout(i)};
        const Index ordinal = piece.result.offset + piece.result.layout(i);
        EXPECT_TRUE(elements.emplace(ordinal, sources).second) << "twice: " << ordinal;
      }
  return elements;
}

/// The ordinal of an operand's element at an ordinal of the wider result.
Index narrowed(Index ordinal, const Shape& result, const Shape& operand) {
  Index narrow = 0, step = 1;
  for (std::size_t leaf = 0; leaf < result.leaves().size(); ++leaf) {
    if (operand.leaves()[leaf] != 1) narrow += ordinal % result.leaves()[leaf] * step;
    step *= operand.leaves()[leaf];
    ordinal /= result.leaves()[leaf];
  }
  return narrow;
}

void expect_pointwise(const Shape& result, const Tiled& lhs, const Tiled& rhs) {
  const std::array operands{lhs.operand(), rhs.operand()};
  const auto sequence = pointwise_steps(result, operands);
  const auto elements = elements_of(*sequence, 2);
  ASSERT_EQ(static_cast<Index>(elements.size()), result.size());
  std::set<std::pair<Index, Index>> pairs;
  for (const auto& [ordinal, sources] : elements) {
    EXPECT_EQ(sources[0], lhs.place(lhs.layout(narrowed(ordinal, result, lhs.layout.shape()))));
    EXPECT_EQ(sources[1], rhs.place(rhs.layout(narrowed(ordinal, result, rhs.layout.shape()))));
    pairs.insert({sources[0].first, sources[1].first});
  }
  // One step for each pair that meets, ascending by lhs tile, then rhs tile.
  std::vector<std::pair<Index, Index>> order;
  for (const Step& step : all_steps(*sequence)) order.emplace_back(step.tiles[0], step.tiles[1]);
  EXPECT_TRUE(std::ranges::equal(order, pairs));
  EXPECT_EQ(sequence->pairs_different_tiles(),
            std::ranges::any_of(pairs, [](const auto& pair) { return pair.first != pair.second; }));
}

TEST(TiledSteps, OneOperandTileByTile) {
  const Tiled x = canonical({2, 3}, {2, 2});
  const std::array operands{x.operand()};
  const auto sequence = pointwise_steps(x.layout.shape(), operands);
  EXPECT_EQ(sequence->count(), 6);
  const auto steps = all_steps(*sequence);
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(steps[static_cast<std::size_t>(i)].tiles[0], i);
  const auto pieces = pieces_of(*sequence, steps[2]);  // tile (0,1): slots 8, 9, 12, 13
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].result.offset, 8);
  EXPECT_EQ(pieces[0].result.layout, Layout(Shape({2, 2}), Stride({1, 4})));
  EXPECT_EQ(pieces[0].operands[0].offset, 0);
  EXPECT_EQ(pieces[0].operands[0].layout, Layout(Shape({2, 2}), Stride({1, 2})));
}

TEST(TiledSteps, ElementsInsideATileMayLieInAnyOrder) {
  // X43: tiles transposed inside.
  const Layout transposed(Shape{{2, 2}, {2, 3}}, Stride{{4, 2}, {1, 8}});
  const Tiled x{transposed, {2, 3}, {2, 2}};
  expect_pointwise(transposed.shape(), x, x);
  const Tiled straight{Layout::canonical(transposed.shape()), {2, 3}, {2, 2}};
  expect_pointwise(transposed.shape(), x, straight);
}

TEST(TiledSteps, PairsOfTilesThatMeet) {
  expect_pointwise(Shape{12}, canonical({4}, {3}), canonical({3}, {4}));
  expect_pointwise(Shape{12, 6}, canonical({4, 2}, {3, 3}), canonical({3, 3}, {4, 2}));
}

TEST(TiledSteps, WidenedModes) {
  expect_pointwise(Shape{4, 6}, canonical({2, 3}, {2, 2}), canonical({2, 1}, {2, 1}));
  expect_pointwise(Shape{4, 6}, canonical({1, 3}, {1, 2}), canonical({2, 1}, {2, 1}));
  expect_pointwise(Shape{4, 6}, canonical({1, 1}, {1, 1}), canonical({2, 2}, {2, 3}));
}

TEST(TiledSteps, NestedModesThatTilesCutAnywhere) {
  const Shape shape{{2, 3}, 4};
  const auto place = [](const Shape& modes, Index first_tile, Index second_tile) {
    return Tiled{Layout::canonical(modes),
                 {Shape(modes.mode(0)).size() / first_tile, 4 / second_tile},
                 {first_tile, second_tile}};
  };
  for (const Index tile : {1, 2, 3, 6}) {
    const Tiled lhs = place(shape, tile, 2);
    for (const Index other : {1, 2, 3, 6}) expect_pointwise(shape, lhs, place(shape, other, 1));
    for (const Index other : {1, 3}) expect_pointwise(shape, lhs, place(Shape{{1, 3}, 4}, other, 4));
    for (const Index other : {1, 2}) expect_pointwise(shape, place(Shape{{2, 1}, 4}, other, 4), lhs);
  }
}

TEST(TiledSteps, RandomGeometriesOfTwoOperands) {
  std::mt19937 random(5);
  const auto factor_of = [&](Index size) {
    std::vector<Index> factors;
    for (Index factor = 1; factor <= size; ++factor)
      if (size % factor == 0) factors.push_back(factor);
    return factors[random() % factors.size()];
  };
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::array<std::vector<Index>, 2> grids, tiles;
    std::vector<Index> extents;
    for (std::size_t axis = 0, rank = 1 + random() % 3; axis < rank; ++axis) {
      const auto extent = static_cast<Index>(1 + random() % 6);
      extents.push_back(extent);
      for (std::size_t operand = 0; operand < 2; ++operand) {
        const Index own = random() % 4 == 0 ? 1 : extent;
        tiles[operand].push_back(factor_of(own));
        grids[operand].push_back(own / tiles[operand].back());
      }
    }
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      extents[axis] = std::max(grids[0][axis] * tiles[0][axis], grids[1][axis] * tiles[1][axis]);
    expect_pointwise(Shape::flat(extents), canonical(grids[0], tiles[0]), canonical(grids[1], tiles[1]));
  }
}

TEST(TiledSteps, ADenseOperandIsReadWhereTheTilesLie) {
  const Tiled x = canonical({2, 3}, {2, 2});
  const Layout layout(Shape{4, 6}, Stride{10, 1});
  for (const bool is_first : {false, true}) {
    const StepOperand dense = StepOperand::dense(layout, 7);
    const std::array operands{is_first ? dense : x.operand(), is_first ? x.operand() : dense};
    const auto sequence = pointwise_steps(layout.shape(), operands);
    EXPECT_EQ(sequence->count(), 6);
    for (const auto& [ordinal, sources] : elements_of(*sequence, 2)) {
      EXPECT_EQ(sources[is_first ? 1 : 0], x.place(ordinal));
      EXPECT_EQ(sources[is_first ? 0 : 1], Source(0, 7 + layout(ordinal)));
    }
  }
}

/// The terms of every sum: (result ordinal) → the sources of its factors, in the order of the steps.
using Terms = std::map<Index, std::vector<std::array<Source, 2>>>;

Terms terms_of(const StepSequence& sequence) {
  Terms terms;
  for (const Step& step : all_steps(sequence))
    for (const Piece& piece : pieces_of(sequence, step)) {
      const Layout& left = piece.operands[0].layout;
      const Layout& right = piece.operands[1].layout;
      for (Index i = 0; i < left.mode(0).size(); ++i)
        for (Index j = 0; j < right.mode(0).size(); ++j)
          for (Index k = 0; k < left.mode(1).size(); ++k)
            terms[piece.result.offset + piece.result.layout.mode(0)(i) + piece.result.layout.mode(1)(j)]
                .push_back(
                    {Source(step.tiles[0], piece.operands[0].offset + left.mode(0)(i) + left.mode(1)(k)),
                     Source(step.tiles[1], piece.operands[1].offset + right.mode(0)(j) + right.mode(1)(k))});
    }
  return terms;
}

/// Each sum has every term once, ascending.
void expect_matmul(const Tiled& lhs, const Tiled& rhs) {
  const auto sequence = matmul_steps(lhs.operand(), rhs.operand());
  const Terms terms = terms_of(*sequence);
  const Index n = lhs.layout.mode(0).size(), m = rhs.layout.mode(0).size(), k = lhs.layout.mode(1).size();
  ASSERT_EQ(static_cast<Index>(terms.size()), n * m);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < m; ++j) {
      std::vector<std::array<Source, 2>> expected;
      for (Index t = 0; t < k; ++t)
        expected.push_back({lhs.place(lhs.layout.mode(0)(i) + lhs.layout.mode(1)(t)),
                            rhs.place(rhs.layout.mode(0)(j) + rhs.layout.mode(1)(t))});
      EXPECT_EQ(terms.at(i + j * n), expected) << i << ", " << j;
    }
}

TEST(TiledSteps, ContractionsFoldEveryTermInOrder) {
  expect_matmul(canonical({2, 3}, {2, 2}), canonical({2, 3}, {2, 2}));
  expect_matmul(canonical({2, 3}, {2, 2}), canonical({5, 3}, {1, 2}));
  expect_matmul(canonical({1, 1}, {3, 4}), canonical({2, 4}, {3, 1}));
  // Terms cut at 0, 3, 4, 6, 8, 9, 12: each run lies in one tile of both.
  expect_matmul(canonical({2, 4}, {2, 3}), canonical({3, 3}, {1, 4}));
  // A nested mode of terms in one operand only, transposed tiles in the other.
  expect_matmul({Layout::canonical(Shape{4, {2, 3}}), {2, 2}, {2, 3}},
                {Layout(Shape{{2, 2}, {2, 3}}, Stride{{4, 2}, {1, 8}}), {2, 3}, {2, 2}});
}

TEST(TiledSteps, ContractionsSweepToAndFro) {
  const Tiled x = canonical({2, 3}, {2, 2});
  const auto sequence = matmul_steps(x.operand(), x.operand());
  std::vector<std::pair<Index, Index>> order;
  for (const Step& step : all_steps(*sequence)) order.emplace_back(step.tiles[0], step.tiles[1]);
  EXPECT_THAT(order, ElementsAre(Pair(0, 0), Pair(0, 1), Pair(1, 1), Pair(1, 0), Pair(3, 2), Pair(3, 3),
                                 Pair(2, 3), Pair(2, 2), Pair(4, 4), Pair(4, 5), Pair(5, 5), Pair(5, 4)));
  EXPECT_TRUE(sequence->pairs_different_tiles());
}

TEST(TiledSteps, ContractionsReadNoMoreThanTheBound) {
  for (const Index n : {1, 2, 3, 5})
    for (const Index m : {1, 2, 4})
      for (const Index k : {1, 2, 3})
        for (const Index rows : {1, 3}) {
          const Tiled lhs = canonical({n, k}, {2, 2}), rhs = canonical({m, k}, {rows, 2});
          const auto reads = cold_reads(all_steps(*matmul_steps(lhs.operand(), rhs.operand())));
          const Index l = lhs.tile_size(), r = rhs.tile_size();
          const Index left = l * n * k, right = r * m * k;
          EXPECT_LE(reads[0] * l + reads[1] * r,
                    std::min(left + n * right - (n - 1) * k * r, right + m * left - (m - 1) * k * l));
        }
}

TEST(TiledSteps, ADenseOperandOfAContractionTakesNoTile) {
  const Tiled weights = canonical({3, 2}, {2, 2});
  const Layout layout(Shape{5, 4}, Stride{4, 1});
  const auto sequence = matmul_steps(StepOperand::dense(layout, 3), weights.operand());
  EXPECT_EQ(sequence->count(), 6);
  EXPECT_EQ(cold_reads(all_steps(*sequence)), (std::array<Index, 2>{1, 6}));
  const Terms terms = terms_of(*sequence);
  ASSERT_EQ(terms.size(), 30U);
  for (const auto& [ordinal, factors] : terms) {
    ASSERT_EQ(factors.size(), 4U);
    for (Index t = 0; t < 4; ++t) {
      const auto& factor = factors[static_cast<std::size_t>(t)];
      EXPECT_EQ(factor[0], Source(0, 3 + ordinal % 5 * 4 + t));
      EXPECT_EQ(factor[1], weights.place(ordinal / 5 + 6 * t));
    }
  }
}

TEST(TiledSteps, SumsTileByTile) {
  const Tiled x = canonical({2, 3}, {2, 2});
  for (const Layout& layout : {x.layout, Layout(Shape{{2, 2}, {2, 3}}, Stride{{4, 2}, {1, 8}})}) {
    const Tiled operand{layout, x.grid, x.tile};
    const auto sequence = reduction_steps(operand.operand());
    std::map<Index, std::vector<Source>> terms;
    for (const Step& step : all_steps(*sequence))
      for (const Piece& piece : pieces_of(*sequence, step)) {
        const Layout& place = piece.operands[0].layout;
        ASSERT_TRUE(std::ranges::equal(place.extents().first(piece.result.layout.extents().size()),
                                       piece.result.layout.extents()));
        for (Index j = 0; j < place.mode(1).size(); ++j)
          for (Index i = 0; i < place.mode(0).size(); ++i)
            terms[piece.result.offset + piece.result.layout(i)].emplace_back(
                step.tiles[0], piece.operands[0].offset + place.mode(0)(i) + place.mode(1)(j));
      }
    ASSERT_EQ(terms.size(), 4U);
    for (const auto& [row, sources] : terms) {
      std::vector<Source> expected;
      for (Index k = 0; k < 6; ++k)
        expected.push_back(operand.place(layout.mode(0)(row) + layout.mode(1)(k)));
      EXPECT_EQ(sources, expected) << row;
    }
  }
}

/// Σ_m g[n, m] · rhs[m, k] for each tile of lhs in turn.
void expect_into_tiles(const StepOperand& g, const StepOperand& rhs, const Tiled& target) {
  const auto sequence = matmul_into_tiles(g, rhs.transposed(), target.operand());
  std::map<Source, std::vector<Index>>
      terms;  // target tile and position → ordinals of m, as g's slots tell them
  const Index n = target.layout.mode(0).size();
  Index last_tile = 0;
  for (const Step& step : all_steps(*sequence)) {
    EXPECT_GE(step.tiles[0], last_tile);
    last_tile = step.tiles[0];
    for (const Piece& piece : pieces_of(*sequence, step)) {
      const Layout& left = piece.operands[0].layout;
      for (Index i = 0; i < left.mode(0).size(); ++i)
        for (Index j = 0; j < piece.operands[1].layout.mode(0).size(); ++j)
          for (Index k = 0; k < left.mode(1).size(); ++k) {
            const Index position =
                piece.result.offset + piece.result.layout.mode(0)(i) + piece.result.layout.mode(1)(j);
            terms[{step.tiles[0], position}].push_back(piece.operands[0].offset + left.mode(0)(i) +
                                                       left.mode(1)(k));
          }
    }
  }
  ASSERT_EQ(static_cast<Index>(terms.size()), target.layout.size());
  for (Index ordinal = 0; ordinal < target.layout.size(); ++ordinal) {
    std::vector<Index> expected;
    for (Index m = 0; m < g.layout().mode(1).size(); ++m) expected.push_back(ordinal % n + m * n);
    EXPECT_EQ(terms.at(target.place(target.layout(ordinal))), expected) << ordinal;
  }
}

TEST(TiledSteps, ContractionsIntoTiles) {
  const StepOperand g = StepOperand::dense(Layout::canonical(Shape{4, 6}));
  const Tiled lhs = canonical({2, 4}, {2, 3});
  expect_into_tiles(g, canonical({3, 3}, {2, 4}).operand(), lhs);
  expect_into_tiles(g, canonical({1, 12}, {6, 1}).operand(), lhs);
  expect_into_tiles(g, StepOperand::dense(Layout::canonical(Shape{6, 12})), lhs);
  const Tiled transposed{Layout(Shape{{2, 2}, {2, 3}}, Stride{{4, 2}, {1, 8}}), {2, 3}, {2, 2}};
  expect_into_tiles(g, canonical({2, 2}, {3, 3}).operand(), transposed);
}

}  // namespace
}  // namespace orlop
