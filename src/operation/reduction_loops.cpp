// The loops of a reduction.
#include "operation/reduction_loops.hpp"

#include <array>
#include <numeric>

namespace orlop::inline v0 {

namespace {

// The loop over all leaves, the one with the smallest stride of the first list innermost.
template <std::size_t N>
StridedLoop loop_in_memory_order(std::span<const Index> extents,
                                 const std::array<std::span<const Index>, N>& strides) {
  SmallVector<std::size_t, 8> order(extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return strides[0][a] < strides[0][b]; });
  const auto ordered = [&](std::span<const Index> values) {
    SmallVector<Index, 8> result;
    for (const std::size_t leaf : order) result.push_back(values[leaf]);
    return result;
  };
  std::array<SmallVector<Index, 8>, N> copies;
  std::array<std::span<const Index>, N> spans;
  for (std::size_t i = 0; i < N; ++i) {
    copies[i] = ordered(strides[i]);
    spans[i] = copies[i];
  }
  return coalesce_strides(ordered(extents), spans);
}

// The strides of the ordinal: compact, first leaf fastest.
SmallVector<Index, 8> ordinal_strides(std::span<const Index> extents) {
  SmallVector<Index, 8> strides;
  Index step = 1;
  for (const Index extent : extents) {
    strides.push_back(step);
    step *= extent;  // fits: it is at most the layout's size
  }
  return strides;
}

}  // namespace

ReductionLoops reduction_loops(const KernelCall& call, ReducedOrder order) {
  const Layout& source = *call.operands[0].layout;
  const Leaves kept = leaves_of_modes(source, 0, 1);
  const Leaves reduced = leaves_of_modes(source, 1, 2);
  const std::array kept_strides{kept.strides, call.layout.strides()};
  const std::array fibre_strides{kept.strides};
  const std::array reduced_strides{reduced.strides};
  switch (order) {
    case ReducedOrder::ordinal:
      return {coalesce_strides(kept.extents, kept_strides), coalesce_strides(kept.extents, fibre_strides),
              coalesce_strides(reduced.extents, reduced_strides)};
    case ReducedOrder::memory:
      return {loop_in_memory_order(kept.extents, kept_strides),
              loop_in_memory_order(kept.extents, fibre_strides),
              loop_in_memory_order(reduced.extents, reduced_strides)};
    case ReducedOrder::memory_with_ordinal:
      break;
  }
  const SmallVector<Index, 8> ordinals = ordinal_strides(reduced.extents);
  const std::array reduced_and_ordinal{reduced.strides, std::span<const Index>(ordinals)};
  return {loop_in_memory_order(kept.extents, kept_strides), loop_in_memory_order(kept.extents, fibre_strides),
          loop_in_memory_order(reduced.extents, reduced_and_ordinal)};
}

}  // namespace orlop::inline v0
