// An operation along one mode as strided loops: where each fibre begins, and the steps along it.
#pragma once

#include "operation/rounds.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// The fibres of a call along `parameters.axis`: one at every coordinate of the other modes. All operands
/// have one shape; the result, which is canonical, may have another mode in the axis' place.
struct AxisLoops {
  StridedLoop fibres;  ///< in ordinal order; operands: the call's operands, then the result
  StridedLoop along;   ///< one fibre of the operands, in ordinal order
  Index result_step;   ///< between neighbours in a fibre of the result
};

[[nodiscard]] AxisLoops axis_loops(const KernelCall& call);

/// Calls `body(offsets)` with the slots at which every fibre begins, operand by operand, then the result's.
template <class Body>
void for_each_fibre(const AxisLoops& loops, Body body) {
  SmallVector<Index, 4> at(loops.fibres.operands);
  const auto run = [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i) {
      for (std::size_t operand = 0; operand < at.size(); ++operand)
        at[operand] = offsets[operand] + i * loops.fibres.step(operand);
      body(std::span<const Index>(at));
    }
  };
  for_each_run_in_rounds(loops.fibres, loops.along.size, run);
}

/// Copies the fibre of operand number `operand` that begins at `first` to consecutive elements.
template <class T>
void read_fibre(const AxisLoops& loops, std::size_t operand, const T* first, T* elements) {
  for_each_run(loops.along, 0, loops.along.size, [&](std::span<const Index> offsets, Index count) {
    const T* const run = first + offsets[operand];
    const Index step = loops.along.step(operand);
    for (Index i = 0; i < count; ++i) *elements++ = run[i * step];
  });
}

}  // namespace orlop::inline v0
