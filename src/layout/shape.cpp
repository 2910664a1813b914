// Shape, Stride and Tree over their shared nest.
#include "orlop/layout/shape.hpp"

#include "nest.hpp"
#include "orlop/base/checked.hpp"

namespace orlop::inline v0 {

void raise_nested_too_deeply() {
  raise<ValueError>("layout", "the nest is too deep: at most ", max_nesting_depth,
                    " levels are allowed; flatten it");
}

std::string to_string(const Coordinate& coordinate) {
  if (coordinate.is_leaf()) return text(coordinate.leaf());
  std::string out = "(";
  for (const Coordinate& item : coordinate.items()) {
    if (out.size() > 1) out += ", ";
    out += to_string(item);
  }
  return out + (coordinate.items().size() == 1 ? ",)" : ")");
}

namespace detail {

namespace {

Coordinate read_mode(NestCursor& cursor) {
  if (cursor.at_leaf()) return cursor.take_leaf();
  std::vector<Coordinate> items;
  for (std::size_t n = cursor.open(); n > 0; --n) items.push_back(read_mode(cursor));
  return items;
}

void describe_mode(NestCursor& cursor, std::vector<Node>& out) {
  if (cursor.at_leaf()) {
    cursor.take_leaf();
    out.push_back(Node::Leaf);
    return;
  }
  out.push_back(Node::Push);
  for (std::size_t n = cursor.open(); n > 0; --n) describe_mode(cursor, out);
  out.push_back(Node::Pop);
}

void check_mode(const Nest& nest, std::size_t i) {
  if (i >= nest.rank)
    raise<IndexError>("layout", "there is no mode ", i, ": the rank is ", nest.rank,
                      "; use 0 up to rank - 1");
}

template <class Modes>
Nest build(const Modes& modes) {
  NestBuilder builder;
  for (const Coordinate& mode : modes) builder.mode(mode);
  return builder.finish();
}

Nest build(const Coordinate& modes) {
  if (!modes.is_leaf()) return build(modes.items());
  NestBuilder builder;
  builder.mode(modes);
  return builder.finish();
}

Nest build_flat(std::span<const Index> leaves) {
  Nest nest;
  nest.leaves.append(leaves);
  nest.rank = leaves.size();
  return nest;
}

Nest concatenate(const Nest& a, const Nest& b) {
  NestBuilder builder;
  builder.modes(a);
  builder.modes(b);
  return builder.finish();
}

Nest append_mode(const Nest& a, const Nest& b) {
  NestBuilder builder;
  builder.modes(a);
  builder.append(b);
  return builder.finish();
}

Index single_leaf(const Nest& nest, std::string_view kind) {
  if (nest.leaves.size() != 1)
    raise<ValueError>(kind, "only a single leaf is an integer: got ", nest_text(nest));
  return nest.leaves[0];
}

}  // namespace

Nest take_mode(NestCursor& cursor) {
  NestBuilder builder;
  if (cursor.at_leaf())
    builder.leaf(cursor.take_leaf());
  else
    for (std::size_t n = cursor.open(); n > 0; --n) builder.mode(cursor);
  return builder.finish();
}

Nest take_whole_mode(NestCursor& cursor) {
  NestBuilder builder;
  builder.mode(cursor);
  return builder.finish();
}

Nest mode_of(const Nest& nest, std::size_t i) {
  check_mode(nest, i);
  NestCursor cursor(nest);
  cursor.skip_modes(i);
  return take_mode(cursor);
}

Nest select_modes(const Nest& nest, std::span<const std::size_t> modes) {
  NestBuilder builder;
  // Where modes lie that have been passed, so that any order of them takes one walk.
  std::vector<NestCursor> passed;
  NestCursor next(nest);
  for (const std::size_t i : modes) {
    check_mode(nest, i);
    NestCursor cursor(nest);
    if (nest.profile.empty()) {
      cursor.skip_modes(i);
    } else {
      for (; passed.size() <= i; next.skip()) passed.push_back(next);
      cursor = passed[i];
    }
    builder.mode(cursor);
  }
  return builder.finish();
}

std::vector<Node> recipe_of(const Nest& nest) {
  std::vector<Node> out;
  NestCursor cursor(nest);
  for (std::size_t i = 0; i < nest.rank; ++i) describe_mode(cursor, out);
  return out;
}

Coordinate to_nested(const Nest& nest) {
  NestCursor cursor(nest);
  std::vector<Coordinate> items;
  items.reserve(nest.rank);
  for (std::size_t i = 0; i < nest.rank; ++i) items.push_back(read_mode(cursor));
  return items;
}

std::string nest_text(const Nest& nest) { return orlop::to_string(to_nested(nest)); }

std::size_t NestValue::hash() const noexcept {
  std::size_t hash = rank();
  for (const Index leaf : nest_->leaves) hash = mix(hash, static_cast<std::size_t>(leaf));
  for (const std::int32_t token : nest_->profile) hash = mix(hash, static_cast<std::size_t>(token));
  return hash;
}

}  // namespace detail

// Shape

Shape::Shape()
    : NestValue([] {
        static const detail::NestData rank_zero = std::make_shared<const detail::Nest>();
        return rank_zero;
      }()) {}

Shape::Shape(std::initializer_list<Coordinate> modes) : Shape(detail::build(modes)) {}
Shape::Shape(const Coordinate& modes) : Shape(detail::build(modes)) {}
Shape Shape::flat(Sequence<Index> extents) { return Shape(detail::build_flat(extents)); }

namespace {

detail::NestData checked_shape(detail::Nest nest) {
  nest.size = 1;
  for (const Index extent : nest.leaves) {
    if (extent < 1) raise<ValueError>("Shape", "an extent must not be less than 1: got ", extent);
    if (nest.size > 0 && __builtin_mul_overflow(nest.size, extent, &nest.size)) nest.size = -1;
  }
  return std::make_shared<const detail::Nest>(std::move(nest));
}

}  // namespace

Shape::Shape(detail::Nest nest) : NestValue(checked_shape(std::move(nest))) {}

void Shape::raise_size_overflow() const {
  raise<OverflowError>("Shape", "the size leaves 64 bits: ", *this, "; use smaller extents");
}

Index Shape::to_integer() const { return detail::single_leaf(*nest_, "Shape"); }
Shape Shape::mode(std::size_t i) const { return Shape(detail::mode_of(*nest_, i)); }
Shape Shape::select(Sequence<std::size_t> modes) const { return Shape(detail::select_modes(*nest_, modes)); }
Shape Shape::concat(const Shape& a, const Shape& b) { return Shape(detail::concatenate(*a.nest_, *b.nest_)); }
Shape Shape::append(const Shape& a, const Shape& b) { return Shape(detail::append_mode(*a.nest_, *b.nest_)); }
std::string Shape::to_string() const { return text("Shape<", detail::nest_text(*nest_), '>'); }

namespace {

Coordinate decode_mode(detail::NestCursor& cursor, Index& rest) {
  if (cursor.at_leaf()) {
    const Index extent = cursor.take_leaf();
    return std::exchange(rest, rest / extent) % extent;
  }
  std::vector<Coordinate> items;
  for (std::size_t n = cursor.open(); n > 0; --n) items.push_back(decode_mode(cursor, rest));
  return items;
}

// Writes the coordinates of the leaves of one mode; false where `coordinate` does not fit.
bool locate_mode(detail::NestCursor& cursor, const Coordinate& coordinate, SmallVector<Index, 4>& out);

bool locate_items(detail::NestCursor& cursor, std::span<const Coordinate> items, std::size_t modes,
                  SmallVector<Index, 4>& out) {
  if (items.size() != modes) return false;
  return std::all_of(items.begin(), items.end(),
                     [&](const Coordinate& item) { return locate_mode(cursor, item, out); });
}

// An integer stands for all the leaves from `cursor` on, in ordinal order.
bool locate_ordinal(std::span<const Index> extents, Index ordinal, SmallVector<Index, 4>& out) {
  if (ordinal < 0) return false;
  for (const Index extent : extents) {
    out.push_back(ordinal % extent);
    ordinal /= extent;
  }
  return ordinal == 0;
}

bool locate_mode(detail::NestCursor& cursor, const Coordinate& coordinate, SmallVector<Index, 4>& out) {
  if (coordinate.is_leaf()) return locate_ordinal(cursor.skip(), coordinate.leaf(), out);
  if (cursor.at_leaf()) return false;
  const std::size_t modes = cursor.open();
  return locate_items(cursor, coordinate.items(), modes, out);
}

}  // namespace

Coordinate Shape::decode(Index ordinal) const {
  if (ordinal < 0 || (nest_->size >= 0 && ordinal >= nest_->size))
    raise<ValueError>("Shape.decode", "the ordinal is out of range: ", ordinal, " in ", *this,
                      "; use 0 up to size - 1");
  detail::NestCursor cursor(*nest_);
  std::vector<Coordinate> items;
  items.reserve(rank());
  for (std::size_t i = 0; i < rank(); ++i) items.push_back(decode_mode(cursor, ordinal));
  return items;
}

std::optional<SmallVector<Index, 4>> Shape::leaf_coordinates(const Coordinate& coordinate) const {
  SmallVector<Index, 4> out;
  detail::NestCursor cursor(*nest_);
  const bool fits = coordinate.is_leaf() ? locate_ordinal(leaves(), coordinate.leaf(), out)
                                         : locate_items(cursor, coordinate.items(), rank(), out);
  if (!fits) return std::nullopt;
  return out;
}

namespace {

std::string fitting_text(const Shape& shape, const Coordinate& coordinate) {
  if (coordinate.is_leaf()) {
    const std::optional<Index> size = shape.try_size();
    return size ? text("an ordinal goes from 0 to ", *size - 1) : std::string("an ordinal is not negative");
  }
  if (coordinate.items().size() != shape.rank())
    return text("use an entry for each of its ", shape.rank(), " modes, or one ordinal");
  detail::NestCursor cursor(shape.nest());
  const auto fits = [&](std::size_t i) {
    return Shape(detail::take_whole_mode(cursor))
        .leaf_coordinates(Coordinate(std::vector{coordinate.items()[i]}))
        .has_value();
  };
  std::size_t i = 0;
  while (fits(i)) ++i;
  const Shape mode = shape.mode(i);
  const std::optional<Index> size = mode.try_size();
  return coordinate.items()[i].is_leaf() && size ? text("mode ", i, " goes from 0 to ", *size - 1)
                                                 : text("mode ", i, " is ", mode);
}

}  // namespace

std::string detail::misfit_text(const Shape& shape, const Coordinate& coordinate) {
  return text(orlop::to_string(coordinate), " in ", shape, "; ", fitting_text(shape, coordinate));
}

Index Shape::encode(const Coordinate& coordinate) const {
  const auto coordinates = leaf_coordinates(coordinate);
  if (!coordinates)
    raise<ValueError>("Shape.encode",
                      "Coordinate does not fit the shape: ", detail::misfit_text(*this, coordinate));
  Index ordinal = 0;
  for (std::size_t i = coordinates->size(); i-- > 0;)
    ordinal = checked_add(checked_multiply(ordinal, leaves()[i], "Shape.encode"), (*coordinates)[i],
                          "Shape.encode");
  return ordinal;
}

// Stride

namespace {

detail::NestData checked_stride(detail::Nest nest) {
  for (const Index stride : nest.leaves)
    if (stride < 0) raise<ValueError>("Stride", "a stride must not be negative: got ", stride);
  return std::make_shared<const detail::Nest>(std::move(nest));
}

}  // namespace

Stride::Stride() : Stride(detail::Nest()) {}
Stride::Stride(std::initializer_list<Coordinate> modes) : Stride(detail::build(modes)) {}
Stride::Stride(const Coordinate& modes) : Stride(detail::build(modes)) {}
Stride::Stride(detail::Nest nest) : NestValue(checked_stride(std::move(nest))) {}
Stride Stride::flat(Sequence<Index> strides) { return Stride(detail::build_flat(strides)); }
Index Stride::to_integer() const { return detail::single_leaf(*nest_, "Stride"); }
Stride Stride::mode(std::size_t i) const { return Stride(detail::mode_of(*nest_, i)); }
Stride Stride::select(Sequence<std::size_t> modes) const {
  return Stride(detail::select_modes(*nest_, modes));
}
Stride Stride::concat(const Stride& a, const Stride& b) {
  return Stride(detail::concatenate(*a.nest_, *b.nest_));
}
Stride Stride::append(const Stride& a, const Stride& b) {
  return Stride(detail::append_mode(*a.nest_, *b.nest_));
}
std::string Stride::to_string() const { return text("Stride<", detail::nest_text(*nest_), '>'); }

// Node and Tree

constexpr Node Node::Leaf{Node::unnamed};
constexpr Node Node::Push{-2};
constexpr Node Node::Pop{-3};

Node Node::id(Index n) {
  if (n < 0) raise<ValueError>("Node.id", "the number must not be negative: got ", n);
  return Node(n);
}

namespace {

void add_item(detail::NestBuilder& builder, const Nested<Node>& item) {
  if (item.is_leaf()) {
    if (!item.leaf().is_leaf())
      raise<ValueError>("Tree", "an item must be a leaf or a tree: got Node.Push or Node.Pop");
    builder.leaf(item.leaf().id());
    return;
  }
  builder.push();
  for (const Nested<Node>& child : item.items()) add_item(builder, child);
  builder.pop();
}

detail::Nest build_tree(std::span<const Nested<Node>> items) {
  detail::NestBuilder builder;
  for (const Nested<Node>& item : items) add_item(builder, item);
  return builder.finish();
}

}  // namespace

Tree::Tree() : Tree(detail::Nest()) {}
Tree::Tree(std::initializer_list<Nested<Node>> items) : Tree(build_tree({items.begin(), items.size()})) {}
Tree::Tree(const Nested<Node>& items)
    : Tree(build_tree(items.is_leaf() ? std::span(&items, 1) : items.items())) {}
Tree::Tree(detail::Nest nest) : NestValue(std::make_shared<const detail::Nest>(std::move(nest))) {}
std::vector<Node> Tree::recipe() const { return detail::recipe_of(*nest_); }

Coordinate Tree::reshape(Sequence<Index> items) const {
  if (items.size() != size())
    raise<ValueError>("Tree.reshape", "the tree has ", size(), " leaves: got ", items.size(),
                      items.size() < size() ? ", too few" : ", too many", " items");
  return detail::to_nested(detail::with_leaves(*nest_, items));
}

}  // namespace orlop::inline v0
