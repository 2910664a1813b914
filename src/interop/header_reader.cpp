// Characters, numbers and strings of array headers.
#include "interop/header_reader.hpp"

#include <array>

namespace orlop::inline v0 {

namespace {

void append_utf8(std::string& out, unsigned code) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | ((code >> shift) & 0x3FU)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0U | (code >> 6U));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0U | (code >> 12U));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0U | (code >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Bytes of the well-formed UTF-8 character at the start of `text`, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (length == 0 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  // Overlong forms, surrogates and codes beyond Unicode show in the second byte.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

void HeaderReader::refuse(std::string_view problem) const {
  raise<ValueError>(what_, "the header of '", path_, "' is malformed at byte ",
                    offset_ + static_cast<Index>(position_), ": ", problem);
}

void HeaderReader::skip_blanks() {
  constexpr std::string_view blanks = " \t\r\n";
  while (position_ < text_.size() && blanks.find(text_[position_]) != std::string_view::npos) ++position_;
}

char HeaderReader::peek() {
  skip_blanks();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool HeaderReader::accept(char wanted) { return accept(std::string_view(&wanted, 1)); }

bool HeaderReader::accept(std::string_view wanted) {
  skip_blanks();
  if (!text_.substr(position_).starts_with(wanted)) return false;
  position_ += wanted.size();
  return true;
}

void HeaderReader::expect(char wanted) {
  if (!accept(wanted)) refuse(text("'", wanted, "' is missing"));
}

void HeaderReader::expect_end() {
  skip_blanks();
  if (position_ != text_.size()) refuse("something follows the end");
}

Index HeaderReader::integer() {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!is_digit(peek())) refuse("a number of decimal digits is missing");
  const std::size_t start = position_;
  Index value = 0;
  for (; position_ < text_.size() && is_digit(text_[position_]); ++position_)
    if (__builtin_mul_overflow(value, Index{10}, &value) ||
        __builtin_add_overflow(value, Index{text_[position_] - '0'}, &value))
      refuse("the number leaves 64 bits");
  if (text_[start] == '0' && position_ - start > 1) refuse("the number has leading zeros");
  return value;
}

std::string HeaderReader::python_string() {
  const char quote = peek();
  if (quote != '\'' && quote != '"') refuse("a string is missing");
  const std::size_t start = ++position_;
  while (position_ < text_.size() && text_[position_] != quote) {
    const char c = text_[position_];
    if (c < ' ' || c > '~' || c == '\\') refuse("the string is not plain ASCII");
    ++position_;
  }
  if (position_ == text_.size()) refuse("the string has no end");
  return std::string(text_.substr(start, position_++ - start));
}

unsigned HeaderReader::hexadecimal() {
  unsigned code = 0;
  for (int i = 0; i < 4; ++i, ++position_) {
    constexpr std::string_view digits = "0123456789abcdef";
    char c = position_ < text_.size() ? text_[position_] : '\0';
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    const std::size_t digit = c == '\0' ? std::string_view::npos : digits.find(c);
    if (digit == std::string_view::npos) refuse("\\u needs four hexadecimal digits");
    code = code * 16 + static_cast<unsigned>(digit);
  }
  return code;
}

void HeaderReader::append_escape(std::string& out) {
  constexpr std::string_view escapes = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  const char kind = position_ < text_.size() ? text_[position_++] : '\0';
  if (kind != 'u') {
    const std::size_t found = kind == '\0' ? std::string_view::npos : escapes.find(kind);
    if (found == std::string_view::npos) refuse("the string has an unknown escape");
    out += meanings[found];
    return;
  }
  unsigned code = hexadecimal();
  if (code >= 0xD800 && code < 0xDC00) {
    if (!text_.substr(position_).starts_with("\\u")) refuse("the string has half a surrogate pair");
    position_ += 2;
    const unsigned low = hexadecimal();
    if (low < 0xDC00 || low > 0xDFFF) refuse("the string has half a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code < 0xE000) {
    refuse("the string has half a surrogate pair");
  }
  append_utf8(out, code);
}

std::string HeaderReader::json_string() {
  if (peek() != '"') refuse("a string is missing");
  ++position_;
  std::string out;
  while (position_ < text_.size() && text_[position_] != '"') {
    if (text_[position_] == '\\') {
      ++position_;
      append_escape(out);
      continue;
    }
    const std::size_t length = utf8_length(text_.substr(position_));
    if (length == 0) refuse("the string is no UTF-8");
    if (static_cast<unsigned char>(text_[position_]) < 0x20) refuse("the string has a control character");
    out += text_.substr(position_, length);
    position_ += length;
  }
  if (position_ >= text_.size()) refuse("the string has no end");
  ++position_;
  return out;
}

std::string json_quoted(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view digits = "0123456789abcdef";
      out += "\\u00";
      out += digits[static_cast<std::size_t>(c) / 16];
      out += digits[static_cast<std::size_t>(c) % 16];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace orlop::inline v0
