// Coalescing the modes of several layouts over one shape.
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

// Whether for every operand the step into mode `next` continues the loop's last mode.
bool continues(const StridedLoop& loop, std::span<const Layout* const> layouts, std::size_t next) {
  const Index extent = loop.extents.back();
  const std::size_t last = loop.rank() - 1;
  for (std::size_t operand = 0; operand < layouts.size(); ++operand) {
    Index expected;
    if (__builtin_mul_overflow(loop.stride(last, operand), extent, &expected)) return false;
    if (layouts[operand]->strides()[next] != expected) return false;
  }
  return true;
}

}  // namespace

StridedLoop coalesce_together(std::span<const Index> extents, std::span<const Layout* const> layouts) {
  StridedLoop loop;
  loop.operands = layouts.size();
  for (const Layout* layout : layouts)
    if (!std::equal(extents.begin(), extents.end(), layout->extents().begin(), layout->extents().end()))
      raise<ValueError>("coalesce_together", "the layouts must share their leaf extents: got ", *layout);
  for (std::size_t leaf = 0; leaf < extents.size(); ++leaf) {
    if (extents[leaf] == 1) continue;
    loop.size *= extents[leaf];  // fits: it is a layout's size
    if (!loop.extents.empty() && continues(loop, layouts, leaf)) {
      loop.extents.back() *= extents[leaf];
      continue;
    }
    loop.extents.push_back(extents[leaf]);
    for (const Layout* layout : layouts) loop.strides.push_back(layout->strides()[leaf]);
  }
  return loop;
}

}  // namespace orlop::inline v0
