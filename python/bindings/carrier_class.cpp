// Classes of carriers across the language border: see carrier_class.hpp.
#include "carrier_class.hpp"

#include <memory>
#include <unordered_map>
#include <utility>

namespace orlop::bindings {

namespace {

bool is_subclass(nb::handle type, nb::handle base) {
  const int result = PyObject_IsSubclass(type.ptr(), base.ptr());
  if (result < 0) throw_python_error();
  return result == 1;
}

/// The classes met so far. Each is held, so that no other class gets its address and with it its identity.
std::unordered_map<PyObject*, CarrierClass>& known_classes() {
  static auto& known = *std::make_unique<std::unordered_map<PyObject*, CarrierClass>>().release();
  return known;
}

/// At interpreter exit: a held class would keep its module, and that all its globals.
void forget_classes() {
  for (const auto& [type, carrier_class] : std::exchange(known_classes(), {})) {
    carrier_class.record()->python_type = nullptr;
    Py_DECREF(type);
  }
}

std::string closed_message(std::string_view name) {
  std::string message(closed_carrier_message);
  constexpr std::string_view field = "{name}";
  for (auto at = message.find(field); at != std::string::npos; at = message.find(field, at + name.size()))
    message.replace(at, field.size(), name);
  return message;
}

}  // namespace

bool is_native_class(nb::handle type) {
  return nb::type_check(type) && NB_CALL(nb_type_lookup)(NB_CTX, &nb::type_info(type)) == type.ptr();
}

CarrierClass carrier_class_of_type(nb::handle type) {
  auto& known = known_classes();
  if (!PyType_Check(type.ptr())) return {};
  const auto found = known.find(type.ptr());
  if (found != known.end()) return found->second;
  if (!is_subclass(type, nb::type<Carrier>())) return {};
  const bool dependent = is_subclass(type, nb::type<DependentCarrier>());
  CarrierClass result;
  if (is_native_class(type)) {
    result = orlop::detail::native_carrier_class(nb::type_info(type), dependent);
    result.record()->python_type = type.ptr();
  } else {
    result = orlop::detail::python_carrier_class(type.ptr(), to_text(type.attr("__name__")), dependent);
  }
  Py_INCREF(type.ptr());  // an identity must never be reused by another class
  known.emplace(type.ptr(), result);
  return result;
}

nb::object python_class(CarrierClass carrier_class) {
  if (!carrier_class) return nb::none();
  void* type = carrier_class.record()->python_type.load();
  if (type == nullptr) return nb::str(std::string(carrier_class.name()).c_str());
  return nb::borrow(static_cast<PyObject*>(type));
}

void reject_subclasses(nb::handle bound, const char* name) {
  const nb::object hook = nb::cpp_function(
      [message = closed_message(name)](const nb::args&, const nb::kwargs&) { throw TypeError(message); });
  nb::setattr(bound, "__init_subclass__", nb::steal(PyClassMethod_New(hook.ptr())));
}

void bind_carrier_classes(nb::module_& module) {
  at_exit(forget_classes);
  module.attr("CLOSED_CARRIER_MESSAGE") =
      nb::str(closed_carrier_message.data(), closed_carrier_message.size());
  module.def(
      "reject_carrier_subclass", [](const std::string& name) { throw TypeError(closed_message(name)); },
      "name"_a, R"(Raises the TypeError that every closed carrier class gives to a subclass (S108).

>>> from orlop.carriers.base import reject_carrier_subclass
>>> reject_carrier_subclass("CPU")
Traceback (most recent call last):
    ...
TypeError: [CPU] CPU is a closed carrier implementation and cannot be subclassed; write a sibling ...)");
}

}  // namespace orlop::bindings
