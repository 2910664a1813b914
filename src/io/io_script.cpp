// Follows the script, one step per call, from any number of threads.
#include "orlop/io/io_script.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

namespace orlop::inline v0::detail {

bool Gate::wait_entered(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return entered_; });
}

void Gate::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void Gate::enter() {
  std::unique_lock lock(mutex_);
  entered_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return open_; });
}

IoScript::IoScript(IoScriptOptions options)
    : options_(std::move(options)),
      read_{std::move(options_.read)},
      write_{std::move(options_.write)},
      reserve_{std::move(options_.reserve)} {}

IoScript::~IoScript() = default;

IoScript::Counts IoScript::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.reads_left = static_cast<Index>(read_.steps.size() - read_.used);
  counts.writes_left = static_cast<Index>(write_.steps.size() - write_.used);
  return counts;
}

void IoScript::present_as_device(DeviceGeometry geometry) {
  const std::lock_guard lock(mutex_);
  device_ = geometry;
}

int IoScript::count(Index* kind) {
  const std::lock_guard lock(mutex_);
  if (kind != nullptr) ++*kind;
  ++counts_.calls;
  if (counts_.calls == options_.signal_at) std::raise(options_.signal);
  return counts_.calls == options_.fail_at ? -options_.fail_errno : 0;
}

IoStep IoScript::next(Track& track) {
  const std::lock_guard lock(mutex_);
  return track.used < track.steps.size() ? track.steps[track.used++] : IoStep{};
}

template <class Call>
Index IoScript::follow(Track& track, Index* kind, std::size_t bytes, Call call) {
  const int failure = count(kind);
  const IoStep step = next(track);
  if (failure != 0) return failure;
  switch (step.kind) {
    case IoStep::Kind::kInterrupt:
      return -EINTR;
    case IoStep::Kind::kZero:
      return 0;
    case IoStep::Kind::kFail:
      return -step.code;
    case IoStep::Kind::kShort:
      return call(std::min(bytes, static_cast<std::size_t>(step.count)));
    case IoStep::Kind::kHold:
      step.gate->enter();
      break;
    case IoStep::Kind::kPass:
      break;
  }
  return call(bytes);
}

int IoScript::open(int directory, const char* path, int flags, unsigned mode) {
  if (const int failure = count(&counts_.opens)) return failure;
  if (options_.open_errno != 0) return -options_.open_errno;
  return IoCalls::open(directory, path, flags, mode);
}

int IoScript::close(int descriptor) {
  const int failure = count(&counts_.closes);
  const int result = IoCalls::close(descriptor);
  if (failure != 0) return failure;
  return options_.close_errno != 0 ? -options_.close_errno : result;
}

int IoScript::stat_node(int descriptor, NodeStatus& status) {
  if (const int failure = count()) return failure;
  const int result = IoCalls::stat_node(descriptor, status);
  const std::lock_guard lock(mutex_);
  if (device_ && status.kind == NodeStatus::Kind::kRegular) status.kind = NodeStatus::Kind::kBlockDevice;
  return result;
}

int IoScript::stat_path(const char* path, NodeStatus& status) {
  if (const int failure = count()) return failure;
  return IoCalls::stat_path(path, status);
}

int IoScript::access(const char* path, int mode) {
  if (const int failure = count()) return failure;
  return IoCalls::access(path, mode);
}

int IoScript::geometry(int descriptor, DeviceGeometry& geometry) {
  if (const int failure = count()) return failure;
  {
    const std::lock_guard lock(mutex_);
    if (device_) {
      geometry = *device_;
      return 0;
    }
  }
  return IoCalls::geometry(descriptor, geometry);
}

Index IoScript::pread(int descriptor, void* data, std::size_t bytes, Index offset) {
  return follow(read_, &counts_.reads, bytes,
                [&](std::size_t size) { return IoCalls::pread(descriptor, data, size, offset); });
}

Index IoScript::pwrite(int descriptor, const void* data, std::size_t bytes, Index offset) {
  return follow(write_, &counts_.writes, bytes,
                [&](std::size_t size) { return IoCalls::pwrite(descriptor, data, size, offset); });
}

Index IoScript::copy_range(int from, Index from_offset, int to, Index to_offset, std::size_t bytes) {
  if (const int failure = count()) return failure;
  return IoCalls::copy_range(from, from_offset, to, to_offset, bytes);
}

int IoScript::reserve(int descriptor, Index offset, Index bytes) {
  return static_cast<int>(
      follow(reserve_, nullptr, static_cast<std::size_t>(bytes), [&](std::size_t size) -> Index {
        return IoCalls::reserve(descriptor, offset, static_cast<Index>(size));
      }));
}

int IoScript::truncate(int descriptor, Index length) {
  if (const int failure = count()) return failure;
  return IoCalls::truncate(descriptor, length);
}

int IoScript::rename(const char* from, const char* to) {
  if (const int failure = count()) return failure;
  return IoCalls::rename(from, to);
}

int IoScript::link(int descriptor, const char* path) {
  if (const int failure = count()) return failure;
  return IoCalls::link(descriptor, path);
}

int IoScript::duplicate(int descriptor) {
  if (const int failure = count()) return failure;
  return IoCalls::duplicate(descriptor);
}

int IoScript::unlink(int directory, const char* path, bool directory_itself) {
  if (const int failure = count()) return failure;
  return IoCalls::unlink(directory, path, directory_itself);
}

int IoScript::probe_lock(int descriptor) {
  if (const int failure = count()) return failure;
  return IoCalls::probe_lock(descriptor);
}

}  // namespace orlop::inline v0::detail
