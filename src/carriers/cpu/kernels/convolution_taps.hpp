// The kernel of a convolution as the matrices that columns are multiplied by.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "carriers/cpu/kernels/blas.hpp"
#include "operation/modes.hpp"
#include "operation/strided_copy.hpp"

namespace orlop::inline v0::convolution_parts {

/// The kernel with its out features as rows, and in features and taps as terms.
class KernelMatrix {
 public:
  KernelMatrix(const KernelOperand& operand, std::span<const std::size_t> roles) {
    const Layout layout = operand.layout->select(roles);
    const Leaves rows = leaves_of_modes(layout, 0, 1);
    const Leaves terms = leaves_of_modes(layout, 1, layout.rank());
    if (const auto matrix = blas_matrix(operand.data, rows, terms)) {
      matrix_ = *matrix;
      return;
    }
    copy_ = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(layout.size()));
    copy_strided(operand.data, layout, reinterpret_cast<std::byte*>(copy_.get()),
                 Layout::canonical(layout.shape()), sizeof(float));
    matrix_ = {copy_.get(), rows.size(), terms.size(), rows.size(), false};
  }
  [[nodiscard]] std::vector<BlasMatrix<float>> by_group(Index groups) const {
    std::vector<BlasMatrix<float>> matrices;
    matrices.reserve(static_cast<std::size_t>(groups));
    const Index rows = matrix_.rows / groups;
    for (Index group = 0; group < groups; ++group) matrices.push_back(matrix_.some_rows(group * rows, rows));
    return matrices;
  }

 private:
  std::unique_ptr<float[]> copy_;
  BlasMatrix<float> matrix_{};
};

/// What the kernel's features make of each other.
enum class KernelUse {
  forth,  ///< rows are out features and terms in features, first tap first
  back,   ///< rows are in features and terms out features, last tap first
};

/// A copy of the kernel: a matrix for each group and tap, one after the other.
class TapKernel {
 public:
  TapKernel(const KernelOperand& operand, std::span<const std::size_t> roles, Index groups, KernelUse use)
      : groups_(groups) {
    const bool is_back = use == KernelUse::back;
    std::vector<std::size_t> modes(roles.begin(), roles.end());
    if (is_back) std::swap(modes[0], modes[1]);
    const Layout layout = operand.layout->select(modes);
    std::vector<float> kernel(static_cast<std::size_t>(layout.size()));
    copy_strided(operand.data, layout, reinterpret_cast<std::byte*>(kernel.data()),
                 Layout::canonical(layout.shape()), sizeof(float));
    const Index all_rows = leaves_of_modes(layout, 0, 1).size();
    const Index all_terms = leaves_of_modes(layout, 1, 2).size();
    // Groups share out the out features.
    rows_ = is_back ? all_rows : all_rows / groups;
    const Index terms = is_back ? all_terms / groups : all_terms;
    block_ = rows_ * terms;
    taps_ = layout.size() / (all_rows * all_terms);
    values_.reserve(kernel.size());
    for (Index group = 0; group < groups; ++group)
      for (Index tap = 0; tap < taps_; ++tap) {
        const float* from = kernel.data() + all_rows * all_terms * (is_back ? taps_ - 1 - tap : tap) +
                            group * (is_back ? block_ : rows_);
        for (Index term = 0; term < terms; ++term, from += all_rows)
          values_.insert(values_.end(), from, from + rows_);
      }
  }
  /// Only these taps of another one.
  TapKernel(const TapKernel& whole, std::span<const Index> taps)
      : groups_(whole.groups_),
        rows_(whole.rows_),
        block_(whole.block_),
        taps_(static_cast<Index>(taps.size())) {
    for (Index group = 0; group < groups_; ++group)
      for (const Index tap : taps) {
        const float* const block = whole.values_.data() + (group * whole.taps_ + tap) * block_;
        values_.insert(values_.end(), block, block + block_);
      }
  }
  /// Of all groups.
  [[nodiscard]] Index rows() const { return rows_ * groups_; }
  [[nodiscard]] bool is_finite() const {
    return std::all_of(values_.begin(), values_.end(), [](float value) { return std::isfinite(value); });
  }
  [[nodiscard]] std::vector<BlasMatrix<float>> by_group() const {
    std::vector<BlasMatrix<float>> matrices;
    matrices.reserve(static_cast<std::size_t>(groups_));
    const Index terms = block_ / rows_ * taps_;
    for (Index group = 0; group < groups_; ++group)
      matrices.push_back({values_.data() + group * rows_ * terms, rows_, terms, rows_, false});
    return matrices;
  }

 private:
  Index groups_;
  Index rows_;   // of a group
  Index block_;  // values of one tap and group
  Index taps_;
  std::vector<float> values_;
};

}  // namespace orlop::inline v0::convolution_parts
