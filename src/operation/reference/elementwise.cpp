// Elementwise reference kernels: one element after the other in ordinal order.
#include <array>
#include <utility>

#include "operation/elementwise_kernels.hpp"
#include "operation/reference/kernels.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

struct ReferenceLoop {
  template <class Function, class... T>
  static void run(const KernelCall& call, Operands<T...> types) {
    run<Function>(call, types, std::index_sequence_for<T...>{});
  }

  template <class Function, class... T, std::size_t... position>
  static void run(const KernelCall& call, Operands<T...>, std::index_sequence<position...>) {
    const std::array<const Layout*, sizeof...(T)> layouts{call.operands[position].layout...};
    const StridedLoop loop = coalesce_together(call.layout.extents(), layouts);
    const auto step = [&](std::size_t operand) { return loop.rank() == 0 ? 0 : loop.stride(0, operand); };
    using Value = std::invoke_result_t<Function, T...>;
    auto* result = reinterpret_cast<ResultSlot<Value>*>(call.result);  // canonical: slots in ordinal order
    Index ordinal = 0;
    for_each_run(loop, 0, loop.size, [&](std::span<const Index> offsets, Index count) {
      for (Index k = 0; k < count; ++k, ++ordinal) {
        const Value value =
            Function{}(load_element<T>(call.operands[position], offsets[position] + k * step(position))...);
        if (!fits_slot(value)) raise_int32_overflow(call, ordinal);
        result[ordinal] = static_cast<ResultSlot<Value>>(value);
      }
    });
  }
};

}  // namespace

KernelList reference_elementwise_kernels() { return elementwise_kernels<ReferenceLoop>(); }

}  // namespace orlop::inline v0
