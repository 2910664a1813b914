// Conversions and the cycle collector's view of counted objects.
#include "support.hpp"

#include <pthread.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <thread>
#include <unordered_set>
#include <vector>

#include "orlop/base/blocking.hpp"

namespace orlop::bindings {

namespace {

// The collector must see each held Python object once per counted reference. An object without a Python
// object is passed through only while its count is one: then whoever reached it is its sole owner. The
// stack is explicit, so a graph may be 100,000 nodes deep.
class Traversal final : public ReferenceVisitor {
 public:
  Traversal(visitproc visit, void* argument) : visit_(visit), argument_(argument) {}

  void visit(const Object* held) override {
    if (PyObject* owner = held->python_object()) {
      if (result_ == 0) result_ = visit_(owner, argument_);
    } else if (held->reference_count() == 1) {
      stack_.push_back(held);
    }
  }

  void visit_python(PyObject* held) override {
    if (result_ == 0) result_ = visit_(held, argument_);
  }

  int run(const Object* root) {
    root->visit_references(*this);
    while (result_ == 0 && !stack_.empty()) {
      const Object* next = stack_.back();
      stack_.pop_back();
      next->visit_references(*this);
    }
    return result_;
  }

 private:
  visitproc visit_;
  void* argument_;
  int result_ = 0;
  std::vector<const Object*> stack_;
};

// The place of the instance's __dict__, or null. A positive offset is nanobind's: a dict that a Python class
// adds has none, and Python's own slots see to it.
PyObject** instance_dict(PyObject* self) {
  const Py_ssize_t offset = Py_TYPE(self)->tp_dictoffset;
  return offset > 0 ? reinterpret_cast<PyObject**>(reinterpret_cast<std::byte*>(self) + offset) : nullptr;
}

int traverse(PyObject* self, visitproc visit, void* arg) {  // Py_VISIT wants these two names
  Py_VISIT(Py_TYPE(self));
  if (PyObject** dict = instance_dict(self)) Py_VISIT(*dict);
  if (!nb::inst_ready(self)) return 0;
  return Traversal(visit, arg).run(nb::inst_ptr<Object>(self));
}

int clear(PyObject* self) {
  if (PyObject** dict = instance_dict(self)) Py_CLEAR(*dict);
  if (nb::inst_ready(self)) nb::inst_ptr<Object>(self)->drop_references();
  return 0;
}

}  // namespace

PyType_Slot collector_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                 {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                 {0, nullptr}};

void throw_python_error() { throw nb::python_error(); }

bool is_text(nb::handle value) {
  if (PyUnicode_AsUTF8AndSize(value.ptr(), nullptr) != nullptr) return true;
  if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) throw_python_error();
  PyErr_Clear();
  return false;
}

std::string to_text(nb::handle value) {
  if (is_text(value)) {
    Py_ssize_t bytes = 0;
    const char* const words = PyUnicode_AsUTF8AndSize(value.ptr(), &bytes);
    return {words, static_cast<std::size_t>(bytes)};
  }
  // Nothing here has such a name; where it is looked for or told, escapes stand for what is no text.
  const nb::object escaped = nb::steal(PyUnicode_AsEncodedString(value.ptr(), "utf-8", "backslashreplace"));
  if (!escaped.is_valid()) throw_python_error();
  return {PyBytes_AS_STRING(escaped.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(escaped.ptr()))};
}

std::string python_type_name(nb::handle value) {
  const nb::handle type = value.type();
  const auto name = to_text(type.attr("__name__"));
  // NumPy's bool is none: without its module a message would ask for what it says it got.
  return name == "bool" && !PyBool_Check(value.ptr()) ? text(to_text(type.attr("__module__")), ".", name)
                                                      : name;
}

nb::object to_iterator(nb::handle value, std::string_view what, std::string_view name) {
  nb::object iterator = nb::steal(PyObject_GetIter(value.ptr()));
  if (iterator.is_valid()) return iterator;
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw_python_error();
  PyErr_Clear();
  raise<TypeError>(what, name, " must be iterable: got ", python_type_name(value));
}

std::optional<Index> detail::index_protocol(nb::handle value, std::string_view what, std::string_view name,
                                            bool allow_bool) {
  if (!allow_bool && PyBool_Check(value.ptr()))
    raise<TypeError>(what, name, " must be an integer, not a bool");
  if (!PyIndex_Check(value.ptr()))
    raise<TypeError>(what, name, " must be an integer: got ", python_type_name(value));
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) throw_python_error();
  int overflow = 0;
  const long long result = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) return std::nullopt;
  if (result == -1 && PyErr_Occurred() != nullptr) throw_python_error();
  return static_cast<Index>(result);
}

namespace {

bool is_zero(nb::handle number) {
  const int truth = PyObject_IsTrue(number.ptr());
  if (truth < 0) throw_python_error();
  return truth == 0;
}

// The binary32 nearest to numerator / denominator, one rounding: 64 leading bits and a sticky bit decide it.
float round_ratio(const nb::object& numerator, const nb::object& denominator) {
  const int negative = PyObject_RichCompareBool(numerator.ptr(), nb::int_(0).ptr(), Py_LT);
  if (negative < 0) throw_python_error();
  const nb::object magnitude = negative == 1 ? nb::object(-numerator) : numerator;
  const auto bits = [](const nb::object& number) { return nb::cast<long long>(number.attr("bit_length")()); };
  const long long shift = 66 - (bits(magnitude) - bits(denominator));
  const nb::object scaled = shift >= 0 ? magnitude << nb::int_(shift) : magnitude;
  const nb::object divisor = shift >= 0 ? denominator : denominator << nb::int_(-shift);
  const nb::object parts = nb::steal(PyNumber_Divmod(scaled.ptr(), divisor.ptr()));
  if (!parts.is_valid()) throw_python_error();
  nb::object quotient = parts[0];
  const bool sticky = !is_zero(nb::object(parts[1]));
  // 66 or 67 bits: keep 62 and fold the rest into the sticky bit.
  const nb::object low = quotient & nb::int_(31);
  quotient = quotient >> nb::int_(5);
  auto leading = nb::cast<std::uint64_t>(quotient);
  if (sticky || nb::cast<int>(low) != 0) leading |= 1;
  // One rounding even where the result is subnormal: the value is rounded to its final precision here.
  const long long exponent = 5 - shift;
  const long long width = 64 - __builtin_clzll(leading | 1);
  long long drop = width - 24;
  if (exponent + drop < -149) drop = -149 - exponent;
  float result;
  if (drop >= 64) {
    result = 0.0F;
  } else {
    std::uint64_t kept = leading >> drop;
    const std::uint64_t rest = leading & ((std::uint64_t{1} << drop) - 1);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
    const long long scale = exponent + drop;
    result = scale > 200 ? INFINITY : std::ldexp(static_cast<float>(kept), static_cast<int>(scale));
  }
  return negative == 1 ? -result : result;
}

// Kept for the process. No guarded static: the import may let the interpreter go, and whoever holds it then
// must not wait here.
nb::handle number_class(PyObject*& kept, const char* name) {
  if (kept == nullptr) {
    nb::object fresh = nb::module_::import_("numbers").attr(name);
    if (kept == nullptr) kept = fresh.release().ptr();
  }
  return kept;
}
nb::handle real_type() {
  static PyObject* type = nullptr;
  return number_class(type, "Real");
}
nb::handle integral_type() {
  static PyObject* type = nullptr;
  return number_class(type, "Integral");
}

Scalar from_integer(nb::handle number) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) {
    if (small == -1 && PyErr_Occurred() != nullptr) throw_python_error();
    return Scalar(static_cast<std::int64_t>(small));
  }
  return Scalar(Scalar::BigInteger{round_ratio(nb::borrow(number), nb::int_(1))});
}

}  // namespace

std::optional<Scalar> try_scalar(nb::handle value) {
  PyObject* object = value.ptr();
  if (PyFloat_CheckExact(object)) return Scalar(PyFloat_AS_DOUBLE(object));
  if (PyBool_Check(object)) return Scalar(object == Py_True);
  if (PyLong_Check(object)) return from_integer(value);
  const int is_real = PyObject_IsInstance(object, real_type().ptr());
  if (is_real < 0) throw_python_error();
  if (is_real == 0) return std::nullopt;
  const int is_integral = PyObject_IsInstance(object, integral_type().ptr());
  if (is_integral < 0) throw_python_error();
  if (is_integral == 1) {
    const nb::object number = nb::steal(PyNumber_Index(object));
    if (!number.is_valid()) throw_python_error();
    return from_integer(number);
  }
  if (!PyFloat_Check(object) && nb::hasattr(value, "numerator") && nb::hasattr(value, "denominator")) {
    const nb::object numerator = value.attr("numerator");
    if (is_zero(numerator)) return Scalar(0.0);
    return Scalar(round_ratio(numerator, nb::object(value.attr("denominator"))));
  }
  const double number = PyFloat_AsDouble(object);
  if (number == -1.0 && PyErr_Occurred() != nullptr) throw_python_error();
  return Scalar(number);
}

Scalar to_scalar(nb::handle value, std::string_view what, std::string_view name) {
  if (const auto scalar = try_scalar(value)) return *scalar;
  raise<TypeError>(what, name, " must be a real number: got ", python_type_name(value));
}

nb::object from_scalar(const Scalar& value) {
  if (value.is_bool()) return nb::bool_(value.as_bool());
  if (const auto integer = value.as_integer()) return nb::int_(*integer);
  return nb::float_(value.to_binary64());
}

bool to_bool(nb::handle value, std::string_view what, std::string_view name) {
  if (value.ptr() == Py_True) return true;
  if (value.ptr() == Py_False) return false;
  raise<TypeError>(what, name, " must be a bool: got ", python_type_name(value), "; use True or False");
}

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
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&expect_leaks_of_daemons));
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
