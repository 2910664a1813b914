// The table of system calls behind all storage I/O: the kernel's by default, replaceable for fault tests
// (S513).
//
// Protocol. Nothing outside the io layer makes a system call on storage. A table owns no bytes and holds no
// descriptor: atomicity and durability are the kernel's (one positioned transfer may end short; nothing is
// durable before the kernel writes it back, and nothing here asks it to). A crash leaves what the calls made
// so far left; see session_directory.hpp for what that means for temporary files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "orlop/base/export.hpp"
#include "orlop/base/message.hpp"

namespace orlop::inline v0::detail {

/// What a descriptor or a path refers to.
struct NodeStatus {
  enum class Kind : std::uint8_t { kRegular, kDirectory, kBlockDevice, kLink, kOther };
  Kind kind = Kind::kOther;
  std::uint64_t links = 0;
  std::uint32_t owner = 0;
  Index bytes = 0;  ///< length of a regular file
};

/// What a block device says about itself, unjudged.
struct DeviceGeometry {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t logical_block_size = 0;
  std::uint64_t physical_block_size = 0;
};

/// One virtual function per system call. Each returns the call's result, or `-errno`; none retries. The base
/// class is the kernel.
class ORLOP_API IoCalls {
 public:
  /// Linux moves at most this many bytes in one call; larger requests end short everywhere.
  static constexpr std::size_t kTransferLimit = 2'147'479'552;
  /// The `directory` of a path that is absolute or relative to the working directory.
  static constexpr int kWorkingDirectory = -1;

  IoCalls() = default;
  IoCalls(const IoCalls&) = delete;
  IoCalls& operator=(const IoCalls&) = delete;
  virtual ~IoCalls();

  /// openat; `flags` and `mode` as the kernel's.
  virtual int open(int directory, const char* path, int flags, unsigned mode);
  /// Closed in any case, also when an error is returned.
  virtual int close(int descriptor);
  virtual int stat_node(int descriptor, NodeStatus& status);
  /// Of what has the path itself: a symbolic link is not followed.
  virtual int stat_path(const char* path, NodeStatus& status);
  /// Whether the process may reach what has the path, in the kernel's `mode`.
  virtual int access(const char* path, int mode);
  virtual int geometry(int descriptor, DeviceGeometry& geometry);
  virtual Index pread(int descriptor, void* data, std::size_t bytes, Index offset);
  virtual Index pwrite(int descriptor, const void* data, std::size_t bytes, Index offset);
  /// Copies inside the kernel, from one file to another; may end short.
  virtual Index copy_range(int from, Index from_offset, int to, Index to_offset, std::size_t bytes);
  /// Gives `[offset, offset + bytes)` blocks that read as zero; the file grows to contain it.
  virtual int reserve(int descriptor, Index offset, Index bytes);
  virtual int truncate(int descriptor, Index length);
  virtual int rename(const char* from, const char* to);
  /// Gives a name to an open file; -EEXIST where something has it.
  virtual int link(int descriptor, const char* path);
  /// A second descriptor of the same opening, with its lock.
  virtual int duplicate(int descriptor);
  /// unlinkat; an empty directory goes with `directory_itself`.
  virtual int unlink(int directory, const char* path, bool directory_itself);
  /// An exclusive flock that never waits; -EWOULDBLOCK where someone else holds it.
  virtual int probe_lock(int descriptor);
};

/// The table in force now. Devices keep the one of their opening; files ask once per call.
[[nodiscard]] ORLOP_API std::shared_ptr<IoCalls> io_calls();

/// Puts `calls` in force for its lifetime, in every thread. Calls already running keep the table they started
/// with.
class ORLOP_API ScopedIoCalls {
 public:
  explicit ScopedIoCalls(std::shared_ptr<IoCalls> calls);
  ScopedIoCalls(const ScopedIoCalls&) = delete;
  ScopedIoCalls& operator=(const ScopedIoCalls&) = delete;
  ~ScopedIoCalls();

 private:
  std::shared_ptr<IoCalls> previous_;
};

}  // namespace orlop::inline v0::detail
