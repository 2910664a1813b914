// Dtypes across the language border: the native descriptor of a Python one and back, a few nanoseconds each.
#pragma once

#include <nanobind/nanobind.h>

#include <concepts>
#include <string_view>

#include "orlop/base/error.hpp"
#include "orlop/dtype/compound.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// The memory of every Python descriptor. Its class is a plain heap type below orlop.carriers.dtype.DType,
/// because nanobind's metaclass cannot be extended and the model needs a metaclass of its own (M101).
struct DTypeHolder {
  PyObject_HEAD const DType* published;  // null until the constructor is through
  DType* draft;                          // owned, while the constructor runs
  bool is_base_initialized;
};

/// The class of DTypeHolder; set by bind_dtype.
extern PyTypeObject* dtype_holder_type;

[[noreturn]] void raise_not_finalized();

/// The native descriptor, or null where `value` is no DType. ValueError for one whose construction failed.
inline const DType* try_dtype(nb::handle value) {
  if (!PyObject_TypeCheck(value.ptr(), dtype_holder_type)) return nullptr;
  const DType* dtype = reinterpret_cast<const DTypeHolder*>(value.ptr())->published;
  if (dtype == nullptr) raise_not_finalized();
  return dtype;
}

/// The native descriptor, or TypeError ‹<what> dtype must be a DType›.
inline const DType& to_dtype(nb::handle value, std::string_view what) {
  if (const DType* dtype = try_dtype(value)) return *dtype;
  raise<TypeError>(what, what, " dtype must be a DType: got ", python_type_name(value),
                   "; use one such as DType.Float32");
}

/// The Python object of `dtype` where there is one. At exit it may be about to go: then nobody refers to it.
inline PyObject* known_python_dtype(const DType& dtype) {
  PyObject* known = dtype.python_object();
  return known != nullptr && Py_REFCNT(known) > 0 ? known : nullptr;
}
/// Makes the Python object, unless there is one; a new reference.
PyObject* make_python_dtype(const DType& dtype);
/// The one Python object of `dtype`.
inline nb::object from_dtype(const DType& dtype) {
  if (PyObject* known = known_python_dtype(dtype)) return nb::borrow(known);
  return nb::steal(make_python_dtype(dtype));
}

}  // namespace orlop::bindings

namespace nanobind::detail {

/// `const DType&`, `const SimpleDType&` and alike, as arguments and results of bound functions.
template <class T>
  requires std::derived_from<T, orlop::DType>
struct type_caster<T> {
  static constexpr auto Name = const_name("orlop.carriers.dtype.DType");
  template <class U>
  using Cast = std::conditional_t<std::is_pointer_v<U>, const T*, const T&>;
  template <class U>
  static constexpr bool can_cast() {
    return true;
  }

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    if (!PyObject_TypeCheck(source.ptr(), orlop::bindings::dtype_holder_type)) return false;
    const auto* holder = reinterpret_cast<const orlop::bindings::DTypeHolder*>(source.ptr());
    value_ = dynamic_cast<const T*>(holder->published);
    return value_ != nullptr;
  }
  static handle from_cpp(const T& dtype, rv_policy, cleanup_list*) noexcept {
    try {
      return orlop::bindings::from_dtype(dtype).release();
    } catch (python_error& error) {
      error.restore();
      return {};
    }
  }
  static handle from_cpp(const T* dtype, rv_policy policy, cleanup_list* cleanup) noexcept {
    return dtype == nullptr ? none().release() : from_cpp(*dtype, policy, cleanup);
  }
  operator const T&() const { return *value_; }
  operator const T*() const { return value_; }

 private:
  const T* value_ = nullptr;
};

/// A descriptor or None.
template <class T>
struct type_caster<orlop::DescriptorRef<T>> {
  NB_TYPE_CASTER(orlop::DescriptorRef<T>, const_name("orlop.carriers.dtype.DType | None"))

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    if (source.is_none()) {
      value = {};
      return true;
    }
    make_caster<T> caster;
    if (!caster.from_python(source, flags, cleanup)) return false;
    value = static_cast<const T*>(caster);
    return true;
  }
  static handle from_cpp(orlop::DescriptorRef<T> dtype, rv_policy policy, cleanup_list* cleanup) noexcept {
    return make_caster<T>::from_cpp(dtype.get(), policy, cleanup);
  }
};

}  // namespace nanobind::detail
