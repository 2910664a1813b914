// Operation plans, options and the records of capabilities in Python (P1–P21).
#include "plans.hpp"

#include <memory>

#include "dtype.hpp"
#include "orlop/operation/capability.hpp"
#include "record.hpp"

namespace orlop::bindings {

namespace {

constexpr const char* policy_home = "orlop.carriers.operation_policy";
constexpr const char* capability_home = "orlop.carriers.operation_capability";

// --- Enumerations -----------------------------------------------------------------------------------------

template <class E>
constexpr const char* enum_name = nullptr;
template <>
constexpr const char* enum_name<OperandRole> = "OperandRole";
template <>
constexpr const char* enum_name<Arithmetic> = "Arithmetic";
template <>
constexpr const char* enum_name<Accumulation> = "Accumulation";

// The members in declaration order, which is the order of the C++ enumeration. Kept for the process. No
// guarded static: the import may let the interpreter go, and whoever holds it then must not wait here.
template <class E>
nb::tuple members() {
  static PyObject* all = nullptr;
  if (all == nullptr) {
    nb::tuple fresh(nb::list(nb::module_::import_(policy_home).attr(enum_name<E>)));
    if (all == nullptr) all = fresh.release().ptr();
  }
  return nb::borrow<nb::tuple>(all);
}

template <class E>
nb::object member(E value) {
  return members<E>()[static_cast<std::size_t>(value)];
}

template <class E>
E to_enum(nb::handle value, std::string_view what, std::string_view field) {
  const nb::tuple all = members<E>();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (value.is(all[i])) return static_cast<E>(i);
  raise<TypeError>(what, field, " must be a member of ", enum_name<E>, ": got ", python_type_name(value));
}

// --- Fields -----------------------------------------------------------------------------------------------

const DType& to_descriptor(nb::handle value, std::string_view what, std::string_view field) {
  if (const DType* dtype = try_dtype(value)) return *dtype;
  raise<TypeError>(what, field, " must be a DType: got ", python_type_name(value),
                   "; use one such as DType.Float32");
}

const DType* to_descriptor_or_null(nb::handle value, std::string_view what, std::string_view field) {
  return value.is_none() ? nullptr : &to_descriptor(value, what, field);
}

nb::object from_descriptor(const DType* dtype) { return dtype == nullptr ? nb::none() : from_dtype(*dtype); }

template <class T>
const T& to_instance(nb::handle value, std::string_view what, std::string_view field) {
  if (!nb::isinstance<T>(value))
    raise<TypeError>(what, field, " must be an ", to_text(nb::type<T>().attr("__name__")), ": got ",
                     python_type_name(value));
  return *nb::inst_ptr<T>(value);
}

PlanOperand to_plan_operand(nb::handle value) {
  if (const DType* dtype = try_dtype(value)) return std::cref(*dtype);
  if (const std::optional<Scalar> scalar = try_scalar(value)) return *scalar;
  raise<TypeError>("operation plan", "an operand is a DType or a real number: got ", python_type_name(value));
}

// --- Records ----------------------------------------------------------------------------------------------

template <class Operand>
nb::class_<Operand> bind_operand(nb::module_& module, const char* name, const char* home, const char* doc) {
  nb::class_<Operand> type(module, name, doc);
  type.def(
          "__init__",
          [name](Operand* self, nb::handle role, nb::handle dtype, nb::handle convert_to) {
            const OperandRole checked = to_enum<OperandRole>(role, name, "role");
            std::construct_at(self, checked, to_descriptor_or_null(dtype, name, "dtype"),
                              to_descriptor(convert_to, name, "convert_to"));
          },
          "role"_a.none(), "dtype"_a.none(), "convert_to"_a.none())
      .def_prop_ro("role", [](const Operand& self) { return member(self.role); })
      .def_prop_ro("dtype", [](const Operand& self) { return from_descriptor(self.dtype); })
      .def_prop_ro("convert_to", [](const Operand& self) { return from_dtype(self.convert_to); });
  make_record(type, home, {"role", "dtype", "convert_to"});
  return type;
}

template <class Operand>
std::vector<Operand> to_operands(const nb::tuple& items, std::string_view what) {
  std::vector<Operand> operands;
  for (const nb::handle item : items) operands.push_back(to_instance<Operand>(item, what, "every operand"));
  return operands;
}

// A capability takes its operands as a tuple only (P20); a plan takes any finite iterable (X4).
template <class Record>
nb::tuple operand_items(nb::handle operands, std::string_view what) {
  if (std::is_same_v<Record, OperationCapability> && !PyTuple_Check(operands.ptr()))
    raise<TypeError>(what, "operands must be a tuple: got ", python_type_name(operands));
  return to_finite_tuple(operands, what, "operands");
}

template <class Record, class Operand>
nb::class_<Record> bind_shape(nb::module_& module, const char* name, const char* home, const char* doc) {
  nb::class_<Record> type(module, name, doc);
  type.def(
          "__init__",
          [name](Record* self, nb::handle operation, nb::handle operands, nb::handle compute,
                 nb::handle accumulation, nb::handle accumulator_dtype, nb::handle output) {
            std::string operation_name = to_text(operation, name, "operation");
            std::vector<Operand> shapes = to_operands<Operand>(operand_items<Record>(operands, name), name);
            const auto arithmetic = to_enum<Arithmetic>(compute, name, "compute");
            std::optional<Accumulation> combination;
            if (!accumulation.is_none())
              combination = to_enum<Accumulation>(accumulation, name, "accumulation");
            const DType* accumulator = to_descriptor_or_null(accumulator_dtype, name, "accumulator_dtype");
            std::construct_at(self, std::move(operation_name), std::move(shapes), arithmetic, combination,
                              accumulator, to_descriptor(output, name, "output"));
          },
          "operation"_a.none(), "operands"_a.none(), "compute"_a.none(), "accumulation"_a.none(),
          "accumulator_dtype"_a.none(), "output"_a.none())
      .def_prop_ro("operation", [](const Record& self) { return self.operation; })
      .def_prop_ro("operands", [](const Record& self) { return tuple_of(self.operands); })
      .def_prop_ro("compute", [](const Record& self) { return member(self.compute); })
      .def_prop_ro(
          "accumulation",
          [](const Record& self) { return self.accumulation ? member(*self.accumulation) : nb::none(); })
      .def_prop_ro("accumulator_dtype",
                   [](const Record& self) { return from_descriptor(self.accumulator_dtype); })
      .def_prop_ro("output", [](const Record& self) { return from_dtype(self.output); });
  make_record(type, home,
              {"operation", "operands", "compute", "accumulation", "accumulator_dtype", "output"});
  return type;
}

void bind_options(nb::module_& module) {
  constexpr const char* name = "OperationExecutionOptions";
  nb::class_<OperationExecutionOptions> type(
      module, name,
      R"(Validated non-tensor options bound to one operation name (P11).

Only reduce_sum and matmul take an accumulator_dtype: Float32, Float64, or None for the policy's default.
Errors: TypeError for another operation or a value that is no SimpleDType; NotImplementedError for another
simple dtype.

>>> from orlop import DType
>>> from orlop.carriers.operation_policy import OperationExecutionOptions
>>> OperationExecutionOptions("reduce_sum", DType.Float64).accumulator_dtype
SimpleDType('Float64')
>>> OperationExecutionOptions("relu", DType.Float64)
Traceback (most recent call last):
    ...
TypeError: [operation options] operation 'relu' takes no accumulator dtype; only matmul and ...)");
  type.def(
          "__init__",
          [](OperationExecutionOptions* self, nb::handle operation, nb::handle accumulator_dtype) {
            std::string operation_name = to_text(operation, name, "operation");
            if (is_accumulator_configurable(operation_name))
              std::construct_at(self, std::move(operation_name),
                                to_descriptor_or_null(accumulator_dtype, name, "accumulator_dtype"));
            else
              std::construct_at(self, std::move(operation_name), nullptr);  // refuses the name
          },
          "operation"_a.none(), "accumulator_dtype"_a = nb::none())
      .def_prop_ro("operation", &OperationExecutionOptions::operation)
      .def_prop_ro("accumulator_dtype", [](const OperationExecutionOptions& self) {
        return from_descriptor(self.accumulator_dtype());
      });
  make_record(type, policy_home, {"operation", "accumulator_dtype"});
}

// --- Resolution -------------------------------------------------------------------------------------------

nb::object from_interned(const OperationPlan& plan) { return nb::cast(plan, nb::rv_policy::reference); }

nb::object resolve(nb::handle operation, const nb::args& operands, nb::handle accumulator_dtype,
                   nb::handle options) {
  constexpr std::string_view what = "operation plan";
  const std::string name = to_text(operation, what, "operation");
  ResolveOptions fields;
  fields.options = to_options(options, what);
  fields.accumulator_dtype = to_descriptor_or_null(accumulator_dtype, what, "accumulator_dtype");
  const DType* accumulator = requested_accumulator(name, fields);
  const OperationSpec& spec = operation_spec(name);
  std::vector<PlanOperand> converted;
  for (const nb::handle operand : operands) converted.push_back(to_plan_operand(operand));
  return from_interned(spec.resolve(converted, accumulator));
}

nb::tuple every_resolvable(nb::handle tensor_dtypes, nb::handle weak_scalars) {
  constexpr std::string_view what = "resolvable_plans";
  std::vector<const DType*> dtypes;
  for (const nb::handle dtype : to_finite_tuple(tensor_dtypes, what, "tensor_dtypes"))
    dtypes.push_back(&to_descriptor(dtype, what, "every tensor dtype"));
  std::vector<Scalar> scalars;
  for (const nb::handle scalar : to_finite_tuple(weak_scalars, what, "weak_scalars"))
    scalars.push_back(to_scalar(scalar, what, "every weak scalar"));
  return tuple_of(resolvable_plans(dtypes, scalars),
                  [](const OperationPlan* plan) { return from_interned(*plan); });
}

nb::tuple from_descriptors(std::span<const DType* const> dtypes) {
  return tuple_of(dtypes, [](const DType* dtype) { return from_dtype(*dtype); });
}

// The registry's contents as plain tuples: the Python module makes its records of them.
nb::list specification_fields() {
  nb::list specs;
  for (const OperationSpec& spec : registered_operations()) {
    nb::list overloads;
    for (const OperationOverload& overload : spec.overloads()) {
      const nb::object same_dtype =
          overload.same_dtype.empty() ? nb::none() : nb::object(tuple_of(overload.same_dtype));
      overloads.append(nb::make_tuple(tuple_of(overload.roles, member<OperandRole>),
                                      tuple_of(overload.tensor_domains, from_descriptors), same_dtype));
    }
    const std::vector<std::size_t>* positions = spec.dtype_operand_positions();
    specs.append(nb::make_tuple(spec.name(), nb::tuple(overloads), spec.is_public(),
                                positions == nullptr ? nb::none() : nb::object(tuple_of(*positions))));
  }
  return specs;
}

void bind_resolution(nb::module_& module) {
  module.def("resolve_operation_plan", resolve, "operation"_a.none(), "operands"_a, nb::kw_only(),
             "accumulator_dtype"_a = nb::none(), "options"_a = nb::none(),
             R"(The plan of an operation for its operands (P6); reads no element.

A tensor operand is given as its storage dtype, a weak scalar as its value:
`resolve_operation_plan("mul", DType.Int32, 2.0)`.
Errors: NotImplementedError for an unknown name or a dtype that is not implemented; TypeError for
operands the operation does not take; OverflowError for an integer outside Int32.

>>> from orlop import DType
>>> from orlop.carriers.operation_policy import resolve_operation_plan
>>> resolve_operation_plan("mul", DType.Int32, 2.5).output
SimpleDType('Float32')
>>> resolve_operation_plan("mul", DType.Int32, 2**31).output
Traceback (most recent call last):
    ...
OverflowError: [mul] an integer scalar leaves Int32; use a value between -2147483648 and ...)");
  module.def("resolvable_plans", every_resolvable, "tensor_dtypes"_a, "weak_scalars"_a);
  module.def(
      "plan_accumulator_variants",
      [](nb::handle plan) {
        constexpr std::string_view what = "plan_accumulator_variants";
        nb::list variants;
        variants.append(nb::borrow(plan));
        const std::vector<OperationPlan> made = plan_accumulator_variants(to_plan(plan, what));
        for (std::size_t i = 1; i < made.size(); ++i) variants.append(nb::cast(made[i]));
        return nb::tuple(variants);
      },
      "plan"_a.none(),
      R"(The plan, then its variants for the other accumulators where its operation has them (P12).
Errors: TypeError where `plan` is no OperationPlan.

>>> from orlop import DType
>>> from orlop.carriers.operation_policy import plan_accumulator_variants, resolve_operation_plan
>>> plan = resolve_operation_plan("reduce_sum", DType.Float32)
>>> [variant.accumulator_dtype.name for variant in plan_accumulator_variants(plan)]
['Float32', 'Float64'])");
  module.def("operation_specification_fields", specification_fields);
  module.def("supported_tensor_dtypes", [] { return from_descriptors(supported_tensor_dtypes()); });
  module.def("supported_accumulator_dtypes", [] { return from_descriptors(supported_accumulator_dtypes()); });
  module.def("is_accumulator_configurable", &is_accumulator_configurable);
  module.def("weak_scalar_probes", [] { return tuple_of(weak_scalar_probes(), from_scalar); });
}

}  // namespace

const OperationExecutionOptions* to_options(nb::handle value, std::string_view what) {
  return value.is_none() ? nullptr : &to_instance<OperationExecutionOptions>(value, what, "options");
}

const OperationPlan& to_plan(nb::handle value, std::string_view what) {
  return to_instance<OperationPlan>(value, what, "plan");
}

void bind_plans(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("_plans");
  bind_operand<OperandPlan>(
      module, "OperandPlan", policy_home,
      R"(One operand of a plan: its role, its dtype (None for a weak scalar), and the dtype it is converted to first
(P3).

>>> from orlop import DType
>>> from orlop.carriers.operation_policy import resolve_operation_plan
>>> tensor, scalar = resolve_operation_plan("add", DType.Int32, 0.5).operands
>>> tensor.dtype, tensor.convert_to, scalar.dtype, scalar.convert_to
(SimpleDType('Int32'), SimpleDType('Float32'), None, SimpleDType('Float32')))");
  bind_shape<OperationPlan, OperandPlan>(
      module, "OperationPlan", policy_home,
      R"(What one operation does for one combination of operand dtypes (P3). Gradients follow from `output` alone.

>>> from orlop import DType
>>> from orlop.carriers.operation_policy import resolve_operation_plan
>>> plan = resolve_operation_plan("matmul", DType.Float32, DType.Float32)
>>> plan.operation, plan.compute.value, plan.accumulation.value, plan.accumulator_dtype, plan.output
('matmul', 'binary32', 'floating', SimpleDType('Float32'), SimpleDType('Float32')))");
  bind_operand<OperandCapability>(module, "OperandCapability", capability_home,
                                  R"(One operand of a capability; the fields of OperandPlan (P20).

>>> from orlop import DType
>>> from orlop.carriers.operation_capability import OperandCapability
>>> from orlop.carriers.operation_policy import OperandRole
>>> OperandCapability(OperandRole.TENSOR, DType.Int32, DType.Float32).convert_to
SimpleDType('Float32')
>>> OperandCapability(OperandRole.WEAK_SCALAR, DType.Int32, DType.Float32)
Traceback (most recent call last):
    ...
TypeError: [operand] a weak scalar has no dtype: got Int32; use None)");
  bind_shape<OperationCapability, OperandCapability>(
      module, "OperationCapability", capability_home,
      R"(One plan that a carrier class declares it can execute; the fields of OperationPlan (P20).

Errors: TypeError for a field of the wrong type, `operands` not a tuple included; ValueError where it is empty.

>>> from orlop import DType
>>> from orlop.carriers.operation_capability import OperationCapability
>>> from orlop.carriers.operation_policy import resolve_operation_plan
>>> capability = OperationCapability.from_plan(resolve_operation_plan("relu", DType.Float32))
>>> capability.matches(resolve_operation_plan("relu", DType.Int32))
False)")
      .def_static(
          "from_plan",
          [](nb::handle plan) {
            return OperationCapability::from_plan(to_plan(plan, "OperationCapability.from_plan"));
          },
          "plan"_a.none(),
          "The capability with every field of `plan`. Errors: TypeError where it is no OperationPlan.")
      .def(
          "matches",
          [](const OperationCapability& self, nb::handle plan) {
            return self.matches(to_plan(plan, "OperationCapability.matches"));
          },
          "plan"_a.none(),
          "Whether every field agrees with `plan`, dtypes by identity (P21). Errors: TypeError where it is "
          "no "
          "OperationPlan.");
  bind_options(module);
  bind_resolution(module);
}

}  // namespace orlop::bindings
