// The written form of a descriptor's meaning: a tree of strings, kept flat so that any depth is safe.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/base/export.hpp"
#include "orlop/base/message.hpp"

namespace orlop::inline v0 {

/// The items of one tuple of M111's tree: leaves such as `int:5` or `str:x`, and nested tuples between `open`
/// and `close`. Two descriptors mean the same exactly when their structures are equal.
class ORLOP_API Structure {
 public:
  enum class Token : std::uint8_t { open, close, leaf };
  struct Item {
    Token token;
    std::string leaf;
    friend auto operator<=>(const Item&, const Item&) = default;
  };

  Structure& open();
  Structure& close();
  /// A leaf as it is, with its prefix.
  Structure& leaf(std::string leaf);
  Structure& string(std::string_view value) { return leaf(text("str:", value)); }
  Structure& integer(Index value) { return leaf(text("int:", value)); }
  Structure& boolean(bool value) { return leaf(text("bool:", value)); }
  Structure& none() { return leaf("none"); }
  Structure& whole() { return leaf("whole"); }
  /// All items of `other`, as they stand.
  Structure& append(const Structure& other);

  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }
  /// For messages, much as Python writes the tuple.
  [[nodiscard]] std::string to_string() const;

  friend auto operator<=>(const Structure&, const Structure&) = default;

 private:
  std::vector<Item> items_;
};

}  // namespace orlop::inline v0
