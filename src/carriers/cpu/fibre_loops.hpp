// The innermost loops of CPU reductions, written so that compilers vectorize them. Their results do not
// depend on the width of the machine's vectors: the number of lanes is fixed here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "orlop/base/message.hpp"

namespace orlop::inline v0::fibre_loops {

constexpr std::size_t lanes = 64;

/// The sum of `count` consecutive terms in `Accumulator`, by lanes.
template <class Accumulator, class T>
Accumulator sum(const T* terms, Index count) {
  Accumulator partial[lanes] = {};
  const auto whole = static_cast<std::size_t>(count) / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane)
      partial[lane] += static_cast<Accumulator>(terms[i + lane]);
  for (std::size_t i = whole; i < static_cast<std::size_t>(count); ++i)
    partial[i - whole] += static_cast<Accumulator>(terms[i]);
  for (std::size_t width = lanes / 2; width > 0; width /= 2)
    for (std::size_t lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  return partial[0];
}

/// Adds `count` rows of `width` terms to `sums`; the rows are few.
template <class Accumulator, class T>
void add_rows(Accumulator* sums, const T* const* rows, Index count, Index width) {
  Index row = 0;
  for (; row + 4 <= count; row += 4) {
    const T* const a = rows[row];
    const T* const b = rows[row + 1];
    const T* const c = rows[row + 2];
    const T* const d = rows[row + 3];
    for (Index i = 0; i < width; ++i)
      sums[i] += (static_cast<Accumulator>(a[i]) + static_cast<Accumulator>(b[i])) +
                 (static_cast<Accumulator>(c[i]) + static_cast<Accumulator>(d[i]));
  }
  for (; row < count; ++row)
    for (Index i = 0; i < width; ++i) sums[i] += static_cast<Accumulator>(rows[row][i]);
}

template <bool IsMinimum, class T>
bool is_better(T x, T best) {
  return IsMinimum ? x < best : x > best;
}

/// The extremum of `count` >= 1 consecutive terms, which come in no particular order of zeros, and whether
/// one is a NaN; the extremum is of the other terms then, or a NaN.
template <class T>
struct Extremum {
  T value;
  bool has_nan;
};

template <bool IsMinimum, class T>
Extremum<T> extremum(const T* terms, Index count) {
  T best[lanes];
  std::int32_t is_nan[lanes] = {};
  for (std::size_t lane = 0; lane < lanes; ++lane) best[lane] = terms[0];
  const auto whole = static_cast<std::size_t>(count) / lanes * lanes;
  const auto step = [&](std::size_t lane, T x) {
    best[lane] = is_better<IsMinimum>(x, best[lane]) ? x : best[lane];
    is_nan[lane] |= x != x ? 1 : 0;
  };
  for (std::size_t i = 0; i < whole; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) step(lane, terms[i + lane]);
  for (std::size_t i = whole; i < static_cast<std::size_t>(count); ++i) step(i - whole, terms[i]);
  Extremum<T> result{best[0], false};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (is_better<IsMinimum>(best[lane], result.value)) result.value = best[lane];
    result.has_nan = result.has_nan || is_nan[lane] != 0;
  }
  return result;
}

/// Updates `best` by one row: the place of an equal term is taken only by a zero of the preferred sign. Terms
/// that are NaN are marked.
template <bool IsMinimum>
void extremum_row(float* best, std::int32_t* is_nan, const float* row, Index width) {
  for (Index i = 0; i < width; ++i) {
    const float x = row[i];
    const bool is_negative = __builtin_bit_cast(std::int32_t, x) < 0;
    const bool takes = is_better<IsMinimum>(x, best[i]) | ((x == best[i]) & (is_negative == IsMinimum));
    best[i] = takes ? x : best[i];
    is_nan[i] |= x != x ? 1 : 0;
  }
}
template <bool IsMinimum>
void extremum_row(std::int32_t* best, std::int32_t*, const std::int32_t* row, Index width) {
  for (Index i = 0; i < width; ++i) best[i] = is_better<IsMinimum>(row[i], best[i]) ? row[i] : best[i];
}

/// Updates `best` and the position where it was met by the row at `position`.
template <bool IsMinimum, class T>
void position_row(T* best, std::int32_t* positions, const T* row, std::int32_t position, Index width) {
  for (Index i = 0; i < width; ++i) {
    const T x = row[i];
    const bool takes = is_better<IsMinimum>(x, best[i]) | ((x != x) & (best[i] == best[i]));
    positions[i] = takes ? position : positions[i];
    best[i] = takes ? x : best[i];
  }
}

/// The first of `count` consecutive terms that equals `value`, or `count`.
template <class T>
Index find(const T* terms, Index count, T value) {
  constexpr Index group = 16;
  Index first = 0;
  for (; first + group <= count; first += group) {
    std::int32_t is_met = 0;
    for (Index i = 0; i < group; ++i) is_met |= terms[first + i] == value ? 1 : 0;
    if (is_met != 0) break;
  }
  while (first < count && terms[first] != value) ++first;
  return first;
}

/// Whether one of `count` consecutive terms has the bits of `value`.
inline bool contains_bits(const float* terms, Index count, float value) {
  std::int32_t is_met = 0;
  for (Index i = 0; i < count; ++i)
    is_met |= __builtin_bit_cast(std::int32_t, terms[i]) == __builtin_bit_cast(std::int32_t, value) ? 1 : 0;
  return is_met != 0;
}

}  // namespace orlop::inline v0::fibre_loops
