// Extraction by a tree and rearrangement (M312, M318).
#include "nest.hpp"

namespace orlop::inline v0 {

namespace {

using Sources = std::vector<detail::ModeReader>;

// Pairs the modes of a layout with the leaves of a tree, level by level.
class Extraction {
 public:
  explicit Extraction(Sources& out) : out_(out) {}

  void run(const Layout& layout, const Tree& tree) {
    if (layout.rank() != tree.rank()) raise_mismatch(layout, tree.rank());
    detail::ModeReader modes(layout);
    detail::NestCursor cursor(tree.nest());
    level(modes, cursor, tree.rank());
  }

 private:
  void level(detail::ModeReader& modes, detail::NestCursor& tree, std::size_t items) {
    for (; items > 0; --items) {
      if (tree.at_leaf()) {
        tree.take_leaf();
        out_.push_back(modes);
        modes.skip();
        continue;
      }
      detail::ModeReader whole = modes;
      const std::size_t parts = tree.open();
      if (modes.at_leaf() || modes.open() != parts) raise_mismatch(whole.mode(), parts);
      level(modes, tree, parts);
    }
  }

  [[noreturn]] static void raise_mismatch(const Layout& layout, std::size_t items) {
    raise<ValueError>("Layout", "layout and tree profile do not match: ", items, " named for the modes of ",
                      layout.shape(), "; name every mode once, a nested one whole or in parentheses");
  }

  Sources& out_;
};

// Builds the layout that an output tree describes, from sources by number (M312).
class Placement {
 public:
  explicit Placement(const Sources& sources) : sources_(sources), placed_(sources.size()) {}

  Layout run(const Tree& output) {
    detail::NestCursor cursor(output.nest());
    for (std::size_t items = output.rank(); items > 0; --items) item(cursor);
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (!placed_[i]) check_size_of_one(i);
    return builder_.finish();
  }

 private:
  void item(detail::NestCursor& cursor) {
    if (cursor.at_leaf()) return place(cursor.take_leaf());
    const bool is_nested = weight(cursor) > 1;
    if (is_nested) builder_.push();
    for (std::size_t items = cursor.open(); items > 0; --items) item(cursor);
    if (is_nested) builder_.pop();
  }

  void place(Index id) {
    if (id < 0) return builder_.leaf(1, 0);
    const auto source = static_cast<std::size_t>(id);
    if (source >= sources_.size())
      raise<ValueError>("rearrange", "an id is out of range: ", id, " with ", sources_.size(), " sources");
    if (placed_[source])
      raise<ValueError>("rearrange", "an id is duplicated: ", id, "; place each source once");
    placed_[source] = true;
    detail::ModeReader mode = sources_[source];
    const std::size_t leaves = weight(mode);
    if (leaves > 1) return builder_.mode(mode);
    if (!mode.at_leaf()) mode.open();
    if (leaves == 0) return;
    const auto [extent, stride] = mode.leaf();
    builder_.leaf(extent, stride);
  }

  // How many leaves a mode is where it stands for its leaves alone (M311), 0 or 1; otherwise 2.
  static std::size_t weight(detail::ModeReader mode) {
    if (mode.at_leaf()) return 1;
    const std::size_t modes = mode.open();
    return modes == 0 ? 0 : modes == 1 && mode.at_leaf() ? 1 : 2;
  }
  [[nodiscard]] std::size_t weight(detail::NestCursor cursor) const {
    if (cursor.at_leaf()) {
      const Index id = cursor.take_leaf();
      const bool is_source = id >= 0 && static_cast<std::size_t>(id) < sources_.size();
      return is_source ? weight(sources_[static_cast<std::size_t>(id)]) : 1;
    }
    std::size_t all = 0;
    for (std::size_t items = cursor.open(); items > 0 && all < 2; --items) {
      all += weight(cursor);
      if (all < 2) cursor.skip();
    }
    return std::min<std::size_t>(all, 2);
  }

  void check_size_of_one(std::size_t source) const {
    if (const Index size = sources_[source].size(); size > 1)
      raise<ValueError>("rearrange", "Layout rearrange ids must include every extracted layout: source ",
                        source, " of size ", size, " is missing; only a source of size 1 may be dropped");
  }

  const Sources& sources_;
  std::vector<bool> placed_;
  detail::LayoutBuilder builder_;
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

std::vector<detail::ModeReader> detail::extract_modes(const Layout& layout, const Tree& tree) {
  Sources out;
  out.reserve(tree.size());
  Extraction(out).run(layout, tree);
  return out;
}

std::vector<Layout> Layout::extract_profile() const {
  std::vector<Layout> out;
  for (std::size_t i = 0; i < extents().size(); ++i) out.push_back(leaf(extents()[i], strides()[i]));
  return out;
}

std::vector<Layout> Layout::extract_profile(const Tree& tree) const {
  std::vector<Layout> out;
  for (detail::ModeReader mode : detail::extract_modes(*this, tree)) out.push_back(mode.mode());
  return out;
}

Layout Layout::rearrange(const Tree& output) const {
  Sources leaves;
  leaves.reserve(extents().size());
  for (detail::ModeReader modes(*this); leaves.size() < extents().size();) {
    if (!modes.at_leaf()) {
      modes.open();
      continue;
    }
    leaves.push_back(modes);
    modes.skip();
  }
  return Placement(leaves).run(output);
}

Layout Layout::rearrange(const Tree& output, const Tree& selection) const {
  return Placement(detail::extract_modes(*this, selection)).run(output);
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
  detail::LayoutBuilder builder;
  for (const Layout& source : extract_profile(tree)) {
    builder.push();
    builder.modes(source.coalesce());
    builder.pop();
  }
  const Layout coalesced = builder.finish();
  Sources modes;
  modes.reserve(coalesced.rank());
  for (detail::ModeReader reader(coalesced); reader.left() > 0; reader.skip()) modes.push_back(reader);
  return Placement(modes).run(Tree(detail::with_leaves(tree.nest(), ids)));
}

}  // namespace orlop::inline v0
