// The one builder of texts: every error message and representation is put together here.
#pragma once

#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "orlop/base/export.hpp"

namespace orlop::inline v0 {

/// Position, extent or slot count; 64 bits everywhere.
using Index = std::int64_t;

namespace detail {

inline void append_text(std::string& out, std::string_view part) { out += part; }
inline void append_text(std::string& out, char part) { out += part; }
template <std::same_as<bool> T>  // a template, so that a character array never decays into it
void append_text(std::string& out, T part) {
  out += part ? "True" : "False";
}
ORLOP_API void append_text(std::string& out, double part);
ORLOP_API void append_text(std::string& out, float part);
template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>)
void append_text(std::string& out, T part) {
  out += std::to_string(part);
}
template <class T>
  requires requires(const T& value) {
    { value.to_string() } -> std::convertible_to<std::string>;
  }
void append_text(std::string& out, const T& part) {
  out += part.to_string();
}

}  // namespace detail

/// Everything with `to_string()` also prints to a stream: `std::cout << tensor.layout()`.
template <class T>
  requires requires(const T& value) {
    { value.to_string() } -> std::convertible_to<std::string>;
  }
std::ostream& operator<<(std::ostream& out, const T& value) {
  return out << value.to_string();
}

/// Concatenates the parts: strings, characters, numbers, and anything with `to_string()`.
template <class... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::string out;
  (detail::append_text(out, parts), ...);
  return out;
}

/// A message in the house pattern: `[what] what was wrong: actual values; what is allowed; what to do`.
template <class... Parts>
[[nodiscard]] std::string message(std::string_view what, const Parts&... parts) {
  return text('[', what, "] ", parts...);
}

}  // namespace orlop::inline v0
