// Shape and Stride: immutable nests of extents and of strides (M302–M304).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "orlop/base/small_vector.hpp"
#include "orlop/layout/nested.hpp"

namespace orlop::inline v0 {

namespace detail {

/// The profile token of a leaf; a token n >= 0 opens a nested mode of n modes.
inline constexpr std::int32_t leaf_token = -1;

/// A nest as flat data: the leaves depth-first and, unless every top-level mode is a leaf, the tokens of all
/// modes in preorder.
struct Nest {
  SmallVector<Index, 4> leaves;
  std::vector<std::int32_t> profile;
  std::size_t rank = 0;
  std::size_t depth = 1;
  Index size = 1;  // of a Shape: the product of the leaves, or -1 where it leaves 64 bits

  [[nodiscard]] bool same_profile(const Nest& other) const noexcept {
    return rank == other.rank && leaves.size() == other.leaves.size() && profile == other.profile;
  }
};

/// The nest as nested lists, the top-level modes outermost.
[[nodiscard]] ORLOP_API Coordinate to_nested(const Nest& nest);

using NestData = std::shared_ptr<const Nest>;

/// The part that Shape, Stride and Tree share.
class ORLOP_API NestValue {
 public:
  /// Top-level modes.
  [[nodiscard]] std::size_t rank() const noexcept { return nest_->rank; }
  /// Levels of nesting: 1 where every top-level mode is a leaf.
  [[nodiscard]] std::size_t depth() const noexcept { return nest_->depth; }
  /// Every top-level mode is a leaf.
  [[nodiscard]] bool is_flat() const noexcept { return nest_->profile.empty(); }
  /// At most one mode, and that one a leaf.
  [[nodiscard]] bool is_int() const noexcept { return is_flat() && rank() <= 1; }
  /// The leaves, depth-first.
  [[nodiscard]] std::span<const Index> leaves() const noexcept { return nest_->leaves; }
  /// The nest as nested lists.
  [[nodiscard]] Coordinate top_level() const { return to_nested(*nest_); }
  [[nodiscard]] bool same_profile(const NestValue& other) const noexcept {
    return nest_ == other.nest_ || nest_->same_profile(*other.nest_);
  }
  /// Whether both share their data: a fast test that may say no for equal values.
  [[nodiscard]] bool same_data(const NestValue& other) const noexcept { return nest_ == other.nest_; }
  /// Agrees with equality within one class.
  [[nodiscard]] std::size_t hash() const noexcept;
  [[nodiscard]] const Nest& nest() const noexcept { return *nest_; }

 protected:
  explicit NestValue(NestData nest) noexcept : nest_(std::move(nest)) {}
  [[nodiscard]] bool equal(const NestValue& other) const noexcept {
    return nest_ == other.nest_ || (same_profile(other) && nest_->leaves == other.nest_->leaves);
  }
  NestData nest_;
};

}  // namespace detail

/// Extents, each at least 1, in nested modes. `Shape{2, {3, 4}}` has rank 2 and size 24. Copies share their
/// data.
class ORLOP_API Shape : public detail::NestValue {
 public:
  /// Rank zero.
  Shape();
  /// The modes. ValueError where an extent is below 1 or the nest too deep.
  Shape(std::initializer_list<Coordinate> modes);
  /// A leaf is the one mode, a list is the modes.
  explicit Shape(const Coordinate& modes);
  /// The flat shape of these extents.
  [[nodiscard]] static Shape flat(Sequence<Index> extents);
  /// Internal: takes ready data, of which extents and size are checked here.
  explicit Shape(detail::Nest nest);

  /// The product of all extents, 1 for rank zero; OverflowError where it leaves 64 bits.
  [[nodiscard]] Index size() const {
    if (nest_->size < 0) raise_size_overflow();
    return nest_->size;
  }
  /// The size, or nothing where it leaves 64 bits.
  [[nodiscard]] std::optional<Index> try_size() const noexcept {
    return nest_->size < 0 ? std::nullopt : std::optional<Index>(nest_->size);
  }
  /// The one leaf's extent; ValueError unless there is exactly one leaf.
  [[nodiscard]] Index to_integer() const;
  /// Top-level mode `i`, where a nested mode's children become the top modes. IndexError.
  [[nodiscard]] Shape mode(std::size_t i) const;
  /// These top-level modes, in this order, each as it is. IndexError.
  [[nodiscard]] Shape select(Sequence<std::size_t> modes) const;
  /// The coordinate of an ordinal. ValueError out of range.
  [[nodiscard]] Coordinate decode(Index ordinal) const;
  /// The ordinal of a coordinate: ValueError where it does not fit, OverflowError where the ordinal leaves 64
  /// bits.
  [[nodiscard]] Index encode(const Coordinate& coordinate) const;
  /// The coordinates of the leaves, depth-first, or nothing where `coordinate` does not fit.
  [[nodiscard]] std::optional<SmallVector<Index, 4>> leaf_coordinates(const Coordinate& coordinate) const;

  /// The modes of both, and `b` as one mode of `a` (see Layout::append).
  [[nodiscard]] static Shape concat(const Shape& a, const Shape& b);
  [[nodiscard]] static Shape append(const Shape& a, const Shape& b);

  /// `Shape<(2, (3, 4))>`
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Shape& a, const Shape& b) noexcept { return a.equal(b); }

 private:
  [[noreturn]] void raise_size_overflow() const;
};

/// Strides, each at least 0, in nested modes; otherwise as Shape.
class ORLOP_API Stride : public detail::NestValue {
 public:
  Stride();
  /// The modes. ValueError where a stride is negative or the nest too deep.
  Stride(std::initializer_list<Coordinate> modes);
  explicit Stride(const Coordinate& modes);
  [[nodiscard]] static Stride flat(Sequence<Index> strides);
  /// Internal: takes ready data, of which the strides are checked here.
  explicit Stride(detail::Nest nest);

  [[nodiscard]] Index to_integer() const;
  [[nodiscard]] Stride mode(std::size_t i) const;
  [[nodiscard]] Stride select(Sequence<std::size_t> modes) const;
  [[nodiscard]] static Stride concat(const Stride& a, const Stride& b);
  [[nodiscard]] static Stride append(const Stride& a, const Stride& b);
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Stride& a, const Stride& b) noexcept { return a.equal(b); }
};

}  // namespace orlop::inline v0
