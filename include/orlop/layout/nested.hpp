// A nested value: one leaf, or a list of nested values. It spells shapes, strides, coordinates and trees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/base/sequence.hpp"

namespace orlop::inline v0 {

/// The deepest nest accepted anywhere in the layout layer: `(1,)` has depth 1, `((1,),)` depth 2.
inline constexpr std::size_t max_nesting_depth = 64;

/// Throws the ValueError about a nest deeper than max_nesting_depth.
[[noreturn]] ORLOP_API void raise_nested_too_deeply();

/// One leaf or a list of nested values: `{2, {3, 4}}` is the list of 2 and the list of 3 and 4.
template <class T>
class Nested {
 public:
  template <class V>
    requires(std::is_convertible_v<V, T> && !(std::is_integral_v<T> && std::is_floating_point_v<V>))
  Nested(const V& leaf) : leaf_(leaf) {}
  Nested(std::initializer_list<Nested> items) : Nested(std::vector<Nested>(items)) {}
  /// The list of these items. ValueError beyond max_nesting_depth.
  Nested(std::vector<Nested> items) : is_leaf_(false), depth_(1), items_(std::move(items)) {
    for (const Nested& item : items_) depth_ = std::max(depth_, item.depth_ + 1);
    if (depth_ > max_nesting_depth) raise_nested_too_deeply();
  }

  [[nodiscard]] bool is_leaf() const noexcept { return is_leaf_; }
  /// Levels of lists; 0 for a leaf.
  [[nodiscard]] std::size_t depth() const noexcept { return depth_; }
  /// The leaf's value; only where is_leaf().
  [[nodiscard]] const T& leaf() const noexcept { return leaf_; }
  /// The list's items; empty for a leaf.
  [[nodiscard]] std::span<const Nested> items() const noexcept { return items_; }

  friend bool operator==(const Nested& a, const Nested& b) {
    return a.is_leaf_ == b.is_leaf_ && (a.is_leaf_ ? a.leaf_ == b.leaf_ : a.items_ == b.items_);
  }

 private:
  bool is_leaf_ = true;
  std::size_t depth_ = 0;
  T leaf_{};
  std::vector<Nested> items_;
};

/// Where a layout is asked: an ordinal, or one coordinate per mode, each again an ordinal of its mode or a
/// nest.
using Coordinate = Nested<Index>;

/// As Python writes it: `(2, (3, 4))`, `(2,)`, `()`, `7`.
[[nodiscard]] ORLOP_API std::string to_string(const Coordinate& coordinate);

}  // namespace orlop::inline v0
