// Blocks and boxes: an array that lies in a file as in its carrier goes in blocks, any other one in boxes of
// a block each that are about as long in every mode, so that neither side is touched slot by slot.
#include "interop/array_stream.hpp"

#include <algorithm>
#include <bit>

#include "operation/strided_copy.hpp"
#include "orlop/base/checked.hpp"
#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/interop/foreign_array.hpp"
#include "orlop/interop/friendly.hpp"
#include "orlop/storage/normalize.hpp"
#include "storage/fresh_storage.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_bytes = Index{4} << 20;
// A gather reads at most this many slots for each one it takes, rather than one slot at a time.
constexpr Index widest_read = 2;

std::size_t unsigned_size(Index size) { return static_cast<std::size_t>(size); }

/// The machine's byte order, and no byte of a Bool but 0 and 1.
void adapt(std::byte* slots, Index count, const FileArray& array) {
  if (array.dtype->storage_type() == StorageType::bool8) {
    for (Index i = 0; i < count; ++i) slots[i] = slots[i] == std::byte{0} ? std::byte{0} : std::byte{1};
  } else if (array.is_swapped) {
    const Index bytes = array.dtype->slot_bytes();
    for (Index i = 0; i < count; ++i) std::reverse(slots + i * bytes, slots + (i + 1) * bytes);
  }
}

}  // namespace

Index element_count(std::string_view what, std::string_view name, const FileArray& array) {
  Index count = 1;
  if (array.extents.size() > detail::max_array_rank)
    raise<ValueError>(what, name, " has ", array.extents.size(), " dimensions; at most ",
                      detail::max_array_rank);
  for (const Index extent : array.extents) {
    if (extent == 0)
      raise<ValueError>(what, name, " is empty: an extent is 0; a Tensor has at least one element");
    if (__builtin_mul_overflow(count, extent, &count))
      raise<ValueError>(what, name, " has more elements than 64 bits count; the file is malformed");
  }
  Index bytes = 0;
  if (__builtin_mul_overflow(count, array.dtype->slot_bytes(), &bytes))
    raise<ValueError>(what, name, " has more bytes than 64 bits count; the file is malformed");
  return count;
}

Tensor read_array(const detail::InputFile& file, const FileArray& array, const Ref<Carrier>& prototype,
                  ProgressMeter& meter) {
  const DType& dtype = *array.dtype;
  const Layout layout = array.extents.empty() ? Layout::leaf(1, 1)
                        : array.is_row_major  ? friendly::row_major(array.extents)
                                              : friendly::column_major(array.extents);
  const Index count = layout.size();
  const Ref<Carrier> carrier =
      prototype ? fresh_storage(*prototype, count, {.dtype = prototype->factory_dtype(dtype), .empty = true})
                : CPU::make(count, {.dtype = dtype, .empty = true});
  const Index slot_bytes = dtype.slot_bytes();
  const Index block = std::min(block_bytes / slot_bytes, count);
  auto* const file_backed = array.is_swapped ? nullptr : dynamic_cast<FileBacked*>(carrier.get());
  std::byte* const memory = carrier->host_data();
  std::vector<std::byte> buffer;
  if (file_backed == nullptr && memory == nullptr) buffer.resize(unsigned_size(block * slot_bytes));
  for (Index first = 0; first < count; first += block) {
    const Index slots = std::min(block, count - first);
    const Index offset = array.offset + first * slot_bytes;
    if (file_backed != nullptr) {
      file_backed->copy_span_from(file.target(), offset, first, slots);
    } else {
      std::byte* const place = memory != nullptr ? memory + first * slot_bytes : buffer.data();
      file.read({place, unsigned_size(slots * slot_bytes)}, offset);
      adapt(place, slots, array);
      if (memory == nullptr) carrier->write_span(first, slots, place);
    }
    meter.add(slots * slot_bytes);
  }
  return {carrier, 0, layout};
}

Index check_saved(std::string_view what, std::string_view name, const Tensor& tensor) {
  tensor.require_single_subtensor("export");
  const Carrier& carrier = *tensor.carrier();
  carrier.require_live();
  carrier.require_reachable();
  if (tensor.dtype().storage_type() == StorageType::other)
    raise<TypeError>(what, name, " has the dtype ", tensor.dtype().name(),
                     "; files hold Float32, Int32 and Bool");
  if (tensor.layout().extents().size() > detail::max_array_rank)
    raise<ValueError>(what, name, " has ", tensor.layout().extents().size(), " leaf modes; at most ",
                      detail::max_array_rank);
  return checked_multiply(tensor.size(), tensor.dtype().slot_bytes(), what);
}

namespace {

/// Writes one array. Modes are in the file's order, fastest first, and as few as can be.
class ArrayWriter {
 public:
  ArrayWriter(detail::OutputFile& file, Index offset, const Tensor& tensor, bool is_row_major,
              ProgressMeter& meter)
      : file_(file),
        offset_(offset),
        carrier_(*tensor.carrier()),
        memory_(carrier_.host_data()),
        file_backed_(dynamic_cast<const FileBacked*>(&carrier_)),
        slot_bytes_(tensor.dtype().slot_bytes()),
        meter_(meter) {
    const Layout& layout = tensor.layout();
    const std::size_t rank = layout.extents().size();
    for (std::size_t i = 0; i < rank; ++i) {
      const std::size_t leaf = is_row_major ? rank - 1 - i : i;
      add_mode(layout.extents()[leaf], layout.strides()[leaf]);
    }
    if (extents_.empty()) add_mode_as_is(1, 1);
  }

  void write(Index first_slot) { write_box(first_slot, 0); }

 private:
  void add_mode(Index extent, Index stride) {
    if (extent == 1) return;
    if (!extents_.empty() && stride == strides_.back() * extents_.back())
      extents_.back() *= extent;
    else
      add_mode_as_is(extent, stride);
  }
  void add_mode_as_is(Index extent, Index stride) {
    steps_.push_back(extents_.empty() ? 1 : steps_.back() * extents_.back());
    extents_.push_back(extent);
    strides_.push_back(stride);
  }

  /// The part of the present extents whose first element lies in slot `source` and is the file's `target`-th.
  void write_box(Index source, Index target) {
    Index size = 1;
    for (const Index extent : extents_) size *= extent;
    if (size <= block_bytes / slot_bytes_) {
      copy_box(source, target, size);
      return meter_.add(size * slot_bytes_);
    }
    const auto longest = unsigned_size(std::max_element(extents_.begin(), extents_.end()) - extents_.begin());
    const Index extent = extents_[longest];
    const Index half = extent / 2;
    extents_[longest] = half;
    write_box(source, target);
    extents_[longest] = extent - half;
    write_box(source + half * strides_[longest], target + half * steps_[longest]);
    extents_[longest] = extent;
  }

  void copy_box(Index source, Index target, Index size) {
    if (extents_.size() == 1 && (strides_[0] == 1 || size == 1)) {
      if (memory_ != nullptr) return put(memory_ + source * slot_bytes_, target, size);
      if (file_backed_ != nullptr)
        return file_backed_->copy_span_to(file_.target(), offset_ + target * slot_bytes_, source, size);
      return put(read_slots(source, size), target, size);
    }
    box_.resize(unsigned_size(size * slot_bytes_));
    gather(source);
    put_runs(target, size);
  }

  void put(const std::byte* slots, Index target, Index count) {
    file_.write({slots, unsigned_size(count * slot_bytes_)}, offset_ + target * slot_bytes_);
  }

  const std::byte* read_slots(Index first, Index count) {
    slots_.resize(std::max(slots_.size(), unsigned_size(count * slot_bytes_)));
    carrier_.read_span(first, count, slots_.data());
    return slots_.data();
  }

  /// Fills box_ with the box's elements in the file's order.
  void gather(Index source) {
    const Shape shape = Shape::flat(extents_);
    const Layout box(shape, Stride::flat(strides_));
    const Layout dense = Layout::canonical(shape);
    if (memory_ != nullptr)
      return copy_strided(memory_ + source * slot_bytes_, box, box_.data(), dense, slot_bytes_);
    if (box.cosize() <= widest_read * box.size())
      return copy_strided(read_slots(source, box.cosize()), box, box_.data(), dense, slot_bytes_);
    gather_runs(source, shape, dense);
  }

  /// Reads one run for each position of the other modes, along the mode where neighbours lie closest.
  void gather_runs(Index source, const Shape& shape, const Layout& dense) {
    const auto run_mode =
        unsigned_size(std::min_element(strides_.begin(), strides_.end(),
                                       [](Index a, Index b) { return a != 0 && (b == 0 || a < b); }) -
                      strides_.begin());
    const bool is_close = strides_[run_mode] <= widest_read;
    const Index run = is_close ? (extents_[run_mode] - 1) * strides_[run_mode] + 1 : 1;
    // The runs lie one after the other; inside one, neighbours keep their distance.
    std::vector<Index> staged(strides_.size());
    std::vector<Index> outer = extents_;
    if (is_close) outer[run_mode] = 1;
    Index next = run;
    for (std::size_t mode = 0; mode < staged.size(); ++mode) {
      if (outer[mode] == 1) continue;
      staged[mode] = next;
      next *= outer[mode];
    }
    if (is_close) staged[run_mode] = strides_[run_mode];
    slots_.resize(std::max(slots_.size(), unsigned_size(next * slot_bytes_)));
    std::byte* place = slots_.data();
    for_each(outer, [&](Index slot, Index) {
      carrier_.read_span(source + slot, run, place);
      place += run * slot_bytes_;
    });
    copy_strided(slots_.data(), Layout(shape, Stride::flat(staged)), box_.data(), dense, slot_bytes_);
  }

  /// Writes box_ in runs that are contiguous in the file.
  void put_runs(Index target, Index size) {
    std::vector<Index> outer = extents_;
    Index run = 1;
    for (std::size_t mode = 0; mode < outer.size() && steps_[mode] == run; ++mode) {
      run *= extents_[mode];
      outer[mode] = 1;
    }
    const std::byte* place = box_.data();
    if (run == size) return put(place, target, size);
    for_each(outer, [&](Index, Index step) {
      put(place, target + step, run);
      place += run * slot_bytes_;
    });
  }

  /// Calls visit(slot, position in the file), both relative, for each coordinate of `extents`, first mode
  /// fastest.
  template <class Visit>
  void for_each(const std::vector<Index>& extents, Visit visit) const {
    std::vector<Index> coordinate(extents.size(), 0);
    Index slot = 0;
    Index step = 0;
    for (std::size_t mode = 0; mode < extents.size();) {
      if (mode == 0) visit(slot, step);
      slot += strides_[mode];
      step += steps_[mode];
      if (++coordinate[mode] < extents[mode]) {
        mode = 0;
        continue;
      }
      slot -= strides_[mode] * extents[mode];
      step -= steps_[mode] * extents[mode];
      coordinate[mode++] = 0;
    }
  }

  detail::OutputFile& file_;
  Index offset_;
  const Carrier& carrier_;
  const std::byte* memory_;
  const FileBacked* file_backed_;
  Index slot_bytes_;
  ProgressMeter& meter_;
  std::vector<Index> extents_;  // of the present box
  std::vector<Index> strides_;  // in the carrier
  std::vector<Index> steps_;    // in the file
  std::vector<std::byte> box_;
  std::vector<std::byte> slots_;
};

}  // namespace

void write_array(detail::OutputFile& file, Index offset, const Tensor& tensor, bool is_row_major,
                 ProgressMeter& meter) {
  ArrayWriter(file, offset, tensor, is_row_major, meter).write(tensor.offset());
}

}  // namespace orlop::inline v0
