// Carrier definitions in Python: the records are Python's own (orlop/carriers/extension.py); here they become
// the providers that the library calls.
#include "extension.hpp"

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "carrier.hpp"
#include "carrier_class.hpp"
#include "layout.hpp"
#include "orlop/base/executor.hpp"
#include "orlop/base/forever.hpp"
#include "orlop/extension/definition.hpp"
#include "orlop/operation/capability.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

// --- Held Python objects ----------------------------------------------------------------------------------

namespace {

/// Guarded by the interpreter's lock.
std::unordered_set<PyObject**>& places() {
  static Forever<std::unordered_set<PyObject**>> known;
  return *known;
}

}  // namespace

HeldForGood::HeldForGood(nb::handle object) : object_(object.ptr()) {
  places().insert(&object_);
  Py_INCREF(object_);
}

HeldForGood::~HeldForGood() {
  with_interpreter([this] {
    places().erase(&object_);
    Py_XDECREF(object_);
  });
}

nb::object HeldForGood::get() const {
  if (object_ == nullptr)
    raise<RuntimeError>("CarrierDefinition", "the interpreter is about to end; its providers are gone");
  return nb::borrow(object_);
}

void HeldForGood::forget_all() {
  std::vector<PyObject*> objects;
  for (PyObject** place : places()) objects.push_back(std::exchange(*place, nullptr));
  places().clear();
  for (PyObject* object : objects) Py_XDECREF(object);
}

std::shared_ptr<PyObject> held(nb::object object) {
  return {object.release().ptr(), [](PyObject* owned) { with_interpreter([owned] { Py_DECREF(owned); }); }};
}

nb::object extension_name(const char* name) {
  return nb::module_::import_("orlop.carriers.extension").attr(name);
}

bool is_record(nb::handle value, const char* class_name) {
  const int result = PyObject_IsInstance(value.ptr(), extension_name(class_name).ptr());
  if (result < 0) throw_python_error();
  return result == 1;
}

nb::object from_carrier(const Carrier& carrier) {
  return nb::cast(Ref<Carrier>(const_cast<Carrier*>(&carrier)));  // Python knows no const
}

PythonCompletion::PythonCompletion(const nb::object& completion, std::string_view what)
    : completion_(held(completion)), what_(what) {
  extension_name("_require_provider_completion")(completion);
}

bool PythonCompletion::done() const {
  const InterpreterLock lock;
  const nb::object value = nb::handle(completion_.get()).attr("done");
  return to_bool(value, what_, "done");
}

nb::object PythonCompletion::wait() const { return nb::handle(completion_.get()).attr("wait")(); }

namespace {

void require_none(const nb::object& result, std::string_view what, std::string_view callback) {
  if (!result.is_none())
    raise<TypeError>(what, callback, " must return None: got ", python_type_name(result));
}

// --- Storage (X10) ----------------------------------------------------------------------------------------

class PythonStorage final : public StorageProvider {
 public:
  explicit PythonStorage(nb::handle record)
      : record_(record),
        elementwise_fallback_(to_bool(record.attr("elementwise_fallback"), what, "elementwise_fallback")) {}

  [[nodiscard]] bool supports_dtype(const Carrier& carrier, const DType& dtype) const override {
    const InterpreterLock lock;
    const nb::object result = call("supports_dtype", from_carrier(carrier), from_dtype(dtype));
    return to_bool(result, what, "the result of supports_dtype");
  }
  [[nodiscard]] Index physical_size(const Carrier& carrier) const override {
    const InterpreterLock lock;
    const nb::object result = call("physical_size", from_carrier(carrier));
    if (!PyLong_CheckExact(result.ptr()))
      raise<TypeError>(what, "physical_size must return an int: got ", python_type_name(result));
    return to_index(result, what, "the result of physical_size");
  }
  void allocate(Carrier& carrier, Index slots) const override {
    const InterpreterLock lock;
    require_none(call("allocate", from_carrier(carrier), nb::int_(slots)), what, "allocate");
  }
  void release(Carrier& carrier) const override {
    const InterpreterLock lock;
    require_none(call("release", from_carrier(carrier)), what, "release");
  }
  [[nodiscard]] Scalar read(const Carrier& carrier, Index index) const override {
    const InterpreterLock lock;
    const nb::object value = call("read", from_carrier(carrier), nb::int_(index));
    return to_scalar(value, what, "the result of read");
  }
  void write(Carrier& carrier, Index index, const Scalar& value) const override {
    const InterpreterLock lock;
    require_none(call("write", from_carrier(carrier), nb::int_(index), from_scalar(value)), what, "write");
  }
  [[nodiscard]] bool elementwise_fallback() const override { return elementwise_fallback_; }

 private:
  static constexpr std::string_view what = "StorageProvider";

  template <class... Arguments>
  [[nodiscard]] nb::object call(const char* callback, const Arguments&... arguments) const {
    return record_.get().attr(callback)(arguments...);
  }

  HeldForGood record_;
  bool elementwise_fallback_;
};

// --- Transfers (X18, X20) ---------------------------------------------------------------------------------

class PythonTransferCompletion final : public ProviderCompletion<void> {
 public:
  PythonTransferCompletion(const nb::object& completion, std::string_view what)
      : completion_(completion, what), what_(what) {}

  [[nodiscard]] bool done() const override { return completion_.done(); }
  void wait() override {
    const InterpreterLock lock;
    require_none(completion_.wait(), what_, "wait() of a transfer's completion");
  }

 private:
  PythonCompletion completion_;
  std::string what_;
};

PreparedTransfer to_prepared_transfer(const nb::object& prepared, std::string_view what) {
  return PreparedTransfer([submit = held(nb::object(prepared.attr("submit"))),
                           what = std::string(what)]() -> std::shared_ptr<ProviderCompletion<void>> {
    const InterpreterLock lock;
    const nb::object result = nb::handle(submit.get())();
    if (result.is_none()) return nullptr;
    return std::make_shared<PythonTransferCompletion>(result, what);
  });
}

class PythonTransfer final : public TransferProvider {
 public:
  explicit PythonTransfer(nb::handle record) : record_(record) {}

  [[nodiscard]] Result<PreparedTransfer> prepare(const TransferRequest& request) const override {
    const InterpreterLock lock;
    const nb::object answer = record_.get().attr("prepare")(extension_name("TransferRequest")(
        request.tensor, request.destination, python_class(request.source_class),
        python_class(request.destination_class), from_dtype(*request.dtype), request.layout,
        request.physical_span));
    return to_answer<PreparedTransfer>(answer, "PreparedTransfer", what, [](const nb::object& prepared) {
      return to_prepared_transfer(prepared, what);
    });
  }

 private:
  static constexpr std::string_view what = "TransferProvider";
  HeldForGood record_;
};

// --- Facets (X12) -----------------------------------------------------------------------------------------

/// The Python facets of one definition, found by their Python classes.
class PythonFacets final : public CarrierFacet {
 public:
  explicit PythonFacets(nb::handle facets) : facets_(facets) {}

  [[nodiscard]] nb::object find(nb::handle type) const {
    for (const nb::handle facet : facets_.get())
      if (facet.type().is(type)) return nb::borrow(facet);
    return nb::none();
  }

 private:
  HeldForGood facets_;  // a tuple
};

/// Python's faces of facets that are native, by class; guarded by the interpreter's lock.
std::unordered_map<CarrierClass, nb::object>& shown_facets() {
  static Forever<std::unordered_map<CarrierClass, nb::object>> shown;
  return *shown;
}

nb::object find_facet(const Carrier& carrier, nb::handle facet_class) {
  const nb::object base = extension_name("CarrierFacet");
  const int is_facet =
      PyType_Check(facet_class.ptr()) ? PyObject_IsSubclass(facet_class.ptr(), base.ptr()) : 0;
  if (is_facet < 0) throw_python_error();
  if (is_facet == 0)
    raise<TypeError>(carrier.carrier_class().name(), "a facet is asked for by a CarrierFacet subclass: got ",
                     to_text(nb::str(facet_class)));
  if (const auto* facets = carrier.facet<PythonFacets>())
    if (nb::object found = facets->find(facet_class); !found.is_none()) return found;
  const auto shown = shown_facets().find(carrier.carrier_class());
  if (shown != shown_facets().end())
    for (const nb::handle facet : shown->second)
      if (facet.type().is(facet_class)) return nb::borrow(facet);
  return nb::none();
}

nb::object require_facet(const Carrier& carrier, nb::handle facet_class) {
  nb::object found = find_facet(carrier, facet_class);
  if (found.is_none())
    raise<NotImplementedError>(carrier.carrier_class().name(), "the carrier offers no facet ",
                               to_text(facet_class.attr("__name__")),
                               "; a facet is found by its exact class");
  return found;
}

// --- Registration (X7) ------------------------------------------------------------------------------------

CarrierClass to_route_class(nb::handle value, std::string_view field) {
  if (const CarrierClass carrier_class = carrier_class_of_type(value)) return carrier_class;
  raise<TypeError>("TransferRoute", field, " must be a Carrier class: got ", python_type_name(value));
}

TransferRoute to_route(nb::handle record) {
  return {to_route_class(record.attr("source_class"), "source_class"),
          to_route_class(record.attr("destination_class"), "destination_class"),
          to_text(nb::object(record.attr("route_id"))),
          std::make_shared<PythonTransfer>(record.attr("provider"))};
}

CarrierDefinition to_definition(nb::handle record) {
  CarrierDefinition definition{.storage = std::make_shared<PythonStorage>(record.attr("storage")),
                               .kernels = to_kernels(record.attr("kernels")),
                               .composite = to_composite(record.attr("composite"))};
  for (const nb::handle route : nb::object(record.attr("transfers")))
    definition.transfers.push_back(to_route(route));
  if (const nb::object facets = record.attr("facets"); nb::len(facets) != 0)
    definition.facets.push_back(std::make_shared<PythonFacets>(facets));
  return definition;
}

/// The definitions that Python registered; guarded by the interpreter's lock.
std::unordered_map<CarrierClass, nb::object>& definitions() {
  static Forever<std::unordered_map<CarrierClass, nb::object>> known;
  return *known;
}

CarrierClass to_defined_class(nb::handle carrier_class) {
  const CarrierClass exact = carrier_class_of_type(carrier_class);
  if (!exact || carrier_class.is(nb::type<Carrier>()) || carrier_class.is(nb::type<DependentCarrier>()))
    raise<TypeError>("register_carrier_definition", "carrier_class must be a proper Carrier subclass: got ",
                     to_text(nb::str(carrier_class)));
  return exact;
}

void register_definition(nb::handle carrier_class, nb::handle definition) {
  const CarrierClass exact = to_defined_class(carrier_class);
  if (!is_record(definition, "CarrierDefinition"))
    raise<TypeError>("register_carrier_definition", "definition must be a CarrierDefinition: got ",
                     python_type_name(definition));
  register_carrier_definition(exact, to_definition(definition));
  definitions().emplace(exact, nb::borrow(definition));
}

void forget_python_objects() {
  Executor::drain_all();  // moves that are under way still need their providers
  HeldForGood::forget_all();
  std::exchange(definitions(), {}).clear();
  std::exchange(shown_facets(), {}).clear();
}

// --- Errors -----------------------------------------------------------------------------------------------

/// An error whose Python class has two bases.
void set_error(const char* name, const Error& error) noexcept {
  try {
    PyErr_SetString(extension_name(name).ptr(), error.what());
  } catch (nb::python_error& failure) {
    failure.restore();
  }
}

void install_translation() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      rethrow(pointer);
    } catch (const UnsupportedStorageDTypeError& error) {
      set_error("UnsupportedStorageDTypeError", error);
    } catch (const ResultCarriersError& error) {
      set_error("_ResultCarriersError", error);
    }
  });
}

template <class Function, class... Extra>
void define(nb::handle type, const char* name, Function function, const Extra&... extra) {
  nb::cpp_function_def(function, nb::scope(type), nb::name(name), nb::is_method(), extra...);
}

}  // namespace

void bind_extension(nb::module_& parent) {
  nb::module_ module =
      parent.def_submodule("_extension", "Carrier definitions: see orlop.carriers.extension.");
  const nb::handle carrier = nb::type<Carrier>();
  define(carrier, "facet", &find_facet, "facet_class"_a.none(),
         R"(The object of exactly this CarrierFacet class that the carrier's definition offers, or None (X12).

>>> from orlop.carriers.tiled_evictable import TiledResidencyFacet
>>> orlop.CPU(1).facet(TiledResidencyFacet) is None
True)");
  define(carrier, "require_facet", &require_facet, "facet_class"_a.none(),
         R"(The same; NotImplementedError naming the class where there is none (X12).

>>> from orlop.carriers.tiled_evictable import TiledResidencyFacet
>>> orlop.CPU(1).require_facet(TiledResidencyFacet)
Traceback (most recent call last):
    ...
NotImplementedError: [CPU] the carrier offers no facet TiledResidencyFacet; a facet is found by its ...)");
  module.def("register_carrier_definition", &register_definition, "carrier_class"_a.none(),
             "definition"_a.none(),
             R"(Gives exactly `carrier_class` its definition, all or nothing, once, before its first use.

Errors, all TypeError (X7): no proper Carrier subclass, no CarrierDefinition, a shipped class, a route from
another
class, a DependentCarrier without composite, capabilities declared by hand before, a class already observed or
already defined.

>>> from orlop.carriers.extension import register_carrier_definition
>>> register_carrier_definition(orlop.CPU, None)
Traceback (most recent call last):
    ...
TypeError: [register_carrier_definition] definition must be a CarrierDefinition: got NoneType)");
  module.def(
      "has_carrier_definition",
      [](nb::handle carrier_class) {
        const CarrierClass exact = carrier_class_of_type(carrier_class);
        return exact && exact.is_defined();
      },
      "carrier_class"_a.none());
  module.def(
      "peek_carrier_definition",
      [](nb::handle carrier_class) {
        const auto found = definitions().find(carrier_class_of_type(carrier_class));
        return found == definitions().end() ? nb::none() : found->second;
      },
      "carrier_class"_a.none());
  module.def(
      "show_facets",
      [](nb::handle carrier_class, const nb::tuple& facets) {
        shown_facets().insert_or_assign(to_defined_class(carrier_class), facets);
      },
      "carrier_class"_a.none(), "facets"_a, "Python's faces of the facets of a native class.");
  bind_kernel_packs(module);
  install_translation();
  at_exit(&forget_python_objects);
}

}  // namespace orlop::bindings
