// Schemas of operations: operands, options and their defaults (X21).
#include <memory>
#include <utility>
#include <vector>

#include "definition_support.hpp"
#include "plans.hpp"
#include "record.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

nb::object from_optional(const std::optional<Argument>& value) {
  return value ? from_argument(*value) : from_marker(required);
}

void bind_operand_spec(nb::module_& module) {
  nb::class_<OperandSpec> operand(
      module, "OperandSpec",
      R"(One positional operand: its name, its OperandKind, and whether a gradient may flow to it.

Errors: TypeError for a field of the wrong type; ValueError where the name is no identifier, or a
differentiable operand is no Tensor (X21).

>>> from orlop import OperandKind, OperandSpec
>>> OperandSpec("scale", OperandKind.TENSOR, differentiable=True).name
'scale'
>>> OperandSpec("axis", OperandKind.STRUCTURAL, differentiable=True)
Traceback (most recent call last):
    ...
ValueError: [OperandSpec] only a Tensor operand can be differentiable: 'axis' is structural)");
  operand
      .def(
          "__init__",
          [](OperandSpec* self, nb::handle name, nb::handle kind, nb::handle differentiable) {
            constexpr std::string_view what = "OperandSpec";
            const OperandSpec named(to_text(name, what, "name"), OperandKind::tensor);
            const OperandKind checked = to_kind(kind, what);
            std::construct_at(self, named.name, checked, to_bool(differentiable, what, "differentiable"));
          },
          "name"_a.none(), "kind"_a.none(), "differentiable"_a.none() = false)
      .def_prop_ro("name", [](const OperandSpec& self) { return self.name; })
      .def_prop_ro("kind", [](const OperandSpec& self) { return from_kind(self.kind); })
      .def_prop_ro("differentiable", [](const OperandSpec& self) { return self.differentiable; });
  make_record(operand, definition_home, {"name", "kind", "differentiable"});
}

void bind_option_spec(nb::module_& module) {
  nb::class_<OptionSpec> option(module, "OptionSpec",
                                R"(One keyword option and its default; REQUIRED where a call must give it.

Errors: TypeError where the name is no str, ValueError where it is no identifier (X21).

>>> from orlop import OptionSpec, REQUIRED
>>> OptionSpec("epsilon", 1e-5).default, OptionSpec("axis", REQUIRED).default is REQUIRED
(1e-05, True))");
  option
      .def(
          "__init__",
          [](OptionSpec* self, nb::handle name, nb::handle default_value) {
            std::string text = to_text(name, "OptionSpec", "name");
            if (!default_value.is_valid() || is_marker(default_value, required))
              std::construct_at(self, std::move(text));
            else
              std::construct_at(self, std::move(text), Argument::of(PythonValue(nb::borrow(default_value))));
          },
          "name"_a.none(), "default"_a.none() = from_marker(required))
      .def_prop_ro("name", [](const OptionSpec& self) { return self.name; })
      .def_prop_ro("default", [](const OptionSpec& self) { return from_optional(self.default_value); });
  make_record(option, definition_home, {"name", "default"});
}

void construct_schema(OperationSchema* self, nb::handle operands, nb::handle options) {
  constexpr std::string_view what = "OperationSchema";
  const nb::tuple operand_items = to_finite_tuple(operands, what, "operands");
  const nb::tuple option_items = to_finite_tuple(options, what, "options");
  if (operand_items.size() == 0) static_cast<void>(OperationSchema({}));  // refuses it
  std::vector<OperandSpec> operand_specs;
  for (const nb::handle item : operand_items)
    operand_specs.push_back(to_record<OperandSpec>(item, what, "every operand"));
  std::vector<OptionSpec> option_specs;
  for (const nb::handle item : option_items)
    option_specs.push_back(to_record<OptionSpec>(item, what, "every option"));
  std::construct_at(self, std::move(operand_specs), std::move(option_specs));
}

void bind_schema(nb::module_& module) {
  nb::class_<OperationSchema> schema(module, "OperationSchema",
                                     R"(The operands of an operation in call order, and its options.

Errors: TypeError for entries of another type; ValueError for no operand, or a name that stands twice
(X21).

>>> from orlop import OperandKind, OperandSpec, OperationSchema, OptionSpec
>>> schema = OperationSchema([OperandSpec("tensor", OperandKind.TENSOR)], [OptionSpec("epsilon", 1e-5)])
>>> schema.options[0].default
1e-05
>>> OperationSchema([])
Traceback (most recent call last):
    ...
ValueError: [OperationSchema] operands must not be empty; an operation has one)");
  schema.def("__init__", &construct_schema, "operands"_a.none(), "options"_a.none() = nb::tuple())
      .def_prop_ro("operands", [](const OperationSchema& self) { return tuple_of(self.operands); })
      .def_prop_ro("options", [](const OperationSchema& self) { return tuple_of(self.options); });
  make_record(schema, definition_home, {"operands", "options"});
}

}  // namespace

void bind_operation_schema(nb::module_& module) {
  bind_operand_spec(module);
  bind_option_spec(module);
  bind_schema(module);
}

}  // namespace orlop::bindings
