// A temporary file's life: lazy creation, transfers through the descriptor cache, removal by its owner only.
#include "orlop/io/temporary_file.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <utility>

#include "io/descriptor_cache.hpp"
#include "io/fork.hpp"
#include "io/remedy.hpp"
#include "orlop/base/log.hpp"
#include "orlop/io/session_directory.hpp"

namespace orlop::inline v0::detail {

/// Holds the file open for one transfer.
class TemporaryFile::Use {
 public:
  Use(const TemporaryFile& file, std::string_view operation, Index bytes, Index offset)
      : file_(file), calls_(io_calls()), descriptor_(file.acquire(*calls_, operation, bytes, offset)) {}
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { release_descriptor(*calls_, file_.cached_); }

  [[nodiscard]] IoTarget target() const {
    return {*calls_, descriptor_, file_.what_, file_.path_, kAnotherPlace};
  }

 private:
  const TemporaryFile& file_;
  std::shared_ptr<IoCalls> calls_;
  int descriptor_;
};

namespace {

constexpr int kMakeNew = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

bool try_write(const IoTarget& target, std::span<const std::byte> data, Index offset) noexcept {
  try {
    write_fully(target, data, offset);
    return true;
  } catch (...) {
    return false;
  }
}

std::string next_name() {
  static std::atomic<std::uint64_t> count{0};
  return text("storage-", count.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace

void TemporaryFile::check_name(std::string_view name) {
  constexpr std::string_view forbidden{"/\0", 2};
  if (name.empty() || name == "." || name == ".." || name.find_first_of(forbidden) != std::string_view::npos)
    raise<ValueError>(
        "FileBacked", "filename must be a bare file name: got '", name,
        "'; use a name that is not empty, '.' or '..' and has no '/' and no NUL, or leave it out");
}

TemporaryFile::TemporaryFile(std::string_view what, std::optional<std::string> name)
    : what_(what), owner_(process_id()) {
  if (!name) return;
  check_name(*name);
  name_ = *std::move(name);
}

TemporaryFile::~TemporaryFile() {
  try {
    remove();
  } catch (...) {
    // The file stays until the session directory goes; the descriptor must not.
    discard_descriptor(*io_calls(), cached_);
  }
}

bool TemporaryFile::is_inherited() const noexcept { return owner_ != process_id(); }

std::string TemporaryFile::inherited_reason() const {
  return text("storage made before a fork belongs to the parent process ", owner_, " and process ",
              process_id(), " may only read it; make new storage here");
}

void TemporaryFile::require_owner() const {
  if (is_inherited()) raise<RuntimeError>(what_, inherited_reason());
}

void TemporaryFile::require_present() const {
  if (removed_.load(std::memory_order_acquire))
    raise<RuntimeError>(what_, "storage is released: its file is gone");
  if (!is_created()) raise<RuntimeError>(what_, "storage is empty: no file was made yet");
}

int TemporaryFile::acquire(IoCalls& calls, std::string_view operation, Index bytes, Index offset) const {
  require_present();
  const int descriptor = acquire_descriptor(calls, cached_, path_);
  if (descriptor < 0)
    raise_os_error({calls, descriptor, what_, path_, kAnotherPlace}, text("open for ", operation),
                   -descriptor, bytes, offset);
  return descriptor;
}

void TemporaryFile::create() {
  if (is_created()) return;
  require_owner();
  if (make()) log(LogChannel::io, what_, ": made '", path_, "'");
}

bool TemporaryFile::make() {
  const std::lock_guard lock(creation_);
  if (is_created()) return false;
  const std::string directory = session_directory();
  const auto calls = io_calls();
  int descriptor = -EEXIST;
  const int attempts = name_.empty() ? 1000 : 1;  // a chosen name may look like a generated one
  for (int attempt = 0; attempt < attempts && descriptor == -EEXIST; ++attempt) {
    path_ = text(directory, '/', name_.empty() ? next_name() : name_);
    descriptor = open_making_room(*calls, path_, kMakeNew, 0600);
  }
  if (descriptor < 0) raise_os_error(what_, "create", -descriptor, path_, kAnotherPlace);
  if (adopt_descriptor(*calls, cached_, descriptor) >= 0) release_descriptor(*calls, cached_);
  created_.store(true, std::memory_order_release);
  return true;
}

void TemporaryFile::read(std::span<std::byte> data, Index offset, Index* completed) const {
  const Use use(*this, "read", static_cast<Index>(data.size()), offset);
  read_fully(use.target(), data, offset, completed);
}

void TemporaryFile::write(std::span<const std::byte> data, Index offset, WriteProgress* progress) {
  require_owner();
  const Use use(*this, "write", static_cast<Index>(data.size()), offset);
  write_fully(use.target(), data, offset, progress);
}

void TemporaryFile::copy_to(const IoTarget& to, Index to_offset, Index offset, Index bytes) const {
  const Use use(*this, "read", bytes, offset);
  copy_fully(use.target(), offset, to, to_offset, bytes);
}

void TemporaryFile::copy_from(const IoTarget& from, Index from_offset, Index offset, Index bytes) {
  require_owner();
  const Use use(*this, "write", bytes, offset);
  copy_fully(from, from_offset, use.target(), offset, bytes);
}

void TemporaryFile::replace(std::span<const std::byte> data, Index offset, bool& is_lost) {
  require_owner();
  const Use use(*this, "write", static_cast<Index>(data.size()), offset);
  std::array<std::byte, 16> room;
  const std::span old = std::span(room).first(data.size());
  read_fully(use.target(), old, offset);
  WriteProgress progress;
  try {
    write_fully(use.target(), data, offset, &progress);
  } catch (...) {
    is_lost = progress.may_have_changed && !try_write(use.target(), old, offset);
    throw;
  }
}

void TemporaryFile::grow(Index length, Index bytes) {
  require_owner();
  create();
  const Use use(*this, "reserve", bytes, length);
  truncate_to(use.target(), length);
  reserve_fully(use.target(), length, bytes);
}

void TemporaryFile::shrink(Index length) {
  require_owner();
  const Use use(*this, "truncate", 0, length);
  truncate_to(use.target(), length);
}

void TemporaryFile::remove() {
  const auto calls = io_calls();
  if (is_created() && !is_inherited() && !removed_.load(std::memory_order_acquire)) {
    const int result =
        uninterrupted([&] { return calls->unlink(IoCalls::kWorkingDirectory, path_.c_str(), false); });
    if (result < 0 && result != -ENOENT) raise_os_error(what_, "unlink", -result, path_);
    log(LogChannel::io, what_, ": removed '", path_, "'");
  }
  removed_.store(true, std::memory_order_release);
  discard_descriptor(*calls, cached_);
}

}  // namespace orlop::inline v0::detail
