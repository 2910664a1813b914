// What a slot accepts, and how it is encoded: the one place for S111.
#pragma once

#include <cstddef>

#include "orlop/base/scalar.hpp"
#include "orlop/dtype/dtype.hpp"

namespace orlop::inline v0 {

/// The value that a slot of `dtype` stores for `value`. Float32: any real number, rounded once, overflow to
/// an infinity. Int32: an integer, not a bool (TypeError), in range (OverflowError). Bool: exactly a bool
/// (TypeError). Other dtypes take the value as it is.
[[nodiscard]] ORLOP_API Scalar normalize(const DType& dtype, const Scalar& value);

/// Normalizes and writes one native slot of a Float32, Int32 or Bool sequence.
ORLOP_API void encode_slot(const DType& dtype, const Scalar& value, void* slot);
/// Reads one native slot.
[[nodiscard]] ORLOP_API Scalar decode_slot(const DType& dtype, const void* slot);

/// `count` slots of `dtype` in bytes; OverflowError beyond 64 bits.
[[nodiscard]] ORLOP_API std::size_t slots_to_bytes(const DType& dtype, Index count);

}  // namespace orlop::inline v0
