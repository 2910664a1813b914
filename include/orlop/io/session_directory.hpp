// The hidden directory that holds one process's temporary files (S601, S604–S606).
//
// Protocol. A process owns the directory `.orlop-filebacked-<pid>-<random>` it made and holds an flock on;
// who holds the lock owns every byte inside. Making it: mkdir 0700, open, lock, and only if the lock was
// granted and the directory is still linked it is used, else another name is tried. Nothing is durable and
// nothing is meant to be: files are never flushed. On a normal exit the owner removes its files and the
// directory. A crash (or a child ending in _exit) leaves them and frees the lock; the next process of the
// same user to make its own directory in the same place takes the lock of each such directory, removes what
// is inside and then the directory. A fork's child owns nothing of its parent: it drops its copy of the
// lock's descriptor, which unlocks nothing, and makes a directory of its own when it needs one.
#pragma once

#include <string>

#include "orlop/base/export.hpp"

namespace orlop::inline v0::detail {

/// The absolute path of this process's directory, made on first use in ORLOP_TMPDIR, else TMPDIR, TEMP or
/// TMP, else /var/tmp (a RAM-backed /tmp would defeat the purpose). OSError where it cannot be made.
[[nodiscard]] ORLOP_API std::string session_directory();

}  // namespace orlop::inline v0::detail
