// Layout: where the element of each coordinate lies, as extents and strides in nested modes (M305–M318).
#pragma once

#include <atomic>
#include <utility>

#include "orlop/layout/index_map.hpp"
#include "orlop/layout/tree.hpp"

namespace orlop::inline v0 {

namespace detail {

/// What all copies of a Layout share.
struct LayoutData {
  LayoutData(Shape shape_, Stride stride_);
  const Shape shape;
  const Stride stride;
  const Index size;
  const Index cosize;
  const bool is_canonical;
  mutable std::atomic<signed char> is_injective{-1};  // -1: not yet asked
};

}  // namespace detail

/// A strided map from coordinates to indices: index = Σ coordinate · stride over the leaves. An ordinal
/// counts coordinates with the first mode fastest, at every depth. A value: copies share their data.
///
/// `Layout(Shape{4, 3}, Stride{3, 20})(7)` is 29.
class ORLOP_API Layout final : public IndexMap {
 public:
  /// Rank zero: size 1, index 0.
  Layout();
  /// ValueError ‹do not match in Structure›; OverflowError where size or cosize leaves 64 bits.
  Layout(Shape shape, Stride stride);
  /// Compact strides, first mode fastest at every depth.
  [[nodiscard]] static Layout canonical(const Shape& shape);
  /// One leaf.
  [[nodiscard]] static Layout leaf(Index extent, Index stride);
  [[nodiscard]] static Layout empty() { return {}; }

  // What it is.

  [[nodiscard]] Shape shape() const override { return data_->shape; }
  [[nodiscard]] Stride stride() const { return data_->stride; }
  [[nodiscard]] Index size() const noexcept { return data_->size; }
  /// One more than the greatest index.
  [[nodiscard]] Index cosize() const noexcept { return data_->cosize; }
  [[nodiscard]] Index codomain_size() const override { return data_->cosize; }
  [[nodiscard]] std::size_t rank() const noexcept { return data_->shape.rank(); }
  [[nodiscard]] std::size_t depth() const noexcept { return data_->shape.depth(); }
  [[nodiscard]] bool is_flat() const noexcept { return data_->shape.is_flat(); }
  /// At most one mode, and that one a leaf.
  [[nodiscard]] bool is_leaf() const noexcept { return data_->shape.is_int(); }
  /// Extents and strides of the leaves, depth-first.
  [[nodiscard]] std::span<const Index> extents() const noexcept { return data_->shape.leaves(); }
  [[nodiscard]] std::span<const Index> strides() const noexcept { return data_->stride.leaves(); }
  /// The nest of the modes as Leaf, Push and Pop.
  [[nodiscard]] std::vector<Node> profile() const;
  [[nodiscard]] std::size_t hash() const noexcept;
  /// `Layout( Shape<(3, 4)>, Stride<(2, 10)>)`
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Layout& a, const Layout& b) noexcept {
    return a.data_ == b.data_ || (a.data_->shape == b.data_->shape && a.data_->stride == b.data_->stride);
  }
  /// Whether both share their data: a fast test that may say no for equal layouts.
  [[nodiscard]] bool same_data(const Layout& other) const noexcept { return data_ == other.data_; }

  /// Equal to canonical(shape()).
  [[nodiscard]] bool is_canonical() const noexcept { return data_->is_canonical; }
  /// No two ordinals share an index: exact, and computed once.
  [[nodiscard]] bool is_injective() const;
  [[nodiscard]] std::optional<bool> injectivity() const override { return is_injective(); }
  /// Injective once leaves of stride zero shrink to extent 1; so is every injective layout.
  [[nodiscard]] bool is_broadcast_aliasing() const;
  /// The step b where coalesce() is one leaf of stride b, that is index = b · ordinal throughout.
  [[nodiscard]] std::optional<Index> constant_step() const;
  /// The index is the ordinal and every index of the codomain is taken.
  [[nodiscard]] bool is_identity() const;
  [[nodiscard]] bool composition_is_identity() const override { return is_identity(); }

  // Where things lie.

  /// The index at an ordinal. ValueError ‹Key is not in domain of shape›.
  [[nodiscard]] Index operator()(Index ordinal) const {
    if (ordinal < 0 || ordinal >= data_->size) raise_not_in_domain(ordinal);
    return index_ordinal(ordinal);
  }
  /// The index at a coordinate. ValueError ‹Key is not in domain of shape›.
  [[nodiscard]] Index operator()(const Coordinate& coordinate) const { return index(coordinate); }
  [[nodiscard]] Index index(const Coordinate& coordinate) const override;
  [[nodiscard]] Index index_ordinal(Index ordinal) const override;

  // Modes.

  /// Top-level mode `i`, where a nested mode's children become the top modes. IndexError.
  [[nodiscard]] Layout mode(std::size_t i) const;
  /// These top-level modes, in this order, each as it is. IndexError.
  [[nodiscard]] Layout select(Sequence<std::size_t> modes) const;
  /// Every top-level mode once, in this order. ValueError ‹must reorder every layout mode›.
  [[nodiscard]] Layout permute(Sequence<Index> order) const;
  /// The modes of `a`, then those of `b`.
  [[nodiscard]] static Layout concat(const Layout& a, const Layout& b);
  /// `b` as one nested mode after those of `a`; a `b` of at most one leaf is concatenated instead.
  [[nodiscard]] static Layout append(const Layout& a, const Layout& b);
  /// Appends all to rank zero.
  [[nodiscard]] static Layout make_layout(Sequence<Layout> layouts);
  /// Widens extent-1 leaves to `target` with stride zero. ValueError ‹same shape profile›, ‹can only widen an
  /// extent-1 leaf›.
  [[nodiscard]] Layout broadcast_to(const Shape& target) const;

  /// Every leaf, or one sublayout per leaf of `tree`. ValueError ‹tree profile do not match›.
  [[nodiscard]] std::vector<Layout> extract_profile() const;
  [[nodiscard]] std::vector<Layout> extract_profile(const Tree& tree) const;
  /// Places the extracted layouts as `output` says (M312).
  [[nodiscard]] Layout rearrange(const Tree& output) const;
  [[nodiscard]] Layout rearrange(const Tree& output, const Tree& selection) const;
  /// The output and selection that undo a rearrangement whose sources are leaves; dropped singletons return
  /// as `1:0`.
  [[nodiscard]] static std::pair<Tree, Tree> reverse_rearrange(const Tree& output, const Tree& selection);

  /// Drops extent-1 leaves and merges neighbours where the next stride is extent · stride; flat. All ones:
  /// the first leaf.
  [[nodiscard]] Layout coalesce() const;
  /// Coalesces each sublayout that a leaf of `tree` stands for.
  [[nodiscard]] Layout coalesce_by_mode(const Tree& tree) const;
  /// All leaves as top-level modes.
  [[nodiscard]] Layout flatten() const;

  // The algebra (M309, M314–M317).

  /// The common number of ordinals per target where the image is exactly the ordinals of `target_shape`, each
  /// met equally often through leaves of stride zero; else nothing.
  [[nodiscard]] std::optional<Index> uniform_preimage_extent(const Shape& target_shape) const;
  /// The flat layout of every d-th ordinal. ValueError ‹choose the d-th›; nested ValueError.
  [[nodiscard]] Layout choose(Index d) const;
  /// The flat layout of the first s ordinals. ValueError ‹divisibility condition›; nested ValueError.
  [[nodiscard]] Layout modout(Index s) const;
  /// q ↦ this(inner(q)) where that is again a Layout, else nothing. ValueError ‹inner codomain exceeds›.
  [[nodiscard]] std::optional<Layout> try_compose(const Layout& inner) const;
  /// Composes each leading mode with a compact tile of that mode's shape. ValueError ‹more tiles›.
  [[nodiscard]] Layout compose(const Shape& tile) const;
  /// Composes each leading mode with one layout. ValueError ‹more tiles›, a tile beyond its mode.
  [[nodiscard]] Layout compose(Sequence<Layout> tiler) const;
  /// What is left of `cotarget` indices beside this layout's. ValueError (M316).
  [[nodiscard]] Layout complement(Index cotarget) const;
  /// (tile, rest) of the whole layout, of each leading mode, and of each leading mode with tiles grouped
  /// first.
  [[nodiscard]] Layout divide(const Layout& tile) const;
  [[nodiscard]] Layout divide_tiler(Sequence<Layout> tiler) const;
  [[nodiscard]] Layout zipped_divide(Sequence<Layout> tiler) const;

  [[nodiscard]] Ref<IndexMap> compose_with(const Ref<IndexMap>& inner) const override;

 private:
  explicit Layout(std::shared_ptr<const detail::LayoutData> data) noexcept : data_(std::move(data)) {}
  [[noreturn]] void raise_not_in_domain(const Coordinate& coordinate) const;

  std::shared_ptr<const detail::LayoutData> data_;
};

}  // namespace orlop::inline v0
