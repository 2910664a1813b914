// What runs resolved invocations for a class with a CarrierDefinition: its kernels, or its composite provider
// (X17-X19, X26).
#include "extension/executor.hpp"

#include <algorithm>

#include "extension/class_definition.hpp"
#include "orlop/operation/capability.hpp"

namespace orlop::inline v0 {

namespace {

[[noreturn]] void refuse_name(CarrierClass carrier_class, const std::string& why) {
  throw UnsupportedOperationPlan(RefusalKind::Operation, carrier_class, message(carrier_class.name(), why));
}

[[noreturn]] void refuse_invocation(CarrierClass carrier_class, const ResolvedInvocation& invocation,
                                    const std::string& why) {
  throw UnsupportedOperationPlan(RefusalKind::Invocation, carrier_class, invocation.plan(),
                                 message(carrier_class.name(), invocation.name(), " is declined: ", why));
}

/// Submits prepared work, once, and waits for its outputs.
std::function<std::vector<Tensor>()> run(std::function<ProviderSubmission()> submit, std::string provider) {
  return [submit = std::move(submit), provider = std::move(provider)] {
    ProviderSubmission submission = submit();
    if (auto* result = std::get_if<ProviderResult>(&submission)) return std::move(result->outputs);
    using Completion = std::shared_ptr<ProviderCompletion<ProviderResult>>;
    return detail::finish(std::get<Completion>(submission), provider).outputs;
  };
}

}  // namespace

void ClassExecutor::check_name(const Carrier& carrier, const OperationDefinition& operation) const {
  const CarrierClass exact = carrier.carrier_class();
  detail::observe_class(exact);
  const std::string& name = operation.name();
  if (exact.is_dependent()) {
    if (detail::capabilities_of(carrier).named(name).empty())
      refuse_name(exact, text("the composite does not support ", name));
    return;
  }
  if (!defined_.definition().kernels)
    refuse_name(exact, text("the class is storage-only: it cannot run ", name,
                            "; move the Tensor to a carrier that computes"));
  if (defined_.candidates(operation).empty())
    refuse_name(exact, text("the class has no kernel of ", name, "; a KernelPack can add one"));
}

void ClassExecutor::require_plan(const Carrier& carrier, const ResolvedInvocation& invocation) const {
  carrier.require_operation_plan(invocation.plan());
}

std::vector<CarrierClass> ClassExecutor::result_carriers(const Carrier& carrier,
                                                         const ResolvedInvocation& invocation) const {
  const CompositeProvider* composite = defined_.definition().composite.get();
  if (composite == nullptr) return InvocationExecutor::result_carriers(carrier, invocation);
  std::vector<CarrierClass> classes = composite->result_carriers(carrier, invocation);
  for (const CarrierClass named : classes)
    if (!named)
      raise<TypeError>(invocation.name(),
                       "result_carriers must name concrete Carrier classes: got none for a result");
  if (classes.size() != invocation.results().size())
    throw ResultCarriersError(message(invocation.name(),
                                      "result_carriers must name one class per result: got ", classes.size(),
                                      " for ", invocation.results().size()));
  return classes;
}

std::function<std::vector<Tensor>()> ClassExecutor::prepare(Carrier& carrier,
                                                            const ResolvedInvocation& invocation) const {
  if (defined_.definition().composite != nullptr) return prepare_composite(carrier, invocation);
  return prepare_kernel(carrier, invocation);
}

std::function<std::vector<Tensor>()> ClassExecutor::prepare_composite(
    Carrier& carrier, const ResolvedInvocation& invocation) const {
  Result<PreparedComposite> answer = defined_.definition().composite->prepare(carrier, invocation);
  if (const auto* declined = std::get_if<Unsupported>(&answer))
    refuse_invocation(carrier.carrier_class(), invocation, declined->reason);
  return run(std::move(std::get<PreparedComposite>(answer).submit), invocation.name());
}

/// X17: the candidates in their order, until one does not decline.
std::function<std::vector<Tensor>()> ClassExecutor::prepare_kernel(
    const Carrier& carrier, const ResolvedInvocation& invocation) const {
  const KernelExecutionInterface& interface = *defined_.definition().kernels->interface;
  std::string reasons;
  for (const KernelPattern* pattern : defined_.candidates(invocation.definition())) {
    if (std::ranges::none_of(
            pattern->plans, [&](const OperationCapability& plan) { return plan.matches(invocation.plan()); }))
      continue;
    Result<PreparedKernel> answer = pattern->prepare->prepare(invocation, interface);
    if (const auto* declined = std::get_if<Unsupported>(&answer)) {
      reasons += text(reasons.empty() ? "" : "; ", pattern->kernel_id, ": ", declined->reason);
      continue;
    }
    auto& prepared = std::get<PreparedKernel>(answer);
    if (!prepared.interface->is_compatible_with(interface))
      raise<TypeError>(pattern->kernel_id, "the prepared kernel's interface is not that of ",
                       carrier.carrier_class(), ": type and version must be the same");
    return run(std::move(prepared.submit), pattern->kernel_id);
  }
  refuse_invocation(carrier.carrier_class(), invocation, reasons);
}

}  // namespace orlop::inline v0
