// Extents and the rule of uniform blocks.
#include "orlop/dtype/representation.hpp"

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

BlockExtent::BlockExtent(Index count) : count_(count) {
  if (count < 1) raise<ValueError>("extent", "an extent must be at least 1, or Whole: got ", count);
}

std::string BlockExtent::to_string() const { return is_whole() ? "Whole" : text(count_); }

void BlockExtent::append_to(Structure& structure) const {
  is_whole() ? structure.whole() : structure.integer(count_);
}

RepresentationValidationContext::~RepresentationValidationContext() = default;

LevelExtent::LevelExtent(Index level, BlockExtent extent) : level_(level), extent_(extent) {
  if (level < 0) raise<ValueError>("LevelExtent", "level must be at least 0: got ", level);
}

void LevelExtent::validate(const RepresentationValidationContext& context) const {
  const auto fail = [&](const auto&... parts) {
    throw ValueError(
        text(context.logical_dtype().name(), " LevelExtent rule at level ", level_, ' ', parts...));
  };
  if (level_ >= context.adjacent_count())
    fail("has no adjacent layout: the representation has ", context.adjacent_count(),
         "; give it one more level");
  const Index source = context.level_size(level_);
  const Index target = context.level_size(level_ + 1);
  Index expected;
  if (extent_.is_whole()) {
    if (target != 1)
      fail("requires one target for the complete source level: ", source, " coordinates map to ", target);
    expected = source;
  } else {
    expected = extent_.count();
    if (source % expected != 0 || target != source / expected)
      fail("requires target cardinality ", source, " / ", expected, ": got ", target,
           "; the extent must divide the source level");
  }
  const std::optional<Index> extent = context.uniform_preimage_extent(level_);
  if (!extent)
    fail("overlaps targets or leaves holes: each of the ", target, " targets must take exactly ", expected,
         " coordinates");
  if (*extent != expected)
    fail("maps ", *extent, " coordinates to each target; the rule requires ", expected);
}

Structure LevelExtent::structure() const {
  Structure structure;
  structure.string("orlop.carriers.dtype").string("LevelExtent").open().integer(level_);
  extent_.append_to(structure);
  structure.close();
  return structure;
}

}  // namespace orlop::inline v0
