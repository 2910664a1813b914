// What every way into an operation shares: which Tensor's carrier dispatches, and what a profiler shows.
#pragma once

#include <span>
#include <string_view>

#include "orlop/operation/operation.hpp"
#include "orlop/operation/profiler.hpp"

namespace orlop::inline v0 {

/// The Tensor whose carrier dispatches a call: the first one, null where there is none. All Tensors must live
/// on one exact class; TypeError. Where a shipped composite may work beside ordinary carriers, it is the
/// first Tensor on the composite, which judges the others itself (X65).
[[nodiscard]] const Tensor* find_dispatching_tensor(std::string_view name,
                                                    std::span<const Argument> arguments);

/// What a message calls an operation, which has no name before it is dispatched.
[[nodiscard]] inline std::string_view subject_of(const Operation& operation) {
  return operation.operation_name().empty() ? "Operation" : std::string_view(operation.operation_name());
}

/// The function that a user calls for an operation: sort and topk each have two behind them.
[[nodiscard]] std::string_view public_name(std::string_view operation) noexcept;
/// The same for refusals of carriers, with the operation's own name beside it where that is another one.
[[nodiscard]] std::string described_name(std::string_view operation);

/// One shape per argument for the event of a call.
[[nodiscard]] InputShapes shapes_of(std::span<const Argument> inputs);

}  // namespace orlop::inline v0
