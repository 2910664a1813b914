// Classes of carriers across the language border: the identity of a Python class, and classes that take no
// subclass.
#pragma once

#include "orlop/storage/carrier.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// Whether `type` is itself bound to a C++ class, not a Python class derived from one.
bool is_native_class(nb::handle type);
/// The identity of a Python carrier class, native or written in Python; null where `type` is no Carrier
/// class.
CarrierClass carrier_class_of_type(nb::handle type);
/// The Python class of an identity.
nb::object python_class(CarrierClass carrier_class);

/// Makes every subclass of `bound` the TypeError of S108.
void reject_subclasses(nb::handle bound, const char* name);
/// Remembers the Python class of a native carrier class.
template <class T>
void name_carrier_class(nb::handle bound) {
  carrier_class<T>().record()->python_type = bound.ptr();
}

/// Binds what Python needs of the above, and lets the classes go at interpreter exit.
void bind_carrier_classes(nb::module_& module);

}  // namespace orlop::bindings
