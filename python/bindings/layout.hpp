// Layouts across the language border: casters and conversions of keys, shapes and trees.
#pragma once

#include <memory>

#include "orlop/layout/layout.hpp"
#include "support.hpp"

namespace nanobind::detail {

/// A Layout is a value in C++ and a counted IndexMap in Python: results become a new Python object.
template <>
struct type_caster<orlop::Layout> : type_caster_base<orlop::Layout> {
  using Base = type_caster_base<orlop::Layout>;

  static handle from_cpp(orlop::Layout* layout, rv_policy policy, cleanup_list* cleanup) noexcept {
    return Base::from_cpp(layout, policy, cleanup);
  }
  static handle from_cpp(const orlop::Layout& layout, rv_policy, cleanup_list*) noexcept {
    try {
      object instance = inst_alloc(nb_type_lookup_layout());
      auto* copy = std::construct_at(inst_ptr<orlop::Layout>(instance), layout);
      copy->set_python_object(instance.ptr());
      inst_mark_ready(instance);
      return instance.release();
    } catch (python_error& error) {
      error.restore();
      return {};
    }
  }

 private:
  static handle nb_type_lookup_layout() { return type<orlop::Layout>(); }
};

}  // namespace nanobind::detail

namespace orlop::bindings {

/// A key: an integer or a tuple/list nest of integers. Other types and bools are TypeErrors, a nest deeper
/// than max_nesting_depth a ValueError. An integer beyond 64 bits becomes the nearest one, which no layout
/// has.
Coordinate to_coordinate(nb::handle key, std::string_view what);
/// The same, but an integer beyond 64 bits is an OverflowError.
Coordinate to_exact_coordinate(nb::handle key, std::string_view what);
/// The nested tuples of a coordinate; an integer for a leaf.
nb::object from_coordinate(const Coordinate& coordinate);

/// An integer of at least 1: other types are TypeErrors, smaller ones ValueErrors, beyond 64 bits
/// OverflowErrors.
Index to_positive(nb::handle value, std::string_view what, std::string_view name);

/// The index at a Python key, without building a Coordinate for an ordinal or a flat tuple (M306).
Index layout_index(const Layout& layout, nb::handle key, std::string_view what = "Layout");

/// The modes that `Shape(*items)` and `Stride(*items)` spell (M302).
Coordinate to_modes(const nb::args& items, std::string_view kind);
/// The same modes where they are plain ints in one tuple or list, or as arguments; else nothing. Runs no user
/// code.
std::optional<SmallVector<Index, 4>> try_flat_modes(const nb::args& items);

/// A Shape, or TypeError: `name` must be a Shape.
const Shape& to_shape(nb::handle value, std::string_view what, std::string_view name);
/// A Layout, or the error `E`: `name` must be a Layout.
template <class E = TypeError>
const Layout& to_layout(nb::handle value, std::string_view what, std::string_view name) {
  if (const auto* layout = try_native<Layout>(value)) return *layout;
  raise<E>(what, name, " must be a Layout: got ", python_type_name(value));
}
/// A sequence of Layouts; TypeError.
std::vector<Layout> to_tiler(nb::handle value, std::string_view what, std::string_view name);

/// The nested tuples of a Shape or Stride: `(2, (3, 4))`.
nb::object nest_tuple(const orlop::detail::NestValue& nest);
inline nb::object shape_tuple(const Shape& shape) { return nest_tuple(shape); }

/// Takes the classes Tree and Node and that of Node.id's results from orlop.layout.
void set_tree_classes(nb::handle tree, nb::handle node, nb::handle identified);
/// Whether `value` is an orlop.layout.Tree.
bool is_tree(nb::handle value);
/// The native Tree of one, or ValueError: `name` must be a Tree.
Tree to_tree(nb::handle value, std::string_view what, std::string_view name);
nb::object from_tree(const Tree& tree);
/// The list of orlop.layout.Node members.
nb::list recipe_list(std::span<const Node> recipe);
/// `items` nested like `tree`, one per leaf. ValueError for another number.
nb::object reshape_tree(nb::handle tree, nb::handle items);

/// The integers of `*order`, or of its one iterable. TypeError for an entry that is none.
SmallVector<Index, 8> to_order(const nb::args& order, std::string_view what);

/// Throws AttributeError ‹immutable›.
[[noreturn]] void raise_immutable(nb::handle self, const nb::str& name);
/// Makes setting and deleting attributes an AttributeError ‹immutable›.
template <class Class>
void refuse_changes(Class& cls) {
  cls.def(
         "__setattr__", [](nb::handle self, nb::str name, nb::handle) { raise_immutable(self, name); },
         "name"_a, "value"_a.none())
      .def("__delattr__", [](nb::handle self, nb::str name) { raise_immutable(self, name); }, "name"_a);
}
// Called by bind_layout, in this order.
void bind_index_map(nb::module_& module);
void bind_other_maps(nb::module_& module);

}  // namespace orlop::bindings
