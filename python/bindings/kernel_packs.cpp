// Kernels and composite providers written in Python, behind the C++ interfaces (X13-X19).
#include <vector>

#include "carrier.hpp"
#include "carrier_class.hpp"
#include "extension.hpp"
#include "operation_definition.hpp"
#include "orlop/extension/composite.hpp"
#include "plans.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

/// An interface of Python. One of exactly the base class is compatible with a C++ one of the base class.
class PythonInterface final : public KernelExecutionInterface {
 public:
  explicit PythonInterface(nb::handle object)
      : KernelExecutionInterface(to_text(object.attr("version"))),
        object_(object),
        type_(object.type().ptr()),
        is_base_(object.type().is(extension_name("KernelExecutionInterface"))) {}

  [[nodiscard]] std::pair<std::type_index, const void*> type_identity() const noexcept override {
    if (is_base_) return {typeid(KernelExecutionInterface), nullptr};
    return {typeid(PythonInterface), type_};
  }
  [[nodiscard]] nb::object get() const { return object_.get(); }

 private:
  HeldForGood object_;
  const void* type_;  // kept alive by the object
  bool is_base_;
};

std::shared_ptr<const KernelExecutionInterface> to_interface(nb::handle value, std::string_view what) {
  if (!is_record(value, "KernelExecutionInterface"))
    raise<TypeError>(what, "interface must be a KernelExecutionInterface: got ", python_type_name(value));
  return std::make_shared<PythonInterface>(value);
}

/// The very Python object, or one that stands for a native interface.
nb::object from_interface(const KernelExecutionInterface& interface) {
  if (const auto* python = dynamic_cast<const PythonInterface*>(&interface)) return python->get();
  return extension_name("KernelExecutionInterface")(nb::str(interface.version().c_str()));
}

// --- Submission (X18) -------------------------------------------------------------------------------------

ProviderResult to_result(const nb::object& result, std::string_view what) {
  return ProviderResult(to_tensors(nb::borrow<nb::tuple>(result.attr("outputs")), what, "outputs"));
}

class PythonResultCompletion final : public ProviderCompletion<ProviderResult> {
 public:
  PythonResultCompletion(const nb::object& completion, std::string_view what)
      : completion_(completion, what), what_(what) {}

  [[nodiscard]] bool done() const override { return completion_.done(); }
  ProviderResult wait() override {
    const InterpreterLock lock;
    const nb::object result = completion_.wait();
    if (!is_record(result, "ProviderResult"))
      raise<TypeError>(what_, "wait() of a completion must return a ProviderResult: got ",
                       python_type_name(result));
    return to_result(result, what_);
  }

 private:
  PythonCompletion completion_;
  std::string what_;
};

std::function<ProviderSubmission()> to_submit(const nb::object& prepared, std::string_view what) {
  return
      [submit = held(nb::object(prepared.attr("submit"))), what = std::string(what)]() -> ProviderSubmission {
        const InterpreterLock lock;
        const nb::object result = nb::handle(submit.get())();
        if (is_record(result, "ProviderResult")) return to_result(result, what);
        return std::make_shared<PythonResultCompletion>(result, what);
      };
}

// --- Kernels (X14-X17) ------------------------------------------------------------------------------------

class PythonKernel final : public Kernel {
 public:
  PythonKernel(nb::handle prepare, std::string name) : prepare_(prepare), name_(std::move(name)) {}

  [[nodiscard]] Result<PreparedKernel> prepare(const ResolvedInvocation& invocation,
                                               const KernelExecutionInterface& interface) const override {
    const InterpreterLock lock;
    const nb::object answer = prepare_.get()(from_invocation(invocation), from_interface(interface));
    return to_answer<PreparedKernel>(answer, "PreparedKernel", name_, [&](const nb::object& prepared) {
      return PreparedKernel(to_interface(prepared.attr("interface"), name_), to_submit(prepared, name_));
    });
  }

 private:
  HeldForGood prepare_;
  std::string name_;
};

KernelPattern to_pattern(nb::handle record) {
  constexpr std::string_view what = "KernelPattern";
  std::vector<OperationCapability> plans;
  for (const nb::handle plan : nb::object(record.attr("plans")))
    plans.push_back(nb::cast<const OperationCapability&>(plan));
  auto kernel_id = to_text(record.attr("kernel_id"));
  auto kernel = std::make_shared<PythonKernel>(record.attr("prepare"), kernel_id);
  return {&to_definition(record.attr("operation"), what, "operation"), std::move(plans), std::move(kernel_id),
          std::move(kernel), to_index(record.attr("preference"), what, "preference")};
}

std::vector<KernelPattern> to_patterns(nb::handle records) {
  std::vector<KernelPattern> patterns;
  for (const nb::handle record : records) patterns.push_back(to_pattern(record));
  return patterns;
}

void register_pack(nb::handle record) {
  if (!is_record(record, "KernelPack"))
    raise<TypeError>("register_kernel_pack", "pack must be a KernelPack: got ", python_type_name(record));
  register_kernel_pack({to_text(record.attr("namespace")), to_text(record.attr("version")),
                        carrier_class_of_type(record.attr("carrier_class")),
                        to_interface(record.attr("execution_interface"), "KernelPack"),
                        to_patterns(nb::object(record.attr("patterns")))});
}

// --- Composites (X19) -------------------------------------------------------------------------------------

class PythonComposite final : public CompositeProvider {
 public:
  explicit PythonComposite(nb::handle record) : record_(record) {}

  [[nodiscard]] std::vector<OperationCapability> capabilities(const Carrier& carrier) const override {
    const InterpreterLock lock;
    const nb::object answer = record_.get().attr("capabilities")(from_carrier(carrier));
    std::vector<OperationCapability> capabilities;
    for (const nb::handle entry : to_finite_tuple(answer, what, "the result of capabilities")) {
      if (!nb::isinstance<OperationCapability>(entry))
        raise<TypeError>(what, "capabilities must give OperationCapability objects: got ",
                         python_type_name(entry));
      capabilities.push_back(nb::cast<const OperationCapability&>(entry));
    }
    return capabilities;
  }

  [[nodiscard]] std::vector<CarrierClass> result_carriers(
      const Carrier& carrier, const ResolvedInvocation& invocation) const override {
    const InterpreterLock lock;
    const nb::object answer =
        record_.get().attr("result_carriers")(from_carrier(carrier), from_invocation(invocation));
    if (!PyTuple_Check(answer.ptr()))
      raise<TypeError>(what, "result_carriers must return a tuple: got ", python_type_name(answer));
    std::vector<CarrierClass> classes;
    for (const nb::handle entry : answer) classes.push_back(to_concrete_class(entry));
    return classes;
  }

  [[nodiscard]] Result<PreparedComposite> prepare(Carrier& carrier,
                                                  const ResolvedInvocation& invocation) const override {
    const InterpreterLock lock;
    const nb::object answer =
        record_.get().attr("prepare")(from_carrier(carrier), from_invocation(invocation));
    return to_answer<PreparedComposite>(answer, "PreparedComposite", what, [](const nb::object& prepared) {
      return PreparedComposite(to_submit(prepared, what));
    });
  }

 private:
  static constexpr std::string_view what = "CompositeProvider";

  static CarrierClass to_concrete_class(nb::handle entry) {
    const CarrierClass named = carrier_class_of_type(entry);
    if (!named || entry.is(nb::type<Carrier>()) || entry.is(nb::type<DependentCarrier>()))
      raise<TypeError>(what, "result_carriers must name concrete Carrier classes: got ",
                       to_text(nb::str(entry)));
    return named;
  }

  HeldForGood record_;
};

}  // namespace

std::optional<KernelProvider> to_kernels(nb::handle record) {
  if (record.is_none()) return std::nullopt;
  return KernelProvider{to_interface(record.attr("interface"), "KernelProvider"),
                        to_patterns(nb::object(record.attr("patterns")))};
}

std::shared_ptr<const CompositeProvider> to_composite(nb::handle record) {
  if (record.is_none()) return nullptr;
  return std::make_shared<PythonComposite>(record);
}

void bind_kernel_packs(nb::module_& module) {
  module.def("register_kernel_pack", &register_pack, "pack"_a.none(),
             R"(Adds a KernelPack to its class, all or nothing, before the class is observed.

Errors (X15): TypeError for no pack, a class without CarrierDefinition of its own, a DependentCarrier, a
storage-only or already observed class, or an interface that does not match; ValueError where the namespace and
version, or a kernel_id, are taken.

>>> from orlop.carriers.extension import register_kernel_pack
>>> register_kernel_pack("acme")
Traceback (most recent call last):
    ...
TypeError: [register_kernel_pack] pack must be a KernelPack: got str)");
}

}  // namespace orlop::bindings
