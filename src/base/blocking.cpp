// The installed hooks around waits.
#include "orlop/base/blocking.hpp"

namespace orlop::inline v0 {

namespace {
detail::BlockingHooks installed{nullptr, nullptr, nullptr};
}  // namespace

BlockingScope::BlockingScope() noexcept : state_(installed.begin != nullptr ? installed.begin() : nullptr) {}

BlockingScope::~BlockingScope() {
  if (state_ != nullptr) installed.end(state_);
}

void check_interrupts() {
  if (installed.check_interrupts != nullptr) installed.check_interrupts();
}

void detail::install_blocking_hooks(BlockingHooks hooks) noexcept { installed = hooks; }

}  // namespace orlop::inline v0
