// Moving whole cache lines, compiled for one instruction set: the body of cache_lines.cpp and of the units
// named after it.
#pragma once

#include <cstdint>
#include <utility>

#include "operation/cache_lines.hpp"
#include "operation/instruction_set.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET {

constexpr Index lanes = register_bytes / 4;
constexpr int registers = int{cache_line} / register_bytes;  // of a line
using Slots [[gnu::vector_size(register_bytes)]] = std::uint32_t;

inline Slots load(const std::byte* from) {
  Slots slots;
  __builtin_memcpy(&slots, from, sizeof slots);
  return slots;
}

template <bool streams>
void store(std::byte* to, Slots slots) {
#if defined(__AVX512F__)
  if constexpr (streams)
    return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(slots));
#elif defined(__AVX2__)
  if constexpr (streams)
    return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(slots));
#elif defined(__SSE2__)
  if constexpr (streams)
    return _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(slots));
#endif
  __builtin_memcpy(to, &slots, sizeof slots);
}

/// The slots of both in turns: those of their first halves, then those of their second.
template <int... i>
void interleave(Slots a, Slots b, Slots& first, Slots& second, std::integer_sequence<int, i...>) {
  first = __builtin_shufflevector(a, b, (i % 2 * lanes + i / 2)...);
  second = __builtin_shufflevector(a, b, (i % 2 * lanes + lanes / 2 + i / 2)...);
}

/// A transposed block of `lanes` × `lanes` slots: each step of these moves one bit of the column's number to
/// the row's.
inline void transpose_registers(Slots* rows) {
  constexpr std::make_integer_sequence<int, lanes> sequence;
  for (Index step = 1; step < lanes; step *= 2) {
    Slots next[lanes];
    for (Index i = 0; i < lanes / 2; ++i)
      interleave(rows[i], rows[i + lanes / 2], next[2 * i], next[2 * i + 1], sequence);
    for (Index i = 0; i < lanes; ++i) rows[i] = next[i];
  }
}

template <bool streams>
void transpose_lines(const std::byte* from, Index from_stride, std::byte* to, Index to_stride) {
  for (Index column = 0; column < square_side; column += lanes) {
    Slots blocks[registers][lanes];
    for (Index block = 0; block < registers; ++block) {
      for (Index i = 0; i < lanes; ++i) {
        const std::byte* const row = from + (block * lanes + i) * from_stride;
        // The block after the next one, as a rule: rows far apart are not what the processor expects.
        if (column == 0) __builtin_prefetch(row + 2 * cache_line, 0, 2);
        blocks[block][i] = load(row + 4 * column);
      }
      transpose_registers(blocks[block]);
    }
    for (Index i = 0; i < lanes; ++i)
      for (Index block = 0; block < registers; ++block)
        store<streams>(to + (column + i) * to_stride + block * register_bytes, blocks[block][i]);
  }
}

inline bool is_aligned(const std::byte* to, Index stride) {
  return (reinterpret_cast<std::uintptr_t>(to) | static_cast<std::uintptr_t>(stride)) % cache_line == 0;
}

inline void transpose(const std::byte* from, Index from_stride, std::byte* to, Index to_stride,
                      bool streams) {
  if (streams && is_aligned(to, to_stride))
    transpose_lines<true>(from, from_stride, to, to_stride);
  else
    transpose_lines<false>(from, from_stride, to, to_stride);
}

inline void stream(const std::byte* from, std::byte* to, Index bytes) {
  const auto copy = [&](Index count) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(count));
    from += count;
    to += count;
    bytes -= count;
  };
  const auto past = static_cast<Index>(reinterpret_cast<std::uintptr_t>(to) % cache_line);
  if (past != 0) copy(cache_line - past < bytes ? cache_line - past : bytes);
  for (; bytes >= cache_line; from += cache_line, to += cache_line, bytes -= cache_line)
    for (Index part = 0; part < cache_line; part += register_bytes) store<true>(to + part, load(from + part));
  if (bytes != 0) copy(bytes);
}

inline void fill(std::uint32_t pattern, std::byte* to, Index bytes) {
  const Slots slots = Slots{} + pattern;
  for (; bytes >= register_bytes; bytes -= register_bytes, to += register_bytes) store<false>(to, slots);
  if (bytes != 0) __builtin_memcpy(to, &slots, static_cast<std::size_t>(bytes));
}

constexpr CacheLines unit = {transpose, stream, fill};

/// The moves of this unit.
const CacheLines* cache_lines_unit() { return &unit; }  // NOLINT(misc-definitions-in-headers): one file each

}  // namespace orlop::inline v0::ORLOP_INSTRUCTION_SET
