// Operation definitions in Python: schemas, calls, invocations, definitions and their operation (X2,
// X21–X32).
#include "operation_definition.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <limits>
#include <utility>

#include "carrier.hpp"
#include "dtype.hpp"
#include "layout.hpp"
#include "operation.hpp"
#include "orlop/operation/definition_operation.hpp"
#include "plans.hpp"
#include "record.hpp"

namespace orlop::bindings {

namespace {

constexpr const char* home = "orlop.operation_definition";

nb::object home_attribute(const char* name) { return nb::module_::import_(home).attr(name); }

/// REQUIRED and NON_DIFFERENTIABLE: one object each, which stands for itself.
struct Marker {
  const char* name;
};
constexpr Marker required{"REQUIRED"};
constexpr Marker non_differentiable{"NON_DIFFERENTIABLE"};

bool is_marker(nb::handle value, const Marker& marker) { return try_native<Marker>(value) == &marker; }
nb::object from_marker(const Marker& marker) { return nb::cast(&marker, nb::rv_policy::reference); }

// --- Fields -----------------------------------------------------------------------------------------------

template <class T>
T& to_record(nb::handle value, std::string_view what, std::string_view field) {
  if (T* record = try_native<T>(value)) return *record;
  raise<TypeError>(what, field, " must be of type ", to_text(nb::type<T>().attr("__name__")), ": got ",
                   python_type_name(value));
}

nb::object from_kind(OperandKind kind) {
  const std::string_view value = value_of(kind);
  return home_attribute("OperandKind")(nb::str(value.data(), value.size()));
}

OperandKind to_kind(nb::handle value, std::string_view what) {
  for (const OperandKind kind : {OperandKind::tensor, OperandKind::weak_scalar, OperandKind::structural})
    if (value.is(from_kind(kind))) return kind;
  raise<TypeError>(what, "kind must be a member of OperandKind: got ", python_type_name(value));
}

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

template <class Items>
nb::tuple positions_tuple(const Items& items) {
  nb::list out;
  for (const std::size_t item : items) out.append(nb::int_(item));
  return nb::tuple(out);
}

nb::object from_optional(const std::optional<Argument>& value) {
  return value ? from_argument(*value) : from_marker(required);
}

}  // namespace

// --- Semantics written in Python --------------------------------------------------------------------------

namespace {

class PythonSemantics final : public OperationSemantics {
 public:
  PythonSemantics(nb::object resolve, nb::object reference, nb::object vjp)
      : resolve_(std::move(resolve)), reference_(std::move(reference)), vjp_(std::move(vjp)) {}

  [[nodiscard]] ResolvedInvocation resolve(const BoundOperationCall& call) const override {
    const InterpreterLock lock;
    const nb::object made = resolve_.value(nb::cast(call.ref()));
    return to_invocation(made, call.definition().name(), "the result of resolve");
  }
  [[nodiscard]] bool has_reference() const override { return !reference_.value.is_none(); }
  [[nodiscard]] std::vector<Tensor> reference(const ResolvedInvocation& invocation) const override {
    if (!has_reference()) return OperationSemantics::reference(invocation);
    const InterpreterLock lock;
    const nb::object made = reference_.value(from_invocation(invocation));
    constexpr std::string_view field = "the result of the reference";
    if (TensorObject* tensor = try_tensor(made)) return {Tensor(Ref<TensorObject>(tensor))};
    if (PyTuple_Check(made.ptr())) return to_tensors(nb::borrow<nb::tuple>(made), invocation.name(), field);
    raise<TypeError>(invocation.name(), field, " must be a Tensor or a tuple of Tensors: got ",
                     python_type_name(made));
  }
  [[nodiscard]] bool differentiable() const override { return !is_marker(vjp_.value, non_differentiable); }
  [[nodiscard]] Gradients vjp(const VJPContext& context, Cotangents cotangents) const override {
    const InterpreterLock lock;
    const std::string& name = context.invocation().name();
    const nb::object made =
        vjp_.value(nb::cast(context.ref()), gradients_tuple({cotangents.begin(), cotangents.end()}));
    if (!PyTuple_Check(made.ptr()))
      raise<TypeError>(name, "the VJP must return a tuple: got ", python_type_name(made));
    Gradients gradients;
    for (const nb::handle entry : nb::borrow<nb::tuple>(made)) {
      if (entry.is_none())
        gradients.emplace_back();
      else
        gradients.emplace_back(to_tensor(entry, name, "an entry of the VJP's result"));
    }
    return gradients;
  }

  [[nodiscard]] const nb::object& resolve_function() const { return resolve_.value; }
  [[nodiscard]] const nb::object& reference_function() const { return reference_.value; }
  [[nodiscard]] const nb::object& vjp_function() const { return vjp_.value; }

 private:
  PythonValue resolve_, reference_, vjp_;
};

const PythonSemantics* python_semantics(const OperationDefinition& definition) {
  return dynamic_cast<const PythonSemantics*>(&definition.semantics());
}

/// Operands and options as the definition's author sees them: Python authors get other values untouched.
Argument to_operand(const OperationDefinition& definition, nb::handle value) {
  if (python_semantics(definition) == nullptr) return to_argument(value);
  if (TensorObject* tensor = try_tensor(value)) return Tensor(Ref<TensorObject>(tensor));
  if (const auto scalar = try_scalar(value)) return *scalar;
  return Argument::of(PythonValue(nb::borrow(value)), python_type_name(value));
}

Argument to_option(const OperationDefinition& definition, nb::handle value) {
  if (python_semantics(definition) != nullptr) return Argument::of(PythonValue(nb::borrow(value)));
  if (const DType* dtype = try_dtype(value)) return Argument::of<const DType*>(dtype);
  return to_argument(value);
}

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

nb::tuple arguments_tuple(std::span<const Argument> arguments) {
  nb::list out;
  for (const Argument& argument : arguments) out.append(from_argument(argument));
  return nb::tuple(out);
}

nb::object options_mapping(const OperationOptions& options) {
  nb::dict out;
  for (const auto& [name, value] : options) out[nb::cast(name)] = from_argument(value);
  return nb::steal(PyDictProxy_New(out.ptr()));
}

// --- Schemas ----------------------------------------------------------------------------------------------

void bind_schema(nb::module_& module) {
  nb::class_<OperandSpec> operand(
      module, "OperandSpec",
      "One positional operand: its name, its OperandKind, and whether a gradient may flow to it.\n\n"
      "Errors: TypeError for a field of the wrong type; ValueError where the name is no identifier, or a\n"
      "differentiable operand is no Tensor (X21).");
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
  make_record(operand, home, {"name", "kind", "differentiable"});

  nb::class_<OptionSpec> option(
      module, "OptionSpec",
      "One keyword option and its default; REQUIRED where a call must give it.\n\n"
      "Errors: TypeError where the name is no str, ValueError where it is no identifier (X21).");
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
  make_record(option, home, {"name", "default"});

  nb::class_<OperationSchema> schema(module, "OperationSchema",
                                     "The operands of an operation in call order, and its options.\n\n"
                                     "Errors: TypeError for entries of another type; ValueError for no "
                                     "operand, or a name that stands twice\n"
                                     "(X21).");
  schema
      .def(
          "__init__",
          [](OperationSchema* self, nb::handle operands, nb::handle options) {
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
          },
          "operands"_a.none(), "options"_a.none() = nb::tuple())
      .def_prop_ro("operands",
                   [](const OperationSchema& self) {
                     nb::list out;
                     for (const OperandSpec& operand : self.operands) out.append(nb::cast(operand));
                     return nb::tuple(out);
                   })
      .def_prop_ro("options", [](const OperationSchema& self) {
        nb::list out;
        for (const OptionSpec& option : self.options) out.append(nb::cast(option));
        return nb::tuple(out);
      });
  make_record(schema, home, {"operands", "options"});
}

// --- Calls ------------------------------------------------------------------------------------------------

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

BoundOperationCall handle_of(BoundCallObject& self) {
  return BoundOperationCall(Ref<BoundCallObject>(&self));
}
ResolvedInvocation handle_of(InvocationObject& self) {
  return ResolvedInvocation(Ref<InvocationObject>(&self));
}
VJPContext handle_of(VJPContextObject& self) { return VJPContext(Ref<VJPContextObject>(&self)); }

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

void bind_calls(nb::module_& module) {
  nb::class_<BoundCallObject> call(module, "BoundOperationCall", counted<BoundCallObject>(),
                                   nb::type_slots(collector_slots), nb::is_weak_referenceable(),
                                   nb::is_final(),
                                   "Operands and options that fit a definition's schema; made by the\n"
                                   "definition's bind(...).");
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
        nb::list kinds;
        for (const OperandKind kind : handle_of(self).operand_kinds()) kinds.append(from_kind(kind));
        return nb::tuple(kinds);
      });
  define_equality(call, same_call);
  call.def("__hash__", hash_of_call);  // before the record's own: options have no hash
  make_record(call, home, {"definition", "operands", "options", "operand_kinds"});

  nb::class_<ResultSpec> result(
      module, "ResultSpec",
      "One promised result: dtype, shape, layout, and the operand that it is where it is no new Tensor.\n\n"
      "atol and rtol are what a test of a kernel may allow. Errors: TypeError for a field of the wrong "
      "type;\n"
      "ValueError where the layout has another shape, or a number is negative or not finite (X21).");
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
  make_record(result, home, {"dtype", "shape", "layout", "alias_of", "atol", "rtol"});

  nb::class_<InvocationObject> invocation(
      module, "ResolvedInvocation", counted<InvocationObject>(), nb::type_slots(collector_slots),
      nb::is_weak_referenceable(), nb::is_final(),
      "What one call will do: its plan, its results, which operands it changes, and which it saves for\n"
      "backward. kernel_id is the operation's name where it is None.\n\n"
      "Errors: TypeError for a field of the wrong type; ValueError for no result, a position that is "
      "negative,\n"
      "repeated or no Tensor operand's, or a plan of another operation or other roles (X21).");
  invocation
      .def("__init__", &construct_invocation, "call"_a.none(), "plan"_a.none(), "results"_a.none(),
           "mutated_operands"_a.none() = nb::tuple(), "saved_operands"_a.none() = nb::tuple(),
           "kernel_id"_a.none() = nb::none())
      .def_prop_ro("call", [](InvocationObject& self) { return handle_of(self).call().ref(); })
      .def_prop_ro("plan", [](InvocationObject& self) { return from_plan(handle_of(self).shared_plan()); })
      .def_prop_ro("results",
                   [](InvocationObject& self) {
                     nb::list out;
                     for (const ResultSpec& spec : handle_of(self).results()) out.append(nb::cast(spec));
                     return nb::tuple(out);
                   })
      .def_prop_ro("mutated_operands",
                   [](InvocationObject& self) { return positions_tuple(handle_of(self).mutated_operands()); })
      .def_prop_ro("saved_operands",
                   [](InvocationObject& self) { return positions_tuple(handle_of(self).saved_operands()); })
      .def_prop_ro("kernel_id", [](InvocationObject& self) { return handle_of(self).kernel_id(); })
      .def_prop_ro("definition",
                   [](InvocationObject& self) { return from_definition(handle_of(self).definition()); })
      .def_prop_ro("name", [](InvocationObject& self) { return handle_of(self).name(); })
      .def_prop_ro("operands",
                   [](InvocationObject& self) { return arguments_tuple(handle_of(self).operands()); })
      .def_prop_ro("options",
                   [](InvocationObject& self) { return options_mapping(handle_of(self).options()); });
  make_record(invocation, home,
              {"call", "plan", "results", "mutated_operands", "saved_operands", "kernel_id"});

  nb::class_<VJPContextObject> context(
      module, "VJPContext", counted<VJPContextObject>(), nb::type_slots(collector_slots),
      nb::is_weak_referenceable(), nb::is_final(),
      "What a gradient rule sees: the invocation, its outputs without graph, and exactly the saved "
      "operands.\n\n"
      "Errors: TypeError for a field of the wrong type; ValueError unless saved_operands are what the save\n"
      "recipe of the invocation names (X32).");
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
  make_record(context, home, {"invocation", "outputs", "saved_operands"});
}

// --- Definitions ------------------------------------------------------------------------------------------

BoundOperationCall to_call(nb::handle value, std::string_view what) {
  return handle_of(to_record<BoundCallObject>(value, what, "call"));
}

std::vector<std::optional<Tensor>> to_cotangents(nb::handle value, std::string_view what) {
  std::vector<std::optional<Tensor>> cotangents;
  for (const nb::handle entry : to_finite_tuple(value, what, "cotangents")) {
    if (entry.is_none())
      cotangents.emplace_back();
    else
      cotangents.emplace_back(to_tensor(entry, what, "every cotangent"));
  }
  return cotangents;
}

nb::tuple run_reference(nb::handle invocation) {
  return tensors_tuple(execute_reference(to_invocation(invocation, "execute_reference", "invocation")));
}

nb::tuple run_vjp(nb::handle context, nb::handle cotangents) {
  constexpr std::string_view what = "call_vjp";
  const VJPContext checked = handle_of(to_record<VJPContextObject>(context, what, "context"));
  return gradients_tuple(call_vjp(checked, to_cotangents(cotangents, what)));
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

void bind_definitions(nb::module_& module) {
  nb::class_<OperationDefinition> definition(
      module, "OperationDefinition",
      "An operation name with its schema and semantics; made by define_operation, and for every built-in.\n\n"
      "Calling it with operands and options runs it on the carrier of the first Tensor: a Tensor, or a "
      "tuple\n"
      "of them in result order (X25).");
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
  make_record(definition, home, {"name", "schema", "resolve", "reference", "vjp"});

  module.def(
      "define_operation", &define, nb::rv_policy::reference, "name"_a.none(), "schema"_a.none(),
      "resolve"_a.none(), "reference"_a.none() = nb::none(), "vjp"_a.none() = from_marker(required),
      "Defines an operation for good and returns its OperationDefinition (X23).\n\n"
      "name is namespaced ('acme.layer_norm'). resolve(call) returns a ResolvedInvocation; reference(\n"
      "invocation) a Tensor or a tuple of them; vjp(context, cotangents) one Tensor or None per\n"
      "differentiable operand, or NON_DIFFERENTIABLE, an explicit choice either way.\n"
      "Errors: TypeError for an argument of the wrong type; ValueError where the name is not namespaced,\n"
      "reserved or taken, or vjp is left out.");
  module.def(
      "operation_definition",
      [](nb::handle name) {
        return from_definition(operation_definition(to_text(name, "operation_definition", "name")));
      },
      "name"_a.none(),
      "The definition of a built-in or defined name. Errors: TypeError where it is no str, LookupError.");
  module.def(
      "execute_reference", &run_reference, "invocation"_a.none(),
      "The reference's results, checked against the invocation (X31).\n\n"
      "Errors: UnsupportedOperationPlan without a reference; ProviderContractError for results that do\n"
      "not fit.");
  module.def("call_vjp", &run_vjp, "context"_a.none(), "cotangents"_a.none(),
             "One Tensor or None per differentiable operand (X32); cotangents has one per result.\n\n"
             "Errors: ValueError and TypeError for what does not fit, RuntimeError without a VJP.");
  module.def(
      "execute_definition_invocation",
      [](nb::handle carrier, nb::handle invocation) {
        constexpr std::string_view what = "execute_definition_invocation";
        auto& checked = to_record<Carrier>(carrier, what, "carrier");
        return tensors_tuple(
            execute_definition_invocation(checked, to_invocation(invocation, what, "invocation")));
      },
      "carrier"_a.none(), "invocation"_a.none(), "Runs a resolved invocation through a fresh operation.");
}

// --- The operation ----------------------------------------------------------------------------------------

void bind_definition_operation(nb::module_& module) {
  const auto options_of = [](const DefinitionOperation& self, const nb::kwargs& kwargs) {
    const OperationExecutionOptions* options = nullptr;
    for (const auto& [key, value] : kwargs) {
      if (to_text(key) != "options")
        raise<TypeError>(self.operation_name(), "unexpected keyword argument '", to_text(key),
                         "'; only options is allowed");
      options = to_options(value, self.operation_name());
    }
    return options;
  };
  nb::class_<DefinitionOperation, Operation>(
      module, "DefinitionOperation", counted<DefinitionOperation>(), nb::type_slots(operation_slots),
      nb::is_final(), "One call of a definition on a carrier class with a CarrierDefinition (X27).")
      .def(
          "forward",
          [options_of](DefinitionOperation& self, const nb::args& args, const nb::kwargs& kwargs) {
            const OperationExecutionOptions* options = options_of(self, kwargs);
            return from_results(self.forward_all(to_operands(self.definition(), args), options));
          },
          "inputs"_a, "kwargs"_a, "A Tensor, or a tuple of them in result order.")
      .def(
          "_execute_lowered",
          [options_of](DefinitionOperation& self, const nb::args& args, const nb::kwargs& kwargs) {
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
  nb::setattr(marker, "__module__", nb::str(home));
  for (const Marker* one : {&required, &non_differentiable}) module.attr(one->name) = from_marker(*one);
}

}  // namespace

nb::object from_definition(const OperationDefinition& definition) {
  return nb::cast(&definition, nb::rv_policy::reference);
}

const OperationDefinition& to_definition(nb::handle value, std::string_view what, std::string_view field) {
  return to_record<OperationDefinition>(value, what, field);
}

nb::object from_invocation(const ResolvedInvocation& invocation) { return nb::cast(invocation.ref()); }

ResolvedInvocation to_invocation(nb::handle value, std::string_view what, std::string_view field) {
  return handle_of(to_record<InvocationObject>(value, what, field));
}

nb::tuple tensors_tuple(std::span<const Tensor> tensors) {
  nb::list out;
  for (const Tensor& tensor : tensors) out.append(nb::cast(tensor));
  return nb::tuple(out);
}

std::vector<Tensor> to_tensors(const nb::tuple& entries, std::string_view what, std::string_view field) {
  std::vector<Tensor> tensors;
  for (const nb::handle entry : entries) tensors.push_back(to_tensor(entry, what, field));
  return tensors;
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
  bind_schema(module);
  bind_calls(module);
  bind_definitions(module);
  bind_definition_operation(module);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(forget_python_definitions));
}

}  // namespace orlop::bindings
