// Python providers behind the C++ interfaces of the extension layer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "orlop/extension/definition.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// A Python object that the registry holds for as long as the process lives: let go at the interpreter's end,
/// after which use is a RuntimeError.
class HeldForGood {
 public:
  explicit HeldForGood(nb::handle object);
  HeldForGood(const HeldForGood&) = delete;
  HeldForGood& operator=(const HeldForGood&) = delete;
  ~HeldForGood();

  [[nodiscard]] nb::object get() const;
  static void forget_all();

 private:
  PyObject* object_;
};

/// A Python object that any thread may drop.
std::shared_ptr<PyObject> held(nb::object object);

/// The Python object of a carrier, for a callback.
nb::object from_carrier(const Carrier& carrier);

/// A Python object with `done` and `wait()`. Both calls take the interpreter's lock; `wait` is called with
/// it.
class PythonCompletion {
 public:
  /// TypeError unless it is a completion.
  PythonCompletion(const nb::object& completion, std::string_view what);
  [[nodiscard]] bool done() const;
  [[nodiscard]] nb::object wait() const;

 private:
  std::shared_ptr<PyObject> completion_;
  std::string what_;
};

/// The kernels of a Python KernelProvider; nothing for None.
std::optional<KernelProvider> to_kernels(nb::handle record);
/// The provider behind a Python CompositeProvider; null for None.
std::shared_ptr<const CompositeProvider> to_composite(nb::handle record);
/// What a Python `prepare` answered: the record of that name made into a `T`, or Unsupported.
template <class T, class Convert>
Result<T> to_answer(const nb::object& answer, const char* record, std::string_view what, Convert convert);
void bind_kernel_packs(nb::module_& module);

/// A name of orlop.carriers.extension.
nb::object extension_name(const char* name);
/// Whether `value` is an instance of the class of that name.
bool is_record(nb::handle value, const char* class_name);

template <class T, class Convert>
Result<T> to_answer(const nb::object& answer, const char* record, std::string_view what, Convert convert) {
  if (is_record(answer, record)) return convert(answer);
  if (is_record(answer, "Unsupported")) return Unsupported(to_text(answer.attr("reason")));
  raise<TypeError>(what, "prepare must return a ", record, " or Unsupported: got ", python_type_name(answer));
}

}  // namespace orlop::bindings
