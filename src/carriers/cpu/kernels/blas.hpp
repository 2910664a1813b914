// BLAS as the CPU kernels use it: matrices with a leading dimension, products of any size, one thread.
#pragma once

#include <optional>

#include "operation/modes.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// BLAS keeps to the calling thread: its own pool would compete with ours. Call before the first product.
void use_one_blas_thread();

/// Element (row, term) lies at `data[row + leading * term]`, or if transposed at `data[leading * row +
/// term]`.
template <class T>
struct BlasMatrix {
  const T* data;
  Index rows;
  Index terms;
  Index leading;
  bool is_transposed;

  [[nodiscard]] const T* at(Index row, Index term) const {
    return data + (is_transposed ? row * leading + term : row + term * leading);
  }
  /// The distance between the terms of one row.
  [[nodiscard]] Index term_step() const { return is_transposed ? 1 : leading; }
  /// The rows `first` … `first + count - 1`.
  [[nodiscard]] BlasMatrix some_rows(Index first, Index count) const {
    return {at(first, 0), count, terms, leading, is_transposed};
  }
};

/// Float32 slots with these row and term leaves, or nothing where BLAS cannot read them.
[[nodiscard]] std::optional<BlasMatrix<float>> blas_matrix(const std::byte* data, const Leaves& rows,
                                                           const Leaves& terms);

/// c[i + leading * j] = Σ_k a[i, k] · b[j, k] + beta · c[i + leading * j]; with beta 0 c is not read.
void multiply(const BlasMatrix<float>& a, const BlasMatrix<float>& b, float beta, float* c, Index leading);
/// The same for sizes that BLAS can count.
void multiply(const BlasMatrix<double>& a, const BlasMatrix<double>& b, double beta, double* c,
              Index leading);

}  // namespace orlop::inline v0
