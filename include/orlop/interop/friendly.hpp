// Friendly creation and extraction: dense CPU tensors from extents and values, and values back (M601-M604).
#pragma once

#include <span>
#include <vector>

#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0 {

/// Every factory makes an exact CPU carrier, offset 0, first mode fastest. Extents: ValueError ‹at least one
/// extent›, ‹positive integers›, before anything is allocated.
namespace friendly {

/// Compact strides, first mode fastest: (1, 3, 6) for extents 3, 2, 5.
[[nodiscard]] ORLOP_API Layout column_major(std::span<const Index> extents);
/// Compact strides, last mode fastest: (10, 5, 1) for extents 3, 2, 5.
[[nodiscard]] ORLOP_API Layout row_major(std::span<const Index> extents);

/// Every element `value`.
[[nodiscard]] ORLOP_API Tensor full(std::span<const Index> extents, const Scalar& value,
                                    const DType& dtype = dtypes::Float32);
[[nodiscard]] ORLOP_API Tensor zeros(std::span<const Index> extents, const DType& dtype = dtypes::Float32);
/// 1.0, 1 or True.
[[nodiscard]] ORLOP_API Tensor ones(std::span<const Index> extents, const DType& dtype = dtypes::Float32);
/// 0 … count - 1; TypeError for Bool.
[[nodiscard]] ORLOP_API Tensor arange(Index count, const DType& dtype = dtypes::Float32);
/// `values` by ordinal of `layout`; ValueError ‹layout logical size› for another number. Holes are zero.
[[nodiscard]] ORLOP_API Tensor tensor(std::span<const Scalar> values, const Layout& layout,
                                      const DType& dtype = dtypes::Float32);

/// The sum of all elements, of shape (1): `backward` alone works on it. ValueError ‹flat tensor with integer
/// modes›, ‹too many modes to reduce›.
[[nodiscard]] ORLOP_API Tensor sum(const Tensor& tensor);
/// The sum times 1 / size.
[[nodiscard]] ORLOP_API Tensor mean(const Tensor& tensor);
/// The value of a Tensor of one element; ValueError ‹exactly one element›.
[[nodiscard]] ORLOP_API Scalar item(const Tensor& tensor);
/// All values in ordinal order.
[[nodiscard]] ORLOP_API std::vector<Scalar> to_list(const Tensor& tensor);

}  // namespace friendly

namespace detail {
/// A fresh CPU tensor of `layout` from native slots that lie at `slots + slot_bytes * source(ordinal)`.
[[nodiscard]] ORLOP_API Tensor cpu_tensor(const std::byte* slots, const Layout& source, const Layout& layout,
                                          const DType& dtype);
/// The native slots of all elements in ordinal order.
[[nodiscard]] ORLOP_API std::vector<std::byte> dense_slots(const Tensor& tensor);
}  // namespace detail

}  // namespace orlop::inline v0
