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

Matrix::Matrix(const KernelOperand& operand)
    : data_(operand.data),
      is_float_(operand.stored == StorageType::float32),
      rows_(offsets_of(leaves_of_modes(*operand.layout, 0, 1))),
      terms_(offsets_of(leaves_of_modes(*operand.layout, 1, 2))) {}

}  // namespace orlop::inline v0
