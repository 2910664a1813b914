// The layout algebra: composition, complement and division (M309, M314–M317).
#include <numeric>

#include "nest.hpp"
#include "orlop/base/checked.hpp"

namespace orlop::inline v0 {

namespace {

struct Leaf {
  Index extent;
  Index stride;
};

using Leaves = SmallVector<Leaf, 4>;

Layout flat_layout(const Leaves& leaves) {
  detail::LayoutBuilder builder;
  for (const Leaf& leaf : leaves) builder.leaf(leaf.extent, leaf.stride);
  return builder.finish();
}

// The leaves of `layout` that matter, by ascending stride.
Leaves sorted_leaves(const Layout& layout) {
  Leaves leaves;
  for (std::size_t i = 0; i < layout.extents().size(); ++i)
    if (layout.extents()[i] > 1) leaves.push_back({layout.extents()[i], layout.strides()[i]});
  std::stable_sort(leaves.begin(), leaves.end(),
                   [](const Leaf& a, const Leaf& b) { return a.stride < b.stride; });
  return leaves;
}

// What M314 could not do; `none` where it could.
enum class Obstacle { none, nested, choose, divisibility };

[[noreturn]] void raise_obstacle(Obstacle obstacle, const Layout& layout, Index number) {
  switch (obstacle) {
    case Obstacle::choose:
      raise<ValueError>("Layout", "cannot choose the d-th ordinals: d is ", number, " in ", layout,
                        "; d must divide into the extents from left to right");
    case Obstacle::divisibility:
      raise<ValueError>("Layout", "the divisibility condition fails: the first ", number, " ordinals of ",
                        layout, " are no layout; the number must divide into the extents from left to right");
    default:
      raise<ValueError>("Layout", "the layout must be flat: got ", layout, "; flatten it first");
  }
}

Leaves leaves_of(const Layout& layout) {
  Leaves leaves;
  for (std::size_t i = 0; i < layout.extents().size(); ++i)
    leaves.push_back({layout.extents()[i], layout.strides()[i]});
  return leaves;
}

// Only a leaf of extent 1 can leave 64 bits here; its stride moves nothing and stays as it is.
Index scaled(Index stride, Index factor) {
  Index product;
  return __builtin_mul_overflow(stride, factor, &product) ? stride : product;
}

// Divides d into the extents: afterwards the leaves give every d-th ordinal.
Obstacle choose_leaves(Leaves& leaves, Index d) {
  for (Leaf& leaf : leaves) {
    const Index stride = scaled(leaf.stride, d);
    if (d % leaf.extent == 0) {
      d /= leaf.extent;
      leaf.extent = 1;
    } else if (leaf.extent % d == 0) {
      leaf.extent /= d;
      d = 1;
    } else {
      return Obstacle::choose;
    }
    leaf.stride = stride;
  }
  return d == 1 ? Obstacle::none : Obstacle::choose;
}

// Keeps the first s ordinals.
Obstacle keep_leaves(Leaves& leaves, Index s) {
  for (Leaf& leaf : leaves) {
    if (s % leaf.extent == 0) {
      s /= leaf.extent;
    } else if (leaf.extent % s == 0) {
      leaf.extent = s;
      s = 1;
    } else {
      return Obstacle::divisibility;
    }
  }
  return s == 1 ? Obstacle::none : Obstacle::divisibility;
}

// Flat composition with one layout `outer`, leaf by leaf (M314).
class FlatComposition {
 public:
  explicit FlatComposition(const Layout& outer) : outer_(outer) {}

  // Reads `inner`'s modes; false where it does not work, see obstacle().
  bool modes(detail::LayoutBuilder& out, const Layout& inner) {
    const Shape shape = inner.shape();
    detail::NestCursor cursor(shape.nest());
    Strides strides{inner.strides()};
    for (std::size_t i = 0; i < inner.rank(); ++i)
      if (!mode(out, cursor, strides)) return false;
    return true;
  }

  [[noreturn]] void raise_failure() const { raise_obstacle(obstacle_, outer_, number_); }

 private:
  struct Strides {
    std::span<const Index> values;
    std::size_t next = 0;
    Index take() { return values[next++]; }
  };

  bool mode(detail::LayoutBuilder& out, detail::NestCursor& cursor, Strides& strides) {
    if (cursor.at_leaf()) return leaf(out, cursor.take_leaf(), strides.take());
    out.push();
    for (std::size_t n = cursor.open(); n > 0; --n)
      if (!mode(out, cursor, strides)) return false;
    out.pop();
    return true;
  }

  bool leaf(detail::LayoutBuilder& out, Index extent, Index stride) {
    if (!outer_.is_flat()) return fail(Obstacle::nested, 0);
    if (extent == 1) {
      out.leaf(1, 0);
    } else if (outer_.is_leaf() && outer_.rank() == 1) {
      out.leaf(extent, checked_multiply(outer_.strides()[0], stride, "Layout.compose"));
    } else if (stride == 0) {  // every ordinal is 0, and so is its index
      out.leaf(extent, 0);
    } else {
      Leaves leaves = leaves_of(outer_);
      if (const Obstacle obstacle = choose_leaves(leaves, stride); obstacle != Obstacle::none)
        return fail(obstacle, stride);
      if (const Obstacle obstacle = keep_leaves(leaves, extent); obstacle != Obstacle::none)
        return fail(obstacle, extent);
      out.append(flat_layout(leaves).coalesce());
    }
    return true;
  }

  bool fail(Obstacle obstacle, Index number) {
    obstacle_ = obstacle;
    number_ = number;
    return false;
  }

  const Layout& outer_;
  Obstacle obstacle_ = Obstacle::none;
  Index number_ = 0;
};

Layout compose_flat(const Layout& outer, const Layout& inner) {
  detail::LayoutBuilder builder;
  FlatComposition composition(outer);
  if (!composition.modes(builder, inner)) composition.raise_failure();
  return builder.finish();
}

// Sorted by stride the leaves count 1, e₁, e₁e₂, …: each ordinal of the codomain is met exactly once.
bool is_permuted_compact(const Layout& layout) {
  Index expected = 1;
  for (const Leaf& leaf : sorted_leaves(layout)) {
    if (leaf.stride != expected) return false;
    expected *= leaf.extent;
  }
  return true;
}

// Adds `result` where mode `tile` stands: under its own modes, or as the tile's one leaf.
void append_tile(detail::LayoutBuilder& out, const Layout& tile, const Layout& result) {
  if (tile.is_leaf())
    out.modes(result);
  else
    out.append(result);
}

void check_tiles(std::size_t tiles, std::size_t rank) {
  if (tiles > rank)
    raise<ValueError>("Layout", "there are more tiles than modes: ", tiles, " tiles for rank ", rank,
                      "; give at most one tile per top-level mode");
}

}  // namespace

std::optional<Index> Layout::uniform_preimage_extent(const Shape& target_shape) const {
  Index per_target = 1;
  Index expected = 1;
  for (const Leaf& leaf : sorted_leaves(*this)) {
    if (leaf.stride == 0) {
      per_target *= leaf.extent;
    } else {
      if (leaf.stride != expected) return std::nullopt;
      expected *= leaf.extent;
    }
  }
  if (target_shape.try_size() != expected) return std::nullopt;
  return per_target;
}

Layout Layout::choose(Index d) const {
  if (!is_flat()) raise_obstacle(Obstacle::nested, *this, 0);
  Leaves leaves = leaves_of(*this);
  const Obstacle obstacle = d < 1 ? Obstacle::choose : choose_leaves(leaves, d);
  if (obstacle != Obstacle::none) raise_obstacle(obstacle, *this, d);
  return flat_layout(leaves);
}

Layout Layout::modout(Index s) const {
  if (!is_flat()) raise_obstacle(Obstacle::nested, *this, 0);
  Leaves leaves = leaves_of(*this);
  const Obstacle obstacle = s < 1 ? Obstacle::divisibility : keep_leaves(leaves, s);
  if (obstacle != Obstacle::none) raise_obstacle(obstacle, *this, s);
  return flat_layout(leaves);
}

std::optional<Layout> Layout::try_compose(const Layout& inner) const {
  detail::check_composable(inner.cosize(), size());
  if (inner.is_identity() && inner.data_->shape == data_->shape) return *this;
  if (is_identity() && size() == inner.cosize()) return inner;
  if (const auto step = constant_step()) {
    SmallVector<Index, 4> strides;
    for (const Index stride : inner.strides()) strides.push_back(scaled(stride, *step));
    return Layout(inner.shape(), Stride(detail::with_leaves(inner.shape().nest(), strides)));
  }
  if (!is_flat() || !is_permuted_compact(inner)) return std::nullopt;
  detail::LayoutBuilder builder;
  if (!FlatComposition(*this).modes(builder, inner)) return std::nullopt;
  return builder.finish();
}

Ref<IndexMap> Layout::compose_with(const Ref<IndexMap>& inner) const {
  const auto* layout = dynamic_cast<const Layout*>(inner.get());
  if (layout == nullptr) return nullptr;
  auto result = try_compose(*layout);
  return result ? Ref<IndexMap>(make_ref<Layout>(std::move(*result))) : nullptr;
}

Layout Layout::compose(const Shape& tile) const {
  std::vector<Layout> tiler;
  tiler.reserve(tile.rank());
  detail::NestCursor modes(tile.nest());
  while (tiler.size() < tile.rank()) tiler.push_back(canonical(Shape(detail::take_mode(modes))));
  return compose(tiler);
}

Layout Layout::compose(Sequence<Layout> tiler) const {
  if (tiler.empty()) return *this;
  check_tiles(tiler.size(), rank());
  detail::LayoutBuilder builder;
  detail::ModeReader modes(*this);
  for (std::size_t i = 0; i < tiler.size(); ++i) {
    const Layout mode = modes.mode();
    if (tiler[i].cosize() > mode.size())
      raise<ValueError>("Layout.compose", "tile ", i, " reaches beyond its mode: cosize ", tiler[i].cosize(),
                        ", mode size ", mode.size(), "; use a tile within the mode");
    append_tile(builder, tiler[i], compose_flat(mode, tiler[i]));
  }
  builder.modes(modes);
  return builder.finish();
}

Layout Layout::complement(Index cotarget) const {
  if (cotarget < 1) raise<ValueError>("Layout.complement", "the cotarget must be at least 1: got ", cotarget);
  const Leaves leaves = sorted_leaves(*this);
  if (leaves.empty()) return leaf(cotarget, 1);
  Leaves gaps;
  Index covered = 1;  // indices below this are made by what came so far
  const auto add_gap = [&](Index up_to) {
    if (up_to % covered != 0)
      raise<ValueError>("Layout.complement", "the layout is incongruent: ", covered, " does not divide ",
                        up_to, " in ", *this, " with cotarget ", cotarget);
    if (up_to > covered) gaps.push_back({up_to / covered, covered});
  };
  for (const Leaf& leaf : leaves) {
    if (leaf.stride < covered)
      raise<ValueError>("Layout.complement", "the layout overlaps with itself: ", *this);
    add_gap(leaf.stride);
    if (__builtin_mul_overflow(leaf.stride, leaf.extent, &covered) || covered > cotarget)
      raise<ValueError>("Layout.complement", "the layout is larger than cotarget: ", *this, ", cotarget ",
                        cotarget);
  }
  add_gap(cotarget);
  return flat_layout(gaps);
}

Layout Layout::divide(const Layout& tile) const {
  const Layout parts[] = {tile, tile.complement(size())};
  return compose_flat(*this, make_layout(parts));
}

Layout Layout::divide_tiler(Sequence<Layout> tiler) const {
  if (tiler.empty()) return *this;
  check_tiles(tiler.size(), rank());
  detail::LayoutBuilder builder;
  detail::ModeReader modes(*this);
  for (const Layout& tile : tiler) builder.append(modes.mode().divide(tile));
  builder.modes(modes);
  return builder.finish();
}

Layout Layout::zipped_divide(Sequence<Layout> tiler) const {
  if (tiler.empty()) return *this;
  check_tiles(tiler.size(), rank());
  detail::LayoutBuilder tiles;
  detail::LayoutBuilder remainders;
  detail::ModeReader modes(*this);
  for (const Layout& tile : tiler) {
    const Layout mode = modes.mode();
    append_tile(tiles, tile, compose_flat(mode, tile));
    const Layout remainder = tile.complement(mode.size());
    append_tile(remainders, remainder, compose_flat(mode, remainder));
  }
  Layout rest = remainders.finish();
  if (rest.rank() == 0) rest = leaf(1, 0);
  detail::LayoutBuilder builder;
  builder.append(tiles.finish());
  builder.append(rest);
  builder.modes(modes);
  return builder.finish();
}

}  // namespace orlop::inline v0
