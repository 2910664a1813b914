// Semantics of an operation that are written in Python, and what their authors see of a call.
#pragma once

#include <utility>
#include <vector>

#include "orlop/operation/operation_definition.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

/// resolve, reference and vjp as define_operation was given them.
class PythonSemantics final : public OperationSemantics {
 public:
  PythonSemantics(nb::object resolve, nb::object reference, nb::object vjp)
      : resolve_(std::move(resolve)), reference_(std::move(reference)), vjp_(std::move(vjp)) {}

  [[nodiscard]] ResolvedInvocation resolve(const BoundOperationCall& call) const override;
  [[nodiscard]] bool has_reference() const override;
  [[nodiscard]] std::vector<Tensor> reference(const ResolvedInvocation& invocation) const override;
  [[nodiscard]] bool differentiable() const override;
  [[nodiscard]] Gradients vjp(const VJPContext& context, Cotangents cotangents) const override;

  [[nodiscard]] const nb::object& resolve_function() const { return resolve_.value; }
  [[nodiscard]] const nb::object& reference_function() const { return reference_.value; }
  [[nodiscard]] const nb::object& vjp_function() const { return vjp_.value; }

 private:
  PythonValue resolve_, reference_, vjp_;
};

/// The semantics of a definition that was written in Python; null for any other.
const PythonSemantics* python_semantics(const OperationDefinition& definition);

/// Operands and options as the definition's author sees them: Python authors get other values untouched.
std::vector<Argument> to_operands(const OperationDefinition& definition, const nb::args& args);
OperationOptions to_keywords(const OperationDefinition& definition, const nb::kwargs& kwargs);

}  // namespace orlop::bindings
