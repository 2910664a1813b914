// Conversions of a scalar; each is a single rounding.
#include "orlop/base/scalar.hpp"

#include "orlop/base/message.hpp"

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

std::string Scalar::to_string() const {
  return std::visit(Overload{[](BigInteger value) { return text("an integer near ", value.rounded); },
                             [](auto value) { return text(value); }},
                    value_);
}

}  // namespace orlop::inline v0
