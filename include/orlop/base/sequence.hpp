// How a function takes several values: a braced list, a vector, an array or a span alike.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>

namespace orlop::inline v0 {

/// Values that are only looked at during the call: `permute(x, {1, 0})`, `permute(x, order)`. A parameter's
/// type, not one of variables: a braced list is gone at the end of its statement.
template <class T>
class Sequence : public std::span<const T> {
 public:
  constexpr Sequence(std::initializer_list<T> values) noexcept
      : std::span<const T>(values.begin(), values.size()) {}
  template <class Values>
    requires std::convertible_to<const Values&, std::span<const T>>
  constexpr Sequence(const Values& values) noexcept : std::span<const T>(values) {}
};

}  // namespace orlop::inline v0
