// What every binding file shares: casters of counted handles, arguments, errors, the interpreter and the
// collector; and the functions that bind each part.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "arguments.hpp"
#include "collector.hpp"
#include "errors.hpp"
#include "interpreter.hpp"
#include "orlop/base/object.hpp"

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
