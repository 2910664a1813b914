// The innermost loops of CPU reductions, compiled for one instruction set: the body of fibre.cpp and
// of the units named after it.
#pragma once

#include <utility>

#include "carriers/cpu/kernels/fibre.hpp"
#include "operation/instruction_set.hpp"

#if defined(__FMA__)
#include <immintrin.h>
#endif

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET {

/// As many terms side by side as a register holds accumulators.
template <class Accumulator, class T>
struct Lanes {
  static constexpr int width = register_bytes / int{sizeof(Accumulator)};
  static constexpr int vectors = 256 / register_bytes;
  static constexpr int count = width * vectors;  // 256 bytes on every processor
  using Vector [[gnu::vector_size(register_bytes)]] = Accumulator;
  using Terms [[gnu::vector_size(width * sizeof(T))]] = T;

  static Vector load(const T* terms) {
    Terms loaded;
    __builtin_memcpy(&loaded, terms, sizeof loaded);
    return __builtin_convertvector(loaded, Vector);
  }
};

template <int distance, class Vector, int... lane>
Vector rotated(Vector vector, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(vector, vector, ((lane + distance) % int{sizeof...(lane)})...);
}

/// Combines the lanes of a register by halves until one is left.
template <class L, int half, class Combine>
auto fold_register(typename L::Vector vector, Combine combine) {
  if constexpr (half == 0)
    return vector[0];
  else
    return fold_register<L, half / 2>(
        combine(vector, rotated<half>(vector, std::make_integer_sequence<int, L::width>())), combine);
}

/// The same for all lanes: the same ones meet whatever the size of registers.
template <class L, class Combine>
auto fold(typename L::Vector* vectors, Combine combine) {
  for (int half = L::vectors / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) vectors[i] = combine(vectors[i], vectors[i + half]);
  return fold_register<L, L::width / 2>(vectors[0], combine);
}

/// Calls `body(terms)` with as many terms as there are lanes, again and again; the last ones are followed by
/// what `rest` holds.
template <class L, class T, class Body>
void for_each_lanes(const T* terms, Index count, T* rest, Body body) {
  Index i = 0;
  for (; i + L::count <= count; i += L::count) body(terms + i);
  if (i == count) return;
  __builtin_memcpy(rest, terms + i, static_cast<decltype(sizeof(T))>(count - i) * sizeof(T));
  body(rest);
}

template <class Accumulator, class T>
Accumulator sum(const T* terms, Index count) {
  using L = Lanes<Accumulator, T>;
  typename L::Vector partial[L::vectors] = {};
  T rest[L::count] = {};
  for_each_lanes<L>(terms, count, rest, [&](const T* lanes) {
    for (int vector = 0; vector < L::vectors; ++vector) partial[vector] += L::load(lanes + vector * L::width);
  });
  return fold<L>(partial, [](auto a, auto b) { return a + b; });
}

/// What `read` gives for `count` rows from `first` on, combined by halves.
template <int first, int count, class Read, class Combine>
auto combined(Read read, Combine combine) {
  if constexpr (count == 1)
    return read(first);
  else
    return combine(combined<first, count / 2>(read, combine),
                   combined<first + count / 2, count / 2>(read, combine));
}

/// Calls `body.template operator()<n>(rows)` for n rows at a time: as many as the processor reads side by
/// side well, while there are so many.
template <class T, class Body>
void for_some_rows(const T* const* rows, Index count, Body body) {
  Index row = 0;
  for (; row + 8 <= count; row += 8) body.template operator()<8>(rows + row);
  for (; row + 4 <= count; row += 4) body.template operator()<4>(rows + row);
  for (; row < count; ++row) body.template operator()<1>(rows + row);
}

template <class Accumulator, class T>
void add_rows(Accumulator* sums, const T* const* rows, Index count, Index width) {
  using L = Lanes<Accumulator, T>;
  const auto add = [](auto a, auto b) { return a + b; };
  for_some_rows(rows, count, [=]<int some>(const T* const* taken) {
    const T* from[some];
    for (int row = 0; row < some; ++row) from[row] = taken[row];
    Index i = 0;
    for (; i + L::width <= width; i += L::width) {
      typename L::Vector so_far;
      __builtin_memcpy(&so_far, sums + i, sizeof so_far);
      so_far += combined<0, some>([&](int row) { return L::load(from[row] + i); }, add);
      __builtin_memcpy(sums + i, &so_far, sizeof so_far);
    }
    for (; i < width; ++i)
      sums[i] += combined<0, some>([&](int row) { return static_cast<Accumulator>(from[row][i]); }, add);
  });
}

/// The better one of two terms, or of each two lanes; `b` where one is a NaN.
template <bool IsMinimum, class T>
T better(T a, T b) {
  if constexpr (IsMinimum)
    return a < b ? a : b;
  else
    return a > b ? a : b;
}

inline std::int32_t bits_of(float x) { return __builtin_bit_cast(std::int32_t, x); }
/// Whether terms are added up to learn if one is a NaN: that costs less than a comparison.
template <class T>
constexpr bool is_traced = __is_same(T, float);

template <bool IsMinimum, class T>
TermExtremum<T> extremum(const T* terms, Index count) {
  using L = Lanes<T, T>;
  T rest[L::count];
  for (T& term : rest) term = terms[0];
  typename L::Vector best[L::vectors];
  typename L::Vector traces[L::vectors] = {};
  for (typename L::Vector& lanes : best) lanes = L::load(rest);
  for_each_lanes<L>(terms, count, rest, [&](const T* lanes) {
    for (int vector = 0; vector < L::vectors; ++vector) {
      const typename L::Vector loaded = L::load(lanes + vector * L::width);
      best[vector] = better<IsMinimum>(loaded, best[vector]);
      if constexpr (is_traced<T>) traces[vector] += loaded;
    }
  });
  const T value = fold<L>(best, [](auto a, auto b) { return better<IsMinimum>(b, a); });
  if constexpr (!is_traced<T>) return {value, false};
  const T trace = fold<L>(traces, [](auto a, auto b) { return a + b; });
  return {value, trace != trace};
}

template <bool IsMinimum, class T>
bool update_rows(T* best, const T* const* rows, Index count, Index width) {
  using L = Lanes<T, T>;
  typename L::Vector traces = {};
  const auto pick = [](auto a, auto b) { return better<IsMinimum>(a, b); };
  const auto add = [](auto a, auto b) { return a + b; };
  for_some_rows(rows, count, [=, &traces]<int some>(const T* const* taken) {
    const T* from[some];
    for (int row = 0; row < some; ++row) from[row] = taken[row];
    typename L::Vector trace = traces;
    // The terms are traced before anything is written: after that they would be read again.
    Index i = 0;
    for (; i + L::width <= width; i += L::width) {
      const auto read = [&](int row) { return L::load(from[row] + i); };
      if constexpr (is_traced<T>) trace += combined<0, some>(read, add);
      const typename L::Vector found = better<IsMinimum>(combined<0, some>(read, pick), L::load(best + i));
      __builtin_memcpy(best + i, &found, sizeof found);
    }
    for (; i < width; ++i) {
      const auto read = [&](int row) { return from[row][i]; };
      if constexpr (is_traced<T>) trace[0] += combined<0, some>(read, add);
      best[i] = better<IsMinimum>(combined<0, some>(read, pick), best[i]);
    }
    traces = trace;
  });
  const T trace = fold_register<L, L::width / 2>(traces, add);
  return trace != trace;
}

template <class T>
constexpr Index line = 64 / Index{sizeof(T)};  // columns that share a cache line

/// Asks for one line of some rows: they need not lie where the processor expects them. It waits in the
/// second-level cache, as rows often share a few places of the first.
template <int count, class T>
void prefetch(const T* const* rows, Index column) {
  for (int row = 0; row < count; ++row) __builtin_prefetch(rows[row] + column, 0, 2);
}

template <bool IsMinimum, class T>
void locate_rows(T* __restrict best, std::int32_t* __restrict positions, float* __restrict traces,
                 const T* const* rows, Index count, std::int32_t position, Index width) {
  const auto take = [](T x, std::int32_t at, T& value, std::int32_t& place) {
    const bool takes = IsMinimum ? x < value : x > value;
    place = takes ? at : place;
    value = takes ? x : value;
  };
  Index row = 0;
  for (; row + 2 <= count; row += 2, position += 2) {
    const T* __restrict const a = rows[row];
    const T* __restrict const b = rows[row + 1];
    const auto locate = [=](Index i) {
      T value = best[i];
      std::int32_t place = positions[i];
      take(a[i], position, value, place);
      take(b[i], position + 1, value, place);
      best[i] = value;
      positions[i] = place;
      if constexpr (is_traced<T>) traces[i] += a[i] + b[i];
    };
    const bool has_next = row + 4 <= count;
    Index i = 0;
    for (; i + line<T> <= width; i += line<T>) {
      if (has_next) prefetch<2>(rows + row + 2, i);
      for (Index column = i; column < i + line<T>; ++column) locate(column);
    }
    for (; i < width; ++i) locate(i);
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
  L::Vector sums[Vectors] = {};
  for (Index row = 0; row < count; ++row)
    for (Index vector = 0; vector < Vectors; ++vector)
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

using FloatVector = Lanes<float, float>::Vector;
#if defined(__AVX512F__)
constexpr int tile_registers = 4;  // of rows; with six columns all registers are in use
inline FloatVector fused(FloatVector a, FloatVector b, FloatVector sum) { return _mm512_fmadd_ps(a, b, sum); }
#elif defined(__FMA__)
constexpr int tile_registers = 2;
inline FloatVector fused(FloatVector a, FloatVector b, FloatVector sum) { return _mm256_fmadd_ps(a, b, sum); }
#else
constexpr int tile_registers = 0;  // BLAS knows better
#endif

/// Some registers of rows, from `row` on, of some columns.
template <int Registers, int Columns>
void multiply_tile(float* out, Index leading, const Weights& weights, const float* const* runs, Index count,
                   Index terms, Index row) {
  using L = Lanes<float, float>;
  FloatVector sums[Columns][Registers] = {};
  const float* weight = weights.data + row;
  for (Index run = 0; run < count; ++run) {
    const float* from[Columns];
    for (Index column = 0; column < Columns; ++column) from[column] = runs[column * count + run];
    for (Index term = 0; term < terms; ++term, weight += weights.leading) {
      FloatVector factors[Registers];
      for (Index i = 0; i < Registers; ++i) factors[i] = L::load(weight + i * L::width);
      for (Index column = 0; column < Columns; ++column) {
        const FloatVector value = from[column][term] - FloatVector{};  // no operation; 0 + x is one for -0
        for (Index i = 0; i < Registers; ++i) sums[column][i] = fused(factors[i], value, sums[column][i]);
      }
    }
  }
  for (Index column = 0; column < Columns; ++column)
    for (Index i = 0; i < Registers; ++i) {
      const Index left = weights.rows - row - i * L::width;
      const Index stored = left < L::width ? left : L::width;
      if (stored > 0)
        __builtin_memcpy(out + row + i * L::width + column * leading, &sums[column][i],
                         static_cast<decltype(sizeof(float))>(stored) * sizeof(float));
    }
}

/// The tiles of all rows, of as many registers as fit.
template <int Registers, int Columns>
void multiply_rows(float* out, Index leading, const Weights& weights, const float* const* runs, Index count,
                   Index terms, Index row) {
  constexpr Index width = Registers * Index{Lanes<float, float>::width};
  for (; row + width <= weights.leading; row += width)
    multiply_tile<Registers, Columns>(out, leading, weights, runs, count, terms, row);
  if constexpr (Registers > 1)
    if (row < weights.leading)
      multiply_rows<Registers / 2, Columns>(out, leading, weights, runs, count, terms, row);
}

constexpr Index columns_at_once = tile_registers == 0 ? 0 : 6;
inline void multiply_columns(float* out, Index leading, const Weights& weights, const float* const* runs,
                             Index count, Index terms, Index columns) {
  if constexpr (columns_at_once > 0) {
    if (columns == columns_at_once)
      return multiply_rows<tile_registers, columns_at_once>(out, leading, weights, runs, count, terms, 0);
    for (Index column = 0; column < columns; ++column)
      multiply_rows<tile_registers, 1>(out + column * leading, leading, weights, runs + column * count, count,
                                       terms, 0);
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
    {weigh_rows, add_products, columns_at_once, multiply_columns},
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
