// The carrier mutation `scatter`: logical source values into mapped destination slots (S112).
#pragma once

#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0 {

/// The checks of S112 before those of the offset, in order: the receiver, the subtensors, the destination,
/// the shape of the mapping.
ORLOP_API void check_scatter(const Carrier& receiver, const Tensor& to_scatter, const Tensor& scatter_onto,
                             const Layout& mapping);

/// All checks of S112 in order, then the writes by ascending source ordinal (the last one of a slot wins).
/// Source values are read and normalized before the first write, so a failure changes nothing. The version is
/// the caller's.
ORLOP_API void scatter_values(Carrier& receiver, const Tensor& to_scatter, const Tensor& scatter_onto,
                              const Layout& mapping, Index mapping_offset);

}  // namespace orlop::inline v0
