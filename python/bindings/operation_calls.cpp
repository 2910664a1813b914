// Calls of operations: bound calls, promised results, resolved invocations and contexts of VJPs (X21, X22,
// X32).
#include <nanobind/stl/shared_ptr.h>

#include <limits>
#include <memory>
#include <utility>

#include "definition_support.hpp"
#include "dtype.hpp"
#include "layout.hpp"
#include "operation_definition.hpp"
#include "plans.hpp"
#include "record.hpp"

namespace orlop::bindings {

namespace {

/// An operand's position: type exactly int, not negative.
std::size_t to_position(nb::handle value, std::string_view what, std::string_view field) {
  if (!PyLong_CheckExact(value.ptr()))
    raise<TypeError>(what, field, " must be an int: got ", python_type_name(value));
  int overflow = 0;
  const long long position = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow < 0 || (overflow == 0 && position < 0))
    raise<ValueError>(what, field, " must not be negative: got ", to_text(nb::repr(value)));
  constexpr auto most = std::numeric_limits<Index>::max();  // out-of-range in any call
  return static_cast<std::size_t>(overflow > 0 ? most : position);
}

std::vector<std::size_t> to_positions(nb::handle value, std::string_view what, std::string_view field) {
  std::vector<std::size_t> positions;
  for (const nb::handle entry : to_finite_tuple(value, what, field))
    positions.push_back(to_position(entry, what, field));
  return positions;
}

double to_tolerance(nb::handle value, std::string_view field) {
  const std::optional<Scalar> number = PyBool_Check(value.ptr()) ? std::nullopt : try_scalar(value);
  if (!number) raise<TypeError>("ResultSpec", field, " must be a real number: got ", python_type_name(value));
  return number->to_binary64();
}

nb::tuple arguments_tuple(std::span<const Argument> arguments) { return tuple_of(arguments, from_argument); }

nb::object options_mapping(const OperationOptions& options) {
  nb::dict out;
  for (const auto& [name, value] : options) out[nb::cast(name)] = from_argument(value);
  return nb::steal(PyDictProxy_New(out.ptr()));
}

void construct_result(ResultSpec* self, nb::handle dtype, nb::handle shape, nb::handle layout,
                      nb::handle alias_of, nb::handle atol, nb::handle rtol) {
  constexpr std::string_view what = "ResultSpec";
  const DType* descriptor = try_dtype(dtype);
  if (descriptor == nullptr) raise<TypeError>(what, "dtype must be a DType: got ", python_type_name(dtype));
  const Shape& extents = to_shape(shape, what, "shape");
  const ResultSpec placed(*descriptor, extents, to_layout(layout, what, "layout"));
  std::optional<std::size_t> alias;
  if (!alias_of.is_none()) alias = to_position(alias_of, what, "alias_of");
  const double absolute = to_tolerance(atol, "atol");
  std::construct_at(self, *descriptor, placed.shape, placed.layout, alias, absolute,
                    to_tolerance(rtol, "rtol"));
}

// A plan of the registry has no owner and lives forever.
nb::object from_plan(const std::shared_ptr<const OperationPlan>& plan) {
  if (plan.use_count() == 0) return nb::cast(*plan, nb::rv_policy::reference);
  return nb::cast(std::const_pointer_cast<OperationPlan>(plan));
}

void construct_invocation(nb::pointer_and_handle<InvocationObject> self, nb::handle call, nb::handle plan,
                          nb::handle results, nb::handle mutated_operands, nb::handle saved_operands,
                          nb::handle kernel_id) {
  constexpr std::string_view what = "ResolvedInvocation";
  auto& bound = to_record<BoundCallObject>(call, what, "call");
  auto& planned = to_record<OperationPlan>(plan, what, "plan");
  InvocationObject::Fields fields{BoundOperationCall(Ref<BoundCallObject>(&bound)),
                                  std::make_shared<const OperationPlan>(planned),
                                  {},
                                  {},
                                  {},
                                  {}};
  for (const nb::handle item : to_finite_tuple(results, what, "results"))
    fields.results.push_back(to_record<ResultSpec>(item, what, "every result"));
  if (fields.results.empty()) static_cast<void>(InvocationObject(fields));  // refuses it
  fields.mutated_operands = to_positions(mutated_operands, what, "mutated_operands");
  fields.saved_operands = to_positions(saved_operands, what, "saved_operands");
  if (!kernel_id.is_none()) {
    static_cast<void>(InvocationObject(fields));  // its checks come first
    fields.kernel_id = to_text(kernel_id, what, "kernel_id");
    if (fields.kernel_id.empty())
      raise<ValueError>(what, "kernel_id must not be empty; leave it out for the operation's name");
  }
  new (self.p) InvocationObject(std::move(fields));
}

/// Tensors are equal where they are the same one (X4): their == compares elements.
bool same_value(nb::handle a, nb::handle b) {
  return try_tensor(a) != nullptr || try_tensor(b) != nullptr ? a.is(b) : a.equal(b);
}

bool same_entries(const nb::tuple& a, const nb::tuple& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_value(a[i], b[i])) return false;
  return true;
}

bool same_call(const BoundOperationCall& a, const BoundOperationCall& b) {
  if (a == b) return true;
  if (&a.definition() != &b.definition()) return false;
  if (!same_entries(arguments_tuple(a.operands()), arguments_tuple(b.operands()))) return false;
  // Both have every option of the schema.
  for (const auto& [name, value] : a.options())
    if (!same_value(from_argument(value), from_argument(b.option(name)))) return false;
  return true;
}

bool same_context(const VJPContext& a, const VJPContext& b) {
  return from_invocation(a.invocation()).equal(from_invocation(b.invocation())) &&
         same_entries(tensors_tuple(a.outputs()), tensors_tuple(b.outputs())) &&
         same_entries(tensors_tuple(a.saved_operands()), tensors_tuple(b.saved_operands()));
}

/// Equality of a record with Tensors in it; to be defined before the record's own, which goes by ==.
template <class T, class Same>
void define_equality(nb::class_<T>& type, Same same) {
  type.def(
      "__eq__",
      [same](T& self, nb::handle other) -> nb::object {
        T* given = try_native<T>(other);
        if (given == nullptr) return nb::borrow(Py_NotImplemented);
        return nb::bool_(same(handle_of(self), handle_of(*given)));
      },
      "other"_a.none());
}

Py_hash_t hash_of_call(nb::handle self) {
  const nb::tuple options(nb::list(self.attr("options").attr("items")()));
  const nb::tuple fields = nb::make_tuple(self.attr("definition"), self.attr("operands"), options);
  const Py_hash_t hash = PyObject_Hash(fields.ptr());
  if (hash == -1) throw_python_error();
  return hash;
}

void bind_bound_call(nb::module_& module) {
  nb::class_<BoundCallObject> call(module, "BoundOperationCall", counted<BoundCallObject>(),
                                   nb::type_slots(collector_slots), nb::is_weak_referenceable(),
                                   nb::is_final(),
                                   R"(Operands and options that fit a definition's schema; made by the
definition's bind(...).

>>> from orlop import friendly
>>> from orlop.operation_definition import operation_definition
>>> call = operation_definition("mul").bind(friendly.ones(2), 3.0)
>>> call.definition.name, call.operands[1]
('mul', 3.0))");
  call.def("__init__",
           [](nb::pointer_and_handle<BoundCallObject>, const nb::args&, const nb::kwargs&) {
             raise<TypeError>("BoundOperationCall",
                              "calls are bound by the framework; use definition.bind(…)");
           })
      .def_prop_ro("definition",
                   [](BoundCallObject& self) { return from_definition(handle_of(self).definition()); })
      .def_prop_ro("operands",
                   [](BoundCallObject& self) { return arguments_tuple(handle_of(self).operands()); })
      .def_prop_ro("options",
                   [](BoundCallObject& self) { return options_mapping(handle_of(self).options()); })
      .def_prop_ro("operand_kinds", [](BoundCallObject& self) {
        return tuple_of(handle_of(self).operand_kinds(), from_kind);
      });
  define_equality(call, same_call);
  call.def("__hash__", hash_of_call);  // before the record's own: options have no hash
  make_record(call, definition_home, {"definition", "operands", "options", "operand_kinds"});
}

void bind_result(nb::module_& module) {
  nb::class_<ResultSpec> result(
      module, "ResultSpec",
      R"(One promised result: dtype, shape, layout, and the operand that it is where it is no new Tensor.

atol and rtol are what a test of a kernel may allow. Errors: TypeError for a field of the wrong type;
ValueError where the layout has another shape, or a number is negative or not finite (X21).

>>> from orlop import DType, ResultSpec, Shape, friendly
>>> ResultSpec(DType.Float32, Shape(2, 3), friendly.row_major(2, 3)).dtype
SimpleDType('Float32')
>>> ResultSpec(DType.Float32, Shape(2, 3), friendly.row_major(3, 2))
Traceback (most recent call last):
    ...
ValueError: [ResultSpec] layout.shape must be the shape Shape<(2, 3)>: got Shape<(3, 2)>)");
  result
      .def("__init__", &construct_result, "dtype"_a.none(), "shape"_a.none(), "layout"_a.none(),
           "alias_of"_a.none() = nb::none(), nb::kw_only(), "atol"_a.none() = 0.0, "rtol"_a.none() = 0.0)
      .def_prop_ro("dtype", [](const ResultSpec& self) { return from_dtype(*self.dtype); })
      .def_prop_ro("shape", [](const ResultSpec& self) { return self.shape; })
      .def_prop_ro("layout", [](const ResultSpec& self) { return self.layout; })
      .def_prop_ro("alias_of",
                   [](const ResultSpec& self) -> nb::object {
                     return self.alias_of ? nb::object(nb::int_(*self.alias_of)) : nb::none();
                   })
      .def_prop_ro("atol", [](const ResultSpec& self) { return self.atol; })
      .def_prop_ro("rtol", [](const ResultSpec& self) { return self.rtol; });
  make_record(result, definition_home, {"dtype", "shape", "layout", "alias_of", "atol", "rtol"});
}

void bind_invocation(nb::module_& module) {
  nb::class_<InvocationObject> invocation(
      module, "ResolvedInvocation", counted<InvocationObject>(), nb::type_slots(collector_slots),
      nb::is_weak_referenceable(), nb::is_final(),
      R"(What one call will do: its plan, its results, which operands it changes, and which it saves for
backward. kernel_id is the operation's name where it is None.

Errors: TypeError for a field of the wrong type; ValueError for no result, a position that is negative,
repeated or no Tensor operand's, or a plan of another operation or other roles (X21).

>>> from orlop import friendly
>>> from orlop.operation_definition import operation_definition
>>> mul = operation_definition("mul")
>>> invocation = mul.resolve_call(mul.bind(friendly.ones(2), friendly.ones(2)))
>>> invocation.plan.operation, len(invocation.results), invocation.kernel_id
('mul', 1, 'mul'))");
  invocation
      .def("__init__", &construct_invocation, "call"_a.none(), "plan"_a.none(), "results"_a.none(),
           "mutated_operands"_a.none() = nb::tuple(), "saved_operands"_a.none() = nb::tuple(),
           "kernel_id"_a.none() = nb::none())
      .def_prop_ro("call", [](InvocationObject& self) { return handle_of(self).call().ref(); })
      .def_prop_ro("plan", [](InvocationObject& self) { return from_plan(handle_of(self).shared_plan()); })
      .def_prop_ro("results", [](InvocationObject& self) { return tuple_of(handle_of(self).results()); })
      .def_prop_ro("mutated_operands",
                   [](InvocationObject& self) { return tuple_of(handle_of(self).mutated_operands()); })
      .def_prop_ro("saved_operands",
                   [](InvocationObject& self) { return tuple_of(handle_of(self).saved_operands()); })
      .def_prop_ro("kernel_id", [](InvocationObject& self) { return handle_of(self).kernel_id(); })
      .def_prop_ro("definition",
                   [](InvocationObject& self) { return from_definition(handle_of(self).definition()); })
      .def_prop_ro("name", [](InvocationObject& self) { return handle_of(self).name(); })
      .def_prop_ro("operands",
                   [](InvocationObject& self) { return arguments_tuple(handle_of(self).operands()); })
      .def_prop_ro("options",
                   [](InvocationObject& self) { return options_mapping(handle_of(self).options()); });
  make_record(invocation, definition_home,
              {"call", "plan", "results", "mutated_operands", "saved_operands", "kernel_id"});
}

void bind_vjp_context(nb::module_& module) {
  nb::class_<VJPContextObject> context(
      module, "VJPContext", counted<VJPContextObject>(), nb::type_slots(collector_slots),
      nb::is_weak_referenceable(), nb::is_final(),
      R"(What a gradient rule sees: the invocation, its outputs without graph, and exactly the saved operands.

Errors: TypeError for a field of the wrong type; ValueError unless saved_operands are what the save
recipe of the invocation names (X32).

>>> from orlop import friendly
>>> from orlop.operation_definition import VJPContext, execute_reference, operation_definition
>>> relu = operation_definition("relu")
>>> tensor = friendly.tensor([3, -2])
>>> invocation = relu.resolve_call(relu.bind(tensor))
>>> context = VJPContext(invocation, execute_reference(invocation), (tensor,))
>>> friendly.to_list(context.outputs[0])
[3.0, 0.0])");
  context
      .def(
          "__init__",
          [](nb::pointer_and_handle<VJPContextObject> self, nb::handle resolved, nb::handle outputs,
             nb::handle saved_operands) {
            constexpr std::string_view what = "VJPContext";
            ResolvedInvocation checked = to_invocation(resolved, what, "invocation");
            std::vector<Tensor> made =
                to_tensors(to_finite_tuple(outputs, what, "outputs"), what, "every output");
            new (self.p) VJPContextObject(std::move(checked), std::move(made),
                                          to_tensors(to_finite_tuple(saved_operands, what, "saved_operands"),
                                                     what, "every saved operand"));
          },
          "invocation"_a.none(), "outputs"_a.none(), "saved_operands"_a.none())
      .def_prop_ro("invocation",
                   [](VJPContextObject& self) { return from_invocation(handle_of(self).invocation()); })
      .def_prop_ro("outputs", [](VJPContextObject& self) { return tensors_tuple(handle_of(self).outputs()); })
      .def_prop_ro("saved_operands",
                   [](VJPContextObject& self) { return tensors_tuple(handle_of(self).saved_operands()); });
  define_equality(context, same_context);
  make_record(context, definition_home, {"invocation", "outputs", "saved_operands"});
}

}  // namespace

nb::object from_invocation(const ResolvedInvocation& invocation) { return nb::cast(invocation.ref()); }

ResolvedInvocation to_invocation(nb::handle value, std::string_view what, std::string_view field) {
  return handle_of(to_record<InvocationObject>(value, what, field));
}

nb::tuple tensors_tuple(std::span<const Tensor> tensors) { return tuple_of(tensors); }

std::vector<Tensor> to_tensors(const nb::tuple& entries, std::string_view what, std::string_view field) {
  std::vector<Tensor> tensors;
  for (const nb::handle entry : entries) tensors.push_back(to_tensor(entry, what, field));
  return tensors;
}

std::vector<std::optional<Tensor>> to_optional_tensors(const nb::tuple& entries, std::string_view what,
                                                       std::string_view field) {
  std::vector<std::optional<Tensor>> tensors;
  for (const nb::handle entry : entries) {
    if (entry.is_none())
      tensors.emplace_back();
    else
      tensors.emplace_back(to_tensor(entry, what, field));
  }
  return tensors;
}

void bind_operation_calls(nb::module_& module) {
  bind_bound_call(module);
  bind_result(module);
  bind_invocation(module);
  bind_vjp_context(module);
}

}  // namespace orlop::bindings
