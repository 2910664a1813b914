// Long kernels in parts, between which an interrupted user can end them.
#pragma once

#include <algorithm>

#include "orlop/base/blocking.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

/// Multiplications of Float32 for which a thread needs about a fifth of a second.
constexpr double part_work = 0x1p33;

/// As many items as make `least_work` multiplications, where each makes `work`; at least one.
[[nodiscard]] inline Index items_of(double least_work, double work) {
  return static_cast<Index>(std::clamp(least_work / work, 1.0, 0x1p40));
}

/// Calls `part(first, last)` for consecutive ranges that cover 0 … count, one after the other, where each
/// item makes `work` multiplications: each range keeps all threads busy for about a fifth of a second. What
/// check_interrupts() throws in between ends the loop.
template <class Part>
void in_parts(Index count, double work, Part&& part) {
  const Index most = items_of(part_work, work) * thread_count();
  for (Index first = 0; first < count; first += most) {
    if (first > 0) check_interrupts();
    part(first, std::min(first + most, count));
  }
}

}  // namespace orlop::inline v0
