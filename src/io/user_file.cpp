// Opening, reading and replacing the user's files.
#include "orlop/io/user_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "io/descriptor_cache.hpp"
#include "io/fork.hpp"
#include "io/leftovers.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/base/forever.hpp"

namespace orlop::inline v0::detail {

namespace {

void check_path(std::string_view what, const std::string& path) {
  if (path.find('\0') != std::string::npos)
    raise<ValueError>(what, "the path has an embedded NUL: no file can have it");
}

// A device or a pipe is not to be replaced by a file, which the rename would do; nor is what cannot be looked
// at.
void check_replaceable(IoCalls& calls, std::string_view what, const std::string& path) {
  using Kind = NodeStatus::Kind;
  NodeStatus found;
  const int result = uninterrupted([&] { return calls.stat_path(path.c_str(), found); });
  if (result == -ENOENT) return;
  if (result < 0) raise_os_error(what, "stat", -result, path);
  if (found.kind == Kind::kBlockDevice || found.kind == Kind::kOther)
    raise<ValueError>(what, "'", path, "' is no regular file; only those are replaced");
}

constexpr std::string_view kPrefix = ".orlop-saving-";

// With the slash, or empty.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// A file that has no name and is gone when it is closed, or -1 where it could not be had or be named later.
int open_unnamed(IoCalls& calls, const std::string& folder) {
#ifdef O_TMPFILE
  const int opened = open_making_room(calls, folder + ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
  if (opened >= 0 && calls.access("/proc/self/fd", X_OK) == 0) return opened;
  if (opened >= 0) calls.close(opened);
#endif
  return -1;
}

// When each folder may be looked through again. Guarded by io_mutex().
std::map<std::string, std::chrono::steady_clock::time_point>& due_sweeps() {
  static Forever<std::map<std::string, std::chrono::steady_clock::time_point>> table;
  return *table;
}

// Removes what killed saves left in the folder. That takes the longer the more files are there, so of a
// process that saves often it gets a hundredth of the time.
void sweep_if_due(IoCalls& calls, const std::string& folder) {
  constexpr int share = 100;
  constexpr std::size_t most = 64;
  const auto start = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(io_mutex());
    const auto found = due_sweeps().find(folder);
    if (found != due_sweeps().end() && start < found->second) return;
  }
  sweep(calls, folder + ".", kPrefix, NodeStatus::Kind::kRegular);
  const auto end = std::chrono::steady_clock::now();
  const std::lock_guard lock(io_mutex());
  if (due_sweeps().size() >= most) due_sweeps().clear();
  due_sweeps()[folder] = end + share * (end - start);
}

}  // namespace

InputFile::InputFile(std::string_view what, std::string path)
    : what_(what), path_(std::move(path)), calls_(io_calls()) {
  check_path(what_, path_);
  const BlockingScope blocking;
  // Without O_NONBLOCK a pipe would wait for its other end.
  // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): after the path's check
  descriptor_ = open_making_room(*calls_, path_, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (descriptor_ < 0) raise_os_error(what_, "open", -descriptor_, path_);
  try {
    NodeStatus status;
    const int result = calls_->stat_node(descriptor_, status);
    if (result < 0) raise_os_error(what_, "stat", -result, path_);
    if (status.kind == NodeStatus::Kind::kDirectory) raise_os_error(what_, "open", EISDIR, path_);
    if (status.kind != NodeStatus::Kind::kRegular)
      raise<ValueError>(what_, "'", path_, "' is no regular file; only those can be read");
    bytes_ = status.bytes;
  } catch (...) {
    calls_->close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() { calls_->close(descriptor_); }

void InputFile::read(std::span<std::byte> data, Index offset) const {
  const BlockingScope blocking;
  read_fully(target(), data, offset);
}

OutputFile::OutputFile(std::string_view what, std::string path, Index bytes)
    : what_(what), path_(std::move(path)), calls_(io_calls()), owner_(process_id()) {
  check_path(what_, path_);
  const BlockingScope blocking;
  check_replaceable(*calls_, what_, path_);
  const std::string folder = folder_of(path_);
  descriptor_ = open_unnamed(*calls_, folder);
  try {
    if (descriptor_ < 0)
      make_named(folder);
    else
      calls_->probe_lock(descriptor_);  // for the moment with a name; where nobody can lock, nobody sweeps
    sweep_if_due(*calls_, folder);
    reserve_fully(target(), 0, bytes);
  } catch (...) {
    discard();
    throw;
  }
}

void OutputFile::make_named(const std::string& folder) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary_ = folder + unique_name(kPrefix);
    descriptor_ =
        open_making_room(*calls_, temporary_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0) break;
    if (claim(*calls_, descriptor_) != -EWOULDBLOCK) return;
    calls_->close(std::exchange(descriptor_, -EWOULDBLOCK));  // a sweep came before the lock
  }
  temporary_.clear();
  raise_os_error(what_, "create a file for the replacement", -descriptor_, path_);
}

OutputFile::~OutputFile() {
  const BlockingScope blocking;
  discard();
}

void OutputFile::discard() noexcept {
  if (!temporary_.empty() && owner_ == process_id())
    uninterrupted([&] { return calls_->unlink(IoCalls::kWorkingDirectory, temporary_.c_str(), false); });
  temporary_.clear();
  if (descriptor_ >= 0) calls_->close(std::exchange(descriptor_, -1));
}

void OutputFile::write(std::span<const std::byte> data, Index offset) {
  const BlockingScope blocking;
  write_fully(target(), data, offset);
}

void OutputFile::commit() {
  if (owner_ != process_id())
    raise<RuntimeError>(what_, "the file was begun before a fork, in the parent process ", owner_,
                        ": it cannot be finished in process ", process_id(), "; save it anew here");
  const BlockingScope blocking;
  // A second descriptor tells what closing would; the first keeps the lock, and what has no name yet.
  const int second = duplicate_making_room(*calls_, descriptor_);
  if (second < 0) raise_os_error(what_, "dup", -second, path_);
  if (const int closed = calls_->close(second); closed < 0) raise_os_error(what_, "close", -closed, path_);
  if (temporary_.empty() && try_link(path_)) return discard();
  if (temporary_.empty()) {
    std::string name = folder_of(path_) + unique_name(kPrefix);
    if (!try_link(name)) raise_os_error(what_, "link", EEXIST, name);
    temporary_ = std::move(name);
  }
  const int renamed = uninterrupted([&] { return calls_->rename(temporary_.c_str(), path_.c_str()); });
  if (renamed < 0) raise_os_error(what_, "rename", -renamed, path_);
  temporary_.clear();
  discard();
}

// False where something has the name.
bool OutputFile::try_link(const std::string& name) {
  const int linked = uninterrupted([&] { return calls_->link(descriptor_, name.c_str()); });
  if (linked < 0 && linked != -EEXIST) raise_os_error(what_, "link", -linked, path_);
  return linked == 0;
}

}  // namespace orlop::inline v0::detail
