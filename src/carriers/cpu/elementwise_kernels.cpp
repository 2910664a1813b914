// Elementwise CPU kernels: blocks of consecutive elements, each through one loop that the compiler
// vectorizes.
#include "operation/elementwise_kernels.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "carriers/cpu/kernels.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_size = 1024;  // elements: a result and three operands stay in the first-level cache

/// An operand as consecutive slots of type `T` in ordinal order, block after block: in place where they lie
/// like that already, otherwise gathered, and converted, into a buffer.
template <class T>
class Stream {
 public:
  Stream(const KernelOperand& operand, const Layout& result) : operand_(operand) {
    is_converted_ = std::is_same_v<T, float> && operand.stored == StorageType::int32;
    if (!is_converted_ && operand.layout != nullptr && operand.layout->same_data(result)) return;
    const std::array<const Layout*, 1> layouts{operand.layout};
    const StridedLoop loop = coalesce_together(result.extents(), layouts);
    if (loop.rank() == 0 || (loop.rank() == 1 && loop.stride(0, 0) == 0)) {
      std::fill_n(buffer_.data(), std::min(block_size, loop.size), load_element<T>(operand, 0));
      way_ = Way::constant;
    } else if (is_converted_ || !loop.is_contiguous(0)) {
      loop_.emplace(loop);
      way_ = Way::gathered;
    }
  }

  /// The slots of the ordinals `first` to `first + count`, at most a block; valid until the next call.
  const T* block(Index first, Index count) {
    if (way_ == Way::in_place) return reinterpret_cast<const T*>(operand_.data) + first;
    if (way_ == Way::gathered) is_converted_ ? gather<std::int32_t>(first, count) : gather<T>(first, count);
    return buffer_.data();
  }

 private:
  enum class Way : std::uint8_t { in_place, constant, gathered };

  template <class Stored>
  void gather(Index first, Index count) {
    T* target = buffer_.data();
    const Index step = loop_->stride(0, 0);
    for_each_run(*loop_, first, first + count, [&](std::span<const Index> offsets, Index run) {
      const Stored* source = reinterpret_cast<const Stored*>(operand_.data) + offsets[0];
      if (step == 1) {
        for (Index i = 0; i < run; ++i) target[i] = static_cast<T>(source[i]);
      } else {
        for (Index i = 0; i < run; ++i) target[i] = static_cast<T>(source[i * step]);
      }
      target += run;
    });
  }

  const KernelOperand& operand_;
  Way way_ = Way::in_place;
  bool is_converted_;
  std::optional<StridedLoop> loop_;
  std::array<T, static_cast<std::size_t>(block_size)> buffer_;  // unwritten until it is needed
};

/// Computes `count` elements; false if an exact integer did not fit its slot.
template <class Function, class Value, class... T>
bool compute_block(Index count, ResultSlot<Value>* __restrict result, const Slot<T>* __restrict... operands) {
  bool all_fit = true;
  for (Index i = 0; i < count; ++i) {
    const Value value = Function{}(element<T>(operands[i])...);
    all_fit &= fits_slot(value);
    result[i] = static_cast<ResultSlot<Value>>(value);
  }
  return all_fit;
}

struct BlockLoop {
  template <class Function, class... T>
  static void run(const KernelCall& call, Operands<T...> types) {
    run<Function>(call, types, std::index_sequence_for<T...>{});
  }

 private:
  template <class Function, class... T, std::size_t... position>
  static void run(const KernelCall& call, Operands<T...>, std::index_sequence<position...>) {
    using Value = std::invoke_result_t<Function, T...>;
    auto* result = reinterpret_cast<ResultSlot<Value>*>(call.result);  // canonical: slots in ordinal order
    if (call.layout.size() == 1) {
      const Value value = Function{}(load_element<T>(call.operands[position], 0)...);
      if (!fits_slot(value)) raise_int32_overflow(call, 0);
      *result = static_cast<ResultSlot<Value>>(value);
      return;
    }
    const auto compute_all = [&](Stream<Slot<T>>&&... streams) {
      for (Index first = 0; first < call.layout.size(); first += block_size) {
        const Index count = std::min(block_size, call.layout.size() - first);
        compute<Function, Value, T...>(call, first, count, result + first, streams.block(first, count)...);
      }
    };
    compute_all(Stream<Slot<T>>(call.operands[position], call.layout)...);
  }

  template <class Function, class Value, class... T>
  static void compute(const KernelCall& call, Index first, Index count, ResultSlot<Value>* result,
                      const Slot<T>*... operands) {
    if (compute_block<Function, Value, T...>(count, result, operands...)) return;
    Index fitting = 0;  // elements before the first that does not
    while (compute_block<Function, Value, T...>(1, result + fitting, operands + fitting...)) ++fitting;
    raise_int32_overflow(call, first + fitting);
  }
};

}  // namespace

KernelList cpu_elementwise_kernels() { return elementwise_kernels<BlockLoop>(); }

}  // namespace orlop::inline v0
