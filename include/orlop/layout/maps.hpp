// Index maps beside layouts: permutations, products, bit swizzles and opaque compositions (M319).
#pragma once

#include <vector>

#include "orlop/layout/index_map.hpp"

namespace orlop::inline v0 {

/// The value at ordinal i is the i-th entry. Two permutations compose to a permutation.
class ORLOP_API Permutation final : public StoredIndexMap {
 public:
  /// ValueError ‹at least one entry›, ‹non-negative›, ‹smaller than codomain_size›, ‹pairwise distinct›.
  Permutation(std::vector<Index> values, Index codomain_size);
  [[nodiscard]] const std::vector<Index>& values() const noexcept { return values_; }
  [[nodiscard]] Index index_ordinal(Index ordinal) const override {
    return values_[static_cast<std::size_t>(ordinal)];
  }
  [[nodiscard]] Ref<IndexMap> compose_with(const Ref<IndexMap>& inner) const override;
  [[nodiscard]] bool composition_is_identity() const override;

 private:
  std::vector<Index> values_;
};

/// One domain mode per child; the value is the ordinal of the children's values in target_shape(). Products
/// of as many children, where each pair fits, compose child by child.
class ORLOP_API Product final : public StoredIndexMap {
 public:
  /// ValueError unless there are two children or more; OverflowError where size or codomain leaves 64 bits.
  explicit Product(std::vector<Ref<IndexMap>> children);
  /// RuntimeError after the cycle collector took the product apart.
  [[nodiscard]] const std::vector<Ref<IndexMap>>& children() const;
  /// The children's codomain sizes.
  [[nodiscard]] const Shape& target_shape() const noexcept { return target_shape_; }
  [[nodiscard]] Index index_ordinal(Index ordinal) const override;
  [[nodiscard]] Ref<IndexMap> compose_with(const Ref<IndexMap>& inner) const override;
  [[nodiscard]] std::optional<bool> composition_injectivity() const override;
  [[nodiscard]] bool composition_is_identity() const override;
  void visit_references(ReferenceVisitor& visitor) const override;
  void drop_references() noexcept override;

 private:
  std::vector<Ref<IndexMap>> children_;
  Shape target_shape_;
};

/// One step of a Swizzle: for shift > 0 the field of `bits` bits at `base` is xored with the one at base +
/// shift; for shift < 0 the field at base - shift is xored with the one at `base`.
class ORLOP_API SwizzleStage {
 public:
  /// ValueError ‹bits must be positive›, ‹base must be non-negative›, ‹shift must be non-zero›, ‹must not
  /// overlap›.
  SwizzleStage(Index bits, Index base, Index shift);
  [[nodiscard]] Index bits() const noexcept { return bits_; }
  [[nodiscard]] Index base() const noexcept { return base_; }
  [[nodiscard]] Index shift() const noexcept { return shift_; }
  /// The stage's effect on an ordinal; the stage must fit into 63 bits (see Swizzle).
  [[nodiscard]] Index apply(Index ordinal) const noexcept;
  /// Whether both fields lie within `width` bits.
  [[nodiscard]] bool fits(Index width) const noexcept;
  friend bool operator==(const SwizzleStage&, const SwizzleStage&) noexcept = default;

 private:
  Index bits_;
  Index base_;
  Index shift_;
};

/// A bijection of the ordinals of a shape whose size is a power of two, stage after stage. Swizzles of equal
/// sizes compose to one; equal neighbouring stages cancel.
class ORLOP_API Swizzle final : public StoredIndexMap {
 public:
  /// ValueError ‹power of two›, ‹exceed the domain bit width›.
  Swizzle(const Shape& shape, std::vector<SwizzleStage> stages);
  [[nodiscard]] const std::vector<SwizzleStage>& stages() const noexcept { return stages_; }
  [[nodiscard]] Index index_ordinal(Index ordinal) const override;
  [[nodiscard]] Ref<IndexMap> compose_with(const Ref<IndexMap>& inner) const override;
  [[nodiscard]] bool composition_is_identity() const override { return stages_.empty(); }

 private:
  std::vector<SwizzleStage> stages_;
};

/// An opaque composition: a chain of maps, innermost first, evaluated on demand. No link is itself a
/// composition.
class ORLOP_API Composition final : public StoredIndexMap {
 public:
  explicit Composition(std::vector<Ref<IndexMap>> chain);
  /// RuntimeError after the cycle collector took the chain apart.
  [[nodiscard]] const std::vector<Ref<IndexMap>>& chain() const;
  [[nodiscard]] Index index_ordinal(Index ordinal) const override;
  void visit_references(ReferenceVisitor& visitor) const override;
  void drop_references() noexcept override;

 private:
  std::vector<Ref<IndexMap>> chain_;
};

}  // namespace orlop::inline v0
