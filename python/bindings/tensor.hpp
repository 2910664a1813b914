// Tensors and operation arguments across the language border.
#pragma once

#include "orlop/operation/operation.hpp"
#include "orlop/tensor/tensor.hpp"
#include "support.hpp"

namespace nanobind::detail {

/// A Tensor handle: the Python object is the counted tensor behind it.
template <>
struct type_caster<orlop::Tensor> {
  using Caster = make_caster<orlop::TensorObject>;
  NB_TYPE_CASTER(orlop::Tensor, Caster::Name)

  bool from_python(handle src, uint32_t flags, cleanup_list* cleanup) noexcept {
    Caster caster;
    if (!caster.from_python(src, flags, cleanup)) return false;
    auto* object = caster.operator orlop::TensorObject*();
    if (object == nullptr) return false;
    value = orlop::Tensor(orlop::Ref<orlop::TensorObject>(object));
    return true;
  }
  static handle from_cpp(const orlop::Tensor& tensor, rv_policy policy, cleanup_list* cleanup) noexcept {
    return make_caster<orlop::Ref<orlop::TensorObject>>::from_cpp(tensor.ref(), policy, cleanup);
  }
};

}  // namespace nanobind::detail

namespace orlop::bindings {

/// The handle of the counted tensor that Python holds.
inline Tensor handle_of(TensorObject& self) { return Tensor(Ref<TensorObject>(&self)); }
/// The tensor, or null where `value` is none.
TensorObject* try_tensor(nb::handle value);
/// The tensor, or TypeError ‹<name> must be a Tensor›.
Tensor to_tensor(nb::handle value, std::string_view what, std::string_view name);

/// A Python object that means nothing to the core: handed through to operations written in Python. Any thread
/// may copy or drop it.
struct PythonValue {
  nb::object value;

  explicit PythonValue(nb::object object) : value(std::move(object)) {}
  PythonValue(const PythonValue& other) {
    with_interpreter([&] { value = other.value; });
  }
  PythonValue(PythonValue&&) noexcept = default;
  PythonValue& operator=(const PythonValue&) = delete;
  PythonValue& operator=(PythonValue&&) = delete;
  ~PythonValue() {
    PyObject* const held = value.release().ptr();
    if (held != nullptr) with_interpreter([held] { Py_DECREF(held); });
  }
};

/// A positional argument as the built-in operations understand it.
Argument to_argument(nb::handle value);
/// The Python object itself as an argument.
Argument python_argument(nb::handle value);
nb::object from_argument(const Argument& argument);

/// The collector's slots and those of the buffer protocol.
PyType_Slot* tensor_slots();
/// Gradients and nodes of a Tensor, and the functions of autograd.
void bind_autograd(nb::module_& module, nb::class_<TensorObject>& tensor);
/// DLPack and `__array__`.
void bind_tensor_exchange(nb::class_<TensorObject>& tensor);

}  // namespace orlop::bindings
