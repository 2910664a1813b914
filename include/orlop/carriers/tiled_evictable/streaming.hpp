// How a direct operation on tiles gets on, step by step (X116).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "orlop/base/export.hpp"
#include "orlop/base/message.hpp"

namespace orlop::inline v0::streaming {

/// What a progress callback is told: after `step` of `steps` steps; step 0 comes before any kernel.
struct TiledProgress {
  std::string operation;
  std::string phase;  ///< "forward" or "backward"
  Index step = 0;
  Index steps = 0;
  Index primary_bytes = 0;  ///< P of X101, of all tiled carriers that take part
  friend bool operator==(const TiledProgress&, const TiledProgress&) = default;
};

using ProgressCallback = std::function<void(const TiledProgress&)>;

/// While it lives, `callback` is called by the direct operations and backwards of the thread that made it, on
/// that thread and under no lock; of several the innermost is. What it throws ends the operation like a
/// failed transfer (X114). It may read statistics, but neither move the carriers' tiles nor release them.
///
///     streaming::ProgressScope scope{[](const streaming::TiledProgress& p) { show(p.step, p.steps); }};
class ORLOP_API ProgressScope {
 public:
  /// Errors: TypeError where there is no callback.
  explicit ProgressScope(ProgressCallback callback);
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;
  /// In any order and on any thread.
  ~ProgressScope();

 private:
  struct Entry;
  friend ORLOP_API ProgressCallback progress_callback();
  std::shared_ptr<Entry> entry_;
};

/// The innermost callback of this thread, or an empty one.
[[nodiscard]] ORLOP_API ProgressCallback progress_callback();

}  // namespace orlop::inline v0::streaming
