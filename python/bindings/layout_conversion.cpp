// Conversions of keys, modes, orders and trees between Python and the layout layer.
#include "layout.hpp"

#include <limits>

namespace orlop::bindings {

namespace {

// What orlop.layout adds in Python; it hands these over when it is loaded.
struct PythonNames {
  nb::object tree, leaf, push, pop, id, identified;
};
PythonNames* loaded_names = nullptr;  // lives as long as the interpreter

const PythonNames& python_names() {
  if (loaded_names == nullptr) nb::module_::import_("orlop.layout");
  if (loaded_names == nullptr) raise<RuntimeError>("layout", "orlop.layout is not loaded completely");
  return *loaded_names;
}

// Whether an object counts as an integer: an array also answers the protocol but is a sequence.
bool is_integer(nb::handle value) {
  return PyLong_Check(value.ptr()) || (PyIndex_Check(value.ptr()) && !PySequence_Check(value.ptr()));
}

bool is_negative(nb::handle integer) {
  const nb::object number = nb::steal(PyNumber_Index(integer.ptr()));
  if (!number.is_valid()) throw_python_error();
  const int negative = PyObject_RichCompareBool(number.ptr(), nb::int_(0).ptr(), Py_LT);
  if (negative < 0) throw_python_error();
  return negative == 1;
}

// An integer, or the nearest one of 64 bits.
Index saturated_index(nb::handle value, std::string_view what, std::string_view name) {
  if (const auto index = detail::index_protocol(value, what, name, false)) return *index;
  return is_negative(value) ? std::numeric_limits<Index>::min() : std::numeric_limits<Index>::max();
}

bool is_nest(nb::handle value) { return PyTuple_Check(value.ptr()) != 0 || PyList_Check(value.ptr()) != 0; }

// The items as they are now: what user code does to a list meanwhile does not matter.
nb::tuple snapshot(nb::handle sequence) {
  nb::object items = nb::steal(PySequence_Tuple(sequence.ptr()));
  if (!items.is_valid()) throw_python_error();
  return nb::borrow<nb::tuple>(items);
}

template <class Read>
Coordinate read_key(nb::handle key, std::string_view what, std::size_t depth, Read read) {
  if (!is_nest(key)) {
    if (!is_integer(key))
      raise<TypeError>(what, "a key must be an integer or a tuple or list of keys: got ",
                       python_type_name(key));
    return read(key, what, "a key");
  }
  if (depth > max_nesting_depth) raise_nested_too_deeply();
  std::vector<Coordinate> items;
  for (const nb::handle item : snapshot(key)) items.push_back(read_key(item, what, depth + 1, read));
  return items;
}

}  // namespace

Coordinate to_coordinate(nb::handle key, std::string_view what) {
  return read_key(key, what, 1, saturated_index);
}

Coordinate to_exact_coordinate(nb::handle key, std::string_view what) {
  return read_key(key, what, 1, [](nb::handle value, std::string_view call, std::string_view name) {
    return to_index(value, call, name);
  });
}

nb::object from_coordinate(const Coordinate& coordinate) {
  if (coordinate.is_leaf()) return nb::int_(coordinate.leaf());
  return tuple_of(coordinate.items(), from_coordinate);
}

Index to_positive(nb::handle value, std::string_view what, std::string_view name) {
  const auto number = detail::index_protocol(value, what, name, false);
  if (number ? *number < 1 : is_negative(value)) raise<ValueError>(what, name, " must be at least 1");
  if (!number) raise<OverflowError>(what, name, " leaves 64 bits; use an integer up to 2**63 - 1");
  return *number;
}

namespace {

// The items of a tuple or list where all are plain ints of 64 bits; runs no user code.
std::optional<SmallVector<Index, 4>> plain_integers(nb::handle sequence) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence.ptr());
  SmallVector<Index, 4> out;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(sequence.ptr(), i);
    if (!PyLong_CheckExact(item)) return std::nullopt;
    int overflow = 0;
    out.push_back(PyLong_AsLongLongAndOverflow(item, &overflow));
    if (overflow != 0) return std::nullopt;
  }
  return out;
}

// The index at plain integers, one per leaf of a flat layout; nothing where it is for the general path.
std::optional<Index> index_at(const Layout& layout, std::span<const Index> coordinates) {
  if (!layout.is_flat() || coordinates.size() != layout.rank()) return std::nullopt;
  Index index = 0;
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    if (coordinates[i] < 0 || coordinates[i] >= layout.extents()[i]) return std::nullopt;
    index += coordinates[i] * layout.strides()[i];
  }
  return index;
}

}  // namespace

Index layout_index(const Layout& layout, nb::handle key, std::string_view what) {
  if (PyLong_CheckExact(key.ptr())) return layout(saturated_index(key, what, "a key"));
  if (is_nest(key))
    if (const auto coordinates = plain_integers(key))
      if (const auto index = index_at(layout, *coordinates)) return *index;
  return layout.index(to_coordinate(key, what));
}

const Shape& to_shape(nb::handle value, std::string_view what, std::string_view name) {
  if (const auto* shape = try_native<Shape>(value)) return *shape;
  raise<TypeError>(what, name, " must be a Shape: got ", python_type_name(value),
                   "; make one of extents, as in Shape(2, 3)");
}

std::vector<Layout> to_tiler(nb::handle value, std::string_view what, std::string_view name) {
  if (PySequence_Check(value.ptr()) == 0 || nb::isinstance<IndexMap>(value))
    raise<TypeError>(what, name, " must be a sequence of Layouts: got ", python_type_name(value));
  std::vector<Layout> tiler;
  for (const nb::handle item : snapshot(value))
    tiler.push_back(to_layout(item, what, "an entry of the tiler"));
  return tiler;
}

nb::object nest_tuple(const orlop::detail::NestValue& nest) {
  if (!nest.is_flat()) return from_coordinate(nest.top_level());
  nb::object items = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(nest.rank())));
  if (!items.is_valid()) throw_python_error();
  for (std::size_t i = 0; i < nest.rank(); ++i)
    PyTuple_SET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i), nb::int_(nest.leaves()[i]).release().ptr());
  return items;
}

SmallVector<Index, 8> to_order(const nb::args& order, std::string_view what) {
  nb::tuple entries = order;
  if (order.size() == 1 && !is_integer(order[0])) {
    if (PyObject* iterator = PyObject_GetIter(nb::handle(order[0]).ptr()); iterator == nullptr) {
      if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw_python_error();
      PyErr_Clear();
      raise<TypeError>(what, "the order must be integers or one iterable of integers: got ",
                       python_type_name(nb::handle(order[0])));
    } else {
      entries = snapshot(nb::steal(iterator));
    }
  }
  SmallVector<Index, 8> out;
  for (const nb::handle entry : entries)
    out.push_back(to_index<ValueError>(entry, what, "an entry of the order"));
  return out;
}

// Trees

void set_tree_classes(nb::handle tree, nb::handle node, nb::handle identified) {
  PythonNames names{nb::borrow(tree), node.attr("Leaf"), node.attr("Push"),
                    node.attr("Pop"), node.attr("id"),   nb::borrow(identified)};
  if (loaded_names == nullptr) loaded_names = std::make_unique<PythonNames>().release();
  *loaded_names = std::move(names);
}

bool is_tree(nb::handle value) { return nb::isinstance(value, python_names().tree); }

namespace {

Nested<Node> read_tree(nb::handle value, std::string_view what, std::size_t depth) {
  const PythonNames& names = python_names();
  if (value.is(names.leaf)) return Node::Leaf;
  if (nb::isinstance(value, names.identified))
    return Node::id(to_index<ValueError>(value.attr("id"), what, "an id"));
  if (!is_tree(value))
    raise<ValueError>(what, "a tree holds Node.Leaf, Node.id(n) and trees: got ", python_type_name(value));
  if (depth > max_nesting_depth) raise_nested_too_deeply();
  std::vector<Nested<Node>> items;
  for (const nb::handle item : snapshot(value)) items.push_back(read_tree(item, what, depth + 1));
  return items;
}

nb::object write_tree(const Coordinate& ids) {
  const PythonNames& names = python_names();
  if (ids.is_leaf()) return ids.leaf() < 0 ? names.leaf : names.id(ids.leaf());
  nb::list items;
  for (const Coordinate& item : ids.items()) items.append(write_tree(item));
  return names.tree(*nb::tuple(items));
}

}  // namespace

nb::list recipe_list(std::span<const Node> recipe) {
  const PythonNames& names = python_names();
  nb::list out;
  for (const Node node : recipe)
    out.append(node == Node::Push ? names.push : node == Node::Pop ? names.pop : names.leaf);
  return out;
}

namespace {

// The positions of a reshaped tree, replaced by the items there.
nb::object place_items(const Coordinate& positions, const nb::tuple& items) {
  if (positions.is_leaf()) return items[static_cast<std::size_t>(positions.leaf())];
  nb::list out;
  for (const Coordinate& item : positions.items()) out.append(place_items(item, items));
  return out;
}

}  // namespace

nb::object reshape_tree(nb::handle tree, nb::handle items) {
  const nb::tuple flat = to_finite_tuple(items, "Tree.reshape", "items");
  SmallVector<Index, 8> positions;
  for (std::size_t i = 0; i < flat.size(); ++i) positions.push_back(static_cast<Index>(i));
  return place_items(to_tree(tree, "Tree.reshape", "the tree").reshape(positions), flat);
}

Tree to_tree(nb::handle value, std::string_view what, std::string_view name) {
  if (!is_tree(value)) raise<ValueError>(what, name, " must be a Tree: got ", python_type_name(value));
  return Tree(read_tree(value, what, 1));
}

nb::object from_tree(const Tree& tree) { return write_tree(tree.top_level()); }

// The modes of Shape and Stride (M302)

namespace {

const orlop::detail::NestValue* try_nest(nb::handle value) {
  if (const auto* shape = try_native<Shape>(value)) return shape;
  return try_native<Stride>(value);
}

Index read_leaf(nb::handle value, std::string_view kind) {
  if (const auto leaf = detail::index_protocol(value, kind, "a mode", true)) return *leaf;
  if (is_negative(value)) return std::numeric_limits<Index>::min();  // refused like every negative mode
  raise<OverflowError>(kind, "a mode leaves 64 bits; use an integer up to 2**63 - 1");
}

Coordinate read_mode(nb::handle item, std::string_view kind, std::size_t depth);

std::vector<Coordinate> read_modes(nb::handle modes, std::string_view kind, std::size_t depth) {
  if (depth > max_nesting_depth) raise_nested_too_deeply();
  std::vector<Coordinate> out;
  for (const nb::handle item : snapshot(modes)) out.push_back(read_mode(item, kind, depth));
  return out;
}

Coordinate read_mode(nb::handle item, std::string_view kind, std::size_t depth) {
  if (is_integer(item)) return read_leaf(item, kind);
  if (const auto* nest = try_nest(item))
    return nest->is_int() && nest->rank() == 1 ? Coordinate(nest->leaves()[0]) : nest->top_level();
  const nb::handle type = item.type();
  const bool sized =
      nb::hasattr(type, "__len__") && (nb::hasattr(type, "__iter__") || PySequence_Check(item.ptr()));
  if (!sized || PyUnicode_Check(item.ptr()) || PyBytes_Check(item.ptr()))
    raise<ValueError>(kind, "a mode must be an integer or a sized iterable of modes: got ",
                      python_type_name(item));
  return read_modes(item, kind, depth + 1);
}

}  // namespace

std::optional<SmallVector<Index, 4>> try_flat_modes(const nb::args& items) {
  return plain_integers(items.size() == 1 && is_nest(items[0]) ? nb::handle(items[0]) : nb::handle(items));
}

Coordinate to_modes(const nb::args& items, std::string_view kind) {
  if (items.size() != 1) return read_modes(items, kind, 1);
  const nb::handle only = items[0];
  if (is_integer(only)) return read_leaf(only, kind);
  if (const auto* nest = try_nest(only)) return nest->top_level();
  if (PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(only.ptr())), "__iter__") == 0 &&
      PySequence_Check(only.ptr()) == 0)
    raise<TypeError>(kind, "the modes must be integers or one iterable of modes: got ",
                     python_type_name(only));
  return read_modes(only, kind, 1);
}

}  // namespace orlop::bindings
