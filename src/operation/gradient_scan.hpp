// Running sums and products along one mode in binary32: steps of gradients that are no table operation (P65).
#pragma once

#include "orlop/operation/plan.hpp"
#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0 {

struct GradientScan {
  std::size_t axis;           ///< a top-level mode
  Accumulation accumulation;  ///< SequentialBinary32 or SequentialBinary32Product
  bool is_backward = false;   ///< from the last ordinal to the first
  bool is_exclusive = false;  ///< without the element itself
};

/// The scan of a Float32 Tensor, in the canonical layout of its shape.
[[nodiscard]] Tensor gradient_scan(const Tensor& tensor, const GradientScan& scan);

}  // namespace orlop::inline v0
