// Which leaves of a layout belong to which of its top-level modes.
#pragma once

#include "layout/nest.hpp"

namespace orlop::inline v0 {

/// The extents and strides of neighbouring leaves of one layout.
struct Leaves {
  std::span<const Index> extents;
  std::span<const Index> strides;

  /// The product of the extents.
  [[nodiscard]] Index size() const noexcept {
    Index product = 1;
    for (const Index extent : extents) product *= extent;
    return product;
  }
};

/// The leaves of the top-level modes `first` … `last - 1` of `layout`.
[[nodiscard]] inline Leaves leaves_of_modes(const Layout& layout, std::size_t first, std::size_t last) {
  const Shape shape = layout.shape();
  detail::NestCursor cursor(shape.nest());
  std::size_t before = 0;
  std::size_t count = 0;
  for (std::size_t mode = 0; mode < last; ++mode) (mode < first ? before : count) += cursor.skip().size();
  return {layout.extents().subspan(before, count), layout.strides().subspan(before, count)};
}

}  // namespace orlop::inline v0
