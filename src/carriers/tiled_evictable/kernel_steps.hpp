// Kernels on the pieces of a step: straight into the windows of a dense result.
#pragma once

#include "carriers/tiled_evictable/steps.hpp"
#include "operation/arrival.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

using Kernel = KernelFunction;

/// The elements of a piece of an elementwise operation, computed in place where runs of the result are long,
/// otherwise block by block. Operands begin with the piece's first element. `result` holds slots of the
/// plan's output, of which the window says which.
void compute_piece(Kernel kernel, const OperationPlan& plan, std::span<const KernelOperand> operands,
                   const Window& window, std::byte* result);

/// Adds the terms of a piece to kept sums of `slot_bytes` each (operation/kept_sums.hpp). `arrival`: of the
/// operand of a reduction.
void add_piece(Kernel kernel, const OperationPlan& plan, std::span<const KernelOperand> operands,
               const Window& window, std::byte* sums, Index slot_bytes, Arrival* arrival = nullptr);

}  // namespace orlop::inline v0
