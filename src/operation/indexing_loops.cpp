// Reading index tensors.
#include "operation/indexing_loops.hpp"

#include <array>

namespace orlop::inline v0 {

namespace {

[[noreturn]] void raise_index(std::string_view operation, std::int32_t index, Index extent) {
  raise<IndexError>(operation, "an index is outside the axis: got ", index, "; indices lie in [0, ", extent,
                    "), negative ones are not allowed");
}

bool is_outside(std::int32_t index, Index extent) { return index < 0 || index >= extent; }

/// The one step between neighbouring ordinals of the leaves, or nothing.
std::optional<Index> constant_step(const Leaves& leaves) {
  const std::array strides{leaves.strides};
  const StridedLoop loop = coalesce_strides(leaves.extents, strides);
  return loop.rank() <= 1 ? std::optional(loop.step(0)) : std::nullopt;
}

/// The offset of an ordinal of the leaves.
Index offset_of(const Leaves& leaves, Index ordinal) {
  Index offset = 0;
  for (std::size_t leaf = 0; leaf < leaves.extents.size(); ++leaf) {
    offset += ordinal % leaves.extents[leaf] * leaves.strides[leaf];
    ordinal /= leaves.extents[leaf];
  }
  return offset;
}

StridedLoop loop_of(const Leaves& table, const Leaves& items) {
  const std::array strides{table.strides, items.strides};
  return coalesce_strides(table.extents, strides);
}

}  // namespace

void check_indices(std::string_view operation, const KernelOperand& indices, Index extent) {
  const std::array<const Layout*, 1> layouts{indices.layout};
  const StridedLoop loop = coalesce_together(indices.layout->extents(), layouts);
  const auto* const data = reinterpret_cast<const std::int32_t*>(indices.data);
  for_each_run(loop, 0, loop.size, [&](std::span<const Index> offsets, Index count) {
    const std::int32_t* const run = data + offsets[0];
    for (Index i = 0; i < count; ++i)
      if (const std::int32_t index = run[i * loop.step(0)]; is_outside(index, extent))
        raise_index(operation, index, extent);
  });
}

IndexingLoops::IndexingLoops(const KernelCall& call, const Layout& table, const Layout& items)
    : operation_(call.plan.operation), data_(reinterpret_cast<const std::int32_t*>(call.operands[1].data)) {
  const auto axis = static_cast<std::size_t>(call.parameters.axis);
  const Layout& indices = *call.operands[1].layout;
  const std::size_t after = axis + indices.rank();
  before_ = loop_of(leaves_of_modes(table, 0, axis), leaves_of_modes(items, 0, axis));
  after_ =
      loop_of(leaves_of_modes(table, axis + 1, table.rank()), leaves_of_modes(items, after, items.rank()));
  indices_ = loop_of({indices.extents(), indices.strides()}, leaves_of_modes(items, axis, after));
  axis_ = leaves_of_modes(table, axis, axis + 1);
  extent_ = axis_.size();
  step_ = constant_step(axis_);
}

void IndexingLoops::read(Index first, Index last, Place* places) const {
  for_each_run(indices_, first, last, [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i) {
      const std::int32_t index = data_[offsets[0] + i * indices_.step(0)];
      if (is_outside(index, extent_)) raise_index(operation_, index, extent_);
      *places++ = {step_ ? index * *step_ : offset_of(axis_, index), offsets[1] + i * indices_.step(1)};
    }
  });
}

}  // namespace orlop::inline v0
