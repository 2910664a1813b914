// Blocks of 4 × 4 slots of 4 bytes, and of 8 × 8 slots of 1 byte, in registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

/// Up to eight slots of 1 byte, and zeros.
template <int count>
std::uint64_t load_bytes(const std::byte* from) {
  if constexpr (count == 3) return load_bytes<2>(from) | load_bytes<1>(from + 2) << 16;
  std::conditional_t<count == 8, std::uint64_t,
                     std::conditional_t<count == 4, std::uint32_t,
                                        std::conditional_t<count == 2, std::uint16_t, std::uint8_t>>>
      bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
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

/// `store(column, bytes)` for the eight columns of these rows of eight bytes.
template <class Store>
void transpose_eight(const std::array<std::uint64_t, 8>& rows, Store store) {
  using Bytes [[gnu::vector_size(16)]] = std::uint8_t;
  using Pair [[gnu::vector_size(16)]] = std::uint64_t;
  std::array<Bytes, 4> block;
  for (std::size_t i = 0; i < 4; ++i) block[i] = reinterpret_cast<Bytes>(Pair{rows[2 * i], rows[2 * i + 1]});
  const auto low = [](Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  };
  const auto high = [](Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  };
  // Each step moves one bit of the row's number to the column's.
  for (int step = 0; step < 3; ++step)
    block = {low(block[0], block[2]), high(block[0], block[2]), low(block[1], block[3]),
             high(block[1], block[3])};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto pair = reinterpret_cast<Pair>(block[i]);
    store(static_cast<int>(2 * i), pair[0]);
    store(static_cast<int>(2 * i + 1), pair[1]);
  }
}

}  // namespace orlop::inline v0
