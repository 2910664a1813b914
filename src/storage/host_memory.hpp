// The memory behind host carriers, aligned to cache lines.
#pragma once

#include <cstddef>
#include <memory>

namespace orlop::inline v0 {

/// `bytes` bytes, zero if `is_zeroed`; null where there is no room. Large memory comes in huge pages where
/// the system has them, and a little of it (64 MiB at most) is kept for the next request when it is given
/// back: first use of fresh pages costs more than the arithmetic on them. Not under sanitizers.
[[nodiscard]] std::shared_ptr<std::byte> allocate_host_memory(std::size_t bytes, bool is_zeroed);

}  // namespace orlop::inline v0
