// CPU conv_general and its adjoint sums: what lies under the windows is copied into columns, block by block,
// and BLAS multiplies them. Blocks write to different places and do not depend on each other.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>

#include "carriers/cpu/kernels/blas.hpp"
#include "carriers/cpu/kernels/fibre.hpp"
#include "carriers/cpu/kernels/kernels.hpp"
#include "carriers/cpu/kernels/scratch.hpp"
#include "operation/convolution.hpp"
#include "operation/matrix.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/checked.hpp"
#include "orlop/base/parallel.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

// Floats in the buffers of one block: columns that stay in the second cache, copies of an operand and of
// products that may leave it.
constexpr Index most_columns = Index{1} << 18;
constexpr Index most_copied = Index{1} << 19;
constexpr Index most_batch = 16;  // entries that are copied together: a cache line where they are neighbours
constexpr Index apart = 16;       // between copies, lest they share the places of one cache set
// Multiplications worth a task of their own.
constexpr double least_work = 1 << 21;

/// Half-open.
struct Range {
  Index first, last;
  [[nodiscard]] Index size() const noexcept { return last - first; }
};

/// An operand with batch, feature and spatial modes in memory. Element i of a feature-fastest copy of some of
/// it lies as the layout of the copy says.
class Field {
 public:
  Field(const KernelOperand& operand, std::span<const std::size_t> roles)
      : layout_(operand.layout->select(roles)),
        data_(reinterpret_cast<const float*>(operand.data)),
        batch_(offsets_of(leaves_of_modes(layout_, 0, 1))) {
    const Leaves batch = leaves_of_modes(layout_, 0, 1);
    const std::array strides{batch.strides};
    const StridedLoop loop = coalesce_strides(batch.extents, strides);
    if (loop.rank() <= 1) batch_step_ = loop.step(0);
  }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  [[nodiscard]] Index batch() const { return static_cast<Index>(batch_.size()); }
  [[nodiscard]] Index features() const { return feature_leaves().size(); }
  [[nodiscard]] Leaves feature_leaves() const { return leaves_of_modes(layout_, 1, 2); }
  [[nodiscard]] Leaves spatial_leaves() const { return leaves_of_modes(layout_, 2, layout_.rank()); }
  [[nodiscard]] const float* entry(Index b) const { return data_ + batch_[static_cast<std::size_t>(b)]; }
  /// Neighbouring features are neighbours in memory.
  [[nodiscard]] bool is_feature_fastest() const {
    const Leaves features = feature_leaves();
    const std::array strides{features.strides};
    const StridedLoop loop = coalesce_strides(features.extents, strides);
    return loop.is_contiguous(0);
  }

  struct Copy {
    const float* data;
    Index entry_step;  ///< from one batch entry to the next
  };
  /// Copies a box of positions of some batch entries: features fastest, then the positions, then the entries.
  Copy copy(const Range& entries, std::span<const Range> box, Scratch<float>& buffer) const {
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

  /// What lies under windows of one tap without holes, as a matrix with a row for each position: where BLAS
  /// can read it in place.
  [[nodiscard]] std::optional<BlasMatrix<float>> matrix(Index b, std::span<const Window> windows) const {
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

 private:
  Layout layout_;
  const float* data_;
  std::vector<Index> batch_;  // offset of every entry
  std::optional<Index> batch_step_;
};

/// Features-fastest values of one batch entry: position p of spatial mode i lies `(p - firsts[i]) * steps[i]`
/// further.
struct Image {
  const float* data;
  std::span<const Index> steps;
  std::span<const Index> firsts;
};

/// Columns one after the other.
struct ColumnCopies {
  float* out;
  void zeros(Index count) { out = std::fill_n(out, count, 0.0F); }
  void values(const float* from, Index count) {
    std::memcpy(out, from, static_cast<std::size_t>(count) * sizeof(float));
    out += count;
  }
};

/// Where the features under each tap of one column are.
class ColumnRows {
 public:
  ColumnRows(Index features, Index taps)
      : features_(features),
        zeros_(static_cast<std::size_t>(features)),
        rows_(static_cast<std::size_t>(taps)) {}
  void zeros(Index count) {
    for (; count > 0; count -= features_) add(zeros_.data());
  }
  void values(const float* from, Index count) {
    for (; count > 0; count -= features_, from += features_) add(from);
  }
  [[nodiscard]] const float* const* data() const { return rows_.data(); }

 private:
  void add(const float* row) {
    rows_[next_] = row;
    if (++next_ == rows_.size()) next_ = 0;
  }
  Index features_;
  std::vector<float> zeros_;
  std::vector<const float*> rows_;
  std::size_t next_ = 0;
};

/// The windows over one image: what lies under each as a column, in features fastest, then taps.
class Windows {
 public:
  Windows(std::vector<Window> windows, Index features) : windows_(std::move(windows)), features_(features) {
    for (std::size_t mode = 0; mode < windows_.size(); ++mode)
      if (windows_[mode].positions > 1 || windows_[mode].taps > 1) moving_.push_back(mode);
  }

  [[nodiscard]] std::span<const Window> modes() const { return windows_; }
  [[nodiscard]] Index taps() const {
    Index taps = 1;
    for (const Window& window : windows_) taps *= window.taps;
    return taps;
  }
  [[nodiscard]] Index column_size() const { return features_ * taps(); }

  /// Writes the columns of the positions `first` … `first + count - 1`.
  void fill(const Image& image, Index first, Index count, float* columns) const {
    ColumnCopies copies{columns};
    for_each_column(image, first, count, copies, [](Index) {});
  }
  /// Gives each of these columns to `target`, then calls `body(column)`.
  template <class Target, class Body>
  void for_each_column(const Image& image, Index first, Index count, Target& target, Body body) const {
    const Columns columns(*this, image);
    std::vector<Index> at(moving_.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      const Index positions = windows_[moving_[i]].positions;
      at[i] = first % positions;
      first /= positions;
    }
    for (Index column = 0; column < count; ++column) {
      columns.write(at, target);
      body(column);
      for (std::size_t i = 0; i < at.size() && ++at[i] == windows_[moving_[i]].positions; ++i) at[i] = 0;
    }
  }

 private:
  /// The columns over one image.
  class Columns {
   public:
    Columns(const Windows& windows, const Image& image) : data_(image.data), features_(windows.features_) {
      Index size = features_;
      for (std::size_t mode = 0, next = 0; mode < windows.windows_.size(); ++mode) {
        const Window& window = windows.windows_[mode];
        if (next < windows.moving_.size() && windows.moving_[next] == mode) {
          modes_.push_back({window, image.steps[mode], image.firsts[mode], size});
          size *= window.taps;
          ++next;
        } else if (window(0, 0) == Window::hole) {
          is_hole_ = true;
        } else {
          data_ += (window(0, 0) - image.firsts[mode]) * image.steps[mode];
        }
      }
      size_ = size;
    }
    template <class Target>
    void write(std::span<const Index> at, Target& target) const {
      if (is_hole_)
        target.zeros(size_);
      else
        write(data_, at, target);
    }

   private:
    struct Mode {
      Window window;
      Index step, first;
      Index size;  // of what lies under one tap
    };
    /// What lies under all taps of the modes that `at` speaks of.
    template <class Target>
    void write(const float* from, std::span<const Index> at, Target& target) const {
      if (at.empty()) return target.values(from, features_);
      const Mode& mode = modes_[at.size() - 1];
      const Window& window = mode.window;
      if (at.size() == 1 && window.divisor == 1 && window.tap_step == 1 && mode.step == features_)
        return write_neighbours(from, at[0] * window.step + window.origin, mode, target);
      for (Index tap = 0; tap < window.taps; ++tap) {
        const Index source = window(at.back(), tap);
        if (source == Window::hole)
          target.zeros(mode.size);
        else
          write(from + (source - mode.first) * mode.step, at.first(at.size() - 1), target);
      }
    }
    /// The taps lie over neighbouring positions from `start` on.
    template <class Target>
    void write_neighbours(const float* from, Index start, const Mode& mode, Target& target) const {
      const Index before = std::clamp(-start, Index{0}, mode.window.taps);
      const Index after = std::clamp(mode.window.source - start, before, mode.window.taps);
      target.zeros(before * features_);
      if (before < after)
        target.values(from + (start + before - mode.first) * features_, (after - before) * features_);
      target.zeros((mode.window.taps - after) * features_);
    }

    const float* data_;
    Index features_;
    Index size_ = 0;
    bool is_hole_ = false;
    std::vector<Mode> modes_;
  };

  std::vector<Window> windows_;
  std::vector<std::size_t> moving_;  // modes with more than one position or tap
  Index features_;
};

/// Neighbouring positions that make a box: all of the first modes, some of one, one of each further.
struct Block {
  Index first, count;
  std::vector<Range> box;
};

/// Blocks of at most about `most` positions that make up all of them.
std::vector<Block> blocks_of(std::span<const Window> windows, Index most) {
  std::vector<Block> blocks;
  Block block{0, 1, {}};
  std::size_t cut = 0;
  for (; cut < windows.size() && block.count * windows[cut].positions <= most; ++cut) {
    block.count *= windows[cut].positions;
    block.box.push_back({0, windows[cut].positions});
  }
  const Index whole = block.count;
  const Index length = cut < windows.size() ? std::max<Index>(most / whole, 1) : 1;
  Index total = 1;
  for (const Window& window : windows) total *= window.positions;
  block.box.resize(windows.size());
  while (block.first < total) {
    Index rest = block.first / whole;
    for (std::size_t mode = cut; mode < windows.size(); ++mode) {
      const Index at = rest % windows[mode].positions;
      rest /= windows[mode].positions;
      block.box[mode] = {at, mode == cut ? std::min(at + length, windows[mode].positions) : at + 1};
    }
    block.count = whole * (cut < windows.size() ? block.box[cut].size() : 1);
    blocks.push_back(block);
    block.first += block.count;
  }
  return blocks;
}

/// The source positions that the windows of a block reach, holes left out.
std::vector<Range> reached(std::span<const Window> windows, std::span<const Range> box) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    const Index from = box[i].first * window.step + window.origin;
    const Index to = (box[i].last - 1) * window.step + window.origin + (window.taps - 1) * window.tap_step;
    const Index first = from <= 0 ? 0 : (from - 1) / window.divisor + 1;
    const Index last = to < 0 ? 0 : std::min(to / window.divisor + 1, window.source);
    ranges.push_back({std::min(first, last), last});
  }
  return ranges;
}

/// The positions of a field as windows of one tap.
std::vector<Window> every_position(const Field& field) {
  std::vector<Window> windows;
  for (const Index extent : field.spatial_leaves().extents)
    windows.push_back({extent, 1, 1, 1, 0, 1, extent});
  return windows;
}

/// The images of some batch entries over the part of a field that a block needs: in place where its features
/// are neighbours, otherwise copied.
class Images {
 public:
  Images(const Field& field, std::span<const Window> windows)
      : field_(field), windows_(windows), is_in_place_(field.is_feature_fastest()) {
    const auto strides = field.spatial_leaves().strides;
    steps_.assign(strides.begin(), strides.end());
    firsts_.assign(steps_.size(), 0);
  }
  void load(const Block& block, const Range& entries) {
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

/// How many tasks of `work` multiplications each make a range for one thread.
Index task_grain(double work) { return static_cast<Index>(std::clamp(least_work / work, 1.0, 0x1p40)); }

/// Whether every feature makes one feature on its own (depthwise): then what lies under a window is weighed
/// without BLAS, all features side by side, as matrices of one row gain nothing from it.
bool is_depthwise(Index groups, Index in_features, Index out_features) {
  return groups > 1 && groups == in_features && groups == out_features;
}

/// result[b, o, p] = Σ matrix[o, k] · column[b, p][k] group by group, for all windows over a field.
class Correlation {
 public:
  /// `matrices[group]` has the rows o and the terms k.
  Correlation(const Field& field, std::vector<Window> windows, std::vector<BlasMatrix<float>> matrices)
      : field_(field),
        matrices_(std::move(matrices)),
        rows_(matrices_.front().rows * groups()),
        is_depthwise_(is_depthwise(groups(), field.features(), rows_)),
        windows_(std::move(windows), is_depthwise_ ? rows_ : field.features() / groups()),
        is_plain_(std::all_of(windows_.modes().begin(), windows_.modes().end(),
                              [](const Window& window) {
                                return window.taps == 1 && window.divisor == 1 && window.origin >= 0 &&
                                       (window.positions - 1) * window.step + window.origin < window.source;
                              })),
        is_read_in_place_(is_plain_ && field.matrix(0, windows_.modes()).has_value()) {
    if (!is_depthwise_) return;
    for (Index tap = 0; tap < windows_.taps(); ++tap)
      for (const BlasMatrix<float>& matrix : matrices_) weights_.push_back(*matrix.at(0, tap));
  }

  void run(float* result) const {
    const Index batch = field_.batch();
    const Index together = std::min(batch, most_batch);
    const Index parts = (batch - 1) / together + 1;
    const bool copies = !is_read_in_place_ && !field_.is_feature_fastest();
    const std::vector<Block> blocks = blocks_of(
        windows_.modes(), block_positions(copies, field_, windows_.modes(), batch == 1 ? 1 : rows_));
    const double work = static_cast<double>(rows_) * static_cast<double>(windows_.column_size()) *
                        static_cast<double>(together) * static_cast<double>(blocks.front().count);
    parallel_for(static_cast<Index>(blocks.size()) * parts, task_grain(work), [&](Index first, Index last) {
      Workspace workspace(*this);
      for (Index task = first; task < last; ++task) {
        const Index entry = task % parts * together;
        run_block(blocks[static_cast<std::size_t>(task / parts)], {entry, std::min(entry + together, batch)},
                  workspace, result);
      }
    });
  }

 private:
  [[nodiscard]] Index groups() const { return static_cast<Index>(matrices_.size()); }

  struct Workspace {
    explicit Workspace(const Correlation& of) : images(of.field_, of.windows_.modes()) {}
    Images images;
    Scratch<float> columns, products;
  };

  void run_block(const Block& block, const Range& entries, Workspace& workspace, float* result) const {
    const Index batch = field_.batch();
    if (!is_read_in_place_) workspace.images.load(block, entries);
    float* const target = result + entries.first + batch * rows_ * block.first;
    if (batch == 1) return multiply_columns(0, block, workspace, target);
    const Index step = rows_ * block.count + apart;
    float* const parts = workspace.products.reserve(step * entries.size());
    for (Index b = entries.first; b < entries.last; ++b)
      multiply_columns(b, block, workspace, parts + (b - entries.first) * step);
    const Shape shape = Shape::flat(std::array{entries.size(), rows_, block.count});
    copy_strided(reinterpret_cast<const std::byte*>(parts),
                 Layout(shape, Stride::flat(std::array{step, Index{1}, rows_})),
                 reinterpret_cast<std::byte*>(target),
                 Layout(shape, Stride::flat(std::array{Index{1}, batch, batch * rows_})), sizeof(float));
  }

  /// products[o + rows · p] for the positions of a block.
  void multiply_columns(Index entry, const Block& block, Workspace& workspace, float* products) const {
    if (const auto all = ready_columns(entry, block, workspace.images)) {
      Index row = 0, term = 0;
      for (const BlasMatrix<float>& matrix : matrices_) {
        multiply(matrix, {all->at(0, term), all->rows, matrix.terms, all->leading, all->is_transposed}, 0.0F,
                 products + row, rows_);
        row += matrix.rows;
        term += matrix.terms;
      }
      return;
    }
    const Image image = workspace.images.image(entry);
    if (is_depthwise_) {
      ColumnRows rows(rows_, windows_.taps());
      windows_.for_each_column(image, block.first, block.count, rows, [&](Index column) {
        fibre_kernels().products.weigh_rows(products + column * rows_, rows.data(), weights_.data(),
                                            windows_.taps(), rows_);
      });
      return;
    }
    const Index size = windows_.column_size();
    const Index most = std::clamp<Index>(most_columns / size, 1, block.count);
    float* const columns = workspace.columns.reserve(size * most);
    Index row = 0;
    const float* features = image.data;
    for (const BlasMatrix<float>& matrix : matrices_) {
      for (Index i = 0; i < block.count; i += most) {
        const Index count = std::min(most, block.count - i);
        windows_.fill({features, image.steps, image.firsts}, block.first + i, count, columns);
        multiply(matrix, {columns, count, size, size, true}, 0.0F, products + row + rows_ * i, rows_);
      }
      row += matrix.rows;
      features += size / windows_.taps();
    }
  }

  /// The columns of a block with the features of all groups, where they lie ready.
  [[nodiscard]] std::optional<BlasMatrix<float>> ready_columns(Index entry, const Block& block,
                                                               const Images& images) const {
    if (is_read_in_place_) return field_.matrix(entry, windows_.modes())->some_rows(block.first, block.count);
    const bool is_dense = std::all_of(windows_.modes().begin(), windows_.modes().end(),
                                      [](const Window& window) { return window.step == 1; });
    if (!is_plain_ || !is_dense || images.is_in_place()) return std::nullopt;
    return BlasMatrix<float>{images.copied(entry), block.count, field_.features(), field_.features(), true};
  }

  const Field& field_;
  std::vector<BlasMatrix<float>> matrices_;
  Index rows_;  // of all groups
  bool is_depthwise_;
  Windows windows_;             // over the features of one group, or over all of them where each makes one
  std::vector<float> weights_;  // then: as the columns lie
  bool is_plain_;               // one tap and no holes: a column is a position's features
  bool is_read_in_place_;       // and BLAS can read them where they are
};

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

void sum_results(const KernelCall& call, const Convolution& convolution) {
  const Field lhs(call.operands[0], convolution.roles[0]);
  const KernelMatrix kernel(call.operands[1], convolution.roles[1]);
  Correlation(lhs, windows_of(convolution, window_over_lhs), kernel.by_group(convolution.feature_groups))
      .run(reinterpret_cast<float*>(call.result));
}

/// The kernel with its in features as rows, and out features and taps as terms, the last tap first.
class TurnedKernel {
 public:
  TurnedKernel(const KernelOperand& operand, std::span<const std::size_t> roles, Index groups)
      : groups_(groups) {
    std::vector<std::size_t> modes(roles.begin(), roles.end());
    std::swap(modes[0], modes[1]);
    const Layout layout = operand.layout->select(modes);
    in_ = leaves_of_modes(layout, 0, 1).size();
    const Index out = leaves_of_modes(layout, 1, 2).size();
    block_ = in_ * (out / groups);
    taps_ = layout.size() / (in_ * out);
    std::vector<float> kernel(static_cast<std::size_t>(layout.size()));
    copy_strided(operand.data, layout, reinterpret_cast<std::byte*>(kernel.data()),
                 Layout::canonical(layout.shape()), sizeof(float));
    turned_.resize(kernel.size());
    for (Index tap = 0; tap < taps_; ++tap)
      for (Index group = 0; group < groups; ++group)
        std::copy_n(kernel.data() + (tap * groups + group) * block_, block_,
                    turned_.data() + (group * taps_ + taps_ - 1 - tap) * block_);
  }
  /// Only these taps of another one.
  TurnedKernel(const TurnedKernel& whole, std::span<const Index> taps)
      : groups_(whole.groups_), in_(whole.in_), block_(whole.block_), taps_(static_cast<Index>(taps.size())) {
    for (Index group = 0; group < groups_; ++group)
      for (const Index tap : taps) {
        const float* const block = whole.turned_.data() + (group * whole.taps_ + tap) * block_;
        turned_.insert(turned_.end(), block, block + block_);
      }
  }
  /// Of all groups.
  [[nodiscard]] Index rows() const { return in_ * groups_; }
  [[nodiscard]] bool is_finite() const {
    return std::all_of(turned_.begin(), turned_.end(), [](float value) { return std::isfinite(value); });
  }
  [[nodiscard]] std::vector<BlasMatrix<float>> by_group() const {
    std::vector<BlasMatrix<float>> matrices;
    matrices.reserve(static_cast<std::size_t>(groups_));
    const Index terms = block_ / in_ * taps_;
    for (Index group = 0; group < groups_; ++group)
      matrices.push_back({turned_.data() + group * in_ * terms, in_, terms, in_, false});
    return matrices;
  }

 private:
  Index groups_, in_;
  Index block_;  // values of one tap and group
  Index taps_;
  std::vector<float> turned_;
};

/// Every `period`-th position of a window from `first` on, where every `tap_period`-th tap from `first_tap`
/// on, and no other one, may lie over a position of the source.
struct Phase {
  Index first, period;
  Index first_tap, tap_period;
  Window window;  ///< over these positions and taps alone, divisor 1
};

/// The phases of a window. Positions of none have nothing but holes.
std::vector<Phase> phases_of(const Window& window) {
  const Index common = std::gcd(window.step, window.divisor);
  const Index tap_common = std::gcd(window.tap_step, window.divisor);
  const Index period = std::min(window.divisor / common, window.positions);
  const Index tap_period = std::min(window.divisor / tap_common, window.taps);
  std::vector<Phase> phases;
  for (Index tap = 0; tap < tap_period; ++tap)
    for (Index first = 0; first < period; ++first) {
      const Index at = first * window.step + window.origin + tap * window.tap_step;
      if (at % window.divisor != 0) continue;
      phases.push_back(
          {first,
           period,
           tap,
           tap_period,
           {(window.positions - 1 - first) / period + 1, (window.taps - 1 - tap) / tap_period + 1,
            window.step / common, window.tap_step / tap_common, at / window.divisor, 1, window.source}});
      break;
    }
  return phases;
}

/// The correlation of a turned kernel with a field: without the products of holes that a divisor makes, for
/// positions of one phase in every mode at a time.
class PhasedCorrelation {
 public:
  PhasedCorrelation(const Field& field, std::vector<Window> windows, const TurnedKernel& kernel)
      : field_(field),
        windows_(std::move(windows)),
        kernel_(kernel),
        column_(field.batch() * kernel.rows()) {}

  void run(float* result) const {
    std::vector<std::vector<Phase>> choices;
    Index count = 1;
    Index positions = 1;
    Index reached = 1;  // of these
    for (const Window& window : windows_) {
      choices.push_back(phases_of(window));
      count *= static_cast<Index>(choices.back().size());
      Index here = 0;
      for (const Phase& phase : choices.back()) here += phase.window.positions;
      reached *= here;
      positions *= window.positions;
    }
    if (reached < positions) std::fill_n(result, positions * column_, 0.0F);
    for (Index choice = 0; choice < count; ++choice) {
      std::vector<Phase> phases;
      Index rest = choice;
      for (const std::vector<Phase>& some : choices) {
        const auto among = static_cast<Index>(some.size());
        phases.push_back(some[static_cast<std::size_t>(rest % among)]);
        rest /= among;
      }
      run_phase(phases, result);
    }
  }

 private:
  void run_phase(std::span<const Phase> phases, float* result) const {
    std::vector<Window> windows;
    std::vector<Index> extents{column_}, strides{1}, taps{0};
    Index step = column_;
    Index tap_step = 1;
    for (std::size_t mode = 0; mode < phases.size(); ++mode) {
      const Phase& phase = phases[mode];
      windows.push_back(phase.window);
      extents.push_back(phase.window.positions);
      strides.push_back(step * phase.period);
      result += step * phase.first;
      step *= windows_[mode].positions;
      std::vector<Index> more;
      for (Index tap = 0; tap < phase.window.taps; ++tap)
        for (const Index inner : taps)
          more.push_back(inner + (phase.first_tap + tap * phase.tap_period) * tap_step);
      taps = std::move(more);
      tap_step *= windows_[mode].taps;
    }
    const Shape shape = Shape::flat(extents);
    const Scratch<float> part(shape.size());
    const TurnedKernel kernel(kernel_, taps);
    Correlation(field_, std::move(windows), kernel.by_group()).run(part.data());
    copy_strided(part.bytes(), Layout::canonical(shape), reinterpret_cast<std::byte*>(result),
                 Layout(shape, Stride::flat(strides)), sizeof(float));
  }

  const Field& field_;
  std::vector<Window> windows_;
  const TurnedKernel& kernel_;
  Index column_;  // values at one position of the result
};

void sum_lhs_gradient(const KernelCall& call, const Convolution& convolution) {
  const TurnedKernel kernel(call.operands[1], convolution.roles[1], convolution.feature_groups);
  // A hole must add nothing: as a zero in the columns it does, unless it meets an infinity or NaN.
  if (!kernel.is_finite()) return reference_kernels().find("conv_general")(call);
  const Field cotangent(call.operands[0], convolution.roles[0]);
  std::vector<Window> windows = windows_of(convolution, window_over_result);
  auto* const result = reinterpret_cast<float*>(call.result);
  if (std::ranges::all_of(windows, [](const Window& window) { return window.divisor == 1; }))
    Correlation(cotangent, std::move(windows), kernel.by_group()).run(result);
  else
    PhasedCorrelation(cotangent, std::move(windows), kernel).run(result);
}

/// result[o, k] = Σ cotangent[b, o, p] · column[b, p][k].
class KernelGradient {
 public:
  KernelGradient(const KernelCall& call, const Convolution& convolution)
      : lhs_(call.operands[0], convolution.roles[0]),
        cotangent_(call.operands[1], convolution.roles[1]),
        rows_(cotangent_.features()),
        is_depthwise_(is_depthwise(convolution.feature_groups, lhs_.features(), rows_)),
        groups_(is_depthwise_ ? 1 : convolution.feature_groups),
        windows_(windows_of(convolution, window_over_lhs), lhs_.features() / groups_),
        places_(every_position(cotangent_)) {}

  void run(float* result) const {
    const Index size = windows_.column_size();
    const Index together = std::min(lhs_.batch(), most_batch);
    const Index parts = (lhs_.batch() - 1) / together + 1;
    const Index most = std::min(block_positions(!lhs_.is_feature_fastest(), lhs_, windows_.modes(), rows_),
                                std::max<Index>(most_columns / size, 1));
    const std::vector<Block> blocks = blocks_of(windows_.modes(), most);
    const double work = static_cast<double>(rows_) * static_cast<double>(size) *
                        static_cast<double>(together) * static_cast<double>(blocks.front().count);
    std::mutex mutex;
    std::map<Index, std::vector<float>> sums;  // of each range of tasks but the first
    parallel_for(static_cast<Index>(blocks.size()) * parts, task_grain(work), [&](Index first, Index last) {
      std::vector<float> own(first == 0 ? 0 : static_cast<std::size_t>(is_depthwise_ ? size : rows_ * size));
      float* const sum = first == 0 ? result : own.data();
      Workspace workspace(*this);
      for (Index task = first; task < last; ++task) {
        const Index entry = task % parts * together;
        add_block(blocks[static_cast<std::size_t>(task / parts)],
                  {entry, std::min(entry + together, lhs_.batch())}, workspace, task == first, sum);
      }
      if (first == 0) return;
      const std::lock_guard lock(mutex);
      sums.emplace(first, std::move(own));
    });
    for (const auto& [first, sum] : sums) std::transform(sum.begin(), sum.end(), result, result, std::plus());
  }

 private:
  struct Workspace {
    explicit Workspace(const KernelGradient& of) : images(of.lhs_, of.windows_.modes()) {}
    Images images;
    Scratch<float> columns, cotangent;
  };

  void add_block(const Block& block, const Range& entries, Workspace& workspace, bool is_first,
                 float* sum) const {
    const Index size = windows_.column_size();
    workspace.images.load(block, entries);
    const Field::Copy copy = cotangent_.copy(entries, reached(places_, block.box), workspace.cotangent);
    float* const columns = is_depthwise_ ? nullptr : workspace.columns.reserve(size * block.count);
    for (Index b = entries.first; b < entries.last; ++b) {
      const Image image = workspace.images.image(b);
      const BlasMatrix<float> g{copy.data + (b - entries.first) * copy.entry_step, rows_, block.count, rows_,
                                false};
      if (is_depthwise_) {
        if (is_first && b == entries.first) std::fill_n(sum, size, 0.0F);
        ColumnRows rows(rows_, windows_.taps());
        windows_.for_each_column(image, block.first, block.count, rows, [&](Index column) {
          for (Index tap = 0; tap < windows_.taps(); ++tap)
            fibre_kernels().products.add_products(sum + tap * rows_, rows.data()[tap], g.at(0, column),
                                                  rows_);
        });
        continue;
      }
      const Index group_rows = rows_ / groups_;
      for (Index group = 0; group < groups_; ++group) {
        windows_.fill({image.data + group * (lhs_.features() / groups_), image.steps, image.firsts},
                      block.first, block.count, columns);
        multiply(g.some_rows(group * group_rows, group_rows), {columns, size, block.count, size, false},
                 is_first && b == entries.first ? 0.0F : 1.0F, sum + group * group_rows, rows_);
      }
    }
  }

  Field lhs_, cotangent_;
  Index rows_;
  bool is_depthwise_;
  Index groups_;  // that are multiplied one by one
  Windows windows_;
  std::vector<Window> places_;
};

void sum_kernel_gradient(const KernelCall& call, const Convolution& convolution) {
  KernelGradient(call, convolution).run(reinterpret_cast<float*>(call.result));
}

void conv_general(const KernelCall& call) {
  use_one_blas_thread();
  const Convolution& convolution = *call.parameters.convolution;
  switch (convolution.sum) {
    case ConvolutionSum::result:
      return sum_results(call, convolution);
    case ConvolutionSum::lhs_gradient:
      return sum_lhs_gradient(call, convolution);
    case ConvolutionSum::kernel_gradient:
      return sum_kernel_gradient(call, convolution);
  }
}

}  // namespace

KernelList cpu_convolution_kernels() {
  static constexpr KernelEntry list[] = {{"conv_general", conv_general}};
  return list;
}

}  // namespace orlop::inline v0
