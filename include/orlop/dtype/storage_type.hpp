// The slot types that exist in memory: all that a kernel knows about a dtype.
#pragma once

#include <cstddef>
#include <cstdint>

#include "orlop/base/message.hpp"

namespace orlop::inline v0 {

/// What a kernel switches on: the three slot types that exist in memory, or anything else.
enum class StorageType : std::uint8_t { float32, int32, bool8, other };

/// Bytes of one slot: 4, 4, 1; 0 for `other`.
[[nodiscard]] constexpr Index slot_bytes(StorageType type) noexcept {
  constexpr Index bytes[] = {4, 4, 1, 0};
  return bytes[static_cast<std::size_t>(type)];
}

}  // namespace orlop::inline v0
