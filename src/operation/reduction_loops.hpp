// A reduction as two strided loops, and what its terms become: the part that all backends share.
#pragma once

#include <cmath>
#include <cstdint>

#include "operation/modes.hpp"
#include "orlop/layout/iteration.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// How the reduced coordinates are walked.
enum class ReducedOrder {
  ordinal,             ///< ascending
  memory,              ///< the smallest stride innermost, modes merged where they can be
  memory_with_ordinal  ///< the same, with a second operand whose offset is the ordinal
};

struct ReductionLoops {
  StridedLoop kept;     ///< operands: the source, the result
  StridedLoop fibres;   ///< the same ordinals in the source alone, where more modes merge
  StridedLoop reduced;  ///< operands: the source, and the ordinal where it was asked for
};

/// The loops of a call whose operand has the modes (kept, reduced). Kept coordinates are walked in ordinal
/// order, or in memory order as the reduced ones are.
[[nodiscard]] ReductionLoops reduction_loops(const KernelCall& call, ReducedOrder order);

/// Whether `x` takes the place of `best`, which came before it: the first NaN beats every number, and of two
/// zeros the maximum prefers +0, the minimum -0 (P10).
template <bool IsMinimum>
[[nodiscard]] inline bool beats(float x, float best) {
  if (std::isnan(best)) return false;
  if (std::isnan(x)) return true;
  if (x == best) return std::signbit(x) == IsMinimum && std::signbit(best) != IsMinimum;
  return IsMinimum ? x < best : x > best;
}
template <bool IsMinimum>
[[nodiscard]] inline bool beats(std::int32_t x, std::int32_t best) {
  return IsMinimum ? x < best : x > best;
}

/// The same for the position of an extremum, where zeros of either sign are equal.
template <bool IsMinimum, class T>
[[nodiscard]] inline bool precedes(T x, T best) {
  return beats<IsMinimum>(x, best) && x != best;
}

}  // namespace orlop::inline v0
