// What the geometry of steps counts with: leaves, ordinals and the strides they stand for.
#pragma once

#include <span>
#include <vector>

#include "operation/modes.hpp"
#include "orlop/layout/layout.hpp"

namespace orlop::inline v0 {

/// Extents or strides of leaves, few enough to stand in place.
using Numbers = SmallVector<Index, 6>;

/// The products of all earlier factors.
[[nodiscard]] inline std::vector<Index> steps_of(std::span<const Index> extents) {
  std::vector<Index> steps;
  steps.reserve(extents.size());
  Index step = 1;
  for (const Index extent : extents) {
    steps.push_back(step);
    step *= extent;
  }
  return steps;
}

[[nodiscard]] inline Layout flat_layout(std::span<const Index> extents, std::span<const Index> strides) {
  return {Shape::flat(extents), Stride::flat(strides)};
}

/// Σ coordinate · stride over the leaves at an ordinal.
[[nodiscard]] inline Index at_ordinal(std::span<const Index> extents, std::span<const Index> strides,
                                      Index ordinal) {
  Index result = 0;
  for (std::size_t leaf = 0; leaf < extents.size(); ++leaf) {
    result += ordinal % extents[leaf] * strides[leaf];
    ordinal /= extents[leaf];
  }
  return result;
}

}  // namespace orlop::inline v0
