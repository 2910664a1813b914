// gather and scatter as loops: which element of the table each item is read from or written to.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "operation/modes.hpp"
#include "orlop/layout/iteration.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// IndexError unless every index lies in [0, extent) (P68).
void check_indices(std::string_view operation, const KernelOperand& indices, Index extent);
/// ValueError unless the indices, none of them negative, differ from each other (P68).
void check_distinct(std::string_view operation, const KernelOperand& indices);

/// The table is what has the axis mode (gather's data, scatter's base or result); the items have the index
/// modes in its place (gather's result, scatter's updates). An item is named by the coordinates before, in
/// and after them.
class IndexingLoops {
 public:
  IndexingLoops(const KernelCall& call, const Layout& table, const Layout& items);

  /// The coordinates before and after the axis, first before fastest; operands: the table, the items.
  [[nodiscard]] const StridedLoop& others() const noexcept { return others_; }
  /// How many indices there are.
  [[nodiscard]] Index size() const noexcept { return indices_.size; }
  /// How long the axis is.
  [[nodiscard]] Index extent() const noexcept { return extent_; }

  /// Whether the indices lie side by side, and so do their items and the slots of the axis.
  [[nodiscard]] bool is_dense() const noexcept {
    return step_ == 1 && indices_.is_contiguous(0) && indices_.is_contiguous(1);
  }
  /// Then: calls `body(table, item)` with the offsets for the indices `first` … `last` - 1 in ordinal order.
  /// They are checked as in for_each_block, but one by one, so that the processor looks ahead past them.
  template <class Body>
  void for_each_dense(Index first, Index last, Body body) const {
    const auto limit = static_cast<std::uint32_t>(std::min(extent_, Index{1} << 31));
    for (; first < last; ++first) {
      // Volatile: it is read once, and what is used is what was checked.
      const std::int32_t index = *static_cast<const volatile std::int32_t*>(data_ + first);
      if (static_cast<std::uint32_t>(index) >= limit) refuse(index);
      body(Index{index}, first);
    }
  }

  /// So many indices are read at once at most.
  static constexpr Index block_size = 1024;
  /// Some neighbouring indices: the offset of each one's element in the table; that of the first one's item,
  /// and how far the next ones are.
  struct Block {
    std::array<Index, block_size> table;
    Index count;
    Index item;
    Index item_step;
  };
  /// Calls `body(block)` for the indices `first` … `last` - 1 in ordinal order. An index outside the axis is
  /// an IndexError even after `check_indices`: another thread may have written meanwhile.
  template <class Body>
  void for_each_block(Index first, Index last, Body body) const {
    Block block;
    for_each_run(indices_, first, last, [&](std::span<const Index> offsets, Index count) {
      block.item_step = indices_.step(1);
      for (Index start = 0; start < count; start += block_size) {
        block.count = std::min(block_size, count - start);
        block.item = offsets[1] + start * block.item_step;
        locate(offsets[0] + start * indices_.step(0), block);
        body(block);
      }
    });
  }

 private:
  /// IndexError for an index outside the axis.
  [[noreturn]] void refuse(std::int32_t index) const;
  /// Copies and checks `count` indices from this slot on: once, as another thread may be writing.
  void read(Index slot, Index count, std::int32_t* indices) const;
  /// The offsets in the table of the indices from this slot on.
  void locate(Index slot, Block& block) const;

  std::string_view operation_;
  const std::int32_t* data_;
  StridedLoop others_;
  StridedLoop indices_;  // operands: the index tensor, the items
  Leaves axis_;          // of the table
  Index extent_;
  std::optional<Index> step_;  // of the axis mode, where it is constant
};

}  // namespace orlop::inline v0
