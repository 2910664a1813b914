// Reference gather, scatter and scatter_add: item by item in ordinal order.
#include <algorithm>
#include <cstring>
#include <vector>

#include "operation/exact_integer.hpp"
#include "operation/indexing_loops.hpp"
#include "operation/reference/kernels.hpp"
#include "operation/rounds.hpp"
#include "operation/strided_copy.hpp"

namespace orlop::inline v0 {

namespace {

/// Calls `body(table, item)` with the slots of every item in ordinal order.
template <class Body>
void for_each_item(const IndexingLoops& loops, Body body) {
  const StridedLoop& others = loops.others();
  for_each_run_in_rounds(others, loops.size(), [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i)
      serial_for(loops.size(), 1, [&](Index first, Index last) {
        loops.for_each_block(first, last, [&](const IndexingLoops::Block& block) {
          for (Index k = 0; k < block.count; ++k)
            body(offsets[0] + i * others.step(0) + block.table[static_cast<std::size_t>(k)],
                 offsets[1] + i * others.step(1) + block.item + k * block.item_step);
        });
      });
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
