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

// Whether for every operand the step into mode `next` continues the loop's last mode.
bool continues(const StridedLoop& loop, std::span<const Layout* const> layouts, std::size_t next) {
  const Index extent = loop.extents.back();
  const std::size_t last = loop.rank() - 1;
  for (std::size_t operand = 0; operand < layouts.size(); ++operand) {
    Index expected;
    if (__builtin_mul_overflow(loop.stride(last, operand), extent, &expected)) return false;
    if (step(layouts[operand], next) != expected) return false;
  }
  return true;
}

}  // namespace

StridedLoop coalesce_together(std::span<const Index> extents, std::span<const Layout* const> layouts) {
  StridedLoop loop;
  loop.operands = layouts.size();
  for (const Layout* layout : layouts)
    if (layout != nullptr && !spans(*layout, extents))
      raise<ValueError>("coalesce_together", "the layouts must share their leaf extents: got ", *layout);
  for (std::size_t leaf = 0; leaf < extents.size(); ++leaf) {
    if (extents[leaf] == 1) continue;
    loop.size *= extents[leaf];  // fits: it is a layout's size
    if (!loop.extents.empty() && continues(loop, layouts, leaf)) {
      loop.extents.back() *= extents[leaf];
      continue;
    }
    loop.extents.push_back(extents[leaf]);
    for (const Layout* layout : layouts) loop.strides.push_back(step(layout, leaf));
  }
  return loop;
}

}  // namespace orlop::inline v0
