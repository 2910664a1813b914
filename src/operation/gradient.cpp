// Gradient arithmetic: the table's own operations, ungated, on the carrier class of the forward call.
#include "operation/gradient.hpp"

#include "operation/definition.hpp"
#include "operation/strided_copy.hpp"
#include "operation/unattended.hpp"
#include "orlop/storage/normalize.hpp"
#include "storage/fresh_storage.hpp"

namespace orlop::inline v0 {

bool GradientContext::wants(std::size_t position) const {
  const Tensor* tensor = arguments_[position].tensor();
  return tensor != nullptr && tensor->is_differentiable() && (is_wanted_.empty() || is_wanted_[position]);
}

Tensor GradientContext::result() const {
  return run_definition(definition_, arguments_, options_, carrier_class_, false);
}

Tensor GradientContext::compute(std::string_view name, std::initializer_list<Argument> arguments) const {
  return compute(*find_definition(name), arguments);
}

Tensor GradientContext::compute(const Definition& definition,
                                std::initializer_list<Argument> arguments) const {
  return run_definition(definition, {arguments.begin(), arguments.size()}, nullptr, carrier_class_, false);
}

namespace {

/// Every element of `shape` in one slot.
Layout repeated_slot(const Shape& shape) {
  detail::Nest strides = shape.nest();
  std::fill(strides.leaves.begin(), strides.leaves.end(), 0);
  return {shape, Stride(std::move(strides))};
}

Layout two_mode_layout(std::span<const Index> first, std::span<const Index> first_strides,
                       std::span<const Index> second, std::span<const Index> second_strides) {
  const auto nest = [](std::span<const Index> leaves) {
    return Coordinate(std::vector<Coordinate>(leaves.begin(), leaves.end()));
  };
  return {Shape{nest(first), nest(second)}, Stride{nest(first_strides), nest(second_strides)}};
}

}  // namespace

Tensor GradientContext::constant(const Shape& shape, float value) const {
  Ref<Carrier> carrier = fresh_storage(*cotangent_.carrier(), 1, {.dtype = dtypes::Float32});
  carrier->write_span(0, 1, &value);
  return Tensor::trusted(std::move(carrier), 0, repeated_slot(shape));
}

Tensor GradientContext::zeros(const Layout& layout) const {
  return Tensor::trusted(fresh_storage(*cotangent_.carrier(), layout.cosize(), {.dtype = dtypes::Float32}), 0,
                         layout);
}

Layout gradient_layout(const Layout& layout) {
  return layout.is_injective() ? layout : Layout::canonical(layout.shape());
}

namespace {

/// The two-mode view (kept leaves, summed leaves) of `tensor`, or nothing when no leaf is summed.
std::optional<Tensor> split_leaves(const Tensor& tensor, std::span<const Index> kept_extents) {
  std::vector<Index> kept, kept_strides, summed, summed_strides;
  const auto extents = tensor.layout().extents();
  const auto strides = tensor.layout().strides();
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const bool is_summed = kept_extents[i] == 1 && extents[i] != 1;
    (is_summed ? summed : kept).push_back(extents[i]);
    (is_summed ? summed_strides : kept_strides).push_back(strides[i]);
  }
  if (summed.empty()) return std::nullopt;
  return Tensor::trusted(tensor.carrier(), tensor.offset(),
                         two_mode_layout(kept, kept_strides, summed, summed_strides));
}

}  // namespace

Tensor sum_to_shape(const Tensor& tensor, const Shape& shape) {
  const auto split = split_leaves(tensor, shape.leaves());
  if (!split) return tensor;
  const Argument argument(*split);
  const Tensor sum =
      run_definition(*find_definition("reduce_sum"), {&argument, 1}, nullptr, tensor.carrier_type(), false);
  return Tensor::trusted(sum.carrier(), 0, Layout::canonical(shape));
}

Tensor GradientContext::fit(std::size_t position, const Tensor& cotangent) const {
  const Layout& wanted = tensor(position).layout();
  Tensor gradient = sum_to_shape(cotangent, wanted.shape());
  const Layout layout = gradient_layout(wanted);
  if (gradient.layout() == layout && gradient.offset() == 0 && !(gradient == cotangent_)) return gradient;
  return copy_to_layout(gradient, layout);
}

namespace {

/// The same for dtypes that have no native slots: value by value.
Ref<Carrier> scatter_values_into_zeros(const Tensor& tensor, const Layout& layout, Index offset,
                                       Index slots) {
  std::vector<Scalar> values(static_cast<std::size_t>(slots), Scalar(0));
  for (Index i = 0; i < layout.size(); ++i)
    values[static_cast<std::size_t>(offset + layout(i))] =
        tensor.carrier()->at(tensor.offset() + tensor.layout()(i));
  return tensor.carrier()->new_like(values);
}

}  // namespace

Ref<Carrier> scatter_into_zeros(const Tensor& tensor, const Layout& layout, Index offset, Index slots) {
  Carrier& source = *tensor.carrier();
  source.require_live();
  const DType& dtype = source.dtype();
  if (dtype.storage_type() == StorageType::other)
    return scatter_values_into_zeros(tensor, layout, offset, slots);
  const bool covers_all = layout.size() == slots && layout.is_injective();
  Ref<Carrier> carrier = fresh_storage(source, slots, {.dtype = dtype, .empty = covers_all});
  const Index span = tensor.layout().cosize();
  // In place where both sides are host memory, otherwise through host copies.
  std::vector<std::byte> source_copy, target_copy;
  const std::byte* from = source.host_data();
  if (from != nullptr) {
    from += tensor.offset() * dtype.slot_bytes();
  } else {
    source_copy.resize(slots_to_bytes(dtype, span));
    source.read_span(tensor.offset(), span, source_copy.data());
    from = source_copy.data();
  }
  std::byte* to = carrier->host_data();
  if (to == nullptr) {
    target_copy.resize(slots_to_bytes(dtype, slots));
    to = target_copy.data();
  }
  {
    const std::shared_ptr<const void> held = is_long(tensor.size()) ? source.host_memory() : nullptr;
    const UnattendedWork work(held != nullptr);
    copy_strided(from, tensor.layout(), to + offset * dtype.slot_bytes(), layout, dtype.slot_bytes());
  }
  if (!target_copy.empty()) carrier->write_span(0, slots, target_copy.data());
  return carrier;
}

Tensor copy_to_layout(const Tensor& tensor, const Layout& layout) {
  return Tensor::trusted(scatter_into_zeros(tensor, layout, 0, layout.cosize()), 0, layout);
}

Tensor copy_to_carrier(const Tensor& tensor, const Carrier& prototype) {
  const Carrier& source = *tensor.carrier();
  source.require_live();
  const Index span = tensor.layout().cosize();
  std::vector<std::byte> slots(slots_to_bytes(source.dtype(), span));
  source.read_span(tensor.offset(), span, slots.data());
  Ref<Carrier> carrier = fresh_storage(prototype, span, {.dtype = source.dtype()});
  carrier->write_span(0, span, slots.data());
  return Tensor::trusted(std::move(carrier), 0, tensor.layout());
}

}  // namespace orlop::inline v0
