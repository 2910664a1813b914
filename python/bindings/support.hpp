// What every binding file shares: casters of counted handles, conversion of Python numbers, the collector's
// slots.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <exception>
#include <optional>
#include <string_view>

#include "orlop/base/error.hpp"
#include "orlop/base/object.hpp"
#include "orlop/base/scalar.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nanobind::detail {

/// A counted handle: the Python object is the counted object itself; null is None.
template <class T>
struct type_caster<orlop::Ref<T>> {
  using Caster = make_caster<T>;
  static constexpr bool IsClass = true;
  NB_TYPE_CASTER(orlop::Ref<T>, Caster::Name)

  bool from_python(handle src, uint32_t flags, cleanup_list* cleanup) noexcept {
    Caster caster;
    if (!caster.from_python(src, flags, cleanup)) return false;
    value = Value(caster.operator T*());
    return true;
  }

  static handle from_cpp(const orlop::Ref<T>& value, rv_policy, cleanup_list* cleanup) noexcept {
    if (!value) return none().release();
    if (PyObject* owner = value->python_object()) return handle(owner).inc_ref();
    return Caster::from_cpp(value.get(), rv_policy::take_ownership, cleanup);
  }
};

}  // namespace nanobind::detail

namespace orlop::bindings {

/// The class annotation of every counted type: Python takes the count over.
template <class T>
nb::intrusive_ptr<T> counted() {
  return nb::intrusive_ptr<T>([](T* object, PyObject* owner) noexcept { object->set_python_object(owner); });
}

/// tp_traverse and tp_clear for counted types (see Object::visit_references).
extern PyType_Slot collector_slots[];

/// Python's integer-index protocol. A bool is a TypeError unless `allow_bool`; an integer beyond 64 bits is
/// the error `E`. `what` names the call and `name` the argument in messages.
template <class E = OverflowError>
Index to_index(nb::handle value, std::string_view what, std::string_view name, bool allow_bool = false);

/// A real number (numbers.Real, bool included), or TypeError.
Scalar to_scalar(nb::handle value, std::string_view what, std::string_view name);
/// The same, or nothing where the value is no real number.
std::optional<Scalar> try_scalar(nb::handle value);
nb::object from_scalar(const Scalar& value);

/// Exactly True or False, or TypeError.
bool to_bool(nb::handle value, std::string_view what, std::string_view name);

/// `iter(value)`, or TypeError ‹<name> must be iterable›.
nb::object to_iterator(nb::handle value, std::string_view what, std::string_view name);

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

/// Whether a str is text: one with a lone surrogate is none.
bool is_text(nb::handle value);
/// The words of a str, with escapes for what is no text. nanobind's own conversion ends the process where
/// there is no memory for them.
std::string to_text(nb::handle value);
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

/// Throws the Python exception that is set.
[[noreturn]] void throw_python_error();
/// Sets the Python exception of the C++ exception being handled: for callbacks that Python calls directly.
void set_python_error() noexcept;

/// True after the interpreter's end, when nothing of it may be touched.
extern std::atomic<bool> is_interpreter_gone;

/// Stops a thread for good that asks for the interpreter while it ends. Before Python 3.14, which does the
/// same itself, the thread would be ended there (pthread_exit), through C++ that must not be unwound so.
[[noreturn]] void park_thread() noexcept;

/// Throws what a translator of exceptions was given. It is none while Python ends a thread: that one stops.
[[noreturn]] void rethrow(const std::exception_ptr& pointer);

/// Holds the interpreter's lock, on a thread that may hold it already.
class InterpreterLock {
 public:
  InterpreterLock() noexcept;
  InterpreterLock(const InterpreterLock&) = delete;
  InterpreterLock& operator=(const InterpreterLock&) = delete;
  ~InterpreterLock();

 private:
  PyGILState_STATE state_;
};

/// Runs `action` with the interpreter's lock; not at all once the interpreter is gone. Almost every call
/// comes from a thread that holds it: asking is several times cheaper than taking it.
template <class Action>
void with_interpreter(Action action) noexcept {
  if (is_interpreter_gone.load(std::memory_order_relaxed)) return;
  if (PyGILState_Check() == 1) return action();
  const InterpreterLock lock;
  action();
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

/// Installs the translation of Orlop's errors into Python's exceptions.
void install_error_translation();
/// Notices the interpreter's end.
void install_interpreter_end();
/// Lets the interpreter go in every BlockingScope.
void install_interpreter_release();
/// Shows the library's log in Python's logging.
void install_logging();

// One function per layer, each in the file of its name; module.cpp calls them in this order.
void bind_parallel(nb::module_& module);
void bind_dtype(nb::module_& module);
void bind_layout(nb::module_& module);
void bind_io(nb::module_& module);
void bind_plans(nb::module_& module);
void bind_carrier(nb::module_& module);
void bind_capabilities(nb::module_& module);
void bind_operation(nb::module_& module);
void bind_operation_definition(nb::module_& module);
void bind_profiler(nb::module_& module);
void bind_tensor(nb::module_& module);
void bind_interchange(nb::module_& module);
void bind_array_files(nb::module_& module);
void bind_functional(nb::module_& module);
void bind_views(nb::module_& module);
void bind_einops(nb::module_& module);
void bind_cpu(nb::module_& module);
void bind_friendly(nb::module_& module);
void bind_generic(nb::module_& module);
void bind_file_backed(nb::module_& module);
void bind_block_device(nb::module_& module);
void bind_block_device_testing(nb::module_& module);
void bind_metal(nb::module_& module);
void bind_movement(nb::module_& module);
void bind_await(nb::module_& module);
void bind_evictable(nb::module_& module);
void bind_tiled_evictable(nb::module_& module);
void bind_extension(nb::module_& module);

}  // namespace orlop::bindings
