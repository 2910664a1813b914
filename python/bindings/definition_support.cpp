// What the files behind the module _definitions share: see definition_support.hpp.
#include "definition_support.hpp"

namespace orlop::bindings {

nb::object home_attribute(const char* name) { return nb::module_::import_(definition_home).attr(name); }

bool is_marker(nb::handle value, const Marker& marker) { return try_native<Marker>(value) == &marker; }
nb::object from_marker(const Marker& marker) { return nb::cast(&marker, nb::rv_policy::reference); }

nb::object from_kind(OperandKind kind) {
  const std::string_view value = value_of(kind);
  return home_attribute("OperandKind")(nb::str(value.data(), value.size()));
}

OperandKind to_kind(nb::handle value, std::string_view what) {
  for (const OperandKind kind : {OperandKind::tensor, OperandKind::weak_scalar, OperandKind::structural})
    if (value.is(from_kind(kind))) return kind;
  raise<TypeError>(what, "kind must be a member of OperandKind: got ", python_type_name(value));
}

BoundOperationCall handle_of(BoundCallObject& self) {
  return BoundOperationCall(Ref<BoundCallObject>(&self));
}
ResolvedInvocation handle_of(InvocationObject& self) {
  return ResolvedInvocation(Ref<InvocationObject>(&self));
}
VJPContext handle_of(VJPContextObject& self) { return VJPContext(Ref<VJPContextObject>(&self)); }

}  // namespace orlop::bindings
