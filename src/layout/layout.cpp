// Layout: construction, evaluation, and selection and joining of modes.
#include "orlop/layout/layout.hpp"

#include "nest.hpp"
#include "orlop/base/checked.hpp"

namespace orlop::inline v0 {

namespace {

Index cosize_of(const Shape& shape, const Stride& stride) {
  Index cosize = 1;
  for (std::size_t i = 0; i < shape.leaves().size(); ++i)
    cosize =
        checked_add(cosize, checked_multiply(shape.leaves()[i] - 1, stride.leaves()[i], "Layout"), "Layout");
  return cosize;
}

bool has_compact_strides(const Shape& shape, const Stride& stride) {
  Index expected = 1;
  for (std::size_t i = 0; i < shape.leaves().size(); ++i) {
    if (stride.leaves()[i] != expected) return false;
    expected *= shape.leaves()[i];  // the size fits
  }
  return true;
}

}  // namespace

detail::LayoutData::LayoutData(Shape shape_, Stride stride_)
    : shape(std::move(shape_)),
      stride(std::move(stride_)),
      size(shape.size()),
      cosize(cosize_of(shape, stride)),
      is_canonical(has_compact_strides(shape, stride)) {
  if (is_canonical) is_injective = 1;
}

Layout::Layout()
    : data_([] {
        static const auto rank_zero = std::make_shared<const detail::LayoutData>(Shape(), Stride());
        return rank_zero;
      }()) {}

Layout::Layout(Shape shape, Stride stride) {
  if (!shape.same_profile(stride))
    raise<ValueError>("Layout", "shape and stride do not match in Structure: ", shape, " and ", stride,
                      "; nest both alike");
  data_ = std::make_shared<const detail::LayoutData>(std::move(shape), std::move(stride));
}

Layout Layout::canonical(const Shape& shape) {
  (void)shape.size();  // an overflow is the shape's error
  SmallVector<Index, 4> strides;
  Index step = 1;
  for (const Index extent : shape.leaves()) {
    strides.push_back(step);
    step *= extent;
  }
  return Layout(shape, Stride(detail::with_leaves(shape.nest(), strides)));
}

Layout Layout::leaf(Index extent, Index stride) {
  return Layout(Shape::flat(std::span(&extent, 1)), Stride::flat(std::span(&stride, 1)));
}

std::vector<Node> Layout::profile() const { return detail::recipe_of(shape().nest()); }

std::size_t Layout::hash() const noexcept { return detail::mix(data_->shape.hash(), data_->stride.hash()); }

std::string Layout::to_string() const { return text("Layout( ", data_->shape, ", ", data_->stride, ')'); }

void Layout::raise_not_in_domain(const Coordinate& coordinate) const {
  raise<ValueError>("Layout",
                    "Key is not in domain of shape: ", detail::misfit_text(data_->shape, coordinate));
}

Index Layout::index(const Coordinate& coordinate) const {
  if (coordinate.is_leaf()) return (*this)(coordinate.leaf());
  const auto coordinates = data_->shape.leaf_coordinates(coordinate);
  if (!coordinates) raise_not_in_domain(coordinate);
  Index index = 0;
  for (std::size_t i = 0; i < coordinates->size(); ++i) index += (*coordinates)[i] * strides()[i];
  return index;
}

Index Layout::index_ordinal(Index ordinal) const {
  if (data_->is_canonical) return ordinal;
  const std::span<const Index> extents = this->extents();
  const std::span<const Index> strides = this->strides();
  Index index = 0;
  for (std::size_t i = 0; i + 1 < extents.size(); ++i) {
    index += ordinal % extents[i] * strides[i];
    ordinal /= extents[i];
  }
  return extents.empty() ? index : index + ordinal * strides.back();
}

bool Layout::is_broadcast_aliasing() const {
  if (is_injective()) return true;
  SmallVector<Index, 4> extents(this->extents());
  for (std::size_t i = 0; i < extents.size(); ++i)
    if (strides()[i] == 0) extents[i] = 1;
  return Layout(Shape::flat(extents), Stride::flat(strides())).is_injective();
}

std::optional<Index> Layout::constant_step() const {
  std::optional<Index> step;
  Index expected = 0;
  for (std::size_t i = 0; i < extents().size(); ++i) {
    const Index extent = extents()[i];
    const Index stride = strides()[i];
    if (extent == 1) continue;
    if (!step)
      step = stride;
    else if (stride != expected)
      return std::nullopt;
    // Beyond 64 bits no later stride can be the expected one.
    if (__builtin_mul_overflow(stride, extent, &expected)) expected = -1;
  }
  if (!step && !strides().empty()) return strides()[0];
  return step;
}

bool Layout::is_identity() const {
  return size() == 1 ? cosize() == 1 : size() == cosize() && constant_step() == 1;
}

Layout Layout::mode(std::size_t i) const { return Layout(data_->shape.mode(i), data_->stride.mode(i)); }

Layout Layout::select(Sequence<std::size_t> modes) const {
  return Layout(data_->shape.select(modes), data_->stride.select(modes));
}

Layout Layout::permute(Sequence<Index> order) const {
  SmallVector<Index, 8> seen(rank());
  SmallVector<std::size_t, 8> modes;
  bool complete = order.size() == rank();
  for (const Index mode : order) {
    complete = complete && mode >= 0 && mode < static_cast<Index>(rank()) &&
               seen[static_cast<std::size_t>(mode)]++ == 0;
    modes.push_back(static_cast<std::size_t>(mode));
  }
  if (!complete)
    raise<ValueError>("permute", "the order must reorder every layout mode: got ",
                      orlop::to_string(Coordinate(std::vector<Coordinate>(order.begin(), order.end()))),
                      " for rank ", rank(), "; name each mode from 0 up to rank - 1 once");
  return select(modes);
}

Layout Layout::concat(const Layout& a, const Layout& b) {
  detail::LayoutBuilder builder;
  builder.modes(a);
  builder.modes(b);
  return builder.finish();
}

Layout Layout::append(const Layout& a, const Layout& b) {
  detail::LayoutBuilder builder;
  builder.modes(a);
  builder.append(b);
  return builder.finish();
}

Layout Layout::make_layout(Sequence<Layout> layouts) {
  detail::LayoutBuilder builder;
  for (const Layout& layout : layouts) builder.append(layout);
  return builder.finish();
}

Layout Layout::broadcast_to(const Shape& target) const {
  if (!target.same_profile(data_->shape))
    raise<ValueError>("broadcast_to", "the target must have the same shape profile: ", target, " from ",
                      data_->shape);
  SmallVector<Index, 4> strides(this->strides());
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (extents()[i] == target.leaves()[i]) continue;
    if (extents()[i] != 1)
      raise<ValueError>("broadcast_to", "broadcasting can only widen an extent-1 leaf: leaf ", i,
                        " has extent ", extents()[i], ", the target ", target.leaves()[i]);
    strides[i] = 0;
  }
  return Layout(target, Stride(detail::with_leaves(target.nest(), strides)));
}

Layout Layout::flatten() const { return Layout(Shape::flat(extents()), Stride::flat(strides())); }

Layout Layout::coalesce() const {
  SmallVector<Index, 4> extents;
  SmallVector<Index, 4> strides;
  for (std::size_t i = 0; i < this->extents().size(); ++i) {
    const Index extent = this->extents()[i];
    const Index stride = this->strides()[i];
    if (extent == 1) continue;
    Index expected;
    if (!extents.empty() && !__builtin_mul_overflow(extents.back(), strides.back(), &expected) &&
        expected == stride) {
      extents.back() *= extent;
    } else {
      extents.push_back(extent);
      strides.push_back(stride);
    }
  }
  if (extents.empty() && !this->extents().empty()) return leaf(1, this->strides()[0]);
  return Layout(Shape::flat(extents), Stride::flat(strides));
}

}  // namespace orlop::inline v0
