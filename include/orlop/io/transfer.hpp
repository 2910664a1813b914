// Whole transfers built from single calls: the one retry loop of the library (S508).
//
// Protocol. The caller owns the memory and the descriptor. A write is not atomic: it can fail with a prefix
// of its bytes changed, and WriteProgress says how far it came. Nothing is flushed: after a crash of the
// machine a written range may hold old bytes, new bytes or both.
#pragma once

#include <cerrno>
#include <span>
#include <string>
#include <string_view>

#include "orlop/base/error.hpp"
#include "orlop/io/io_calls.hpp"

namespace orlop::inline v0::detail {

/// An open file or device, as a transfer needs it. Only views: valid for the duration of one call.
struct IoTarget {
  IoCalls& calls;
  int descriptor;
  std::string_view what;         ///< whose transfer it is, for messages: "FileBacked"
  const std::string& path;       ///< the `filename` of errors
  std::string_view remedy = {};  ///< what else can be done about an error, after "; "
};

/// How far a write came, also when it failed.
struct WriteProgress {
  Index completed = 0;            ///< bytes reported as written
  bool may_have_changed = false;  ///< whether any byte of the range can differ from before
};

/// Reads exactly `data.size()` bytes at `offset`. An interrupted call is repeated and a short one continued.
/// RuntimeError ‹completed N of M bytes› where the file ends before; OSError for what the kernel refuses.
/// `completed` tells how many bytes were read, also after a failure.
ORLOP_API void read_fully(const IoTarget& target, std::span<std::byte> data, Index offset,
                          Index* completed = nullptr);

/// Writes exactly `data` at `offset`; errors as read_fully.
ORLOP_API void write_fully(const IoTarget& target, std::span<const std::byte> data, Index offset,
                           WriteProgress* progress = nullptr);

/// Copies `bytes` bytes from one file to another, inside the kernel where it can and otherwise through a
/// small buffer; errors as read_fully and write_fully.
ORLOP_API void copy_fully(const IoTarget& from, Index from_offset, const IoTarget& to, Index to_offset,
                          Index bytes);

/// Grows a file from `length` to `length + bytes`, the new bytes reading as zero and backed by blocks, so
/// that a full disk shows here and not at a later write. Zeros are written where the file system cannot
/// reserve. On failure the file has its former length again and an OSError is thrown (S603).
ORLOP_API void reserve_fully(const IoTarget& target, Index length, Index bytes);

/// Cuts a file to `length` bytes. OSError.
ORLOP_API void truncate_to(const IoTarget& target, Index length);

/// The OSError of a call that returned `-code`: operation, bytes, offset, path and reason.
[[noreturn]] ORLOP_API void raise_os_error(const IoTarget& target, std::string_view operation, int code,
                                           Index bytes, Index offset, Index completed = 0);
/// The same for a call without a range, as open or unlink.
[[noreturn]] ORLOP_API void raise_os_error(std::string_view what, std::string_view operation, int code,
                                           const std::string& path, std::string_view remedy = {});

/// Repeats `call` while a signal interrupts it.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -EINTR) result = call();
  return result;
}

}  // namespace orlop::inline v0::detail
