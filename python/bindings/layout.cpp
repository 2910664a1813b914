// Shape, Stride and Layout in Python (M302–M318).
#include "layout.hpp"

namespace orlop::bindings {

void raise_immutable(nb::handle self, const nb::str& name) {
  const std::string type = python_type_name(self);
  raise<AttributeError>(type, "the value is immutable: cannot change ", name.c_str(), "; build another one");
}

namespace {

// The positions that a Python slice selects.
std::vector<std::size_t> slice_positions(nb::handle slice, std::size_t size) {
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(slice.ptr(), &start, &stop, &step) < 0) throw_python_error();
  const Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(size), &start, &stop, step);
  std::vector<std::size_t> out;
  for (Py_ssize_t i = 0; i < count; ++i) out.push_back(static_cast<std::size_t>(start + i * step));
  return out;
}

// `value[key]` (M303, M307).
template <class T>
T get_item(const T& value, nb::handle key) {
  if (PySlice_Check(key.ptr())) return value.select(slice_positions(key, value.rank()));
  Index i = to_index<IndexError>(key, "layout", "a mode's position");
  const auto rank = static_cast<Index>(value.rank());
  if (i < 0) i += rank;
  if (i < 0 || i >= rank) raise<IndexError>("layout", "the mode is out of range: the rank is ", rank);
  return value.mode(static_cast<std::size_t>(i));
}

// All modes as `value[i]` gives them, from one walk over the nest.
template <class T>
nb::list modes_of(const T& value) {
  const Coordinate all = value.top_level();
  nb::list modes;
  for (const Coordinate& mode : all.items()) modes.append(T(mode));
  return modes;
}

nb::list modes_of(const Layout& layout) {
  const Coordinate shape = layout.shape().top_level();
  const Coordinate stride = layout.stride().top_level();
  nb::list modes;
  for (std::size_t i = 0; i < layout.rank(); ++i)
    modes.append(Layout(Shape(shape.items()[i]), Stride(stride.items()[i])));
  return modes;
}

// What Shape, Stride and Layout have in common: they are immutable sequences of modes with equality by value.
template <class T, class Class>
void bind_value(Class& cls) {
  cls.def("__len__", [](const T& self) { return self.rank(); })
      .def(
          "__getitem__", [](const T& self, nb::handle key) { return get_item(self, key); }, "key"_a.none())
      .def("__iter__", [](const T& self) -> nb::typed<nb::iterator, T> { return nb::iter(modes_of(self)); })
      .def(
          "__eq__",
          [](const T& self, nb::handle other) {
            const T* value = try_native<T>(other);
            return value == nullptr ? nb::borrow(Py_NotImplemented) : nb::object(nb::bool_(self == *value));
          },
          "other"_a.none())
      .def("__hash__", [](const T& self) { return static_cast<Py_ssize_t>(self.hash()); })
      .def("__repr__", [](const T& self) { return self.to_string(); })
      .def("__copy__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); }, "memo"_a.none())
      .def_prop_ro(
          "depth", [](const T& self) { return self.depth(); },
          "Levels of nesting, 1 where every mode is a leaf.");
  refuse_changes(cls);
}

// What Shape and Stride have in common.
template <class T>
void bind_nest(nb::class_<T>& cls, std::string_view kind) {
  cls.def("__init__",
          [kind](T* self, const nb::args& items) {
            if (const auto flat = try_flat_modes(items))
              std::construct_at(self, T::flat(*flat));
            else
              std::construct_at(self, to_modes(items, kind));
          })
      .def("__int__", [](const T& self) { return self.to_integer(); })
      .def("__reduce__",
           [](const T& self) { return nb::make_tuple(nb::type<T>(), nb::make_tuple(nest_tuple(self))); })
      .def_prop_ro(
          "top_level", [](const T& self) { return nest_tuple(self); }, "The modes as nested tuples.")
      .def_prop_ro(
          "is_int", [](const T& self) { return self.is_int(); }, "At most one mode, and that one a leaf.")
      .def_static("concat", &T::concat, "a"_a, "b"_a, R"(The modes of a, then those of b.

>>> from orlop import Shape
>>> Shape.concat(Shape(2), Shape(3, 4))
Shape<(2, 3, 4)>)")
      .def_static("append", &T::append, "a"_a, "b"_a,
                  R"(b as one nested mode after those of a; a b of at most one leaf is concatenated.

>>> from orlop import Shape
>>> Shape.append(Shape(2), Shape(3, 4))
Shape<(2, (3, 4))>)");
  bind_value<T>(cls);
}

// Ordinals beyond 64 bits: Python's integers carry the exact value.

nb::object exact_size(const Shape& shape) {
  if (const auto size = shape.try_size()) return nb::int_(*size);
  nb::object size = nb::int_(1);
  for (const Index extent : shape.leaves()) size = size * nb::int_(extent);
  return size;
}

nb::object decode(const Shape& shape, nb::handle ordinal) {
  constexpr std::string_view what = "Shape.decode";
  const auto small = detail::index_protocol(ordinal, what, "ordinal", false);
  if (small) return from_coordinate(shape.decode(*small));
  nb::object rest = nb::steal(PyNumber_Index(ordinal.ptr()));
  if (!rest.is_valid()) throw_python_error();
  if (rest < nb::int_(0) || !(rest < exact_size(shape)))
    raise<ValueError>(what, "the ordinal is out of range in ", shape, "; use 0 up to size - 1");
  orlop::detail::Nest digits = shape.nest();
  for (Index& digit : digits.leaves) {
    const nb::object extent = nb::int_(digit);
    digit = nb::cast<Index>(rest % extent);
    rest = nb::object(rest.floor_div(extent));
  }
  return from_coordinate(to_nested(digits));
}

nb::object encode(const Shape& shape, nb::handle coordinate) {
  if (shape.try_size()) return nb::int_(shape.encode(to_coordinate(coordinate, "Shape.encode")));
  if (PyLong_Check(coordinate.ptr()) && !PyBool_Check(coordinate.ptr())) {
    (void)decode(shape, coordinate);  // in range, or ValueError
    return nb::borrow(coordinate);
  }
  const Coordinate exact = to_exact_coordinate(coordinate, "Shape.encode");
  const auto digits = shape.leaf_coordinates(exact);
  if (!digits) return nb::int_(shape.encode(exact));  // raises
  nb::object ordinal = nb::int_(0);
  for (std::size_t i = digits->size(); i-- > 0;)
    ordinal = ordinal * nb::int_(shape.leaves()[i]) + nb::int_((*digits)[i]);
  return ordinal;
}

void bind_shape(nb::module_& module) {
  nb::class_<Shape> shape(
      module, "Shape", nb::is_final(),
      "Extents, each at least 1, in nested modes: `Shape(2, (3, 4))` has rank 2 and size 24 (M302).\n\n"
      "A single argument that is no integer is the list of modes. At most 64 levels. ValueError, TypeError, "
      "OverflowError.\n\n"
      "    >>> from orlop import Shape\n"
      "    >>> Shape(3, [4, 5]).decode(31)\n"
      "    (1, (2, 2))\n");
  bind_nest(shape, "Shape");
  shape.def_prop_ro("size", exact_size, "The product of all extents, exactly; 1 for rank zero.")
      .def("decode", decode, "ordinal"_a.none(),
           "The coordinate of an ordinal, as nested tuples. TypeError, ValueError.")
      .def(
          "encode", encode, "coordinate"_a.none(),
          R"(The ordinal of a coordinate: a tuple or list nest of integers, where an integer may stand for any nested mode
or the whole. TypeError, ValueError.

>>> from orlop import Shape
>>> Shape(2, (3, 4)).encode((1, (2, 3))), Shape(2, (3, 4)).encode((1, 5))
(23, 11)
>>> Shape(2, 3).encode((2, 0))
Traceback (most recent call last):
    ...
ValueError: [Shape.encode] Coordinate does not fit the shape: (2, 0) in Shape<(2, 3)>; mode 0 goes ...)");
  nb::class_<Stride> stride(module, "Stride", nb::is_final(),
                            R"(Strides, each at least 0, in nested modes, spelt like a Shape (M302).

>>> from orlop import Layout, Shape, Stride
>>> Layout(Shape(2, (3, 4)), Stride(1, (2, 6)))((1, (2, 3)))
23
>>> Stride(-1)
Traceback (most recent call last):
    ...
ValueError: [Stride] a stride must not be negative: got -1)");
  bind_nest(stride, "Stride");
}

void construct(Layout* self, nb::handle shape, nb::handle stride) {
  const auto* extents = try_native<Shape>(shape);
  const auto* strides = try_native<Stride>(stride);
  if (extents == nullptr || strides == nullptr)
    raise<ValueError>("Layout", "shape and stride do not match in Structure: got ", python_type_name(shape),
                      " and ", python_type_name(stride), "; give a Shape and a Stride");
  std::construct_at(self, *extents, *strides);
}

nb::list list_of(std::span<const Layout> layouts) {
  nb::list out;
  for (const Layout& layout : layouts) out.append(layout);
  return out;
}

nb::list leaf_pairs(const Layout& layout) {
  nb::list out;
  for (std::size_t i = 0; i < layout.extents().size(); ++i)
    out.append(nb::make_tuple(layout.extents()[i], layout.strides()[i]));
  return out;
}

Layout make_layout(const nb::args& layouts) {
  std::vector<Layout> parts;
  for (const nb::handle layout : layouts)
    parts.push_back(to_layout<ValueError>(layout, "Layout.make_layout", "an argument"));
  return Layout::make_layout(parts);
}

// A Shape, a sequence of Layouts, or an IndexMap (M315).
nb::object compose(nb::pointer_and_handle<Layout> self, nb::handle inner) {
  if (IndexMap* map = try_native<IndexMap>(inner))
    return nb::cast(IndexMap::compose(Ref<IndexMap>(self.p), Ref<IndexMap>(map)));
  if (const auto* tile = try_native<Shape>(inner))
    return tile->rank() == 0 ? nb::borrow(self.h) : nb::cast(self.p->compose(*tile));
  const std::vector<Layout> tiler =
      to_tiler(inner, "Layout.compose", "inner, unless a Shape or an IndexMap,");
  return tiler.empty() ? nb::borrow(self.h) : nb::cast(self.p->compose(tiler));
}

Layout rearrange(const Layout& layout, nb::handle output, nb::handle selection) {
  const Tree out = to_tree(output, "Layout.rearrange", "output");
  if (selection.is_none()) return layout.rearrange(out);
  return layout.rearrange(out, to_tree(selection, "Layout.rearrange", "selection"));
}

nb::object reverse_rearrange(nb::handle output, nb::handle selection) {
  const auto [back, new_selection] =
      Layout::reverse_rearrange(to_tree(output, "Layout.reverse_rearrange", "output"),
                                to_tree(selection, "Layout.reverse_rearrange", "selection"));
  return nb::make_tuple(from_tree(back), from_tree(new_selection));
}

Index to_count(nb::handle value, std::string_view what, std::string_view name) {
  return to_index(value, what, name);
}

using LayoutClass = nb::class_<Layout, IndexMap>;

void bind_facts(LayoutClass& layout) {
  layout.def("__init__", construct, "shape"_a.none(), "stride"_a.none())
      .def("__reduce__",
           [](const Layout& self) {
             return nb::make_tuple(nb::type<Layout>(), nb::make_tuple(self.shape(), self.stride()));
           })
      .def(
          "__call__", [](const Layout& self, nb::handle key) { return layout_index(self, key); },
          "key"_a.none(),
          "The index at an ordinal or coordinate. TypeError; ValueError 'Key is not in domain of shape'.")
      .def(
          "index", [](const Layout& self, nb::handle key) { return layout_index(self, key); }, "key"_a.none(),
          "The same as a call.")
      .def_static(
          "get_index",
          [](nb::handle self, nb::handle key) {
            return layout_index(to_layout<ValueError>(self, "Layout.get_index", "layout"), key);
          },
          "layout"_a.none(), "key"_a.none(), R"(layout(key), with a ValueError for what is no Layout.

>>> from orlop import Layout, friendly
>>> Layout.get_index(friendly.row_major(2, 3), (1, 2))
5)")
      .def(
          "__add__", [](const Layout& a, const Layout& b) { return Layout::concat(a, b); }, nb::is_operator())
      .def_prop_ro("stride", &Layout::stride)
      .def_prop_ro("size", &Layout::size, "The number of coordinates.")
      .def_prop_ro("cosize", &Layout::cosize, "One more than the greatest index.")
      .def_prop_ro("is_leaf", &Layout::is_leaf, "At most one mode, and that one a leaf.")
      .def_prop_ro(
          "profile", [](const Layout& self) { return recipe_list(self.profile()); },
          "The nest of the modes as a new list of Node.Leaf, Node.Push, Node.Pop.")
      .def("infix", leaf_pairs, R"(The (extent, stride) pairs of the leaves, depth-first.

>>> from orlop import friendly
>>> friendly.row_major(2, 3).infix()
[(2, 3), (3, 1)])");
  bind_value<Layout>(layout);
}

void bind_modes(LayoutClass& layout) {
  layout
      .def_static(
          "leaf",
          [](nb::handle s, nb::handle d) {
            return Layout::leaf(to_count(s, "Layout.leaf", "s"), to_count(d, "Layout.leaf", "d"));
          },
          "s"_a.none(), "d"_a.none(),
          R"(The layout of one leaf, s:d. TypeError for no integers, ValueError for s below 1 or d below 0.

>>> from orlop import Layout
>>> Layout.leaf(4, 3)
Layout( Shape<(4,)>, Stride<(3,)>))")
      .def_static("empty", &Layout::empty, R"(The layout of rank zero.

>>> from orlop import Layout
>>> Layout.empty().size, len(Layout.empty())
(1, 0))")
      .def_static("concat", &Layout::concat, "a"_a, "b"_a,
                  R"(The modes of a, then those of b; also a + b. OverflowError where the size leaves 64 bits.

>>> from orlop import Layout
>>> Layout.concat(Layout.leaf(4, 1), Layout.leaf(2, 4))
Layout( Shape<(4, 2)>, Stride<(1, 4)>))")
      .def_static("append", &Layout::append, "a"_a, "b"_a,
                  R"(b as one nested mode after those of a; a b of at most one leaf is concatenated (M311).

>>> from orlop import Layout, friendly
>>> Layout.append(Layout.leaf(4, 1), friendly.column_major(2, 3))
Layout( Shape<(4, (2, 3))>, Stride<(1, (1, 2))>))")
      .def_static("make_layout", make_layout,
                  R"(Appends all arguments to rank zero. ValueError for what is no Layout.

>>> from orlop import Layout, friendly
>>> Layout.make_layout(Layout.leaf(4, 1), friendly.column_major(2, 3))
Layout( Shape<(4, (2, 3))>, Stride<(1, (1, 2))>))")
      .def(
          "permute",
          [](const Layout& self, const nb::args& order) {
            return self.permute(to_order(order, "Layout.permute"));
          },
          R"(Every top-level mode once, in the order given as integers or one iterable. TypeError; ValueError 'must reorder
every layout mode' (M313).

>>> from orlop import friendly
>>> friendly.column_major(4, 3).permute(1, 0)
Layout( Shape<(3, 4)>, Stride<(4, 1)>)
>>> friendly.column_major(4, 3).permute(1)
Traceback (most recent call last):
    ...
ValueError: [permute] the order must reorder every layout mode: got (1,) for rank 2; name each mode ...)")
      .def(
          "rearrange", rearrange, "output"_a.none(), "selection"_a.none() = nb::none(),
          R"(Places the leaves, or the sublayouts that the leaves of the Tree `selection` stand for, as the Tree `output`
says: Node.id(k) places source k, Node.Leaf inserts 1:0, a Tree groups. ValueError (M312).

>>> from orlop import Node, Tree, friendly
>>> friendly.column_major(4, 3).rearrange(Tree(Node.id(1), Node.Leaf, Node.id(0)))
Layout( Shape<(3, 1, 4)>, Stride<(4, 0, 1)>))")
      .def_static(
          "reverse_rearrange", reverse_rearrange, "output"_a.none(), "selection"_a.none(),
          R"(The (output, selection) that undo a rearrangement of leaves; dropped singletons return as 1:0.

>>> from orlop import Layout, Node, Tree, friendly
>>> output, selection = Layout.reverse_rearrange(Tree(Node.id(1), Node.id(0)), Tree(1, 1))
>>> friendly.column_major(4, 3).permute(1, 0).rearrange(output, selection)
Layout( Shape<(4, 3)>, Stride<(1, 4)>))")
      .def(
          "broadcast_to",
          [](const Layout& self, nb::handle target) {
            return self.broadcast_to(to_shape(target, "Layout.broadcast_to", "target"));
          },
          "target"_a.none(), R"(Widens extent-1 leaves with stride zero. TypeError, ValueError (M308).

>>> from orlop import Shape, friendly
>>> friendly.column_major(2, 1).broadcast_to(Shape(2, 3))
Layout( Shape<(2, 3)>, Stride<(1, 0)>))")
      .def("coalesce", &Layout::coalesce,
           R"(Drops extent-1 leaves and merges neighbours where the index allows (M318).

>>> from orlop import Layout, Shape, Stride
>>> Layout(Shape(2, 1, 3), Stride(1, 9, 2)).coalesce()
Layout( Shape<(6,)>, Stride<(1,)>))")
      .def(
          "coalesce_by_mode",
          [](const Layout& self, nb::handle tree) {
            return self.coalesce_by_mode(to_tree(tree, "Layout.coalesce_by_mode", "tree"));
          },
          "tree"_a.none(), R"(Coalesces what each leaf of the tree stands for. ValueError.

>>> from orlop import Layout, Shape, Stride, Tree
>>> Layout(Shape((2, 3), 4), Stride((1, 2), 9)).coalesce_by_mode(Tree(1, 1))
Layout( Shape<(6, 4)>, Stride<(1, 9)>))")
      .def(
          "flatten_layout",
          [](const Layout& self) { return nb::make_tuple(self.flatten(), recipe_list(self.profile())); },
          R"((the flat layout, the profile).

>>> from orlop import Layout, Shape, Stride
>>> Layout(Shape((2, 3), 4), Stride((1, 2), 6)).flatten_layout()
(Layout( Shape<(2, 3, 4)>, Stride<(1, 2, 6)>), [Node.Push, Node.Leaf, Node.Leaf, Node.Pop, Node.Leaf]))")
      .def(
          "extract_profile",
          [](const Layout& self, nb::handle tree) {
            if (tree.is_none()) return list_of(self.extract_profile());
            return list_of(self.extract_profile(to_tree(tree, "Layout.extract_profile", "tree")));
          },
          "tree"_a.none() = nb::none(),
          R"(The list of leaves, or of what the leaves of the tree stand for. ValueError.

>>> from orlop import Layout, Shape, Stride, Tree
>>> Layout(Shape((2, 3), 4), Stride((1, 2), 6)).extract_profile(Tree(1, 1))
[Layout( Shape<(2, 3)>, Stride<(1, 2)>), Layout( Shape<(4,)>, Stride<(6,)>)])");
}

void bind_algebra(LayoutClass& layout) {
  layout
      .def(
          "compose", compose, "inner"_a.none(),
          R"(q ↦ self(inner(q)). A Shape or a sequence of Layouts composes each leading mode with a tile. TypeError,
ValueError (M315).

>>> from orlop import Layout, Shape, Stride
>>> Layout(Shape(4, 3), Stride(5, 1)).compose(Layout(Shape(6, 2), Stride(2, 1)))
Layout( Shape<((2, 3), 2)>, Stride<((10, 1), 5)>))")
      .def(
          "uniform_preimage_extent",
          [](const Layout& self, nb::handle target) {
            return self.uniform_preimage_extent(
                to_shape(target, "Layout.uniform_preimage_extent", "target_shape"));
          },
          "target_shape"_a.none(),
          R"(How many ordinals map to each target where that is one number and no target is left out, else None (M309).

>>> from orlop import Layout, Shape, Stride
>>> Layout(Shape(5, 2), Stride(0, 1)).uniform_preimage_extent(Shape(2))
5)")
      .def(
          "complement",
          [](const Layout& self, nb::handle cotarget) {
            return self.complement(to_count(cotarget, "Layout.complement", "cotarget"));
          },
          "cotarget"_a.none(), R"(What is left of `cotarget` indices. ValueError (M316).

>>> from orlop import Layout, Shape, Stride
>>> Layout(Shape(2, 3), Stride(1, 4)).complement(24)
Layout( Shape<(2, 2)>, Stride<(2, 12)>))")
      .def(
          "choose",
          [](const Layout& self, nb::handle d) { return self.choose(to_count(d, "Layout.choose", "d")); },
          "d"_a.none(), R"(Every d-th ordinal. ValueError 'choose the d-th' (M314).

>>> from orlop import friendly
>>> friendly.column_major(4, 3).choose(2)
Layout( Shape<(2, 3)>, Stride<(2, 4)>)
>>> friendly.column_major(4, 3).choose(3)
Traceback (most recent call last):
    ...
ValueError: [Layout] cannot choose the d-th ordinals: d is 3 in Layout( Shape<(4, 3)>, Stride<(1, ...)")
      .def(
          "modout",
          [](const Layout& self, nb::handle s) { return self.modout(to_count(s, "Layout.modout", "s")); },
          "s"_a.none(), R"(The first s ordinals. ValueError 'divisibility condition' (M314).

>>> from orlop import friendly
>>> friendly.column_major(4, 3).modout(2)
Layout( Shape<(2, 1)>, Stride<(1, 4)>)
>>> friendly.column_major(4, 3).modout(6)
Traceback (most recent call last):
    ...
ValueError: [Layout] the divisibility condition fails: the first 6 ordinals of Layout( Shape<(4, ...)")
      .def(
          "divide",
          [](const Layout& self, nb::handle tile) {
            return self.divide(to_layout(tile, "Layout.divide", "tile"));
          },
          "tile"_a.none(), R"((tile, rest) of the whole layout. ValueError (M317).

>>> from orlop import Layout, Shape, Stride
>>> Layout(Shape(4, 6), Stride(7, 30)).divide(Layout.leaf(6, 2))
Layout( Shape<((2, 3), (2, 2))>, Stride<((14, 30), (7, 90))>))")
      .def(
          "divide_tiler",
          [](const Layout& self, nb::handle tiler) {
            return self.divide_tiler(to_tiler(tiler, "Layout.divide_tiler", "tiler"));
          },
          "tiler"_a.none(), R"((tile, rest) of each leading mode. ValueError (M317).

>>> from orlop import Layout, friendly
>>> friendly.column_major(4, 6).divide_tiler([Layout.leaf(2, 1), Layout.leaf(3, 1)])
Layout( Shape<((2, 2), (3, 2))>, Stride<((1, 2), (4, 12))>))")
      .def(
          "zipped_divide",
          [](const Layout& self, nb::handle tiler) {
            return self.zipped_divide(to_tiler(tiler, "Layout.zipped_divide", "tiler"));
          },
          "tiler"_a.none(),
          R"(Tiles of the leading modes grouped, then remainders, then the other modes. ValueError (M317).

>>> from orlop import Layout, friendly
>>> friendly.column_major(4, 6).zipped_divide([Layout.leaf(2, 1), Layout.leaf(3, 1)])
Layout( Shape<((2, 3), (2, 2))>, Stride<((1, 4), (2, 12))>))");
}

}  // namespace

void bind_layout(nb::module_& module) {
  bind_shape(module);
  bind_index_map(module);
  LayoutClass layout(
      module, "Layout", nb::is_final(),
      "A strided map: the index at a coordinate is the sum of coordinate times stride (M305).\n\n"
      "    >>> from orlop import Layout, Shape, Stride\n"
      "    >>> Layout(Shape(4, 3), Stride(3, 20))(7)\n"
      "    29\n");
  bind_facts(layout);
  bind_modes(layout);
  bind_algebra(layout);
  bind_other_maps(module);
  // What orlop.layout.Tree, a tuple in Python, takes from the native tree.
  module.def("set_tree_classes", set_tree_classes);
  module.def("tree_recipe",
             [](nb::handle tree) { return recipe_list(to_tree(tree, "Tree", "the tree").recipe()); });
  module.def("tree_depth", [](nb::handle tree) { return to_tree(tree, "Tree", "the tree").depth(); });
  module.def("tree_reshape", reshape_tree);
}

}  // namespace orlop::bindings
