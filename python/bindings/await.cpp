// The Python face of AwaitResult and AwaitMove (S410, S411).
#include "await.hpp"

#include <utility>

#include "orlop/movement/move.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

/// A held Python object that any thread may drop.
std::shared_ptr<void> held(nb::object object) {
  return {object.release().ptr(), [](void* owned) {
            const InterpreterLock lock;
            Py_DECREF(static_cast<PyObject*>(owned));
          }};
}

/// The exception that Python sees for an error of C++.
nb::object to_exception(const std::exception_ptr& failure) {
  const nb::object raising = nb::cpp_function([&failure] { std::rethrow_exception(failure); });
  const nb::object nothing = nb::steal(PyObject_CallNoArgs(raising.ptr()));
  const nb::python_error error;
  return nb::borrow(error.value());
}

void keep_exception(Task& task) {
  nb::object exception;
  std::exception_ptr failure = task.failure();
  try {
    std::rethrow_exception(failure);
  } catch (const nb::python_error& error) {  // kept here alone, where the collector sees it
    exception = nb::borrow(error.value());
    failure = std::make_exception_ptr(RuntimeError(message("AwaitResult", error.what())));
  } catch (...) {
    exception = to_exception(failure);
  }
  const nb::object traceback = nb::steal(PyException_GetTraceback(exception.ptr()));
  task.keep_failure_object(held(nb::make_tuple(exception, traceback.is_valid() ? traceback : nb::none())),
                           failure);
}

/// Raises the failure of done work: the same exception on every call, with the traceback of the work alone.
[[noreturn]] void raise_failure(Task& task) {
  if (task.failure_object() == nullptr) keep_exception(task);
  const nb::handle kept(static_cast<PyObject*>(task.failure_object()));
  const nb::object exception = kept[0];
  const nb::object traceback = kept[1];
  PyException_SetTraceback(exception.ptr(), traceback.ptr());
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw_python_error();
}

}  // namespace

nb::object await_result(Task& task) {
  task.wait_until_done();
  if (task.failure() != nullptr) raise_failure(task);
  if (const auto* work = dynamic_cast<const ResultTask<Tensor>*>(&task)) return nb::cast(work->result());
  return nb::none();
}

namespace {

int traverse(PyObject* self, visitproc visit, void* arg) {
  if (nb::inst_ready(self)) Py_VISIT(static_cast<PyObject*>(nb::inst_ptr<Task>(self)->failure_object()));
  return reinterpret_cast<traverseproc>(collector_slots[0].pfunc)(self, visit, arg);
}

}  // namespace

PyType_Slot await_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, collector_slots[1], {0, nullptr}};

void bind_await(nb::module_& module) {
  nb::class_<Task> result(module, "AwaitResult", counted<Task>(), nb::type_slots(await_slots),
                          nb::is_weak_referenceable(),
                          R"(The handle of work that goes on in the background, created by the framework.

Dropping it neither blocks nor cancels. There is no await, no cancel and no timeout.

>>> from orlop import CPU, friendly
>>> from orlop.carriers.move import AwaitResult
>>> handle = orlop.move_async(friendly.arange(3), CPU(3))
>>> isinstance(handle, AwaitResult), handle.wait() is handle.wait()
(True, True))");
  result.def("__init__", &refuse_construction<Task>)
      .def_prop_ro("done", &Task::is_done, "Whether the work has ended, well or not; never waits.")
      .def("wait", &await_result,
           "Returns the result, or raises what the work failed with: the identical object on every call and\n"
           "thread. Work that has not started runs here. An interrupt (KeyboardInterrupt) ends the wait, not "
           "the work.");
  nb::setattr(result, "__class_getitem__",
              nb::steal(PyClassMethod_New(reinterpret_cast<PyObject*>(&Py_GenericAliasType))));
  bind_await_kind<MoveTask>(
      module, "AwaitMove", "def wait(self) -> Tensor",
      R"(The handle of a move: wait() returns the moved Tensor. Until then both carriers are owned by the move.

>>> from orlop import CPU, friendly
>>> handle = orlop.move_async(friendly.arange(3), CPU(3))
>>> friendly.to_list(handle.wait())
[0.0, 1.0, 2.0])");
  at_exit(&Executor::drain_all);
}

}  // namespace orlop::bindings
