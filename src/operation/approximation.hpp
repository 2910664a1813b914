// Polynomials beside the functions that they stand for, worked out by the compiler in binary64: what the
// elementary functions take their coefficients from. Nothing here runs.
#pragma once

#include "operation/instruction_set.hpp"
#include "operation/lanes.hpp"

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET::approximation {

// The functions, by series that converge for the arguments used here: within a few units of binary64.

constexpr double pi = 3.14159265358979323846;
constexpr double ln2 = 0.69314718055994530942;

constexpr double exp(double x) {
  if (x < 0) return 1 / exp(-x);
  double sum = 1;
  double term = 1;
  for (int n = 1; term > sum * 1e-18; ++n) sum += term *= x / n;
  return sum;
}

/// (sin x)/x from x².
constexpr double sin_ratio(double square) {
  double sum = 1;
  double term = 1;
  for (int n = 2; n < 40; n += 2) sum += term *= -square / (n * (n + 1));
  return sum;
}
constexpr double cos(double x) { return (pi / 2 - x) * sin_ratio((pi / 2 - x) * (pi / 2 - x)); }

/// log(1 + f).
constexpr double log1p(double f) {
  const double s = f / (2 + f);
  double sum = 0;
  double power = 2 * s;
  for (int n = 1; n < 80; n += 2, power *= s * s) sum += power / n;
  return sum;
}

constexpr double tanh(double x) { return 1 - 2 / (exp(2 * x) + 1); }

constexpr double erf(double x) {
  double sum = 0;
  double term = 2 * x / 1.77245385090551602730;
  for (int n = 1; term > sum * 1e-18; n += 2) {
    sum += term;
    term *= 2 * x * x / (n + 2);
  }
  return sum * exp(-x * x);
}

template <int count>
struct Polynomial {
  double coefficients[count];  // from the constant on
};

/// The polynomial in (x - center) that equals `function` at the Chebyshev nodes between `low` and `high`.
template <int count, class Function>
constexpr Polynomial<count> fit(Function function, double low, double high, double center = 0) {
  double nodes[count];
  double differences[count];
  for (int i = 0; i < count; ++i) {
    nodes[i] = (low + high) / 2 + (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * count)) - center;
    differences[i] = function(nodes[i] + center);
  }
  for (int order = 1; order < count; ++order)
    for (int i = count - 1; i >= order; --i)
      differences[i] = (differences[i] - differences[i - 1]) / (nodes[i] - nodes[i - order]);
  Polynomial<count> result{};
  for (int i = count - 1; i >= 0; --i) {
    for (int power = count - 1; power > 0; --power)
      result.coefficients[power] = result.coefficients[power - 1] - nodes[i] * result.coefficients[power];
    result.coefficients[0] = differences[i] - nodes[i] * result.coefficients[0];
  }
  return result;
}

/// An odd function that tends to 1, for arguments from 0 to `end`: min(x, knee) and a polynomial of the piece
/// that x lies in. Pieces grow with x: their number is made of the leading bits of x + offset.
struct Saturating {
  float knee;  ///< where a piece begins
  float end;
  float offset;
  int dropped_bits;
  LookupTable center;
  LookupTable coefficients[7];
};

template <class Function>
constexpr Saturating saturating(Function function, float end, float offset, int dropped_bits) {
  constexpr float knee = 0.75F;
  Saturating result{knee, end, offset, dropped_bits, {}, {}};
  const auto correction = [function](double x) { return function(x) - (x < knee ? x : knee); };
  const auto ratio = [correction](double x) { return correction(x) / x; };
  for (std::int32_t piece = bits(offset) >> dropped_bits; piece <= bits(end + offset) >> dropped_bits;
       ++piece) {
    const double low = static_cast<double>(from_bits(piece << dropped_bits)) - offset;
    const double high = static_cast<double>(from_bits((piece + 1) << dropped_bits)) - offset;
    const double center = low == 0 ? 0 : (low + high) / 2;
    Polynomial<7> polynomial{};
    if (low == 0) {  // nothing but x times something, to be right for the smallest x
      const Polynomial<6> rest = fit<6>(ratio, low, high);
      for (int power = 1; power < 7; ++power) polynomial.coefficients[power] = rest.coefficients[power - 1];
    } else {
      polynomial = fit<7>(correction, low, high, center);
    }
    result.center.entries[piece & 15] = static_cast<float>(center);
    for (int power = 0; power < 7; ++power)
      result.coefficients[power].entries[piece & 15] = static_cast<float>(polynomial.coefficients[power]);
  }
  return result;
}

}  // namespace orlop::inline v0::ORLOP_INSTRUCTION_SET::approximation
