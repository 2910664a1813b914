// The two general transfers: element by element, and whole spans.
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "operation/strided_copy.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

namespace {

/// Lets the interpreter go while much host memory is copied; a release costs more than a small copy.
class LargeCopyScope {
 public:
  explicit LargeCopyScope(Index bytes) {
    if (bytes >= Index{1} << 20) scope_.emplace();
  }

 private:
  std::optional<BlockingScope> scope_;
};

bool is_native(const Carrier& carrier) {
  return carrier.carrier_class().is_shipped() && carrier.dtype().storage_type() != StorageType::other;
}

bool overlaps(const std::byte* a, const std::byte* b, Index bytes) {
  const std::less<> before;
  return before(a, b + bytes) && before(b, a + bytes);
}

/// Copies the slots of `tensor` into `slots`, which has the Tensor's layout; a carrier of an author is read
/// value by value.
void gather(const Tensor& tensor, std::byte* slots) {
  const Carrier& source = *tensor.carrier();
  const Layout& layout = tensor.layout();
  const Index bytes = source.dtype().slot_bytes();
  if (!is_native(source)) {
    for (Index ordinal = 0; ordinal < tensor.size(); ++ordinal) {
      const Index slot = layout.index_ordinal(ordinal);
      encode_slot(source.dtype(), source.at(tensor.offset() + slot), slots + slot * bytes);
    }
    return;
  }
  const Index span = layout.cosize();
  if (layout.size() == span && layout.is_injective()) return source.read_span(tensor.offset(), span, slots);
  std::vector<std::byte> staged(slots_to_bytes(source.dtype(), span));
  source.read_span(tensor.offset(), span, staged.data());
  copy_strided(staged.data(), layout, slots, layout, bytes);
}

/// One slot of an author's carrier. A class with a CarrierDefinition writes it without counting versions: the
/// move is one mutation (S407).
void write_one(Carrier& carrier, Index slot, const Scalar& value) {
  if (!carrier.carrier_class().is_defined() || carrier.dtype().storage_type() == StorageType::other)
    return carrier.set_value(slot, value);
  alignas(std::max_align_t) std::array<std::byte, 8> encoded{};
  encode_slot(carrier.dtype(), value, encoded.data());
  carrier.write_span(slot, 1, encoded.data());
}

}  // namespace

void ElementwiseMoveOperation::copy(const Tensor& tensor, Carrier& destination, const Tensor& output,
                                    Index span) {
  const Carrier& source = *tensor.carrier();
  const Layout& layout = output.layout();
  const DType& dtype = source.dtype();
  if (!is_native(destination)) {
    std::vector<Scalar> values;
    values.reserve(static_cast<std::size_t>(tensor.size()));
    for (Index ordinal = 0; ordinal < tensor.size(); ++ordinal)
      values.push_back(normalize(dtype, source.at(tensor.offset() + tensor.layout().index_ordinal(ordinal))));
    expect_writes();
    for (Index ordinal = 0; ordinal < tensor.size(); ++ordinal)
      write_one(destination, layout.index_ordinal(ordinal), values[static_cast<std::size_t>(ordinal)]);
    return;
  }
  const Index bytes = span * dtype.slot_bytes();
  const std::byte* from = source.host_data();
  std::byte* to = destination.host_data();
  if (from != nullptr && to != nullptr && is_native(source)) {
    from += tensor.offset() * dtype.slot_bytes();
    if (!overlaps(from, to, bytes)) {
      const LargeCopyScope large(bytes);
      expect_writes();
      return copy_strided(from, layout, to, layout, dtype.slot_bytes());
    }
  }
  // Through a copy of the span. Its holes keep the destination's slots; where there are none the empty read
  // lets a destination that cannot be written now (an evicted one) refuse before anything has changed.
  std::vector<std::byte> slots(slots_to_bytes(dtype, span));
  const bool has_holes = layout.size() != span || !layout.is_injective();
  destination.read_span(0, has_holes ? span : 0, slots.data());
  gather(tensor, slots.data());
  expect_writes();
  destination.write_span(0, span, slots.data());
}

void SpanMoveOperation::copy(const Tensor& tensor, Carrier& destination, const Tensor&, Index element_count) {
  const Carrier& source = *tensor.carrier();
  const Index bytes = element_count * source.dtype().slot_bytes();
  const Index start = tensor.offset() * source.dtype().slot_bytes();
  const LargeCopyScope large(bytes);
  expect_writes();
  if (std::byte* to = destination.host_data()) return source.read_span(tensor.offset(), element_count, to);
  if (const std::byte* from = source.host_data())
    return destination.write_span(0, element_count, from + start);
  std::vector<std::byte> slots(slots_to_bytes(source.dtype(), element_count));
  source.read_span(tensor.offset(), element_count, slots.data());
  destination.write_span(0, element_count, slots.data());
}

}  // namespace orlop::inline v0
