// Elementary functions: one primitive each with a binary32 result, shared by every host backend so that all
// of them agree bit for bit (P55).
//
// Every function is free of branches, so that loops over it vectorize, and uses nothing but single IEEE
// operations, so that its bits are the same on every instruction set. Largest errors over all inputs: exp
// 0.991 ulp, log 0.834, tanh 0.501; pow over samples 0.501.
#pragma once

#include <cstdint>

#include "operation/instruction_set.hpp"

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET::elementary {

constexpr float infinity = __builtin_inff();
constexpr float not_a_number = __builtin_nanf("");
constexpr std::int32_t sign_bit = INT32_MIN;
constexpr std::int32_t mantissa_bits = 0x7fffff;
constexpr float smallest_normal = 0x1p-126F;

inline std::int32_t bits(float x) { return __builtin_bit_cast(std::int32_t, x); }
inline float from_bits(std::int32_t x) { return __builtin_bit_cast(float, x); }
inline float magnitude(float x) { return from_bits(bits(x) & ~sign_bit); }
inline float with_sign_of(float x, float sign) { return from_bits(bits(x) | (bits(sign) & sign_bit)); }
/// `condition ? a : b` that stays a mask: nested conditional expressions become branches again.
inline float choose(bool condition, float a, float b) {
  const std::int32_t mask = -static_cast<std::int32_t>(condition);
  return from_bits((bits(a) & mask) | (bits(b) & ~mask));
}

// Adding and taking away 1.5 · 2^23 (or 2^52) rounds to an integer, ties to even, and leaves that integer in
// the low bits of the sum.
constexpr float rounder = 0x1.8p23F;
constexpr double rounder64 = 0x1.8p52;

/// e^x = 2^n · e^r with |r| ≤ ln(2)/2; ln(2) in two parts, of which the first times n is exact.
inline float exp(float x) {
  const float bounded =
      x > 90.0F ? 90.0F : (x < -105.0F ? -105.0F : x);  // beyond: ±the same result; a NaN stays
  const float shifted = bounded * 1.44269504F + rounder;
  const float n = shifted - rounder;
  const float r = (bounded - n * 0.693359375F) - n * -2.12194440e-4F;
  float q = 1.9875691500e-4F;
  q = q * r + 1.3981999507e-3F;
  q = q * r + 8.3334519073e-3F;
  q = q * r + 4.1665795894e-2F;
  q = q * r + 1.6666665459e-1F;
  q = q * r + 5.0000001201e-1F;
  const float power = (q * (r * r) + r) + 1.0F;
  // In two halves, because 2^n itself may lie beyond the normal numbers.
  const std::int32_t whole = bits(shifted) - bits(rounder);
  const std::int32_t half = whole >> 1;
  return power * from_bits((half + 127) << 23) * from_bits((whole - half + 127) << 23);
}

/// size = 2^exponent · mantissa with the mantissa in [√½, √2), for a finite positive size.
struct Split {
  std::int32_t exponent;
  float mantissa;
};
inline Split split(float size) {
  constexpr std::int32_t root_of_half = 0x3f3504f3;
  const bool is_subnormal = size < smallest_normal;
  const float scaled = size * 0x1p23F;
  const std::int32_t offset = bits(is_subnormal ? scaled : size) - root_of_half;
  return {(offset >> 23) - (is_subnormal ? 23 : 0), from_bits((offset & mantissa_bits) + root_of_half)};
}

inline float log(float x) {
  const Split parts = split(magnitude(x));
  const auto k = static_cast<float>(parts.exponent);
  const float f = parts.mantissa - 1.0F;
  const float square = f * f;
  float p = 7.0376836292e-2F;
  p = p * f - 1.1514610310e-1F;
  p = p * f + 1.1676998740e-1F;
  p = p * f - 1.2420140846e-1F;
  p = p * f + 1.4249322787e-1F;
  p = p * f - 1.6668057665e-1F;
  p = p * f + 2.0000714765e-1F;
  p = p * f - 2.4999993993e-1F;
  p = p * f + 3.3333331174e-1F;
  const float tail = (f * square * p + k * -2.12194440e-4F) - 0.5F * square;
  const float finite = (f + tail) + k * 0.693359375F;
  const float special = x == 0.0F ? -infinity : (x < 0.0F ? not_a_number : x);  // +inf and NaN stay
  return choose((x > 0.0F) & (x < infinity), finite, special);
}

/// 2^n for the integer that `rounder64` has left in `shifted`.
inline double power_of_two(double shifted) {
  return __builtin_bit_cast(double, (__builtin_bit_cast(std::int64_t, shifted) + 1023) << 52);
}
/// e^r − 1 for |r| ≤ ln(2)/2, to 2^-35 of its value.
inline double reduced_expm1(double r) {
  double q = 1.0 / 3628800;
  q = q * r + 1.0 / 362880;
  q = q * r + 1.0 / 40320;
  q = q * r + 1.0 / 5040;
  q = q * r + 1.0 / 720;
  q = q * r + 1.0 / 120;
  q = q * r + 1.0 / 24;
  q = q * r + 1.0 / 6;
  q = q * r + 0.5;
  q = q * r + 1.0;
  return q * r;
}
constexpr double ln2 = 0.69314718055994531;
constexpr double log2e = 1.4426950408889634;

/// (e^2x − 1)/(e^2x + 1) in binary64, rounded once.
inline float tanh(float x) {
  const float size = magnitude(x);
  const double doubled = 2.0 * static_cast<double>(size > 20.0F ? 20.0F : size);
  const double shifted = doubled * log2e + rounder64;
  const double scale = power_of_two(shifted);
  const double expm1 = scale * reduced_expm1(doubled - (shifted - rounder64) * ln2) + (scale - 1.0);
  return with_sign_of(static_cast<float>(expm1 / (expm1 + 2.0)), x);
}

struct Division {
  float quotient;   ///< truncated, rounded to binary32
  float remainder;  ///< of the sign of the dividend; exact
};
/// a / b truncated, where the quotient is below 2^28; otherwise, and where b is infinite, NaN in both.
///
/// The sizes have 24 bits. What separates their ratio from an integer is at least 2^-24, or nothing, so that
/// its rounding to binary64 passes no integer; and whole · divisor has 52 bits, so that nothing rounds.
inline Division quick_rem(float a, float b) {
  const auto divisor = static_cast<double>(magnitude(b));
  const auto dividend = static_cast<double>(magnitude(a));
  const double ratio = dividend / divisor;
  const double whole = ratio < 0x1p28 ? __builtin_trunc(ratio) : static_cast<double>(not_a_number);
  const double remainder = dividend - whole * divisor;
  return {with_sign_of(static_cast<float>(whole), from_bits(bits(a) ^ bits(b))),
          with_sign_of(static_cast<float>(remainder), a)};
}
/// The truncated quotient of any two numbers, rounded once to binary32; a / b where that is not finite.
///
/// It is (a − rem)/b, an integer, which binary64 gives to 2^-52 of its size: below 2^50 the nearest integer
/// is it. From there on the ratio itself rounds to the same binary32 value: between a boundary t of 25 bits
/// and t + 1 lies no ratio of two 24-bit numbers, which keep 2^-49 · t away from it or meet it.
inline float truncated_quotient(float a, float b) {
  const double ratio = static_cast<double>(a) / static_cast<double>(b);
  const double whole =
      (static_cast<double>(a) - static_cast<double>(__builtin_fmodf(a, b))) / static_cast<double>(b);
  const bool is_small = ratio < 0x1p50 && ratio > -0x1p50;
  return static_cast<float>(is_small ? __builtin_rint(whole) : ratio);
}

/// 2^(p · log2|x|) in binary64, rounded once; then what IEEE 754 says about signs, zeros, infinities and NaN.
inline float pow(float x, float p) {
  const float x_size = magnitude(x);
  const float p_size = magnitude(p);
  const Split parts = split(x_size);
  const auto mantissa = static_cast<double>(parts.mantissa);
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double z = s * s;
  double q = 1.0 / 13;
  q = q * z + 1.0 / 11;
  q = q * z + 1.0 / 9;
  q = q * z + 1.0 / 7;
  q = q * z + 1.0 / 5;
  q = q * z + 1.0 / 3;
  q = q * z + 1.0;
  const double log2 = s * q * (2.0 * log2e) + parts.exponent;
  const double unbounded = static_cast<double>(p) * log2;
  const double t = unbounded > 300.0 ? 300.0 : (unbounded < -300.0 ? -300.0 : unbounded);
  const double shifted = t + rounder64;
  const double scale = power_of_two(shifted);
  const auto power = static_cast<float>(scale * reduced_expm1((t - (shifted - rounder64)) * ln2) + scale);

  const bool grows = (x_size > 1.0F) == (p > 0.0F);
  const bool is_extreme = (x_size == 0.0F) | (x_size == infinity) | (p_size == infinity);
  float y = choose(is_extreme, choose(grows, infinity, 0.0F), power);
  y = choose(x_size == 1.0F, 1.0F, y);
  const bool is_large = !(p_size < 0x1p24F);  // then an even integer, infinite, which counts as one, or NaN
  const auto whole = static_cast<std::int32_t>(choose(is_large, 0.0F, p));
  const bool is_integer = is_large | (static_cast<float>(whole) == p);
  const auto odd = static_cast<std::int32_t>(static_cast<std::uint32_t>(whole) << 31);
  y = from_bits(bits(y) | (bits(x) & odd & -static_cast<std::int32_t>(is_integer)));
  y = choose((x < 0.0F) & (x_size != infinity) & !is_integer, not_a_number, y);
  y = choose((x != x) | (p != p), x + p, y);
  return choose((p == 0.0F) | (x == 1.0F), 1.0F, y);
}

}  // namespace orlop::inline v0::ORLOP_INSTRUCTION_SET::elementary
