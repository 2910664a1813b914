// Python providers behind the C++ interfaces of the extension layer.
#pragma once

#include <memory>
#include <string>

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

/// A name of orlop.carriers.extension.
nb::object extension_name(const char* name);
/// Whether `value` is an instance of the class of that name.
bool is_record(nb::handle value, const char* class_name);

}  // namespace orlop::bindings
