// Elementwise CPU kernels: blocks of consecutive elements through the vectorized functions of this processor,
// on several threads where there are many.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "carriers/cpu/kernels/kernels.hpp"
#include "operation/cache_lines.hpp"
#include "operation/elementwise_functions.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/parallel.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_size = 1024;  // elements: a result and three operands stay in the first-level cache
constexpr Index tile_size = 4096;   // elements of a tile
constexpr std::size_t max_operands = 3;
using Elements = std::array<const std::byte*, max_operands>;

/// `count` elements from `source` on, `step` apart, side by side.
template <class Stored, class Computed>
void gather(const std::byte* source, Index step, Index count, std::byte* target) {
  const auto* const stored = reinterpret_cast<const Stored*>(source);
  auto* const computed = reinterpret_cast<Computed*>(target);
  if (step == 0) {
    constexpr std::size_t pattern_bytes = 4;
    std::array<Computed, pattern_bytes / sizeof(Computed)> pattern;
    pattern.fill(static_cast<Computed>(*stored));
    cache_lines().fill(std::bit_cast<std::uint32_t>(pattern), target, count * Index{sizeof(Computed)});
  } else if (step == 1) {
    std::copy_n(stored, count, computed);
  } else {
    for (Index i = 0; i < count; ++i) computed[i] = static_cast<Computed>(stored[i * step]);
  }
}

/// The same in the type that the operand is computed in.
void gather(const KernelOperand& operand, Index offset, Index step, Index count, std::byte* target) {
  const std::byte* const source = operand.data + offset * slot_bytes(operand.stored);
  if (is_converted(operand))
    gather<std::int32_t, float>(source, step, count, target);
  else if (slot_bytes(operand.stored) == 4)
    gather<std::uint32_t, std::uint32_t>(source, step, count, target);
  else
    gather<std::uint8_t, std::uint8_t>(source, step, count, target);
}

/// An operand as consecutive slots in ordinal order, block after block: in place where they lie like that
/// already, otherwise gathered, and converted, into a buffer.
class Stream {
 public:
  void open(const KernelOperand& operand, const Layout& result) {
    operand_ = &operand;
    slot_bytes_ = slot_bytes(operand.computed);
    if (!is_converted(operand) && operand.layout != nullptr && operand.layout->same_data(result)) return;
    const std::array<const Layout*, 1> layouts{operand.layout};
    loop_ = coalesce_together(result.extents(), layouts);
    // Everything repeats after `period_` elements where the last mode stands still, as in adding a bias.
    const bool is_repeated = loop_.rank() == 0 || loop_.stride(loop_.rank() - 1, 0) == 0;
    period_ = loop_.rank() == 0 ? 1 : loop_.size / loop_.extents.back();
    if (is_repeated && period_ <= block_size) {
      way_ = Way::repeated;
      repeat(std::min(loop_.size, period_ + block_size));
    } else if (is_converted(operand) || !loop_.is_contiguous(0)) {
      way_ = Way::gathered;
    }
  }

  /// The slots of `count` ordinals from `first`, at most a block; valid until the next call.
  const std::byte* block(Index first, Index count) {
    if (way_ == Way::in_place) return operand_->data + first * slot_bytes_;
    if (way_ == Way::repeated)
      return buffer_.data() +
             (period_ == 1 ? 0 : first % period_) * slot_bytes_;  // divisions take their time
    gather_block(first, count);
    return buffer_.data();
  }

  /// Whether blocks cost more than their elements.
  [[nodiscard]] bool is_gathered() const { return way_ == Way::gathered; }

 private:
  enum class Way : std::uint8_t { in_place, repeated, gathered };

  void gather_block(Index first, Index count) {
    std::byte* target = buffer_.data();
    const Index step = loop_.step(0);
    for_each_run(loop_, first, first + count, [&](std::span<const Index> offsets, Index run) {
      gather(*operand_, offsets[0], step, run, target);
      target += run * slot_bytes_;
    });
  }

  /// One period, then copies of it.
  void repeat(Index count) {
    gather_block(0, std::min(period_, count));
    for (Index filled = period_; filled < count; filled *= 2)
      std::memcpy(buffer_.data() + filled * slot_bytes_, buffer_.data(),
                  static_cast<std::size_t>(std::min(filled, count - filled) * slot_bytes_));
  }

  const KernelOperand* operand_;
  Index slot_bytes_;
  Way way_ = Way::in_place;
  Index period_ = 0;
  StridedLoop loop_;
  alignas(64) std::array<std::byte, 2 * sizeof(float) * block_size> buffer_;  // unwritten until it is needed
};

/// The one-element call, where every step counts.
void compute_one(const KernelCall& call, BlockFunction block) {
  std::array<float, max_operands> converted;
  Elements elements;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    elements[i] = call.operands[i].data;
    if (!is_converted(call.operands[i])) continue;
    converted[i] = int32_to_float(elements[i]);
    elements[i] = reinterpret_cast<const std::byte*>(&converted[i]);
  }
  const ElementFault fault = block(1, call.result, elements.data());
  if (fault != ElementFault::none) raise_fault(call, fault, 0);
}

/// Finds the element without a result among `count` from ordinal `first` on, of which one had `fault`.
[[noreturn]] void refuse(const KernelCall& call, BlockFunction block, ElementFault fault, Index first,
                         Index count, Elements elements) {
  std::array<std::byte, sizeof(std::int32_t)> slot;
  for (Index element = 0; element < count; ++element) {
    const ElementFault found = block(1, slot.data(), elements.data());
    if (found != ElementFault::none) raise_fault(call, found, first + element);
    for (std::size_t i = 0; i < call.operands.size(); ++i)
      elements[i] += slot_bytes(call.operands[i].computed);
  }
  raise_fault(call, fault, first);  // another thread has written to the operand meanwhile
}

bool passes_caches(const KernelCall& call) {
  return is_streamed(call.layout.size() * call.plan.output.slot_bytes());
}

/// Computes at most a block of elements from ordinal `first` on. The result's layout is canonical: its slots
/// follow the ordinals. They pass by the caches if `streams`: what these lines held before would be fetched
/// from memory otherwise, only to be overwritten.
void compute(const KernelCall& call, BlockFunction block, Index first, Index count, const Elements& elements,
             bool streams) {
  const Index bytes = call.plan.output.slot_bytes();
  std::byte* const slots = call.result + first * bytes;
  alignas(64) std::array<std::byte, sizeof(float) * block_size> buffer;
  const ElementFault fault = block(count, streams ? buffer.data() : slots, elements.data());
  if (fault != ElementFault::none) refuse(call, block, fault, first, count, elements);
  if (streams) cache_lines().stream(buffer.data(), slots, count * bytes);
}

using Streams = std::array<Stream, max_operands>;

/// Blocks of consecutive ordinals.
void compute_blocks(const KernelCall& call, BlockFunction block, Streams& streams, Index first, Index last) {
  const bool is_past_caches = passes_caches(call);
  Elements elements;
  for (; first < last; first += block_size) {
    const Index count = std::min(block_size, last - first);
    for (std::size_t i = 0; i < call.operands.size(); ++i) elements[i] = streams[i].block(first, count);
    compute(call, block, first, count, elements, is_past_caches);
  }
  if (is_past_caches) end_streams();
}

/// The call as one loop nest of the result and its operands, cut into tiles of two modes: rows along the
/// first one, columns along the one in which some operand lies denser. Operands that do are transposed into a
/// buffer, and lines of the tile computed along its rows. So memory is read and written in whole cache lines,
/// in whichever order the operands lie.
class Tiles {
 public:
  Tiles(const KernelCall& call, BlockFunction block)
      : call_(call), block_(block), streams_(passes_caches(call)) {
    std::array<const Layout*, 1 + max_operands> layouts{&call.layout};
    for (std::size_t i = 0; i < call.operands.size(); ++i) layouts[1 + i] = call.operands[i].layout;
    loop_ = coalesce_together(call.layout.extents(), std::span(layouts).first(1 + call.operands.size()));
    if (loop_.rank() < 2) return;
    Index width = 1;
    for (std::size_t i = 1; i < loop_.operands; ++i)
      if (const std::size_t mode = densest_mode(i); mode != 0) {
        column_ = mode;
        width = least_width;
      }
    const Index rows = loop_.extents[0];
    const Index columns = loop_.extents[column_];
    tile_rows_ = std::min(rows, tile_size / std::min(columns, width));
    tile_columns_ = std::min(columns, tile_size / tile_rows_);
    row_tiles_ = (rows - 1) / tile_rows_ + 1;
    column_tiles_ = (columns - 1) / tile_columns_ + 1;
    planes_ = loop_.size / rows / columns;
  }

  /// Whether rows are long enough to be worth it.
  [[nodiscard]] bool is_useful() const { return loop_.rank() >= 2 && loop_.extents[0] >= 32; }
  [[nodiscard]] Index count() const { return row_tiles_ * column_tiles_ * planes_; }
  /// How many are worth a thread.
  [[nodiscard]] Index grain() const { return parallel_grain / (tile_rows_ * tile_columns_); }

  void compute_tiles(Index first, Index last) const {
    Buffers buffers;  // unwritten until they are needed
    for (; first < last; ++first) {
      // Along the columns first: that is the order of transposed operands.
      const Index row = first / column_tiles_ % row_tiles_ * tile_rows_;
      const Index column = first % column_tiles_ * tile_columns_;
      compute_tile(first / (row_tiles_ * column_tiles_), row, column, buffers);
    }
    if (streams_) end_streams();
  }

 private:
  struct alignas(64) Buffer : std::array<std::byte, sizeof(float) * tile_size> {};
  using Buffers = std::array<Buffer, max_operands>;
  static constexpr Index least_width = 16;  // where columns are dense: a cache line

  /// The mode in which the operand lies denser than in the first one, or that.
  [[nodiscard]] std::size_t densest_mode(std::size_t operand) const {
    std::size_t found = 0;
    for (std::size_t mode = 1; mode < loop_.rank(); ++mode) {
      const Index stride = loop_.stride(mode, operand);
      if (loop_.extents[mode] >= 4 && stride > 0 && stride < loop_.stride(found, operand)) found = mode;
    }
    return found;
  }

  void compute_tile(Index plane, Index row, Index column, Buffers& buffers) const {
    const Index rows = std::min(tile_rows_, loop_.extents[0] - row);
    const Index columns = std::min(tile_columns_, loop_.extents[column_] - column);
    std::array<Index, 1 + max_operands> offsets;
    for (std::size_t i = 0; i < loop_.operands; ++i)
      offsets[i] = row * loop_.stride(0, i) + column * loop_.stride(column_, i);
    for (std::size_t mode = 1; mode < loop_.rank(); ++mode) {
      if (mode == column_) continue;
      for (std::size_t i = 0; i < loop_.operands; ++i)
        offsets[i] += plane % loop_.extents[mode] * loop_.stride(mode, i);
      plane /= loop_.extents[mode];
    }
    Elements elements;
    std::array<Index, max_operands> line_bytes{};
    for (std::size_t i = 0; i < call_.operands.size(); ++i)
      elements[i] = open(i, offsets[1 + i], rows, columns, buffers[i].data(), line_bytes[i]);
    for (Index line = 0; line < columns; ++line) {
      for (std::size_t i = 0; i < call_.operands.size(); ++i)
        if (const Index across = loop_.stride(column_, 1 + i); is_repeated(i) && (line == 0 || across != 0))
          gather(call_.operands[i], offsets[1 + i] + line * across, 0, std::min(rows, block_size),
                 buffers[i].data());
      // The result's layout is canonical: its slots follow the ordinals.
      compute_line(offsets[0] + line * loop_.stride(column_, 0), rows, elements);
      for (std::size_t i = 0; i < call_.operands.size(); ++i) elements[i] += line_bytes[i];
    }
  }

  /// Whether a line of the operand is one slot again and again: then one block serves the whole line.
  [[nodiscard]] bool is_repeated(std::size_t operand) const { return loop_.stride(0, 1 + operand) == 0; }

  /// `length` elements from ordinal `first` on, in blocks.
  void compute_line(Index first, Index length, Elements elements) const {
    for (const Index last = first + length; first < last; first += block_size) {
      const Index count = std::min(block_size, last - first);
      compute(call_, block_, first, count, elements, streams_);
      for (std::size_t i = 0; i < call_.operands.size(); ++i)
        if (!is_repeated(i)) elements[i] += block_size * slot_bytes(call_.operands[i].computed);
    }
  }

  /// The operand's part of a tile, line after line, `line_bytes` apart: in place or in the buffer, where
  /// repeated slots have a line to themselves only while it is computed.
  const std::byte* open(std::size_t number, Index offset, Index rows, Index columns, std::byte* buffer,
                        Index& line_bytes) const {
    const KernelOperand& operand = call_.operands[number];
    const Index bytes = slot_bytes(operand.computed);
    const Index along = loop_.stride(0, 1 + number);
    const Index across = loop_.stride(column_, 1 + number);
    if (is_repeated(number)) return buffer;
    if (along == 1 && !is_converted(operand)) {
      line_bytes = across * bytes;
      return operand.data + offset * bytes;
    }
    const Index count = across == 0 ? 1 : columns;  // one line stands for all of them
    if (across != 0) line_bytes = rows * bytes;
    if (!is_converted(operand))
      copy_plane(operand.data + offset * bytes, buffer,
                 {rows, along * bytes, bytes, count, across * bytes, line_bytes}, bytes);
    else
      for (Index line = 0; line < count; ++line)
        gather(operand, offset + line * across, along, rows, buffer + line * line_bytes);
    return buffer;
  }

  const KernelCall& call_;
  BlockFunction block_;
  StridedLoop loop_;        // operands: the result, then those of the call
  std::size_t column_ = 1;  // the mode of the columns
  bool streams_;
  Index tile_rows_ = 0, tile_columns_ = 0;
  Index row_tiles_ = 0, column_tiles_ = 0, planes_ = 0;
};

void elementwise(const KernelCall& call) {
  static const BlockTable blocks(native_elementwise_functions());
  const BlockFunction block = blocks[call.plan];
  const Index size = call.layout.size();
  if (size == 1) return compute_one(call, block);

  Streams streams;
  const auto open = [&call](Streams& all) {
    bool is_gathered = false;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      all[i].open(call.operands[i], call.layout);
      is_gathered = is_gathered || all[i].is_gathered();
    }
    return is_gathered;
  };
  const bool is_gathered = open(streams);
  if (size <= block_size) return compute_blocks(call, block, streams, 0, size);
  if (is_gathered) {
    if (const Tiles tiles(call, block); tiles.is_useful())
      return parallel_for(tiles.count(), tiles.grain(),
                          [&](Index first, Index last) { tiles.compute_tiles(first, last); });
  }
  if (size < 2 * parallel_grain) return compute_blocks(call, block, streams, 0, size);
  parallel_for((size - 1) / block_size + 1, parallel_grain / block_size, [&](Index first, Index last) {
    Streams own;
    open(own);
    compute_blocks(call, block, own, first * block_size, std::min(size, last * block_size));
  });
}

}  // namespace

KernelList cpu_elementwise_kernels() {
  static const auto entries = elementwise_entries(elementwise);
  return entries;
}

}  // namespace orlop::inline v0
