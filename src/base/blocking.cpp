// The installed hooks around waits.
#include "orlop/base/blocking.hpp"

#include <chrono>
#include <utility>

#include "base/task_arena.hpp"

namespace orlop::inline v0 {

namespace {

using Clock = std::chrono::steady_clock;

detail::BlockingHooks installed{nullptr, nullptr, nullptr};
thread_local void* released = nullptr;  // what the scope got that let the interpreter go on this thread
thread_local bool is_interruptible = false;
thread_local Clock::time_point last_check;  // of a loop

/// Takes the interpreter back, and lets it go again afterwards. What a handler calls meanwhile may write
/// where others read.
class Interlude {
 public:
  Interlude()
      : was_released_(released != nullptr), was_interruptible_(std::exchange(is_interruptible, false)) {
    if (was_released_) installed.end(std::exchange(released, nullptr));
  }
  Interlude(const Interlude&) = delete;
  Interlude& operator=(const Interlude&) = delete;
  ~Interlude() {
    is_interruptible = was_interruptible_;
    if (was_released_) released = installed.begin();
  }

 private:
  bool was_released_;
  bool was_interruptible_;
};

}  // namespace

BlockingScope::BlockingScope() noexcept : state_(installed.begin != nullptr ? installed.begin() : nullptr) {
  if (state_ != nullptr) released = state_;
}

BlockingScope::~BlockingScope() {
  if (state_ != nullptr) installed.end(std::exchange(released, nullptr));
}

// A loop's body must not wait for the interpreter.
void check_interrupts() {
  if (installed.check_interrupts == nullptr || detail::is_in_loop()) return;
  const Interlude interlude;
  installed.check_interrupts();
}

InterruptibleScope::InterruptibleScope() noexcept
    : was_interruptible_(std::exchange(is_interruptible, true)) {
  last_check = {};
}

InterruptibleScope::~InterruptibleScope() { is_interruptible = was_interruptible_; }

// Rounds may be short, and whoever has the interpreter may keep it for some milliseconds.
void detail::check_interrupts_of_loop() {
  constexpr std::chrono::milliseconds interval{50};
  if (!is_interruptible || is_in_loop()) return;
  const Clock::time_point now = Clock::now();
  if (now - last_check < interval) return;
  last_check = now;
  check_interrupts();
}

void detail::install_blocking_hooks(BlockingHooks hooks) noexcept { installed = hooks; }

}  // namespace orlop::inline v0
