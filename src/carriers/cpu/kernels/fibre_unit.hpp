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

constexpr Index strip = 64;  // columns of some rows that are worked on while the next rows' are fetched

/// Asks for the columns `first` … `last` - 1 of some rows: they need not lie where the processor expects
/// them. They wait in the second-level cache, as rows often share a few places of the first.
template <int count, class T>
void prefetch(const T* const* rows, Index first, Index last) {
  constexpr Index line = 64 / Index{sizeof(T)};
  for (int row = 0; row < count; ++row)
    for (Index i = first; i < last; i += line) __builtin_prefetch(rows[row] + i, 0, 2);
}

template <class Accumulator, class T>
void add_rows(Accumulator* __restrict sums, const T* const* rows, Index count, Index width) {
  Index row = 0;
  for (; row + 4 <= count; row += 4) {
    const T* __restrict const a = rows[row];
    const T* __restrict const b = rows[row + 1];
    const T* __restrict const c = rows[row + 2];
    const T* __restrict const d = rows[row + 3];
    for (Index first = 0; first < width; first += strip) {
      const Index last = width - first < strip ? width : first + strip;
      if (row + 8 <= count) prefetch<4>(rows + row + 4, first, last);
      for (Index i = first; i < last; ++i)
        sums[i] += (static_cast<Accumulator>(a[i]) + static_cast<Accumulator>(b[i])) +
                   (static_cast<Accumulator>(c[i]) + static_cast<Accumulator>(d[i]));
    }
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

inline std::int32_t bits_of(float x) { return __builtin_bit_cast(std::int32_t, x); }
/// Whether terms are added up to learn if one is a NaN: that costs less than a comparison.
template <class T>
constexpr bool is_traced = __is_same(T, float);

template <bool IsMinimum, class T>
TermExtremum<T> extremum(const T* terms, Index count) {
  constexpr int lanes = 64;
  T best[lanes];
  float traces[lanes] = {};
  for (int lane = 0; lane < lanes; ++lane) best[lane] = terms[0];
  const auto step = [&](int lane, T x) {
    best[lane] = is_better<IsMinimum>(x, best[lane]) ? x : best[lane];
    if constexpr (is_traced<T>) traces[lane] += x;
  };
  Index i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) step(lane, terms[i + lane]);
  for (int lane = 0; i + lane < count; ++lane) step(lane, terms[i + lane]);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) {
      best[lane] = is_better<IsMinimum>(best[lane + width], best[lane]) ? best[lane + width] : best[lane];
      if constexpr (is_traced<T>) traces[lane] += traces[lane + width];
    }
  return {best[0], traces[0] != traces[0]};
}

template <bool IsMinimum, class T>
void update_rows(T* __restrict best, float* __restrict traces, const T* const* rows, Index count,
                 Index width) {
  const auto take = [](T x, T& value) { value = is_better<IsMinimum>(x, value) ? x : value; };
  Index row = 0;
  for (; row + 2 <= count; row += 2) {
    const T* __restrict const a = rows[row];
    const T* __restrict const b = rows[row + 1];
    for (Index first = 0; first < width; first += strip) {
      const Index last = width - first < strip ? width : first + strip;
      if (row + 4 <= count) prefetch<2>(rows + row + 2, first, last);
      for (Index i = first; i < last; ++i) {
        T value = best[i];
        take(a[i], value);
        take(b[i], value);
        best[i] = value;
        if constexpr (is_traced<T>) traces[i] += a[i] + b[i];
      }
    }
  }
  if (row == count) return;
  const T* __restrict const terms = rows[row];
  for (Index i = 0; i < width; ++i) {
    take(terms[i], best[i]);
    if constexpr (is_traced<T>) traces[i] += terms[i];
  }
}

template <bool IsMinimum, class T>
void locate_rows(T* __restrict best, std::int32_t* __restrict positions, float* __restrict traces,
                 const T* const* rows, Index count, std::int32_t position, Index width) {
  const auto take = [](T x, std::int32_t at, T& value, std::int32_t& place) {
    const bool takes = is_better<IsMinimum>(x, value);
    place = takes ? at : place;
    value = takes ? x : value;
  };
  Index row = 0;
  for (; row + 2 <= count; row += 2, position += 2) {
    const T* __restrict const a = rows[row];
    const T* __restrict const b = rows[row + 1];
    for (Index first = 0; first < width; first += strip) {
      const Index last = width - first < strip ? width : first + strip;
      if (row + 4 <= count) prefetch<2>(rows + row + 2, first, last);
      for (Index i = first; i < last; ++i) {
        T value = best[i];
        std::int32_t place = positions[i];
        take(a[i], position, value, place);
        take(b[i], position + 1, value, place);
        best[i] = value;
        positions[i] = place;
        if constexpr (is_traced<T>) traces[i] += a[i] + b[i];
      }
    }
  }
  if (row == count) return;
  const T* __restrict const terms = rows[row];
  for (Index i = 0; i < width; ++i) {
    take(terms[i], position, best[i], positions[i]);
    if constexpr (is_traced<T>) traces[i] += terms[i];
  }
}

/// `Vectors` vectors of the columns from `i` on.
template <int Vectors>
void weigh_strip(float* out, const float* const* rows, const float* weights, Index count, Index width,
                 Index i) {
  using L = Lanes<float, float>;
  typename L::Vector sums[Vectors] = {};
  for (Index row = 0; row < count; ++row)
    for (int vector = 0; vector < Vectors; ++vector)
      sums[vector] +=
          L::load(rows[row] + i + vector * L::width) * L::load(weights + row * width + i + vector * L::width);
  __builtin_memcpy(out + i, sums, sizeof sums);
}

inline void weigh_rows(float* __restrict out, const float* const* rows, const float* weights, Index count,
                       Index width) {
  using L = Lanes<float, float>;
  Index i = 0;
  for (; i + L::count <= width; i += L::count) weigh_strip<L::vectors>(out, rows, weights, count, width, i);
  for (; i + L::width <= width; i += L::width) weigh_strip<1>(out, rows, weights, count, width, i);
  for (; i < width; ++i) {
    float sum = 0.0F;
    for (Index row = 0; row < count; ++row) sum += rows[row][i] * weights[row * width + i];
    out[i] = sum;
  }
}

inline void add_products(float* __restrict sums, const float* __restrict a, const float* __restrict b,
                         Index count) {
  for (Index i = 0; i < count; ++i) sums[i] += a[i] * b[i];
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
    {weigh_rows, add_products},
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
