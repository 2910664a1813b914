// IndexMap: any function from the coordinates of a shape into 0 … codomain_size - 1 (M315, M319).
#pragma once

#include "orlop/base/object.hpp"
#include "orlop/layout/shape.hpp"

namespace orlop::inline v0 {

/// Base of Layout, Permutation, Product and Swizzle, and of maps from outside. Immutable. Maps other than
/// layouts are equal by identity and live behind a `Ref`.
class ORLOP_API IndexMap : public Object {
 public:
  [[nodiscard]] virtual Shape shape() const = 0;
  /// One more than the greatest possible value.
  [[nodiscard]] virtual Index codomain_size() const = 0;
  /// Whether no two ordinals share a value; nothing where that is not known.
  [[nodiscard]] virtual std::optional<bool> injectivity() const = 0;

  /// The value at an ordinal or coordinate. ValueError ‹Key is not in domain of shape›.
  [[nodiscard]] virtual Index index(const Coordinate& coordinate) const;
  /// The number of ordinals.
  [[nodiscard]] Index domain_size() const { return shape().size(); }

  /// The map q ↦ outer(inner(q)) (M315). ValueError where inner's codomain exceeds outer's size.
  [[nodiscard]] static Ref<IndexMap> compose(const Ref<IndexMap>& outer, const Ref<IndexMap>& inner);

  /// The value at an ordinal of the domain. The caller has checked the ordinal.
  [[nodiscard]] virtual Index index_ordinal(Index ordinal) const = 0;
  /// The composition with `inner`, whose codomain fits; null (the default) where only the opaque one will do.
  [[nodiscard]] virtual Ref<IndexMap> compose_with(const Ref<IndexMap>& inner) const;
  /// The opaque composition: inner's shape, outer's codomain, evaluated on demand.
  [[nodiscard]] static Ref<IndexMap> compose_opaquely(const Ref<IndexMap>& outer, const Ref<IndexMap>& inner);
  /// What a composition may rely on: by default injectivity() and no identity.
  [[nodiscard]] virtual std::optional<bool> composition_injectivity() const { return injectivity(); }
  [[nodiscard]] virtual bool composition_is_identity() const { return false; }

 protected:
  IndexMap() = default;
  IndexMap(const IndexMap&) = default;
  IndexMap& operator=(const IndexMap&) = default;
};

/// An IndexMap that stores its three facts: the base for maps from outside.
class ORLOP_API StoredIndexMap : public IndexMap {
 public:
  /// ValueError where codomain_size < 1, OverflowError where the shape's size leaves 64 bits.
  StoredIndexMap(Shape shape, Index codomain_size, std::optional<bool> is_injective);
  [[nodiscard]] Shape shape() const override { return shape_; }
  [[nodiscard]] Index codomain_size() const override { return codomain_size_; }
  [[nodiscard]] std::optional<bool> injectivity() const override { return is_injective_; }

 private:
  Shape shape_;
  Index codomain_size_;
  std::optional<bool> is_injective_;
};

}  // namespace orlop::inline v0
