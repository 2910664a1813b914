// What keeps the io layer usable on both sides of a fork (S606).
#pragma once

#include <mutex>

namespace orlop::inline v0::detail {

/// The identity of this process, without a system call; a fork's child sees its own.
[[nodiscard]] int process_id() noexcept;

/// Guards the layer's small tables: the calls in force and the descriptor cache. Never held over a system
/// call.
[[nodiscard]] std::mutex& io_mutex() noexcept;
/// Guards the session directory, also while it is made. Taken before io_mutex().
[[nodiscard]] std::mutex& session_mutex() noexcept;

// Run in a fork's child, before anything else there, with both locks free. Each is defined beside its table.
void forget_parent_session() noexcept;
void forget_parent_users() noexcept;

}  // namespace orlop::inline v0::detail
