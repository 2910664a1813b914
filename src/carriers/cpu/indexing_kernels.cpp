// CPU gather, scatter and scatter_add: indices are read in blocks whose elements stay in the cache.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "carriers/cpu/kernels.hpp"
#include "operation/exact_integer.hpp"
#include "operation/indexing_loops.hpp"
#include "operation/strided_copy.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_size = 256;

/// Neighbouring elements of one item: `count` of them, from these slots on, in these steps.
struct ItemRun {
  Index table;
  Index item;
  Index count;
  Index table_step;
  Index item_step;
};

/// Calls `body(run)` for every item. Those that name one element of the table come in ordinal order.
template <class Body>
void for_each_item(const IndexingLoops& loops, Body body) {
  const StridedLoop& before = loops.before();
  const StridedLoop& after = loops.after();
  std::array<IndexingLoops::Place, block_size> places;
  const auto items = [&](Index table, Index item, Index count) {
    for (Index k = 0; k < count; ++k) {
      const IndexingLoops::Place& place = places[static_cast<std::size_t>(k)];
      if (before.rank() <= 1) {
        body(ItemRun{table + place.table, item + place.item, before.size, before.step(0), before.step(1)});
        continue;
      }
      for_each_run(before, 0, before.size, [&](std::span<const Index> offsets, Index run) {
        body(ItemRun{table + place.table + offsets[0], item + place.item + offsets[1], run, before.step(0),
                     before.step(1)});
      });
    }
  };
  for (Index first = 0; first < loops.size(); first += block_size) {
    const Index last = std::min(first + block_size, loops.size());
    loops.read(first, last, places.data());
    for_each_run(after, 0, after.size, [&](std::span<const Index> offsets, Index count) {
      for (Index i = 0; i < count; ++i)
        items(offsets[0] + i * after.step(0), offsets[1] + i * after.step(1), last - first);
    });
  }
}

/// `count` slots from here to there.
template <class Slot>
void copy_slots(const Slot* from, Index from_step, Slot* to, Index to_step, Index count) {
  if (count > 16 && from_step == 1 && to_step == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Slot));
    return;
  }
  for (Index i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
}

template <class Slot>
void gather_slots(const KernelCall& call) {
  const IndexingLoops loops(call, *call.operands[0].layout, call.layout);
  const auto* const table = reinterpret_cast<const Slot*>(call.operands[0].data);
  auto* const result = reinterpret_cast<Slot*>(call.result);
  for_each_item(loops, [=](const ItemRun& run) {
    copy_slots(table + run.table, run.table_step, result + run.item, run.item_step, run.count);
  });
}

void gather(const KernelCall& call) {
  if (call.plan.output.slot_bytes() == 1)
    gather_slots<std::uint8_t>(call);
  else
    gather_slots<std::uint32_t>(call);
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
  for_each_item(loops, [=](const ItemRun& run) {
    copy_slots(updates + run.item, run.item_step, result + run.table, run.table_step, run.count);
  });
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
  for_each_item(loops, [=](const ItemRun& run) {
    for (Index i = 0; i < run.count; ++i)
      sums[run.table + i * run.table_step] += updates[run.item + i * run.item_step];
  });
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
