// Strided copies: whole runs at once where both sides are contiguous, in tiles where each side is contiguous
// along another mode, otherwise slot by slot.
#include "operation/strided_copy.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

// The operands of the loops below.
constexpr std::size_t from_side = 0;
constexpr std::size_t to_side = 1;

StridedLoop empty_loop() {
  StridedLoop loop;
  loop.operands = 2;
  return loop;
}

void add_mode(StridedLoop& loop, Index extent, Index from_stride, Index to_stride) {
  loop.extents.push_back(extent);
  loop.strides.push_back(from_stride);
  loop.strides.push_back(to_stride);
  loop.size *= extent;
}

/// The same slots by ascending target address, neighbouring modes merged: for targets that no two ordinals
/// share.
StridedLoop in_target_order(const StridedLoop& loop) {
  std::vector<std::size_t> order(loop.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return loop.stride(a, to_side) < loop.stride(b, to_side);
  });
  StridedLoop sorted = empty_loop();
  for (const std::size_t mode : order) {
    const Index extent = loop.extents[mode];
    const Index from = loop.stride(mode, from_side);
    const Index to = loop.stride(mode, to_side);
    if (sorted.rank() > 0) {
      const std::size_t last = sorted.rank() - 1;
      Index& last_extent = sorted.extents[last];
      if (from == last_extent * sorted.stride(last, from_side) &&
          to == last_extent * sorted.stride(last, to_side)) {
        last_extent *= extent;
        sorted.size *= extent;
        continue;
      }
    }
    add_mode(sorted, extent, from, to);
  }
  return sorted;
}

template <class Slot>
void copy_slot(const std::byte* from, std::byte* to) {
  std::memcpy(to, from, sizeof(Slot));
}

template <class Slot>
void copy_runs(const std::byte* from, std::byte* to, const StridedLoop& loop) {
  const Index from_step = loop.rank() == 0 ? 0 : loop.stride(0, from_side);
  const Index to_step = loop.rank() == 0 ? 0 : loop.stride(0, to_side);
  constexpr Index bytes = sizeof(Slot);
  for_each_run(loop, 0, loop.size, [&](std::span<const Index> offsets, Index count) {
    const std::byte* source = from + offsets[from_side] * bytes;
    std::byte* target = to + offsets[to_side] * bytes;
    if (from_step == 1 && to_step == 1) {
      std::memcpy(target, source, static_cast<std::size_t>(count * bytes));
      return;
    }
    for (Index i = 0; i < count; ++i)
      copy_slot<Slot>(source + i * from_step * bytes, target + i * to_step * bytes);
  });
}

/// Two modes of a copy: the target is dense along rows, the source along columns. Strides in bytes.
struct Plane {
  Index rows, row_from, row_to;
  Index columns, column_from, column_to;
};

using Four [[gnu::vector_size(16)]] = std::uint32_t;

/// A transposed block of 4 × 4 slots of 4 bytes, each side dense along its own mode.
void transpose_four(const std::byte* from, Index from_stride, std::byte* to, Index to_stride) {
  Four a, b, c, d;
  std::memcpy(&a, from, sizeof a);
  std::memcpy(&b, from + from_stride, sizeof b);
  std::memcpy(&c, from + 2 * from_stride, sizeof c);
  std::memcpy(&d, from + 3 * from_stride, sizeof d);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  b = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
  std::memcpy(to, &a, sizeof a);
  std::memcpy(to + to_stride, &b, sizeof b);
  std::memcpy(to + 2 * to_stride, &c, sizeof c);
  std::memcpy(to + 3 * to_stride, &d, sizeof d);
}

/// One tile, small enough that the lines of both sides stay in the first cache.
template <class Slot>
void copy_tile(const std::byte* from, std::byte* to, const Plane& plane, Index rows, Index columns) {
  constexpr Index bytes = sizeof(Slot);
  Index dense_rows = 0;
  Index dense_columns = 0;
  if (bytes == sizeof(std::uint32_t) && plane.row_to == bytes && plane.column_from == bytes) {
    dense_rows = rows - rows % 4;
    dense_columns = columns - columns % 4;
    for (Index j = 0; j < dense_columns; j += 4)
      for (Index i = 0; i < dense_rows; i += 4)
        transpose_four(from + i * plane.row_from + j * bytes, plane.row_from,
                       to + i * bytes + j * plane.column_to, plane.column_to);
  }
  for (Index j = 0; j < columns; ++j)
    for (Index i = j < dense_columns ? dense_rows : 0; i < rows; ++i)
      copy_slot<Slot>(from + i * plane.row_from + j * plane.column_from,
                      to + i * plane.row_to + j * plane.column_to);
}

template <class Slot>
void copy_plane(const std::byte* from, std::byte* to, const Plane& plane) {
  constexpr Index tile_rows = 16;
  constexpr Index tile_columns = 64;
  for (Index j = 0; j < plane.columns; j += tile_columns)
    for (Index i = 0; i < plane.rows; i += tile_rows)
      copy_tile<Slot>(from + i * plane.row_from + j * plane.column_from,
                      to + i * plane.row_to + j * plane.column_to, plane, std::min(tile_rows, plane.rows - i),
                      std::min(tile_columns, plane.columns - j));
}

/// The mode along which the source is denser than along mode 0, or 0. Short modes gain nothing from tiles.
std::size_t column_mode(const StridedLoop& loop) {
  constexpr Index least = 4;
  std::size_t found = 0;
  if (loop.rank() == 0 || loop.extents[0] < least) return 0;
  for (std::size_t mode = 1; mode < loop.rank(); ++mode) {
    const Index stride = loop.stride(mode, from_side);
    if (stride > 0 && loop.extents[mode] >= least && stride < loop.stride(found, from_side)) found = mode;
  }
  return found;
}

template <class Slot>
void copy_slots(const std::byte* from, std::byte* to, const StridedLoop& loop) {
  const std::size_t column = column_mode(loop);
  if (column == 0) {
    copy_runs<Slot>(from, to, loop);
    return;
  }
  constexpr Index bytes = sizeof(Slot);
  const Plane plane{
      loop.extents[0],      loop.stride(0, from_side) * bytes,      loop.stride(0, to_side) * bytes,
      loop.extents[column], loop.stride(column, from_side) * bytes, loop.stride(column, to_side) * bytes};
  StridedLoop planes = empty_loop();
  for (std::size_t mode = 1; mode < loop.rank(); ++mode)
    if (mode != column)
      add_mode(planes, loop.extents[mode], loop.stride(mode, from_side), loop.stride(mode, to_side));
  const Index from_step = planes.rank() == 0 ? 0 : planes.stride(0, from_side);
  const Index to_step = planes.rank() == 0 ? 0 : planes.stride(0, to_side);
  for_each_run(planes, 0, planes.size, [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i)
      copy_plane<Slot>(from + (offsets[from_side] + i * from_step) * bytes,
                       to + (offsets[to_side] + i * to_step) * bytes, plane);
  });
}

}  // namespace

void copy_strided(const std::byte* from, const Layout& from_layout, std::byte* to, const Layout& to_layout,
                  Index slot_bytes) {
  const std::array<const Layout*, 2> layouts{&from_layout, &to_layout};
  StridedLoop loop = coalesce_together(to_layout.extents(), layouts);
  if (loop.rank() > 1) {
    if (!to_layout.is_injective()) {  // the last ordinal of a shared slot has to be the last
      if (slot_bytes == 1) return copy_runs<std::uint8_t>(from, to, loop);
      return copy_runs<std::uint32_t>(from, to, loop);
    }
    loop = in_target_order(loop);
  }
  if (slot_bytes == 1)
    copy_slots<std::uint8_t>(from, to, loop);
  else
    copy_slots<std::uint32_t>(from, to, loop);
}

}  // namespace orlop::inline v0
