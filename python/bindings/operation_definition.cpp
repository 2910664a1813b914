// Operation definitions in Python: definitions, define_operation and what runs one (X2, X23–X26, X31, X32).
#include "operation_definition.hpp"

#include <memory>
#include <utility>

#include "carrier.hpp"
#include "definition_support.hpp"
#include "layout.hpp"
#include "operation.hpp"
#include "orlop/operation/definition_operation.hpp"
#include "plans.hpp"
#include "python_semantics.hpp"
#include "record.hpp"

namespace orlop::bindings {

namespace {

BoundOperationCall to_call(nb::handle value, std::string_view what) {
  return handle_of(to_record<BoundCallObject>(value, what, "call"));
}

nb::tuple run_reference(nb::handle invocation) {
  return tensors_tuple(execute_reference(to_invocation(invocation, "execute_reference", "invocation")));
}

nb::tuple run_vjp(nb::handle context, nb::handle cotangents) {
  constexpr std::string_view what = "call_vjp";
  const VJPContext checked = handle_of(to_record<VJPContextObject>(context, what, "context"));
  return gradients_tuple(call_vjp(
      checked,
      to_optional_tensors(to_finite_tuple(cotangents, what, "cotangents"), what, "every cotangent")));
}

nb::object resolve_function(const OperationDefinition& self) {
  if (const PythonSemantics* semantics = python_semantics(self)) return semantics->resolve_function();
  return nb::cpp_function(
      [&self](nb::handle call) {
        return from_invocation(self.semantics().resolve(to_call(call, self.name())));
      },
      "call"_a.none());
}

nb::object reference_function(const OperationDefinition& self) {
  if (const PythonSemantics* semantics = python_semantics(self)) return semantics->reference_function();
  return self.semantics().has_reference() ? nb::object(nb::cpp_function(run_reference, "invocation"_a.none()))
                                          : nb::none();
}

nb::object vjp_function(const OperationDefinition& self) {
  if (const PythonSemantics* semantics = python_semantics(self)) return semantics->vjp_function();
  return self.semantics().differentiable()
             ? nb::object(nb::cpp_function(run_vjp, "context"_a.none(), "cotangents"_a.none()))
             : from_marker(non_differentiable);
}

const OperationDefinition& define(nb::handle name, nb::handle schema, nb::handle resolve,
                                  nb::handle reference, nb::handle vjp) {
  constexpr std::string_view what = "define_operation";
  const auto require_callable = [&](nb::handle value, std::string_view field) {
    if (PyCallable_Check(value.ptr()) == 0)
      raise<TypeError>(what, field, " must be callable: got ", python_type_name(value));
  };
  std::string checked = to_text(name, what, "name");
  orlop::detail::check_operation_name(checked);
  const auto& operands = to_record<OperationSchema>(schema, what, "schema");
  require_callable(resolve, "resolve");
  if (!reference.is_none()) require_callable(reference, "reference");
  if (is_marker(vjp, required))
    raise<ValueError>(what, "vjp must be supplied explicitly: a function, or NON_DIFFERENTIABLE");
  if (!is_marker(vjp, non_differentiable)) require_callable(vjp, "vjp");
  return define_operation(
      std::move(checked), operands,
      std::make_shared<const PythonSemantics>(nb::borrow(resolve), nb::borrow(reference), nb::borrow(vjp)));
}

/// At interpreter exit: the registry outlives it, and what Python authors gave must not.
void forget_python_definitions() {
  for (const OperationDefinition* definition : orlop::detail::outside_definitions())
    if (python_semantics(*definition) != nullptr) orlop::detail::forget_semantics(*definition);
}

void bind_definition(nb::module_& module) {
  nb::class_<OperationDefinition> definition(
      module, "OperationDefinition",
      R"(An operation name with its schema and semantics; made by define_operation, and for every built-in.

Calling it with operands and options runs it on the carrier of the first Tensor: a Tensor, or a tuple
of them in result order (X25).

>>> from orlop import friendly
>>> from orlop.operation_definition import operation_definition
>>> relu = operation_definition("relu")
>>> friendly.to_list(relu(friendly.tensor([3, -2])))
[3.0, 0.0]
>>> relu.resolve_call(relu.bind(friendly.ones(2))).plan.output
SimpleDType('Float32'))");
  definition
      .def("__init__",
           [](nb::pointer_and_handle<OperationDefinition>, const nb::args&, const nb::kwargs&) {
             raise<TypeError>("OperationDefinition", "definitions are made by define_operation");
           })
      .def_prop_ro("name", &OperationDefinition::name)
      .def_prop_ro("schema", &OperationDefinition::schema)
      .def_prop_ro("resolve", &resolve_function)
      .def_prop_ro("reference", &reference_function)
      .def_prop_ro("vjp", &vjp_function)
      .def(
          "bind",
          [](const OperationDefinition& self, const nb::args& operands, const nb::kwargs& options) {
            return self.bind(to_operands(self, operands), to_keywords(self, options)).ref();
          },
          "operands"_a, "options"_a,
          "The call with these operands and options, checked against the schema (X22).")
      .def(
          "resolve_call",
          [](const OperationDefinition& self, nb::handle call) {
            return from_invocation(self.resolve_call(to_call(call, self.name())));
          },
          "call"_a.none(), "The invocation that `resolve` makes of the call (X24).")
      .def(
          "__call__",
          [](const OperationDefinition& self, const nb::args& operands, const nb::kwargs& options) {
            return from_results(self.call(to_operands(self, operands), to_keywords(self, options)));
          },
          "operands"_a, "options"_a);
  // One object per name: identity is equality. Before the record's own, which go by the fields.
  definition
      .def(
          "__eq__",
          [](const OperationDefinition& self, nb::handle other) -> nb::object {
            const OperationDefinition* given = try_native<OperationDefinition>(other);
            return given == nullptr ? nb::borrow(Py_NotImplemented) : nb::object(nb::bool_(given == &self));
          },
          "other"_a.none())
      .def("__hash__", [](const OperationDefinition& self) { return std::hash<const void*>()(&self); })
      .def("__repr__",
           [](const OperationDefinition& self) { return text("OperationDefinition('", self.name(), "')"); })
      .def("__reduce__", [](const OperationDefinition& self) {
        return nb::make_tuple(home_attribute("operation_definition"), nb::make_tuple(self.name()));
      });
  make_record(definition, definition_home, {"name", "schema", "resolve", "reference", "vjp"});
}

void bind_functions(nb::module_& module) {
  module.def("define_operation", &define, nb::rv_policy::reference, "name"_a.none(), "schema"_a.none(),
             "resolve"_a.none(), "reference"_a.none() = nb::none(), "vjp"_a.none() = from_marker(required),
             R"(Defines an operation for good and returns its OperationDefinition (X23).

name is namespaced ('acme.layer_norm'). resolve(call) returns a ResolvedInvocation; reference(
invocation) a Tensor or a tuple of them; vjp(context, cotangents) one Tensor or None per
differentiable operand, or NON_DIFFERENTIABLE, an explicit choice either way.
Errors: TypeError for an argument of the wrong type; ValueError where the name is not namespaced,
reserved or taken, or vjp is left out.

>>> from orlop import DType, OperandKind, OperandSpec, OperationSchema, ResultSpec, define_operation, friendly
>>> from orlop.operation import NON_DIFFERENTIABLE, OperationPlan, ResolvedInvocation, execute_reference
>>> from orlop.operation import resolve_operation_plan
>>> relu = resolve_operation_plan("relu", DType.Float32)
>>> plan = OperationPlan("example.shifted", relu.operands, relu.compute, None, None, DType.Float32)
>>> def resolve(call):
...     layout = friendly.column_major(*call.operands[0].shape)
...     return ResolvedInvocation(call, plan, [ResultSpec(DType.Float32, layout.shape, layout)])
>>> shifted = define_operation(
...     "example.shifted",
...     OperationSchema([OperandSpec("x", OperandKind.TENSOR)]),
...     resolve,
...     reference=lambda invocation: invocation.operands[0] + 1.0,
...     vjp=NON_DIFFERENTIABLE,
... )
>>> friendly.to_list(execute_reference(shifted.resolve_call(shifted.bind(friendly.tensor([1, 2]))))[0])
[2.0, 3.0])");
  module.def(
      "operation_definition",
      [](nb::handle name) {
        return from_definition(operation_definition(to_text(name, "operation_definition", "name")));
      },
      "name"_a.none(),
      "The definition of a built-in or defined name. Errors: TypeError where it is no str, LookupError.");
  module.def("execute_reference", &run_reference, "invocation"_a.none(),
             R"(The reference's results, checked against the invocation (X31).

Errors: UnsupportedOperationPlan without a reference; ProviderContractError for results that do
not fit.

>>> from orlop import friendly
>>> from orlop.operation_definition import execute_reference, operation_definition
>>> relu = operation_definition("relu")
>>> result, = execute_reference(relu.resolve_call(relu.bind(friendly.tensor([3, -2]))))
>>> friendly.to_list(result)
[3.0, 0.0])");
  module.def("call_vjp", &run_vjp, "context"_a.none(), "cotangents"_a.none(),
             R"(One Tensor or None per differentiable operand (X32); cotangents has one per result.

Errors: ValueError and TypeError for what does not fit, RuntimeError without a VJP.

>>> from orlop import friendly
>>> from orlop.operation_definition import VJPContext, call_vjp, execute_reference, operation_definition
>>> relu = operation_definition("relu")
>>> tensor = friendly.tensor([3, -2])
>>> invocation = relu.resolve_call(relu.bind(tensor))
>>> context = VJPContext(invocation, execute_reference(invocation), (tensor,))
>>> gradient, = call_vjp(context, (friendly.ones(2),))
>>> friendly.to_list(gradient)
[1.0, 0.0])");
  module.def(
      "execute_definition_invocation",
      [](nb::handle carrier, nb::handle invocation) {
        constexpr std::string_view what = "execute_definition_invocation";
        auto& checked = to_record<Carrier>(carrier, what, "carrier");
        return tensors_tuple(
            execute_definition_invocation(checked, to_invocation(invocation, what, "invocation")));
      },
      "carrier"_a.none(), "invocation"_a.none(), R"(Runs a resolved invocation through a fresh operation.

>>> from orlop import friendly
>>> from orlop.carriers.definition_dispatch import execute_definition_invocation
>>> from orlop.operation_definition import operation_definition
>>> relu, tensor = operation_definition("relu"), friendly.ones(2)
>>> execute_definition_invocation(tensor.carrier, relu.resolve_call(relu.bind(tensor)))
Traceback (most recent call last):
    ...
TypeError: [relu] CPU has no carrier definition, and runs no resolved invocation; call the ...)");
}

void install_translation() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      rethrow(pointer);
    } catch (const ProviderContractError& error) {
      try {
        const nb::object type = home_attribute("ProviderContractError");
        PyErr_SetObject(type.ptr(), nb::str(error.what()).ptr());
      } catch (nb::python_error& failure) {
        failure.restore();
      }
    }
  });
}

void bind_markers(nb::module_& module) {
  nb::class_<Marker> marker(module, "Marker", nb::is_final());
  marker.def("__repr__", [](const Marker& self) { return self.name; })
      .def("__reduce__", [](const Marker& self) { return self.name; });
  refuse_changes(marker);
  nb::setattr(marker, "__module__", nb::str(definition_home));
  for (const Marker* one : {&required, &non_differentiable}) module.attr(one->name) = from_marker(*one);
}

}  // namespace

nb::object from_definition(const OperationDefinition& definition) {
  return nb::cast(&definition, nb::rv_policy::reference);
}

const OperationDefinition& to_definition(nb::handle value, std::string_view what, std::string_view field) {
  return to_record<OperationDefinition>(value, what, field);
}

nb::object from_results(std::span<const Tensor> results) {
  return results.size() == 1 ? nb::cast(results.front()) : nb::object(tensors_tuple(results));
}

void bind_operation_definition(nb::module_& parent) {
  orlop::detail::install_foreign_visitor([](const std::any& value, ReferenceVisitor& visitor) {
    if (const auto* held = std::any_cast<PythonValue>(&value)) visitor.visit_python(held->value.ptr());
  });
  install_translation();
  nb::module_ module = parent.def_submodule("_definitions");
  bind_markers(module);
  bind_operation_schema(module);
  bind_operation_calls(module);
  bind_definition(module);
  bind_functions(module);
  bind_definition_operation(module);
  at_exit(forget_python_definitions);
}

}  // namespace orlop::bindings
