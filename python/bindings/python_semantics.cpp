// Semantics written in Python: see python_semantics.hpp.
#include "python_semantics.hpp"

#include "definition_support.hpp"
#include "dtype.hpp"
#include "operation.hpp"
#include "operation_definition.hpp"

namespace orlop::bindings {

ResolvedInvocation PythonSemantics::resolve(const BoundOperationCall& call) const {
  const InterpreterLock lock;
  const nb::object made = resolve_.value(nb::cast(call.ref()));
  return to_invocation(made, call.definition().name(), "the result of resolve");
}

bool PythonSemantics::has_reference() const { return !reference_.value.is_none(); }

std::vector<Tensor> PythonSemantics::reference(const ResolvedInvocation& invocation) const {
  if (!has_reference()) return OperationSemantics::reference(invocation);
  const InterpreterLock lock;
  const nb::object made = reference_.value(from_invocation(invocation));
  constexpr std::string_view field = "the result of the reference";
  if (TensorObject* tensor = try_tensor(made)) return {handle_of(*tensor)};
  if (PyTuple_Check(made.ptr())) return to_tensors(nb::borrow<nb::tuple>(made), invocation.name(), field);
  raise<TypeError>(invocation.name(), field, " must be a Tensor or a tuple of Tensors: got ",
                   python_type_name(made));
}

bool PythonSemantics::differentiable() const { return !is_marker(vjp_.value, non_differentiable); }

Gradients PythonSemantics::vjp(const VJPContext& context, Cotangents cotangents) const {
  const InterpreterLock lock;
  const std::string& name = context.invocation().name();
  const nb::object made =
      vjp_.value(nb::cast(context.ref()), gradients_tuple({cotangents.begin(), cotangents.end()}));
  if (!PyTuple_Check(made.ptr()))
    raise<TypeError>(name, "the VJP must return a tuple: got ", python_type_name(made));
  return to_optional_tensors(nb::borrow<nb::tuple>(made), name, "an entry of the VJP's result");
}

const PythonSemantics* python_semantics(const OperationDefinition& definition) {
  return dynamic_cast<const PythonSemantics*>(&definition.semantics());
}

namespace {

Argument to_operand(const OperationDefinition& definition, nb::handle value) {
  if (python_semantics(definition) == nullptr) return to_argument(value);
  if (TensorObject* tensor = try_tensor(value)) return handle_of(*tensor);
  if (const auto scalar = try_scalar(value)) return *scalar;
  return Argument::of(PythonValue(nb::borrow(value)), python_type_name(value));
}

Argument to_option(const OperationDefinition& definition, nb::handle value) {
  if (python_semantics(definition) != nullptr) return Argument::of(PythonValue(nb::borrow(value)));
  if (const DType* dtype = try_dtype(value)) return Argument::of<const DType*>(dtype);
  return to_argument(value);
}

}  // namespace

std::vector<Argument> to_operands(const OperationDefinition& definition, const nb::args& args) {
  std::vector<Argument> operands;
  for (const nb::handle value : args) operands.push_back(to_operand(definition, value));
  return operands;
}

OperationOptions to_keywords(const OperationDefinition& definition, const nb::kwargs& kwargs) {
  OperationOptions options;
  for (const auto& [key, value] : kwargs) options.emplace(to_text(key), to_option(definition, value));
  return options;
}

}  // namespace orlop::bindings
