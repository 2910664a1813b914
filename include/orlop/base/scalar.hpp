// One real number as a caller gave it or as a slot holds it.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "orlop/base/export.hpp"

namespace orlop::inline v0 {

/// A real number: a bool, an integer, a float. It keeps what the caller meant, so that the receiver's
/// dtype decides the one rounding (see `normalize` in storage/normalize.hpp).
class ORLOP_API Scalar {
 public:
  /// An integer outside 64 bits: only its binary32 rounding matters to anyone.
  struct BigInteger {
    float rounded;
    friend bool operator==(const BigInteger&, const BigInteger&) = default;
  };

  /// The integer 0.
  Scalar() : value_(std::int64_t{0}) {}
  template <std::same_as<bool> T>  // a template, so that no pointer decays into it
  Scalar(T value) : value_(value) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Scalar(T value) : value_(static_cast<std::int64_t>(value)) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t))
      if (value > std::numeric_limits<std::int64_t>::max()) value_ = BigInteger{static_cast<float>(value)};
  }
  Scalar(float value) : value_(value) {}
  Scalar(double value) : value_(value) {}
  Scalar(BigInteger value) : value_(value) {}

  [[nodiscard]] bool is_bool() const { return std::holds_alternative<bool>(value_); }
  /// Integral and not a bool.
  [[nodiscard]] bool is_integer() const {
    return std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<BigInteger>(value_);
  }
  /// The value as a bool; only for is_bool().
  [[nodiscard]] bool as_bool() const { return std::get<bool>(value_); }
  /// The exact integer where it is one of 64 bits (not a bool), else nothing.
  [[nodiscard]] std::optional<std::int64_t> as_integer() const {
    if (const auto* integer = std::get_if<std::int64_t>(&value_)) return *integer;
    return std::nullopt;
  }
  /// One rounding of the exact value to binary32, ties to even, overflow to an infinity.
  [[nodiscard]] float to_binary32() const;
  /// One rounding of the value to binary64.
  [[nodiscard]] double to_binary64() const;
  /// The value as a number of this type, `float(x.at(0))`: floating types take every value, integer types no
  /// fraction, bool nothing but a bool (TypeError); OverflowError for an integer that does not fit.
  template <class T>
    requires std::is_arithmetic_v<T>
  explicit operator T() const {
    if constexpr (std::is_same_v<T, bool>) {
      if (!is_bool()) refuse("bool");
      return as_bool();
    } else if constexpr (std::is_integral_v<T>) {
      const std::int64_t integer = to_integer(std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
      return static_cast<T>(integer);
    } else {
      return static_cast<T>(to_binary64());
    }
  }
  /// As Python writes it.
  [[nodiscard]] std::string to_string() const;
  /// Same alternative and same value (a NaN differs from itself).
  friend bool operator==(const Scalar&, const Scalar&) = default;
  /// With a number: the same value, whatever its type.
  template <class T>
    requires std::is_arithmetic_v<T>
  friend bool operator==(const Scalar& scalar, T number) {
    return scalar.exact_value() == static_cast<long double>(number);
  }

 private:
  [[nodiscard]] long double exact_value() const;
  /// TypeError for what is neither integer nor bool, OverflowError outside of the bounds.
  [[nodiscard]] std::int64_t to_integer(long double least, long double greatest) const;
  [[noreturn]] void refuse(std::string_view type) const;

  std::variant<bool, std::int64_t, float, double, BigInteger> value_;
};

}  // namespace orlop::inline v0
