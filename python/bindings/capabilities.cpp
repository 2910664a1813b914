// Capabilities of carrier classes and carriers in Python (P22–P31).
#include "orlop/operation/capability.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <memory>

#include "carrier.hpp"
#include "carrier_class.hpp"
#include "plans.hpp"

namespace orlop::bindings {

namespace {

// --- Refusals ---------------------------------------------------------------------------------------------

// The Python exception carries what the native one does; some refusals come before there is a plan.
void set_unsupported_plan(const char* message, const OperationPlan* plan, nb::handle carrier_class,
                          RefusalKind kind) {
  const nb::object type =
      nb::module_::import_("orlop.carriers.operation_capability").attr("UnsupportedOperationPlan");
  const std::string_view kind_text = value_of(kind);
  const nb::object refused = plan != nullptr ? nb::cast(*plan, nb::rv_policy::copy) : nb::none();
  const nb::object error = type(message, "plan"_a = refused, "carrier_class"_a = carrier_class,
                                "kind"_a = nb::str(kind_text.data(), kind_text.size()));
  PyErr_SetObject(type.ptr(), error.ptr());
}

void install_translation() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      rethrow(pointer);
    } catch (const UnsupportedOperationPlan& error) {
      try {
        set_unsupported_plan(error.what(), error.has_plan() ? &error.plan() : nullptr,
                             python_class(error.carrier_class()), error.kind());
      } catch (nb::python_error& failure) {
        failure.restore();
      }
    }
  });
}

// --- Classes ----------------------------------------------------------------------------------------------

// A class as asked about: its name, and its identity where it is a concrete carrier class.
struct AskedClass {
  nb::object type;
  std::string name;
  CarrierClass carrier_class;
};

AskedClass to_asked_class(nb::handle type, std::string_view what) {
  if (!PyType_Check(type.ptr()))
    raise<TypeError>(what, "carrier_class must be a class: got an instance of ", python_type_name(type));
  const bool is_base = type.is(nb::type<Carrier>());
  return {nb::borrow(type), to_text(type.attr("__name__")),
          is_base ? CarrierClass() : carrier_class_of_type(type)};
}

// Python sees the very object that was registered.
nb::object from_entry(const CapabilitySet::Entry& entry) {
  return nb::cast(std::const_pointer_cast<OperationCapability>(entry));
}

nb::tuple from_entries(std::span<const CapabilitySet::Entry> entries) {
  return tuple_of(entries, from_entry);
}

nb::object find_entry(const CapabilitySet& set, const OperationPlan& plan) {
  const OperationCapability* found = set.find(plan);
  for (const CapabilitySet::Entry& entry : set.named(plan.operation))
    if (entry.get() == found) return from_entry(entry);
  return nb::none();
}

nb::tuple listed(const CapabilitySet& set, nb::handle operation, std::string_view what) {
  if (operation.is_none()) return from_entries(set.sorted());
  return from_entries(set.named(to_text(operation, what, "operation")));
}

nb::object reason_or_none(std::string_view class_name, const CapabilitySet& set, const OperationPlan& plan) {
  const std::string reason = orlop::detail::unsupported_reason(class_name, set, plan);
  return reason.empty() ? nb::none() : nb::object(nb::str(reason.c_str(), reason.size()));
}

nb::object require_entry(const AskedClass& asked, const CapabilitySet& set, const OperationPlan& plan) {
  nb::object entry = find_entry(set, plan);
  if (!entry.is_none()) return entry;
  const std::string reason = orlop::detail::unsupported_reason(asked.name, set, plan);
  set_unsupported_plan(reason.c_str(), &plan, asked.type, orlop::detail::refusal_kind(set, plan));
  throw_python_error();
}

std::vector<CapabilitySet::Entry> to_entries(nb::handle capabilities, std::string_view what) {
  std::vector<CapabilitySet::Entry> entries;
  for (const nb::handle entry : to_finite_tuple(capabilities, what, "capabilities")) {
    if (!nb::isinstance<OperationCapability>(entry))
      raise<TypeError>(what, "every entry must be an OperationCapability: got ", python_type_name(entry));
    entries.push_back(nb::cast<std::shared_ptr<OperationCapability>>(entry));
  }
  return entries;
}

void register_capabilities(nb::handle carrier_class, nb::handle capabilities) {
  constexpr std::string_view what = "register_operation_capabilities";
  const AskedClass asked = to_asked_class(carrier_class, what);
  if (!asked.carrier_class)
    raise<TypeError>(what, asked.name,
                     " is no concrete Carrier subclass; declare the exact class of your carrier");
  orlop::detail::check_capabilities_open(asked.carrier_class);
  register_operation_capabilities(asked.carrier_class, to_entries(capabilities, what));
}

/// `answer(class, plan)` as a function of both.
template <class Answer>
void bind_plan_query(nb::module_& module, const char* name, Answer answer, const char* doc) {
  module.def(
      name,
      [name, answer](nb::handle carrier_class, nb::handle plan) {
        const AskedClass asked = to_asked_class(carrier_class, name);
        return answer(asked, to_plan(plan, name));
      },
      "carrier_class"_a.none(), "plan"_a.none(), doc);
}

void bind_class_queries(nb::module_& module) {
  module.def("register_operation_capabilities", register_capabilities, "carrier_class"_a.none(),
             "capabilities"_a.none(),
             R"(Declares, once and for good, what exactly `carrier_class` can execute (P23).

All or nothing; a rejected call leaves the class open, an empty iterable is a full declaration.
Errors: TypeError for Carrier itself, a class that is no Carrier, a dependent, shipped or defined class,
one already declared or observed, or an entry that is no OperationCapability; ValueError for two equal
entries.

>>> from orlop import Carrier, DType
>>> from orlop.carriers.operation_capability import OperationCapability, register_operation_capabilities
>>> from orlop.carriers.operation_policy import resolve_operation_plan
>>> class Rectifying(Carrier):
...     pass
>>> plan = resolve_operation_plan("relu", DType.Float32)
>>> register_operation_capabilities(Rectifying, [OperationCapability.from_plan(plan)])
>>> register_operation_capabilities(Rectifying, [])
Traceback (most recent call last):
    ...
TypeError: [register_operation_capabilities] Rectifying has already declared its capabilities by ...)");
  module.def(
      "capabilities_for_carrier_class",
      [](nb::handle carrier_class, nb::handle operation) {
        constexpr std::string_view what = "capabilities_for_carrier_class";
        const AskedClass asked = to_asked_class(carrier_class, what);
        return listed(orlop::detail::capabilities_of(asked.carrier_class), operation, what);
      },
      "carrier_class"_a.none(), "operation"_a = nb::none(),
      R"(What the exact class advertises, optionally of one operation, in a fixed order (P25, P26).
TypeError for what is no class or no str.

>>> from orlop import CPU, FileBacked
>>> from orlop.carriers.operation_capability import capabilities_for_carrier_class
>>> [entry.operands[0].dtype.name for entry in capabilities_for_carrier_class(CPU, "relu")]
['Float32', 'Int32']
>>> capabilities_for_carrier_class(FileBacked)
())");
  bind_plan_query(
      module, "matching_capability",
      [](const AskedClass& asked, const OperationPlan& plan) {
        return find_entry(orlop::detail::capabilities_of(asked.carrier_class), plan);
      },
      R"(The stored entry that matches the plan, or None (P25).

>>> from orlop import CPU, DType, FileBacked
>>> from orlop.carriers.operation_capability import matching_capability
>>> from orlop.carriers.operation_policy import resolve_operation_plan
>>> plan = resolve_operation_plan("relu", DType.Float32)
>>> matching_capability(CPU, plan).matches(plan), matching_capability(FileBacked, plan)
(True, None))");
  bind_plan_query(
      module, "supports_operation_plan",
      [](const AskedClass& asked, const OperationPlan& plan) {
        return supports_operation_plan(asked.carrier_class, plan);
      },
      R"(Whether the exact class advertises the plan (P25). TypeError for what is no class or no OperationPlan.

>>> from orlop import CPU, DType, FileBacked
>>> from orlop.carriers.operation_capability import supports_operation_plan
>>> from orlop.carriers.operation_policy import resolve_operation_plan
>>> plan = resolve_operation_plan("relu", DType.Float32)
>>> supports_operation_plan(CPU, plan), supports_operation_plan(FileBacked, plan)
(True, False))");
  bind_plan_query(
      module, "unsupported_plan_reason",
      [](const AskedClass& asked, const OperationPlan& plan) {
        return reason_or_none(asked.name, orlop::detail::capabilities_of(asked.carrier_class), plan);
      },
      R"(None where the plan is supported, otherwise why not (P28).

>>> from orlop import CPU, DType, FileBacked
>>> from orlop.carriers.operation_capability import unsupported_plan_reason
>>> from orlop.carriers.operation_policy import resolve_operation_plan
>>> plan = resolve_operation_plan("relu", DType.Float32)
>>> unsupported_plan_reason(CPU, plan) is None
True
>>> print(unsupported_plan_reason(FileBacked, plan).partition(":")[0])
[FileBacked] does not support the operation 'relu')");
  bind_plan_query(
      module, "require_capability",
      [](const AskedClass& asked, const OperationPlan& plan) {
        return require_entry(asked, orlop::detail::capabilities_of(asked.carrier_class), plan);
      },
      R"(The stored entry that matches the plan, or UnsupportedOperationPlan (P25).

>>> from orlop import CPU, DType
>>> from orlop.carriers.operation_capability import require_capability
>>> from orlop.carriers.operation_policy import resolve_operation_plan
>>> plan = resolve_operation_plan("relu", DType.Float32)
>>> require_capability(CPU, plan).matches(plan)
True)");
}

// --- Carriers ---------------------------------------------------------------------------------------------

template <class Function, class... Extra>
void define(nb::handle type, const char* name, Function function, const Extra&... extra) {
  nb::cpp_function_def(function, nb::scope(type), nb::name(name), nb::is_method(), extra...);
}

AskedClass class_of(const Carrier& carrier) {
  const CarrierClass exact = carrier.carrier_class();
  return {python_class(exact), std::string(exact.name()), exact};
}

void bind_carrier_queries() {
  const nb::handle carrier = nb::type<Carrier>();
  define(
      carrier, "operation_capabilities",
      [](const Carrier& self, nb::handle operation_name) {
        return listed(orlop::detail::capabilities_of(self), operation_name, "operation_capabilities");
      },
      "operation_name"_a = nb::none(),
      R"(What this carrier advertises, optionally of one operation (P27): an independent one answers from its exact
class,
a dependent one from the set frozen with it.

>>> [entry.operands[0].dtype.name for entry in orlop.CPU(1).operation_capabilities("relu")]
['Float32', 'Int32']
>>> orlop.FileBacked(dtype=orlop.DType.Float32).operation_capabilities()
())");
  define(
      carrier, "supports_operation_plan",
      [](const Carrier& self, nb::handle plan) {
        return self.supports_operation_plan(to_plan(plan, "supports_operation_plan"));
      },
      "plan"_a.none(), R"(Whether this carrier advertises the plan (P27).

>>> from orlop.operation import resolve_operation_plan
>>> orlop.CPU(1).supports_operation_plan(resolve_operation_plan("relu", orlop.DType.Int32))
True)");
  define(
      carrier, "unsupported_plan_reason",
      [](const Carrier& self, nb::handle plan) {
        const OperationPlan& wanted = to_plan(plan, "unsupported_plan_reason");
        return reason_or_none(self.carrier_class().name(), orlop::detail::capabilities_of(self), wanted);
      },
      "plan"_a.none(), R"(None where the plan is supported, otherwise why not (P28).

>>> from orlop.operation import resolve_operation_plan
>>> orlop.CPU(1).unsupported_plan_reason(resolve_operation_plan("relu", orlop.DType.Int32)) is None
True)");
  define(
      carrier, "require_operation_plan",
      [](const Carrier& self, nb::handle plan) {
        const OperationPlan& wanted = to_plan(plan, "require_operation_plan");
        return require_entry(class_of(self), orlop::detail::capabilities_of(self), wanted);
      },
      "plan"_a.none(), R"(The stored entry that matches the plan, or UnsupportedOperationPlan (P27).

>>> from orlop.operation import resolve_operation_plan
>>> plan = resolve_operation_plan("relu", orlop.DType.Float32)
>>> orlop.CPU(1).require_operation_plan(plan).matches(plan)
True)");
}

// Opens the protected member to the binding.
struct OpenedDependent : DependentCarrier {
  static void finalize(DependentCarrier& carrier, std::shared_ptr<const CapabilitySet> set) {
    using Finalize = void (DependentCarrier::*)(std::shared_ptr<const CapabilitySet>);
    constexpr Finalize member = &OpenedDependent::finalize_dependent_capabilities;
    (carrier.*member)(std::move(set));
  }
};

void bind_dependent_carrier() {
  const nb::handle dependent = nb::type<DependentCarrier>();
  define(
      dependent, "_generate_operation_capabilities",
      [](const DependentCarrier& self) {
        raise<NotImplementedError>(
            self.carrier_class().name(),
            "_generate_operation_capabilities is not implemented; return what this instance can do");
      },
      "Hook: the capabilities of this instance (P29).");
  define(
      dependent, "_finalize_dependent_capabilities",
      [](DependentCarrier& self) {
        self.require_unfinalized();
        const nb::object generated =
            nb::handle(self.python_object()).attr("_generate_operation_capabilities")();
        OpenedDependent::finalize(self,
                                  CapabilitySet::make(to_entries(generated, self.carrier_class().name())));
      },
      "Freezes the capabilities; called once, last in the subclass's constructor (P29).");
}

}  // namespace

void bind_capabilities(nb::module_& parent) {
  nb::module_ module = nb::borrow<nb::module_>(parent.attr("_plans"));
  bind_class_queries(module);
  bind_carrier_queries();
  bind_dependent_carrier();
  install_translation();
  // Nothing of Python's may be held by the registry once the interpreter is gone.
  at_exit(orlop::detail::detach_capabilities);
}

}  // namespace orlop::bindings
