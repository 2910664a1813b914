// The InvocationExecutor of a class with a CarrierDefinition.
#pragma once

#include "orlop/operation/invocation_executor.hpp"

namespace orlop::inline v0 {

class ClassDefinition;

/// Kernels for an independent class, the composite provider for a dependent one.
class ClassExecutor final : public InvocationExecutor {
 public:
  explicit ClassExecutor(const ClassDefinition& defined) : defined_(defined) {}

  void check_name(const Carrier& carrier, const OperationDefinition& operation) const override;
  void require_plan(const Carrier& carrier, const ResolvedInvocation& invocation) const override;
  [[nodiscard]] std::vector<CarrierClass> result_carriers(
      const Carrier& carrier, const ResolvedInvocation& invocation) const override;
  [[nodiscard]] std::function<std::vector<Tensor>()> prepare(
      Carrier& carrier, const ResolvedInvocation& invocation) const override;

 private:
  [[nodiscard]] std::function<std::vector<Tensor>()> prepare_composite(
      Carrier& carrier, const ResolvedInvocation& invocation) const;
  [[nodiscard]] std::function<std::vector<Tensor>()> prepare_kernel(
      const Carrier& carrier, const ResolvedInvocation& invocation) const;

  const ClassDefinition& defined_;
};

}  // namespace orlop::inline v0
