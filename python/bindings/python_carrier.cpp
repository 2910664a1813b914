// What the objects behind carriers written in Python share.
#include "python_carrier.hpp"

#include <utility>

namespace orlop::bindings {

bool overrides(nb::handle self, const char* name) {
  return !nb::object(self.type().attr(name)).is(nb::object(nb::type<Carrier>().attr(name)));
}

nb::dict factory_keywords(bool is_mutable, DTypeRef dtype, const Carrier& receiver) {
  nb::dict keywords;
  keywords["mutable"] = is_mutable;
  if (dtype && dtype.get() != &receiver.dtype()) keywords["dtype"] = from_dtype(*dtype);
  return keywords;
}

DLPackInfo to_dlpack_info(const nb::object& info, std::string_view name) {
  const nb::object entries = nb::steal(PyObject_CallOneArg(nb::handle(&PyDict_Type).ptr(), info.ptr()));
  if (!entries.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) throw_python_error();
    PyErr_Clear();
    raise<TypeError>(name, "dlpack_info() must return a dict: got ", python_type_name(info));
  }
  const auto entry = [&](const char* key) {
    PyObject* const found = PyDict_GetItemString(entries.ptr(), key);
    if (found == nullptr)
      raise<KeyError>(name, "dlpack_info() has no '", key, "'; it gives pointer, device_type and device_id");
    return to_index<ValueError>(found, name, text("dlpack_info()['", key, "']"));
  };
  const auto small = [&](const char* key) {
    const Index number = entry(key);
    if (!std::in_range<std::int32_t>(number))
      raise<ValueError>(name, "dlpack_info()['", key, "'] leaves 32 bits: ", number);
    return static_cast<std::int32_t>(number);
  };
  const Index pointer = entry("pointer");
  if (pointer < 0) raise<ValueError>(name, "dlpack_info()['pointer'] must not be negative: ", pointer);
  return {reinterpret_cast<void*>(pointer), small("device_type"), small("device_id")};
}

Ref<Carrier> call_factory(const Carrier& carrier, const char* factory, nb::handle source,
                          const nb::dict& keywords) {
  const nb::object result = nb::handle(carrier.python_object()).attr(factory)(source, **keywords);
  if (!nb::isinstance<Carrier>(result))
    raise<TypeError>(carrier.carrier_class().name(), factory, "() must return a Carrier: got ",
                     python_type_name(result));
  return nb::cast<Ref<Carrier>>(result);
}

}  // namespace orlop::bindings
