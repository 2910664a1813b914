// Operands of a convolution in memory, and features-fastest copies of what a block needs of them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "carriers/cpu/kernels/blas.hpp"
#include "carriers/cpu/kernels/convolution_blocks.hpp"
#include "carriers/cpu/kernels/convolution_windows.hpp"
#include "carriers/cpu/kernels/scratch.hpp"
#include "operation/convolution.hpp"
#include "operation/modes.hpp"

namespace orlop::inline v0::convolution_parts {

// Floats in the buffers of one block: columns that stay in the second cache, copies of an operand and of
// products that may leave it.
inline constexpr Index most_columns = Index{1} << 18;
inline constexpr Index most_copied = Index{1} << 19;
// Entries that are copied together: a cache line where they are neighbours.
inline constexpr Index most_batch = 16;
// Between copies, lest they share the places of one cache set.
inline constexpr Index apart = 16;

/// An operand with batch, feature and spatial modes in memory. Element i of a feature-fastest copy of some of
/// it lies as the layout of the copy says.
class Field {
 public:
  Field(const KernelOperand& operand, std::span<const std::size_t> roles);
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  [[nodiscard]] Index batch() const { return static_cast<Index>(batch_.size()); }
  [[nodiscard]] Index features() const { return feature_leaves().size(); }
  [[nodiscard]] Leaves feature_leaves() const { return leaves_of_modes(layout_, 1, 2); }
  [[nodiscard]] Leaves spatial_leaves() const { return leaves_of_modes(layout_, 2, layout_.rank()); }
  [[nodiscard]] const float* entry(Index b) const { return data_ + batch_[static_cast<std::size_t>(b)]; }
  /// Neighbouring features are neighbours in memory.
  [[nodiscard]] bool is_feature_fastest() const;

  struct Copy {
    const float* data;
    Index entry_step;  ///< from one batch entry to the next
  };
  /// Copies a box of positions of some batch entries: features fastest, then the positions, then the entries.
  [[nodiscard]] Copy copy(const Range& entries, std::span<const Range> box, Scratch<float>& buffer) const;

  /// What lies under windows of one tap without holes, as a matrix with a row for each position: where BLAS
  /// can read it in place.
  [[nodiscard]] std::optional<BlasMatrix<float>> matrix(Index b, std::span<const Window> windows) const;

 private:
  Layout layout_;
  const float* data_;
  std::vector<Index> batch_;  // offset of every entry
  std::optional<Index> batch_step_;
};

/// The positions of a field as windows of one tap.
[[nodiscard]] std::vector<Window> every_position(const Field& field);

/// The images of some batch entries over the part of a field that a block needs: in place where its features
/// are neighbours, otherwise copied.
class Images {
 public:
  Images(const Field& field, std::span<const Window> windows);
  void load(const Block& block, const Range& entries);
  [[nodiscard]] bool is_in_place() const { return is_in_place_; }
  [[nodiscard]] Image image(Index entry) const {
    return {is_in_place_ ? field_.entry(entry) : copied(entry), steps_, firsts_};
  }
  /// The first value of an entry's copy.
  [[nodiscard]] const float* copied(Index entry) const {
    return copy_.data + (entry - first_entry_) * copy_.entry_step;
  }

 private:
  const Field& field_;
  std::span<const Window> windows_;
  bool is_in_place_;
  std::vector<Index> steps_, firsts_;
  Index first_entry_ = 0;
  Scratch<float> buffer_;
  Field::Copy copy_{nullptr, 0};
};

/// How many positions a block may have: what it copies of the field, and `products` more per position and
/// entry, fit a buffer, and every thread finds some blocks.
[[nodiscard]] Index block_positions(bool copies, const Field& field, std::span<const Window> windows,
                                    Index products);
/// How many tasks of `work` multiplications each make a range for one thread.
[[nodiscard]] Index task_grain(double work);

}  // namespace orlop::inline v0::convolution_parts
