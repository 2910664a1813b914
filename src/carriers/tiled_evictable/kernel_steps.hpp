// Kernels on the pieces of a step: straight into the windows of a dense result.
#pragma once

#include "carriers/tiled_evictable/steps.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// An operand of a piece: the memory that its window counts from, or one encoded weak scalar.
struct PieceOperand {
  const std::byte* data;
  StorageType stored;
  StorageType computed;
  const Window* window;  ///< null: a weak scalar
};

/// The elements of a piece of an elementwise operation, computed in place where runs of the result are long,
/// otherwise block by block. `result` holds slots of the plan's output, of which the window says which.
void compute_piece(Kernel kernel, const OperationPlan& plan, std::span<const PieceOperand> operands,
                   const Window& window, std::byte* result);

/// Adds the terms of a piece to kept sums (operation/kept_sums.hpp).
void add_piece(Kernel kernel, const OperationPlan& plan, std::span<const PieceOperand> operands,
               const Window& window, std::byte* sums, Index slot_bytes);

}  // namespace orlop::inline v0
