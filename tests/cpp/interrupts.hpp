// A user that long computations may ask whether they are to go on.
#pragma once

#include "orlop/base/blocking.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::testing_support {

/// Thrown into a computation that is interrupted.
struct Interrupt {};

/// While it lives, calls compute on one thread and their checks for interrupts are counted; the check of
/// number `interrupted_at` throws an Interrupt.
class Interrupts {
 public:
  explicit Interrupts(int interrupted_at = 0) : former_threads_(thread_count()) {
    checks_ = 0;
    interrupted_at_ = interrupted_at;
    set_thread_count(1);
    detail::install_blocking_hooks({nullptr, nullptr, [] {
                                      if (++checks_ == interrupted_at_) throw Interrupt();
                                    }});
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts() {
    detail::install_blocking_hooks({nullptr, nullptr, nullptr});
    set_thread_count(former_threads_);
  }
  [[nodiscard]] static int checks() { return checks_; }

 private:
  inline static int checks_ = 0;
  inline static int interrupted_at_ = 0;
  Index former_threads_;
};

/// How often the call checks for interrupts, where none comes.
template <class Call>
int checks_of(Call&& call) {
  const Interrupts interrupts;
  static_cast<void>(call());
  return interrupts.checks();
}

/// How often it has checked when it ends, where the first check throws; -1 where it goes on nevertheless.
template <class Call>
int checks_until_interrupted(Call&& call) {
  const Interrupts interrupts(1);
  try {
    static_cast<void>(call());
  } catch (const Interrupt&) {
    return interrupts.checks();
  }
  return -1;
}

}  // namespace orlop::testing_support
