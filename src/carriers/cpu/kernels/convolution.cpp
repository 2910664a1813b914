// CPU conv_general and its adjoint sums.
#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "carriers/cpu/kernels/blas.hpp"
#include "carriers/cpu/kernels/convolution_field.hpp"
#include "carriers/cpu/kernels/convolution_taps.hpp"
#include "carriers/cpu/kernels/correlation.hpp"
#include "carriers/cpu/kernels/fibre.hpp"
#include "carriers/cpu/kernels/kernels.hpp"
#include "carriers/cpu/kernels/parts.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

namespace convolution_parts {

namespace {

void sum_results(const KernelCall& call, const Convolution& convolution) {
  const Field lhs(call.operands[0], convolution.roles[0]);
  std::vector<Window> windows = windows_of(convolution, window_over_lhs);
  auto* const result = reinterpret_cast<float*>(call.result);
  const Index groups = convolution.feature_groups;
  if (std::ranges::any_of(windows, [](const Window& window) { return window.divisor != 1; })) {
    const TapKernel kernel(call.operands[1], convolution.roles[1], groups, KernelUse::forth);
    // A hole adds its zero times the kernel: nothing, unless that is an infinity or NaN.
    if (kernel.is_finite()) return correlate(lhs, std::move(windows), kernel, result);
  }
  const KernelMatrix kernel(call.operands[1], convolution.roles[1]);
  correlate(lhs, std::move(windows), kernel.by_group(groups), result);
}

void sum_lhs_gradient(const KernelCall& call, const Convolution& convolution) {
  const TapKernel kernel(call.operands[1], convolution.roles[1], convolution.feature_groups, KernelUse::back);
  // A hole must add nothing: as a zero in the columns it does, unless it meets an infinity or NaN.
  if (!kernel.is_finite()) return reference_kernels().find("conv_general")(call);
  const Field cotangent(call.operands[0], convolution.roles[0]);
  correlate(cotangent, windows_of(convolution, window_over_result), kernel,
            reinterpret_cast<float*>(call.result));
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
    in_parts(static_cast<Index>(blocks.size()) * parts, work, [&](Index begin, Index end) {
      std::mutex mutex;
      std::map<Index, std::vector<float>> sums;  // of each range of tasks but the first
      parallel_for(end - begin, task_grain(work), [&](Index first, Index last) {
        std::vector<float> own(first == 0 ? 0
                                          : static_cast<std::size_t>(is_depthwise_ ? size : rows_ * size));
        float* const sum = first == 0 ? result : own.data();
        Workspace workspace(*this);
        for (Index task = begin + first; task < begin + last; ++task) {
          const Index entry = task % parts * together;
          const bool is_first = task == 0 || (first > 0 && task == begin + first);
          add_block(blocks[static_cast<std::size_t>(task / parts)],
                    {entry, std::min(entry + together, lhs_.batch())}, workspace, is_first, sum);
        }
        if (first == 0) return;
        const std::lock_guard lock(mutex);
        sums.emplace(first, std::move(own));
      });
      for (const auto& [first, sum] : sums)
        std::transform(sum.begin(), sum.end(), result, result, std::plus());
    });
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

}  // namespace convolution_parts

KernelList cpu_convolution_kernels() {
  static constexpr KernelEntry list[] = {{"conv_general", convolution_parts::conv_general}};
  return list;
}

}  // namespace orlop::inline v0
