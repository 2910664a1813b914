// One real number as a caller gave it or as a slot holds it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

  Scalar(bool value) : value_(value) {}
  Scalar(std::int32_t value) : value_(std::int64_t{value}) {}
  Scalar(std::int64_t value) : value_(value) {}
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
  /// As Python writes it.
  [[nodiscard]] std::string to_string() const;
  /// Same alternative and same value (a NaN differs from itself).
  friend bool operator==(const Scalar&, const Scalar&) = default;

 private:
  std::variant<bool, std::int64_t, float, double, BigInteger> value_;
};

}  // namespace orlop::inline v0
