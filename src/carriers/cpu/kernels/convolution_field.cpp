// Copying what a block of a convolution needs of an operand.
#include "carriers/cpu/kernels/convolution_field.hpp"

#include <algorithm>
#include <array>

#include "operation/matrix.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/checked.hpp"
#include "orlop/base/parallel.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0::convolution_parts {

Field::Field(const KernelOperand& operand, std::span<const std::size_t> roles)
    : layout_(operand.layout->select(roles)),
      data_(reinterpret_cast<const float*>(operand.data)),
      batch_(offsets_of(leaves_of_modes(layout_, 0, 1))) {
  const Leaves batch = leaves_of_modes(layout_, 0, 1);
  const std::array strides{batch.strides};
  const StridedLoop loop = coalesce_strides(batch.extents, strides);
  if (loop.rank() <= 1) batch_step_ = loop.step(0);
}

bool Field::is_feature_fastest() const {
  const Leaves features = feature_leaves();
  const std::array strides{features.strides};
  const StridedLoop loop = coalesce_strides(features.extents, strides);
  return loop.is_contiguous(0);
}

Field::Copy Field::copy(const Range& entries, std::span<const Range> box, Scratch<float>& buffer) const {
  const Leaves features = feature_leaves();
  const Leaves spatial = spatial_leaves();
  std::vector<Index> extents(features.extents.begin(), features.extents.end());
  std::vector<Index> strides(features.strides.begin(), features.strides.end());
  Index offset = 0;
  for (std::size_t i = 0; i < box.size(); ++i) {
    if (box[i].size() == 0) return {buffer.reserve(1), 0};  // nothing but holes
    extents.push_back(box[i].size());
    strides.push_back(spatial.strides[i]);
    offset += box[i].first * strides.back();
  }
  const Layout entry_target = Layout::canonical(Shape::flat(extents));
  const Index step = checked_add(entry_target.size(), apart, "conv_general");
  float* const copied = buffer.reserve(checked_multiply(step, entries.size(), "conv_general"));
  std::vector<Index> target_strides(entry_target.strides().begin(), entry_target.strides().end());
  extents.push_back(batch_step_ ? entries.size() : 1);
  strides.push_back(batch_step_.value_or(0));
  target_strides.push_back(step);
  const Shape shape = Shape::flat(extents);
  const Layout source(shape, Stride::flat(strides));
  const Layout target(shape, Stride::flat(target_strides));
  for (Index i = 0; i < entries.size(); i += extents.back())
    copy_strided(reinterpret_cast<const std::byte*>(entry(entries.first + i) + offset), source,
                 reinterpret_cast<std::byte*>(copied + i * step), target, sizeof(float));
  return {copied, step};
}

std::optional<BlasMatrix<float>> Field::matrix(Index b, std::span<const Window> windows) const {
  const Leaves spatial = spatial_leaves();
  std::vector<Index> extents, strides;
  const float* data = entry(b);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    extents.push_back(windows[i].positions);
    strides.push_back(windows[i].step * spatial.strides[i]);
    data += windows[i].origin * spatial.strides[i];
  }
  return blas_matrix(reinterpret_cast<const std::byte*>(data), {extents, strides}, feature_leaves());
}

std::vector<Window> every_position(const Field& field) {
  std::vector<Window> windows;
  for (const Index extent : field.spatial_leaves().extents)
    windows.push_back({extent, 1, 1, 1, 0, 1, extent});
  return windows;
}

Images::Images(const Field& field, std::span<const Window> windows)
    : field_(field), windows_(windows), is_in_place_(field.is_feature_fastest()) {
  const auto strides = field.spatial_leaves().strides;
  steps_.assign(strides.begin(), strides.end());
  firsts_.assign(steps_.size(), 0);
}

void Images::load(const Block& block, const Range& entries) {
  first_entry_ = entries.first;
  if (is_in_place_) return;
  const std::vector<Range> box = reached(windows_, block.box);
  copy_ = field_.copy(entries, box, buffer_);
  Index size = field_.features();
  for (std::size_t i = 0; i < box.size(); ++i) {
    steps_[i] = size;
    firsts_[i] = box[i].first;
    size *= box[i].size();
  }
}

Index block_positions(bool copies, const Field& field, std::span<const Window> windows, Index products) {
  const Index together = std::min(field.batch(), most_batch);
  double each = static_cast<double>(products);
  const Index batches = (field.batch() - 1) / together + 1;
  double total = static_cast<double>(batches);
  double copied = static_cast<double>(field.features());
  for (const Window& window : windows) {
    total *= static_cast<double>(window.positions);
    copied *= std::max(1.0, static_cast<double>(window.step) / static_cast<double>(window.divisor));
  }
  if (copies) each = std::max(each, copied);
  constexpr double blocks_per_thread = 4;
  constexpr double least = 64;
  double most = static_cast<double>(most_copied) / (each * static_cast<double>(together));
  if (const Index threads = thread_count(); threads > 1)
    most = std::min(most, std::max(least, total / (blocks_per_thread * static_cast<double>(threads))));
  return static_cast<Index>(std::clamp(most, 1.0, static_cast<double>(most_copied)));
}

Index task_grain(double work) {
  constexpr double least_work = 1 << 21;  // multiplications worth a task of their own
  return static_cast<Index>(std::clamp(least_work / work, 1.0, 0x1p40));
}

}  // namespace orlop::inline v0::convolution_parts
