// Elementwise kernels write consecutive slots: a window is cut into blocks that are consecutive in the
// result, or else small enough to be computed aside and copied while they are in the caches.
#include "carriers/tiled_evictable/kernel_steps.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "operation/kept_sums.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/parallel.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::size_t max_operands = 2;
constexpr Index shortest_run = 4096;     // elements that are worth a call of the kernel
constexpr Index block_elements = 16384;  // computed aside

/// The piece as a loop nest of the result and its operands, and how it is cut into blocks: some whole modes
/// and a part of the next.
class Blocks {
 public:
  Blocks(Kernel kernel, const OperationPlan& plan, std::span<const KernelOperand> operands,
         const Window& window, std::byte* result)
      : kernel_(kernel), plan_(plan), operands_(operands), window_(window), result_(result) {
    std::array<const Layout*, 1 + max_operands> layouts{&window.layout};
    for (std::size_t i = 0; i < operands.size(); ++i) layouts[1 + i] = operands[i].layout;
    loop_ = coalesce_together(window.layout.extents(), std::span(layouts).first(1 + operands.size()));
    while (whole_ < loop_.rank() && loop_.stride(whole_, 0) == size_) size_ *= loop_.extents[whole_++];
    is_aside_ = whole_ < loop_.rank() && size_ < shortest_run;
    if (is_aside_) {
      while (whole_ < loop_.rank() && size_ * loop_.extents[whole_] <= block_elements)
        size_ *= loop_.extents[whole_++];
      if (whole_ < loop_.rank()) part_ = std::clamp(block_elements / size_, Index{1}, loop_.extents[whole_]);
    }
    full_ = forms_of(part_);
    const Index rest = whole_ < loop_.rank() ? loop_.extents[whole_] % part_ : 0;
    last_ = rest == 0 ? full_ : forms_of(rest);
  }

  void compute() const {
    const Index parts = whole_ == loop_.rank() ? 1 : (loop_.extents[whole_] - 1) / part_ + 1;
    Index count = parts;
    for (std::size_t mode = whole_ + 1; mode < loop_.rank(); ++mode) count *= loop_.extents[mode];
    const auto range = [&](Index first, Index last) {
      std::unique_ptr<std::byte[]> aside;
      if (is_aside_)
        aside = std::make_unique_for_overwrite<std::byte[]>(
            static_cast<std::size_t>(size_ * part_ * plan_.output.slot_bytes()));
      for (; first < last; ++first) compute_block(first % parts, first / parts, aside.get());
    };
    // Long blocks are shared by the threads one after the other.
    if (count == 1 || size_ >= 8 * parallel_grain)
      range(0, count);
    else
      parallel_for(count, std::max(parallel_grain / (size_ * part_), Index{1}), range);
  }

 private:
  /// The layouts of a block in the result and in the operands, and that of its elements alone.
  struct Forms {
    std::array<Layout, 1 + max_operands> layouts;
    Layout consecutive;
  };

  [[nodiscard]] Forms forms_of(Index columns) const {
    Forms forms;
    for (std::size_t i = 0; i < loop_.operands; ++i) forms.layouts[i] = layout_of(i, columns);
    forms.consecutive = Layout::canonical(forms.layouts[0].shape());
    return forms;
  }

  void compute_block(Index part, Index outer, std::byte* aside) const {
    std::array<Index, 1 + max_operands> offsets{};
    const auto advance = [&](std::size_t mode, Index steps) {
      for (std::size_t i = 0; i < loop_.operands; ++i) offsets[i] += steps * loop_.stride(mode, i);
    };
    Index columns = 1;
    if (whole_ < loop_.rank()) {
      columns = std::min(part_, loop_.extents[whole_] - part * part_);
      advance(whole_, part * part_);
    }
    for (std::size_t mode = whole_ + 1; mode < loop_.rank(); ++mode) {
      advance(mode, outer % loop_.extents[mode]);
      outer /= loop_.extents[mode];
    }

    const Forms& forms = columns == part_ ? full_ : last_;
    std::array<KernelOperand, max_operands> inputs;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      inputs[i] = operands_[i];
      if (inputs[i].layout == nullptr) continue;  // a weak scalar
      inputs[i].layout = &forms.layouts[1 + i];
      inputs[i].data += offsets[1 + i] * slot_bytes(inputs[i].stored);
    }
    const Index bytes = plan_.output.slot_bytes();
    const Index first = window_.offset + offsets[0];
    std::byte* const slots = result_ + first * bytes;
    const KernelParameters none;
    const ResultPlace place{first, forms.layouts[0]};
    kernel_({plan_, std::span(inputs).first(operands_.size()), is_aside_ ? aside : slots, forms.consecutive,
             none, &place});
    if (is_aside_) copy_strided(aside, forms.consecutive, slots, forms.layouts[0], bytes);
  }

  /// The layout of an operand in a block (0: the result), the part of the last mode `columns` wide.
  [[nodiscard]] Layout layout_of(std::size_t operand, Index columns) const {
    SmallVector<Index, 8> extents, strides;
    for (std::size_t mode = 0; mode < whole_; ++mode) {
      extents.push_back(loop_.extents[mode]);
      strides.push_back(loop_.stride(mode, operand));
    }
    if (columns > 1 || whole_ == 0) {
      extents.push_back(columns);
      strides.push_back(whole_ < loop_.rank() ? loop_.stride(whole_, operand) : 0);
    }
    return {Shape::flat(extents), Stride::flat(strides)};
  }

  Kernel kernel_;
  const OperationPlan& plan_;
  std::span<const KernelOperand> operands_;
  const Window& window_;
  std::byte* result_;
  StridedLoop loop_;       // operands: the result, then those of the piece
  std::size_t whole_ = 0;  // modes that a block has whole
  Index size_ = 1;         // their product
  Index part_ = 1;         // of the next mode
  bool is_aside_ = false;
  Forms full_, last_;  // of whole blocks, and of the last one along the next mode
};

}  // namespace

void compute_piece(Kernel kernel, const OperationPlan& plan, std::span<const KernelOperand> operands,
                   const Window& window, std::byte* result) {
  Blocks(kernel, plan, operands, window, result).compute();
}

void add_piece(Kernel kernel, const OperationPlan& plan, std::span<const KernelOperand> operands,
               const Window& window, std::byte* sums, Index slot_bytes, Arrival* arrival) {
  const KernelParameters none;
  kernel(kept_sums::Call{{plan, operands, sums + window.offset * slot_bytes, window.layout, none}, arrival});
}

}  // namespace orlop::inline v0
