// The layout arithmetic of the zero-copy views (M501–M503): what each makes of a placement or an adjacent
// layout. permute, broadcast_to and rearrange are members of Layout.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "orlop/layout/layout.hpp"

namespace orlop::inline v0 {

/// `start:stop:step` as Python reads it: what is left out is the whole mode in steps of 1; negative bounds
/// count from the end.
struct SliceRange {
  std::optional<Index> start{};
  std::optional<Index> stop{};
  std::optional<Index> step{};
};

/// The key of one top-level mode: an index, which drops the mode, or a range, of which `{}` keeps it whole.
using SliceKey = std::variant<SliceRange, Index>;
using SliceKeys = std::vector<SliceKey>;

/// What a view makes of a layout.
struct LayoutView {
  Layout layout;
  Index offset = 0;         ///< from the source's first slot to the view's
  bool is_shifted = false;  ///< some mode starts behind its coordinate 0
};

/// One key per top-level mode, each checked in turn (M502). ValueError ‹exactly one key per top-level mode›,
/// ‹out of domain›, ‹positive step›, ‹non-empty›, ‹divisible by its step›, ‹whole slices›.
/// `(6,8):(1,6)` by `{3, SliceRange{2, 8, 3}}` is `2:18` at offset 15.
[[nodiscard]] ORLOP_API LayoutView slice_layout(const Layout& layout, std::span<const SliceKey> keys);
/// `count` keys for slice_layout, made one by one: `key_of` gives the key of each top-level mode, told
/// whether it is a leaf, and the key is checked as slice_layout would before the next one is asked for.
[[nodiscard]] ORLOP_API SliceKeys
checked_slice_keys(const Layout& layout, std::size_t count,
                   const std::function<SliceKey(std::size_t mode, bool is_leaf)>& key_of);

/// The same ordinals in another shape. ValueError ‹same logical size›, ‹coalesces to one logical leaf›.
[[nodiscard]] ORLOP_API Layout reshape_layout(const Layout& layout, const Shape& shape);

/// At coordinate q the index of ordinal B(q), B = shape:stride (M503). ValueError: nesting, ‹mapping must be
/// injective›, ‹exceeds the input›, ‹not representable›. `(3,4):(4,1)` by `3:4` is `3:5`.
[[nodiscard]] ORLOP_API Layout as_strided_layout(const Layout& layout, const Shape& shape,
                                                 const Stride& stride);

/// Without top-level mode `dim`, a leaf of extent 1; dim in [-n, n). ValueError.
[[nodiscard]] ORLOP_API Layout squeeze_layout(const Layout& layout, Index dim);

/// With a new leaf `1:0` as top-level mode `dim`; dim in [-n-1, n]. ValueError.
[[nodiscard]] ORLOP_API Layout unsqueeze_layout(const Layout& layout, Index dim);

/// The checks of broadcast_in_dim: one target mode per source mode, in range, strictly increasing.
/// ValueError.
ORLOP_API void check_broadcast_dimensions(const Layout& layout, const Shape& target,
                                          std::span<const Index> broadcast_dimensions);

}  // namespace orlop::inline v0
