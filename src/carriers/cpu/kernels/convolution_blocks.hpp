// Positions of a convolution, block by block.
#pragma once

#include <span>
#include <vector>

#include "operation/convolution.hpp"

namespace orlop::inline v0::convolution_parts {

/// Half-open.
struct Range {
  Index first, last;
  [[nodiscard]] Index size() const noexcept { return last - first; }
};

/// Neighbouring positions that make a box: all of the first modes, some of one, one of each further.
struct Block {
  Index first, count;
  std::vector<Range> box;
};

/// Blocks of at most about `most` positions that make up all of them.
[[nodiscard]] std::vector<Block> blocks_of(std::span<const Window> windows, Index most);

/// The source positions that the windows of a block reach, holes left out.
[[nodiscard]] std::vector<Range> reached(std::span<const Window> windows, std::span<const Range> box);

}  // namespace orlop::inline v0::convolution_parts
