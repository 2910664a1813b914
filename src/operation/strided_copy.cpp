// Strided copies: whole runs at once where both sides are contiguous, otherwise slot by slot.
#include "operation/strided_copy.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

template <class Slot>
void copy_slots(const std::byte* from, std::byte* to, const StridedLoop& loop) {
  const Index from_step = loop.rank() == 0 ? 0 : loop.stride(0, 0);
  const Index to_step = loop.rank() == 0 ? 0 : loop.stride(0, 1);
  constexpr Index bytes = sizeof(Slot);
  for_each_run(loop, 0, loop.size, [&](std::span<const Index> offsets, Index count) {
    const std::byte* source = from + offsets[0] * bytes;
    std::byte* target = to + offsets[1] * bytes;
    if (from_step == 1 && to_step == 1) {
      std::memcpy(target, source, static_cast<std::size_t>(count * bytes));
      return;
    }
    for (Index i = 0; i < count; ++i)
      std::memcpy(target + i * to_step * bytes, source + i * from_step * bytes, sizeof(Slot));
  });
}

}  // namespace

void copy_strided(const std::byte* from, const Layout& from_layout, std::byte* to, const Layout& to_layout,
                  Index slot_bytes) {
  const std::array<const Layout*, 2> layouts{&from_layout, &to_layout};
  const StridedLoop loop = coalesce_together(to_layout.extents(), layouts);
  if (slot_bytes == 1)
    copy_slots<std::uint8_t>(from, to, loop);
  else
    copy_slots<std::uint32_t>(from, to, loop);
}

}  // namespace orlop::inline v0
