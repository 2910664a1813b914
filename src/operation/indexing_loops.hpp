// gather and scatter as loops: which element of the table each item is read from or written to.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "operation/modes.hpp"
#include "orlop/layout/iteration.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// IndexError for the first of `count` indices, `step` apart, outside [0, extent), if there is one.
void refuse_run(std::string_view operation, const std::int32_t* indices, Index step, Index count,
                Index extent);

/// The same where it is likely that all lie inside.
inline void check_run(std::string_view operation, const std::int32_t* indices, Index step, Index count,
                      Index extent) {
  const auto last = static_cast<std::uint32_t>(std::min(extent, Index{1} << 31) - 1);
  std::uint32_t all = 0;  // the sign bit is set where an index is negative or beyond the last one
  for (Index i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint32_t>(indices[i * step]);
    all |= index | (last - index);
  }
  if (all >> 31 != 0) refuse_run(operation, indices, step, count, extent);
}

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

  /// Whether the indices lie side by side, and so do their items and the slots of the axis.
  [[nodiscard]] bool is_dense() const noexcept {
    return step_ == 1 && indices_.is_contiguous(0) && indices_.is_contiguous(1);
  }
  /// Then: calls `body(indices, count, first)` for some of the indices `first` … `last` - 1 after the others.
  /// They are checked as in for_each_block, but so few at a time that the processor looks ahead past them.
  template <class Body>
  void for_each_dense(Index first, Index last, Body body) const {
    std::array<std::int32_t, dense_group> indices;
    for (; first < last; first += dense_group) {
      const Index count = std::min(dense_group, last - first);
      if (count == dense_group)  // of fixed length, which takes no call
        std::memcpy(indices.data(), data_ + first, sizeof indices);
      else
        std::copy_n(data_ + first, count, indices.data());
      check_run(operation_, indices.data(), 1, count, extent_);
      body(indices.data(), count, first);
    }
  }
  static constexpr Index dense_group = 64;

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
