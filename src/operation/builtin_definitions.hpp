// The public face of the built-in operations: an OperationDefinition for every planned name, over the
// internal record of the central table.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "orlop/operation/operation_definition.hpp"
#include "orlop/operation/options.hpp"

namespace orlop::inline v0 {

/// One for every registered operation, the names behind sort and topk included (X33).
[[nodiscard]] std::vector<std::unique_ptr<const OperationDefinition>> builtin_operation_definitions();

/// Whether the plans of a built-in name speak about its operand at `position`.
[[nodiscard]] bool is_planned_operand(std::string_view name, std::size_t position);

/// The operands as the central table takes them: number · Tensor is there Tensor · number (X33).
[[nodiscard]] std::vector<Argument> table_order(const BoundOperationCall& call);

/// What a call's options ask of an operation that takes OperationExecutionOptions, or nothing. TypeError
/// where accumulator_dtype is neither a dtype nor None.
[[nodiscard]] std::optional<OperationExecutionOptions> execution_options_of(const BoundOperationCall& call);

}  // namespace orlop::inline v0
