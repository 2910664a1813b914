// CompositeProvider: how a hierarchy computes on what it is built from (X19).
#pragma once

#include <vector>

#include "orlop/extension/kernel.hpp"

namespace orlop::inline v0 {

/// Work of a composite that is ready; `submit` is called at most once. TypeError for an empty function.
struct ORLOP_API PreparedComposite {
  explicit PreparedComposite(std::function<ProviderSubmission()> work);

  std::function<ProviderSubmission()> submit;
};

/// Of a DependentCarrier's CarrierDefinition.
class ORLOP_API CompositeProvider {
 public:
  CompositeProvider() = default;
  CompositeProvider(const CompositeProvider&) = delete;
  CompositeProvider& operator=(const CompositeProvider&) = delete;
  virtual ~CompositeProvider();

  /// What this instance can do; asked once, at the end of its construction.
  [[nodiscard]] virtual std::vector<OperationCapability> capabilities(const Carrier& carrier) const = 0;
  /// The exact class of each result's carrier.
  [[nodiscard]] virtual std::vector<CarrierClass> result_carriers(
      const Carrier& carrier, const ResolvedInvocation& invocation) const = 0;
  [[nodiscard]] virtual Result<PreparedComposite> prepare(Carrier& carrier,
                                                          const ResolvedInvocation& invocation) const = 0;
};

/// The functions of a provider, as fields; all are required.
struct CompositeFunctions {
  std::function<std::vector<OperationCapability>(const Carrier&)> capabilities;
  std::function<std::vector<CarrierClass>(const Carrier&, const ResolvedInvocation&)> result_carriers;
  std::function<Result<PreparedComposite>(Carrier&, const ResolvedInvocation&)> prepare;
};

/// A provider of lambdas. TypeError where one is missing.
[[nodiscard]] ORLOP_API std::shared_ptr<const CompositeProvider> make_composite(CompositeFunctions functions);

/// A composite named another number of result carriers than the invocation has results. In Python the
/// exception is a ProviderContractError and a ValueError.
class ORLOP_API ResultCarriersError : public ProviderContractError {
 public:
  using ProviderContractError::ProviderContractError;
  ~ResultCarriersError() override;
};

}  // namespace orlop::inline v0
