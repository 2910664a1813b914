// Reference scans: every fibre on its own, its elements one after the other, each step rounded.
#include <vector>

#include "operation/axis_loops.hpp"
#include "operation/exact_integer.hpp"
#include "operation/reference/kernels.hpp"

namespace orlop::inline v0 {

namespace {

/// Every fibre of elements `T`: from `start`, what `step(accumulated, element)` makes of it, as `stored` has
/// it.
template <class T, class Accumulated, class Step, class Stored>
void scan_fibres(const KernelCall& call, Accumulated start, Step step, Stored stored) {
  const AxisLoops loops = axis_loops(call);
  const KernelParameters& parameters = call.parameters;
  const Index size = loops.along.size;
  std::vector<T> fibre(static_cast<std::size_t>(size));
  for_each_fibre(loops, [&](std::span<const Index> at) {
    read_fibre(loops, 0, reinterpret_cast<const T*>(call.operands[0].data) + at[0], fibre.data());
    T* const result = reinterpret_cast<T*>(call.result) + at[1];
    Accumulated accumulated = start;
    serial_for(size, 1, [&](Index i, Index end) {
      for (; i < end; ++i) {
        const Index ordinal = parameters.is_backward ? size - 1 - i : i;
        const Accumulated next = step(accumulated, fibre[static_cast<std::size_t>(ordinal)]);
        result[ordinal * loops.result_step] = stored(parameters.is_exclusive ? accumulated : next);
        accumulated = next;
      }
    });
  });
}

void scan(const KernelCall& call) {
  const auto add = [](auto sum, auto term) { return sum + decltype(sum){term}; };
  switch (*call.plan.accumulation) {
    case Accumulation::Floating:
      return scan_fibres<float>(call, 0.0, add, [](double sum) { return static_cast<float>(sum); });
    case Accumulation::SequentialBinary32:
      return scan_fibres<float>(call, 0.0F, add, [](float sum) { return sum; });
    case Accumulation::SequentialBinary32Product:
      return scan_fibres<float>(
          call, 1.0F, [](float product, float factor) { return product * factor; },
          [](float product) { return product; });
    default:
      return scan_fibres<std::int32_t>(call, Int128{0}, add,
                                       [&](Int128 sum) { return checked_int32(call.plan.operation, sum); });
  }
}

}  // namespace

KernelList reference_scan_kernels() {
  static constexpr KernelEntry list[] = {{"cumsum", scan}, {"_scan", scan}};
  return list;
}

}  // namespace orlop::inline v0
