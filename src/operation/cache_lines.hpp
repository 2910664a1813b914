// Moving whole cache lines, as one unit for each instruction set does it. Nothing here runs code when it is
// loaded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "orlop/base/message.hpp"

namespace orlop::inline v0 {

constexpr Index cache_line = 64;               // bytes
constexpr Index square_side = cache_line / 4;  // slots of 4 bytes that fill a line

struct CacheLines {
  /// A transposed square of slots of 4 bytes, each side dense along its own mode: every line of both
  /// sides is read or written whole, once. Strides in bytes. The lines written pass by the caches if
  /// `streams`, where they are aligned.
  void (*transpose)(const std::byte* from, Index from_stride, std::byte* to, Index to_stride, bool streams);
  /// Copies `bytes` bytes so that they pass by the caches.
  void (*stream)(const std::byte* from, std::byte* to, Index bytes);
  /// Fills `bytes` bytes with these four again and again.
  void (*fill)(std::uint32_t pattern, std::byte* to, Index bytes);
};

/// How many slots of 4 bytes lie before the next cache line.
inline Index slots_before_line(const std::byte* slots) {
  return static_cast<Index>(-reinterpret_cast<std::uintptr_t>(slots) % cache_line / 4);
}

/// Calls `body(start)` for parts of `side` slots that cover `count` >= side of them from `first` on. The last
/// one may overlap the one before.
template <Index side, class Body>
void for_each_part(Index count, Body body, Index first = 0) {
  for (Index next = first; next < count; next += side) body(next < count - side ? next : count - side);
}

/// Calls `body(start)` for squares that cover `count` >= square_side slots; where these are many, all but the
/// first and the last one begin at a cache line, `before` slots after the first of them. Some overlap.
template <class Body>
void for_each_square(Index count, Index before, Body body) {
  if (count < 4 * square_side) before = 0;
  if (before > 0) body(Index{0});
  for_each_part<square_side>(count, body, before);
}

/// Those of the unit for the processor that this runs on.
[[nodiscard]] const CacheLines& cache_lines();

}  // namespace orlop::inline v0
