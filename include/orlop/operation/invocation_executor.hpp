// What runs resolved invocations for a carrier class with a definition: its kernels or its composite
// provider. The call order, aliases, publication, effects and gradients are not its business (X27–X32).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "orlop/operation/operation_definition.hpp"
#include "orlop/storage/carrier.hpp"
#include "orlop/storage/carrier_class.hpp"

namespace orlop::inline v0 {

/// One per class with a definition; immutable, lives as long as the process. Reached through
/// `CarrierClass::Record::executor`, which whoever registers the definition stores.
class ORLOP_API InvocationExecutor {
 public:
  InvocationExecutor() = default;
  InvocationExecutor(const InvocationExecutor&) = delete;
  InvocationExecutor& operator=(const InvocationExecutor&) = delete;
  virtual ~InvocationExecutor();

  /// X26, on a live carrier, for a name that has a definition: UnsupportedOperationPlan ‹storage-only›, ‹no
  /// kernel› or ‹does not support›. Observes the class.
  virtual void check_name(const Carrier& carrier, const OperationDefinition& definition) const = 0;
  /// Which operands may take part beside those on the dispatching class; TypeError. Default: none, every
  /// Tensor on exactly that class. The first Tensor on that class is the dispatching carrier's own in any
  /// case.
  virtual void check_operands(const Carrier& carrier, const BoundOperationCall& call) const;
  /// UnsupportedOperationPlan unless this carrier advertises the invocation's plan.
  virtual void require_plan(const Carrier& carrier, const ResolvedInvocation& invocation) const = 0;
  /// The exact class of each result's carrier. Default: the dispatching class.
  [[nodiscard]] virtual std::vector<CarrierClass> result_carriers(const Carrier& carrier,
                                                                  const ResolvedInvocation& invocation) const;
  /// Chooses who does the work; what comes back does it, at most once, and waits for its end.
  [[nodiscard]] virtual std::function<std::vector<Tensor>()> prepare(
      Carrier& carrier, const ResolvedInvocation& invocation) const = 0;
  /// For shipped composites, whose operands table arithmetic cannot read: the definition's gradients, carried
  /// out by them, one per differentiable operand. Nothing: the definition's own rule runs. Gradients of
  /// operands are in the operands' layouts where these are injective.
  [[nodiscard]] virtual std::optional<Gradients> gradients(const VJPContext& context,
                                                           Cotangents cotangents) const;
  /// X30: operands are compared by version only, and no value is read for it.
  [[nodiscard]] virtual bool is_shipped() const noexcept { return false; }
};

/// The executor of a class, or null where it has no definition.
[[nodiscard]] inline const InvocationExecutor* invocation_executor(CarrierClass carrier_class) noexcept {
  const CarrierClass::Record* record = carrier_class.record();
  return record == nullptr ? nullptr : record->executor.load(std::memory_order_acquire);
}

}  // namespace orlop::inline v0
