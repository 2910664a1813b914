// The interpreter's lock, and its end: see interpreter.hpp.
#include "interpreter.hpp"

#include <pthread.h>

#include <chrono>
#include <thread>

#include "errors.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/base/error.hpp"

namespace orlop::bindings {

std::atomic<bool> is_interpreter_gone{false};

void park_thread() noexcept {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

void rethrow(const std::exception_ptr& pointer) {
  if (pointer == nullptr) park_thread();
  std::rethrow_exception(pointer);
}

// What Python throws through C++ to end a thread is no exception: a handler may catch it, but never be left.
InterpreterLock::InterpreterLock() noexcept {
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {
    park_thread();
  }
}

InterpreterLock::~InterpreterLock() {
  if (PyGILState_Check() == 0) park_thread();  // the thread is being ended inside the Python code it called
  PyGILState_Release(state_);
}

namespace {

/// Those in a BlockingScope that held the interpreter before.
std::atomic<int> threads_without_interpreter{0};

/// Static objects are destroyed after the interpreter's end: daemon threads that still compute use them. A
/// wait may be without end, a computation seldom takes long.
void await_threads_without_interpreter() {
  for (int i = 0; i < 2000 && threads_without_interpreter > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// What a daemon thread holds when the interpreter's end stops it stays held: no leak of ours.
void expect_leaks_of_daemons() {
  for (PyThreadState* each = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); each != nullptr;
       each = PyThreadState_Next(each))
    if (each != PyThreadState_Get()) nb::set_leak_warnings(false);
}

}  // namespace

void install_interpreter_end() {
  at_exit(&expect_leaks_of_daemons);
  const auto end = [] {
    is_interpreter_gone = true;
    await_threads_without_interpreter();
  };
  pthread_atfork(nullptr, nullptr, [] {  // the child has no other threads; what they held stays held
    threads_without_interpreter = 0;
    nb::set_leak_warnings(false);
  });
  if (Py_AtExit(end) != 0)
    raise<RuntimeError>("orlop", "the interpreter has no room for another exit function");
}

void install_interpreter_release() {
  orlop::detail::install_blocking_hooks({[]() noexcept -> void* {
                                           if (Py_IsInitialized() == 0 || PyGILState_Check() == 0)
                                             return nullptr;
                                           ++threads_without_interpreter;
                                           return PyEval_SaveThread();
                                         },
                                         [](void* state) noexcept {
                                           --threads_without_interpreter;
                                           try {
                                             PyEval_RestoreThread(static_cast<PyThreadState*>(state));
                                           } catch (...) {
                                             park_thread();
                                           }
                                         },
                                         [] {
                                           if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return;
                                           if (PyErr_CheckSignals() != 0) throw_python_error();
                                         }});
}

}  // namespace orlop::bindings
