// Elementwise CPU kernels: blocks of consecutive elements through the vectorized functions of this processor,
// on several threads where there are many.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "carriers/cpu/kernels/kernels.hpp"
#include "carriers/cpu/kernels/scratch.hpp"
#include "operation/cache_lines.hpp"
#include "operation/elementwise_functions.hpp"
#include "operation/processor.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/parallel.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_size = 1024;  // elements: a result and three operands stay in the first-level cache
constexpr Index tile_size = 8192;   // elements of a tile
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
      const Index most_width = loop_.step(0) == 1 ? 8 : 32;  // longer runs are better gathered one by one
      if (is_converted(operand) || loop_.rank() < 2 || loop_.extents[0] > most_width) return;
      width_ = loop_.extents[0];
      lines_.operands = 1;
      lines_.size = loop_.size / width_;
      for (std::size_t mode = 1; mode < loop_.rank(); ++mode) {
        lines_.extents.push_back(loop_.extents[mode]);
        lines_.strides.push_back(loop_.stride(mode, 0));
      }
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

  /// What is read soon after the block from `first` on, where that is in memory, or null.
  [[nodiscard]] const std::byte* next_block(Index first) const {
    return way_ == Way::in_place ? operand_->data + (first + 2 * block_size) * slot_bytes_ : nullptr;
  }

  [[nodiscard]] bool is_in_place() const { return way_ == Way::in_place; }

  /// Whether every slot of a block is the first one.
  [[nodiscard]] bool stands_still() const { return way_ == Way::repeated && period_ == 1; }

  /// Whether blocks cost more than their elements.
  [[nodiscard]] bool is_gathered() const { return way_ == Way::gathered; }

 private:
  enum class Way : std::uint8_t { in_place, repeated, gathered };

  void gather_block(Index first, Index count) {
    if (width_ == 0) return gather_runs(first, first + count, buffer_.data());
    // Whole lines along the first mode together, which is short.
    const Index first_line = (first + width_ - 1) / width_;
    const Index last_line = std::max((first + count) / width_, first_line);
    const auto slots_of = [&](Index ordinal) { return buffer_.data() + (ordinal - first) * slot_bytes_; };
    gather_runs(first, std::min(first_line * width_, first + count), slots_of(first));
    std::byte* target = slots_of(first_line * width_);
    for_each_run(lines_, first_line, last_line, [&](std::span<const Index> offsets, Index run) {
      const Plane plane{width_, loop_.step(0) * slot_bytes_,  slot_bytes_,
                        run,    lines_.step(0) * slot_bytes_, width_ * slot_bytes_};
      copy_plane(operand_->data + offsets[0] * slot_bytes_, target, plane, slot_bytes_);
      target += run * width_ * slot_bytes_;
    });
    if (last_line * width_ < first + count)
      gather_runs(last_line * width_, first + count, slots_of(last_line * width_));
  }

  void gather_runs(Index first, Index last, std::byte* target) const {
    const Index step = loop_.step(0);
    for_each_run(loop_, first, last, [&](std::span<const Index> offsets, Index run) {
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
  Index width_ = 0;    // of the first mode where whole lines of it are gathered together
  StridedLoop lines_;  // the other modes then
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
  const ElementFault fault = block(1, call.result, elements.data(), false);
  if (fault != ElementFault::none) raise_fault(call, fault, 0);
}

/// Finds the element without a result among `count`, whose ordinals go from `first` on, `step` apart.
[[noreturn]] void refuse(const KernelCall& call, BlockFunction block, ElementFault fault, Index first,
                         Index step, Index count, Elements elements, bool stand_still) {
  std::array<std::byte, sizeof(std::int32_t)> slot;
  for (Index element = 0; element < count; ++element) {
    const ElementFault found = block(1, slot.data(), elements.data(), stand_still);
    if (found != ElementFault::none) raise_fault(call, found, first + element * step);
    for (std::size_t i = 0; i < (stand_still ? 1 : call.operands.size()); ++i)
      elements[i] += slot_bytes(call.operands[i].computed);
  }
  raise_fault(call, fault, first);  // another thread has written to the operand meanwhile
}

/// `count` elements into `target`; their ordinals go from `first` on, `step` apart. One slot of each operand
/// but the first serves all of them if these `stand_still`. The pointers are not copied: reading two at once
/// would wait until the single writes of both, and all the writes before, have left the processor's queue.
void run(const KernelCall& call, BlockFunction block, Index first, Index step, Index count, std::byte* target,
         const Elements& elements, bool stand_still) {
  const ElementFault fault = block(count, target, elements.data(), stand_still);
  if (fault != ElementFault::none) refuse(call, block, fault, first, step, count, elements, stand_still);
}

bool passes_caches(const KernelCall& call) {
  return is_streamed(call.layout.size() * call.plan.output.slot_bytes());
}

/// Whether slots that come soon are asked for: some processors do so themselves.
bool asks_ahead() {
  static const bool asks = !reads_ahead_across_pages();
  return asks;
}

/// Computes elements from ordinal `first` on. The result's layout is canonical: its slots follow the
/// ordinals. At most a block of them passes by the caches if `streams`: what these lines held before would be
/// fetched from memory otherwise, only to be overwritten. Meanwhile as many slots of the operands are asked
/// for from `next` on, where that isn't null: it reads as it writes.
void compute(const KernelCall& call, BlockFunction block, Index first, Index count, const Elements& elements,
             bool stand_still, bool streams, const Elements& next) {
  const Index bytes = call.plan.output.slot_bytes();
  std::byte* const slots = call.result + first * bytes;
  alignas(cache_line) std::array<std::byte, sizeof(float) * block_size> buffer;
  run(call, block, first, 1, count, streams ? buffer.data() : slots, elements, stand_still);
  if (!streams) return;
  constexpr Index part = 256;
  for (Index i = 0; i < count; i += part) {
    const Index slot_count = std::min(part, count - i);
    for (std::size_t operand = 0; operand < call.operands.size(); ++operand)
      if (const Index size = slot_bytes(call.operands[operand].computed);
          asks_ahead() && next[operand] != nullptr)
        for (Index line = 0; line < slot_count * size; line += cache_line)
          __builtin_prefetch(next[operand] + i * size + line, 0, 2);
    cache_lines().stream(buffer.data() + i * bytes, slots + i * bytes, slot_count * bytes);
  }
}

using Streams = std::array<Stream, max_operands>;

/// Blocks of consecutive ordinals.
void compute_blocks(const KernelCall& call, BlockFunction block, Streams& streams, Index first, Index last) {
  const bool is_past_caches = passes_caches(call);
  bool stand_still = true;
  bool are_in_place = true;
  for (std::size_t i = 1; i < call.operands.size(); ++i) {
    stand_still = stand_still && streams[i].stands_still();
    are_in_place = are_in_place && streams[i].is_in_place();
  }
  // Where nothing needs a buffer, all of it is one block.
  const bool is_direct = !is_past_caches && streams[0].is_in_place() && (stand_still || are_in_place);
  const Index block_length = is_direct ? last - first : block_size;
  Elements elements;
  Elements next;
  for (; first < last; first += block_length) {
    const Index count = std::min(block_length, last - first);
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      elements[i] = streams[i].block(first, count);
      if (is_past_caches) next[i] = streams[i].next_block(first);
    }
    compute(call, block, first, count, elements, stand_still, is_past_caches, next);
  }
  if (is_past_caches) end_streams();
}

/// The call as one loop nest of the result and its operands, cut into tiles of two modes: lines along one of
/// them, neighbouring lines along the other. One of the two is the first mode, in which the result is dense,
/// the other one that in which some operand lies denser. Where all of them do, or the first mode is short,
/// lines are computed along that, a square of them at a time, and the result is transposed; otherwise the
/// operands that do are. So memory is read and written in whole cache lines, in whichever order they lie.
class Tiles {
 public:
  Tiles(const KernelCall& call, const ElementwiseFunction::Overload& functions)
      : call_(call), block_(functions.block), square_(functions.square), streams_(passes_caches(call)) {
    std::array<const Layout*, 1 + max_operands> layouts{&call.layout};
    for (std::size_t i = 0; i < call.operands.size(); ++i) layouts[1 + i] = call.operands[i].layout;
    loop_ = coalesce_together(call.layout.extents(), std::span(layouts).first(1 + call.operands.size()));
    if (loop_.rank() < 2) return;
    Index size = tile_size;
    Index least_lines = 1;
    for (std::size_t i = 1; i < loop_.operands; ++i)
      if (const std::size_t mode = densest_mode(i); mode != 0) {
        across_ = mode;
        least_lines = cache_line / slot_size;
      }
    if (transposes_result()) {
      std::swap(along_, across_);
      // Few lines, which the processor follows side by side, and long ones.
      least_lines = 4 * square_side;
      size *= 8;
    }
    const Index length = loop_.extents[along_];
    const Index lines = loop_.extents[across_];
    tile_length_ = part_of(length, size / std::min(lines, least_lines));
    tile_lines_ = part_of(lines, size / tile_length_);
    for (std::size_t i = 0; i < loop_.operands; ++i) {
      along_strides_[i] = loop_.stride(along_, i);
      across_strides_[i] = loop_.stride(across_, i);
      stand_still_ = stand_still_ && (i <= 1 || along_strides_[i] == 0);
    }
    length_tiles_ = (length - 1) / tile_length_ + 1;
    line_tiles_ = (lines - 1) / tile_lines_ + 1;
    planes_ = loop_.size / length / lines;
  }

  /// Whether lines are long enough to be worth it.
  [[nodiscard]] bool is_useful() const {
    return loop_.rank() >= 2 && (across_ == 0 || loop_.extents[0] >= 32);
  }
  [[nodiscard]] Index count() const { return length_tiles_ * line_tiles_ * planes_; }
  [[nodiscard]] Index elements() const { return tile_length_ * tile_lines_; }  // of one

  void compute_tiles(Index first, Index last) const {
    Buffers buffers;
    for (std::size_t i = 0; i < call_.operands.size(); ++i)
      if (!is_in_place(i)) buffers[i] = Scratch<std::byte>(buffer_slots(i) * slot_size);
    if (across_ == 0) buffers.back() = Scratch<std::byte>(tile_lines_ * pitch());
    const bool has_squares = across_ == 0 && square_ != nullptr;
    for (; first < last; ++first) {
      const Tile tile = this->tile(first);
      if (has_squares && std::min(tile.length, tile.lines) >= square_side)
        compute_squares(tile, buffers);
      else
        compute_lines(tile, buffers);
    }
    if (streams_) end_streams();
  }

 private:
  static constexpr Index slot_size = sizeof(float);                  // the largest, and that of squares
  using Buffers = std::array<Scratch<std::byte>, 1 + max_operands>;  // the operands', and the result's
  struct Tile {
    Index length;  // of its lines
    Index lines;
    std::array<Index, 1 + max_operands> offsets;
  };

  /// At most `most` slots of a mode, in whole cache lines where that cuts it.
  [[nodiscard]] static Index part_of(Index extent, Index most) {
    constexpr Index line = cache_line / slot_size;
    return extent <= most || most < line ? std::min(extent, most) : most / line * line;
  }

  /// The mode in which the operand lies denser than in the first one, or that.
  [[nodiscard]] std::size_t densest_mode(std::size_t operand) const {
    std::size_t found = 0;
    for (std::size_t mode = 1; mode < loop_.rank(); ++mode) {
      const Index stride = loop_.stride(mode, operand);
      if (stride > 0 && stride < loop_.stride(found, operand)) found = mode;
    }
    return found;
  }

  /// Whether every operand that isn't repeated along a mode of the tile lies denser in the second one, or one
  /// does and the first mode is short.
  [[nodiscard]] bool transposes_result() const {
    const bool is_short = loop_.extents[0] < 4 * square_side;
    bool has_one = false;
    for (std::size_t i = 1; i < loop_.operands; ++i) {
      if (loop_.stride(0, i) == 0 || loop_.stride(across_, i) == 0) continue;
      const bool is_denser = densest_mode(i) == across_;
      if (!is_denser && !is_short) return false;
      has_one = has_one || is_denser;
    }
    return has_one && loop_.extents[across_] >= (square_ != nullptr ? square_side : 4 * square_side);
  }

  /// Tiles go along the second mode first: that is the order of the operands that decided on it.
  [[nodiscard]] Tile tile(Index number) const {
    const Index second = number % second_tiles();
    const Index first = number / second_tiles() % (length_tiles_ * line_tiles_ / second_tiles());
    const Index length = tile_length_ * (across_ == 0 ? second : first);
    const Index line = tile_lines_ * (across_ == 0 ? first : second);
    Tile tile{std::min(tile_length_, loop_.extents[along_] - length),
              std::min(tile_lines_, loop_.extents[across_] - line),
              {}};
    for (std::size_t i = 0; i < loop_.operands; ++i)
      tile.offsets[i] = length * along_strides_[i] + line * across_strides_[i];
    Index plane = number / (length_tiles_ * line_tiles_);
    for (std::size_t mode = 1; mode < loop_.rank(); ++mode) {
      if (mode == along_ || mode == across_) continue;
      for (std::size_t i = 0; i < loop_.operands; ++i)
        tile.offsets[i] += plane % loop_.extents[mode] * loop_.stride(mode, i);
      plane /= loop_.extents[mode];
    }
    return tile;
  }
  [[nodiscard]] Index second_tiles() const { return across_ == 0 ? length_tiles_ : line_tiles_; }

  /// Between the lines of a transposed result: they do not share a place of the caches.
  [[nodiscard]] Index pitch() const { return tile_length_ * result_bytes_ + cache_line; }

  /// How many slots of a tile's lines lie before the first cache line of an operand, where all lines do
  /// alike.
  [[nodiscard]] Index slots_before(const Tile& tile) const {
    for (std::size_t i = 0; i < call_.operands.size(); ++i)
      if (is_in_place(i) && across_strides_[1 + i] * slot_size % cache_line == 0)
        return slots_before_line(call_.operands[i].data + tile.offsets[1 + i] * slot_size);
    return 0;
  }

  /// Squares that fill cache lines on both sides.
  void compute_squares(const Tile& tile, const Buffers& buffers) const {
    Elements elements;
    std::array<Index, max_operands> line_bytes{};
    for (std::size_t i = 0; i < call_.operands.size(); ++i) {
      elements[i] = open(i, tile, buffers[i].data(), line_bytes[i]);
      if (!is_repeated(i)) continue;
      const Index across = across_strides_[1 + i];
      if (across != 0) line_bytes[i] = square_side * slot_size;
      for (Index line = 0; line < (across == 0 ? 1 : tile.lines); ++line)
        gather(call_.operands[i], tile.offsets[1 + i] + line * across, 0, square_side,
               buffers[i].data() + line * line_bytes[i]);
    }
    bool has_all = true;
    for_each_square(tile.length, slots_before(tile), [&](Index along) {
      for_each_square(tile.lines, 0, [&](Index line) {
        has_all = has_all && compute_square(tile, along, line, elements, line_bytes);
      });
    });
    if (!has_all) compute_lines(tile, buffers);  // and name the element without a result
  }

  [[nodiscard]] bool compute_square(const Tile& tile, Index along, Index line, Elements elements,
                                    const std::array<Index, max_operands>& line_bytes) const {
    for (std::size_t i = 0; i < call_.operands.size(); ++i)
      elements[i] += line * line_bytes[i] + (is_repeated(i) ? 0 : along * slot_size);
    if (asks_)
      for (std::size_t i = 0; i < call_.operands.size(); ++i)
        if (!is_repeated(i))
          for (Index row = 0; row < square_side; ++row)  // the square after the next one
            __builtin_prefetch(elements[i] + row * line_bytes[i] + 2 * cache_line, 0, 2);
    alignas(cache_line) std::array<std::byte, square_side * square_side * slot_size> square;
    if (square_(square.data(), elements.data(), line_bytes.data()) != ElementFault::none) return false;
    const Index ordinal = tile.offsets[0] + along * along_strides_[0] + line;
    cache_lines().transpose(square.data(), square_side * slot_size, call_.result + ordinal * slot_size,
                            along_strides_[0] * slot_size, streams_);
    return true;
  }

  void compute_lines(const Tile& tile, const Buffers& buffers) const {
    Elements elements;
    std::array<Index, max_operands> line_bytes{};
    for (std::size_t i = 0; i < call_.operands.size(); ++i)
      elements[i] = open(i, tile, buffers[i].data(), line_bytes[i]);
    std::byte* const transposed = buffers.back().data();
    for (Index line = 0; line < tile.lines; ++line) {
      for (std::size_t i = 0; i < call_.operands.size(); ++i)
        if (const Index across = across_strides_[1 + i]; is_repeated(i) && (line == 0 || across != 0))
          gather(call_.operands[i], tile.offsets[1 + i] + line * across, 0,
                 stand_still_ && i > 0 ? 1 : run_length(tile.length), buffers[i].data());
      const Index ordinal = tile.offsets[0] + line * across_strides_[0];
      if (across_ == 0)
        run(call_, block_, ordinal, along_strides_[0], tile.length, transposed + line * pitch(), elements,
            stand_still_);
      else
        compute_line(ordinal, tile.length, elements, line_bytes);
      for (std::size_t i = 0; i < call_.operands.size(); ++i) elements[i] += line_bytes[i];
    }
    if (across_ == 0)
      copy_plane(
          transposed, call_.result + tile.offsets[0] * result_bytes_,
          {tile.lines, pitch(), result_bytes_, tile.length, result_bytes_, along_strides_[0] * result_bytes_},
          result_bytes_, streams_);
  }

  /// Whether a line of the operand is one slot again and again: then one block serves the whole line.
  [[nodiscard]] bool is_repeated(std::size_t operand) const { return along_strides_[1 + operand] == 0; }
  [[nodiscard]] bool is_in_place(std::size_t operand) const {
    return along_strides_[1 + operand] == 1 && !is_converted(call_.operands[operand]);
  }

  /// How many elements of a line are computed at once.
  [[nodiscard]] Index run_length(Index length) const {
    return across_ == 0 ? length : std::min(length, block_size);
  }
  [[nodiscard]] Index buffer_slots(std::size_t operand) const {
    if (is_repeated(operand)) return std::max(run_length(tile_length_), square_side * tile_lines_);
    return tile_length_ * (across_strides_[1 + operand] == 0 ? 1 : tile_lines_);
  }

  /// `length` elements from ordinal `first` on, in blocks.
  void compute_line(Index first, Index length, Elements elements,
                    const std::array<Index, max_operands>& line_bytes) const {
    Elements next{};
    for (const Index last = first + length; first < last; first += block_size) {
      const Index count = std::min(block_size, last - first);
      for (std::size_t i = 0; i < call_.operands.size(); ++i)
        if (streams_ && is_in_place(i))
          next[i] =
              elements[i] +
              2 * (length > block_size ? block_size * slot_bytes(call_.operands[i].computed) : line_bytes[i]);
      compute(call_, block_, first, count, elements, stand_still_, streams_, next);
      for (std::size_t i = 0; i < call_.operands.size(); ++i)
        if (!is_repeated(i)) elements[i] += block_size * slot_bytes(call_.operands[i].computed);
    }
  }

  /// The operand's part of a tile, line after line, `line_bytes` apart: in place or in the buffer, where
  /// repeated slots have a line to themselves only while it is computed.
  const std::byte* open(std::size_t number, const Tile& tile, std::byte* buffer, Index& line_bytes) const {
    const KernelOperand& operand = call_.operands[number];
    const Index offset = tile.offsets[1 + number];
    const Index bytes = slot_bytes(operand.computed);
    const Index along = along_strides_[1 + number];
    const Index across = across_strides_[1 + number];
    if (is_repeated(number)) return buffer;
    if (is_in_place(number)) {
      line_bytes = across * bytes;
      return operand.data + offset * bytes;
    }
    const Index count = across == 0 ? 1 : tile.lines;  // one line stands for all of them
    if (across != 0) line_bytes = tile.length * bytes;
    if (!is_converted(operand))
      copy_plane(operand.data + offset * bytes, buffer,
                 {tile.length, along * bytes, bytes, count, across * bytes, line_bytes}, bytes);
    else
      for (Index line = 0; line < count; ++line)
        gather(operand, offset + line * across, along, tile.length, buffer + line * line_bytes);
    return buffer;
  }

  const KernelCall& call_;
  BlockFunction block_;
  SquareFunction square_;   // or null
  StridedLoop loop_;        // operands: the result, then those of the call
  std::size_t along_ = 0;   // the mode of lines
  std::size_t across_ = 1;  // the mode of neighbouring lines
  std::array<Index, 1 + max_operands> along_strides_, across_strides_;
  Index result_bytes_ = call_.plan.output.slot_bytes();
  bool streams_;
  bool asks_ = streams_ && asks_ahead();
  bool stand_still_ = true;  // along a line, all operands but the first
  Index tile_length_ = 0, tile_lines_ = 0;
  Index length_tiles_ = 0, line_tiles_ = 0, planes_ = 0;
};

void elementwise(const KernelCall& call) {
  static const OverloadTable overloads(native_elementwise_functions());
  const ElementwiseFunction::Overload& functions = overloads[call.plan];
  const BlockFunction block = functions.block;
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
    if (const Tiles tiles(call, functions); tiles.is_useful())
      return parallel_for(tiles.count(), Work{tiles.elements()},
                          [&](Index first, Index last) { tiles.compute_tiles(first, last); });
  }
  if (size < 2 * parallel_grain) return compute_blocks(call, block, streams, 0, size);
  parallel_for((size - 1) / block_size + 1, Work{block_size}, [&](Index first, Index last) {
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
