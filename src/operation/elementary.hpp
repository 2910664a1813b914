// Elementary functions: one primitive each with a binary32 result, shared by every host backend so that all
// of them agree bit for bit (P55).
#pragma once

#include <cmath>

namespace orlop::inline v0::elementary {

// The C library's binary64 functions are within an ulp of 2^-53 and exact at the special values, so the one
// rounding to binary32 leaves barely more than half an ulp.

inline float exp(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }
inline float log(float x) { return static_cast<float>(std::log(static_cast<double>(x))); }
inline float tanh(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }
inline float pow(float x, float p) {
  return static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(p)));
}

}  // namespace orlop::inline v0::elementary
