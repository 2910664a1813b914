// Background work: a Task runs once, on a worker of a small pool or on the first thread that waits for it
// (S409-S412).
//
// The pool, a fork and the end of the process can each end a task: it has one terminal state, which every
// waiter sees. Dropping the last handle of a task neither blocks nor cancels it.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <string_view>

#include "orlop/base/object.hpp"

namespace orlop::inline v0 {

class Executor;

/// One piece of work and its one terminal state.
class ORLOP_API Task : public Object {
 public:
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() override;

  /// Whether the work has ended, well or not.
  [[nodiscard]] bool is_done() const noexcept {
    return phase_.load(std::memory_order_acquire) == Phase::done;
  }
  /// Performs the work on this thread unless somebody has started it.
  void run() noexcept;
  /// Returns once the work has ended. Work that nobody has started runs here. Passes on what an interrupted
  /// user wants thrown (see check_interrupts); the work goes on. RuntimeError for work that waits for itself,
  /// or for work that waits for it.
  void wait_until_done();
  /// The same, and throws what the work failed with.
  void wait();

  /// What the done work failed with; null where it succeeded.
  [[nodiscard]] std::exception_ptr failure() const noexcept;
  /// For a binding: the exception object that stands for the failure, the same for every waiter.
  [[nodiscard]] void* failure_object() const noexcept { return failure_object_.get(); }
  /// Keeps such an object, and `failure` for waiters from C++; the first one stays. Called with the
  /// interpreter's lock held.
  void keep_failure_object(std::shared_ptr<void> object, std::exception_ptr failure) noexcept;

  void drop_references() noexcept override;

 protected:
  Task() noexcept = default;
  /// Does the work; throws what it fails with. The references that it needed are dropped by its end.
  virtual void perform() = 0;
  /// Called instead of perform() where it will never be: gives back what submission took.
  virtual void abandon() noexcept = 0;
  /// The same in the child of a fork: only stores to memory. No lock can be taken there and no reference
  /// dropped.
  virtual void forget() noexcept = 0;

 private:
  friend class Executor;
  enum class Phase : std::uint8_t { unstarted, running, done };

  bool try_start() noexcept;
  void finish(std::exception_ptr failure) noexcept;
  void cancel(std::string_view reason) noexcept;
  void await_other_thread();
  [[nodiscard]] bool waits_for_this_thread() const noexcept;

  std::atomic<Phase> phase_{Phase::unstarted};
  Executor* executor_ = nullptr;  // null: was never submitted
  Task* outer_ = nullptr;         // what the running thread runs around this
  // What the running thread waits for now, or null. Guarded by the executors' lock.
  const Task* awaited_ = nullptr;
  std::exception_ptr failure_;
  std::shared_ptr<void> failure_object_;
};

/// A pool of a few threads, started as work comes. Executors live as long as the process and never wait for
/// one another.
class ORLOP_API Executor {
 public:
  /// The pool of that many threads; it is never destroyed.
  [[nodiscard]] static Executor& make(int thread_limit);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Has `task` run soon. RuntimeError once drain_all() was called.
  void submit(const Ref<Task>& task);

  /// The process is about to end: running work finishes, and what has not started fails with a RuntimeError.
  /// Runs by itself at exit; a binding calls it while its interpreter still lives.
  static void drain_all() noexcept;

 private:
  friend class Task;
  explicit Executor(int thread_limit) : thread_limit_(thread_limit) {}

  [[nodiscard]] bool start_thread() noexcept;
  void work() noexcept;
  void withdraw(const Task& task) noexcept;
  static void enter_child() noexcept;
  static void install_handlers();

  // Guarded by one lock for all executors.
  std::deque<Ref<Task>> queue_;
  int thread_limit_;
  int threads_ = 0;
  int busy_ = 0;  // threads with a task
};

}  // namespace orlop::inline v0
