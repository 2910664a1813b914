// An array that lies in someone else's memory, checked once, then lent to a Tensor or copied (S709, S710).
//
// Protocol. The foreign owner keeps the bytes; a borrowed Tensor holds that owner until its carrier is
// released or destroyed and the last export gone. Atomic: as HostCarrier. Durable: nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0::detail {

/// Most modes that an array crosses a border with: what other libraries take.
inline constexpr std::size_t max_array_rank = 64;

/// BufferError for an element type that is none of float32, int32 and bool; `found` names it.
[[noreturn]] ORLOP_API void refuse_element_type(std::string_view what, std::string_view found);

/// Extents and strides in elements of native float32, int32 or bool slots. No extents: one element.
struct ForeignGeometry {
  std::vector<Index> extents;
  std::optional<std::vector<Index>> strides;  ///< absent: last mode fastest
};

class ORLOP_API ForeignArray {
 public:
  /// BufferError for null or misaligned data; ValueError for an extent of zero; OverflowError beyond 64 bits.
  /// `what` names the call.
  ForeignArray(std::string_view what, void* data, const DType& dtype, ForeignGeometry geometry,
               bool is_read_only);

  /// A CPU Tensor over the foreign memory that holds `owner`. ValueError ‹copy=True› for a negative stride.
  [[nodiscard]] Tensor borrow(std::shared_ptr<void> owner) const;
  /// A mutable CPU Tensor of its own memory, compact, first mode fastest.
  [[nodiscard]] Tensor copy() const;

 private:
  [[nodiscard]] Tensor copy_backwards(const Layout& layout) const;

  std::string_view what_;
  std::byte* data_;
  const DType& dtype_;
  std::vector<Index> strides_;
  Layout layout_;  // of the magnitudes of the strides
  bool is_read_only_;
  bool is_backwards_;  // some stride is negative
};

}  // namespace orlop::inline v0::detail
