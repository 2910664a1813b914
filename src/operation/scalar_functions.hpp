// What each elementwise operation does to one element, for every host backend (P61-P63).
//
// A function object has one overload for each element type it is computed in; where it is a template, a
// register of floats counts as one (lanes.hpp). The result type says what happens to the value: float, bool
// and std::int32_t are stored as they are; std::int64_t is the exact integer, which the kernel stores if it
// fits Int32 and refuses otherwise, with the fault that the function names.
//
// A function with a `complete` may give NaN where its quick way, which vectorizes, does not reach; the loop
// then asks `complete` for the value.
#pragma once

#include <cstdint>

#include "operation/elementary.hpp"
#include "operation/elementwise_function.hpp"
#include "operation/instruction_set.hpp"

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET::scalar_functions {

using Int32 = std::int32_t;
using Exact = std::int64_t;

template <class Function>
constexpr ElementFault fault_of = ElementFault::outside_int32;

template <class Function, class... T>
concept Completed =
    (__is_same(T, float) && ...) && requires(T... operands) { Function::complete(operands...); };

// --- arithmetic

struct Add {
  float operator()(float a, float b) const { return a + b; }
  Exact operator()(Int32 a, Int32 b) const { return Exact{a} + b; }
};

struct Sub {
  float operator()(float a, float b) const { return a - b; }
  Exact operator()(Int32 a, Int32 b) const { return Exact{a} - b; }
};

struct Mul {
  float operator()(float a, float b) const { return a * b; }
  Exact operator()(Int32 a, Int32 b) const { return Exact{a} * b; }
};

struct Div {
  float operator()(float a, float b) const { return a / b; }
};

struct Pow {
  float operator()(float base, float exponent) const { return elementary::pow(base, exponent); }
  /// The exponent is not negative. Beyond Int32 the value is some integer beyond Int32.
  Exact operator()(Int32 base, Int32 exponent) const {
    if (base == 0) return exponent == 0 ? 1 : 0;
    if (base == 1 || base == -1) return exponent % 2 == 0 ? 1 : base;
    constexpr Exact limit = Exact{1} << 31;
    Exact product = 1;  // leaves Int32 after at most 32 factors, and never 64 bits
    for (; exponent > 0 && product >= -limit && product <= limit; --exponent) product *= base;
    return product;
  }
};

constexpr Int32 sign_bit = -0x7fffffff - 1;

template <bool is_maximum>
struct Extremum {
  float operator()(float a, float b) const {
    // Equal values, for which `a` is taken, differ in nothing but the sign of zero: the winner's sign is
    // positive where that of `b` is, or negative.
    const float value = is_maximum ? from_bits(bits(larger(b, a)) & (bits(b) | ~sign_bit))
                                   : from_bits(bits(smaller(b, a)) | (bits(b) & sign_bit));
    return b == b ? value : b;
  }
  Int32 operator()(Int32 a, Int32 b) const { return (is_maximum ? a > b : a < b) ? a : b; }
};
using Maximum = Extremum<true>;
using Minimum = Extremum<false>;

/// C's fmod.
struct Rem {
  float operator()(float a, float b) const { return elementary::quick_rem(a, b).remainder; }
  static float complete(float a, float b) { return __builtin_fmodf(a, b); }
  Exact operator()(Int32 a, Int32 b) const {
    const Int32 divisor = (b == 0) | (b == -1) ? 1 : b;  // |quotient| < 2^31: no trap, and 0 for -1
    const auto quotient = static_cast<Int32>(static_cast<double>(a) / static_cast<double>(divisor));
    return b == 0 ? Exact{1} << 32 : Exact{a - quotient * divisor};
  }
};
template <>
inline constexpr ElementFault fault_of<Rem> = ElementFault::zero_divisor;

/// The truncated quotient rounded to binary32; a / b where that is not finite. For the gradient of rem.
struct RemQuotient {
  float operator()(float a, float b) const { return elementary::quick_rem(a, b).quotient; }
  static float complete(float a, float b) { return elementary::truncated_quotient(a, b); }
};

// --- unary

struct Neg {
  float operator()(float x) const { return -x; }
  Exact operator()(Int32 x) const { return -Exact{x}; }
};

struct Abs {
  float operator()(float x) const { return elementary::magnitude(x); }
  Exact operator()(Int32 x) const { return x < 0 ? -Exact{x} : x; }
};

struct Sign {
  float operator()(float x) const {
    return elementary::choose(x == x, static_cast<float>((x > 0.0F) - (x < 0.0F)), x);
  }
  Int32 operator()(Int32 x) const { return (x > 0) - (x < 0); }
};

struct Recip {
  float operator()(float x) const { return 1.0F / x; }
};

struct Sqrt {
  float operator()(float x) const { return __builtin_sqrtf(x); }
};

struct Rsqrt {
  float operator()(float x) const { return 1.0F / __builtin_sqrtf(x); }
};

struct Exp {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    return elementary::exp(x);
  }
};

struct Exp2 {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    return elementary::exp2(x);
  }
};

struct Log {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    return elementary::log(x);
  }
};

struct Log2 {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    return elementary::log2(x);
  }
};

struct Sin {
  float operator()(float x) const { return elementary::sin(x); }
  static float complete(float x) { return elementary::sin_of_large(x); }
};

struct Cos {
  float operator()(float x) const { return elementary::cos(x); }
  static float complete(float x) { return elementary::cos_of_large(x); }
};

struct Erf {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    return elementary::erf(x);
  }
};

struct Floor {
  float operator()(float x) const { return __builtin_floorf(x); }
};

struct Ceil {
  float operator()(float x) const { return __builtin_ceilf(x); }
};

/// Ties to even.
struct Round {
  float operator()(float x) const { return __builtin_rintf(x); }
};

struct LogicalNot {
  template <class T>
  bool operator()(T x) const {
    return x == T{};
  }
};

// --- activation

struct Relu {
  float operator()(float x) const { return x <= 0.0F ? 0.0F : x; }  // a NaN stays
  Int32 operator()(Int32 x) const { return x > 0 ? x : 0; }
};

struct Sigmoid {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    const Lanes e = elementary::exp(-elementary::magnitude(x));
    return (x >= 0.0F ? 1.0F : e) / (1.0F + e);
  }
};

struct Tanh {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    return elementary::tanh(x);
  }
};

struct Gelu {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    return (0.5F * x) * (1.0F + elementary::erf(x * 0.70710678F));
  }
};

struct Silu {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    return x * Sigmoid{}(x);
  }
};

struct Softplus {
  template <class Lanes>
  Lanes operator()(Lanes x) const {
    return elementary::log1p(elementary::exp(-elementary::magnitude(x))) + larger(x, Lanes{});
  }
};

struct Elu {
  float operator()(float x) const { return elementary::choose(x > 0.0F, x, elementary::expm1(x)); }
};

struct LeakyRelu {
  float operator()(float x) const { return x >= 0.0F ? x : 0.01F * x; }
};

// --- comparison

struct Eq {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};

struct Ne {
  template <class T>
  bool operator()(T a, T b) const {
    return a != b;
  }
};

struct Lt {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};

struct Le {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};

// --- ternary

struct Select {
  template <class T>
  T operator()(bool condition, T on_true, T on_false) const {
    return condition ? on_true : on_false;
  }
};

struct Clamp {
  float operator()(float x, float lower, float upper) const {
    const Int32 value = bits(smaller(upper, larger(lower, x)));  // zeros as if they had no signs
    const Int32 with_sign = (value & (bits(lower) | ~sign_bit)) | (bits(upper) & sign_bit);
    return __builtin_isunordered(lower, upper) ? elementary::not_a_number : from_bits(with_sign);
  }
  Int32 operator()(Int32 x, Int32 lower, Int32 upper) const { return Minimum{}(Maximum{}(x, lower), upper); }
};

}  // namespace orlop::inline v0::ORLOP_INSTRUCTION_SET::scalar_functions
