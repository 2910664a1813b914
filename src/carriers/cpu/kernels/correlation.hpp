// Correlations of a kernel with a field.
#pragma once

#include <vector>

#include "carriers/cpu/kernels/convolution_field.hpp"
#include "carriers/cpu/kernels/convolution_taps.hpp"

namespace orlop::inline v0::convolution_parts {

/// Whether every feature makes one feature on its own (depthwise): then what lies under a window is weighed
/// without BLAS, all features side by side, as matrices of one row gain nothing from it.
[[nodiscard]] bool is_depthwise(Index groups, Index in_features, Index out_features);

/// result[b, o, p] = Σ matrix[o, k] · column[b, p][k] group by group, for all windows over a field.
/// `matrices[group]` has the rows o and the terms k.
void correlate(const Field& field, std::vector<Window> windows, std::vector<BlasMatrix<float>> matrices,
               float* result);
/// The same without the products of holes that a divisor makes.
void correlate(const Field& field, std::vector<Window> windows, const TapKernel& kernel, float* result);

}  // namespace orlop::inline v0::convolution_parts
