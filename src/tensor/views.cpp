// Layout arithmetic of slices, reshape, as_strided, squeeze and unsqueeze.
#include "orlop/tensor/views.hpp"

#include <algorithm>

#include "layout/nest.hpp"
#include "orlop/base/checked.hpp"

namespace orlop::inline v0 {

namespace {

/// A top-level mode: a leaf, or a nested one as a layout of rank 1.
struct Mode {
  Index extent = 0;
  Index stride = 0;
  std::optional<Layout> nested{};
};

Mode next_mode(detail::ModeReader& modes) {
  if (!modes.at_leaf()) return {.nested = modes.whole_mode()};
  const auto [extent, stride] = modes.leaf();
  return {extent, stride};
}

void append(detail::LayoutBuilder& builder, const Mode& mode) {
  if (mode.nested)
    builder.modes(*mode.nested);
  else
    builder.leaf(mode.extent, mode.stride);
}

/// What a key makes of one mode.
struct ModeSlice {
  std::optional<Mode> mode;  // nothing where an index drops it
  Index offset = 0;
  bool is_shifted = false;
};

ModeSlice index_mode(const Mode& mode, std::size_t position, Index index) {
  const Index extent = mode.nested ? mode.nested->size() : mode.extent;
  if (index < 0 || index >= extent)
    raise<ValueError>("view", "index ", index, " is out of domain: mode ", position, " has extent ", extent,
                      "; use 0 up to extent - 1");
  return {std::nullopt, mode.nested ? (*mode.nested)(index) : index * mode.stride, index != 0};
}

/// A bound as Python clips it.
Index clipped(const std::optional<Index>& bound, Index otherwise, Index extent) {
  if (!bound) return otherwise;
  const Index position = *bound < 0 ? *bound + extent : *bound;
  return std::clamp(position, Index{0}, extent);
}

ModeSlice range_mode(const Mode& mode, std::size_t position, const SliceRange& range) {
  if (mode.nested) {
    if (range.start || range.stop || range.step.value_or(1) != 1)
      raise<ValueError>("view", "mode ", position,
                        " is nested: only an index and whole slices (:) are allowed there; "
                        "rearrange the tensor first to slice inside");
    return {mode};
  }
  const Index step = range.step.value_or(1);
  if (step <= 0)
    raise<ValueError>("view", "a slice needs a positive step: got ", step, " for mode ", position);
  const Index start = clipped(range.start, 0, mode.extent);
  const Index width = clipped(range.stop, mode.extent, mode.extent) - start;
  if (width <= 0)
    raise<ValueError>("view", "a slice must be non-empty: start ", start, ", stop ", start + width,
                      " in mode ", position, " of extent ", mode.extent);
  if (width % step != 0)
    raise<ValueError>("view", "the width of a slice must be divisible by its step: width ", width, ", step ",
                      step, " in mode ", position, "; move the stop");
  return {Mode{width / step, checked_multiply(mode.stride, step, "view")}, start * mode.stride, start != 0};
}

void check_slice_count(const Layout& layout, std::size_t keys) {
  if (keys != layout.rank())
    raise<ValueError>("view", "a slice needs exactly one key per top-level mode: got ", keys, " for rank ",
                      layout.rank(), "; use : for modes to keep");
}

ModeSlice slice_mode(const Mode& mode, std::size_t position, const SliceKey& key) {
  if (const auto* index = std::get_if<Index>(&key)) return index_mode(mode, position, *index);
  return range_mode(mode, position, std::get<SliceRange>(key));
}

}  // namespace

SliceKeys checked_slice_keys(const Layout& layout, std::size_t count,
                             const std::function<SliceKey(std::size_t mode, bool is_leaf)>& key_of) {
  check_slice_count(layout, count);
  detail::ModeReader modes(layout);
  SliceKeys keys;
  keys.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Mode mode = next_mode(modes);
    keys.push_back(key_of(i, !mode.nested));
    static_cast<void>(slice_mode(mode, i, keys.back()));
  }
  return keys;
}

LayoutView slice_layout(const Layout& layout, std::span<const SliceKey> keys) {
  check_slice_count(layout, keys.size());
  detail::LayoutBuilder builder;
  detail::ModeReader modes(layout);
  LayoutView view;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const ModeSlice slice = slice_mode(next_mode(modes), i, keys[i]);
    if (slice.mode) append(builder, *slice.mode);
    view.offset += slice.offset;
    view.is_shifted = view.is_shifted || slice.is_shifted;
  }
  view.layout = builder.finish();
  return view;
}

Layout reshape_layout(const Layout& layout, const Shape& shape) {
  if (shape.try_size() != layout.size())
    raise<ValueError>("reshape", "both shapes must have the same logical size: ", layout.shape(), " and ",
                      shape);
  // The one element of no modes has every step.
  const auto step = layout.extents().empty() ? std::optional<Index>(1) : layout.constant_step();
  if (!step)
    raise<ValueError>("reshape",
                      "only a layout that coalesces to one logical leaf can be reshaped without a copy: got ",
                      layout, "; copy it to a canonical layout first");
  SmallVector<Index, 4> strides;
  Index next = *step;
  for (std::size_t i = 0; i < shape.leaves().size(); ++i) {
    if (i > 0) next = checked_multiply(next, shape.leaves()[i - 1], "reshape");
    strides.push_back(next);
  }
  return Layout(shape, Stride(detail::with_leaves(shape.nest(), strides)));
}

namespace {

/// The index step of ordinal step `ordinals`, digit by digit over the coalesced modes of `source`; `room`
/// loses what `times` such steps need of each digit.
Index index_step(const Layout& source, Index ordinals, Index times, std::span<Index> room) {
  Index step = 0;
  for (std::size_t j = 0; j < room.size(); ++j) {
    const bool is_last = j + 1 == room.size();
    const Index digit = is_last ? ordinals : ordinals % source.extents()[j];
    if (!is_last) ordinals /= source.extents()[j];
    room[j] -= digit * times;
    if (room[j] < 0)
      raise<ValueError>("as_strided",
                        "the selection is not representable as strides of the input: it carries over at "
                        "mode ",
                        j, " of ", source, "; copy the tensor to a canonical layout first");
    step += digit * source.strides()[j];
  }
  return step;
}

}  // namespace

// No product or sum below leaves 64 bits, except in leaves of extent 1: the selector's cosize is at most the
// size.
Layout as_strided_layout(const Layout& layout, const Shape& shape, const Stride& stride) {
  const Layout selector(shape, stride);
  if (!selector.is_injective())
    raise<ValueError>("as_strided", "the mapping must be injective: ", selector, " selects an ordinal twice");
  if (selector.cosize() > layout.size())
    raise<ValueError>("as_strided", "the mapping exceeds the input: it reaches ordinal ",
                      selector.cosize() - 1, ", the input has ", layout.size(), " elements");
  SmallVector<Index, 4> strides;
  if (const auto step = layout.constant_step()) {
    for (const Index ordinals : stride.leaves())
      strides.push_back(checked_multiply(ordinals, *step, "as_strided"));
  } else {
    const Layout digits = layout.coalesce();
    SmallVector<Index, 8> room;
    for (const Index extent : digits.extents()) room.push_back(extent - 1);
    for (std::size_t i = 0; i < stride.leaves().size(); ++i) {
      const Index times = shape.leaves()[i] - 1;
      strides.push_back(times == 0 ? 0 : index_step(digits, stride.leaves()[i], times, room));
    }
  }
  return Layout(shape, Stride(detail::with_leaves(shape.nest(), strides)));
}

namespace {

/// `dim` counted from the front; ValueError outside [-limit, limit).
std::size_t mode_position(std::string_view what, Index dim, std::size_t limit) {
  const auto count = static_cast<Index>(limit);
  if (dim < -count || dim >= count)
    raise<ValueError>(what, "dim is out of range: ", dim, "; allowed is ", -count, " up to ", count - 1);
  return static_cast<std::size_t>(dim < 0 ? dim + count : dim);
}

}  // namespace

Layout squeeze_layout(const Layout& layout, Index dim) {
  const std::size_t position = mode_position("squeeze", dim, layout.rank());
  detail::ModeReader modes(layout);
  detail::LayoutBuilder builder;
  while (modes.left() > layout.rank() - position) builder.mode(modes);
  const Mode mode = next_mode(modes);
  if (mode.nested)
    raise<ValueError>("squeeze", "mode ", position, " is nested: ", mode.nested->shape(),
                      "; only a leaf of extent 1 can go");
  if (mode.extent != 1)
    raise<ValueError>("squeeze", "mode ", position, " has extent ", mode.extent,
                      "; only a leaf of extent 1 can go");
  builder.modes(modes);
  return builder.finish();
}

Layout unsqueeze_layout(const Layout& layout, Index dim) {
  const std::size_t position = mode_position("unsqueeze", dim, layout.rank() + 1);
  detail::ModeReader modes(layout);
  detail::LayoutBuilder builder;
  while (modes.left() > layout.rank() - position) builder.mode(modes);
  builder.leaf(1, 0);
  builder.modes(modes);
  return builder.finish();
}

void check_broadcast_dimensions(const Layout& layout, const Shape& target,
                                std::span<const Index> broadcast_dimensions) {
  if (broadcast_dimensions.size() != layout.rank())
    raise<ValueError>("broadcast_in_dim", "broadcast_dimensions needs one position per source mode: got ",
                      broadcast_dimensions.size(), " for rank ", layout.rank());
  for (const Index position : broadcast_dimensions)
    if (position < 0 || position >= static_cast<Index>(target.rank()))
      raise<ValueError>("broadcast_in_dim", "a position is out of range: ", position, "; the target has ",
                        target.rank(), " modes, counted from 0");
  if (std::adjacent_find(broadcast_dimensions.begin(), broadcast_dimensions.end(), std::greater_equal<>()) !=
      broadcast_dimensions.end())
    raise<ValueError>("broadcast_in_dim",
                      "broadcast_dimensions must be strictly increasing; permute the tensor first to "
                      "reorder its modes");
}

}  // namespace orlop::inline v0
