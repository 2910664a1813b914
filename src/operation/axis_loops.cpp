// The loops of an operation along one mode.
#include "operation/axis_loops.hpp"

#include <vector>

#include "operation/modes.hpp"

namespace orlop::inline v0 {

namespace {

using Values = SmallVector<Index, 8>;

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
  std::vector<const Layout*> layouts;
  for (const KernelOperand& operand : call.operands) layouts.push_back(operand.layout);
  std::vector<std::span<const Index>> along;
  for (const Layout* layout : layouts) along.push_back(leaves_of_modes(*layout, axis, axis + 1).strides);
  layouts.push_back(&call.layout);
  std::vector<Outside> outside;
  for (const Layout* layout : layouts) outside.push_back(outside_axis(*layout, axis));
  std::vector<std::span<const Index>> strides;
  for (const Outside& one : outside) strides.emplace_back(one.strides.data(), one.strides.size());
  const Values& extents = outside.front().extents;
  return {coalesce_strides({extents.data(), extents.size()}, strides),
          coalesce_strides(leaves_of_modes(*layouts.front(), axis, axis + 1).extents, along),
          leaves_of_modes(call.layout, 0, axis).size()};
}

}  // namespace orlop::inline v0
