// The buffers behind Metal carriers: made here, and found again by an address within.
#pragma once

#include "orlop/base/message.hpp"
#include "orlop/carriers/metal/runtime.hpp"

namespace orlop::inline v0 {

/// A buffer of at least one byte, zero if `is_zeroed`. MemoryError with the numbers.
[[nodiscard]] std::shared_ptr<MetalBuffer> make_metal_buffer(MetalRuntime& runtime, std::size_t bytes,
                                                             bool is_zeroed);
/// The same, to be found by `find_metal_binding` as long as it lives.
[[nodiscard]] std::shared_ptr<MetalBuffer> make_metal_slots(MetalRuntime& runtime, std::size_t bytes,
                                                            bool is_zeroed);
/// The buffer of `make_metal_slots` that holds `address`. RuntimeError where none does.
[[nodiscard]] MetalBinding find_metal_binding(const std::byte* address);
[[nodiscard]] bool is_in_metal_buffer(const std::byte* address);

}  // namespace orlop::inline v0
