// Copying elements between two layouts of one shape in host memory.
#pragma once

#include <cstddef>

#include "orlop/layout/iteration.hpp"
#include "orlop/layout/layout.hpp"

namespace orlop::inline v0 {

/// For every ordinal i: the slot at `to + to_layout(i)` becomes the one at `from + from_layout(i)`, in
/// ordinal order. Both layouts have as many leaves with the same extents.
void copy_strided(const std::byte* from, const Layout& from_layout, std::byte* to, const Layout& to_layout,
                  Index slot_bytes);

/// The same by the ordinals of a loop with the operands `from` and `to`; no two of them share a slot of `to`.
void copy_strided(const std::byte* from, std::byte* to, const StridedLoop& loop, Index slot_bytes);

/// Two modes of a copy, strides in bytes.
struct Plane {
  Index rows, row_from, row_to;
  Index columns, column_from, column_to;
};

/// Copies a plane of slots; fastest where the target is dense along rows and the source along columns. A
/// target that is not read soon need not pass through the caches: `is_streamed`. After such copies
/// end_streams follows, once, as it waits for memory.
void copy_plane(const std::byte* from, std::byte* to, const Plane& plane, Index slot_bytes,
                bool is_streamed = false);

/// Before another thread hears that the slots of streamed copies are there.
void end_streams() noexcept;

/// Whether a target of so many bytes is more than a core's own caches hold.
[[nodiscard]] constexpr bool is_streamed(Index bytes) { return bytes >= Index{8} << 20; }

}  // namespace orlop::inline v0
