// Makes, locks, sweeps and removes session directories.
#include "orlop/io/session_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "io/fork.hpp"
#include "io/leftovers.hpp"
#include "io/opened.hpp"
#include "io/remedy.hpp"
#include "orlop/io/io_calls.hpp"
#include "orlop/io/transfer.hpp"

namespace orlop::inline v0::detail {

namespace {

constexpr std::string_view kWhat = "FileBacked";
constexpr std::string_view kPrefix = ".orlop-filebacked-";

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
      if (!try_make(*calls, text(base, '/', unique_name(kPrefix)))) continue;
      sweep(*calls, base + "/.", kPrefix, NodeStatus::Kind::kDirectory);
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
      Opened made(calls, IoCalls::kWorkingDirectory, path, kOpenDirectory);
      if (made.descriptor() == -ENOENT) return false;  // a sweep came before the lock
      if (made.descriptor() < 0) raise_os_error(kWhat, "open", -made.descriptor(), path, kAnotherPlace);
      const int claimed = claim(calls, made.descriptor());
      if (claimed == -EWOULDBLOCK) return false;
      if (claimed != 0) raise_os_error(kWhat, "lock", -claimed, path, kAnotherPlace);
      path_ = path;
      lock_ = made.keep();
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
