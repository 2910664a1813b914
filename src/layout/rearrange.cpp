// Extraction by a tree and rearrangement (M312, M318).
#include "nest.hpp"

namespace orlop::inline v0 {

namespace {

// Pairs the modes of a layout with the leaves of a tree, level by level.
class Extraction {
 public:
  explicit Extraction(std::vector<Layout>& out) : out_(out) {}

  void run(const Layout& layout, const Tree& tree) {
    detail::NestCursor cursor(tree.nest());
    level(layout, cursor, tree.rank());
  }

 private:
  void level(const Layout& layout, detail::NestCursor& tree, std::size_t items) {
    if (layout.rank() != items) raise_mismatch(layout, items);
    detail::ModeReader modes(layout);
    for (; items > 0; --items) {
      const bool is_leaf = modes.at_leaf();
      const Layout mode = modes.mode();
      if (tree.at_leaf()) {
        tree.take_leaf();
        out_.push_back(mode);
        continue;
      }
      const std::size_t parts = tree.open();
      if (is_leaf) raise_mismatch(mode, parts);
      level(mode, tree, parts);
    }
  }

  [[noreturn]] static void raise_mismatch(const Layout& layout, std::size_t items) {
    raise<ValueError>("Layout", "layout and tree profile do not match: ", items, " named for the modes of ",
                      layout.shape(), "; name every mode once, a nested one whole or in parentheses");
  }

  std::vector<Layout>& out_;
};

// Builds the layout that an output tree describes, from sources by number (M312).
class Placement {
 public:
  explicit Placement(std::span<const Layout> sources) : sources_(sources), placed_(sources.size()) {}

  Layout run(const Tree& output) {
    detail::NestCursor cursor(output.nest());
    Layout result = group(cursor, output.rank());
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (!placed_[i] && sources_[i].size() > 1)
        raise<ValueError>("rearrange", "Layout rearrange ids must include every extracted layout: source ", i,
                          " of size ", sources_[i].size(),
                          " is missing; only a source of size 1 may be dropped");
    return result;
  }

 private:
  Layout group(detail::NestCursor& cursor, std::size_t items) {
    std::vector<Layout> parts;
    for (; items > 0; --items)
      parts.push_back(cursor.at_leaf() ? place(cursor.take_leaf()) : group(cursor, cursor.open()));
    return Layout::make_layout(parts);
  }

  Layout place(Index id) {
    if (id < 0) return Layout::leaf(1, 0);
    const auto source = static_cast<std::size_t>(id);
    if (source >= sources_.size())
      raise<ValueError>("rearrange", "an id is out of range: ", id, " with ", sources_.size(), " sources");
    if (placed_[source])
      raise<ValueError>("rearrange", "an id is duplicated: ", id, "; place each source once");
    placed_[source] = true;
    return sources_[source];
  }

  std::span<const Layout> sources_;
  std::vector<bool> placed_;
};

// Copies the mode the cursor is at as it will stand after a rearrangement: a group of one leaf has collapsed.
// Its leaves become unnamed.
class Inversion {
 public:
  Tree selection(const Tree& output) {
    detail::NestCursor cursor(output.nest());
    items(cursor, output.rank());
    return Tree(builder_.finish());
  }
  /// The id of each leaf.
  [[nodiscard]] const std::vector<Index>& placed() const { return placed_; }

 private:
  void items(detail::NestCursor& cursor, std::size_t count) {
    for (; count > 0; --count) {
      if (cursor.at_leaf())
        leaf(cursor.take_leaf());
      else
        group(cursor);
    }
  }
  void group(detail::NestCursor& cursor) {
    detail::NestCursor end = cursor;
    const std::size_t leaves = end.skip().size();
    const std::size_t count = cursor.open();
    if (leaves > 1) builder_.push();
    items(cursor, count);
    if (leaves > 1) builder_.pop();
  }
  void leaf(Index id) {
    placed_.push_back(id);
    builder_.leaf(-1);
  }

  detail::NestBuilder builder_;
  std::vector<Index> placed_;
};

}  // namespace

std::vector<Layout> Layout::extract_profile() const {
  std::vector<Layout> out;
  for (std::size_t i = 0; i < extents().size(); ++i) out.push_back(leaf(extents()[i], strides()[i]));
  return out;
}

std::vector<Layout> Layout::extract_profile(const Tree& tree) const {
  std::vector<Layout> out;
  Extraction(out).run(*this, tree);
  return out;
}

Layout Layout::rearrange(const Tree& output) const { return Placement(extract_profile()).run(output); }

Layout Layout::rearrange(const Tree& output, const Tree& selection) const {
  return Placement(extract_profile(selection)).run(output);
}

std::pair<Tree, Tree> Layout::reverse_rearrange(const Tree& output, const Tree& selection) {
  const auto sources = static_cast<Index>(selection.size());
  Inversion inversion;
  Tree new_selection = inversion.selection(output);
  std::vector<Index> positions(selection.size(), -1);  // where each id went
  for (std::size_t position = 0; position < inversion.placed().size(); ++position) {
    const Index id = inversion.placed()[position];
    if (id < 0) continue;
    if (id >= sources)
      raise<ValueError>("reverse_rearrange", "an id is out of range: ", id, " with ", sources, " sources");
    Index& place = positions[static_cast<std::size_t>(id)];
    if (place >= 0) raise<ValueError>("reverse_rearrange", "an id is duplicated: ", id);
    place = static_cast<Index>(position);
  }
  return {Tree(detail::with_leaves(selection.nest(), positions)), std::move(new_selection)};
}

Layout Layout::coalesce_by_mode(const Tree& tree) const {
  // The tree's leaves, each coalesced and put back in its place.
  SmallVector<Index, 4> ids;
  for (std::size_t i = 0; i < tree.size(); ++i) ids.push_back(static_cast<Index>(i));
  std::vector<Layout> sources = extract_profile(tree);
  for (Layout& source : sources) source = source.coalesce();
  return Placement(sources).run(Tree(detail::with_leaves(tree.nest(), ids)));
}

}  // namespace orlop::inline v0
