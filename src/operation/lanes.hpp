// What an elementary function computes on: one float, or a register of them. Such functions are templates
// over both. Where a unit has no registers, its loops over single floats are left to the compiler, which
// vectorizes everything but the lookup in a table.
#pragma once

#include <cstdint>

#include "operation/instruction_set.hpp"

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET {

constexpr std::int32_t bits(float x) { return __builtin_bit_cast(std::int32_t, x); }
constexpr float from_bits(std::int32_t x) { return __builtin_bit_cast(float, x); }
inline float to_float(std::int32_t x) { return static_cast<float>(x); }

/// a < b ? a : b, and so b where one of them is a NaN.
inline float smaller(float a, float b) { return a < b ? a : b; }
inline float larger(float a, float b) { return a > b ? a : b; }

/// A table that is looked up by the last four bits of an index.
struct alignas(64) LookupTable {
  float entries[16];
};
inline float lookup(const LookupTable& table, std::int32_t index) { return table.entries[index & 15]; }

template <class Lanes>
struct IntegersOf;
template <>
struct IntegersOf<float> {
  using Type = std::int32_t;
};
/// As many 32-bit integers as `Lanes` has floats.
template <class Lanes>
using Integers = IntegersOf<Lanes>::Type;

/// Whether this unit has registers that a table fits in, and a compiler that can say so.
#if defined(__AVX2__) && defined(__GNUC__) && !defined(__clang__)
constexpr bool has_registers = true;
constexpr int lane_count = register_bytes / 4;
using Floats [[gnu::vector_size(register_bytes)]] = float;
using WholeNumbers [[gnu::vector_size(register_bytes)]] = std::int32_t;
template <>
struct IntegersOf<Floats> {
  using Type = WholeNumbers;
};

inline WholeNumbers bits(Floats x) { return __builtin_bit_cast(WholeNumbers, x); }
inline Floats from_bits(WholeNumbers x) { return __builtin_bit_cast(Floats, x); }
inline Floats to_float(WholeNumbers x) { return __builtin_convertvector(x, Floats); }
#if defined(__AVX512F__)
inline Floats smaller(Floats a, Floats b) { return __builtin_ia32_minps512_mask(a, b, a, -1, 4); }
inline Floats larger(Floats a, Floats b) { return __builtin_ia32_maxps512_mask(a, b, a, -1, 4); }
/// x · 2^n for an integer n.
inline Floats times_power_of_two(Floats x, Floats n) {
  return __builtin_ia32_scalefps512_mask(x, n, x, -1, 4);
}
#else
inline Floats smaller(Floats a, Floats b) { return __builtin_ia32_minps256(a, b); }
inline Floats larger(Floats a, Floats b) { return __builtin_ia32_maxps256(a, b); }
#endif
inline Floats lookup(const LookupTable& table, WholeNumbers index) {
  const auto* registers = reinterpret_cast<const Floats*>(table.entries);
  if constexpr (lane_count == 16)
    return __builtin_shuffle(registers[0], index);
  else
    return __builtin_shuffle(registers[0], registers[1], index);
}
#else
constexpr bool has_registers = false;
constexpr int lane_count = 1;
using Floats = float;
#endif

}  // namespace orlop::inline v0::ORLOP_INSTRUCTION_SET
