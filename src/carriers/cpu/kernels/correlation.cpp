// Correlations: what lies under the windows is copied into columns, block by block, and BLAS multiplies them.
// Where the weights stay in a core's own caches, it is multiplied where it lies instead. Blocks write to
// different places and do not depend on each other.
#include "carriers/cpu/kernels/correlation.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "carriers/cpu/kernels/fibre.hpp"
#include "carriers/cpu/kernels/parts.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0::convolution_parts {

namespace {

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
    if (is_depthwise_)
      for (Index tap = 0; tap < windows_.taps(); ++tap)
        for (const BlasMatrix<float>& matrix : matrices_) weights_.push_back(*matrix.at(0, tap));
    else if (is_direct())
      copy_weights();
  }

  void run(float* result) const {
    const Index batch = field_.batch();
    const Index together = std::min(batch, most_batch);
    const Index parts = (batch - 1) / together + 1;
    const bool copies = !is_read_in_place_ && !field_.is_feature_fastest();
    const double position_work = static_cast<double>(rows_) * static_cast<double>(windows_.column_size()) *
                                 static_cast<double>(together);
    const std::vector<Block> blocks = blocks_of(
        windows_.modes(), std::min(block_positions(copies, field_, windows_.modes(), batch == 1 ? 1 : rows_),
                                   items_of(part_work, position_work)));
    const double work = position_work * static_cast<double>(blocks.front().count);
    in_parts(static_cast<Index>(blocks.size()) * parts, work, [&](Index begin, Index end) {
      parallel_for(end - begin, task_grain(work), [&](Index first, Index last) {
        Workspace workspace(*this);
        for (Index task = begin + first; task < begin + last; ++task) {
          const Index entry = task % parts * together;
          run_block(blocks[static_cast<std::size_t>(task / parts)],
                    {entry, std::min(entry + together, batch)}, workspace, result);
        }
      });
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
    if (!weights_.empty()) return multiply_windows(image, block, products);
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

  /// The same, reading what lies under the windows where it is.
  void multiply_windows(const Image& image, const Block& block, float* products) const {
    const Index taps = windows_.taps();
    const Index features = windows_.column_size() / taps;
    const Index at_once = fibre_kernels().products.columns_at_once;
    std::vector<const float*> runs(static_cast<std::size_t>(at_once * taps));
    for (std::size_t group = 0; group < matrices_.size(); ++group) {
      const BlasMatrix<float>& matrix = matrices_[group];
      const Weights weights{weights_.data() + static_cast<Index>(group) * matrix.terms * padded_rows(),
                            matrix.rows, padded_rows()};
      const Image own{image.data + static_cast<Index>(group) * features, image.steps, image.firsts};
      float* out = products + static_cast<Index>(group) * matrix.rows;
      ColumnRows rows(features, taps);
      Index filled = 0;
      windows_.for_each_column(own, block.first, block.count, rows, [&](Index column) {
        std::copy_n(rows.data(), taps, runs.data() + filled * taps);
        if (++filled < at_once && column + 1 < block.count) return;
        fibre_kernels().products.multiply_columns(out, rows_, weights, runs.data(), taps, features, filled);
        out += filled * rows_;
        filled = 0;
      });
    }
  }

  /// Whether windows are multiplied without copies of what lies under them.
  [[nodiscard]] bool is_direct() const {
    constexpr Index most_weights = Index{5} << 15;  // of a group: they stay in a core's own caches
    const BlasMatrix<float>& matrix = matrices_.front();
    // Few rows leave most of a register to zeros, which BLAS saves in long sums.
    const bool fills_registers = matrix.rows >= 6 || matrix.terms <= 64;
    return fibre_kernels().products.columns_at_once > 0 && !is_plain_ && fills_registers &&
           padded_rows() * matrix.terms <= most_weights;
  }
  [[nodiscard]] Index padded_rows() const {
    constexpr Index multiple = Weights::row_multiple;
    return (matrices_.front().rows + multiple - 1) / multiple * multiple;
  }

  void copy_weights() {
    constexpr Index bytes = sizeof(float);
    const Index size = padded_rows() * matrices_.front().terms;
    weights_.resize(static_cast<std::size_t>(groups() * size));
    float* to = weights_.data();
    for (const BlasMatrix<float>& matrix : matrices_) {
      const Plane plane{matrix.rows,
                        (matrix.is_transposed ? matrix.leading : 1) * bytes,
                        bytes,
                        matrix.terms,
                        matrix.term_step() * bytes,
                        padded_rows() * bytes};
      copy_plane(reinterpret_cast<const std::byte*>(matrix.data), reinterpret_cast<std::byte*>(to), plane,
                 bytes);
      to += size;
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
  std::vector<float> weights_;  // then: as the columns lie; or those of every group that is_direct
  bool is_plain_;               // one tap and no holes: a column is a position's features
  bool is_read_in_place_;       // and BLAS can read them where they are
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

/// The correlation of a kernel with a field: without the products of holes that a divisor makes, for
/// positions of one phase in every mode at a time.
class PhasedCorrelation {
 public:
  PhasedCorrelation(const Field& field, std::vector<Window> windows, const TapKernel& kernel)
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
      if (choice > 0) check_interrupts();
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
    const TapKernel kernel(kernel_, taps);
    Correlation(field_, std::move(windows), kernel.by_group()).run(part.data());
    copy_strided(part.bytes(), Layout::canonical(shape), reinterpret_cast<std::byte*>(result),
                 Layout(shape, Stride::flat(strides)), sizeof(float));
  }

  const Field& field_;
  std::vector<Window> windows_;
  const TapKernel& kernel_;
  Index column_;  // values at one position of the result
};

}  // namespace

bool is_depthwise(Index groups, Index in_features, Index out_features) {
  return groups > 1 && groups == in_features && groups == out_features;
}

void correlate(const Field& field, std::vector<Window> windows, std::vector<BlasMatrix<float>> matrices,
               float* result) {
  Correlation(field, std::move(windows), std::move(matrices)).run(result);
}

void correlate(const Field& field, std::vector<Window> windows, const TapKernel& kernel, float* result) {
  if (std::ranges::all_of(windows, [](const Window& window) { return window.divisor == 1; }))
    correlate(field, std::move(windows), kernel.by_group(), result);
  else
    PhasedCorrelation(field, std::move(windows), kernel).run(result);
}

}  // namespace orlop::inline v0::convolution_parts
