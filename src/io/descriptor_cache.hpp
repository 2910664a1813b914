// The process-wide cache of open temporary files (S602).
#pragma once

#include <string>

#include "orlop/io/temporary_file.hpp"

namespace orlop::inline v0::detail {

/// Opens a file; where the process or the system has no descriptor left, idle ones are closed for it. The
/// descriptor, or -errno.
[[nodiscard]] int open_making_room(IoCalls& calls, const std::string& path, int flags, unsigned mode);
/// The same for a second descriptor of an opening.
[[nodiscard]] int duplicate_making_room(IoCalls& calls, int descriptor);

/// Opens `path` unless `entry` is open and counts a user. The descriptor, or -errno.
[[nodiscard]] int acquire_descriptor(IoCalls& calls, CachedDescriptor& entry, const std::string& path);
/// Hands over a descriptor just opened and counts a user. The descriptor to use, or -ENOENT once discarded.
[[nodiscard]] int adopt_descriptor(IoCalls& calls, CachedDescriptor& entry, int descriptor);
/// Counts a user off.
void release_descriptor(IoCalls& calls, CachedDescriptor& entry) noexcept;
/// Closes the descriptor now, or with its last user; the entry is out of the cache on return.
void discard_descriptor(IoCalls& calls, CachedDescriptor& entry) noexcept;

}  // namespace orlop::inline v0::detail
