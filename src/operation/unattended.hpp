// Long work on memory that nobody else can take away or knows yet.
#pragma once

#include <optional>

#include "orlop/base/blocking.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

/// Whether it is worth it that others go on while so many elements are computed (P46).
[[nodiscard]] constexpr bool is_long(Index elements) { return elements >= 2 * parallel_grain; }

/// Whoever may not wait for the work goes on meanwhile, and an interrupted user can end it. `is_unattended`:
/// it is long, and what it reads is held.
class UnattendedWork {
 public:
  explicit UnattendedWork(bool is_unattended) {
    if (!is_unattended) return;
    others_run_.emplace();
    interruptible_.emplace();
  }

 private:
  std::optional<BlockingScope> others_run_;
  std::optional<InterruptibleScope> interruptible_;
};

}  // namespace orlop::inline v0
