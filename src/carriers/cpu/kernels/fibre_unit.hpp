// The innermost loops of CPU reductions, compiled for one instruction set: the body of fibre.cpp and
// of the units named after it.
#pragma once

#include "carriers/cpu/kernels/fibre.hpp"
#include "operation/instruction_set.hpp"

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

/// As many terms side by side as a register holds accumulators.
template <class Accumulator, class T>
struct Lanes {
  static constexpr int width = vector_bytes / int{sizeof(Accumulator)};
  static constexpr int vectors = 256 / vector_bytes;
  static constexpr int count = width * vectors;  // 256 bytes on every processor
  using Vector [[gnu::vector_size(vector_bytes)]] = Accumulator;
  using Terms [[gnu::vector_size(width * sizeof(T))]] = T;

  static Vector load(const T* terms) {
    Terms loaded;
    __builtin_memcpy(&loaded, terms, sizeof loaded);
    return __builtin_convertvector(loaded, Vector);
  }
};

template <class Accumulator, class T>
Accumulator sum(const T* terms, Index count) {
  using L = Lanes<Accumulator, T>;
  typename L::Vector partial[L::vectors] = {};
  Index i = 0;
  for (; i + L::count <= count; i += L::count)
    for (int vector = 0; vector < L::vectors; ++vector)
      partial[vector] += L::load(terms + i + vector * L::width);
  Accumulator lanes[L::count];
  __builtin_memcpy(lanes, partial, sizeof lanes);
  for (Index lane = 0; i + lane < count; ++lane) lanes[lane] += static_cast<Accumulator>(terms[i + lane]);
  for (int width = L::count / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

template <class Accumulator, class T>
void add_rows(Accumulator* __restrict sums, const T* const* rows, Index count, Index width) {
  Index row = 0;
  for (; row + 4 <= count; row += 4) {
    const T* __restrict const a = rows[row];
    const T* __restrict const b = rows[row + 1];
    const T* __restrict const c = rows[row + 2];
    const T* __restrict const d = rows[row + 3];
    for (Index i = 0; i < width; ++i)
      sums[i] += (static_cast<Accumulator>(a[i]) + static_cast<Accumulator>(b[i])) +
                 (static_cast<Accumulator>(c[i]) + static_cast<Accumulator>(d[i]));
  }
  for (; row < count; ++row) {
    const T* __restrict const terms = rows[row];
    for (Index i = 0; i < width; ++i) sums[i] += static_cast<Accumulator>(terms[i]);
  }
}

template <bool IsMinimum, class T>
bool is_better(T x, T best) {
  return IsMinimum ? x < best : x > best;
}

constexpr std::int32_t infinity_bits = 0x7f800000;
inline std::int32_t bits_of(float x) { return __builtin_bit_cast(std::int32_t, x); }
/// Above infinity_bits for a NaN and for nothing else.
inline std::int32_t magnitude_bits(float x) { return bits_of(x) & 0x7fffffff; }
inline std::int32_t magnitude_bits(std::int32_t) { return 0; }

template <bool IsMinimum, class T>
TermExtremum<T> extremum(const T* terms, Index count) {
  constexpr int lanes = 64;
  T best[lanes];
  std::int32_t magnitude[lanes] = {};
  for (int lane = 0; lane < lanes; ++lane) best[lane] = terms[0];
  const auto step = [&](int lane, T x) {
    best[lane] = is_better<IsMinimum>(x, best[lane]) ? x : best[lane];
    magnitude[lane] = magnitude_bits(x) > magnitude[lane] ? magnitude_bits(x) : magnitude[lane];
  };
  Index i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) step(lane, terms[i + lane]);
  for (int lane = 0; i + lane < count; ++lane) step(lane, terms[i + lane]);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) {
      best[lane] = is_better<IsMinimum>(best[lane + width], best[lane]) ? best[lane + width] : best[lane];
      magnitude[lane] = magnitude[lane + width] > magnitude[lane] ? magnitude[lane + width] : magnitude[lane];
    }
  return {best[0], magnitude[0] > infinity_bits};
}

template <bool IsMinimum, class T>
void update_rows(T* __restrict best, std::int32_t* __restrict magnitudes, const T* const* rows, Index count,
                 Index width) {
  const auto step = [](T x, T& value, std::int32_t& magnitude) {
    value = is_better<IsMinimum>(x, value) ? x : value;
    magnitude = magnitude_bits(x) > magnitude ? magnitude_bits(x) : magnitude;
  };
  Index row = 0;
  for (; row + 4 <= count; row += 4) {
    const T* __restrict const a = rows[row];
    const T* __restrict const b = rows[row + 1];
    const T* __restrict const c = rows[row + 2];
    const T* __restrict const d = rows[row + 3];
    for (Index i = 0; i < width; ++i) {
      T value = best[i];
      std::int32_t magnitude = magnitudes[i];
      step(a[i], value, magnitude);
      step(b[i], value, magnitude);
      step(c[i], value, magnitude);
      step(d[i], value, magnitude);
      best[i] = value;
      magnitudes[i] = magnitude;
    }
  }
  for (; row < count; ++row) {
    const T* __restrict const terms = rows[row];
    for (Index i = 0; i < width; ++i) step(terms[i], best[i], magnitudes[i]);
  }
}

template <bool IsMinimum, class T>
void locate_rows(T* __restrict best, std::int32_t* __restrict positions, std::int32_t* __restrict magnitudes,
                 const T* const* rows, Index count, std::int32_t position, Index width) {
  const auto step = [](T x, std::int32_t at, T& value, std::int32_t& place, std::int32_t& magnitude) {
    const bool takes = is_better<IsMinimum>(x, value);
    place = takes ? at : place;
    value = takes ? x : value;
    magnitude = magnitude_bits(x) > magnitude ? magnitude_bits(x) : magnitude;
  };
  Index row = 0;
  for (; row + 4 <= count; row += 4, position += 4) {
    const T* __restrict const a = rows[row];
    const T* __restrict const b = rows[row + 1];
    const T* __restrict const c = rows[row + 2];
    const T* __restrict const d = rows[row + 3];
    for (Index i = 0; i < width; ++i) {
      T value = best[i];
      std::int32_t place = positions[i];
      std::int32_t magnitude = magnitudes[i];
      step(a[i], position, value, place, magnitude);
      step(b[i], position + 1, value, place, magnitude);
      step(c[i], position + 2, value, place, magnitude);
      step(d[i], position + 3, value, place, magnitude);
      best[i] = value;
      positions[i] = place;
      magnitudes[i] = magnitude;
    }
  }
  for (; row < count; ++row, ++position) {
    const T* __restrict const terms = rows[row];
    for (Index i = 0; i < width; ++i) step(terms[i], position, best[i], positions[i], magnitudes[i]);
  }
}

template <class T>
Index find(const T* terms, Index count, T value) {
  constexpr Index group = 64;
  Index first = 0;
  for (; first + group <= count; first += group) {
    std::int32_t is_met = 0;
    for (Index i = 0; i < group; ++i) is_met |= terms[first + i] == value ? 1 : 0;
    if (is_met != 0) break;
  }
  while (first < count && terms[first] != value) ++first;
  return first;
}

inline void find_bits(std::int32_t* __restrict is_met, const float* const* rows, Index count, Index width,
                      float value) {
  for (Index row = 0; row < count; ++row) {
    const float* __restrict const terms = rows[row];
    for (Index i = 0; i < width; ++i) is_met[i] |= bits_of(terms[i]) == bits_of(value) ? 1 : 0;
  }
}

inline bool contains_bits(const float* terms, Index count, float value) {
  std::int32_t is_met = 0;
  for (Index i = 0; i < count; ++i) is_met |= bits_of(terms[i]) == bits_of(value) ? 1 : 0;
  return is_met != 0;
}

template <bool IsMinimum, class T>
constexpr ExtremumLoops<T> extremum_loops = {extremum<IsMinimum, T>, update_rows<IsMinimum, T>,
                                             locate_rows<IsMinimum, T>};

constexpr FibreKernels unit = {
    {sum<float, float>, add_rows<float, float>},
    {sum<double, float>, add_rows<double, float>},
    {sum<std::int64_t, std::int32_t>, add_rows<std::int64_t, std::int32_t>},
    {extremum_loops<false, float>, extremum_loops<true, float>},
    {extremum_loops<false, std::int32_t>, extremum_loops<true, std::int32_t>},
    find<float>,
    find<std::int32_t>,
    contains_bits,
    find_bits,
};

/// The loops of this unit.
const FibreKernels* fibre_unit() { return &unit; }  // NOLINT(misc-definitions-in-headers): one file each

}  // namespace orlop::inline v0::ORLOP_INSTRUCTION_SET
