// Steps of pointwise operations: modes cut where a tile of an operand ends, and the boxes between the cuts.
#include <algorithm>

#include "carriers/tiled_evictable/step_geometry.hpp"
#include "carriers/tiled_evictable/steps.hpp"
#include "orlop/base/checked.hpp"

namespace orlop::inline v0 {

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

  /// Number `mode` of the modes, whose leaves each gives next.
  PointwiseAxis(const Leaves& result, std::span<const StepOperand> operands,
                std::span<ModeLeaves> operand_modes, std::size_t mode)
      : extents_(result.extents), result_strides_(result.strides) {
    for (std::size_t i = 0; i < operands.size(); ++i)
      add(operand_modes[i].next(), operands[i].tile_shape()[mode]);
    const Index size = product(extents_);
    // There is one for each tile at least: where memory does not suffice for them, that shows now.
    Index tiles = 0;
    for (const StepOperand& operand : operands) tiles = std::max(tiles, operand.grid_shape()[mode]);
    segments_.reserve(static_cast<std::size_t>(tiles));
    groups_.reserve(static_cast<std::size_t>(tiles));
    for (Index ordinal = 0; ordinal < size; ordinal += segments_.back().count)
      segments_.push_back(longest_segment(ordinal));
    const auto precedes = [](const Segment& a, const Segment& b) { return a.tiles < b.tiles; };
    if (!std::ranges::is_sorted(segments_, precedes)) std::ranges::stable_sort(segments_, precedes);
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
    ModeLeaves result_modes(result_);
    std::vector<ModeLeaves> operand_modes;
    operand_modes.reserve(operands_.size());
    for (const StepOperand& operand : operands_) operand_modes.emplace_back(operand.layout());
    for (std::size_t mode = 0; mode < result_.rank(); ++mode) {
      axes_.emplace_back(result_modes.next(), operands_, operand_modes, mode);
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

}  // namespace orlop::inline v0
