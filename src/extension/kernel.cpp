// Kernels, packs and composites as records: their checks.
#include "orlop/extension/kernel.hpp"

#include <algorithm>
#include <set>

#include "extension/class_definition.hpp"
#include "orlop/extension/composite.hpp"

namespace orlop::inline v0 {

KernelExecutionInterface::KernelExecutionInterface(std::string version) : version_(std::move(version)) {
  if (version_.empty())
    raise<ValueError>("KernelExecutionInterface", "version must not be empty; give it a name");
}
KernelExecutionInterface::~KernelExecutionInterface() = default;
Kernel::~Kernel() = default;
CompositeProvider::~CompositeProvider() = default;
ResultCarriersError::~ResultCarriersError() = default;

std::pair<std::type_index, const void*> KernelExecutionInterface::type_identity() const noexcept {
  return {typeid(*this), nullptr};
}

ProviderResult::ProviderResult(std::vector<Tensor> results) : outputs(std::move(results)) {
  if (outputs.empty()) raise<ValueError>("ProviderResult", "outputs must not be empty; give one per result");
  if (std::ranges::find(outputs, Tensor()) != outputs.end())
    raise<TypeError>("ProviderResult", "every entry of outputs must be a Tensor: one is null");
}

namespace {

void require_submit(bool is_there, std::string_view record) {
  if (!is_there) raise<TypeError>(record, "submit must be callable: it is empty");
}

void require_interface(const std::shared_ptr<const KernelExecutionInterface>& interface,
                       std::string_view record, std::string_view field) {
  if (interface == nullptr)
    raise<TypeError>(record, field, " must be a KernelExecutionInterface: there is none");
}

void require_distinct_kernels(const std::vector<KernelPattern>& patterns, std::string_view record) {
  std::set<std::string_view> known;
  for (const KernelPattern& pattern : patterns)
    if (!known.insert(pattern.kernel_id).second)
      raise<ValueError>(record, "duplicate kernel_id ", pattern.kernel_id, "; give every kernel its own");
}

class FunctionKernel final : public Kernel {
 public:
  using Prepare =
      std::function<Result<PreparedKernel>(const ResolvedInvocation&, const KernelExecutionInterface&)>;
  explicit FunctionKernel(Prepare prepare) : prepare_(std::move(prepare)) {}
  [[nodiscard]] Result<PreparedKernel> prepare(const ResolvedInvocation& invocation,
                                               const KernelExecutionInterface& interface) const override {
    return prepare_(invocation, interface);
  }

 private:
  Prepare prepare_;
};

class FunctionComposite final : public CompositeProvider {
 public:
  explicit FunctionComposite(CompositeFunctions functions) : functions_(std::move(functions)) {}
  [[nodiscard]] std::vector<OperationCapability> capabilities(const Carrier& carrier) const override {
    return functions_.capabilities(carrier);
  }
  [[nodiscard]] std::vector<CarrierClass> result_carriers(
      const Carrier& carrier, const ResolvedInvocation& invocation) const override {
    return functions_.result_carriers(carrier, invocation);
  }
  [[nodiscard]] Result<PreparedComposite> prepare(Carrier& carrier,
                                                  const ResolvedInvocation& invocation) const override {
    return functions_.prepare(carrier, invocation);
  }

 private:
  CompositeFunctions functions_;
};

}  // namespace

PreparedKernel::PreparedKernel(std::shared_ptr<const KernelExecutionInterface> kernel_interface,
                               std::function<ProviderSubmission()> work)
    : interface(std::move(kernel_interface)), submit(std::move(work)) {
  require_interface(interface, "PreparedKernel", "interface");
  require_submit(static_cast<bool>(submit), "PreparedKernel");
}

PreparedComposite::PreparedComposite(std::function<ProviderSubmission()> work) : submit(std::move(work)) {
  require_submit(static_cast<bool>(submit), "PreparedComposite");
}

std::shared_ptr<const Kernel> make_kernel(FunctionKernel::Prepare prepare) {
  if (!prepare) raise<TypeError>("Kernel", "prepare must be callable: it is empty");
  return std::make_shared<FunctionKernel>(std::move(prepare));
}

std::shared_ptr<const CompositeProvider> make_composite(CompositeFunctions functions) {
  const auto require = [](bool is_there, std::string_view field) {
    if (!is_there) raise<TypeError>("CompositeProvider", field, " must be callable: it is empty");
  };
  require(static_cast<bool>(functions.capabilities), "capabilities");
  require(static_cast<bool>(functions.result_carriers), "result_carriers");
  require(static_cast<bool>(functions.prepare), "prepare");
  return std::make_shared<FunctionComposite>(std::move(functions));
}

void KernelPattern::validate() const {
  constexpr std::string_view what = "KernelPattern";
  if (operation == nullptr) raise<TypeError>(what, "operation must be an OperationDefinition: there is none");
  if (find_operation_definition(operation->name()) != operation)
    raise<ValueError>(what, "operation is not the registered definition of ", operation->name(),
                      "; use operation_definition(name)");
  if (plans.empty()) raise<ValueError>(what, "plans must not be empty; list what the kernel can do");
  for (auto plan = plans.begin(); plan != plans.end(); ++plan) {
    if (std::find(plans.begin(), plan, *plan) != plan)
      raise<ValueError>(what, "duplicate plans of ", plan->operation, "; list each once");
    if (plan->operation != operation->name())
      raise<ValueError>(what, "every plan must be of operation.name ", operation->name(), ": got one of ",
                        plan->operation);
  }
  if (kernel_id.empty()) raise<ValueError>(what, "kernel_id must not be empty; give each kernel a name");
  if (prepare == nullptr) raise<TypeError>(what, "prepare must be callable: there is none");
}

void KernelProvider::validate() const {
  require_interface(interface, "KernelProvider", "interface");
  for (const KernelPattern& pattern : patterns) pattern.validate();
  require_distinct_kernels(patterns, "KernelProvider");
}

void KernelPack::validate() const {
  constexpr std::string_view what = "KernelPack";
  if (name_space.empty()) raise<ValueError>(what, "namespace must not be empty; name whose pack it is");
  if (version.empty()) raise<ValueError>(what, "version must not be empty; give it a name");
  if (!carrier_class) raise<TypeError>(what, "carrier_class must be a Carrier class: got none");
  require_interface(execution_interface, what, "execution_interface");
  if (patterns.empty()) raise<ValueError>(what, "patterns must not be empty; give one for each kernel");
  for (const KernelPattern& pattern : patterns) pattern.validate();
  require_distinct_kernels(patterns, what);
}

// --- Packs (X15) ------------------------------------------------------------------------------------------

void ClassDefinition::require_fitting(const KernelPack& pack, bool is_observed) const {
  constexpr std::string_view what = "register_kernel_pack";
  const std::string_view name = carrier_class_.name();
  if (!definition_.kernels)
    raise<TypeError>(
        what, name,
        " is storage-only: its CarrierDefinition has no kernels; only a class that computes takes packs");
  if (is_observed)
    raise<TypeError>(what, name, " was already observed; register packs before the first use of the class");
  if (!definition_.kernels->interface->is_compatible_with(*pack.execution_interface))
    raise<TypeError>(what, "the execution interface of ", pack.name_space, " ", pack.version,
                     " does not match that of ", name, ": type and version must be the same");
  const auto refuse_taken = [&](const std::vector<KernelPattern>& taken) {
    for (const KernelPattern& known : taken)
      for (const KernelPattern& added : pack.patterns)
        if (known.kernel_id == added.kernel_id)
          raise<ValueError>(what, "the kernel_id ", added.kernel_id, " is already taken in the kernels of ",
                            name);
  };
  if (packs_.contains({pack.name_space, pack.version}))
    raise<ValueError>(what, "the namespace and version ", pack.name_space, " ", pack.version,
                      " are already taken for ", name);
  refuse_taken(definition_.kernels->patterns);
  for (const auto& [key, known] : packs_) refuse_taken(known.patterns);
}

void register_kernel_pack(KernelPack pack) {
  pack.validate();
  const CarrierClass target = pack.carrier_class;
  detail::change_defined_class(target, [&](detail::DefinedClass* defined, bool is_observed) {
    constexpr std::string_view what = "register_kernel_pack";
    if (defined == nullptr) raise<TypeError>(what, target, " has no exact CarrierDefinition of its own");
    if (target.is_dependent())
      raise<TypeError>(what, target, " is a DependentCarrier, which computes through its composite provider");
    dynamic_cast<ClassDefinition&>(*defined).add(std::move(pack), is_observed);
  });
}

void ClassDefinition::add(KernelPack pack, bool is_observed) {
  require_fitting(pack, is_observed);
  std::pair key(pack.name_space, pack.version);
  packs_.emplace(std::move(key), std::move(pack));
}

// --- Freezing (X16) ---------------------------------------------------------------------------------------

std::shared_ptr<const CapabilitySet> ClassDefinition::freeze() {
  std::vector<OperationCapability> capabilities;
  const auto take = [&](const std::vector<KernelPattern>& patterns) {
    for (const KernelPattern& pattern : patterns) {
      candidates_[pattern.operation].push_back(&pattern);
      for (const OperationCapability& plan : pattern.plans)
        if (std::ranges::find(capabilities, plan) == capabilities.end()) capabilities.push_back(plan);
    }
  };
  if (definition_.kernels) take(definition_.kernels->patterns);
  for (const auto& [key, pack] : packs_) take(pack.patterns);
  for (auto& [operation, patterns] : candidates_)
    std::ranges::stable_sort(patterns, std::greater<>(),
                             [](const KernelPattern* p) { return p->preference; });
  return CapabilitySet::make(capabilities);
}

std::span<const KernelPattern* const> ClassDefinition::candidates(
    const OperationDefinition& operation) const {
  const auto found = candidates_.find(&operation);
  if (found == candidates_.end()) return {};
  return found->second;
}

}  // namespace orlop::inline v0
