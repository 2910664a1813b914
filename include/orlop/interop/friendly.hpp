// Friendly creation and extraction: dense CPU tensors from extents and values, and values back (M601-M604).
#pragma once

#include <concepts>
#include <functional>
#include <random>
#include <ranges>
#include <type_traits>
#include <vector>

#include "orlop/base/sequence.hpp"
#include "orlop/storage/normalize.hpp"
#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0 {

namespace detail {

/// A vector, an array, a span of numbers.
template <class Values>
concept Numbers = std::ranges::sized_range<const Values> &&
                  std::constructible_from<Scalar, std::ranges::range_value_t<const Values>>;

/// A fresh CPU tensor of `layout` from native slots that lie at `slots + slot_bytes * source(ordinal)`.
[[nodiscard]] ORLOP_API Tensor cpu_tensor(const std::byte* slots, const Layout& source, const Layout& layout,
                                          const DType& dtype);
/// The same from `count` values by ordinal. ValueError ‹layout logical size› for another number.
[[nodiscard]] ORLOP_API Tensor cpu_tensor(Index count, const std::function<Scalar()>& next_value,
                                          const Layout& layout, const DType& dtype);
/// Float32 values of a distribution, by ordinal.
template <class Distribution, class Generator>
[[nodiscard]] Tensor drawn(const Layout& layout, Distribution distribution, Generator& generator) {
  return cpu_tensor(layout.size(), [&] { return Scalar(distribution(generator)); }, layout, dtypes::Float32);
}
/// The native slots of all elements in ordinal order.
[[nodiscard]] ORLOP_API std::vector<std::byte> dense_slots(const Tensor& tensor);

}  // namespace detail

/// Every factory makes an exact CPU carrier, offset 0, first mode fastest. Extents: ValueError ‹at least one
/// extent›, ‹positive integers›, before anything is allocated. The dtype is Float32 unless given.
namespace friendly {

/// Compact strides, first mode fastest: (1, 3, 6) for extents 3, 2, 5.
[[nodiscard]] ORLOP_API Layout column_major(Sequence<Index> extents);
/// Compact strides, last mode fastest: (10, 5, 1) for extents 3, 2, 5.
[[nodiscard]] ORLOP_API Layout row_major(Sequence<Index> extents);

/// Every element `value`.
[[nodiscard]] ORLOP_API Tensor full(Sequence<Index> extents, const Scalar& value,
                                    const DType& dtype = dtypes::Float32);
[[nodiscard]] ORLOP_API Tensor zeros(Sequence<Index> extents, const DType& dtype = dtypes::Float32);
/// 1.0, 1 or True.
[[nodiscard]] ORLOP_API Tensor ones(Sequence<Index> extents, const DType& dtype = dtypes::Float32);
/// 0 … count - 1; TypeError for Bool.
[[nodiscard]] ORLOP_API Tensor arange(Index count, const DType& dtype = dtypes::Float32);
/// `tensor({{1, 2, 3}, {4, 5, 6}})`: what stands at [i][j] of the lists lands at [i, j]. ValueError
/// ‹non-empty list›, ‹empty levels›, ‹rectangular›.
[[nodiscard]] ORLOP_API Tensor tensor(const Nested<Scalar>& values, const DType& dtype = dtypes::Float32);
/// `values` by ordinal of `layout`, first mode fastest; ValueError ‹layout logical size› for another number.
/// Holes are zero. Values that lie row by row: `Tensor(tensor(values).carrier(), 0, row_major({2, 3}))`.
template <detail::Numbers Values>
[[nodiscard]] Tensor tensor(const Values& values, const Layout& layout,
                            const DType& dtype = dtypes::Float32) {
  auto next = std::ranges::begin(values);
  const auto next_value = [&next] {
    return Scalar(static_cast<std::ranges::range_value_t<const Values>>(*next++));
  };
  return detail::cpu_tensor(static_cast<Index>(std::ranges::size(values)), next_value, layout, dtype);
}
[[nodiscard]] inline Tensor tensor(std::initializer_list<Scalar> values, const Layout& layout,
                                   const DType& dtype = dtypes::Float32) {
  return tensor<std::initializer_list<Scalar>>(values, layout, dtype);
}
/// A vector, an array or a span as one mode.
template <detail::Numbers Values>
[[nodiscard]] Tensor tensor(const Values& values, const DType& dtype = dtypes::Float32) {
  return tensor(values, column_major({static_cast<Index>(std::ranges::size(values))}), dtype);
}
/// Float32, uniform in [0, 1), from a generator of <random>: `std::mt19937 random(0); rand({2, 3}, random)`.
template <std::uniform_random_bit_generator Generator>
[[nodiscard]] Tensor rand(Sequence<Index> extents, Generator& generator) {
  return detail::drawn(column_major(extents), std::uniform_real_distribution<float>(), generator);
}
/// Float32, normal of mean 0 and deviation 1.
template <std::uniform_random_bit_generator Generator>
[[nodiscard]] Tensor randn(Sequence<Index> extents, Generator& generator) {
  return detail::drawn(column_major(extents), std::normal_distribution<float>(), generator);
}

/// The sum of all elements, of shape (1): `backward` alone works on it. ValueError ‹flat tensor with integer
/// modes›, ‹too many modes to reduce›.
[[nodiscard]] ORLOP_API Tensor sum(const Tensor& tensor);
/// The sum times 1 / size.
[[nodiscard]] ORLOP_API Tensor mean(const Tensor& tensor);
/// The value of a Tensor of one element; ValueError ‹exactly one element›.
[[nodiscard]] ORLOP_API Scalar item(const Tensor& tensor);
/// All values in ordinal order, first mode fastest.
[[nodiscard]] ORLOP_API std::vector<Scalar> to_list(const Tensor& tensor);
/// The same as numbers of this type (see Scalar's conversion): `item<float>(loss)`, `to_list<float>(x)`.
template <class T>
[[nodiscard]] T item(const Tensor& tensor) {
  return static_cast<T>(item(tensor));
}
template <class T>
[[nodiscard]] std::vector<T> to_list(const Tensor& tensor) {
  const std::vector<std::byte> slots = detail::dense_slots(tensor);
  const DType& dtype = tensor.carrier()->dtype();
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(tensor.size()));
  for (Index i = 0; i < tensor.size(); ++i)
    values.push_back(static_cast<T>(decode_slot(dtype, slots.data() + i * dtype.slot_bytes())));
  return values;
}

}  // namespace friendly

}  // namespace orlop::inline v0
