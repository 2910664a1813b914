// Elementwise CPU kernels: blocks of consecutive elements through the vectorized functions of this processor.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "carriers/cpu/kernels.hpp"
#include "operation/elementwise_functions.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_size = 1024;  // elements: a result and three operands stay in the first-level cache
constexpr std::size_t max_operands = 3;

/// An operand as consecutive slots in ordinal order, block after block: in place where they lie like that
/// already, otherwise gathered, and converted, into a buffer.
class Stream {
 public:
  void open(const KernelOperand& operand, const Layout& result) {
    operand_ = &operand;
    slot_bytes_ = slot_bytes(operand.computed);
    if (!is_converted(operand) && operand.layout != nullptr && operand.layout->same_data(result)) return;
    const std::array<const Layout*, 1> layouts{operand.layout};
    loop_ = coalesce_together(result.extents(), layouts);
    // Everything repeats after `period_` elements where the last mode stands still, as in adding a bias.
    const bool is_repeated = loop_.rank() == 0 || loop_.stride(loop_.rank() - 1, 0) == 0;
    period_ = loop_.rank() == 0 ? 1 : loop_.size / loop_.extents.back();
    if (is_repeated && period_ <= block_size) {
      way_ = Way::repeated;
      repeat(std::min(loop_.size, period_ + block_size));
    } else if (is_converted(operand) || !loop_.is_contiguous(0)) {
      way_ = Way::gathered;
    }
  }

  /// The slots of `count` ordinals from `first`, at most a block; valid until the next call.
  const std::byte* block(Index first, Index count) {
    if (way_ == Way::in_place) return operand_->data + first * slot_bytes_;
    if (way_ == Way::repeated) return buffer_.data() + first % period_ * slot_bytes_;
    gather(first, count);
    return buffer_.data();
  }

 private:
  enum class Way : std::uint8_t { in_place, repeated, gathered };

  void gather(Index first, Index count) {
    if (is_converted(*operand_))
      copy<std::int32_t, float>(first, count);
    else if (slot_bytes_ == 4)
      copy<std::uint32_t, std::uint32_t>(first, count);
    else
      copy<std::uint8_t, std::uint8_t>(first, count);
  }

  template <class Stored, class Computed>
  void copy(Index first, Index count) {
    auto* target = reinterpret_cast<Computed*>(buffer_.data());
    const Index step = loop_.rank() == 0 ? 0 : loop_.stride(0, 0);
    for_each_run(loop_, first, first + count, [&](std::span<const Index> offsets, Index run) {
      const Stored* source = reinterpret_cast<const Stored*>(operand_->data) + offsets[0];
      if (step == 0) {
        std::fill_n(target, run, static_cast<Computed>(*source));
      } else if (step == 1) {
        std::copy_n(source, run, target);
      } else {
        for (Index i = 0; i < run; ++i) target[i] = static_cast<Computed>(source[i * step]);
      }
      target += run;
    });
  }

  /// One period, then copies of it.
  void repeat(Index count) {
    gather(0, std::min(period_, count));
    for (Index filled = period_; filled < count; filled *= 2)
      std::memcpy(buffer_.data() + filled * slot_bytes_, buffer_.data(),
                  static_cast<std::size_t>(std::min(filled, count - filled) * slot_bytes_));
  }

  const KernelOperand* operand_;
  Index slot_bytes_;
  Way way_ = Way::in_place;
  Index period_ = 0;
  StridedLoop loop_;
  alignas(64) std::array<std::byte, 2 * 4 * block_size> buffer_;  // unwritten until it is needed
};

/// The one-element call, where every step counts.
void compute_one(const KernelCall& call, BlockFunction block) {
  std::array<float, max_operands> converted;
  std::array<const std::byte*, max_operands> elements;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    elements[i] = call.operands[i].data;
    if (!is_converted(call.operands[i])) continue;
    converted[i] = int32_to_float(elements[i]);
    elements[i] = reinterpret_cast<const std::byte*>(&converted[i]);
  }
  const ElementFault fault = block(1, call.result, elements.data());
  if (fault != ElementFault::none) raise_fault(call, fault, 0);
}

/// Finds the element of a block that has no result.
[[noreturn]] void refuse(const KernelCall& call, BlockFunction block, Index first,
                         std::array<const std::byte*, max_operands> elements) {
  for (Index ordinal = first;; ++ordinal) {
    const ElementFault fault = block(1, call.result, elements.data());
    if (fault != ElementFault::none) raise_fault(call, fault, ordinal);
    for (std::size_t i = 0; i < call.operands.size(); ++i)
      elements[i] += slot_bytes(call.operands[i].computed);
  }
}

void elementwise(const KernelCall& call) {
  static const BlockTable blocks(native_elementwise_functions());
  const BlockFunction block = blocks[call.plan];
  const Index size = call.layout.size();
  if (size == 1) return compute_one(call, block);
  const std::size_t operands = call.operands.size();
  std::array<Stream, max_operands> streams;
  for (std::size_t i = 0; i < operands; ++i) streams[i].open(call.operands[i], call.layout);
  std::array<const std::byte*, max_operands> elements;
  for (Index first = 0; first < size; first += block_size) {
    const Index count = std::min(block_size, size - first);
    for (std::size_t i = 0; i < operands; ++i) elements[i] = streams[i].block(first, count);
    // The result's layout is canonical: its slots follow the ordinals.
    std::byte* const slots = call.result + first * call.plan.output.slot_bytes();
    if (block(count, slots, elements.data()) != ElementFault::none) refuse(call, block, first, elements);
  }
}

}  // namespace

KernelList cpu_elementwise_kernels() {
  static const auto entries = elementwise_entries(elementwise);
  return entries;
}

}  // namespace orlop::inline v0
