// The geometry of steps: modes cut where tiles end, and the boxes between the cuts.
#include "carriers/tiled_evictable/steps.hpp"

#include <algorithm>
#include <numeric>

#include "orlop/base/checked.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

using Numbers = SmallVector<Index, 6>;

Index product(std::span<const Index> factors) {
  return std::accumulate(factors.begin(), factors.end(), Index{1}, std::multiplies<>());
}

/// The products of all earlier factors.
std::vector<Index> steps_of(std::span<const Index> extents) {
  std::vector<Index> steps;
  steps.reserve(extents.size());
  Index step = 1;
  for (const Index extent : extents) {
    steps.push_back(step);
    step *= extent;
  }
  return steps;
}

Layout flat_layout(std::span<const Index> extents, std::span<const Index> strides) {
  return {Shape::flat(extents), Stride::flat(strides)};
}

/// Σ coordinate · stride over the leaves at an ordinal.
Index at_ordinal(std::span<const Index> extents, std::span<const Index> strides, Index ordinal) {
  Index result = 0;
  for (std::size_t leaf = 0; leaf < extents.size(); ++leaf) {
    result += ordinal % extents[leaf] * strides[leaf];
    ordinal /= extents[leaf];
  }
  return result;
}

}  // namespace

// --- Operands

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
  // A step inside a tile is linear in positions as it is in slots; the others do not matter, since an element
  // is looked for from the first one of its tile.
  detail::Nest strides = layout.stride().nest();
  for (Index& stride : strides.leaves) {
    Index position = 0;
    for (std::size_t axis = 0; axis < logical.size(); ++axis)
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
  for (std::size_t mode = 0; mode < layout.rank(); ++mode)
    sizes.push_back(leaves_of_modes(layout, mode, mode + 1).size());
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

// --- Pointwise

namespace {

/// One top-level mode of a pointwise operation, cut into segments: runs of the result's ordinals that are
/// boxes of leaves and lie in one tile of each operand.
class PointwiseAxis {
 public:
  struct Segment {
    Index first;                   // ordinal of the result
    Index count;                   // ordinals
    std::size_t level;             // all lower leaves are whole, higher ones stand still
    std::array<Index, 2> offsets;  // of the first element in each operand's tile
    std::array<Index, 2> tiles;
  };
  /// The segments in which the same tiles meet.
  struct Group {
    std::array<Index, 2> tiles;
    std::size_t first, last;
  };

  PointwiseAxis(const Layout& result, std::span<const StepOperand> operands, std::size_t mode)
      : extents_(leaves_of_modes(result, mode, mode + 1).extents),
        result_strides_(leaves_of_modes(result, mode, mode + 1).strides) {
    for (const StepOperand& operand : operands)
      add(leaves_of_modes(operand.layout(), mode, mode + 1), operand.tile_shape()[mode]);
    const Index size = product(extents_);
    for (Index ordinal = 0; ordinal < size; ordinal += segments_.back().count)
      segments_.push_back(longest_segment(ordinal));
    std::stable_sort(segments_.begin(), segments_.end(),
                     [](const Segment& a, const Segment& b) { return a.tiles < b.tiles; });
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      if (groups_.empty() || groups_.back().tiles != segments_[i].tiles)
        groups_.push_back({segments_[i].tiles, i, i});
      groups_.back().last = i + 1;
    }
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (i == 0 || groups_[i].tiles[0] != groups_[i - 1].tiles[0]) first_groups_.push_back(i);
    first_groups_.push_back(groups_.size());
  }

  [[nodiscard]] const std::vector<Group>& groups() const noexcept { return groups_; }
  /// The groups of the first operand's tile.
  [[nodiscard]] std::size_t first_group(Index tile) const {
    return first_groups_[static_cast<std::size_t>(tile)];
  }
  [[nodiscard]] Index first_tiles() const noexcept { return static_cast<Index>(first_groups_.size()) - 1; }
  [[nodiscard]] const Segment& segment(std::size_t number) const { return segments_[number]; }

  /// Adds the leaves of a segment to those of a box: extents, then the strides of the result and of each
  /// operand.
  void append(const Segment& segment, Numbers& extents, std::array<Numbers, 3>& strides) const {
    Index below = 1;
    for (std::size_t leaf = 0; leaf <= segment.level && leaf < extents_.size(); ++leaf) {
      extents.push_back(leaf < segment.level ? extents_[leaf] : segment.count / below);
      below *= extents_[leaf];
      strides[0].push_back(result_strides_[leaf]);
      for (std::size_t operand = 0; operand < operands_.size(); ++operand)
        strides[1 + operand].push_back(operands_[operand].strides[leaf]);
    }
  }
  /// The result's ordinal at an ordinal of this mode.
  [[nodiscard]] Index result_at(Index ordinal) const {
    return at_ordinal(extents_, result_strides_, ordinal);
  }

 private:
  struct Operand {
    Numbers extents;               // its own
    Numbers ordinals;              // how far its ordinal moves in a leaf of the result
    Numbers own_strides, strides;  // in storage: over its own leaves; the same, 0 where it does not move
    Index tile;
  };

  void add(const Leaves& leaves, Index tile) {
    Operand operand{Numbers(leaves.extents), {}, Numbers(leaves.strides), {}, tile};
    const std::vector<Index> steps = steps_of(leaves.extents);
    for (std::size_t leaf = 0; leaf < steps.size(); ++leaf) {
      const bool moves = leaves.extents[leaf] != 1;
      operand.ordinals.push_back(moves ? steps[leaf] : 0);
      operand.strides.push_back(moves ? leaves.strides[leaf] : 0);
    }
    operands_.push_back(std::move(operand));
  }

  /// The longest segment that begins at an ordinal of the result.
  [[nodiscard]] Segment longest_segment(Index first) const {
    Segment segment{first, 1, 0, {}, {}};
    std::array<Index, 2> room{};  // how far each ordinal may move
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      const Index ordinal = at_ordinal(extents_, operand.ordinals, first);
      segment.tiles[i] = ordinal / operand.tile;
      segment.offsets[i] = at_ordinal(extents_, operand.strides, first) -
                           at_ordinal(operand.extents, operand.own_strides, segment.tiles[i] * operand.tile);
      room[i] = (segment.tiles[i] + 1) * operand.tile - 1 - ordinal;
    }
    Index below = 1;
    for (std::size_t leaf = 0; leaf < extents_.size(); ++leaf) {
      const Index coordinate = first / below % extents_[leaf];
      Index count = extents_[leaf] - coordinate;
      for (std::size_t i = 0; i < operands_.size(); ++i) {
        const Index step = operands_[i].ordinals[leaf];
        if (room[i] < 0)
          count = 0;
        else if (step > 0)
          count = std::min(count, room[i] / step + 1);
      }
      if (count * below > segment.count) {
        segment.count = count * below;
        segment.level = leaf;
      }
      if (coordinate != 0) break;
      for (std::size_t i = 0; i < operands_.size(); ++i)
        room[i] -= (extents_[leaf] - 1) * operands_[i].ordinals[leaf];
      below *= extents_[leaf];
    }
    return segment;
  }

  Numbers extents_, result_strides_;
  std::vector<Operand> operands_;
  std::vector<Segment> segments_;  // by tiles, then by ordinals
  std::vector<Group> groups_;
  std::vector<std::size_t> first_groups_;
};

class PointwiseSteps final : public StepSequence {
 public:
  PointwiseSteps(const Shape& shape, std::span<const StepOperand> operands)
      : result_(Layout::canonical(shape)), operands_(operands.begin(), operands.end()) {
    for (std::size_t mode = 0; mode < result_.rank(); ++mode) {
      axes_.emplace_back(result_, operands_, mode);
      count_ = checked_multiply(count_, static_cast<Index>(axes_.back().groups().size()), "steps");
      for (const auto& group : axes_.back().groups())
        pairs_different_tiles_ = pairs_different_tiles_ || group.tiles[0] != group.tiles[1];
    }
  }

  [[nodiscard]] Index count() const noexcept override { return count_; }

  [[nodiscard]] Step first() const override {
    Step step;
    step.position.resize(axes_.size());
    name_tiles(step);
    return step;
  }

  void advance(Step& step) const override {
    ++step.number;
    // The second operand's tiles that meet the same one of the first, then the next one of the first.
    if (!advance_second(step)) advance_first(step);
    name_tiles(step);
  }

  void for_each_piece(const Step& step, const std::function<void(const Piece&)>& body) const override {
    SmallVector<std::size_t, 6> chosen;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) chosen.push_back(group(step, axis).first);
    for (;;) {
      body(piece(chosen));
      std::size_t axis = 0;
      for (; axis < axes_.size(); ++axis) {
        if (++chosen[axis] < group(step, axis).last) break;
        chosen[axis] = group(step, axis).first;
      }
      if (axis == axes_.size()) return;
    }
  }

  [[nodiscard]] bool pairs_different_tiles() const noexcept override {
    return operands_.size() == 2 && pairs_different_tiles_;
  }

 private:
  [[nodiscard]] const PointwiseAxis::Group& group(const Step& step, std::size_t axis) const {
    return axes_[axis].groups()[static_cast<std::size_t>(step.position[axis])];
  }

  bool advance_second(Step& step) const {
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const Index tile = group(step, axis).tiles[0];
      if (++step.position[axis] < static_cast<Index>(axes_[axis].first_group(tile + 1))) return true;
      step.position[axis] = static_cast<Index>(axes_[axis].first_group(tile));
    }
    return false;
  }

  void advance_first(Step& step) const {
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const Index tile = group(step, axis).tiles[0] + 1;
      const bool is_last = tile == axes_[axis].first_tiles();
      step.position[axis] = static_cast<Index>(axes_[axis].first_group(is_last ? 0 : tile));
      if (!is_last) return;
    }
  }

  void name_tiles(Step& step) const {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      step.tiles[i] = 0;
      for (std::size_t axis = 0; axis < axes_.size(); ++axis)
        step.tiles[i] += group(step, axis).tiles[i] * operands_[i].tile_steps()[axis];
    }
  }

  [[nodiscard]] Piece piece(std::span<const std::size_t> chosen) const {
    Numbers extents;
    std::array<Numbers, 3> strides;
    std::array<Index, 3> offsets{};
    for (std::size_t i = 0; i < operands_.size(); ++i) offsets[1 + i] = operands_[i].offset();
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const PointwiseAxis::Segment& segment = axes_[axis].segment(chosen[axis]);
      axes_[axis].append(segment, extents, strides);
      offsets[0] += axes_[axis].result_at(segment.first);
      for (std::size_t i = 0; i < operands_.size(); ++i) offsets[1 + i] += segment.offsets[i];
    }
    Piece piece{{offsets[0], remembered_layout(0, extents, strides[0])}, {}};
    for (std::size_t i = 0; i < operands_.size(); ++i)
      piece.operands[i] = {offsets[1 + i], remembered_layout(1 + i, extents, strides[1 + i])};
    return piece;
  }

  /// Neighbouring pieces mostly have one form, and a layout takes longer to make than to compare.
  [[nodiscard]] const Layout& remembered_layout(std::size_t which, std::span<const Index> extents,
                                                std::span<const Index> strides) const {
    Layout& last = last_layouts_[which];
    if (!std::ranges::equal(last.extents(), extents) || !std::ranges::equal(last.strides(), strides))
      last = flat_layout(extents, strides);
    return last;
  }

  Layout result_;
  std::vector<StepOperand> operands_;
  std::vector<PointwiseAxis> axes_;
  Index count_ = 1;
  bool pairs_different_tiles_ = false;
  mutable std::array<Layout, 3> last_layouts_;  // a sequence is used by one thread
};

}  // namespace

std::unique_ptr<StepSequence> pointwise_steps(const Shape& shape, std::span<const StepOperand> operands) {
  return std::make_unique<PointwiseSteps>(shape, operands);
}

// --- Sums

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
