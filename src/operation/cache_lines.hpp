// Moving whole cache lines, as one unit for each instruction set does it. Nothing here runs code when it is
// loaded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "orlop/base/message.hpp"

namespace orlop::inline v0 {

struct CacheLines {
  /// A transposed block of 16 × 16 slots of 4 bytes, each side dense along its own mode: every line of both
  /// sides is read or written whole, once. Strides in bytes. The lines written pass by the caches if
  /// `streams`, where they are aligned.
  void (*transpose)(const std::byte* from, Index from_stride, std::byte* to, Index to_stride, bool streams);
  /// Copies `bytes` bytes so that they pass by the caches.
  void (*stream)(const std::byte* from, std::byte* to, Index bytes);
  /// Fills `bytes` bytes with these four again and again.
  void (*fill)(std::uint32_t pattern, std::byte* to, Index bytes);
};

/// Those of the unit for the processor that this runs on.
[[nodiscard]] const CacheLines& cache_lines();

}  // namespace orlop::inline v0
