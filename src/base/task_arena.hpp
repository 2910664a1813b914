// The pool behind parallel_for.
#pragma once

#include "orlop/base/message.hpp"

namespace orlop::inline v0::detail {

/// How many processors this process may use.
[[nodiscard]] Index processor_count();

/// Whether this thread is in the body of a loop.
[[nodiscard]] bool is_in_loop() noexcept;

/// Calls `run(loop, range)` for every range from 0 to ranges - 1, on the caller and at most `threads` - 1
/// other threads; returns when all calls have.
void run_ranges(Index threads, Index ranges, void (*run)(void* loop, Index range), void* loop);

}  // namespace orlop::inline v0::detail
