// The innermost loops of CPU reductions, as one unit for each instruction set offers them. Their results do
// not depend on the unit: the number of lanes that a sum is made of is fixed. Nothing here runs code when it
// is loaded.
#pragma once

#include <cstdint>
#include <type_traits>

#include "orlop/base/message.hpp"

namespace orlop::inline v0 {

template <class Accumulator, class T>
struct SumLoops {
  /// The sum of `count` consecutive terms.
  Accumulator (*sum)(const T* terms, Index count);
  /// Adds `count` rows of `width` terms to `sums`; the rows are few.
  void (*add_rows)(Accumulator* sums, const T* const* rows, Index count, Index width);
};

/// The extremum of some terms, which come in no particular order of zeros. One of them may be a NaN if that
/// is set; the value is of the other terms then, or a NaN. It is set for infinities of both signs, too.
template <class T>
struct TermExtremum {
  T value;
  bool may_have_nan;
};

template <class T>
struct ExtremumLoops {
  /// Of `count` >= 1 consecutive terms.
  TermExtremum<T> (*extremum)(const T* terms, Index count);
  /// Side by side: `count` rows of `width` terms each. `best` starts with some term of each column; zeros
  /// come in no particular order. Whether some column may have a NaN.
  bool (*update_rows)(T* best, const T* const* rows, Index count, Index width);
  /// Likewise with the position at which each was met first; the rows lie at `position`, position + 1, …
  /// `traces` start as zeros, and become a NaN where a column may have one.
  void (*locate_rows)(T* best, std::int32_t* positions, float* traces, const T* const* rows, Index count,
                      std::int32_t position, Index width);
};

/// The weights of some terms for many sums at once: those of a term side by side, `leading` apart from the
/// next term's, and zeros after the last row up to a multiple of `row_multiple`.
struct Weights {
  static constexpr Index row_multiple = 16;
  const float* data;
  Index rows;
  Index leading;
};

/// Of products, side by side: unfused, in the order of the rows.
struct ProductLoops {
  /// out[i] = Σ rows[r][i] · weights[r · width + i] over `count` rows of `width` terms.
  void (*weigh_rows)(float* out, const float* const* rows, const float* weights, Index count, Index width);
  /// sums[i] += a[i] · b[i] for `count` terms.
  void (*add_products)(float* sums, const float* a, const float* b, Index count);
  /// How many columns multiply_columns takes at once; 0 where it is slower than BLAS.
  Index columns_at_once;
  /// out[r + leading · c] = Σ weights[t · terms + i][r] · runs[c · count + t][i], fused, over `count` runs t
  /// of `terms` consecutive terms i each, for `columns` columns c, no more than columns_at_once.
  void (*multiply_columns)(float* out, Index leading, const Weights& weights, const float* const* runs,
                           Index count, Index terms, Index columns);
};

struct FibreKernels {
  SumLoops<float, float> float_sum;
  SumLoops<double, float> double_sum;
  SumLoops<std::int64_t, std::int32_t> integer_sum;
  ProductLoops products;
  ExtremumLoops<float> float_extremum[2];           // the maximum, the minimum
  ExtremumLoops<std::int32_t> integer_extremum[2];  // likewise
  /// The first of `count` consecutive terms that equals the value, or `count`.
  Index (*find_float)(const float* terms, Index count, float value);
  Index (*find_integer)(const std::int32_t* terms, Index count, std::int32_t value);
  /// Whether one of them has the bits of the value.
  bool (*contains_bits)(const float* terms, Index count, float value);
  /// The same side by side: marks the columns.
  void (*find_bits)(std::int32_t* is_met, const float* const* rows, Index count, Index width, float value);

  template <class Accumulator>
  [[nodiscard]] const auto& sums() const {
    if constexpr (std::is_same_v<Accumulator, float>)
      return float_sum;
    else if constexpr (std::is_same_v<Accumulator, double>)
      return double_sum;
    else
      return integer_sum;
  }
  template <class T>
  [[nodiscard]] const ExtremumLoops<T>& extremum(bool is_minimum) const {
    if constexpr (std::is_same_v<T, float>)
      return float_extremum[is_minimum ? 1 : 0];
    else
      return integer_extremum[is_minimum ? 1 : 0];
  }
  [[nodiscard]] Index find(const float* terms, Index count, float value) const {
    return find_float(terms, count, value);
  }
  [[nodiscard]] Index find(const std::int32_t* terms, Index count, std::int32_t value) const {
    return find_integer(terms, count, value);
  }
};

/// Those of the unit for the processor that this runs on.
[[nodiscard]] const FibreKernels& fibre_kernels();

}  // namespace orlop::inline v0
