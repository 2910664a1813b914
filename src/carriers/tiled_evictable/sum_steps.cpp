// Steps of sums and contractions: runs of rows and of terms that lie in one tile of each operand.
#include <algorithm>

#include "carriers/tiled_evictable/step_geometry.hpp"
#include "carriers/tiled_evictable/steps.hpp"
#include "orlop/base/checked.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

/// A run of a mode's ordinals as leaves: whole lower ones, some of the next.
struct Run {
  Index count;
  Index offset;  // of its first element in the tile
  Numbers extents, strides;

  [[nodiscard]] Layout layout() const { return flat_layout(extents, strides); }
};

/// One top-level mode of an operand of a sum.
class SumAxis {
 public:
  SumAxis(const StepOperand& operand, std::size_t mode) : tile_(operand.tile_shape()[mode]) {
    const Leaves leaves = leaves_of_modes(operand.layout(), mode, mode + 1);
    const std::array strides{leaves.strides};
    const StridedLoop loop = coalesce_strides(leaves.extents, strides);
    extents_ = Numbers(loop.extents);
    strides_ = Numbers(loop.strides);
    if (!extents_.empty()) return;
    extents_.push_back(1);
    strides_.push_back(0);
  }

  [[nodiscard]] Index tile() const noexcept { return tile_; }
  [[nodiscard]] Index size() const { return product(extents_); }

  /// The longest run from ordinal `first` on, of at most `limit` ordinals and within the tile.
  [[nodiscard]] Run longest_run(Index first, Index limit) const {
    limit = std::min(limit, tile_ - first % tile_);
    Index best = 0;
    std::size_t level = 0;
    Index below = 1;
    for (std::size_t leaf = 0; leaf < extents_.size() && below <= limit; ++leaf) {
      const Index coordinate = first / below % extents_[leaf];
      const Index count = std::min(extents_[leaf] - coordinate, limit / below) * below;
      if (count > best) {
        best = count;
        level = leaf;
      }
      if (coordinate != 0) break;
      below *= extents_[leaf];
    }
    Run run{best,
            at_ordinal(extents_, strides_, first) - at_ordinal(extents_, strides_, first / tile_ * tile_),
            {},
            {}};
    below = 1;
    for (std::size_t leaf = 0; leaf <= level; ++leaf) {
      run.extents.push_back(leaf < level ? extents_[leaf] : best / below);
      run.strides.push_back(strides_[leaf]);
      below *= extents_[leaf];
    }
    return run;
  }

 private:
  Index tile_;
  Numbers extents_, strides_;
};

/// Cuts the ordinals `first` … `last` - 1, which lie in one tile of each axis, into runs of both: calls
/// `body(ordinal, run of a, run of b)`.
template <class Body>
void for_each_common_run(const SumAxis& a, const SumAxis& b, Index first, Index last, Body body) {
  while (first < last) {
    Run left = a.longest_run(first, last - first);
    Run right = b.longest_run(first, left.count);
    while (left.count != right.count) {
      if (left.count > right.count)
        left = a.longest_run(first, right.count);
      else
        right = b.longest_run(first, left.count);
    }
    body(first, left, right);
    first += left.count;
  }
}

template <class Body>
void for_each_run_of(const SumAxis& axis, Index first, Index last, Body body) {
  while (first < last) {
    const Run run = axis.longest_run(first, last - first);
    body(first, run);
    first += run.count;
  }
}

/// (first, second) as two modes.
Layout two_modes(const Run& first, const Run& second) {
  return Layout::append(Layout::append(Layout(), first.layout()), second.layout());
}

/// A run of the ordinals of a canonical mode, in leaves like those of `run`.
Run canonical_run(Index first, const Run& run, Index step) {
  Run result{run.count, first * step, run.extents, {}};
  for (const Index below : steps_of(run.extents)) result.strides.push_back(below * step);
  return result;
}

/// The cuts of a mode where a tile of either axis ends: each run lies in one tile of both.
std::vector<Index> common_cuts(const SumAxis& a, const SumAxis& b, Index first, Index last) {
  std::vector<Index> cuts{first};
  while (cuts.back() < last) {
    const Index here = cuts.back();
    const auto end_of_tile = [here](const SumAxis& axis) { return here - here % axis.tile() + axis.tile(); };
    cuts.push_back(std::min({last, end_of_tile(a), end_of_tile(b)}));
  }
  return cuts;
}

class ReductionSteps final : public StepSequence {
 public:
  explicit ReductionSteps(const StepOperand& operand)
      : operand_(operand), kept_(operand, 0), reduced_(operand, 1) {}

  [[nodiscard]] Index count() const noexcept override { return operand_.tile_count(); }
  [[nodiscard]] Step first() const override { return {}; }
  void advance(Step& step) const override { step.tiles[0] = ++step.number; }

  void for_each_piece(const Step& step, const std::function<void(const Piece&)>& body) const override {
    const Index row = step.tiles[0] % operand_.grid_shape()[0] * kept_.tile();
    const Index term = step.tiles[0] / operand_.grid_shape()[0] * reduced_.tile();
    for_each_run_of(reduced_, term, term + reduced_.tile(), [&](Index, const Run& terms) {
      for_each_run_of(kept_, row, row + kept_.tile(), [&](Index first, const Run& rows) {
        const Run sums = canonical_run(first, rows, 1);
        body({{sums.offset, sums.layout()},
              {Window{operand_.offset() + rows.offset + terms.offset, two_modes(rows, terms)}, {}}});
      });
    });
  }

 private:
  StepOperand operand_;
  SumAxis kept_, reduced_;
};

/// What the two contractions share: rows of both operands and a run of terms.
struct Contraction {
  StepOperand lhs, rhs;
  SumAxis lhs_rows, rhs_rows, lhs_terms, rhs_terms;

  Contraction(const StepOperand& left, const StepOperand& right)
      : lhs(left),
        rhs(right),
        lhs_rows(left, 0),
        rhs_rows(right, 0),
        lhs_terms(left, 1),
        rhs_terms(right, 1) {}

  /// Calls `body(windows of lhs and rhs)` for every common run of the terms.
  template <class Body>
  void for_each_term_run(Index first, Index last, const Run& left, const Run& right, Body body) const {
    for_each_common_run(
        lhs_terms, rhs_terms, first, last, [&](Index, const Run& left_terms, const Run& right_terms) {
          body(std::array<Window, 2>{
              Window{lhs.offset() + left.offset + left_terms.offset, two_modes(left, left_terms)},
              Window{rhs.offset() + right.offset + right_terms.offset, two_modes(right, right_terms)}});
        });
  }
};

class MatmulSteps final : public StepSequence {
 public:
  MatmulSteps(const StepOperand& lhs, const StepOperand& rhs)
      : parts_(lhs, rhs),
        cuts_(common_cuts(parts_.lhs_terms, parts_.rhs_terms, 0, parts_.lhs_terms.size())),
        counts_{lhs.grid_shape()[0], rhs.grid_shape()[0]},
        count_(checked_multiply(checked_multiply(counts_[0], counts_[1], "steps"), runs(), "steps")) {
    // Holding an operand reads it once, and the other once for each of the held tiles, but for the one that
    // is there already at each turn.
    const auto traffic = [&](const StepOperand& held, const StepOperand& swept) {
      const auto bytes = [](const StepOperand& operand, Index tiles) {
        return operand.is_tiled() ? static_cast<double>(tiles) * static_cast<double>(operand.tile_size())
                                  : 0.0;
      };
      const auto sweeps = static_cast<double>(held.grid_shape()[0]);
      return bytes(held, held.tile_count()) + sweeps * bytes(swept, swept.tile_count()) -
             (sweeps - 1) * bytes(swept, swept.grid_shape()[1]);
    };
    held_ = traffic(rhs, lhs) < traffic(lhs, rhs) ? 1 : 0;
  }

  [[nodiscard]] Index count() const noexcept override { return count_; }
  [[nodiscard]] Step first() const override {
    Step step;
    name_tiles(step);
    return step;
  }
  void advance(Step& step) const override {
    ++step.number;
    name_tiles(step);
  }

  void for_each_piece(const Step& step, const std::function<void(const Piece&)>& body) const override {
    const Place place = place_of(step.number);
    const Index row = place.rows[0] * parts_.lhs_rows.tile();
    const Index column = place.rows[1] * parts_.rhs_rows.tile();
    const Index rows = parts_.lhs_rows.size();
    for_each_run_of(parts_.lhs_rows, row, row + parts_.lhs_rows.tile(), [&](Index first, const Run& left) {
      for_each_run_of(parts_.rhs_rows, column, column + parts_.rhs_rows.tile(),
                      [&](Index first_column, const Run& right) {
                        const Run row_run = canonical_run(first, left, 1);
                        const Run column_run = canonical_run(first_column, right, rows);
                        const Window result{row_run.offset + column_run.offset,
                                            two_modes(row_run, column_run)};
                        parts_.for_each_term_run(place.first_term, place.last_term, left, right,
                                                 [&](const auto& operands) { body({result, operands}); });
                      });
    });
  }

  [[nodiscard]] bool pairs_different_tiles() const noexcept override {
    return counts_[0] > 1 || counts_[1] > 1;
  }

 private:
  struct Place {
    std::array<Index, 2> rows;  // which tile of rows of each operand
    Index first_term, last_term;
  };

  [[nodiscard]] Index runs() const noexcept { return static_cast<Index>(cuts_.size()) - 1; }

  [[nodiscard]] Place place_of(Index number) const {
    const std::size_t swept = 1 - held_;
    const Index run = number / (counts_[0] * counts_[1]);
    const Index turn = number / counts_[swept];  // sweeps so far, in all runs
    const Index within = turn % counts_[held_];
    const auto to_and_fro = [](Index place, Index count, Index turns) {
      return turns % 2 == 0 ? place : count - 1 - place;
    };
    Place place{};
    place.rows[held_] = to_and_fro(within, counts_[held_], run);
    place.rows[swept] = to_and_fro(number % counts_[swept], counts_[swept], turn);
    place.first_term = cuts_[static_cast<std::size_t>(run)];
    place.last_term = cuts_[static_cast<std::size_t>(run) + 1];
    return place;
  }

  void name_tiles(Step& step) const {
    const Place place = place_of(step.number);
    const auto name = [&](const StepOperand& operand, Index rows) {
      return rows * operand.tile_steps()[0] +
             place.first_term / operand.tile_shape()[1] * operand.tile_steps()[1];
    };
    step.tiles = {name(parts_.lhs, place.rows[0]), name(parts_.rhs, place.rows[1])};
  }

  Contraction parts_;
  std::vector<Index> cuts_;
  std::array<Index, 2> counts_;  // tiles of rows
  Index count_;
  std::size_t held_ = 0;
};

class MatmulIntoTiles final : public StepSequence {
 public:
  MatmulIntoTiles(const StepOperand& lhs, const StepOperand& rhs, const StepOperand& target)
      : parts_(lhs, rhs),
        target_(target),
        target_rows_(target, 0),
        target_columns_(target, 1),
        cuts_(common_cuts(parts_.rhs_rows, target_columns_, 0, target_columns_.size())) {
    for (std::size_t run = 0; run + 1 < cuts_.size(); ++run)
      if (cuts_[run] % target_columns_.tile() == 0) first_runs_.push_back(static_cast<Index>(run));
    first_runs_.push_back(static_cast<Index>(cuts_.size()) - 1);
    const Index per_row_of_tiles =
        checked_multiply(static_cast<Index>(cuts_.size()) - 1, rhs.grid_shape()[1], "steps");
    count_ = checked_multiply(per_row_of_tiles, target.grid_shape()[0], "steps");
  }

  [[nodiscard]] Index count() const noexcept override { return count_; }
  [[nodiscard]] Step first() const override {
    Step step;
    step.position.resize(4);
    return name_tiles(step);
  }
  void advance(Step& step) const override {
    ++step.number;
    const auto [row, column, run, terms] = place_of(step);
    if (++terms == parts_.rhs.grid_shape()[1]) {
      terms = 0;
      if (++run == first_run(column + 1)) {
        if (++row == target_.grid_shape()[0]) {
          row = 0;
          ++column;
        }
        run = first_run(column);
      }
    }
    name_tiles(step);
  }

  void for_each_piece(const Step& step, const std::function<void(const Piece&)>& body) const override {
    Step copy = step;
    const auto [row, column, run, terms] = place_of(copy);
    const Index first_row = row * target_rows_.tile();
    const Index first_term = terms * parts_.rhs_terms.tile();
    for_each_common_run(target_rows_, parts_.lhs_rows, first_row, first_row + target_rows_.tile(),
                        [&](Index, const Run& row_run, const Run& left) {
                          for_each_common_run(
                              target_columns_, parts_.rhs_rows, cut(run), cut(run + 1),
                              [&](Index, const Run& column_run, const Run& right) {
                                const Window result{target_.offset() + row_run.offset + column_run.offset,
                                                    two_modes(row_run, column_run)};
                                parts_.for_each_term_run(
                                    first_term, first_term + parts_.rhs_terms.tile(), left, right,
                                    [&](const auto& operands) { body({result, operands}); });
                              });
                        });
  }

 private:
  struct Place {
    Index &row, &column;  // of the target's tile
    Index& run;           // of its columns
    Index& terms;         // tile of terms
  };
  [[nodiscard]] static Place place_of(Step& step) {
    return {step.position[0], step.position[1], step.position[2], step.position[3]};
  }
  [[nodiscard]] Index first_run(Index column) const { return first_runs_[static_cast<std::size_t>(column)]; }
  [[nodiscard]] Index cut(Index run) const { return cuts_[static_cast<std::size_t>(run)]; }

  const Step& name_tiles(Step& step) const {
    const auto [row, column, run, terms] = place_of(step);
    const StepOperand& rhs = parts_.rhs;
    step.tiles = {row * target_.tile_steps()[0] + column * target_.tile_steps()[1],
                  cut(run) / rhs.tile_shape()[0] * rhs.tile_steps()[0] + terms * rhs.tile_steps()[1]};
    return step;
  }

  Contraction parts_;
  StepOperand target_;
  SumAxis target_rows_, target_columns_;
  std::vector<Index> cuts_;        // of the columns
  std::vector<Index> first_runs_;  // by the target's column of tiles
  Index count_ = 0;
};

}  // namespace

std::unique_ptr<StepSequence> reduction_steps(const StepOperand& operand) {
  return std::make_unique<ReductionSteps>(operand);
}

std::unique_ptr<StepSequence> matmul_steps(const StepOperand& lhs, const StepOperand& rhs) {
  return std::make_unique<MatmulSteps>(lhs, rhs);
}

std::unique_ptr<StepSequence> matmul_into_tiles(const StepOperand& lhs, const StepOperand& rhs,
                                                const StepOperand& target) {
  return std::make_unique<MatmulIntoTiles>(lhs, rhs, target);
}

}  // namespace orlop::inline v0
