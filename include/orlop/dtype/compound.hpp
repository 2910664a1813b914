// Compound and block-scaled dtypes: values spread over several planes of simple dtypes (M201–M206).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "orlop/dtype/representation.hpp"

namespace orlop::inline v0 {

/// A dtype whose plane i lives in its own carrier of dtype `simple_types()[i]`. Derive to define one.
class ORLOP_API CompoundDType : public DType {
 public:
  struct Options {
    CategoryRef supertype = {};
    std::vector<SimpleRef> simple_types;
    std::vector<Ref<const RepresentationRule>> representation_rules = {};
  };
  [[nodiscard]] static std::vector<const CompoundDType*> registered();
  [[nodiscard]] static const CompoundDType& from_name(std::string_view name);

  [[nodiscard]] std::span<const SimpleRef> simple_types() const noexcept { return simple_types_; }
  /// The number of planes, each in a carrier of its own.
  [[nodiscard]] Index num_carriers() const noexcept { return static_cast<Index>(simple_types_.size()); }
  [[nodiscard]] std::span<const Ref<const RepresentationRule>> representation_rules()
      const noexcept override {
    return representation_rules_;
  }

 protected:
  /// ValueError: name, no plane. TypeError: a missing plane or rule.
  CompoundDType(std::string name, Options options);
  void append_structure(Structure& structure) const override;
  [[nodiscard]] std::string_view class_name() const noexcept override { return "CompoundDType"; }

 private:
  std::vector<SimpleRef> simple_types_;
  std::vector<Ref<const RepresentationRule>> representation_rules_;
};

/// One level of scales: each `scale` covers `block` coordinates of the level below.
struct ORLOP_API Level {
  /// TypeError without a scale.
  Level(SimpleRef scale, BlockExtent block);
  SimpleRef scale;
  BlockExtent block;

  [[nodiscard]] bool is_whole() const noexcept { return block.is_whole(); }
  /// `Level(scale=SimpleDType('E8M0'), block=32)`.
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Level&, const Level&) = default;
};

/// Bits per element where one scale serves the whole tensor: `constant` + `whole_scale_bits` / element count.
struct ORLOP_API SymbolicBits {
  double constant;
  Index whole_scale_bits;

  /// ValueError where `element_count` < 1.
  [[nodiscard]] double evaluate(Index element_count) const;
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const SymbolicBits&, const SymbolicBits&) = default;
};

/// Value = element × one scale per level, `levels` innermost first; planes are the element, then the scales.
class ORLOP_API BlockScaledDType : public CompoundDType {
 public:
  struct Options {
    SimpleRef element;
    std::vector<Level> levels;
  };
  /// Registers a format. Errors: TypeError without an element; ValueError: no level, a Whole level that is
  /// not the last, the name, or a structure that already has a name.
  static const BlockScaledDType& make(const std::string& name, Options options);
  [[nodiscard]] static std::vector<const BlockScaledDType*> registered();
  [[nodiscard]] static const BlockScaledDType& from_name(std::string_view name);

  [[nodiscard]] const SimpleDType& element() const noexcept { return *simple_types()[0]; }
  [[nodiscard]] std::span<const Level> levels() const noexcept { return levels_; }
  /// The number of levels whose block is a number.
  [[nodiscard]] Index num_axes() const noexcept;
  [[nodiscard]] std::variant<double, SymbolicBits> bits_per_element() const noexcept;

 protected:
  BlockScaledDType(const std::string& name, Options options);
  void append_structure(Structure& structure) const override;
  [[nodiscard]] std::string_view class_name() const noexcept override { return "BlockScaledDType"; }

 private:
  std::vector<Level> levels_;
};

}  // namespace orlop::inline v0
