// Elementary functions: one primitive each with a binary32 result, shared by every host backend so that all
// of them agree bit for bit (P55).
//
// Every function is free of branches, so that loops over it vectorize, and uses nothing but single IEEE
// operations, so that its bits are the same on every instruction set. The largest errors over all inputs, for
// pow one exponent for each base, are in docs/accuracy.json.
#pragma once

#include <cstdint>

#include "operation/approximation.hpp"
#include "operation/instruction_set.hpp"
#include "operation/lanes.hpp"

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET::elementary {

constexpr float infinity = __builtin_inff();
constexpr float not_a_number = __builtin_nanf("");
constexpr std::int32_t sign_bit = INT32_MIN;
constexpr std::int32_t mantissa_bits = 0x7fffff;
constexpr float smallest_normal = 0x1p-126F;
constexpr double ln2 = approximation::ln2;
constexpr double log2e = 1 / ln2;

// Most functions take lanes: a float, or a register of them (lanes.hpp).

template <class Lanes>
Lanes magnitude(Lanes x) {
  return from_bits(bits(x) & ~sign_bit);
}
template <class Lanes>
Lanes with_sign_of(Lanes x, Lanes sign) {
  return from_bits(bits(x) | (bits(sign) & sign_bit));
}
/// `condition ? a : b` that stays a mask: nested conditional expressions become branches again.
inline float choose(bool condition, float a, float b) {
  const std::int32_t mask = -static_cast<std::int32_t>(condition);
  return from_bits((bits(a) & mask) | (bits(b) & ~mask));
}
/// x between both; a NaN stays.
template <class Lanes>
Lanes bounded(Lanes x, float low, float high) {
  return smaller(high + Lanes{}, larger(low + Lanes{}, x));
}

// Adding and taking away 1.5 · 2^23 (or 2^52) rounds to an integer, ties to even, and leaves that integer in
// the low bits of the sum.
constexpr float rounder = 0x1.8p23F;
constexpr double rounder64 = 0x1.8p52;

// The same with twice the bias of an exponent beside it.
constexpr float exponent_rounder = rounder + 254.0F;
/// x · 2^n for the n that `exponent_rounder` has left in `shifted`: at once where the processor can,
/// otherwise in two halves, because 2^n itself may lie beyond the normal numbers. Either way one result is
/// rounded.
template <class Lanes>
Lanes scaled(Lanes x, Lanes shifted) {
  if constexpr (requires { times_power_of_two(x, shifted); })
    return times_power_of_two(x, shifted - exponent_rounder);
  const Integers<Lanes> half = bits(shifted) >> 1;
  return x * from_bits(half << 23) * from_bits((bits(shifted) - half) << 23);
}

template <int count, class Lanes>
Lanes evaluate(const approximation::Polynomial<count>& polynomial, Lanes x) {
  const auto coefficient = [&](int power) { return static_cast<float>(polynomial.coefficients[power]); };
  Lanes sum = coefficient(count - 1) * x + coefficient(count - 2);
  for (int power = count - 3; power >= 0; --power) sum = sum * x + coefficient(power);
  return sum;
}

/// e^x = 2^n · e^r with |r| ≤ ln(2)/2; ln(2) in two parts, of which the first times n is exact; and
/// e^r = 1 + r + r² · q(r), where q makes the largest relative error least.
template <class Lanes>
Lanes exp(Lanes x) {
  const Lanes inside = bounded(x, -105.0F, 90.0F);  // beyond: the same results
  const Lanes shifted = inside * 1.44269504F + exponent_rounder;
  const Lanes n = shifted - exponent_rounder;
  const Lanes r = (inside - n * 0.693359375F) - n * -2.12194440e-4F;
  Lanes q = r * 1.3814539e-3F + 8.368745e-3F;
  q = q * r + 4.166839e-2F;
  q = q * r + 1.6666521e-1F;
  q = q * r + 4.9999994e-1F;
  return scaled((q * (r * r) + r) + 1.0F, shifted);
}

/// 2^x = 2^n · 2^r with |r| ≤ ½; 2^r = 1 + r/2 + r · q(r).
template <class Lanes>
Lanes exp2(Lanes x) {
  constexpr auto q =
      approximation::fit<6>([](double r) { return (approximation::exp(r * ln2) - 1) / r - 0.5; }, -0.5, 0.5);
  const Lanes inside = bounded(x, -151.0F, 129.0F);
  const Lanes shifted = inside + exponent_rounder;
  const Lanes r = inside - (shifted - exponent_rounder);
  return scaled((evaluate(q, r) * r + 0.5F * r) + 1.0F, shifted);
}

/// size = 2^exponent · mantissa with the mantissa in [√½, √2), for a finite positive size.
template <class Lanes>
struct Split {
  Integers<Lanes> exponent;
  Lanes mantissa;
};
template <class Lanes>
Split<Lanes> split(Lanes size) {
  constexpr std::int32_t root_of_half = 0x3f3504f3;
  const auto is_subnormal = size < smallest_normal;
  const Lanes scaled = size * 0x1p23F;
  const Integers<Lanes> offset = bits(is_subnormal ? scaled : size) - root_of_half;
  return {(offset >> 23) - (is_subnormal ? 23 : 0), from_bits((offset & mantissa_bits) + root_of_half)};
}

/// What a logarithm gives where its argument is not between 0 and infinity.
template <class Lanes>
Lanes logarithm_or_special(Lanes argument, Lanes logarithm) {
  const Lanes ordered = argument < 0.0F ? not_a_number : argument;  // +inf and NaN stay
  const Lanes special = argument == 0.0F ? -infinity : ordered;
  return (argument > 0.0F) & (argument < infinity) ? logarithm : special;
}

/// log(1 + f) − f + f²/2 for 1 + f between √½ and √2.
template <class Lanes>
Lanes log_tail(Lanes f, Lanes square) {
  Lanes even = square * 7.0376836292e-2F + 1.1676998740e-1F;
  Lanes odd = square * -1.1514610310e-1F - 1.2420140846e-1F;
  even = even * square + 1.4249322787e-1F;
  odd = odd * square - 1.6668057665e-1F;
  even = even * square + 2.0000714765e-1F;
  odd = odd * square - 2.4999993993e-1F;
  even = even * square + 3.3333331174e-1F;
  return (f * square) * (odd * f + even);
}

/// log(2^k · (1 + f)) + low.
template <class Lanes>
Lanes log_of_parts(Lanes k, Lanes f, Lanes low) {
  const Lanes square = f * f;
  const Lanes tail = (log_tail(f, square) + (k * -2.12194440e-4F + low)) - 0.5F * square;
  return (f + tail) + k * 0.693359375F;
}

template <class Lanes>
Lanes log(Lanes x) {
  const Split<Lanes> parts = split(magnitude(x));
  return logarithm_or_special(x, log_of_parts(to_float(parts.exponent), parts.mantissa - 1.0F, Lanes{}));
}

/// log of the rounded sum 1 + x, and what the rounding took away over that sum.
template <class Lanes>
Lanes log1p(Lanes x) {
  const Lanes sum = x + 1.0F;
  const Lanes back = sum - 1.0F;
  const Lanes rounded_away = (1.0F - (sum - back)) + (x - back);
  const Split<Lanes> parts = split(magnitude(sum));
  const Lanes logarithm = log_of_parts(to_float(parts.exponent), parts.mantissa - 1.0F, rounded_away / sum);
  return x == 0.0F ? x : logarithm_or_special(sum, logarithm);
}

/// k + log(1 + f)/ln(2), where the logarithm and the factor come in two parts: the products of the first ones
/// are exact, and the rest is added last.
template <class Lanes>
Lanes log2(Lanes x) {
  constexpr float factor = 0x1.714p+0F;
  constexpr float rest_of_factor = static_cast<float>(log2e - factor);
  const Split<Lanes> parts = split(magnitude(x));
  const Lanes k = to_float(parts.exponent);
  const Lanes f = parts.mantissa - 1.0F;
  const Lanes square = f * f;
  const Lanes half = 0.5F * square;
  const Lanes first = from_bits(bits(f - half) & ~0xfff);
  const Lanes rest = ((f - first) - half) + log_tail(f, square);
  const Lanes product = first * factor;
  const Lanes sum = k + product;
  const Lanes low = (rest * static_cast<float>(log2e) + first * rest_of_factor) + ((k - sum) + product);
  return logarithm_or_special(x, sum + low);
}

/// An odd function that tends to ±1.
template <class Lanes>
Lanes saturating(const approximation::Saturating& function, Lanes x) {
  const Lanes size = magnitude(x);
  const Lanes inside = smaller(function.end + Lanes{}, size);  // a NaN stays
  const Lanes place = inside + function.offset;                // rounded, which may reach the next piece
  const Integers<Lanes> piece = bits(place) >> function.dropped_bits;
  const Lanes t = inside - lookup(function.center, piece);
  Lanes correction = lookup(function.coefficients[6], piece);
  for (int power = 5; power >= 0; --power)
    correction = correction * t + lookup(function.coefficients[power], piece);
  const Lanes leading = place < function.knee + function.offset ? inside : function.knee;
  return with_sign_of(leading + correction, x);
}

constexpr approximation::Saturating tanh_pieces =
    approximation::saturating([](double x) { return approximation::tanh(x); }, 9.5F, 1.0F, 21);
template <class Lanes>
Lanes tanh(Lanes x) {
  return saturating(tanh_pieces, x);
}

constexpr approximation::Saturating erf_pieces =
    approximation::saturating([](double x) { return approximation::erf(x); }, 3.99F, 2.0F, 20);
template <class Lanes>
Lanes erf(Lanes x) {
  return saturating(erf_pieces, x);
}

// The rest computes in binary64 and rounds once.

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

/// 2^n · (e^r − 1) + (2^n − 1).
inline float expm1(float x) {
  const double inside = bounded(x, -20.0F, 90.0F);
  const double shifted = inside * log2e + rounder64;
  const double scale = power_of_two(shifted);
  const double expm1 = scale * reduced_expm1(inside - (shifted - rounder64) * ln2) + (scale - 1.0);
  return with_sign_of(static_cast<float>(expm1), x);
}

// Sine and cosine: (−1)^n · sin r where r is what n · π leaves of x, or (n + ½) · π.

/// The sign of sin r is turned where the last bit of `turns` is set.
inline float sine(double r, std::uint64_t turns) {
  constexpr auto q = approximation::fit<5>([](double x) { return (approximation::sin_ratio(x) - 1) / x; }, 0,
                                           approximation::pi * approximation::pi / 4);
  const double square = r * r;
  double p = q.coefficients[4];
  for (int power = 3; power >= 0; --power) p = p * square + q.coefficients[power];
  const double value = r * (p * square + 1.0);
  return static_cast<float>(
      __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, value) ^ (turns << 63)));
}

// π in two parts, of which the first times n is exact for |n| < 2^20, as n is for every argument up to here.
// Beyond, both functions leave a NaN.
constexpr float largest_reduced = 0x1p21F;
constexpr double pi_high = 0x1.921fb544p+1;
constexpr double pi_low = 0x1.0b4611a626331p-33;
constexpr double inverse_pi = 1 / approximation::pi;

inline float sin(float x) {
  const double shifted = x * inverse_pi + rounder64;
  const double n = shifted - rounder64;
  const float value = sine((x - n * pi_high) - n * pi_low, __builtin_bit_cast(std::uint64_t, shifted));
  return choose(magnitude(x) < largest_reduced, value, not_a_number);
}

inline float cos(float x) {
  const double shifted = (x * inverse_pi - 0.5) + rounder64;
  const double n = (shifted - rounder64) + 0.5;
  const float value = sine((x - n * pi_high) - n * pi_low, ~__builtin_bit_cast(std::uint64_t, shifted));
  return choose(magnitude(x) < largest_reduced, value, not_a_number);
}

/// |x|/π modulo 2 in units of 2^-63, for a finite |x| ≥ 2^21: the 24 bits of x times those 96 bits of 2/π
/// that matter.
inline std::uint64_t half_turns(float x) {
  constexpr std::uint64_t two_over_pi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                           0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  const std::int32_t size = bits(magnitude(x));
  const std::uint64_t mantissa = static_cast<std::uint64_t>((size & mantissa_bits) | (mantissa_bits + 1));
  const int first = (size >> 23) - 120;  // bit of the table
  const std::uint64_t* words = two_over_pi + first / 32;
  const int shift = first % 32;
  const std::uint64_t next = words[2] << 32 | words[3];
  const std::uint64_t high = (words[0] << 32 | words[1]) << shift | next >> 1 >> (63 - shift);
  return mantissa * high + (mantissa * (next << shift >> 32) >> 32);
}

// The functions of larger arguments.

inline float sin_of_large(float x) {
  if (!(magnitude(x) < infinity)) return not_a_number;
  const std::uint64_t turns = half_turns(x);
  const auto rest = static_cast<std::int64_t>(turns << 1);  // from the nearest multiple of π
  return sine(static_cast<double>(rest) * (approximation::pi * 0x1p-64),
              (turns >> 63) + (rest < 0 ? 1U : 0U) + (x < 0.0F ? 1U : 0U));
}

inline float cos_of_large(float x) {
  if (!(magnitude(x) < infinity)) return not_a_number;
  const std::uint64_t turns = half_turns(x);
  const auto rest = static_cast<std::int64_t>((turns << 1) - (std::uint64_t{1} << 63));
  return sine(static_cast<double>(rest) * (approximation::pi * 0x1p-64), ~(turns >> 63));
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
  const Split<float> parts = split(x_size);
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
