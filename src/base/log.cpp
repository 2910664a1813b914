// The installed listener of the log.
#include "orlop/base/log.hpp"

#include <atomic>

namespace orlop::inline v0 {

namespace {
std::atomic<const detail::LogListener*> installed{nullptr};
}

void detail::install_log_listener(const LogListener* listener) noexcept {
  installed.store(listener, std::memory_order_release);
}

bool detail::is_log_watched(LogChannel channel) noexcept {
  const LogListener* listener = installed.load(std::memory_order_acquire);
  return listener != nullptr && listener->is_watching(channel);
}

void detail::write_log(LogChannel channel, const std::string& line) noexcept {
  if (const LogListener* listener = installed.load(std::memory_order_acquire)) listener->write(channel, line);
}

}  // namespace orlop::inline v0
