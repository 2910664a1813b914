// The native side of orlop.carriers.dtype: descriptors from their construction to the registry, queries, and
// the storage dtype helpers.
#include "dtype.hpp"

#include <memory>
#include <utility>

#include "dtype_model.hpp"
#include "dtype_structure.hpp"
#include "dtype_values.hpp"
#include "orlop/storage/storage_dtype.hpp"
#include "representation_rule.hpp"

namespace orlop::bindings {

PyTypeObject* dtype_holder_type = nullptr;

namespace {

DTypeHolder* dtype_holder(nb::handle self) {
  if (!is_instance(self, dtype_holder_type))
    raise<TypeError>("dtype", "expected a DType: got ", python_type_name(self));
  return reinterpret_cast<DTypeHolder*>(self.ptr());
}

void destroy_dtype_holder(PyObject* self) {
  auto* holder = reinterpret_cast<DTypeHolder*>(self);
  delete holder->draft;
  if (holder->published != nullptr && holder->published->python_object() == self)
    holder->published->set_python_object(nullptr);
  free_holder(self);
}

// --- Construction ---

void require_instance(nb::handle self, nb::handle type, std::string_view what) {
  if (!is_instance(self, type))
    raise<TypeError>(what, "__init__ needs an instance of ", what, ": got ", python_type_name(self));
  if (dtype_holder(self)->published != nullptr)
    raise<AttributeError>(what, dtype_holder(self)->published->to_string(),
                          " is immutable; it is initialized once");
}

template <class T>
void install_draft(nb::handle self, std::string name, typename T::Options options) {
  auto draft = std::make_unique<orlop::detail::Draft<T>>(std::move(name), std::move(options));
  DTypeHolder* holder = dtype_holder(self);
  delete holder->draft;
  holder->draft = draft.release();
  holder->is_base_initialized = true;
}

void initialize_dtype(nb::handle self, nb::handle name, nb::handle supertype) {
  require_instance(self, reinterpret_cast<PyObject*>(dtype_holder_type), "DType");
  to_name(name, "DType");
  to_optional_category(supertype, "DType");
  dtype_holder(self)->is_base_initialized = true;
}

void initialize_category(nb::handle self, nb::handle name, nb::handle supertype, nb::handle opaque_storage) {
  constexpr std::string_view what = "DTypeCategory";
  require_instance(self, model().category, what);
  std::string exact_name = to_name(name, what);
  const CategoryRef above = to_optional_category(supertype, what);
  install_draft<DTypeCategory>(
      self, std::move(exact_name),
      {.supertype = above, .opaque_storage = to_bool(opaque_storage, what, "opaque_storage")});
}

void initialize_simple(nb::handle self, nb::handle name, nb::handle bits, nb::handle supertype) {
  constexpr std::string_view what = "SimpleDType";
  require_instance(self, model().simple, what);
  const CategoryRef above = to_category(supertype, what);
  std::string exact_name = to_name(name, what);
  if (PyBool_Check(bits.ptr()) || !PyIndex_Check(bits.ptr()))
    raise<ValueError>(what, "dtype '", exact_name, "' needs an exact positive bit width: got ",
                      python_type_name(bits), "; give bits as an int of at least 1");
  install_draft<SimpleDType>(
      self, std::move(exact_name),
      {.bits = to_index<ValueError>(bits, what, "an exact positive bit width"), .supertype = above});
}

void initialize_compound(nb::handle self, nb::handle name, nb::handle supertype, nb::handle simple_types,
                         nb::handle rules) {
  constexpr std::string_view what = "CompoundDType";
  require_instance(self, model().compound, what);
  std::string exact_name = to_name(name, what);
  CompoundDType::Options options{.supertype = to_optional_category(supertype, what), .simple_types = {}};
  const auto planes = to_items(simple_types, what, "simple_types");
  if (planes.empty()) raise<ValueError>(what, "'", exact_name, "' needs at least one simple dtype: got none");
  for (const auto& plane : planes)
    options.simple_types.push_back(to_simple(plane, what, "each of simple_types"));
  for (const auto& rule : to_items(rules, what, "representation_rules"))
    options.representation_rules.push_back(to_rule(rule, what));
  // Draft<CompoundDType> is what a Python subclass is made of; C++ derives instead.
  install_draft<CompoundDType>(self, std::move(exact_name), std::move(options));
}

void initialize_block_scaled(nb::handle self, nb::handle name, nb::handle element, nb::handle levels) {
  constexpr std::string_view what = "BlockScaledDType";
  require_instance(self, model().block_scaled, what);
  BlockScaledDType::Options options{.element = to_simple(element, what, "element"), .levels = {}};
  for (const auto& level : to_items(levels, what, "levels")) {
    if (!nb::isinstance<Level>(level))
      raise<TypeError>(what, "levels must hold Level values: got ", python_type_name(level));
    options.levels.push_back(nb::cast<const Level&>(level));
  }
  // The name is judged after the levels, with them: one that is no str reads as the empty one.
  std::string exact_name(PyUnicode_Check(name.ptr()) ? utf8(name) : "");
  install_draft<BlockScaledDType>(self, std::move(exact_name), std::move(options));
}

// Each class of the model that `self` belongs to must have run its __init__ (M108).
void check_draft(nb::handle self) {
  const std::string type_name = python_type_name(self);
  const auto require = [&](bool is_initialized, std::string_view base) {
    if (!is_initialized)
      raise<TypeError>(type_name, "the constructor did not initialize its ", base,
                       " base; call super().__init__");
  };
  require(is_instance(self, dtype_holder_type), "DType");
  const DTypeHolder* holder = dtype_holder(self);
  require(holder->published == nullptr && holder->is_base_initialized, "DType");
  const bool is_category = is_instance(self, model().category), is_simple = is_instance(self, model().simple),
             is_compound = is_instance(self, model().compound);
  if (int{is_category} + int{is_simple} + int{is_compound} != 1)
    raise<TypeError>(
        type_name,
        "a dtype is a category, a simple or a compound dtype: this class is none or several; extend "
        "one of DTypeCategory, SimpleDType, CompoundDType and BlockScaledDType");
  const DType* draft = holder->draft;
  if (is_category) require(draft != nullptr && draft->is_category(), "category");
  if (is_simple) require(draft != nullptr && draft->is_simple(), "simple");
  if (is_compound) require(draft != nullptr && draft->is_compound(), "compound");
  if (is_instance(self, model().block_scaled))
    require(dynamic_cast<const BlockScaledDType*>(draft) != nullptr, "block-scaled");
}

void publish_dtype(nb::handle self, nb::handle extension) {
  Structure structure = to_extension(extension, python_type_name(self));
  check_draft(self);  // structure_extension() may have run anything
  DTypeHolder* holder = dtype_holder(self);
  std::unique_ptr<DType> draft(std::exchange(holder->draft, nullptr));
  const DType& dtype = publish(std::move(draft), std::move(structure), self.ptr());
  holder->published = &dtype;
  Py_INCREF(self.ptr());  // given back by drop_python_objects
}

void discard_draft(nb::handle self) {
  if (!is_instance(self, dtype_holder_type)) return;
  DTypeHolder* holder = dtype_holder(self);
  delete std::exchange(holder->draft, nullptr);
  holder->is_base_initialized = false;
}

// The descriptor behind `self`, published or under construction.
template <class T = DType>
const T& described(nb::handle self) {
  const DTypeHolder* holder = dtype_holder(self);
  const DType* dtype = holder->published != nullptr ? holder->published : holder->draft;
  if (dtype == nullptr) raise_not_finalized();
  const auto* match = dynamic_cast<const T*>(dtype);
  if (match == nullptr) raise<TypeError>("dtype", dtype->to_string(), " has no such property");
  return *match;
}

nb::object from_name(nb::handle type, nb::handle name) {
  if (PyType_Check(type.ptr()) == 0)
    raise<TypeError>("dtype", "expected a class: got ", python_type_name(type));
  const std::string type_name = to_text(type.attr("__name__"));
  if (!PyUnicode_Check(name.ptr()))
    raise<TypeError>(text(type_name, ".from_name"), "name must be a str: got ", python_type_name(name));
  if (!is_text(name))
    raise<LookupError>(text(type_name, ".from_name"), "No Orlop dtype named '", to_text(name),
                       "'; a name has no lone surrogate");
  nb::object dtype = from_dtype(DType::from_name(utf8(name)));
  if (!is_instance(dtype, type))
    raise<LookupError>(text(type_name, ".from_name"), "'", utf8(name), "' is not a ", type_name,
                       " descriptor; ask the class it belongs to, or DType");
  return dtype;
}

nb::handle python_class(const DType& dtype) {
  if (dtype.is_category()) return model().category;
  if (dtype.is_simple()) return model().simple;
  return dynamic_cast<const BlockScaledDType*>(&dtype) != nullptr ? model().block_scaled : model().compound;
}

// --- Storage dtype helpers ---

nb::object validate_storage(nb::handle dtype, std::string_view carrier, nb::handle accepted) {
  const DType& candidate = to_dtype(dtype, carrier);
  std::vector<const DType*> descriptors;
  for (const auto& one : to_items(accepted, carrier, "accepted"))
    descriptors.push_back(&to_dtype(one, "accepted"));
  validate_storage_dtype(candidate, carrier, descriptors);
  return nb::borrow(dtype);
}

nb::object zero_of(nb::handle dtype) {
  const auto zero = storage_zero(to_dtype(dtype, "storage_zero"));
  return zero ? from_scalar(*zero) : nb::none();
}

// --- The module ---

// At exit the registry lets go of its Python objects; each is forgotten when its last user is.
void drop_python_objects() {
  static bool is_done = false;
  if (std::exchange(is_done, true)) return;
  forget_python_rules();
  for (const DType* dtype : DType::registered())
    if (PyObject* object = dtype->python_object()) Py_DECREF(object);
}

void bind_construction(nb::module_& module) {
  module.def("install_model", install_model);
  module.def("initialize_dtype", initialize_dtype, any, any, any);
  module.def("initialize_category", initialize_category, any, any, any, any);
  module.def("initialize_simple", initialize_simple, any, any, any, any);
  module.def("initialize_compound", initialize_compound, any, any, any, any, any);
  module.def("initialize_block_scaled", initialize_block_scaled, any, any, any, any);
  module.def("check_draft", check_draft, any);
  module.def("publish", publish_dtype, any, any);
  module.def("discard_draft", discard_draft, any);
  module.def("is_published", [](nb::handle self) { return dtype_holder(self)->published != nullptr; });
  module.def("builtins", [] { return from_dtypes(builtin_dtypes()); });
  module.def("registered", [] { return from_dtypes(DType::registered()); });
  module.def("from_name", from_name, any, any);
  module.def(
      "resolve",
      [](nb::handle name, nb::handle structure) {
        if (!PyUnicode_Check(name.ptr()))
          raise<TypeError>("dtype", "name must be a str: got ", python_type_name(name));
        return from_dtype(resolve_dtype(utf8(name), to_structure(structure, "dtype")));
      },
      any, any);
}

void bind_queries(nb::module_& module) {
  module.def("name", [](nb::handle self) { return described(self).name(); });
  module.def("supertype", [](nb::handle self) { return CategoryRef(described(self).supertype()); });
  module.def("supertypes", [](nb::handle self) { return from_dtypes(described(self).supertypes()); });
  module.def("is_category", [](nb::handle self) { return described(self).is_category(); });
  module.def("is_simple", [](nb::handle self) { return described(self).is_simple(); });
  module.def("is_compound", [](nb::handle self) { return described(self).is_compound(); });
  module.def("is_opaque_storage", [](nb::handle self) { return described(self).is_opaque_storage(); });
  module.def(
      "is_subtype_of",
      [](nb::handle self, nb::handle other) {
        return described(self).is_subtype_of(to_dtype(other, "is_subtype_of"));
      },
      any, any);
  module.def("representation_rules",
             [](nb::handle self) { return tuple_of(described(self).representation_rules(), from_rule); });
  module.def("structure", [](nb::handle self) {
    const DType* dtype = dtype_holder(self)->published;
    if (dtype == nullptr) raise_not_finalized();
    return from_structure(dtype->structure());
  });
  module.def("bits", [](nb::handle self) { return described<SimpleDType>(self).bits(); });
  module.def("simple_types",
             [](nb::handle self) { return from_dtypes(described<CompoundDType>(self).simple_types()); });
  module.def("num_carriers", [](nb::handle self) { return described<CompoundDType>(self).num_carriers(); });
  module.def("element",
             [](nb::handle self) { return from_dtype(described<BlockScaledDType>(self).element()); });
  module.def("levels", [](nb::handle self) { return tuple_of(described<BlockScaledDType>(self).levels()); });
  module.def("num_axes", [](nb::handle self) { return described<BlockScaledDType>(self).num_axes(); });
  module.def("bits_per_element", [](nb::handle self) {
    return std::visit([](const auto& bits) { return nb::cast(bits); },
                      described<BlockScaledDType>(self).bits_per_element());
  });
}

}  // namespace

void raise_not_finalized() {
  raise<ValueError>(
      "dtype",
      "this DType is not finalized: its constructor failed or has not returned; use a registered one");
}

PyObject* make_python_dtype(const DType& dtype) {
  const nb::object object = allocate_instance(python_class(dtype));
  // Loading the model may have made it meanwhile.
  if (PyObject* known = known_python_dtype(dtype)) return nb::borrow(known).release().ptr();
  dtype_holder(object)->published = &dtype;
  dtype.set_python_object(object.ptr());
  Py_INCREF(object.ptr());
  return nb::object(object).release().ptr();
}

void bind_dtype(nb::module_& module) {
  nb::module_ native = module.def_submodule("_dtype", "What orlop.carriers.dtype is made of.");
  dtype_holder_type = make_holder_type("orlop._core._dtype.Descriptor", sizeof(DTypeHolder),
                                       destroy_dtype_holder, "Holds the native descriptor.");
  native.attr("Descriptor") = nb::handle(reinterpret_cast<PyObject*>(dtype_holder_type));
  bind_construction(native);
  bind_queries(native);
  bind_representation_rules(native);
  bind_dtype_values(native);
  native.def("validate_storage_dtype", validate_storage, any, nb::arg(), any);
  native.def("storage_zero", zero_of, any);
  at_exit(drop_python_objects);
}

}  // namespace orlop::bindings
