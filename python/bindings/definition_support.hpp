// What the files behind the module _definitions share: its markers, fields of records, and handles.
#pragma once

#include <string_view>

#include "orlop/operation/operation_definition.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// The Python module that the definitions' names belong to, and an attribute of it.
inline constexpr const char* definition_home = "orlop.operation_definition";
nb::object home_attribute(const char* name);

/// REQUIRED and NON_DIFFERENTIABLE: one object each, which stands for itself.
struct Marker {
  const char* name;
};
inline constexpr Marker required{"REQUIRED"};
inline constexpr Marker non_differentiable{"NON_DIFFERENTIABLE"};

bool is_marker(nb::handle value, const Marker& marker);
nb::object from_marker(const Marker& marker);

/// The bound record in `value`, or TypeError ‹<field> must be of type <T>›.
template <class T>
T& to_record(nb::handle value, std::string_view what, std::string_view field) {
  if (T* record = try_native<T>(value)) return *record;
  raise<TypeError>(what, field, " must be of type ", to_text(nb::type<T>().attr("__name__")), ": got ",
                   python_type_name(value));
}

/// The Python member for `kind`, and back; TypeError for anything else.
nb::object from_kind(OperandKind kind);
OperandKind to_kind(nb::handle value, std::string_view what);

/// The handle of the counted object that Python holds.
BoundOperationCall handle_of(BoundCallObject& self);
ResolvedInvocation handle_of(InvocationObject& self);
VJPContext handle_of(VJPContextObject& self);

// Each in the file of its name; called by bind_operation_definition in this order.
void bind_operation_schema(nb::module_& module);
void bind_operation_calls(nb::module_& module);
void bind_definition_operation(nb::module_& module);

}  // namespace orlop::bindings
