// Friendly factories over the CPU carrier.
#include "orlop/interop/friendly.hpp"

#include <array>
#include <bit>
#include <numeric>

#include "layout/nest.hpp"
#include "operation/cache_lines.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/views.hpp"

namespace orlop::inline v0 {

namespace {

void check_extents(Sequence<Index> extents) {
  if (extents.empty()) raise<ValueError>("friendly", "a tensor needs at least one extent: got none");
  for (const Index extent : extents)
    if (extent < 1) raise<ValueError>("friendly", "extents must be positive integers: got ", extent);
}

/// To be written: slots that the layout leaves out are zeros.
Tensor on_cpu(const Layout& layout, const DType& dtype) {
  const bool has_gaps = !layout.is_injective() || layout.size() != layout.cosize();
  return Tensor::trusted(CPU::make(layout.cosize(), {.dtype = dtype, .empty = !has_gaps}), 0, layout);
}

}  // namespace

Layout friendly::column_major(Sequence<Index> extents) {
  check_extents(extents);
  return Layout::canonical(Shape::flat(extents));
}

Layout friendly::row_major(Sequence<Index> extents) {
  check_extents(extents);
  const std::vector<Index> reversed(extents.rbegin(), extents.rend());
  const Layout compact = Layout::canonical(Shape::flat(reversed));
  const std::vector<Index> strides(compact.strides().rbegin(), compact.strides().rend());
  return {Shape::flat(extents), Stride::flat(strides)};
}

Tensor friendly::full(Sequence<Index> extents, const Scalar& value, const DType& dtype) {
  const Layout layout = column_major(extents);
  const Tensor result = on_cpu(layout, dtype);
  const Index bytes = dtype.slot_bytes();
  std::array<std::byte, sizeof(std::uint32_t)> pattern;
  encode_slot(dtype, value, pattern.data());
  for (std::size_t i = static_cast<std::size_t>(bytes); i < pattern.size(); ++i) pattern[i] = pattern[0];
  cache_lines().fill(std::bit_cast<std::uint32_t>(pattern), result.carrier()->host_data(),
                     layout.size() * bytes);
  return result;
}

Tensor friendly::zeros(Sequence<Index> extents, const DType& dtype) {
  const Layout layout = column_major(extents);
  return Tensor::trusted(CPU::make(layout.cosize(), {.dtype = dtype}), 0, layout);
}

Tensor friendly::ones(Sequence<Index> extents, const DType& dtype) {
  const bool is_bool = dtype.storage_type() == StorageType::bool8;
  return full(extents, is_bool ? Scalar(true) : Scalar(std::int64_t{1}), dtype);
}

Tensor friendly::arange(Index count, const DType& dtype) {
  if (dtype.storage_type() == StorageType::bool8)
    raise<TypeError>("friendly", "arange counts numbers: the dtype Bool holds none; use Int32 or Float32");
  const Tensor result = on_cpu(column_major({count}), dtype);
  std::byte* const slots = result.carrier()->host_data();
  if (dtype.storage_type() == StorageType::float32) {
    auto* const numbers = reinterpret_cast<float*>(slots);
    for (Index i = 0; i < count; ++i) numbers[i] = static_cast<float>(i);
  } else {
    encode_slot(dtype, Scalar(count - 1), slots);  // the greatest has to fit
    auto* const numbers = reinterpret_cast<std::int32_t*>(slots);
    std::iota(numbers, numbers + count, 0);
  }
  return result;
}

Tensor detail::cpu_tensor(const std::byte* slots, const Layout& source, const Layout& layout,
                          const DType& dtype) {
  Tensor result = on_cpu(layout, dtype);
  copy_strided(slots, source, result.carrier()->host_data(), layout, dtype.slot_bytes());
  return result;
}

Tensor detail::cpu_tensor(Index count, const std::function<Scalar()>& next_value, const Layout& layout,
                          const DType& dtype) {
  if (count != layout.size())
    raise<ValueError>("friendly", "the number of values must be the layout logical size ", layout.size(),
                      ": got ", count);
  std::vector<std::byte> slots(slots_to_bytes(dtype, count));
  for (Index i = 0; i < count; ++i) encode_slot(dtype, next_value(), slots.data() + i * dtype.slot_bytes());
  return cpu_tensor(slots.data(), Layout::canonical(layout.shape()), layout, dtype);
}

namespace {

/// The extents of nested lists, by the first item of each level.
SmallVector<Index, 8> extents_of(const Nested<Scalar>& values) {
  if (values.is_leaf() || values.items().empty())
    raise<ValueError>("friendly", "values must be a non-empty list: got ",
                      values.is_leaf() ? "a number" : "an empty list", "; one value is tensor({1.0})");
  SmallVector<Index, 8> extents;
  for (const Nested<Scalar>* level = &values; !level->is_leaf(); level = &level->items().front()) {
    if (level->items().empty()) raise<ValueError>("friendly", "values must not have empty levels");
    extents.push_back(static_cast<Index>(level->items().size()));
  }
  return extents;
}

/// Appends the leaves of `values`, which lie `depth` levels deep in lists of `extents`.
void append_rows(const Nested<Scalar>& values, std::span<const Index> extents, std::size_t depth,
                 std::vector<const Scalar*>& rows) {
  const bool is_inner = depth < extents.size();
  if (values.is_leaf() == is_inner ||
      (is_inner && static_cast<Index>(values.items().size()) != extents[depth]))
    raise<ValueError>("friendly", "values must be rectangular: a level or a length differs at depth ", depth);
  if (!is_inner) return rows.push_back(&values.leaf());
  for (const Nested<Scalar>& item : values.items()) append_rows(item, extents, depth + 1, rows);
}

}  // namespace

Tensor friendly::tensor(const Nested<Scalar>& values, const DType& dtype) {
  const SmallVector<Index, 8> extents = extents_of(values);
  std::vector<const Scalar*> rows;
  append_rows(values, extents, 0, rows);
  std::vector<std::byte> slots(slots_to_bytes(dtype, static_cast<Index>(rows.size())));
  std::byte* slot = slots.data();
  for (const Scalar* value : rows) {
    encode_slot(dtype, *value, slot);
    slot += dtype.slot_bytes();
  }
  return detail::cpu_tensor(slots.data(), row_major(extents), column_major(extents), dtype);
}

Tensor friendly::sum(const Tensor& tensor) {
  const Layout& layout = tensor.layout();
  if (layout.rank() < 1 || !layout.is_flat())
    raise<ValueError>("friendly", "sum and mean take a flat tensor with integer modes: the shape is ",
                      layout.shape());
  if (layout.rank() > 26)
    raise<ValueError>("friendly", "too many modes to reduce: ", layout.rank(), "; at most 26");
  detail::NestBuilder builder;
  builder.leaf(-1);
  builder.push();
  for (std::size_t i = 0; i < layout.rank(); ++i) builder.leaf(static_cast<Index>(i));
  builder.pop();
  const Argument rows(rearrange(tensor, Tree(builder.finish())));
  return apply_operation("reduce_sum", {rows});
}

Tensor friendly::mean(const Tensor& tensor) {
  return mul(sum(tensor), Scalar(1.0 / static_cast<double>(tensor.size())));
}

Scalar friendly::item(const Tensor& tensor) {
  if (tensor.size() != 1)
    raise<ValueError>("friendly", "item takes a Tensor of exactly one element: it has ", tensor.size());
  tensor.require_single_subtensor("indexing");
  return tensor.carrier()->at(tensor.offset());
}

std::vector<std::byte> detail::dense_slots(const Tensor& tensor) {
  tensor.require_single_subtensor("to_list");
  const Carrier& carrier = *tensor.carrier();
  carrier.require_live();
  const DType& dtype = carrier.dtype();
  const Layout& layout = tensor.layout();
  std::vector<std::byte> span(slots_to_bytes(dtype, layout.cosize()));
  carrier.read_span(tensor.offset(), layout.cosize(), span.data());
  if (layout.is_canonical()) return span;
  std::vector<std::byte> dense(slots_to_bytes(dtype, layout.size()));
  copy_strided(span.data(), layout, dense.data(), Layout::canonical(layout.shape()), dtype.slot_bytes());
  return dense;
}

std::vector<Scalar> friendly::to_list(const Tensor& tensor) { return to_list<Scalar>(tensor); }

}  // namespace orlop::inline v0
