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

namespace detail {
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
