// Carriers written in Python: their construction, and what their hooks share.
#include "python_carrier.hpp"

#include <typeinfo>
#include <utility>

#include "call_arguments.hpp"
#include "carrier_class.hpp"
#include "orlop/operation/capability.hpp"

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

bool is_python(const Carrier& carrier) {
  // Types of this module alone: they have one address each.
  const std::type_info* const type = &typeid(carrier);
  return type == &typeid(LegacyCarrier) || type == &typeid(LegacyDependentCarrier);
}

namespace {

/// X9: the constructor of a class with its own definition, whose providers see the carrier meanwhile.
template <class Base>
void construct_defined(nb::pointer_and_handle<Base> self, CarrierClass exact, const nb::args& args,
                       const nb::kwargs& kwargs) {
  const std::string name(exact.name());
  const CallArguments arguments(name.c_str(), args, kwargs, {"slots"}, 0, {"dtype", "mutable"});
  const nb::object slots = arguments.get("slots");
  const nb::object dtype = arguments.get("dtype");
  for (const auto& [value, field] : {std::pair(slots, "slots"), std::pair(dtype, "dtype")})
    if (!value.is_valid() || value.is_none())
      raise<TypeError>(name, field, " must be given: a class with a CarrierDefinition is made by ",
                       "Carrier.__init__(slots, dtype=…, mutable=True)");
  const Index count = to_exact_int(slots, name, "slots");
  if (count < 0) raise<ValueError>(name, "slots must not be negative: got ", count);
  const DType& stored = to_dtype(dtype, name);
  const bool is_mutable = arguments.flag("mutable", true);
  auto* carrier = new (static_cast<void*>(self.p)) PythonDefined<Base>(exact);
  nb::inst_mark_ready(self.h);
  carrier->set_python_object(self.h.ptr());
  carrier->construct(count, {.dtype = stored, .is_mutable = is_mutable});
}

}  // namespace

template <class Base>
void construct_python_carrier(nb::pointer_and_handle<Base> self, const nb::args& args,
                              const nb::kwargs& kwargs) {
  const nb::handle type = self.h.type();
  const auto name = to_text(type.attr("__name__"));
  if (is_native_class(type))
    raise<TypeError>(name, name, " is abstract; subclass it and implement its hooks");
  const CarrierClass exact = carrier_class_of_type(type);
  if (exact.is_defined()) return construct_defined(self, exact, args, kwargs);
  if (args.size() != 0 || kwargs.size() != 0)
    raise<TypeError>(name, "definition-free Carrier construction takes no arguments; call super().__init__()",
                     " or register a CarrierDefinition for ", name, " itself");
  std::string missing;
  for (const char* hook : required_hooks)
    if (!overrides(self.h, hook)) missing += missing.empty() ? hook : text(", ", hook);
  if (!missing.empty())
    raise<TypeError>(name, "the class does not implement the required hooks of a Carrier: ", missing);
  orlop::detail::observe_class(exact);
  if (exact.is_defined()) return construct_defined(self, exact, args, kwargs);  // a definition came first
  new (static_cast<void*>(self.p)) PythonCarrier<Base>(exact);
}

template void construct_python_carrier(nb::pointer_and_handle<Carrier>, const nb::args&, const nb::kwargs&);
template void construct_python_carrier(nb::pointer_and_handle<DependentCarrier>, const nb::args&,
                                       const nb::kwargs&);

}  // namespace orlop::bindings
