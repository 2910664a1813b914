// Copying elements between two layouts of one shape in host memory.
#pragma once

#include <cstddef>

#include "orlop/layout/layout.hpp"

namespace orlop::inline v0 {

/// For every ordinal i: the slot at `to + to_layout(i)` becomes the one at `from + from_layout(i)`, in
/// ordinal order. Both layouts have as many leaves with the same extents.
void copy_strided(const std::byte* from, const Layout& from_layout, std::byte* to, const Layout& to_layout,
                  Index slot_bytes);

}  // namespace orlop::inline v0
