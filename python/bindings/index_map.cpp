// IndexMap and its kinds beside Layout in Python; IndexMap may be subclassed there (M319).
#include "layout.hpp"
#include "orlop/layout/maps.hpp"

namespace orlop::bindings {

namespace {

std::optional<bool> to_known(nb::handle value, std::string_view what, std::string_view name) {
  if (value.is_none()) return std::nullopt;
  if (!PyBool_Check(value.ptr()))
    raise<TypeError>(what, name, " must be True, False or None: got ", python_type_name(value));
  return value.ptr() == Py_True;
}

// An IndexMap written in Python: every hook asks the Python object.
class PythonIndexMap final : public StoredIndexMap {
 public:
  using StoredIndexMap::StoredIndexMap;

  [[nodiscard]] Index index_ordinal(Index ordinal) const override {
    const InterpreterLock lock;
    const Index value =
        to_index<ValueError>(call("_index_ordinal", ordinal), what, "the result of _index_ordinal");
    if (value < 0 || value >= codomain_size())
      raise<ValueError>(what, "the result of _index_ordinal is out of range: ", value, " with codomain_size ",
                        codomain_size());
    return value;
  }
  [[nodiscard]] Ref<IndexMap> compose_with(const Ref<IndexMap>& inner) const override {
    const InterpreterLock lock;
    const nb::object result = call("_compose", inner);
    IndexMap* composed = try_native<IndexMap>(result);
    if (composed == nullptr)
      raise<TypeError>(what, "_compose must return an IndexMap: got ", python_type_name(result));
    return composed;
  }
  [[nodiscard]] std::optional<bool> composition_injectivity() const override {
    const InterpreterLock lock;
    return to_known(call("_composition_injectivity"), what, "the result of _composition_injectivity");
  }
  [[nodiscard]] bool composition_is_identity() const override {
    const InterpreterLock lock;
    return to_bool(call("_composition_is_identity"), what, "the result of _composition_is_identity");
  }

 private:
  static constexpr std::string_view what = "IndexMap";

  template <class... Args>
  nb::object call(const char* hook, const Args&... args) const {
    return nb::borrow(nb::handle(python_object())).attr(hook)(args...);
  }
};

// A plain function, so that it is the same object in every look-up.
bool has_own(nb::handle type, const char* name) {
  return !nb::object(type.attr(name)).is(nb::object(nb::type<IndexMap>().attr(name)));
}

void construct(nb::pointer_and_handle<IndexMap> self, nb::handle shape, nb::handle codomain_size,
               nb::handle is_injective) {
  constexpr std::string_view what = "IndexMap";
  if (!has_own(self.h.type(), "_index_ordinal"))
    raise<TypeError>(what, python_type_name(self.h), " is abstract: a subclass defines _index_ordinal");
  const Shape& domain = to_shape(shape, what, "shape");
  const Index codomain = to_positive(codomain_size, what, "codomain_size");
  const auto known = to_known(is_injective, what, "is_injective");
  std::construct_at(static_cast<PythonIndexMap*>(static_cast<void*>(self.p)), domain, codomain, known);
}

const PythonIndexMap* as_python(const IndexMap& map) { return dynamic_cast<const PythonIndexMap*>(&map); }

nb::object from_known(std::optional<bool> known) {
  return known ? nb::object(nb::bool_(*known)) : nb::none();
}

Index index_ordinal(const IndexMap& self, nb::handle ordinal) {
  if (as_python(self) != nullptr)
    raise<NotImplementedError>("IndexMap", "_index_ordinal is for the subclass to define");
  return self.index(to_index<ValueError>(ordinal, "IndexMap", "ordinal"));
}

// The default for Python subclasses is the opaque composition, so that super()._compose(inner) works.
Ref<IndexMap> compose_hook(const Ref<IndexMap>& self, const Ref<IndexMap>& inner) {
  if (as_python(*self) == nullptr)
    if (Ref<IndexMap> closed = self->compose_with(inner)) return closed;
  return IndexMap::compose_opaquely(self, inner);
}

std::optional<bool> injectivity_hook(const IndexMap& self) {
  return as_python(self) != nullptr ? self.injectivity() : self.composition_injectivity();
}

bool identity_hook(const IndexMap& self) {
  return as_python(self) == nullptr && self.composition_is_identity();
}

Ref<IndexMap> to_map(nb::handle value, std::string_view what, std::string_view name) {
  if (IndexMap* map = try_native<IndexMap>(value)) return map;
  raise<TypeError>(what, name, " must be an IndexMap: got ", python_type_name(value));
}

// A subclass in Python may keep attributes of its own; what IndexMap defines stays.
void check_own_attribute(nb::handle self, const nb::str& name) {
  if (as_python(*nb::inst_ptr<IndexMap>(self)) == nullptr ||
      PyObject_HasAttr(nb::type<IndexMap>().ptr(), name.ptr()) != 0)
    raise_immutable(self, name);
}

void set_attribute(nb::handle self, const nb::str& name, nb::handle value) {
  if (nb::inst_ready(self)) check_own_attribute(self, name);
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value.ptr()) < 0) throw_python_error();
}

void delete_attribute(nb::handle self, const nb::str& name) {
  if (nb::inst_ready(self)) check_own_attribute(self, name);
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), nullptr) < 0) throw_python_error();
}

std::vector<Index> to_values(nb::handle values) {
  constexpr std::string_view what = "Permutation";
  if (PySequence_Check(values.ptr()) == 0 || PyUnicode_Check(values.ptr()))
    raise<TypeError>(what, "values must be a sequence of integers: got ", python_type_name(values));
  const nb::object items = nb::steal(PySequence_Tuple(values.ptr()));
  if (!items.is_valid()) throw_python_error();
  std::vector<Index> out;
  for (const nb::handle item : items) out.push_back(to_index(item, what, "an entry of values"));
  return out;
}

void bind_permutation(nb::module_& module) {
  nb::class_<Permutation, IndexMap>(
      module, "Permutation", nb::is_final(),
      R"(The value at ordinal i is values[i] (M319). TypeError for what is no sequence of integers, ValueError where they
are not distinct, non-negative and below codomain_size.

>>> from orlop import Permutation
>>> [Permutation([2, 0, 1], 3)(i) for i in range(3)]
[2, 0, 1]
>>> Permutation([2, 0, 2], 3)
Traceback (most recent call last):
    ...
ValueError: [Permutation] values must be pairwise distinct: 2 twice)")
      .def(
          "__init__",
          [](Permutation* self, nb::handle values, nb::handle codomain_size) {
            std::vector<Index> entries = to_values(values);
            std::construct_at(self, std::move(entries),
                              to_positive(codomain_size, "Permutation", "codomain_size"));
          },
          "values"_a.none(), "codomain_size"_a.none())
      .def("__reduce__",
           [](const Permutation& self) {
             return nb::make_tuple(nb::type<Permutation>(),
                                   nb::make_tuple(tuple_of(self.values()), self.codomain_size()));
           })
      .def_prop_ro("values", [](const Permutation& self) { return tuple_of(self.values()); });
}

void bind_product(nb::module_& module) {
  nb::class_<Product, IndexMap>(
      module, "Product", nb::is_final(), nb::type_slots(collector_slots),
      R"(One domain mode per child; the value is the ordinal of the children's values (M319). TypeError for a
child that is no IndexMap, ValueError for less than two.

>>> from orlop import Permutation, Product
>>> product = Product(Permutation([2, 0], 5), Permutation([1, 3], 7))
>>> product((0, 0)), product((1, 1))
(7, 15))")
      .def("__init__",
           [](Product* self, const nb::args& children) {
             if (children.size() < 2)
               raise<ValueError>("Product", "a product needs at least two children: got ", children.size());
             std::vector<Ref<IndexMap>> maps;
             for (const nb::handle child : children) maps.push_back(to_map(child, "Product", "a child"));
             std::construct_at(self, std::move(maps));
           })
      .def("__reduce__",
           [](const Product& self) { return nb::make_tuple(nb::type<Product>(), tuple_of(self.children())); })
      .def_prop_ro("children", [](const Product& self) { return tuple_of(self.children()); })
      .def_prop_ro("target_shape", &Product::target_shape);
  nb::class_<Composition, IndexMap>(module, "_Composition", nb::is_final(), nb::type_slots(collector_slots));
}

void bind_swizzle(nb::module_& module) {
  nb::class_<SwizzleStage> stage(
      module, "SwizzleStage", nb::is_final(),
      R"(One xor of a bit field with another, `shift` bits away (M319). TypeError for other types;
ValueError where bits is not positive, base negative, shift 0, or the fields overlap.

>>> from orlop import SwizzleStage
>>> SwizzleStage(2, 0, 2).shift
2
>>> SwizzleStage(2, 0, 1)
Traceback (most recent call last):
    ...
ValueError: [SwizzleStage] the fields must not overlap: bits 2, shift 1; abs(shift) must be at ...)");
  stage
      .def(
          "__init__",
          [](SwizzleStage* self, nb::handle bits, nb::handle base, nb::handle shift) {
            std::construct_at(self, to_exact_int(bits, "SwizzleStage", "bits"),
                              to_exact_int(base, "SwizzleStage", "base"),
                              to_exact_int(shift, "SwizzleStage", "shift"));
          },
          "bits"_a.none(), "base"_a.none(), "shift"_a.none())
      .def_prop_ro("bits", &SwizzleStage::bits)
      .def_prop_ro("base", &SwizzleStage::base)
      .def_prop_ro("shift", &SwizzleStage::shift)
      .def(
          "__eq__",
          [](const SwizzleStage& self, nb::handle other) {
            const auto* stage = try_native<SwizzleStage>(other);
            return stage == nullptr ? nb::borrow(Py_NotImplemented) : nb::object(nb::bool_(self == *stage));
          },
          "other"_a.none())
      .def("__hash__",
           [](const SwizzleStage& self) {
             return nb::hash(nb::make_tuple(self.bits(), self.base(), self.shift()));
           })
      .def("__repr__",
           [](const SwizzleStage& self) {
             return text("SwizzleStage(bits=", self.bits(), ", base=", self.base(), ", shift=", self.shift(),
                         ')');
           })
      .def("__reduce__", [](const SwizzleStage& self) {
        return nb::make_tuple(nb::type<SwizzleStage>(),
                              nb::make_tuple(self.bits(), self.base(), self.shift()));
      });
  refuse_changes(stage);
  nb::class_<Swizzle, IndexMap>(
      module, "Swizzle", nb::is_final(),
      R"(The stages, one after the other, on the ordinals of a shape (M319). TypeError for other types, ValueError for a
size that is no power of two or a stage that needs more bits.

>>> from orlop import Shape, Swizzle, SwizzleStage
>>> Swizzle(Shape(16), SwizzleStage(2, 0, 2))(0b0111) == 0b0110
True)")
      .def(
          "__init__",
          [](Swizzle* self, nb::handle shape, const nb::args& stages) {
            std::vector<SwizzleStage> list;
            const Shape& domain = to_shape(shape, "Swizzle", "shape");
            for (const nb::handle item : stages) {
              const auto* stage = try_native<SwizzleStage>(item);
              if (stage == nullptr)
                raise<TypeError>("Swizzle", "a stage must be a SwizzleStage: got ", python_type_name(item));
              list.push_back(*stage);
            }
            std::construct_at(self, domain, std::move(list));
          },
          "shape"_a.none(), "stages"_a)
      .def("__reduce__",
           [](const Swizzle& self) {
             nb::list arguments;
             arguments.append(self.shape());
             for (const SwizzleStage& item : self.stages()) arguments.append(item);
             return nb::make_tuple(nb::type<Swizzle>(), nb::tuple(arguments));
           })
      .def_prop_ro("stages", [](const Swizzle& self) { return tuple_of(self.stages()); });
}

}  // namespace

void bind_index_map(nb::module_& module) {
  nb::class_<IndexMap, PythonIndexMap> map(
      module, "IndexMap", counted<IndexMap>(),
      R"(Base of all maps from the coordinates of a shape into 0 … codomain_size - 1; abstract (M319).

A subclass defines `_index_ordinal(i)` and may define `_compose(inner)`, `_composition_injectivity()` and
`_composition_is_identity()`.

>>> from orlop import IndexMap, Shape
>>> class Reversed(IndexMap):
...     def __init__(self, size):
...         super().__init__(Shape(size), size, True)
...
...     def _index_ordinal(self, i):
...         return self.size - 1 - i
>>> Reversed(4).index(0), Reversed(4).compose(Reversed(4))(0)
(3, 0))");
  map.def("__init__", construct, "shape"_a.none(), "codomain_size"_a.none(), "is_injective"_a.none())
      .def("__setattr__", set_attribute, "name"_a, "value"_a.none())
      .def("__delattr__", delete_attribute, "name"_a)
      .def_prop_ro("shape", &IndexMap::shape)
      .def_prop_ro("size", &IndexMap::domain_size, "The number of coordinates.")
      .def_prop_ro("codomain_size", &IndexMap::codomain_size, "One more than the greatest possible value.")
      .def_prop_ro(
          "is_injective", [](const IndexMap& self) { return from_known(self.injectivity()); },
          "True, False, or None where it is not known.")
      .def(
          "__call__",
          [](const IndexMap& self, nb::handle key) { return self.index(to_coordinate(key, "IndexMap")); },
          "key"_a.none(),
          "The value at an ordinal or coordinate. TypeError; ValueError 'Key is not in domain of shape'.")
      .def(
          "index",
          [](const IndexMap& self, nb::handle key) { return self.index(to_coordinate(key, "IndexMap")); },
          "key"_a.none(), "The same as a call.")
      .def(
          "compose",
          [](const Ref<IndexMap>& self, nb::handle inner) {
            return IndexMap::compose(self, to_map(inner, "compose", "inner"));
          },
          "inner"_a.none(),
          "q ↦ self(inner(q)). TypeError; ValueError where inner's codomain exceeds self's size (M315).")
      .def("__repr__",
           [](const nb::pointer_and_handle<IndexMap>& self) {
             return text(python_type_name(self.h), "( ", self.p->shape(),
                         ", codomain_size=", self.p->codomain_size(), ')');
           })
      .def("__copy__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); }, "memo"_a.none())
      .def("__reduce__",
           [](nb::handle self) -> nb::object {
             raise<TypeError>(python_type_name(self),
                              "the map cannot be pickled; a subclass may define __reduce__");
           })
      .def("_index_ordinal", index_ordinal, "ordinal"_a.none())
      .def("_compose", compose_hook, "inner"_a)
      .def("_composition_injectivity",
           [](const IndexMap& self) { return from_known(injectivity_hook(self)); })
      .def("_composition_is_identity", identity_hook);
}

void bind_other_maps(nb::module_& module) {
  bind_permutation(module);
  bind_product(module);
  bind_swizzle(module);
}

}  // namespace orlop::bindings
