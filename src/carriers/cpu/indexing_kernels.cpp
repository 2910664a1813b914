// CPU gather, scatter and scatter_add: indices are read in blocks, and threads share the blocks where items
// may be written in any order, otherwise the modes after the axis.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "carriers/cpu/kernels.hpp"
#include "operation/exact_integer.hpp"
#include "operation/indexing_loops.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_size = 1024;
using Places = std::array<IndexingLoops::Place, block_size>;

/// Calls `body(table, item)` for `count` pairs of slots, in these steps.
template <class Body>
void for_each_pair(Index table, Index table_step, Index item, Index item_step, Index count, Body body) {
  if (table_step == 1 && item_step == 1)
    for (Index i = 0; i < count; ++i) body(table + i, item + i);
  else
    for (Index i = 0; i < count; ++i) body(table + i * table_step, item + i * item_step);
}

/// Calls `body(table, item)` for the slots of the items of some indices at the coordinates `first` … `last` -
/// 1 after the axis. Those that name one slot of the table come in ordinal order.
template <class Body>
void for_each_item(const IndexingLoops& loops, std::span<const IndexingLoops::Place> places, Index first,
                   Index last, Body body) {
  const StridedLoop& before = loops.before();
  const StridedLoop& after = loops.after();
  for_each_run(after, first, last, [&](std::span<const Index> offsets, Index count) {
    const Index table = offsets[0];
    const Index item = offsets[1];
    if (before.size == 1 && count > static_cast<Index>(places.size())) {
      for (const auto& place : places)
        for_each_pair(table + place.table, after.step(0), item + place.item, after.step(1), count, body);
      return;
    }
    for (Index i = 0; i < count; ++i) {
      const Index table_start = table + i * after.step(0);
      const Index item_start = item + i * after.step(1);
      if (before.size == 1) {
        for (const auto& place : places) body(table_start + place.table, item_start + place.item);
        continue;
      }
      for (const auto& place : places)
        for_each_run(before, 0, before.size, [&](std::span<const Index> inner, Index run) {
          for_each_pair(table_start + place.table + inner[0], before.step(0),
                        item_start + place.item + inner[1], before.step(1), run, body);
        });
    }
  });
}

/// Calls `body(table, item)` for the slots of every item, with several threads. Items that name one slot of
/// the table come in ordinal order unless `is_any_order`.
template <class Body>
void for_all_items(const IndexingLoops& loops, bool is_any_order, Body body) {
  constexpr Index least_work = 4096;
  const Index block_items = std::min(block_size, loops.size()) * loops.before().size;
  const Index blocks = (loops.size() - 1) / block_size + 1;
  // So many coordinates after the axis at once that reading the indices costs little.
  const Index group = std::clamp<Index>(least_work / block_items, 1, loops.after().size);
  const Index groups = (loops.after().size - 1) / group + 1;
  const auto visit = [&](Index group_number, Index block, Places& places) {
    const Index first = block * block_size;
    const Index last = std::min(first + block_size, loops.size());
    loops.read(first, last, places.data());
    for_each_item(loops, std::span(places).first(static_cast<std::size_t>(last - first)),
                  group_number * group, std::min((group_number + 1) * group, loops.after().size), body);
  };
  const Index shared = is_any_order ? 1 : blocks;  // blocks that one thread does in order
  const Index units = groups * blocks / shared;
  const Index grain = std::max<Index>(parallel_grain / (group * block_items * shared), 1);
  parallel_for(units, grain, [&](Index first, Index last) {
    Places places;
    for (Index unit = first * shared; unit < last * shared; ++unit)
      visit(unit / blocks, unit % blocks, places);
  });
}

/// Rows of the table that lie together become columns: they are read whole and transposed.
bool gather_rows(const KernelCall& call, const IndexingLoops& loops) {
  constexpr Index most = 64;
  constexpr Index items = 64;
  const StridedLoop& after = loops.after();
  const Index width = after.size;
  const bool fits = loops.before().size == 1 && after.rank() == 1 && after.step(0) == 1 && width >= 4 &&
                    width <= most && loops.is_contiguous() && call.plan.output.slot_bytes() == sizeof(float);
  if (!fits) return false;
  const auto* const table = reinterpret_cast<const float*>(call.operands[0].data);
  constexpr Index bytes = sizeof(float);
  const Index blocks = (loops.size() - 1) / items + 1;
  parallel_for(blocks, std::max<Index>(parallel_grain / (items * width), 1), [&](Index first, Index last) {
    std::array<IndexingLoops::Place, items> places;
    alignas(64) std::array<float, items * most> rows;
    for (; first < last; ++first) {
      const Index start = first * items;
      const Index count = std::min(items, loops.size() - start);
      loops.read(start, start + count, places.data());
      for (Index i = 0; i < count; ++i)
        std::memcpy(rows.data() + i * width, table + places[static_cast<std::size_t>(i)].table,
                    static_cast<std::size_t>(width * bytes));
      copy_plane(reinterpret_cast<const std::byte*>(rows.data()), call.result + places[0].item * bytes,
                 {count, width * bytes, bytes, width, bytes, after.step(1) * bytes}, bytes);
    }
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
  if (gather_rows(call, loops)) return;
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
  std::transform(sums.begin(), sums.end(), result,
                 [&](std::int64_t sum) { return checked_int32(call.plan.operation, sum); });
}

}  // namespace

KernelList cpu_indexing_kernels() {
  static constexpr KernelEntry list[] = {
      {"gather", gather}, {"scatter", scatter}, {"scatter_add", scatter_add}};
  return list;
}

}  // namespace orlop::inline v0
