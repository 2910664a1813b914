// What is computed in the order of the operand goes into a result in another order.
#pragma once

#include <cstdlib>
#include <span>

#include "carriers/cpu/kernels/scratch.hpp"
#include "operation/cache_lines.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

/// The slots of a result by the ordinals of a loop whose second operand they are. Where neighbours lie far
/// apart they are brought together first, and at the end put into their places by whole cache lines.
template <class Slot>
class OrderedResult {
 public:
  OrderedResult(Slot* result, const StridedLoop& loop, bool may_move = true)
      : result_(result), loop_(loop), moves_(may_move && lies_apart(loop)), moved_(moves_ ? loop.size : 0) {}

  /// Calls `body(slots, step, offset, count)` for the ordinals `first` … `last` - 1 in runs; the offset is
  /// that of the first operand.
  template <class Body>
  void for_each_run(Index first, Index last, Body body) const {
    orlop::for_each_run(loop_, first, last, [&](std::span<const Index> offsets, Index count) {
      if (moves_)
        body(moved_.data() + first, Index{1}, offsets[0], count);
      else
        body(result_ + offsets[1], loop_.step(1), offsets[0], count);
      first += count;
    });
  }

  /// After the last run.
  void finish() const {
    if (!moves_) return;
    StridedLoop places;
    places.operands = 2;
    for (std::size_t mode = 0; mode < loop_.rank(); ++mode) {
      places.extents.push_back(loop_.extents[mode]);
      places.strides.push_back(places.size);
      places.strides.push_back(loop_.stride(mode, 1));
      places.size *= loop_.extents[mode];
    }
    copy_strided(moved_.bytes(), reinterpret_cast<std::byte*>(result_), places, sizeof(Slot));
  }

 private:
  static bool lies_apart(const StridedLoop& loop) {
    constexpr Index least = 4096;
    return loop.rank() > 1 && loop.size >= least && std::abs(loop.step(1)) >= square_side;
  }

  Slot* result_;
  const StridedLoop& loop_;
  bool moves_;
  Scratch<Slot> moved_;
};

}  // namespace orlop::inline v0
