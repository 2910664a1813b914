// The check of what a provider or a reference gives back against what the invocation promises (X29).
#pragma once

#include <span>

#include "orlop/operation/operation_definition.hpp"

namespace orlop::inline v0 {

/// ProviderContractError naming the first field that does not fit. `classes`: the exact class of each
/// result's carrier; empty where any will do.
void check_results(const ResolvedInvocation& invocation, std::span<const Tensor> results,
                   std::span<const CarrierClass> classes);

}  // namespace orlop::inline v0
