// Blocks of 4 × 4 slots of 4 bytes in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace orlop::inline v0 {

using FourSlots [[gnu::vector_size(16)]] = std::uint32_t;

inline FourSlots load_four(const void* from) {
  FourSlots slots;
  std::memcpy(&slots, from, sizeof slots);
  return slots;
}

/// The first `count` of them, and zeros: one by one, as memory written in parts is read slowly as a whole.
template <int count>
FourSlots load_some(const std::byte* from) {
  if constexpr (count == 4) return load_four(from);
  FourSlots slots{};
  for (int i = 0; i < count; ++i) {
    std::uint32_t slot;
    std::memcpy(&slot, from + i * static_cast<int>(sizeof slot), sizeof slot);
    slots[i] = slot;
  }
  return slots;
}

/// `store(column, slots)` for the four columns of these rows.
template <class Store>
void transpose_four(FourSlots a, FourSlots b, FourSlots c, FourSlots d, Store store) {
  const FourSlots ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const FourSlots ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const FourSlots cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const FourSlots cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(0, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  store(1, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  store(2, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  store(3, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

}  // namespace orlop::inline v0
