// A file, device or directory opened for a while.
#pragma once

#include <string>
#include <utility>

#include "orlop/io/transfer.hpp"

namespace orlop::inline v0::detail {

/// Closed at the end of its scope, unless it is kept.
class Opened {
 public:
  /// `path` is relative to the directory `parent`.
  Opened(IoCalls& calls, int parent, const std::string& path, int flags)
      : calls_(calls),
        descriptor_(uninterrupted([&] { return calls.open(parent, path.c_str(), flags, 0); })) {}
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    if (descriptor_ >= 0) calls_.close(descriptor_);
  }

  /// The descriptor, or -errno.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Gives the descriptor to the caller.
  int keep() noexcept { return std::exchange(descriptor_, -1); }

 private:
  IoCalls& calls_;
  int descriptor_;
};

}  // namespace orlop::inline v0::detail
