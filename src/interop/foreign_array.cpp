// Checks of foreign arrays, borrowing and copying.
#include "orlop/interop/foreign_array.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "orlop/base/checked.hpp"
#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/interop/friendly.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0::detail {

namespace {

void check_extents(std::string_view what, const std::vector<Index>& extents) {
  if (extents.size() > max_array_rank)
    raise<BufferError>(what, "the array has ", extents.size(), " dimensions; at most ", max_array_rank);
  for (const Index extent : extents) {
    if (extent == 0)
      raise<ValueError>(what, "the array is empty: an extent is 0; a Tensor has at least one element");
    if (extent < 0) raise<BufferError>(what, "an extent is negative: ", extent, "; the producer is at fault");
  }
}

std::vector<Index> last_fastest(std::string_view what, const std::vector<Index>& extents) {
  std::vector<Index> strides(extents.size());
  Index step = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    strides[i] = step;
    step = checked_multiply(step, extents[i], what);
  }
  return strides;
}

Index magnitude(std::string_view what, Index stride) {
  if (stride == std::numeric_limits<Index>::min())
    raise<OverflowError>(what, "a stride leaves 64 bits: ", stride);
  return stride < 0 ? -stride : stride;
}

Layout layout_of(std::string_view what, const std::vector<Index>& extents,
                 const std::vector<Index>& strides) {
  if (extents.empty()) return Layout::leaf(1, 1);
  std::vector<Index> steps(strides);
  for (Index& step : steps) step = magnitude(what, step);
  return {Shape::flat(extents), Stride::flat(steps)};
}

}  // namespace

void refuse_element_type(std::string_view what, std::string_view found) {
  raise<BufferError>(what, "the element type ", found,
                     " is not supported; use native float32, int32 or bool, one value per element");
}

ForeignArray::ForeignArray(std::string_view what, void* data, const DType& dtype, ForeignGeometry geometry,
                           bool is_read_only)
    : what_(what),
      data_(static_cast<std::byte*>(data)),
      dtype_(dtype),
      is_read_only_(is_read_only),
      is_backwards_(false) {
  check_extents(what, geometry.extents);
  strides_ = geometry.strides ? *std::move(geometry.strides) : last_fastest(what, geometry.extents);
  if (data == nullptr) raise<BufferError>(what, "the array's data is null; the producer has let it go");
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(dtype.slot_bytes()) != 0)
    raise<BufferError>(what, "the array's data is misaligned: its address is no multiple of ",
                       dtype.slot_bytes(), " bytes; copy it at its producer");
  layout_ = layout_of(what, geometry.extents, strides_);
  static_cast<void>(slots_to_bytes(dtype, layout_.cosize()));
  is_backwards_ = std::any_of(strides_.begin(), strides_.end(), [](Index stride) { return stride < 0; });
}

Tensor ForeignArray::borrow(std::shared_ptr<void> owner) const {
  if (is_backwards_) raise<ValueError>(what_, "a stride is negative, which no Layout has; use copy=True");
  Ref<CPU> carrier = CPU::wrap(layout_.cosize(), reinterpret_cast<Index>(data_),
                               {.is_mutable = !is_read_only_, .dtype = dtype_}, std::move(owner));
  return Tensor::trusted(std::move(carrier), 0, layout_);
}

Tensor ForeignArray::copy() const {
  const Layout compact = friendly::column_major(layout_.extents());
  Tensor result = is_backwards_ ? copy_backwards(compact) : cpu_tensor(data_, layout_, compact, dtype_);
  if (dtype_.storage_type() == StorageType::bool8) {  // a foreign True is any byte but 0
    std::byte* const slots = result.carrier()->host_data();
    for (Index i = 0; i < compact.size(); ++i)
      slots[i] = slots[i] == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  return result;
}

Tensor ForeignArray::copy_backwards(const Layout& layout) const {
  const Tensor result = friendly::zeros(layout.extents(), dtype_);
  const auto slot_bytes = dtype_.slot_bytes();
  std::byte* target = result.carrier()->host_data();
  std::vector<Index> coordinate(strides_.size(), 0);
  Index position = 0;
  for (Index i = 0; i < layout.size(); ++i, target += slot_bytes) {
    std::memcpy(target, data_ + position * slot_bytes, static_cast<std::size_t>(slot_bytes));
    for (std::size_t mode = 0; mode < coordinate.size(); ++mode) {
      position += strides_[mode];
      if (++coordinate[mode] < layout.extents()[mode]) break;
      position -= strides_[mode] * coordinate[mode];
      coordinate[mode] = 0;
    }
  }
  return result;
}

}  // namespace orlop::inline v0::detail
