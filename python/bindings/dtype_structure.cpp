// Structures of dtypes and rules across the language border: see dtype_structure.hpp.
#include "dtype_structure.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include "dtype_model.hpp"

namespace orlop::bindings {

namespace {

// Items of one extension and of one structure, so that no nest of shared tuples exhausts memory.
constexpr std::size_t extension_limit = 100'000;
constexpr std::size_t structure_limit = 10 * extension_limit;

// Walks nested exact tuples with a stack of its own; `append_leaf` takes everything else.
template <class AppendLeaf>
Structure flatten(nb::handle root, std::size_t limit, std::string_view what, AppendLeaf append_leaf) {
  Structure structure;
  std::vector<std::pair<nb::object, Py_ssize_t>> stack;
  stack.emplace_back(nb::borrow(root), 0);
  while (true) {
    if (structure.items().size() > limit)
      raise<ValueError>(what, "a structure has at most ", limit, " items here; make it smaller");
    auto& [tuple, position] = stack.back();
    if (position == PyTuple_GET_SIZE(tuple.ptr())) {
      stack.pop_back();
      if (stack.empty()) return structure;
      structure.close();
      continue;
    }
    const nb::handle item = PyTuple_GET_ITEM(tuple.ptr(), position++);
    if (PyTuple_CheckExact(item.ptr())) {
      structure.open();
      stack.emplace_back(nb::borrow(item), 0);
    } else {
      append_leaf(structure, item);
    }
  }
}

}  // namespace

Structure to_extension(nb::handle value, std::string_view what) {
  if (!PyTuple_CheckExact(value.ptr()))
    raise<TypeError>(what, "structure_extension() must return a tuple: got ", python_type_name(value));
  return flatten(value, extension_limit, what, [&](Structure& structure, nb::handle leaf) {
    if (leaf.is_none()) {
      structure.none();
    } else if (PyBool_Check(leaf.ptr())) {
      structure.boolean(leaf.ptr() == Py_True);
    } else if (PyUnicode_CheckExact(leaf.ptr())) {
      structure.string(utf8(leaf));
    } else if (PyLong_CheckExact(leaf.ptr())) {
      structure.leaf(text("int:", utf8(nb::str(leaf))));
    } else if (PyFloat_CheckExact(leaf.ptr())) {
      structure.leaf(text("float:", utf8(nb::object(leaf.attr("hex")()))));
    } else if (leaf.is(model().whole)) {
      structure.whole();
    } else {
      raise<TypeError>(
          what, "structure_extension() holds only exact strings, ints, floats, bools, None and Whole: got ",
          python_type_name(leaf));
    }
  });
}

Structure to_structure(nb::handle value, std::string_view what) {
  if (!PyTuple_CheckExact(value.ptr()))
    raise<TypeError>(what, "a structure must be a tuple: got ", python_type_name(value));
  return flatten(value, structure_limit, what, [&](Structure& structure, nb::handle leaf) {
    if (!PyUnicode_CheckExact(leaf.ptr()))
      raise<TypeError>(what, "a structure holds only tuples and strings: got ", python_type_name(leaf));
    structure.leaf(std::string(utf8(leaf)));
  });
}

nb::object from_structure(const Structure& structure) {
  std::vector<nb::list> stack(1);
  for (const Structure::Item& item : structure.items()) {
    if (item.token == Structure::Token::open) {
      stack.emplace_back();
    } else if (item.token == Structure::Token::close) {
      const nb::tuple closed(stack.back());
      stack.pop_back();
      stack.back().append(closed);
    } else {
      stack.back().append(nb::str(item.leaf.data(), item.leaf.size()));
    }
  }
  return nb::tuple(stack.back());
}

}  // namespace orlop::bindings
