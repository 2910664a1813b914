// An operand of matmul as a matrix, whatever its layout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "operation/modes.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// The kernel that multiplies the matrices of two batches, entry by entry: called as matmul is, but that
/// operands and result have the batch as a third mode.
constexpr std::string_view batch_matmul_kernel = "_batch_matmul";
/// Calls `matmul` for the batch entries `first` … `last - 1` of such a call.
void multiply_entries(const KernelCall& call, KernelFunction matmul, Index first, Index last);

/// Half-open ranges of rows (the first mode's ordinals) and terms (the second mode's, which are contracted).
struct MatrixPart {
  Index first_row, last_row;
  Index first_term, last_term;
  [[nodiscard]] Index rows() const noexcept { return last_row - first_row; }
  [[nodiscard]] Index terms() const noexcept { return last_term - first_term; }
};

/// The offset of every ordinal of the leaves.
[[nodiscard]] std::vector<Index> offsets_of(const Leaves& leaves);

class Matrix {
 public:
  explicit Matrix(const KernelOperand& operand);

  [[nodiscard]] Index rows() const noexcept { return static_cast<Index>(rows_.size()); }
  [[nodiscard]] Index terms() const noexcept { return static_cast<Index>(terms_.size()); }
  [[nodiscard]] MatrixPart all() const noexcept { return {0, rows(), 0, terms()}; }

  /// Calls `body(value, position)` for every element of `part`, converted to T: the position is row + term ·
  /// leading, both counted from the part's first.
  template <class T, class Body>
  void for_each(const MatrixPart& part, Index leading, Body body) const {
    if (is_float_)
      visit<T>(reinterpret_cast<const float*>(data_), part, leading, body);
    else
      visit<T>(reinterpret_cast<const std::int32_t*>(data_), part, leading, body);
  }
  /// Copies `part`, rows fastest.
  template <class T>
  void copy(const MatrixPart& part, T* out) const {
    // NOLINTNEXTLINE(clang-analyzer-security.ArrayBound): positions are those of the part
    for_each<T>(part, part.rows(), [out](T value, Index position) { out[position] = value; });
  }

 private:
  template <class T, class Stored, class Body>
  void visit(const Stored* data, const MatrixPart& part, Index leading, Body body) const {
    const Index* const rows = rows_.data() + part.first_row;
    const Index* const terms = terms_.data() + part.first_term;
    if (is_dense_) {
      for (Index term = 0; term < part.terms(); ++term) {
        const Stored* const column = data + terms[term] + rows[0];
        for (Index row = 0; row < part.rows(); ++row) body(static_cast<T>(column[row]), row + term * leading);
      }
      return;
    }
    // Of rows that lie apart a few at a time: their terms come from few cache lines.
    constexpr Index height = 16;
    for (Index first = 0; first < part.rows(); first += height) {
      const Index last = std::min(first + height, part.rows());
      for (Index term = 0; term < part.terms(); ++term)
        for (Index row = first; row < last; ++row)
          body(static_cast<T>(data[terms[term] + rows[row]]), row + term * leading);
    }
  }

  const std::byte* data_;
  bool is_float_;
  std::vector<Index> rows_, terms_;  // element (r, t) lies at rows_[r] + terms_[t]
  bool is_dense_;                    // every row is next to the one before
};

}  // namespace orlop::inline v0
