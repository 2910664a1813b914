// Zero-copy views: tensors on the same carriers with another layout (M501–M504, P70).
#pragma once

#include <optional>
#include <string_view>

#include "orlop/base/sequence.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/tensor/views.hpp"

namespace orlop::inline v0 {

// For any dtype, compound ones included (rearrange: single subtensors only). Nothing is copied and no version
// advances; a write through a view is a write to the source. RuntimeError where the carrier is released.

/// One index or range per top-level mode (M502): `slice(t, {3, {}, SliceRange{2, 8, 3}})`. Dispatch name
/// `view`.
[[nodiscard]] ORLOP_API Tensor slice(const Tensor& tensor, SliceKeys keys);
/// Whole top-level modes in another order. ValueError ‹must reorder every layout mode›.
[[nodiscard]] ORLOP_API Tensor permute(const Tensor& tensor, Sequence<Index> order);
/// The same ordinal sequence in another shape; the placement must have one constant step. ValueError.
[[nodiscard]] ORLOP_API Tensor reshape(const Tensor& tensor, const Shape& shape);
/// The element at q is the source's at ordinal shape:stride(q). ValueError.
[[nodiscard]] ORLOP_API Tensor as_strided(const Tensor& tensor, const Shape& shape, const Stride& stride);
/// Widens leaves of extent 1. ValueError.
[[nodiscard]] ORLOP_API Tensor broadcast_to(const Tensor& tensor, const Shape& target);
/// Source mode i becomes target mode `broadcast_dimensions[i]`, then broadcast_to. ValueError.
[[nodiscard]] ORLOP_API Tensor broadcast_in_dim(const Tensor& tensor, const Shape& target,
                                                Sequence<Index> broadcast_dimensions);
/// Drops a top-level leaf of extent 1; dim in [-n, n). ValueError.
[[nodiscard]] ORLOP_API Tensor squeeze(const Tensor& tensor, Index dim);
/// Inserts a leaf of extent 1; dim in [-n-1, n]. ValueError.
[[nodiscard]] ORLOP_API Tensor unsqueeze(const Tensor& tensor, Index dim);
/// Places every leaf, or every sublayout that `selection` names, as `output` says (M312). ValueError.
[[nodiscard]] ORLOP_API Tensor rearrange(const Tensor& tensor, const Tree& output,
                                         const std::optional<Tree>& selection = std::nullopt);

/// Whether `name` is one of the eight dispatch names of views, which every carrier can offer, storage-only
/// ones too: `if (is_view_operation(name)) return table_operation(name);`
[[nodiscard]] ORLOP_API bool is_view_operation(std::string_view name) noexcept;

}  // namespace orlop::inline v0
