// Permutations and windows of conv_general.
#include "operation/convolution.hpp"

namespace orlop::inline v0 {

bool is_permutation_of_modes(std::span<const Index> dims, std::size_t rank) {
  if (dims.size() != rank) return false;
  std::vector<bool> is_named(rank);
  for (const Index mode : dims) {
    if (mode < 0 || mode >= static_cast<Index>(rank) || is_named[static_cast<std::size_t>(mode)])
      return false;
    is_named[static_cast<std::size_t>(mode)] = true;
  }
  return true;
}

void find_sources(std::span<const Window> windows, Index position, std::vector<Index>& sources) {
  sources.assign(1, 0);
  Index step = 1;  // of the source's ordinal
  for (const Window& window : windows) {
    const Index here = position % window.positions;
    position /= window.positions;
    const std::size_t inner = sources.size();
    sources.resize(inner * static_cast<std::size_t>(window.taps));
    for (Index tap = window.taps - 1; tap >= 0; --tap) {
      const Index source = window(here, tap);
      Index* const outer = sources.data() + static_cast<std::size_t>(tap) * inner;
      for (std::size_t i = inner; i-- > 0;)
        outer[i] =
            source == Window::hole || sources[i] == Window::hole ? Window::hole : sources[i] + source * step;
    }
    step *= window.source;
  }
}

}  // namespace orlop::inline v0
