// The parts of a compound tensor: one subtensor per plane and the layouts between neighbouring planes (M406).
#pragma once

#include <vector>

#include "orlop/dtype/representation.hpp"
#include "orlop/layout/layout.hpp"
#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

/// One plane: element i of `layout` lives in slot `offset + layout(i)` of `carrier`.
struct Subtensor {
  const DType* dtype;
  Ref<Carrier> carrier;
  Index offset;
  Layout layout;
};

/// What a tensor refers to. `adjacent_layouts[i]` maps a coordinate of plane i to an ordinal of plane i + 1.
struct TensorRepresentation {
  const DType* logical_dtype;
  std::vector<Subtensor> subtensors;
  std::vector<Layout> adjacent_layouts;
};

/// What the rules of a compound dtype see of a representation. A rule written in C++ casts its context to
/// this class to read the layouts; a rule written in Python is shown the same facts.
class ORLOP_API RepresentationContext final : public RepresentationValidationContext {
 public:
  explicit RepresentationContext(const TensorRepresentation& representation);
  [[nodiscard]] const TensorRepresentation& representation() const noexcept { return representation_; }
  [[nodiscard]] const DType& logical_dtype() const override { return *representation_.logical_dtype; }
  [[nodiscard]] std::span<const DTypeRef> storage_dtypes() const override { return storage_dtypes_; }
  [[nodiscard]] Index adjacent_count() const override;
  [[nodiscard]] Index level_size(Index level) const override;
  [[nodiscard]] std::optional<Index> uniform_preimage_extent(Index edge) const override;

 private:
  const TensorRepresentation& representation_;
  std::vector<DTypeRef> storage_dtypes_;
};

/// Checks a representation in the order of M407; the first failure is the one that is reported.
ORLOP_API void validate_representation(const TensorRepresentation& representation);

/// The steps of validate_representation in their order, for callers that make the parts one by one.
class ORLOP_API RepresentationCheck {
 public:
  /// The storage schema and both counts.
  RepresentationCheck(const DType& logical_dtype, std::size_t subtensors, std::size_t adjacent_layouts);

  void check_dtype(std::size_t level, const DType& dtype) const;
  /// Live, and of exactly the level's storage dtype.
  void check_carrier(std::size_t level, const Carrier& carrier) const;
  /// Bounds, and the exact class of level 0.
  void check_placement(std::size_t level, const Subtensor& subtensor, const Subtensor& first) const;
  void check_adjacent(std::size_t edge, const Layout& adjacent, const Layout& source,
                      const Layout& target) const;
  /// The rules of the logical dtype.
  static void check_rules(const TensorRepresentation& representation);

 private:
  const DType& logical_;
  std::vector<const DType*> schema_;
};

/// The checks of one placement (M401): live carrier, storable dtype, offset, and the layout within the
/// carrier.
ORLOP_API void validate_placement(const Carrier& carrier, Index offset, const Layout& layout);

}  // namespace orlop::inline v0
