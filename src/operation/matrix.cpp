// Where the rows and terms of a matmul operand lie.
#include "operation/matrix.hpp"

#include <array>

#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

std::vector<Index> offsets_of(const Leaves& leaves) {
  const std::array strides{leaves.strides};
  const StridedLoop loop = coalesce_strides(leaves.extents, strides);
  std::vector<Index> result;
  result.reserve(static_cast<std::size_t>(loop.size));
  for_each_run(loop, 0, loop.size, [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i) result.push_back(offsets[0] + i * loop.step(0));
  });
  return result;
}

void multiply_entries(const KernelCall& call, KernelFunction matmul, Index first, Index last) {
  constexpr std::size_t modes[] = {0, 1};
  constexpr Index slot_bytes = sizeof(float);  // and of an Int32
  const std::array<const Layout*, 3> wholes{call.operands[0].layout, call.operands[1].layout, &call.layout};
  std::array<Layout, 3> matrices;
  std::array<std::vector<Index>, 3> entries;
  for (std::size_t i = 0; i < wholes.size(); ++i) {
    matrices[i] = wholes[i]->select(modes);
    entries[i] = offsets_of(leaves_of_modes(*wholes[i], 2, 3));
  }
  for (auto entry = static_cast<std::size_t>(first); entry < static_cast<std::size_t>(last); ++entry) {
    std::array operands{call.operands[0], call.operands[1]};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      operands[i].data += entries[i][entry] * slot_bytes;
      operands[i].layout = &matrices[i];
    }
    matmul({call.plan, operands, call.result + entries[2][entry] * slot_bytes, matrices[2], call.parameters});
  }
}

Matrix::Matrix(const KernelOperand& operand)
    : data_(operand.data),
      is_float_(operand.stored == StorageType::float32),
      rows_(offsets_of(leaves_of_modes(*operand.layout, 0, 1))),
      terms_(offsets_of(leaves_of_modes(*operand.layout, 1, 2))),
      is_dense_(std::ranges::adjacent_find(rows_, [](Index row, Index next) { return next != row + 1; }) ==
                rows_.end()) {}

}  // namespace orlop::inline v0
