// CPU gather, scatter and scatter_add: indices are read in blocks, and threads share the blocks where items
// may be written in any order, otherwise the modes after the axis.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "carriers/cpu/kernels/kernels.hpp"
#include "carriers/cpu/kernels/scratch.hpp"
#include "operation/cache_lines.hpp"
#include "operation/exact_integer.hpp"
#include "operation/indexing_loops.hpp"
#include "operation/slot_blocks.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

namespace {

/// Calls `body(table, item)` for the slots of some items at the other coordinates `first` … `last` - 1. Those
/// that name one slot of the table come in ordinal order.
template <class Body>
void for_each_item(const IndexingLoops& loops, const IndexingLoops::Block& block, Index first, Index last,
                   Body body) {
  const StridedLoop& others = loops.others();
  const Index table_step = others.step(0);
  const Index item_step = others.step(1);
  for_each_run(others, first, last, [&](std::span<const Index> offsets, Index count) {
    const Index* const tables = block.table.data();
    if (count >= 8 && table_step == 1 && item_step == 1) {
      for (Index k = 0; k < block.count; ++k) {
        const Index table = offsets[0] + tables[k];
        const Index item = offsets[1] + block.item + k * block.item_step;
        for (Index i = 0; i < count; ++i) body(table + i, item + i);
      }
    } else if (count >= 8 && item_step == 1 && block.item_step != 1 && std::abs(table_step) >= square_side) {
      // Whole lines of items, and no more rows of the table at a time than the first-level cache holds.
      for (Index start = 0; start < count; start += square_side) {
        const Index end = std::min(start + square_side, count);
        for (Index k = 0; k < block.count; ++k) {
          const Index table = offsets[0] + tables[k];
          const Index item = offsets[1] + block.item + k * block.item_step;
          for (Index i = start; i < end; ++i) body(table + i * table_step, item + i);
        }
      }
    } else if (count > block.count) {
      for (Index k = 0; k < block.count; ++k) {
        const Index table = offsets[0] + tables[k];
        const Index item = offsets[1] + block.item + k * block.item_step;
        for (Index i = 0; i < count; ++i) body(table + i * table_step, item + i * item_step);
      }
    } else {
      for (Index i = 0; i < count; ++i) {
        const Index table = offsets[0] + i * table_step;
        const Index item = offsets[1] + i * item_step + block.item;
        if (block.item_step == 1)
          for (Index k = 0; k < block.count; ++k) body(table + tables[k], item + k);
        else
          for (Index k = 0; k < block.count; ++k) body(table + tables[k], item + k * block.item_step);
      }
    }
  });
}

/// Calls `body(table, item)` for the slots of every item, with several threads. Items that name one slot of
/// the table come in ordinal order unless `is_any_order`.
template <class Body>
void for_all_items(const IndexingLoops& loops, bool is_any_order, Body body) {
  constexpr Index least_work = 1024;  // so that reading an index costs little
  const StridedLoop& others = loops.others();
  const bool is_contiguous = others.step(0) == 1 && others.step(1) == 1;
  // A unit of work: some of the indices at some of the other coordinates. The fewer units there are, the less
  // often the processor waits for the last of the items that it reads ahead.
  const Index most = IndexingLoops::block_size * (others.size == 1 ? 16 : 1);
  const Index length = is_any_order ? std::min(most, loops.size()) : loops.size();
  const Index width = std::min(std::max<Index>(least_work / length, is_contiguous ? 512 : 1), others.size);
  const Index across = (loops.size() - 1) / length + 1;
  const Index units = ((others.size - 1) / width + 1) * across;
  parallel_for(units, Work{length * width}, [&](Index first, Index last) {
    for (; first < last; ++first) {
      const Index coordinate = first / across * width;
      const Index index = first % across * length;
      const Index end = std::min(index + length, loops.size());
      serial_for(end - index, width, [&](Index from, Index to) {
        if (width == 1 && loops.is_dense())
          for_each_run(others, coordinate, coordinate + 1, [&](std::span<const Index> offsets, Index) {
            loops.for_each_dense(
                index + from, index + to,
                [body, table_start = offsets[0], item_start = offsets[1]](Index table, Index item) {
                  body(table_start + table, item_start + item);
                });
          });
        else
          loops.for_each_block(index + from, index + to, [&](const IndexingLoops::Block& block) {
            for_each_item(loops, block, coordinate, std::min(coordinate + width, others.size), body);
          });
      });
    }
  });
}

/// Rows of the table that lie together become columns: they are read whole and transposed.
bool gather_rows(const KernelCall& call, const IndexingLoops& loops) {
  constexpr Index most = 64;
  constexpr Index height = 64;
  constexpr Index bytes = sizeof(float);
  const StridedLoop& others = loops.others();
  const Index width = others.size;
  const bool fits = others.rank() == 1 && others.step(0) == 1 && others.step(1) != 1 && width >= 4 &&
                    width <= most && call.plan.output.slot_bytes() == bytes;
  if (!fits) return false;
  const auto* const table = reinterpret_cast<const float*>(call.operands[0].data);
  const bool streams = is_streamed(call.layout.size() * bytes);
  parallel_for(loops.size(), Work{width}, [&](Index first, Index last) {
    alignas(64) std::array<float, height * most> rows;
    loops.for_each_block(first, last, [&](const IndexingLoops::Block& block) {
      for (Index start = 0; start < block.count; start += height) {
        const Index count = std::min(height, block.count - start);
        for (Index i = 0; i < count; ++i)
          std::memcpy(rows.data() + i * width, table + block.table[static_cast<std::size_t>(start + i)],
                      static_cast<std::size_t>(width * bytes));
        const Plane plane{count, width * bytes, block.item_step * bytes,
                          width, bytes,         others.step(1) * bytes};
        copy_plane(reinterpret_cast<const std::byte*>(rows.data()),
                   call.result + (block.item + start * block.item_step) * bytes, plane, bytes, streams);
      }
    });
    if (streams) end_streams();
  });
  return true;
}

/// Gathers the four columns at `result`, `column_step` apart; `table` has their slots as rows.
void gather_four(const IndexingLoops& loops, const float* table, float* result, Index column_step) {
  constexpr Index width = 4;
  parallel_for(loops.size(), Work{width}, [&](Index first, Index last) {
    loops.for_each_block(first, last, [=](const IndexingLoops::Block& block) {
      const Index* const rows = block.table.data();
      float* const to = result + block.item;
      const auto row = [=](Index i) { return table + width * rows[i]; };
      Index i = 0;
      for (; i + width <= block.count; i += width)
        transpose_four(load_four(row(i)), load_four(row(i + 1)), load_four(row(i + 2)), load_four(row(i + 3)),
                       [=](Index column, FourSlots slots) {
                         std::memcpy(to + i + column * column_step, &slots, sizeof slots);
                       });
      for (; i < block.count; ++i)
        for (Index column = 0; column < width; ++column) to[i + column * column_step] = row(i)[column];
    });
  });
}

/// Columns that are read at random from beyond a core's own caches: four at a time are copied as rows, so
/// that a read finds four slots at once.
bool gather_columns(const KernelCall& call, const IndexingLoops& loops) {
  constexpr Index width = 4;
  constexpr Index bytes = sizeof(float);
  constexpr Index least_height = Index{1} << 14;
  constexpr Index most_height = Index{1} << 21;  // rows of 32 MiB
  const StridedLoop& others = loops.others();
  const Index height = loops.extent();
  const bool fits = loops.is_dense() && others.rank() == 1 && others.size >= width &&
                    call.plan.output.slot_bytes() == bytes && height >= least_height &&
                    height <= most_height && loops.size() >= height / 2;
  if (!fits) return false;
  const Index step = others.step(0);
  const Scratch<float> rows(height * width);
  const auto gather_some = [&](Index column) {
    const Index start = std::min(column, others.size - width);  // the last ones may overlap
    const std::byte* const table = call.operands[0].data + start * step * bytes;
    parallel_for(height, Work{width}, [&](Index first, Index last) {
      const Plane plane{width, step * bytes, bytes, last - first, bytes, width * bytes};
      copy_plane(table + first * bytes, rows.bytes() + first * width * bytes, plane, bytes);
    });
    gather_four(loops, rows.data(), reinterpret_cast<float*>(call.result) + start * others.step(1),
                others.step(1));
  };
  serial_for((others.size - 1) / width + 1, width * loops.size(), [&](Index first, Index last) {
    for (; first < last; ++first) gather_some(first * width);
  });
  return true;
}

template <class Slot>
void gather_slots(const KernelCall& call, const IndexingLoops& loops) {
  const auto* const table = reinterpret_cast<const Slot*>(call.operands[0].data);
  auto* const result = reinterpret_cast<Slot*>(call.result);
  for_all_items(loops, true, [=](Index from, Index to) { result[to] = table[from]; });
}

void gather(const KernelCall& call) {
  const IndexingLoops loops(call, *call.operands[0].layout, call.layout);
  if (gather_rows(call, loops) || gather_columns(call, loops)) return;
  if (call.plan.output.slot_bytes() == 1)
    gather_slots<std::uint8_t>(call, loops);
  else
    gather_slots<std::uint32_t>(call, loops);
}

void copy_base(const KernelCall& call) {
  copy_strided(call.operands[0].data, *call.operands[0].layout, call.result, call.layout,
               call.plan.output.slot_bytes());
}

template <class Slot>
void scatter_slots(const KernelCall& call) {
  const IndexingLoops loops(call, call.layout, *call.operands[2].layout);
  const auto* const updates = reinterpret_cast<const Slot*>(call.operands[2].data);
  auto* const result = reinterpret_cast<Slot*>(call.result);
  // No index comes twice.
  for_all_items(loops, true, [=](Index to, Index from) { result[to] = updates[from]; });
}

void scatter(const KernelCall& call) {
  copy_base(call);
  if (call.plan.output.slot_bytes() == 1)
    scatter_slots<std::uint8_t>(call);
  else
    scatter_slots<std::uint32_t>(call);
}

/// Adds every update to its place in `sums`, which lies as the result does.
template <class T, class Sum>
void add_updates(const KernelCall& call, Sum* sums) {
  const IndexingLoops loops(call, call.layout, *call.operands[2].layout);
  const auto* const updates = reinterpret_cast<const T*>(call.operands[2].data);
  for_all_items(loops, false, [=](Index to, Index from) { sums[to] += updates[from]; });
}

void scatter_add(const KernelCall& call) {
  // A slot's sum of up to 2^32 updates fits 64 bits.
  constexpr Index max_updates = Index{1} << 32;
  if (call.operands[2].layout->size() >= max_updates) return reference_kernels().find("scatter_add")(call);
  copy_base(call);
  if (call.operands[2].stored == StorageType::float32)
    return add_updates<float>(call, reinterpret_cast<float*>(call.result));
  auto* const result = reinterpret_cast<std::int32_t*>(call.result);
  std::vector<std::int64_t> sums(result, result + call.layout.cosize());
  add_updates<std::int32_t>(call, sums.data());
  serial_for(call.layout.cosize(), 1, [&](Index first, Index last) {
    std::transform(sums.begin() + first, sums.begin() + last, result + first,
                   [&](std::int64_t sum) { return checked_int32(call.plan.operation, sum); });
  });
}

}  // namespace

KernelList cpu_indexing_kernels() {
  static constexpr KernelEntry list[] = {
      {"gather", gather}, {"scatter", scatter}, {"scatter_add", scatter_add}};
  return list;
}

}  // namespace orlop::inline v0
