// Bound value classes that behave as frozen dataclasses (05 X4).
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

namespace orlop::bindings {

namespace detail {
void define_record_protocol(nanobind::handle type, const char* home, const std::vector<const char*>& fields);
/// An attribute that the dataclasses module keeps on its classes, made by it for the fields of `type`.
nanobind::object dataclass_attribute(nanobind::handle type, const char* attribute);
}  // namespace detail

/// Gives the bound class what a frozen dataclass with these fields has, in constructor order: assignment
/// raises dataclasses.FrozenInstanceError; dataclasses.fields, replace and asdict, pattern matching and
/// pickling work; equality, hash and repr go by the fields, within one class. Every field must be a property
/// and a constructor keyword. `home` is the module the class belongs to in Python. Imports nothing before it
/// is needed.
template <class Class>
void make_record(Class& type, const char* home, const std::vector<const char*>& fields) {
  detail::define_record_protocol(type, home, fields);
  type.def_prop_ro_static("__dataclass_fields__", [](nanobind::handle cls) {
    return detail::dataclass_attribute(cls, "__dataclass_fields__");
  });
  type.def_prop_ro_static("__dataclass_params__", [](nanobind::handle cls) {
    return detail::dataclass_attribute(cls, "__dataclass_params__");
  });
}

}  // namespace orlop::bindings
