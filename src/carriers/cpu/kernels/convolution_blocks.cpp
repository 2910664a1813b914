// Cutting the positions of a convolution into blocks.
#include "carriers/cpu/kernels/convolution_blocks.hpp"

#include <algorithm>

namespace orlop::inline v0::convolution_parts {

std::vector<Block> blocks_of(std::span<const Window> windows, Index most) {
  std::vector<Block> blocks;
  Block block{0, 1, {}};
  std::size_t cut = 0;
  for (; cut < windows.size() && block.count * windows[cut].positions <= most; ++cut) {
    block.count *= windows[cut].positions;
    block.box.push_back({0, windows[cut].positions});
  }
  const Index whole = block.count;
  const Index length = cut < windows.size() ? std::max<Index>(most / whole, 1) : 1;
  Index total = 1;
  for (const Window& window : windows) total *= window.positions;
  block.box.resize(windows.size());
  while (block.first < total) {
    Index rest = block.first / whole;
    for (std::size_t mode = cut; mode < windows.size(); ++mode) {
      const Index at = rest % windows[mode].positions;
      rest /= windows[mode].positions;
      block.box[mode] = {at, mode == cut ? std::min(at + length, windows[mode].positions) : at + 1};
    }
    block.count = whole * (cut < windows.size() ? block.box[cut].size() : 1);
    blocks.push_back(block);
    block.first += block.count;
  }
  return blocks;
}

std::vector<Range> reached(std::span<const Window> windows, std::span<const Range> box) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    const Index from = box[i].first * window.step + window.origin;
    const Index to = (box[i].last - 1) * window.step + window.origin + (window.taps - 1) * window.tap_step;
    const Index first = from <= 0 ? 0 : (from - 1) / window.divisor + 1;
    const Index last = to < 0 ? 0 : std::min(to / window.divisor + 1, window.source);
    ranges.push_back({std::min(first, last), last});
  }
  return ranges;
}

}  // namespace orlop::inline v0::convolution_parts
