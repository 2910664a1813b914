// Steps of direct operations on tiles (X106): which tiles meet in each, in which order, and which elements of
// the operands and of the result they hold. Pure geometry over layouts and shapes; knows no carrier.
//
// An operand that is not tiled counts as one tile. Elements are counted by the ordinals of the operation's
// modes, so that nested modes and modes that an operation widens need no case of their own.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "operation/modes.hpp"
#include "orlop/layout/layout.hpp"

namespace orlop::inline v0 {

/// A Tensor operand as steps see it.
class StepOperand {
 public:
  /// Of a tiled carrier: `layout` fits the grid (X43), `shape` arguments are those of X40.
  [[nodiscard]] static StepOperand tiled(const Layout& layout, std::span<const Index> grid_shape,
                                         std::span<const Index> tile_shape);
  /// Dense: read in place, from `offset` on.
  [[nodiscard]] static StepOperand dense(const Layout& layout, Index offset = 0);
  /// Of two modes, seen with both swapped; the numbers of its tiles stay.
  [[nodiscard]] StepOperand transposed() const;

  /// The Tensor's modes; strides are positions in the storage of a tile, or slots of the dense carrier.
  /// Strides that lead from tile to tile count as those of the same place in the next tile.
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  /// Of the first element.
  [[nodiscard]] Index offset() const noexcept { return offset_; }
  [[nodiscard]] bool is_tiled() const noexcept { return is_tiled_; }
  /// Ordinals of a tile, and tiles, along each top-level mode.
  [[nodiscard]] const std::vector<Index>& tile_shape() const noexcept { return tile_shape_; }
  [[nodiscard]] const std::vector<Index>& grid_shape() const noexcept { return grid_shape_; }
  /// How far the number of a tile moves along each mode.
  [[nodiscard]] const std::vector<Index>& tile_steps() const noexcept { return tile_steps_; }
  [[nodiscard]] Index tile_count() const;
  /// Slots of one tile.
  [[nodiscard]] Index tile_size() const;

 private:
  StepOperand(Layout layout, Index offset, bool is_tiled, std::vector<Index> grid_shape,
              std::vector<Index> tile_shape, std::vector<Index> tile_steps);

  Layout layout_;
  Index offset_;
  bool is_tiled_;
  std::vector<Index> grid_shape_;
  std::vector<Index> tile_shape_;
  std::vector<Index> tile_steps_;
};

/// One step: the tile of each operand, by its number in the grid (first mode fastest), 0 for a dense one.
struct Step {
  std::array<Index, 2> tiles{};
  Index number = 0;                  ///< from 0 on
  SmallVector<Index, 6> position{};  ///< of the sequence that made it
};

/// Elements in storage: at `offset + layout`.
struct Window {
  Index offset;
  Layout layout;
};

/// Elements of a step that one kernel call can read and write. The result's offset and strides count its
/// ordinals.
struct Piece {
  Window result;
  std::array<Window, 2> operands;
};

/// The steps of one operation, in order. Used by one thread.
class StepSequence {
 public:
  StepSequence() = default;
  StepSequence(const StepSequence&) = delete;
  StepSequence& operator=(const StepSequence&) = delete;
  virtual ~StepSequence() = default;

  [[nodiscard]] virtual Index count() const noexcept = 0;
  [[nodiscard]] virtual Step first() const = 0;
  /// Makes of a step that is not the last the next one.
  virtual void advance(Step& step) const = 0;
  /// Every element of the step's result is in one piece; of a sum, every term.
  virtual void for_each_piece(const Step& step, const std::function<void(const Piece&)>& body) const = 0;
  /// Whether some step needs two tiles with different numbers.
  [[nodiscard]] virtual bool pairs_different_tiles() const noexcept { return false; }
};

/// Pointwise operations of one or two operands on a result of `shape`, whose profile is theirs; an operand's
/// leaf of extent 1 is read at coordinate 0 wherever the result is wider. One step for each pair of tiles
/// that meet: the first operand's tiles in order, with each of them the second's. All three layouts of a
/// piece have the same leaves.
[[nodiscard]] std::unique_ptr<StepSequence> pointwise_steps(const Shape& shape,
                                                            std::span<const StepOperand> operands);

/// A sum over the second of two modes: one step for each tile, in order. The result's ordinals are those of
/// the first mode.
[[nodiscard]] std::unique_ptr<StepSequence> reduction_steps(const StepOperand& operand);

/// The contraction of the second modes of two operands of two modes each. A step is a tile of rows of each
/// and a run of terms that lies in one tile of each; runs ascend. In every run the tiles of one operand are
/// held in turn, while those of the other are swept to and fro, whichever way moves fewer bytes (X108). The
/// result is canonical: the rows of the first operand, then those of the second.
[[nodiscard]] std::unique_ptr<StepSequence> matmul_steps(const StepOperand& lhs, const StepOperand& rhs);

/// The same contraction, one tile of the result after the other: `target` has as many rows as the dense `lhs`
/// and as many columns as `rhs` has rows. A step is a tile of `target`, in order, a run of its columns that
/// lies in one tile of `rhs`, and a tile of terms, ascending: `tiles` are those of target and rhs. A piece's
/// result counts positions in the target's tile.
[[nodiscard]] std::unique_ptr<StepSequence> matmul_into_tiles(const StepOperand& lhs, const StepOperand& rhs,
                                                              const StepOperand& target);

}  // namespace orlop::inline v0
