// Conversions of a scalar; each is a single rounding.
#include "orlop/base/scalar.hpp"

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

namespace {
template <class... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overload(Cases...) -> Overload<Cases...>;
}  // namespace

float Scalar::to_binary32() const {
  return std::visit(
      Overload{[](bool value) { return value ? 1.0F : 0.0F; }, [](BigInteger value) { return value.rounded; },
               [](auto value) { return static_cast<float>(value); }},
      value_);
}

double Scalar::to_binary64() const {
  return std::visit(Overload{[](bool value) { return value ? 1.0 : 0.0; },
                             [](BigInteger value) { return static_cast<double>(value.rounded); },
                             [](auto value) { return static_cast<double>(value); }},
                    value_);
}

long double Scalar::exact_value() const {
  return std::visit(Overload{[](bool value) { return value ? 1.0L : 0.0L; },
                             [](BigInteger value) { return static_cast<long double>(value.rounded); },
                             [](auto value) { return static_cast<long double>(value); }},
                    value_);
}

std::int64_t Scalar::to_integer(long double least, long double greatest) const {
  if (!is_bool() && !is_integer()) refuse("integer");
  const long double value = exact_value();
  if (value < least || value > greatest || (is_integer() && !as_integer()))
    raise<OverflowError>("Scalar", "the integer does not fit the type that it is read as: ", *this,
                         "; read it as a wider one");
  return is_bool() ? as_bool() : *as_integer();
}

void Scalar::refuse(std::string_view type) const {
  raise<TypeError>("Scalar", "the value is no ", type, ": ", *this, "; read it as float or double");
}

std::string Scalar::to_string() const {
  return std::visit(Overload{[](BigInteger value) { return text("an integer near ", value.rounded); },
                             [](auto value) { return text(value); }},
                    value_);
}

}  // namespace orlop::inline v0
