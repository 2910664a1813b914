// The dataclass protocol for bound value classes.
#include "record.hpp"

#include "support.hpp"

namespace orlop::bindings {

namespace {

nb::tuple field_names(nb::handle type) { return nb::borrow<nb::tuple>(type.attr("__match_args__")); }

nb::tuple field_values(nb::handle record) {
  return tuple_of(field_names(record.type()), [&](nb::handle name) { return nb::getattr(record, name); });
}

[[noreturn]] void raise_frozen(const char* action, nb::handle name) {
  const nb::object error = nb::module_::import_("dataclasses").attr("FrozenInstanceError");
  const nb::object text = nb::str("cannot {} field {!r}").attr("format")(action, name);
  PyErr_SetObject(error.ptr(), text.ptr());
  throw_python_error();
}

Py_hash_t hash_of(nb::handle record) {
  const Py_hash_t hash = PyObject_Hash(field_values(record).ptr());
  if (hash == -1) throw_python_error();
  return hash;
}

nb::object equal(nb::handle record, nb::handle other) {
  if (!record.type().is(other.type())) return nb::borrow(Py_NotImplemented);
  return nb::bool_(field_values(record).equal(field_values(other)));
}

nb::str representation(nb::handle record) {
  std::string out;
  for (const nb::handle name : field_names(record.type())) {
    if (!out.empty()) out += ", ";
    out += to_text(name) + '=' + to_text(nb::repr(nb::getattr(record, name)));
  }
  out = to_text(record.type().attr("__qualname__")) + '(' + out + ')';
  return nb::str(out.c_str(), out.size());
}

template <class Function, class... Extra>
void define(nb::handle type, const char* name, Function function, const Extra&... extra) {
  nb::cpp_function_def(function, nb::scope(type), nb::name(name), nb::is_method(), extra...);
}

}  // namespace

nb::object detail::dataclass_attribute(nb::handle type, const char* attribute) {
  const nb::object made =
      nb::module_::import_("dataclasses")
          .attr("make_dataclass")(type.attr("__name__"), field_names(type), "frozen"_a = true);
  return made.attr(attribute);
}

void detail::define_record_protocol(nb::handle type, const char* home,
                                    const std::vector<const char*>& fields) {
  nb::list names;
  for (const char* field : fields) names.append(nb::str(field));
  nb::setattr(type, "__match_args__", nb::tuple(names));
  nb::setattr(type, "__module__", nb::str(home));
  define(
      type, "__setattr__", [](nb::handle, nb::handle name, nb::handle) { raise_frozen("assign to", name); },
      "name"_a, "value"_a.none());
  define(type, "__delattr__", [](nb::handle, nb::handle name) { raise_frozen("delete", name); });
  define(type, "__eq__", equal, "other"_a.none());
  define(type, "__hash__", hash_of);
  define(type, "__repr__", representation);
  define(type, "__reduce__",
         [](nb::handle record) { return nb::make_tuple(record.type(), field_values(record)); });
}

}  // namespace orlop::bindings
