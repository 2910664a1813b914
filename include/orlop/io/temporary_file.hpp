// One file in the session directory: made, grown, read, written and removed by its one owner.
//
// Protocol. The object owns the file and every byte in it; nobody else writes there. A write is one loop of
// positioned calls and not atomic: a failed one may leave a prefix (WriteProgress). Growth is all or nothing.
// Nothing is flushed or durable. A crash leaves the file in its session directory, which the next process
// removes (session_directory.hpp). In a fork's child the object is a reader: it changes and deletes nothing.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "orlop/base/export.hpp"
#include "orlop/io/io_calls.hpp"
#include "orlop/io/transfer.hpp"

namespace orlop::inline v0::detail {

/// A descriptor that the process-wide cache may close while nobody uses it and open again on demand. At most
/// 64 idle ones are kept, so that any number of files lives under any limit of open files (S602). Guarded by
/// the cache's lock; neighbours are the cache's list.
struct CachedDescriptor {
  int descriptor = -1;
  int users = 0;
  bool discarded = false;  ///< the file is gone: close with the last user
  CachedDescriptor* newer = nullptr;
  CachedDescriptor* older = nullptr;
};

/// Any number of threads may read and write one object; overlapping writes are the caller's race.
class ORLOP_API TemporaryFile {
 public:
  /// Most descriptors that the process keeps open for files not in use.
  static constexpr int kOpenLimit = 64;

  /// ValueError ‹bare file name› unless `name` names an entry of a directory: not empty, `.` or `..`, without
  /// `/` and NUL.
  static void check_name(std::string_view name);

  /// Names a file without making it. No name: a unique one is chosen. `what` is the owner, for messages.
  explicit TemporaryFile(std::string_view what, std::optional<std::string> name = std::nullopt);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  /// As remove().
  ~TemporaryFile();

  /// Makes the empty file (0600) unless it exists already by this object's doing. OSError, among them EEXIST.
  void create();
  [[nodiscard]] bool is_created() const noexcept { return created_.load(std::memory_order_acquire); }
  /// The absolute path; only once created.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Whether a fork put this object into another process than the one that owns the file.
  [[nodiscard]] bool is_inherited() const noexcept;
  /// What a refusal says about that.
  [[nodiscard]] std::string inherited_reason() const;
  /// RuntimeError where is_inherited().
  void require_owner() const;

  /// Exactly `data.size()` bytes at `offset`, all inside what grow() made.
  void read(std::span<std::byte> data, Index offset, Index* completed = nullptr) const;
  void write(std::span<const std::byte> data, Index offset, WriteProgress* progress = nullptr);
  /// Copies bytes to another open file or from it, inside the kernel where it can.
  void copy_to(const IoTarget& to, Index to_offset, Index offset, Index bytes) const;
  void copy_from(const IoTarget& from, Index from_offset, Index offset, Index bytes);
  /// A write of at most 16 bytes that puts the old ones back where it fails (S603). `is_lost`: the old ones
  /// could not be written either, so the range may hold anything.
  void replace(std::span<const std::byte> data, Index offset, bool& is_lost);
  /// Makes the file `length + bytes` long, with blocks reserved and the new bytes zero (see reserve_fully);
  /// creates it where needed. What lay beyond `length` is dropped first.
  void grow(Index length, Index bytes);
  /// Cuts the file to `length` bytes. OSError.
  void shrink(Index length);
  /// Removes the file; a missing one is fine. OSError where it stays, and then it can be tried again. In a
  /// fork's child nothing is removed.
  void remove();

 private:
  class Use;

  /// Whether it made the file.
  bool make();
  void require_present() const;
  /// The open descriptor, with one user more.
  int acquire(IoCalls& calls, std::string_view operation, Index bytes, Index offset) const;

  std::string_view what_;
  std::string name_;
  std::string path_;
  int owner_;
  std::mutex creation_;
  std::atomic<bool> created_{false};
  std::atomic<bool> removed_{false};
  mutable CachedDescriptor cached_;
};

/// How many descriptors of temporary files are open now, in use or idle.
[[nodiscard]] ORLOP_API int open_temporary_files() noexcept;

}  // namespace orlop::inline v0::detail
