// Errors across the language border: Orlop's become Python's exceptions one to one.
#pragma once

namespace orlop::bindings {

/// Throws the Python exception that is set.
[[noreturn]] void throw_python_error();

/// Sets the Python exception of the C++ exception being handled: for callbacks that Python calls directly.
void set_python_error() noexcept;

/// Installs the translation of Orlop's errors into Python's exceptions.
void install_error_translation();

}  // namespace orlop::bindings
