// gather and scatter as loops: which element of the table each item is read from or written to.
#pragma once

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

  /// The coordinates before and after the axis; operands: the table, the items.
  [[nodiscard]] const StridedLoop& before() const noexcept { return before_; }
  [[nodiscard]] const StridedLoop& after() const noexcept { return after_; }
  /// How many indices there are.
  [[nodiscard]] Index size() const noexcept { return indices_.size; }
  /// Whether the items of neighbouring indices lie side by side.
  [[nodiscard]] bool is_contiguous() const noexcept { return indices_.is_contiguous(1); }

  /// Where index number i of `first` … `last - 1` lies.
  struct Place {
    Index table;
    Index item;
  };
  /// Writes their places in ordinal order. An index outside the axis is an IndexError even after
  /// `check_indices`: another thread may have written meanwhile.
  void read(Index first, Index last, Place* places) const;

 private:
  std::string_view operation_;
  const std::int32_t* data_;
  StridedLoop before_, after_;
  StridedLoop indices_;  // operands: the index tensor, the items
  Leaves axis_;          // of the table
  Index extent_;
  std::optional<Index> step_;  // of the axis mode, where it is constant
};

}  // namespace orlop::inline v0
