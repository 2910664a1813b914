// A table of system calls that follows a script: interruptions, short transfers, failures and held calls
// (S514). For tests of storage code, inside and outside the library.
//
// Protocol. The script owns no bytes and no descriptor; calls that it lets through go to the kernel.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "orlop/io/io_calls.hpp"

namespace orlop::inline v0::detail {

/// A place where a scripted call stops until someone lets it go on.
class ORLOP_API Gate {
 public:
  /// Waits until a call has arrived; false after `seconds` without one.
  [[nodiscard]] bool wait_entered(double seconds);
  /// Lets every call through, now and later.
  void open();
  /// What a held call does: arrives, and waits for open().
  void enter();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool entered_ = false;
  bool open_ = false;
};

/// What one scripted call does.
struct IoStep {
  enum class Kind : std::uint8_t {
    kPass,       ///< the kernel's call
    kInterrupt,  ///< -EINTR, nothing done
    kShort,      ///< the kernel's call on at most `count` bytes
    kZero,       ///< 0, nothing done
    kFail,       ///< -code, nothing done
    kHold,       ///< waits at the gate, then the kernel's call
  };
  Kind kind = Kind::kPass;
  Index count = 0;
  int code = 0;
  std::shared_ptr<Gate> gate = nullptr;
};

struct IoScriptOptions {
  std::vector<IoStep> read = {};     ///< one step per pread; afterwards calls pass through
  std::vector<IoStep> write = {};    ///< one step per pwrite
  std::vector<IoStep> reserve = {};  ///< one step per reserve
  int open_errno = 0;                ///< not 0: every open fails with it
  int close_errno = 0;               ///< not 0: every close closes and reports it
  Index fail_at = 0;    ///< n > 0: the n-th call of all kinds fails with fail_errno, nothing done
  int fail_errno = 5;   ///< EIO
  Index signal_at = 0;  ///< n > 0: before the n-th call of all kinds the process gets `signal`
  int signal = 9;       ///< SIGKILL
};

class ORLOP_API IoScript final : public IoCalls {
 public:
  struct Counts {
    Index calls = 0;  ///< of every kind
    Index opens = 0;
    Index reads = 0;
    Index writes = 0;
    Index closes = 0;
    Index reads_left = 0;  ///< steps not used yet
    Index writes_left = 0;
  };

  explicit IoScript(IoScriptOptions options);
  ~IoScript() override;
  [[nodiscard]] Counts counts() const;
  /// From now on regular files look like a block device of this geometry.
  void present_as_device(DeviceGeometry geometry);

  int open(int directory, const char* path, int flags, unsigned mode) override;
  int close(int descriptor) override;
  int stat_node(int descriptor, NodeStatus& status) override;
  int stat_path(const char* path, NodeStatus& status) override;
  int access(const char* path, int mode) override;
  int geometry(int descriptor, DeviceGeometry& geometry) override;
  Index pread(int descriptor, void* data, std::size_t bytes, Index offset) override;
  Index pwrite(int descriptor, const void* data, std::size_t bytes, Index offset) override;
  Index copy_range(int from, Index from_offset, int to, Index to_offset, std::size_t bytes) override;
  int reserve(int descriptor, Index offset, Index bytes) override;
  int truncate(int descriptor, Index length) override;
  int rename(const char* from, const char* to) override;
  int link(int descriptor, const char* path) override;
  int duplicate(int descriptor) override;
  int unlink(int directory, const char* path, bool directory_itself) override;
  int probe_lock(int descriptor) override;

 private:
  struct Track {
    std::vector<IoStep> steps;
    std::size_t used = 0;
  };

  /// Counts a call; the failure it must report, or 0.
  int count(Index* kind = nullptr);
  IoStep next(Track& track);
  template <class Call>
  Index follow(Track& track, Index* kind, std::size_t bytes, Call call);

  mutable std::mutex mutex_;
  IoScriptOptions options_;
  Track read_;
  Track write_;
  Track reserve_;
  Counts counts_;
  std::optional<DeviceGeometry> device_;
};

}  // namespace orlop::inline v0::detail
