// Rules that a compound representation must pass (M202, M204, M205).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "orlop/base/object.hpp"
#include "orlop/dtype/dtype.hpp"

namespace orlop::inline v0 {

/// The extent that takes in a whole level.
struct WholeExtent {
  friend bool operator==(WholeExtent, WholeExtent) = default;
};
inline constexpr WholeExtent Whole{};

/// How many coordinates one scale covers: a number ≥ 1, or Whole.
class ORLOP_API BlockExtent {
 public:
  /// ValueError where `count` < 1.
  BlockExtent(Index count);
  BlockExtent(int count) : BlockExtent(Index{count}) {}
  constexpr BlockExtent(WholeExtent) noexcept : count_(0) {}

  [[nodiscard]] constexpr bool is_whole() const noexcept { return count_ == 0; }
  /// The number; only where it is not Whole.
  [[nodiscard]] constexpr Index count() const noexcept { return count_; }
  /// `32` or `Whole`.
  [[nodiscard]] std::string to_string() const;
  void append_to(Structure& structure) const;
  friend bool operator==(BlockExtent, BlockExtent) = default;

 private:
  Index count_;  // 0 stands for Whole
};

/// What a rule may ask about the representation it validates. The layers above derive from it and add the
/// layouts themselves; level i is the domain of adjacent layout i, level i+1 its codomain.
class ORLOP_API RepresentationValidationContext {
 public:
  RepresentationValidationContext() = default;
  RepresentationValidationContext(const RepresentationValidationContext&) = delete;
  RepresentationValidationContext& operator=(const RepresentationValidationContext&) = delete;
  virtual ~RepresentationValidationContext();

  [[nodiscard]] virtual const DType& logical_dtype() const = 0;
  /// The dtype of each plane's carrier.
  [[nodiscard]] virtual std::span<const DTypeRef> storage_dtypes() const = 0;
  [[nodiscard]] virtual Index adjacent_count() const = 0;
  /// The number of coordinates of a level, 0 ≤ level ≤ adjacent_count().
  [[nodiscard]] virtual Index level_size(Index level) const = 0;
  /// How many coordinates of level `edge` map to each one of level `edge + 1` by adjacent layout `edge`;
  /// nothing where that differs or a coordinate is missed (M309).
  [[nodiscard]] virtual std::optional<Index> uniform_preimage_extent(Index edge) const = 0;
};

/// One condition on the planes of a compound value. Immutable; equality is identity.
class ORLOP_API RepresentationRule : public Object {
 public:
  /// Returns, or raises what is wrong.
  virtual void validate(const RepresentationValidationContext& context) const = 0;
  /// (module, qualified name, extension).
  [[nodiscard]] virtual Structure structure() const = 0;
};

/// Adjacent layout `level` maps exactly `extent` coordinates of its level to each one of the next (M205).
class ORLOP_API LevelExtent final : public RepresentationRule {
 public:
  /// ValueError where `level` < 0.
  LevelExtent(Index level, BlockExtent extent);

  [[nodiscard]] Index level() const noexcept { return level_; }
  [[nodiscard]] BlockExtent extent() const noexcept { return extent_; }
  void validate(const RepresentationValidationContext& context) const override;
  [[nodiscard]] Structure structure() const override;

 private:
  Index level_;
  BlockExtent extent_;
};

}  // namespace orlop::inline v0
