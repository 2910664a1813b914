// Reading index tensors.
#include "operation/indexing_loops.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

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

/// Calls `body(index)` in ordinal order.
template <class Body>
void for_each_index(const KernelOperand& indices, Body body) {
  const std::array<const Layout*, 1> layouts{indices.layout};
  const StridedLoop loop = coalesce_together(indices.layout->extents(), layouts);
  const auto* const data = reinterpret_cast<const std::int32_t*>(indices.data);
  for_each_run(loop, 0, loop.size, [&](std::span<const Index> offsets, Index count) {
    const std::int32_t* const run = data + offsets[0];
    for (Index i = 0; i < count; ++i) body(run[i * loop.step(0)]);
  });
}

}  // namespace

void check_indices(std::string_view operation, const KernelOperand& indices, Index extent) {
  for_each_index(indices, [&](std::int32_t index) {
    if (is_outside(index, extent)) raise_index(operation, index, extent);
  });
}

void check_distinct(std::string_view operation, const KernelOperand& indices) {
  std::vector<bool> is_taken;  // up to the greatest index: fewer bits than the result has slots
  for_each_index(indices, [&](std::int32_t index) {
    // Another thread may have written a negative one since it was checked; the kernel will refuse it.
    const auto place = static_cast<std::uint32_t>(index & std::numeric_limits<std::int32_t>::max());
    if (place >= is_taken.size()) is_taken.resize(std::max<std::size_t>(place + 1, 2 * is_taken.size()));
    if (is_taken[place])
      raise<ValueError>(operation, "an index is repeated: ", index,
                        "; every place is written at most once; use scatter_add to add up its updates");
    is_taken[place] = true;
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
  constexpr Index most = 256;
  std::array<std::int32_t, most> read;  // once: another thread may be writing
  for_each_run(indices_, first, last, [&](std::span<const Index> offsets, Index count) {
    const Index step = indices_.step(0);
    const Index item_step = indices_.step(1);
    for (Index start = 0; start < count; start += most) {
      const Index length = std::min(most, count - start);
      const std::int32_t* const data = data_ + offsets[0] + start * step;
      bool has_outside = false;
      for (Index i = 0; i < length; ++i) {
        const std::int32_t index = data[i * step];
        read[static_cast<std::size_t>(i)] = index;
        has_outside |= is_outside(index, extent_);
      }
      if (has_outside)
        for (const std::int32_t index : std::span(read).first(static_cast<std::size_t>(length)))
          if (is_outside(index, extent_)) raise_index(operation_, index, extent_);
      const Index item = offsets[1] + start * item_step;
      if (step_) {
        const Index table_step = *step_;
        for (Index i = 0; i < length; ++i)
          places[i] = {read[static_cast<std::size_t>(i)] * table_step, item + i * item_step};
      } else {
        for (Index i = 0; i < length; ++i)
          places[i] = {offset_of(axis_, read[static_cast<std::size_t>(i)]), item + i * item_step};
      }
      places += length;
    }
  });
}

}  // namespace orlop::inline v0
