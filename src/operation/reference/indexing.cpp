// Reference gather, scatter and scatter_add: item by item in ordinal order.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "operation/exact_integer.hpp"
#include "operation/indexing_loops.hpp"
#include "operation/reference/kernels.hpp"
#include "operation/strided_copy.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_size = 1024;

/// Calls `body(table, item)` with the slots of every item in ordinal order.
template <class Body>
void for_each_item(const IndexingLoops& loops, Body body) {
  const StridedLoop& before = loops.before();
  const StridedLoop& after = loops.after();
  std::array<IndexingLoops::Place, block_size> places;
  const auto item = [&](Index table, Index item) {
    for_each_run(before, 0, before.size, [&](std::span<const Index> offsets, Index count) {
      for (Index i = 0; i < count; ++i)
        body(table + offsets[0] + i * before.step(0), item + offsets[1] + i * before.step(1));
    });
  };
  for_each_run(after, 0, after.size, [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i) {
      for (Index first = 0; first < loops.size(); first += block_size) {
        const Index last = std::min(first + block_size, loops.size());
        loops.read(first, last, places.data());
        for (Index k = 0; k < last - first; ++k) {
          const IndexingLoops::Place& place = places[static_cast<std::size_t>(k)];
          item(offsets[0] + i * after.step(0) + place.table, offsets[1] + i * after.step(1) + place.item);
        }
      }
    }
  });
}

void gather(const KernelCall& call) {
  const IndexingLoops loops(call, *call.operands[0].layout, call.layout);
  const Index bytes = call.plan.output.slot_bytes();
  const std::byte* const table = call.operands[0].data;
  for_each_item(loops, [&](Index from, Index to) {
    std::memcpy(call.result + to * bytes, table + from * bytes, static_cast<std::size_t>(bytes));
  });
}

void copy_base(const KernelCall& call) {
  copy_strided(call.operands[0].data, *call.operands[0].layout, call.result, call.layout,
               call.plan.output.slot_bytes());
}

void scatter(const KernelCall& call) {
  copy_base(call);
  const IndexingLoops loops(call, call.layout, *call.operands[2].layout);
  const Index bytes = call.plan.output.slot_bytes();
  const std::byte* const updates = call.operands[2].data;
  for_each_item(loops, [&](Index to, Index from) {
    std::memcpy(call.result + to * bytes, updates + from * bytes, static_cast<std::size_t>(bytes));
  });
}

void scatter_add(const KernelCall& call) {
  copy_base(call);
  const IndexingLoops loops(call, call.layout, *call.operands[2].layout);
  if (call.operands[2].stored == StorageType::float32) {
    const auto* const updates = reinterpret_cast<const float*>(call.operands[2].data);
    auto* const result = reinterpret_cast<float*>(call.result);
    for_each_item(loops, [&](Index to, Index from) { result[to] += updates[from]; });
    return;
  }
  // Exact over the integers: only what a slot ends as is checked.
  const auto* const updates = reinterpret_cast<const std::int32_t*>(call.operands[2].data);
  auto* const result = reinterpret_cast<std::int32_t*>(call.result);
  std::vector<Int128> sums(result, result + call.layout.cosize());
  for_each_item(loops, [&](Index to, Index from) { sums[static_cast<std::size_t>(to)] += updates[from]; });
  std::transform(sums.begin(), sums.end(), result,
                 [&](Int128 sum) { return checked_int32(call.plan.operation, sum); });
}

}  // namespace

KernelList reference_indexing_kernels() {
  static constexpr KernelEntry list[] = {
      {"gather", gather}, {"scatter", scatter}, {"scatter_add", scatter_add}};
  return list;
}

}  // namespace orlop::inline v0
