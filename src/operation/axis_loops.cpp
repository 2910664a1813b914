// The loops of an operation along one mode.
#include "operation/axis_loops.hpp"

#include <algorithm>
#include <vector>

#include "operation/modes.hpp"

namespace orlop::inline v0 {

namespace {

using Values = SmallVector<Index, 8>;

std::span<const Index> span_of(const Values& values) { return {values.data(), values.size()}; }

/// What belongs to the leaves outside the axis.
struct Outside {
  Values extents;
  Values strides;
};

Outside outside_axis(const Layout& layout, std::size_t axis) {
  Outside outside;
  for (const Leaves& leaves :
       {leaves_of_modes(layout, 0, axis), leaves_of_modes(layout, axis + 1, layout.rank())}) {
    outside.extents.append(leaves.extents);
    outside.strides.append(leaves.strides);
  }
  return outside;
}

}  // namespace

AxisLoops axis_loops(const KernelCall& call) {
  const auto axis = static_cast<std::size_t>(call.parameters.axis);
  const std::size_t operands = call.operands.size();
  std::vector<std::span<const Index>> along(operands);
  std::vector<Outside> outside(operands + 1);
  for (std::size_t i = 0; i <= operands; ++i) {
    const Layout& layout = i < operands ? *call.operands[i].layout : call.layout;
    if (i < operands) along[i] = leaves_of_modes(layout, axis, axis + 1).strides;
    outside[i] = outside_axis(layout, axis);
  }
  std::vector<std::span<const Index>> strides(operands + 1);
  std::ranges::transform(outside, strides.begin(), [](const Outside& one) { return span_of(one.strides); });
  return {coalesce_strides(span_of(outside.front().extents), strides),
          coalesce_strides(leaves_of_modes(*call.operands[0].layout, axis, axis + 1).extents, along),
          leaves_of_modes(call.layout, 0, axis).size()};
}

}  // namespace orlop::inline v0
