// What the library does behind the scenes, for whoever watches: two channels, silent unless a binding
// installs a listener and that one listens (07 §6).
#pragma once

#include <cstdint>
#include <new>
#include <string>

#include "orlop/base/export.hpp"
#include "orlop/base/message.hpp"

namespace orlop::inline v0 {

/// `io`: files and devices come, go and fail. `residency`: values change their tier.
enum class LogChannel : std::uint8_t { io, residency };

namespace detail {
/// How a binding shows the log. Neither may throw; both take the interpreter's lock themselves.
struct LogListener {
  bool (*is_watching)(LogChannel channel) noexcept;
  void (*write)(LogChannel channel, const std::string& line) noexcept;
};
/// Null: nobody listens (any more).
ORLOP_API void install_log_listener(const LogListener* listener) noexcept;
[[nodiscard]] ORLOP_API bool is_log_watched(LogChannel channel) noexcept;
ORLOP_API void write_log(LogChannel channel, const std::string& line) noexcept;
}  // namespace detail

/// One line of the log, put together only if somebody watches; lost where there is no memory for it. Outside
/// every lock: a listener may run anything.
template <class... Parts>
void log(LogChannel channel, const Parts&... parts) noexcept {
  try {
    if (detail::is_log_watched(channel)) detail::write_log(channel, text(parts...));
  } catch (const std::bad_alloc&) {  // what the line would have told of has happened nevertheless
  }
}

}  // namespace orlop::inline v0
