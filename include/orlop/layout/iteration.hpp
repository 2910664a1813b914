// Strided iteration: the coalesced modes of several layouts over one shape, and the one loop over them.
#pragma once

#include <algorithm>
#include <span>

#include "orlop/layout/layout.hpp"

namespace orlop::inline v0 {

/// A loop nest in ordinal order, first mode innermost: extents, and for each mode the stride of each operand.
/// No extent is 1, and no two neighbouring modes can be merged. A size of one leaves no mode.
struct StridedLoop {
  SmallVector<Index, 6> extents;
  SmallVector<Index, 24> strides;  // mode by mode, within a mode operand by operand
  std::size_t operands = 0;
  Index size = 1;  // the product of the extents

  [[nodiscard]] std::size_t rank() const noexcept { return extents.size(); }
  [[nodiscard]] Index stride(std::size_t mode, std::size_t operand) const noexcept {
    return strides[mode * operands + operand];
  }
  /// The stride of the first mode for this operand; 0 where there is no mode.
  [[nodiscard]] Index step(std::size_t operand) const noexcept {
    return extents.empty() ? 0 : strides[operand];
  }
  /// One mode at most, of stride 1 for this operand.
  [[nodiscard]] bool is_contiguous(std::size_t operand) const noexcept {
    return extents.empty() || (rank() == 1 && stride(0, operand) == 1);
  }
};

/// The loop over leaf extents `extents` shared by all `layouts`. A leaf of extent 1 stays at coordinate 0
/// where the loop is wider, and a null layout stands for one element; other extents that differ are a
/// ValueError.
[[nodiscard]] ORLOP_API StridedLoop coalesce_together(std::span<const Index> extents,
                                                      std::span<const Layout* const> layouts);

/// The same over bare strides: one list for each operand, as long as `extents`, whose product fits 64 bits.
[[nodiscard]] ORLOP_API StridedLoop coalesce_strides(std::span<const Index> extents,
                                                     std::span<const std::span<const Index>> strides);

/// Walks the ordinals `first` … `last - 1` of `loop` in runs along its first mode: `body(offsets, count)`
/// gets each operand's offset of the run's first element; element k of the run lies `k * loop.stride(0,
/// operand)` further.
template <class Body>
void for_each_run(const StridedLoop& loop, Index first, Index last, Body&& body) {
  SmallVector<Index, 8> offsets(loop.operands);
  if (first >= last) return;
  if (loop.rank() == 0) {
    body(std::span<const Index>(offsets), Index{1});
    return;
  }
  const auto advance = [&](std::size_t mode, Index steps) {
    for (std::size_t operand = 0; operand < loop.operands; ++operand)
      offsets[operand] += steps * loop.stride(mode, operand);
  };
  SmallVector<Index, 6> position(loop.rank());
  Index rest = first;
  for (std::size_t mode = 0; mode < loop.rank(); ++mode) {
    position[mode] = rest % loop.extents[mode];
    rest /= loop.extents[mode];
    advance(mode, position[mode]);
  }
  for (Index ordinal = first;;) {
    const Index count = std::min(loop.extents[0] - position[0], last - ordinal);
    body(std::span<const Index>(offsets), count);
    ordinal += count;
    if (ordinal >= last) return;
    advance(0, -position[0]);
    position[0] = 0;
    for (std::size_t mode = 1;; ++mode) {  // ends: the ordinal is below the size
      if (position[mode] + 1 < loop.extents[mode]) {
        advance(mode, 1);
        ++position[mode];
        break;
      }
      advance(mode, -position[mode]);
      position[mode] = 0;
    }
  }
}

}  // namespace orlop::inline v0
