// DefinitionOperation: one call of a definition on a carrier class with a CarrierDefinition (X27).
#include "orlop/operation/definition_operation.hpp"

#include "definition_support.hpp"
#include "operation.hpp"
#include "operation_definition.hpp"
#include "plans.hpp"
#include "python_semantics.hpp"

namespace orlop::bindings {

namespace {

/// The one keyword of a call, or null.
const OperationExecutionOptions* options_of(const DefinitionOperation& self, const nb::kwargs& kwargs) {
  const OperationExecutionOptions* options = nullptr;
  for (const auto& [key, value] : kwargs) {
    if (to_text(key) != "options")
      raise<TypeError>(self.operation_name(), "unexpected keyword argument '", to_text(key),
                       "'; only options is allowed");
    options = to_options(value, self.operation_name());
  }
  return options;
}

}  // namespace

void bind_definition_operation(nb::module_& module) {
  nb::class_<DefinitionOperation, Operation>(
      module, "DefinitionOperation", counted<DefinitionOperation>(), nb::type_slots(operation_slots),
      nb::is_final(), "One call of a definition on a carrier class with a CarrierDefinition (X27).")
      .def(
          "forward",
          [](DefinitionOperation& self, const nb::args& args, const nb::kwargs& kwargs) {
            const OperationExecutionOptions* options = options_of(self, kwargs);
            return from_results(self.forward_all(to_operands(self.definition(), args), options));
          },
          "inputs"_a, "kwargs"_a, "A Tensor, or a tuple of them in result order.")
      .def(
          "_execute_lowered",
          [](DefinitionOperation& self, const nb::args& args, const nb::kwargs& kwargs) {
            const OperationExecutionOptions* options = options_of(self, kwargs);
            return self.execute_lowered(to_operands(self.definition(), args), options);
          },
          "inputs"_a, "kwargs"_a, "forward without recording a node.")
      .def_prop_ro("definition",
                   [](const DefinitionOperation& self) { return from_definition(self.definition()); })
      .def_prop_ro("_resolved_invocation", [](const DefinitionOperation& self) -> nb::object {
        return self.resolved_invocation() ? from_invocation(*self.resolved_invocation()) : nb::none();
      });
}

}  // namespace orlop::bindings
