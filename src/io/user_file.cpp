// Opening, reading and replacing the user's files.
#include "orlop/io/user_file.hpp"

#include <fcntl.h>

#include <atomic>
#include <utility>

#include "io/descriptor_cache.hpp"
#include "io/fork.hpp"
#include "orlop/base/blocking.hpp"

namespace orlop::inline v0::detail {

namespace {

void check_path(std::string_view what, const std::string& path) {
  if (path.find('\0') != std::string::npos)
    raise<ValueError>(what, "the path has an embedded NUL: no file can have it");
}

std::string temporary_beside(const std::string& path) {
  static std::atomic<std::uint64_t> count{0};
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  return text(folder, ".orlop-", process_id(), '-', count.fetch_add(1, std::memory_order_relaxed), ".tmp");
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
    : what_(what), path_(std::move(path)), calls_(io_calls()), descriptor_(-EEXIST) {
  check_path(what_, path_);
  const BlockingScope blocking;
  // A former process of this number may have left files.
  for (int attempt = 0; attempt < 1000 && descriptor_ == -EEXIST; ++attempt) {
    temporary_ = temporary_beside(path_);
    descriptor_ =
        open_making_room(*calls_, temporary_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  if (descriptor_ < 0) raise_os_error(what_, "create a file for the replacement", -descriptor_, path_);
  try {
    reserve_fully(target(), 0, bytes);
  } catch (...) {
    discard();
    throw;
  }
}

OutputFile::~OutputFile() {
  const BlockingScope blocking;
  discard();
}

void OutputFile::discard() noexcept {
  if (descriptor_ >= 0) calls_->close(std::exchange(descriptor_, -1));
  if (temporary_.empty()) return;
  uninterrupted([&] { return calls_->unlink(IoCalls::kWorkingDirectory, temporary_.c_str(), false); });
  temporary_.clear();
}

void OutputFile::write(std::span<const std::byte> data, Index offset) {
  const BlockingScope blocking;
  write_fully(target(), data, offset);
}

void OutputFile::commit() {
  const BlockingScope blocking;
  int result = calls_->close(std::exchange(descriptor_, -1));
  if (result < 0) raise_os_error(what_, "close", -result, path_);
  result = uninterrupted([&] { return calls_->rename(temporary_.c_str(), path_.c_str()); });
  if (result < 0) raise_os_error(what_, "rename", -result, path_);
  temporary_.clear();
}

}  // namespace orlop::inline v0::detail
