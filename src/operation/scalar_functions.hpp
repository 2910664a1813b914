// What each elementwise operation does to one element, for every host backend (P61-P63).
//
// A function object has one overload for each element type it is computed in. The result type says what
// happens to the value: float, bool and std::int32_t are stored as they are; std::int64_t is the exact
// integer, which the kernel stores if it fits Int32 and refuses otherwise.
#pragma once

#include <cstdint>

#include "operation/elementary.hpp"
#include "operation/instruction_set.hpp"

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET::scalar_functions {

using Int32 = std::int32_t;
using Exact = std::int64_t;

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

struct Maximum {
  float operator()(float a, float b) const {
    // Equal values differ in nothing but the sign of zero; unordered ones add up to a NaN.
    const float tie =
        elementary::choose(a == b, elementary::from_bits(elementary::bits(a) & elementary::bits(b)), a + b);
    return elementary::choose(a > b, a, elementary::choose(a < b, b, tie));
  }
  Int32 operator()(Int32 a, Int32 b) const { return a > b ? a : b; }
};

// --- unary

struct Neg {
  float operator()(float x) const { return -x; }
  Exact operator()(Int32 x) const { return -Exact{x}; }
};

struct Exp {
  float operator()(float x) const { return elementary::exp(x); }
};

struct Log {
  float operator()(float x) const { return elementary::log(x); }
};

// --- activation

struct Relu {
  float operator()(float x) const { return x <= 0.0F ? 0.0F : x; }  // a NaN stays
  Int32 operator()(Int32 x) const { return x > 0 ? x : 0; }
};

struct Sigmoid {
  float operator()(float x) const {
    const float e = elementary::exp(-elementary::magnitude(x));
    return (x >= 0.0F ? 1.0F : e) / (1.0F + e);
  }
};

struct Tanh {
  float operator()(float x) const { return elementary::tanh(x); }
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

}  // namespace orlop::inline v0::ORLOP_INSTRUCTION_SET::scalar_functions
