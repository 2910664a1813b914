// What the definition and the kernels of conv_general share: its arguments, and windows over one mode.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// Positions of the ten arguments.
namespace convolution_arguments {
inline constexpr std::size_t lhs = 0, kernel = 1, strides = 2, padding = 3, lhs_dilation = 4,
                             kernel_dilation = 5, groups = 6, lhs_dims = 7, kernel_dims = 8, output_dims = 9,
                             count = 10;
}  // namespace convolution_arguments

/// Whether `dims` names each of 0 … rank - 1 once.
[[nodiscard]] bool is_permutation_of_modes(std::span<const Index> dims, std::size_t rank);

/// In one spatial mode: which position of a source lies under tap t of the window at position w.
struct Window {
  Index positions, taps;
  Index step, tap_step, origin, divisor;
  Index source;  ///< extent

  static constexpr Index hole = -1;
  [[nodiscard]] Index operator()(Index position, Index tap) const noexcept {
    const Index at = position * step + origin + tap * tap_step;
    if (at < 0 || at % divisor != 0 || at / divisor >= source) return hole;
    return at / divisor;
  }
};

/// At result positions, over the lhs.
[[nodiscard]] inline Window window_over_lhs(const ConvolutionMode& mode) noexcept {
  return {mode.result, mode.kernel,       mode.stride, mode.kernel_dilation,
          -mode.low,   mode.lhs_dilation, mode.lhs};
}
/// At lhs positions, over the result: tap t is kernel position kernel - 1 - t, so that both steps are
/// positive.
[[nodiscard]] inline Window window_over_result(const ConvolutionMode& mode) noexcept {
  return {mode.lhs,
          mode.kernel,
          mode.lhs_dilation,
          mode.kernel_dilation,
          mode.low - (mode.kernel - 1) * mode.kernel_dilation,
          mode.stride,
          mode.result};
}

/// The windows of all spatial modes.
[[nodiscard]] inline std::vector<Window> windows_of(const Convolution& convolution,
                                                    Window (*window)(const ConvolutionMode&) noexcept) {
  std::vector<Window> windows;
  windows.reserve(convolution.modes.size());
  for (const ConvolutionMode& mode : convolution.modes) windows.push_back(window(mode));
  return windows;
}

/// The source's ordinal under every tap of the window at ordinal `position`, or Window::hole.
void find_sources(std::span<const Window> windows, Index position, std::vector<Index>& sources);

}  // namespace orlop::inline v0
