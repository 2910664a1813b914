// Matrix products through BLAS.
#include "carriers/cpu/kernels/blas.hpp"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <limits>

#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

// BLAS counts in 32 bits; longer matrices are multiplied in parts.
constexpr Index max_part = Index{1} << 30;

blasint to_blas(Index number) { return static_cast<blasint>(number); }
CBLAS_TRANSPOSE transposition(bool is_transposed) { return is_transposed ? CblasTrans : CblasNoTrans; }

void gemm(const BlasMatrix<float>& a, const BlasMatrix<float>& b, float beta, float* c, Index leading) {
  scipy_cblas_sgemm(CblasColMajor, transposition(a.is_transposed), transposition(!b.is_transposed),
                    to_blas(a.rows), to_blas(b.rows), to_blas(a.terms), 1.0F, a.data, to_blas(a.leading),
                    b.data, to_blas(b.leading), beta, c, to_blas(leading));
}

/// c = a · row, where `row` has one row.
void gemv(const BlasMatrix<float>& a, const BlasMatrix<float>& row, float beta, float* c, Index c_step) {
  const auto columns = a.is_transposed ? std::pair(a.terms, a.rows) : std::pair(a.rows, a.terms);
  scipy_cblas_sgemv(CblasColMajor, transposition(a.is_transposed), to_blas(columns.first),
                    to_blas(columns.second), 1.0F, a.data, to_blas(a.leading), row.data,
                    to_blas(row.term_step()), beta, c, to_blas(c_step));
}

}  // namespace

void use_one_blas_thread() {
  static const bool is_done = [] {
    scipy_openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(is_done);
}

std::optional<BlasMatrix<float>> blas_matrix(const std::byte* data, const Leaves& rows, const Leaves& terms) {
  const auto loop_of = [](const Leaves& leaves) {
    const std::array strides{leaves.strides};
    return coalesce_strides(leaves.extents, strides);
  };
  const StridedLoop row_loop = loop_of(rows);
  const StridedLoop term_loop = loop_of(terms);
  if (row_loop.rank() > 1 || term_loop.rank() > 1) return std::nullopt;
  // One row or one term has no step of its own; then the least leading dimension will do.
  const auto try_order = [&](const StridedLoop& inner, const StridedLoop& outer,
                             bool is_transposed) -> std::optional<BlasMatrix<float>> {
    const Index leading = outer.size == 1 ? inner.size : outer.step(0);
    const bool fits = (inner.size == 1 || inner.step(0) == 1) && leading >= inner.size &&
                      leading <= std::numeric_limits<blasint>::max();
    if (!fits) return std::nullopt;
    return BlasMatrix<float>{reinterpret_cast<const float*>(data), row_loop.size, term_loop.size, leading,
                             is_transposed};
  };
  if (const auto matrix = try_order(row_loop, term_loop, false)) return matrix;
  return try_order(term_loop, row_loop, true);
}

void multiply(const BlasMatrix<float>& a, const BlasMatrix<float>& b, float beta, float* c, Index leading) {
  for (Index i = 0; i < a.rows; i += max_part)
    for (Index j = 0; j < b.rows; j += max_part)
      for (Index k = 0; k < a.terms; k += max_part) {
        const Index terms = std::min(max_part, a.terms - k);
        const BlasMatrix<float> left{a.at(i, k), std::min(max_part, a.rows - i), terms, a.leading,
                                     a.is_transposed};
        const BlasMatrix<float> right{b.at(j, k), std::min(max_part, b.rows - j), terms, b.leading,
                                      b.is_transposed};
        float* const part = c + i + j * leading;
        const float part_beta = k == 0 ? beta : 1.0F;
        if (right.rows == 1)
          gemv(left, right, part_beta, part, 1);
        else if (left.rows == 1)
          gemv(right, left, part_beta, part, leading);
        else
          gemm(left, right, part_beta, part, leading);
      }
}

void multiply(const BlasMatrix<double>& a, const BlasMatrix<double>& b, double beta, double* c,
              Index leading) {
  scipy_cblas_dgemm(CblasColMajor, transposition(a.is_transposed), transposition(!b.is_transposed),
                    to_blas(a.rows), to_blas(b.rows), to_blas(a.terms), 1.0, a.data, to_blas(a.leading),
                    b.data, to_blas(b.leading), beta, c, to_blas(leading));
}

}  // namespace orlop::inline v0
