// The top-level modes that a call names, and which leaves of a layout belong to them.
#pragma once

#include <string_view>
#include <utility>

#include "layout/nest.hpp"
#include "orlop/base/scalar.hpp"

namespace orlop::inline v0 {

[[nodiscard]] inline Index product(std::span<const Index> extents) noexcept {
  Index count = 1;
  for (const Index extent : extents) count *= extent;
  return count;
}

/// The extents and strides of neighbouring leaves of one layout.
struct Leaves {
  std::span<const Index> extents;
  std::span<const Index> strides;

  [[nodiscard]] Index size() const noexcept { return product(extents); }
};

/// The leaves of the top-level modes `first` … `last - 1` of `layout`.
[[nodiscard]] inline Leaves leaves_of_modes(const Layout& layout, std::size_t first, std::size_t last) {
  std::size_t before = first;
  std::size_t count = last - first;
  if (!layout.is_flat()) {
    const Shape shape = layout.shape();
    detail::NestCursor cursor(shape.nest());
    before = count = 0;
    for (std::size_t mode = 0; mode < last; ++mode) (mode < first ? before : count) += cursor.skip().size();
  }
  return {layout.extents().subspan(before, count), layout.strides().subspan(before, count)};
}

/// The leaves of one top-level mode after the other, in one walk; the layout outlives it.
class ModeLeaves {
 public:
  explicit ModeLeaves(const Layout& layout) noexcept : layout_(&layout), cursor_(layout.shape().nest()) {}

  Leaves next() noexcept {
    const std::size_t count = cursor_.skip().size();
    const std::size_t first = std::exchange(before_, before_ + count);
    return {layout_->extents().subspan(first, count), layout_->strides().subspan(first, count)};
  }

 private:
  const Layout* layout_;
  detail::NestCursor cursor_;
  std::size_t before_ = 0;
};

/// The top-level mode that the integer `given` for `argument` names among `rank` (P52); ValueError.
[[nodiscard]] std::size_t to_mode(std::string_view operation, std::string_view argument, const Scalar& given,
                                  std::size_t rank);

/// The modes of `shape` before `mode`, all modes of `replacement`, the modes of `shape` after it.
[[nodiscard]] Shape with_mode_replaced(const Shape& shape, std::size_t mode, const Shape& replacement);

}  // namespace orlop::inline v0
