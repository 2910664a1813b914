// What processes that ended without cleaning up left behind, and how a live one keeps its own (S605).
//
// Protocol. What lies under a name with one of the layer's prefixes belongs to the process that holds an
// flock on it, and to nobody once that process has ended. A maker locks what it made before it relies on it;
// a sweep removes what is of its own user and lets itself be locked. No name is used twice, so a name that
// was once found to be left never stands for something else.
#pragma once

#include <fcntl.h>

#include <string>
#include <string_view>

#include "orlop/io/io_calls.hpp"

namespace orlop::inline v0::detail {

/// How directories are opened.
inline constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// `prefix`, this process's number and 64 random bits.
[[nodiscard]] std::string unique_name(std::string_view prefix);

/// Locks what has a name. 0; -EWOULDBLOCK where it is another's, or a sweep was faster; else -errno.
[[nodiscard]] int claim(IoCalls& calls, int descriptor);

/// Removes the files in a directory. What cannot go stays.
void remove_contents(IoCalls& calls, int directory);

/// Removes what dead processes of this user left in `folder` under names with `prefix`: regular files, or
/// directories of files. Whatever is not certainly so is kept, and errors are ignored.
void sweep(IoCalls& calls, const std::string& folder, std::string_view prefix, NodeStatus::Kind kind);

}  // namespace orlop::inline v0::detail
