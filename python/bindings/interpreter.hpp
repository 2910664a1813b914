// The interpreter's lock, and its end.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <exception>

namespace nb = nanobind;

namespace orlop::bindings {

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

/// Calls `function` when the interpreter ends, while all of it is still there.
template <class Function>
void at_exit(Function function) {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(function));
}

/// Notices the interpreter's end.
void install_interpreter_end();
/// Lets the interpreter go in every BlockingScope.
void install_interpreter_release();

}  // namespace orlop::bindings
