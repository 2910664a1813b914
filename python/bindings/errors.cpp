// Errors across the language border: see errors.hpp.
#include "errors.hpp"

#include <nanobind/nanobind.h>

#include <exception>
#include <stdexcept>

#include "interpreter.hpp"
#include "orlop/base/error.hpp"

namespace orlop::bindings {

void throw_python_error() { throw nb::python_error(); }

namespace {

// Paths in a message may hold bytes that are no UTF-8; Python writes those as surrogates.
nb::object to_str(std::string_view words) {
  PyObject* result =
      PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "surrogateescape");
  if (result == nullptr) throw_python_error();
  return nb::steal(result);
}

template <class E>
bool translate(const Error& error, PyObject* type) {
  if (dynamic_cast<const E*>(&error) == nullptr) return false;
  PyErr_SetObject(type, to_str(error.what()).ptr());
  return true;
}

void set_os_error(const OSError& error) {
  // OSError(errno, text, filename) picks the subclass (FileExistsError, …) from errno.
  const nb::object filename = error.path().empty() ? nb::none() : to_str(error.path());
  const nb::object arguments = nb::make_tuple(error.code(), to_str(error.what()), filename);
  PyErr_SetObject(PyExc_OSError, arguments.ptr());
}

/// Sets the Python exception of one of Orlop's errors, or of a size beyond all memory; any other goes on.
void translate_error(const std::exception_ptr& pointer) {
  try {
    rethrow(pointer);
  } catch (const OSError& error) {
    set_os_error(error);
  } catch (const Error& error) {
    // Derived types first.
    if (translate<IndexError>(error, PyExc_IndexError) || translate<KeyError>(error, PyExc_KeyError) ||
        translate<LookupError>(error, PyExc_LookupError) ||
        translate<NotImplementedError>(error, PyExc_NotImplementedError) ||
        translate<TypeError>(error, PyExc_TypeError) || translate<ValueError>(error, PyExc_ValueError) ||
        translate<OverflowError>(error, PyExc_OverflowError) ||
        translate<MemoryError>(error, PyExc_MemoryError) ||
        translate<BufferError>(error, PyExc_BufferError) ||
        translate<AttributeError>(error, PyExc_AttributeError))
      return;
    PyErr_SetObject(PyExc_RuntimeError, to_str(error.what()).ptr());
  } catch (const std::length_error&) {  // a copy of more elements than memory can have
    PyErr_SetString(PyExc_MemoryError,
                    "[orlop] no memory for a copy of so many elements; use smaller operands");
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError,
                    "[orlop] no memory for what the call works with; use smaller operands");
  }
}

}  // namespace

void install_error_translation() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      translate_error(pointer);
    } catch (nb::python_error& error) {  // Python's own, or one that came in place of the text of ours
      error.restore();
    }
  });
}

void set_python_error() noexcept {
  try {
    translate_error(std::current_exception());
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace orlop::bindings
