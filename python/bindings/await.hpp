// Handles of background work across the language border.
#pragma once

#include "orlop/base/executor.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// The collector's slots of a handle: those of counted objects, and the kept exception.
extern PyType_Slot await_slots[];

/// TypeError for a user who calls the class.
template <class Work>
void refuse_construction(nb::pointer_and_handle<Work> self, const nb::args&, const nb::kwargs&) {
  raise<TypeError>(python_type_name(self.h), "handles are created by the framework; move_async gives one");
}

/// Binds a kind of work as a subclass of AwaitResult.
template <class Work>
void bind_await_kind(nb::module_& module, const char* name, const char* doc) {
  nb::class_<Work, Task>(module, name, counted<Work>(), nb::type_slots(await_slots),
                         nb::is_weak_referenceable(), nb::is_final(), doc)
      .def("__init__", &refuse_construction<Work>);
}

}  // namespace orlop::bindings
