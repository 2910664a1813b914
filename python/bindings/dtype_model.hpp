// What the dtype bindings share: the Python model of orlop.carriers.dtype, the classes that hold native
// objects, and the arguments that several constructors take.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dtype.hpp"
#include "orlop/dtype/compound.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// What orlop.carriers.dtype hands over when it is loaded. The module _dtype owns these references (see
/// install_model), so they end with the interpreter's modules and not before.
struct PythonModel {
  nb::object category, simple, compound, block_scaled, rule, level_extent, context, whole;
};

/// The model, loaded where it was not; RuntimeError once it is gone.
const PythonModel& model();
/// Takes the model over, once; `native` is the module _dtype.
void install_model(nb::module_ native, nb::type_object category, nb::type_object simple,
                   nb::type_object compound, nb::type_object block_scaled, nb::type_object rule,
                   nb::type_object level_extent, nb::type_object context, nb::object whole);

/// A tuple of the descriptors.
template <class Range>
nb::tuple from_dtypes(const Range& dtypes) {
  return tuple_of(dtypes, [](const auto& dtype) { return from_dtype(*dtype); });
}

// --- Classes that hold a native object ---

/// A heap type of `size` bytes that Python may derive from; `destroy` ends with free_holder.
PyTypeObject* make_holder_type(const char* name, std::size_t size, destructor destroy,
                               const char* documentation);
void free_holder(PyObject* self);
/// An instance whose constructor has not run.
nb::object allocate_instance(nb::handle type);

bool is_instance(nb::handle value, PyTypeObject* type);
bool is_instance(nb::handle value, nb::handle type);

// --- Arguments ---

inline const auto any = nb::arg().none();  ///< an argument that may be None

/// A non-empty str, or ValueError.
std::string to_name(nb::handle name, std::string_view what);
/// The descriptor of that kind, or TypeError.
CategoryRef to_category(nb::handle value, std::string_view what);
CategoryRef to_optional_category(nb::handle value, std::string_view what);
SimpleRef to_simple(nb::handle value, std::string_view what, std::string_view name);
/// Every item of an iterable, or TypeError.
std::vector<nb::object> to_items(nb::handle iterable, std::string_view what, std::string_view name);
/// Whole, or an int of at least 1; `exact` refuses what is only like an int.
BlockExtent to_extent(nb::handle value, std::string_view what, std::string_view name, bool exact);
nb::object from_extent(BlockExtent extent);

}  // namespace orlop::bindings
