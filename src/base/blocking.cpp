// The installed hooks around waits.
#include "orlop/base/blocking.hpp"

#include <utility>

#include "base/task_arena.hpp"

namespace orlop::inline v0 {

namespace {

detail::BlockingHooks installed{nullptr, nullptr, nullptr};
thread_local void* released = nullptr;  // what the scope got that let the interpreter go on this thread

/// Takes the interpreter back, and lets it go again afterwards.
class Interlude {
 public:
  Interlude() : was_released_(released != nullptr) {
    if (was_released_) installed.end(std::exchange(released, nullptr));
  }
  Interlude(const Interlude&) = delete;
  Interlude& operator=(const Interlude&) = delete;
  ~Interlude() {
    if (was_released_) released = installed.begin();
  }

 private:
  bool was_released_;
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

void detail::install_blocking_hooks(BlockingHooks hooks) noexcept { installed = hooks; }

}  // namespace orlop::inline v0
