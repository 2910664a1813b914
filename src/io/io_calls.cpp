// The kernel's system calls, and the choice of the table in force.
#include "orlop/io/io_calls.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include "io/fork.hpp"
#include "orlop/base/forever.hpp"

#if defined(__linux__)
#include <linux/fs.h>
#elif defined(__APPLE__)
#include <sys/disk.h>
#endif

namespace orlop::inline v0::detail {

static_assert(sizeof(off_t) == 8, "files larger than 2 GiB need 64-bit offsets");

namespace {

template <class Result>
Result or_errno(Result result) {
  return result < 0 ? static_cast<Result>(-errno) : result;
}

NodeStatus status_of(const struct stat& found) {
  using Kind = NodeStatus::Kind;
  return {.kind = S_ISREG(found.st_mode)   ? Kind::kRegular
                  : S_ISDIR(found.st_mode) ? Kind::kDirectory
                  : S_ISBLK(found.st_mode) ? Kind::kBlockDevice
                  : S_ISLNK(found.st_mode) ? Kind::kLink
                                           : Kind::kOther,
          .links = found.st_nlink,
          .owner = found.st_uid,
          .bytes = found.st_size};
}

int resolve(int directory) { return directory == IoCalls::kWorkingDirectory ? AT_FDCWD : directory; }

// Growing past the process's limit is a signal that ends it; as an error it can be handled.
bool exceeds_file_limit(Index end) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         std::cmp_greater(end, limit.rlim_cur);
}

IoCalls kernel;

// Null: the kernel. Guarded by io_mutex(), and never destroyed: the session directory goes at the very end.
std::shared_ptr<IoCalls>& replacement() {
  static Forever<std::shared_ptr<IoCalls>> place;
  return *place;
}

}  // namespace

IoCalls::~IoCalls() = default;

int IoCalls::open(int directory, const char* path, int flags, unsigned mode) {
  return or_errno(::openat(resolve(directory), path, flags, mode));
}

int IoCalls::close(int descriptor) { return or_errno(::close(descriptor)); }

int IoCalls::stat_node(int descriptor, NodeStatus& status) {
  struct stat found{};
  if (::fstat(descriptor, &found) != 0) return -errno;
  status = status_of(found);
  return 0;
}

int IoCalls::stat_path(const char* path, NodeStatus& status) {
  struct stat found{};
  if (::lstat(path, &found) != 0) return -errno;
  status = status_of(found);
  return 0;
}

int IoCalls::access(const char* path, int mode) { return or_errno(::access(path, mode)); }

int IoCalls::geometry(int descriptor, DeviceGeometry& geometry) {
#if defined(__linux__)
  int logical = 0;
  unsigned physical = 0;
  if (::ioctl(descriptor, BLKGETSIZE64, &geometry.capacity_bytes) != 0 ||
      ::ioctl(descriptor, BLKSSZGET, &logical) != 0 || ::ioctl(descriptor, BLKPBSZGET, &physical) != 0)
    return -errno;
  geometry.logical_block_size = static_cast<std::uint64_t>(std::max(logical, 0));
  geometry.physical_block_size = physical;
  return 0;
#elif defined(__APPLE__)
  std::uint64_t blocks = 0;
  std::uint32_t logical = 0;
  std::uint32_t physical = 0;
  if (::ioctl(descriptor, DKIOCGETBLOCKCOUNT, &blocks) != 0 ||
      ::ioctl(descriptor, DKIOCGETBLOCKSIZE, &logical) != 0 ||
      ::ioctl(descriptor, DKIOCGETPHYSICALBLOCKSIZE, &physical) != 0)
    return -errno;
  if (__builtin_mul_overflow(blocks, logical, &geometry.capacity_bytes)) return -EOVERFLOW;
  geometry.logical_block_size = logical;
  geometry.physical_block_size = physical;
  return 0;
#else
  static_cast<void>(descriptor);
  static_cast<void>(geometry);
  return -ENOSYS;
#endif
}

Index IoCalls::pread(int descriptor, void* data, std::size_t bytes, Index offset) {
  return or_errno<Index>(::pread(descriptor, data, std::min(bytes, kTransferLimit), offset));
}

Index IoCalls::pwrite(int descriptor, const void* data, std::size_t bytes, Index offset) {
  return or_errno<Index>(::pwrite(descriptor, data, std::min(bytes, kTransferLimit), offset));
}

Index IoCalls::copy_range(int from, Index from_offset, int to, Index to_offset, std::size_t bytes) {
#if defined(__linux__)
  if (exceeds_file_limit(to_offset + static_cast<Index>(bytes))) return -EFBIG;
  off_t source = from_offset;
  off_t destination = to_offset;
  return or_errno<Index>(
      ::copy_file_range(from, &source, to, &destination, std::min(bytes, kTransferLimit), 0));
#else
  return -ENOSYS;
#endif
}

int IoCalls::reserve(int descriptor, Index offset, Index bytes) {
  if (exceeds_file_limit(offset + bytes)) return -EFBIG;
#if defined(__linux__)
  return or_errno(::fallocate(descriptor, 0, offset, bytes));
#else
  return -EOPNOTSUPP;
#endif
}

int IoCalls::truncate(int descriptor, Index length) { return or_errno(::ftruncate(descriptor, length)); }

int IoCalls::rename(const char* from, const char* to) { return or_errno(::rename(from, to)); }

int IoCalls::link(int descriptor, const char* path) {
#if defined(__linux__)
  const std::string from = text("/proc/self/fd/", descriptor);
  return or_errno(::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path, AT_SYMLINK_FOLLOW));
#else
  static_cast<void>(descriptor);
  static_cast<void>(path);
  return -ENOSYS;
#endif
}

int IoCalls::duplicate(int descriptor) { return or_errno(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

int IoCalls::unlink(int directory, const char* path, bool directory_itself) {
  return or_errno(::unlinkat(resolve(directory), path, directory_itself ? AT_REMOVEDIR : 0));
}

int IoCalls::probe_lock(int descriptor) { return or_errno(::flock(descriptor, LOCK_EX | LOCK_NB)); }

std::shared_ptr<IoCalls> io_calls() {
  const std::lock_guard lock(io_mutex());
  if (replacement()) return replacement();
  return {std::shared_ptr<void>(), &kernel};  // nothing to count: the kernel stays
}

ScopedIoCalls::ScopedIoCalls(std::shared_ptr<IoCalls> calls) : previous_(std::move(calls)) {
  const std::lock_guard lock(io_mutex());
  std::swap(replacement(), previous_);
}

ScopedIoCalls::~ScopedIoCalls() {
  const std::lock_guard lock(io_mutex());
  std::swap(replacement(), previous_);
}

}  // namespace orlop::inline v0::detail
