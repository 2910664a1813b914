// Coalescing the modes of several layouts over one shape.
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

// How far `layout` moves in leaf `leaf`: nowhere in a leaf that only the loop is wider in.
Index step(const Layout* layout, std::size_t leaf) {
  return layout == nullptr || layout->extents()[leaf] == 1 ? 0 : layout->strides()[leaf];
}

bool spans(const Layout& layout, std::span<const Index> extents) {
  const auto fits = [](Index own, Index wanted) { return own == wanted || own == 1; };
  return std::equal(layout.extents().begin(), layout.extents().end(), extents.begin(), extents.end(), fits);
}

// `stride_of(operand, leaf)` is how far each operand moves in a leaf.
template <class StrideOf>
StridedLoop coalesce(std::span<const Index> extents, std::size_t operands, StrideOf stride_of) {
  StridedLoop loop;
  loop.operands = operands;
  // Whether for every operand the step into leaf `next` continues the loop's last mode.
  const auto continues = [&](std::size_t next) {
    const Index extent = loop.extents.back();
    for (std::size_t operand = 0; operand < operands; ++operand) {
      Index expected;
      if (__builtin_mul_overflow(loop.stride(loop.rank() - 1, operand), extent, &expected)) return false;
      if (stride_of(operand, next) != expected) return false;
    }
    return true;
  };
  for (std::size_t leaf = 0; leaf < extents.size(); ++leaf) {
    if (extents[leaf] == 1) continue;
    loop.size *= extents[leaf];  // fits: it is at most a layout's size
    if (!loop.extents.empty() && continues(leaf)) {
      loop.extents.back() *= extents[leaf];
      continue;
    }
    loop.extents.push_back(extents[leaf]);
    for (std::size_t operand = 0; operand < operands; ++operand)
      loop.strides.push_back(stride_of(operand, leaf));
  }
  return loop;
}

}  // namespace

StridedLoop coalesce_together(std::span<const Index> extents, std::span<const Layout* const> layouts) {
  for (const Layout* layout : layouts)
    if (layout != nullptr && !spans(*layout, extents))
      raise<ValueError>("coalesce_together", "the layouts must share their leaf extents: got ", *layout);
  return coalesce(extents, layouts.size(),
                  [&](std::size_t operand, std::size_t leaf) { return step(layouts[operand], leaf); });
}

StridedLoop coalesce_strides(std::span<const Index> extents,
                             std::span<const std::span<const Index>> strides) {
  return coalesce(extents, strides.size(),
                  [&](std::size_t operand, std::size_t leaf) { return strides[operand][leaf]; });
}

}  // namespace orlop::inline v0
