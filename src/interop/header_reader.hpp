// A strict reader of the small texts at the head of array files: one position, no recursion, every refusal
// with the place in the file.
#pragma once

#include <string>
#include <string_view>

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

class HeaderReader {
 public:
  /// `text` starts at byte `offset` of the file `path`; `what` names the call.
  HeaderReader(std::string_view what, const std::string& path, std::string_view text, Index offset)
      : what_(what), path_(path), text_(text), offset_(offset) {}

  /// Whether the next character after blanks is `wanted`; it is then taken.
  bool accept(char wanted);
  /// The same for a word.
  bool accept(std::string_view wanted);
  /// Takes `wanted` or refuses.
  void expect(char wanted);
  /// Only blanks are left.
  void expect_end();
  /// A character after blanks, untaken; NUL at the end.
  [[nodiscard]] char peek();

  /// Decimal digits without leading zeros, below 2^63.
  [[nodiscard]] Index integer();
  /// A Python string in either quotes, printable ASCII without escapes.
  [[nodiscard]] std::string python_string();
  /// A JSON string: valid UTF-8, all escapes, no lone surrogate.
  [[nodiscard]] std::string json_string();

  /// ValueError: `problem` at the present place.
  [[noreturn]] void refuse(std::string_view problem) const;

 private:
  void skip_blanks();
  [[nodiscard]] unsigned hexadecimal();
  void append_escape(std::string& out);

  std::string_view what_;
  const std::string& path_;
  std::string_view text_;
  Index offset_;
  std::size_t position_ = 0;
};

/// `value` as a JSON string with its quotes; valid UTF-8 stays as it is.
[[nodiscard]] std::string json_quoted(std::string_view value);

}  // namespace orlop::inline v0
