// Strided copies: whole runs at once where both sides are contiguous, in blocks where each side is contiguous
// along another mode, otherwise slot by slot.
#include "operation/strided_copy.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "operation/cache_lines.hpp"
#include "operation/slot_blocks.hpp"
#include "orlop/base/parallel.hpp"
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
void copy_runs(const std::byte* from, std::byte* to, const StridedLoop& loop, Index first, Index last) {
  const Index from_step = loop.rank() == 0 ? 0 : loop.stride(0, from_side);
  const Index to_step = loop.rank() == 0 ? 0 : loop.stride(0, to_side);
  constexpr Index bytes = sizeof(Slot);
  for_each_run(loop, first, last, [&](std::span<const Index> offsets, Index count) {
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

/// A transposed block of so many slots, each side dense along its own mode.
template <class Slot, int rows, int columns>
void copy_block(const std::byte* from, Index from_stride, std::byte* to, Index to_stride) {
  const auto store = [=](int column, auto slots) {
    if (column < columns) std::memcpy(to + column * to_stride, &slots, rows * sizeof(Slot));
  };
  if constexpr (sizeof(Slot) == 1) {
    std::array<std::uint64_t, 8> block{};
    for (std::size_t row = 0; row < rows; ++row)
      block[row] = load_bytes<columns>(from + static_cast<Index>(row) * from_stride);
    transpose_eight(block, store);
  } else {
    const auto row = [=](int number) {
      return number < rows ? load_some<columns>(from + number * from_stride) : FourSlots{};
    };
    transpose_four(row(0), row(1), row(2), row(3), store);
  }
}

/// Calls `body(side)` with the side of a block, an integral constant, by which to cut `count` slots.
template <class Slot, class Body>
void with_side(Index count, Body body) {
  if constexpr (sizeof(Slot) == 1)
    if (count >= 8) return body(std::integral_constant<int, 8>());
  switch (count) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 3:
      return body(std::integral_constant<int, 3>());
    default:
      return body(std::integral_constant<int, 4>());
  }
}

/// The rows `first_row` … : blocks of what is dense, otherwise slot by slot.
template <class Slot>
void copy_few(const std::byte* from, std::byte* to, const Plane& plane, bool is_dense, Index first_row,
              Index last_row) {
  from += first_row * plane.row_from;
  to += first_row * plane.row_to;
  const Index row_count = last_row - first_row;
  if (!is_dense) {
    for (Index column = 0; column < plane.columns; ++column)
      for (Index row = 0; row < row_count; ++row)
        copy_slot<Slot>(from + row * plane.row_from + column * plane.column_from,
                        to + row * plane.row_to + column * plane.column_to);
    return;
  }
  with_side<Slot>(row_count, [&](auto rows) {
    with_side<Slot>(plane.columns, [&](auto columns) {
      for_each_part<columns>(plane.columns, [&](Index column) {
        for_each_part<rows>(row_count, [&](Index row) {
          copy_block<Slot, rows, columns>(from + row * plane.row_from + column * plane.column_from,
                                          plane.row_from, to + row * plane.row_to + column * plane.column_to,
                                          plane.column_to);
        });
      });
    });
  });
}

/// Some rows at a time, along all columns: near the order of the source, and of the target a few neighbouring
/// lines at once.
template <class Slot>
void copy_rows(const std::byte* from, std::byte* to, const Plane& plane, bool streams) {
  constexpr Index group = 64;
  constexpr Index bytes = sizeof(Slot);
  const bool is_dense = plane.row_to == bytes && plane.column_from == bytes;
  const bool has_squares = is_dense && bytes == sizeof(std::uint32_t) && plane.columns >= square_side;
  const CacheLines& lines = cache_lines();
  for (Index first = 0; first < plane.rows; first += group) {
    const Index last = std::min(first + group, plane.rows);
    if (!has_squares || last - first < square_side) {
      copy_few<Slot>(from, to, plane, is_dense, first, last);
      continue;
    }
    const bool are_lines =
        plane.row_from % cache_line == 0;  // of the source, in every row at the same columns
    for_each_square(plane.columns, are_lines ? slots_before_line(from) : 0, [&](Index column) {
      for_each_square(last - first, 0, [&](Index row) {
        row += first;
        lines.transpose(from + row * plane.row_from + column * plane.column_from, plane.row_from,
                        to + row * plane.row_to + column * plane.column_to, plane.column_to, streams);
      });
    });
  }
}

/// The mode along which the source is denser than along mode 0, or 0. Small planes gain nothing from tiles.
std::size_t column_mode(const StridedLoop& loop) {
  constexpr Index least = 16;
  std::size_t found = 0;
  for (std::size_t mode = 1; mode < loop.rank(); ++mode) {
    const Index stride = loop.stride(mode, from_side);
    const bool is_small = loop.extents[0] < least && loop.extents[0] * loop.extents[mode] < least;
    if (stride > 0 && stride < loop.stride(found, from_side) && !is_small) found = mode;
  }
  return found;
}

template <class Slot>
void copy_slots(const std::byte* from, std::byte* to, const StridedLoop& loop) {
  const std::size_t column = column_mode(loop);
  if (column == 0) {
    parallel_for(loop.size, Work{1},
                 [&](Index first, Index last) { copy_runs<Slot>(from, to, loop, first, last); });
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
  const bool streams = is_streamed(loop.size * bytes);
  // Threads share the rows of all planes, a few neighbouring ones at a time. Columns that begin whole pages
  // apart share a few places of the caches. Where rows are short, too, neighbouring planes fill the lines of
  // some columns of the target while these are there; then come the other columns.
  constexpr Index group = 64;
  constexpr Index page = 4096;
  const Index groups = (plane.rows - 1) / group + 1;
  const bool is_crowded = plane.column_to % page == 0 && plane.rows * bytes < cache_line && planes.size > 1;
  const Index some = is_crowded ? square_side : plane.columns;
  const Index parts = (plane.columns - 1) / some + 1;
  parallel_for(parts * planes.size * groups, Work{group * some}, [&](Index first, Index last) {
    for (; first < last; ++first) {
      const Index row = first % groups * group;
      const Index number = first / groups % planes.size;
      const Index start = first / groups / planes.size * some;
      Plane part = plane;
      part.rows = std::min(group, plane.rows - row);
      part.columns = std::min(some, plane.columns - start);
      for_each_run(planes, number, number + 1, [&](std::span<const Index> at, Index) {
        copy_rows<Slot>(from + at[from_side] * bytes + row * plane.row_from + start * plane.column_from,
                        to + at[to_side] * bytes + row * plane.row_to + start * plane.column_to, part,
                        streams);
      });
    }
    if (streams) end_streams();
  });
}

}  // namespace

void copy_plane(const std::byte* from, std::byte* to, const Plane& plane, Index slot_bytes,
                bool is_streamed) {
  if (slot_bytes == 1)
    copy_rows<std::uint8_t>(from, to, plane, is_streamed);
  else
    copy_rows<std::uint32_t>(from, to, plane, is_streamed);
}

void end_streams() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

void copy_strided(const std::byte* from, const Layout& from_layout, std::byte* to, const Layout& to_layout,
                  Index slot_bytes) {
  const std::array<const Layout*, 2> layouts{&from_layout, &to_layout};
  const StridedLoop loop = coalesce_together(to_layout.extents(), layouts);
  if (loop.rank() > 1 && !to_layout.is_injective())  // the last ordinal of a shared slot has to be the last
    return serial_for(loop.size, 1, [&](Index first, Index last) {
      if (slot_bytes == 1) return copy_runs<std::uint8_t>(from, to, loop, first, last);
      copy_runs<std::uint32_t>(from, to, loop, first, last);
    });
  copy_strided(from, to, loop, slot_bytes);
}

void copy_strided(const std::byte* from, std::byte* to, const StridedLoop& loop, Index slot_bytes) {
  const StridedLoop& ordered = loop.rank() > 1 ? in_target_order(loop) : loop;
  if (slot_bytes == 1)
    copy_slots<std::uint8_t>(from, to, ordered);
  else
    copy_slots<std::uint32_t>(from, to, ordered);
}

}  // namespace orlop::inline v0
