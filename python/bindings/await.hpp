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
  raise<TypeError>(python_type_name(self.h),
                   "handles are created by the framework, by the call that starts the work");
}

/// Waits for the work and gives its result: the Tensor of one that yields a Tensor, else None.
nb::object await_result(Task& task);

/// Binds a kind of work as a subclass of AwaitResult. `wait` is the signature of its wait().
template <class Work>
void bind_await_kind(nb::module_& module, const char* name, const char* wait, const char* doc) {
  nb::class_<Work, Task>(module, name, counted<Work>(), nb::type_slots(await_slots),
                         nb::is_weak_referenceable(), nb::is_final(), doc)
      .def("__init__", &refuse_construction<Work>)
      .def(
          "wait", [](Work& task) { return await_result(task); }, nb::sig(wait),
          "As AwaitResult.wait: the result, or what the work failed with.");
}

}  // namespace orlop::bindings
