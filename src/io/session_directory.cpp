// Makes, locks, sweeps and removes session directories.
#include "orlop/io/session_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "io/fork.hpp"
#include "io/remedy.hpp"
#include "orlop/io/io_calls.hpp"
#include "orlop/io/transfer.hpp"

namespace orlop::inline v0::detail {

namespace {

constexpr std::string_view kWhat = "FileBacked";
constexpr std::string_view kPrefix = ".orlop-filebacked-";
constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// An open directory; closed at the end of its scope.
class Directory {
 public:
  Directory(IoCalls& calls, int parent, const std::string& path)
      : calls_(calls),
        descriptor_(uninterrupted([&] { return calls.open(parent, path.c_str(), kOpenDirectory, 0); })) {}
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() {
    if (descriptor_ >= 0) calls_.close(descriptor_);
  }

  /// The descriptor, or -errno.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  int detach() { return std::exchange(descriptor_, -1); }

 private:
  IoCalls& calls_;
  int descriptor_;
};

std::vector<std::string> entries(int directory) {
  std::vector<std::string> names;
  // A second description: fdopendir takes its descriptor over and moves its position.
  const int listing = ::openat(directory, ".", kOpenDirectory);
  DIR* stream = listing < 0 ? nullptr : ::fdopendir(listing);
  if (stream == nullptr) {
    if (listing >= 0) ::close(listing);
    return names;
  }
  while (const dirent* entry = ::readdir(stream)) names.emplace_back(entry->d_name);
  ::closedir(stream);
  return names;
}

// Removes the files of a directory whose lock is held, then the directory. What cannot go stays.
void remove_contents(IoCalls& calls, int directory) {
  for (const std::string& name : entries(directory))
    if (name != "." && name != "..") calls.unlink(directory, name.c_str(), false);
}

// Removes what dead processes of this user left in `base`. Everything that is not certainly so is kept.
void sweep(IoCalls& calls, const std::string& base) {
  const Directory parent(calls, IoCalls::kWorkingDirectory, base + "/.");
  if (parent.descriptor() < 0) return;
  for (const std::string& name : entries(parent.descriptor())) {
    if (!name.starts_with(kPrefix)) continue;
    const Directory stale(calls, parent.descriptor(), name);
    NodeStatus status;
    if (stale.descriptor() < 0 || calls.stat_node(stale.descriptor(), status) != 0) continue;
    if (status.owner != ::geteuid() || calls.probe_lock(stale.descriptor()) != 0) continue;
    remove_contents(calls, stale.descriptor());
    calls.unlink(parent.descriptor(), name.c_str(), true);
  }
}

std::string base_directory() {
  for (const char* variable : {"ORLOP_TMPDIR", "TMPDIR", "TEMP", "TMP"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    std::error_code error;
    const std::filesystem::path base = std::filesystem::absolute(value, error);
    if (error) raise_os_error(kWhat, "getcwd", error.value(), value, kAnotherPlace);
    return base.string();
  }
  return "/var/tmp";
}

std::string random_name() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::random_device source;
  std::string name = text(kPrefix, process_id(), '-');
  for (int word = 0; word < 2; ++word)
    for (unsigned bits = source(), digit = 0; digit < 8; ++digit, bits >>= 4) name += digits[bits & 15U];
  return name;
}

// Guarded by session_mutex(). The destructor runs at exit: it is made when the library is loaded, so whatever
// still moves data then was made later and has ended before.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    const std::lock_guard lock(session_mutex());
    try {
      remove();
    } catch (...) {  // no memory for the list of names: the next process's sweep removes them
    }
  }

  const std::string& path() {
    if (owner_ != ::getpid()) forget();
    if (lock_ < 0) make();
    return path_;
  }

  void forget() noexcept {
    if (lock_ >= 0) ::close(lock_);
    lock_ = -1;
    path_.clear();
  }

 private:
  void make() {
    const auto calls = io_calls();
    const std::string base = base_directory();
    for (int attempt = 0; attempt < 100; ++attempt) {
      if (!try_make(*calls, base + "/" + random_name())) continue;
      sweep(*calls, base);
      return;
    }
    raise<RuntimeError>(kWhat, "no directory for temporary files could be locked in '", base, "'; ",
                        kAnotherPlace);
  }

  // False where another process's sweep was faster than our lock, or the name is taken.
  bool try_make(IoCalls& calls, const std::string& path) {
    if (::mkdir(path.c_str(), 0700) != 0) {
      if (errno == EEXIST || errno == EINTR) return false;
      raise_os_error(kWhat, "mkdir", errno, path, kAnotherPlace);
    }
    try {
      Directory made(calls, IoCalls::kWorkingDirectory, path);
      if (made.descriptor() == -ENOENT) return false;  // a sweep came before the lock
      if (made.descriptor() < 0) raise_os_error(kWhat, "open", -made.descriptor(), path, kAnotherPlace);
      const int locked = uninterrupted([&] { return calls.probe_lock(made.descriptor()); });
      if (locked == -EWOULDBLOCK) return false;
      if (locked != 0) raise_os_error(kWhat, "flock", -locked, path, kAnotherPlace);
      NodeStatus status;
      const int known = calls.stat_node(made.descriptor(), status);
      if (known != 0) raise_os_error(kWhat, "fstat", -known, path, kAnotherPlace);
      if (status.links == 0) return false;
      path_ = path;
      lock_ = made.detach();
      owner_ = ::getpid();
      return true;
    } catch (...) {
      calls.unlink(IoCalls::kWorkingDirectory, path.c_str(), true);
      throw;
    }
  }

  void remove() {
    if (lock_ < 0 || owner_ != ::getpid()) return;
    const auto calls = io_calls();
    remove_contents(*calls, lock_);
    calls->unlink(IoCalls::kWorkingDirectory, path_.c_str(), true);
    calls->close(lock_);
    lock_ = -1;
  }

  std::string path_;
  int lock_ = -1;
  int owner_ = 0;
};

Session session;

}  // namespace

std::string session_directory() {
  const std::lock_guard lock(session_mutex());
  return session.path();
}

void forget_parent_session() noexcept { session.forget(); }

}  // namespace orlop::inline v0::detail
