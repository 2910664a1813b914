// The Python model behind the dtype bindings, its holder classes and the shared arguments.
#include "dtype_model.hpp"

#include <utility>

namespace orlop::bindings {

namespace {

PythonModel python_model;

PyObject* allocate(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }

}  // namespace

const PythonModel& model() {
  if (!python_model.whole.is_valid()) nb::module_::import_("orlop.carriers.dtype");
  if (!python_model.whole.is_valid())
    raise<RuntimeError>("dtype", "orlop.carriers.dtype is not loaded, or no more");
  return python_model;
}

void install_model(nb::module_ native, nb::type_object category, nb::type_object simple,
                   nb::type_object compound, nb::type_object block_scaled, nb::type_object rule,
                   nb::type_object level_extent, nb::type_object context, nb::object whole) {
  if (python_model.whole.is_valid()) raise<RuntimeError>("dtype", "orlop.carriers.dtype is loaded once");
  python_model = {category, simple, compound, block_scaled, rule, level_extent, context, whole};
  native.attr("model") = nb::capsule(&python_model, [](void*) noexcept { python_model = {}; });
}

// --- Classes that hold a native object ---

PyTypeObject* make_holder_type(const char* name, std::size_t size, destructor destroy,
                               const char* documentation) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(allocate)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_doc, const_cast<char*>(documentation)},
                         {0, nullptr}};
  PyType_Spec spec{name, static_cast<int>(size), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw_python_error();
  return reinterpret_cast<PyTypeObject*>(type);
}

nb::object allocate_instance(nb::handle type) {
  auto* python_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  nb::object object = nb::steal(python_type->tp_alloc(python_type, 0));
  if (!object.is_valid()) throw_python_error();
  return object;
}

void free_holder(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

bool is_instance(nb::handle value, PyTypeObject* type) { return PyObject_TypeCheck(value.ptr(), type) != 0; }
bool is_instance(nb::handle value, nb::handle type) {
  return is_instance(value, reinterpret_cast<PyTypeObject*>(type.ptr()));
}

// --- Arguments ---

std::string to_name(nb::handle name, std::string_view what) {
  if (!PyUnicode_Check(name.ptr()))
    raise<ValueError>(what, "name must be a non-empty str: got ", python_type_name(name));
  std::string exact(utf8(name));
  if (exact.empty()) raise<ValueError>(what, "name must be a non-empty str: got ''");
  return exact;
}

CategoryRef to_category(nb::handle value, std::string_view what) {
  const DType* dtype = try_dtype(value);
  if (dtype == nullptr || !dtype->is_category())
    raise<TypeError>(what, "supertype must be a DTypeCategory: got ",
                     dtype == nullptr ? python_type_name(value) : dtype->to_string());
  return static_cast<const DTypeCategory*>(dtype);
}

CategoryRef to_optional_category(nb::handle value, std::string_view what) {
  return value.is_none() ? CategoryRef() : to_category(value, what);
}

SimpleRef to_simple(nb::handle value, std::string_view what, std::string_view name) {
  const DType* dtype = try_dtype(value);
  if (dtype == nullptr || !dtype->is_simple())
    raise<TypeError>(what, name, " must be a SimpleDType: got ",
                     dtype == nullptr ? python_type_name(value) : dtype->to_string());
  return static_cast<const SimpleDType*>(dtype);
}

std::vector<nb::object> to_items(nb::handle iterable, std::string_view what, std::string_view name) {
  std::vector<nb::object> items;
  for_each_item(iterable, what, name, [&](nb::object item) { items.push_back(std::move(item)); });
  return items;
}

BlockExtent to_extent(nb::handle value, std::string_view what, std::string_view name, bool exact) {
  if (value.is(model().whole)) return Whole;
  if (exact ? !PyLong_CheckExact(value.ptr()) : !PyIndex_Check(value.ptr()) || PyBool_Check(value.ptr()))
    raise<TypeError>(what, name, " must be an int or Whole: got ", python_type_name(value));
  const auto count = to_index(value, what, name);
  if (count < 1) raise<ValueError>(what, name, " must be at least 1, or Whole: got ", count);
  return count;
}

nb::object from_extent(BlockExtent extent) {
  return extent.is_whole() ? nb::borrow(model().whole) : nb::object(nb::int_(extent.count()));
}

}  // namespace orlop::bindings
