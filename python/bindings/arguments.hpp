// Python values as arguments and results: numbers, texts, iterables, bound objects.
#pragma once

#include <nanobind/nanobind.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "errors.hpp"
#include "orlop/base/error.hpp"
#include "orlop/base/scalar.hpp"

namespace nb = nanobind;

namespace orlop::bindings {

/// Python's integer-index protocol. A bool is a TypeError unless `allow_bool`; an integer beyond 64 bits is
/// the error `E`. `what` names the call and `name` the argument in messages.
template <class E = OverflowError>
Index to_index(nb::handle value, std::string_view what, std::string_view name, bool allow_bool = false);

/// An int, or TypeError ‹<name> must be an int›: neither a bool nor another type with an integer's value (05:
/// Int). An integer beyond 64 bits is the error `E`.
template <class E = OverflowError>
Index to_exact_int(nb::handle value, std::string_view what, std::string_view name);

/// A real number (numbers.Real, bool included), or TypeError.
Scalar to_scalar(nb::handle value, std::string_view what, std::string_view name);
/// The same, or nothing where the value is no real number.
std::optional<Scalar> try_scalar(nb::handle value);
nb::object from_scalar(const Scalar& value);

/// Exactly True or False, or TypeError.
bool to_bool(nb::handle value, std::string_view what, std::string_view name);

/// `iter(value)`, or TypeError ‹<name> must be iterable›.
nb::object to_iterator(nb::handle value, std::string_view what, std::string_view name);

/// Calls `action` with every item of an iterable; TypeError ‹<name> must be iterable›.
template <class Action>
void for_each_item(nb::handle iterable, std::string_view what, std::string_view name, Action action) {
  const nb::object iterator = to_iterator(iterable, what, name);
  while (PyObject* item = PyIter_Next(iterator.ptr())) action(nb::steal(item));
  if (PyErr_Occurred() != nullptr) throw_python_error();
}

/// A str in the file system's encoding, so that any name that os.listdir can show is accepted.
std::string to_file_name(nb::handle text);

/// A str, bytes or os.PathLike as os.fspath gives it, or TypeError; what __fspath__ raises passes.
std::filesystem::path to_path(nb::handle value, std::string_view what);

/// A finite iterable, walked once (05 X4); TypeError ‹must be a finite iterable›.
nb::tuple to_finite_tuple(nb::handle value, std::string_view what, std::string_view field);
/// A tuple of what `convert` makes of each item.
template <class Range, class Convert>
nb::tuple tuple_of(const Range& items, Convert convert) {
  nb::list converted;
  for (const auto& item : items) converted.append(convert(item));
  return nb::tuple(converted);
}
template <class Range>
nb::tuple tuple_of(const Range& items) {
  return tuple_of(items, [](const auto& item) { return nb::cast(item); });
}

/// The bytes of a str, which owns them; UnicodeEncodeError for a lone surrogate.
std::string_view utf8(nb::handle string);
/// Whether a str is text: one with a lone surrogate is none.
bool is_text(nb::handle value);
/// The words of a str, with escapes for what is no text. nanobind's own conversion ends the process where
/// there is no memory for them.
std::string to_text(nb::handle value);
/// A str that is text, or TypeError, ValueError.
std::string to_text(nb::handle value, std::string_view what, std::string_view field);
/// The name of a Python object's type, for messages.
std::string python_type_name(nb::handle value);

/// The bound object in `value`, or null where it is no T. TypeError for one whose __init__ has not run.
template <class T>
T* try_native(nb::handle value) {
  if (!nb::isinstance<T>(value)) return nullptr;
  if (!nb::inst_ready(value))
    raise<TypeError>(python_type_name(value),
                     "the object is not initialised: its base class has not run __init__; call "
                     "super().__init__() before it is used");
  return nb::inst_ptr<T>(value);
}

namespace detail {
/// The value through `__index__`, or nothing beyond 64 bits.
std::optional<Index> index_protocol(nb::handle value, std::string_view what, std::string_view name,
                                    bool allow_bool);
}  // namespace detail

template <class E>
Index to_index(nb::handle value, std::string_view what, std::string_view name, bool allow_bool) {
  if (const auto index = detail::index_protocol(value, what, name, allow_bool)) return *index;
  raise<E>(what, name, " leaves 64 bits; use an integer between -2**63 and 2**63 - 1");
}

template <class E>
Index to_exact_int(nb::handle value, std::string_view what, std::string_view name) {
  if (PyLong_CheckExact(value.ptr())) return to_index<E>(value, what, name);
  raise<TypeError>(what, name, " must be an int: got ", python_type_name(value));
}

}  // namespace orlop::bindings
