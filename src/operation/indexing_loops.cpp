// Reading index tensors.
#include "operation/indexing_loops.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "operation/slot_blocks.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

namespace {

[[noreturn]] void raise_index(std::string_view operation, std::int32_t index, Index extent) {
  raise<IndexError>(operation, "an index is outside the axis: got ", index, "; indices lie in [0, ", extent,
                    "), negative ones are not allowed");
}

bool is_outside(std::int32_t index, Index extent) { return index < 0 || index >= extent; }

/// The sign bit is set where one of the indices, `step` apart, is negative or beyond the last one.
std::uint32_t faults(const std::int32_t* indices, Index step, Index count, std::uint32_t last) {
  std::uint32_t all = 0;
  for (Index i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint32_t>(indices[i * step]);
    all |= index | (last - index);
  }
  return all;
}

/// The same for neighbours: four registers of them at a time, of which none waits for another.
std::uint32_t faults(const std::int32_t* indices, Index count, std::uint32_t last) {
  FourSlots all[4] = {};
  Index i = 0;
  for (; i + 16 <= count; i += 16)
    for (Index four = 0; four < 4; ++four) {
      const FourSlots some = load_four(indices + i + 4 * four);
      all[four] |= some | (last - some);
    }
  const FourSlots together = all[0] | all[1] | all[2] | all[3];
  return together[0] | together[1] | together[2] | together[3] | faults(indices + i, 1, count - i, last);
}

/// IndexError for the first of `count` indices, `step` apart, outside [0, extent). Looks for it only where
/// there is one.
void check_run(std::string_view operation, const std::int32_t* indices, Index step, Index count,
               Index extent) {
  const auto last = static_cast<std::uint32_t>(std::min(extent, Index{1} << 31) - 1);
  const std::uint32_t found = step == 1 ? faults(indices, count, last) : faults(indices, step, count, last);
  if (found >> 31 == 0) return;
  for (Index i = 0; i < count; ++i)
    if (const std::int32_t index = indices[i * step]; is_outside(index, extent))
      raise_index(operation, index, extent);
}

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

StridedLoop loop_of(std::span<const Index> extents, std::span<const Index> table,
                    std::span<const Index> items) {
  const std::array strides{table, items};
  return coalesce_strides(extents, strides);
}

SmallVector<Index, 8> joined(std::span<const Index> first, std::span<const Index> second) {
  SmallVector<Index, 8> all;
  for (const Index value : first) all.push_back(value);
  for (const Index value : second) all.push_back(value);
  return all;
}

/// Calls `body(indices, step, count)` for runs of indices in ordinal order, of `extents` instead of the
/// layout's own: on the caller alone, or with several threads where each is to get at least `least`.
template <class Body>
void for_each_index_run(const KernelOperand& indices, std::span<const Index> extents,
                        std::optional<Index> least, Body body) {
  const std::array strides{indices.layout->strides()};
  const StridedLoop loop = coalesce_strides(extents, strides);
  const auto* const data = reinterpret_cast<const std::int32_t*>(indices.data);
  const auto run = [&](Index first, Index last) {
    for_each_run(loop, first, last, [&](std::span<const Index> offsets, Index count) {
      body(data + offsets[0], loop.step(0), count);
    });
  };
  if (least)
    parallel_for(loop.size, Work{1, *least}, run);
  else
    serial_for(loop.size, 1, run);
}

}  // namespace

void check_indices(std::string_view operation, const KernelOperand& indices, Index extent) {
  // What a stride of 0 repeats is looked at once.
  SmallVector<Index, 8> extents;
  for (std::size_t leaf = 0; leaf < indices.layout->extents().size(); ++leaf)
    extents.push_back(indices.layout->strides()[leaf] == 0 ? 1 : indices.layout->extents()[leaf]);
  for_each_index_run(indices, extents, 4 * parallel_grain,
                     [&](const std::int32_t* run, Index step, Index count) {
                       check_run(operation, run, step, count, extent);
                     });
}

void check_distinct(std::string_view operation, const KernelOperand& indices) {
  std::vector<bool> is_taken;  // up to the greatest index: fewer bits than the result has slots
  const auto take = [&](std::int32_t index) {
    // Another thread may have written a negative one since it was checked; the kernel will refuse it.
    const auto place = static_cast<std::uint32_t>(index & std::numeric_limits<std::int32_t>::max());
    if (place >= is_taken.size()) is_taken.resize(std::max<std::size_t>(place + 1, 2 * is_taken.size()));
    if (is_taken[place])
      raise<ValueError>(operation, "an index is repeated: ", index,
                        "; every place is written at most once; use scatter_add to add up its updates");
    is_taken[place] = true;
  };
  for_each_index_run(indices, indices.layout->extents(), std::nullopt,
                     [&](const std::int32_t* run, Index step, Index count) {
                       for (Index i = 0; i < count; ++i) take(run[i * step]);
                     });
}

namespace {

Leaves axis_of(const KernelCall& call, const Layout& table) {
  const auto axis = static_cast<std::size_t>(call.parameters.axis);
  return leaves_of_modes(table, axis, axis + 1);
}

}  // namespace

IndexingLoops::IndexingLoops(const KernelCall& call, const Layout& table, const Layout& items)
    : operation_(call.plan.operation),
      data_(reinterpret_cast<const std::int32_t*>(call.operands[1].data)),
      axis_(axis_of(call, table)),
      extent_(axis_.size()),
      step_(constant_step(axis_)) {
  const auto axis = static_cast<std::size_t>(call.parameters.axis);
  const Layout& indices = *call.operands[1].layout;
  const std::size_t after = axis + indices.rank();
  const Leaves table_before = leaves_of_modes(table, 0, axis);
  const Leaves table_after = leaves_of_modes(table, axis + 1, table.rank());
  const Leaves items_before = leaves_of_modes(items, 0, axis);
  const Leaves items_after = leaves_of_modes(items, after, items.rank());
  others_ = loop_of(joined(table_before.extents, table_after.extents),
                    joined(table_before.strides, table_after.strides),
                    joined(items_before.strides, items_after.strides));
  const Leaves indexed = leaves_of_modes(items, axis, after);
  indices_ = loop_of(indices.extents(), indices.strides(), indexed.strides);
}

void IndexingLoops::refuse(std::int32_t index) const { raise_index(operation_, index, extent_); }

void IndexingLoops::read(Index slot, Index count, std::int32_t* indices) const {
  const Index step = indices_.step(0);
  const std::int32_t* const data = data_ + slot;
  if (step == 1)
    std::copy_n(data, count, indices);
  else
    for (Index i = 0; i < count; ++i) indices[i] = data[i * step];
  check_run(operation_, indices, 1, count, extent_);
}

void IndexingLoops::locate(Index slot, Block& block) const {
  std::array<std::int32_t, block_size> indices;
  read(slot, block.count, indices.data());
  const auto known = std::span(indices).first(static_cast<std::size_t>(block.count));
  Index* table = block.table.data();
  if (step_ == 1)
    for (const std::int32_t index : known) *table++ = index;
  else if (step_)
    for (const Index axis_step = *step_; const std::int32_t index : known) *table++ = index * axis_step;
  else
    for (const std::int32_t index : known) *table++ = offset_of(axis_, index);
}

}  // namespace orlop::inline v0
