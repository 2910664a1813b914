// A scope in which the thread may wait for the outside world: a loaded binding lets its interpreter go
// meanwhile.
#pragma once

#include "orlop/base/export.hpp"

namespace orlop::inline v0 {

/// Put around waits and I/O, outside every lock: the interpreter's lock is taken again when the scope ends,
/// and whoever holds it may be waiting for ours. Does nothing on a thread that does not hold the interpreter.
class ORLOP_API BlockingScope {
 public:
  BlockingScope() noexcept;
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;
  ~BlockingScope();

 private:
  void* state_;
};

/// Throws what an interrupted user wants thrown, such as Python's KeyboardInterrupt; for long waits, between
/// scopes.
ORLOP_API void check_interrupts();

/// While it lives, an interrupted user can end the long loops of this thread (see parallel_for): put around
/// what writes only to memory that nobody else knows yet, from memory that stays whatever a handler does.
class ORLOP_API InterruptibleScope {
 public:
  InterruptibleScope() noexcept;
  InterruptibleScope(const InterruptibleScope&) = delete;
  InterruptibleScope& operator=(const InterruptibleScope&) = delete;
  ~InterruptibleScope();

 private:
  bool was_interruptible_;
};

namespace detail {
/// What a loop calls between its rounds: check_interrupts() in an InterruptibleScope, now and then.
ORLOP_API void check_interrupts_of_loop();

/// How a binding lets the interpreter go (null: it was not held) and takes it back; and
/// check_interrupts().
struct BlockingHooks {
  void* (*begin)() noexcept;
  void (*end)(void* state) noexcept;
  void (*check_interrupts)();
};
/// Called once by the Python binding.
ORLOP_API void install_blocking_hooks(BlockingHooks hooks) noexcept;
}  // namespace detail

}  // namespace orlop::inline v0
