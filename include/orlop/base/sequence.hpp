// How a function takes several values: a braced list, a vector, an array or a span alike.
#pragma once

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

namespace detail {

/// The integer types: no bool and no characters.
template <class T>
concept Integer =
    std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
    !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

/// Integers of another type than `T`.
template <class Values, class T>
concept OtherIntegers = Integer<T> && std::ranges::forward_range<const Values> &&
                        Integer<std::ranges::range_value_t<const Values>> &&
                        !std::convertible_to<const Values&, std::span<const T>>;

/// `value` as a `T`; OverflowError.
template <Integer T, Integer Value>
[[nodiscard]] T to_integer(Value value) {
  if (!std::in_range<T>(value))
    raise<OverflowError>("Sequence", "an integer is out of range: ", value, "; allowed is ",
                         std::numeric_limits<T>::min(), " up to ", std::numeric_limits<T>::max());
  return static_cast<T>(value);
}

}  // namespace detail

/// Values that are only looked at during the call: `permute(x, {1, 0})`, `permute(x, order)`. A parameter's
/// type, not one of variables: a braced list is gone at the end of its statement. A sequence of integers
/// takes those of any integer type, such as a `std::vector<int>`: OverflowError where one does not fit.
template <class T>
class Sequence : public std::span<const T> {
 public:
  constexpr Sequence(std::initializer_list<T> values) noexcept
      : std::span<const T>(values.begin(), values.size()) {}
  template <class Values>
    requires std::convertible_to<const Values&, std::span<const T>>
  constexpr Sequence(const Values& values) noexcept : std::span<const T>(values) {}
  template <detail::OtherIntegers<T> Values>
  Sequence(const Values& values) {
    const auto count = static_cast<std::size_t>(std::ranges::distance(values));
    converted_ = std::make_shared_for_overwrite<T[]>(count);
    std::ranges::transform(values, converted_.get(), [](auto value) { return detail::to_integer<T>(value); });
    static_cast<std::span<const T>&>(*this) = {converted_.get(), count};
  }

 private:
  struct Nothing {};
  [[no_unique_address]] std::conditional_t<detail::Integer<T>, std::shared_ptr<T[]>, Nothing> converted_;
};

}  // namespace orlop::inline v0
