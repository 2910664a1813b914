// The pools of background threads and the ends of a task: done, drained at exit, forgotten after a fork.
#include "orlop/base/executor.hpp"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "orlop/base/blocking.hpp"
#include "orlop/base/error.hpp"
#include "orlop/base/forever.hpp"

namespace orlop::inline v0 {

namespace {

// How long a waiting thread looks away from the user's interrupts.
constexpr std::chrono::milliseconds interrupt_interval{50};

// What all executors share. No count of a reference changes under the lock: that may need an interpreter,
// whose holder may be waiting for the lock.
struct Shared {
  std::mutex mutex;
  std::condition_variable work_came;
  std::condition_variable task_ended;
  std::unordered_set<Task*> live;  // submitted, not done
  std::vector<Executor*> executors;
  int busy_threads = 0;  // still hold a reference of a task, though it may be done
  bool is_draining = false;
};

// Never destroyed: work may end at any time before the process does. A fork's child gets a fresh one.
Shared*& place() noexcept {
  static Forever<Shared> first;
  static Shared* shared = &*first;
  return shared;
}
Shared& shared() noexcept { return *place(); }

// The tasks that this thread runs, the innermost first; and whether it is a worker.
thread_local Task* running_here = nullptr;
thread_local bool is_worker = false;

std::exception_ptr runtime_error(std::string_view reason) noexcept {
  try {
    raise<RuntimeError>("background work", reason);
  } catch (...) {  // or std::bad_alloc
    return std::current_exception();
  }
}

/// New threads leave signals to the threads of the program.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// A worker that wakes up does not interrupt who asked for the work, where both share a processor: the caller
/// goes on, and may come to need the work and do it itself while everything is in its caches.
void yield_to_callers() noexcept {
#ifdef SCHED_BATCH
  const sched_param none{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);  // a hint
#endif
}

}  // namespace

Task::~Task() = default;

bool Task::try_start() noexcept {
  Phase expected = Phase::unstarted;
  return phase_.compare_exchange_strong(expected, Phase::running, std::memory_order_acq_rel);
}

void Task::finish(std::exception_ptr failure) noexcept {
  if (executor_ == nullptr) {
    failure_ = std::move(failure);
    phase_.store(Phase::done, std::memory_order_release);
    return;
  }
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  failure_.swap(failure);
  phase_.store(Phase::done, std::memory_order_release);
  all.live.erase(this);
  all.task_ended.notify_all();
}

void Task::run() noexcept {
  if (!try_start()) return;
  outer_ = std::exchange(running_here, this);
  std::exception_ptr failure;
  try {
    perform();
  } catch (...) {
    failure = std::current_exception();
  }
  running_here = outer_;
  finish(std::move(failure));
}

void Task::cancel(std::string_view reason) noexcept {
  if (!try_start()) return;
  abandon();
  finish(runtime_error(reason));
}

void Task::wait_until_done() {
  if (is_done()) return;
  if (phase_.load(std::memory_order_acquire) == Phase::unstarted) {
    if (executor_ != nullptr) executor_->withdraw(*this);
    run();
  }
  while (!is_done()) await_other_thread();
}

/// Whether this, or what it waits for and so on, is run by the calling thread. With the lock held.
bool Task::waits_for_this_thread() const noexcept {
  for (const Task* task = this; task != nullptr; task = task->awaited_)
    for (const Task* mine = running_here; mine != nullptr; mine = mine->outer_)
      if (task == mine) return true;
  return false;
}

void Task::await_other_thread() {
  {
    const BlockingScope blocking;
    std::unique_lock lock(shared().mutex);
    // Of several threads whose work waits in a circle the last one to come is refused.
    if (waits_for_this_thread())
      raise<RuntimeError>("background work",
                          "work cannot wait for its own end: what it waits for waits for it; wait elsewhere");
    const auto await = [](const Task* awaited) {
      for (Task* mine = running_here; mine != nullptr; mine = mine->outer_) mine->awaited_ = awaited;
    };
    await(this);
    shared().task_ended.wait_for(lock, interrupt_interval, [this] { return is_done(); });
    await(nullptr);
  }
  if (!is_done()) check_interrupts();
}

void Task::wait() {
  wait_until_done();
  if (const std::exception_ptr failed = failure()) std::rethrow_exception(failed);
}

std::exception_ptr Task::failure() const noexcept {
  if (executor_ == nullptr) return failure_;
  const std::lock_guard lock(shared().mutex);
  return failure_;
}

void Task::keep_failure_object(std::shared_ptr<void> object, std::exception_ptr failure) noexcept {
  if (failure_object_ != nullptr) return;  // another waiter was faster: its object is the one
  failure_object_ = std::move(object);
  const std::lock_guard lock(shared().mutex);
  failure_.swap(failure);  // the former one goes after the lock: it may hold objects of the interpreter
}

void Task::drop_references() noexcept {
  if (!is_done()) return;
  failure_object_.reset();
  if (failure_) failure_ = runtime_error("the handle of this work was cleared");
}

Executor& Executor::make(int thread_limit) {
  static const int handlers = [] {
    install_handlers();
    return 0;
  }();
  static_cast<void>(handlers);
  std::unique_ptr<Executor> made(new Executor(thread_limit));
  const std::lock_guard lock(shared().mutex);
  shared().executors.push_back(made.get());
  return *made.release();
}

void Executor::install_handlers() {
  pthread_atfork([] { shared().mutex.lock(); }, [] { shared().mutex.unlock(); }, &enter_child);
  std::atexit(&drain_all);
}

/// The other threads did not come along: what they ran or would have run ends here and now. What the forking
/// thread itself runs goes on.
void Executor::enter_child() noexcept {
  Shared& parents = shared();
  place() = std::make_unique<Shared>().release();
  shared().executors.swap(parents.executors);
  for (Executor* executor : shared().executors) {
    // Kept for ever, so that counts stay as they are.
    [[maybe_unused]] const auto* const kept =
        std::make_unique<std::deque<Ref<Task>>>(std::move(executor->queue_)).release();
    executor->queue_ = {};
    executor->threads_ = executor->busy_ = 0;
  }
  shared().busy_threads = is_worker ? 1 : 0;
  for (Task* task = running_here; task != nullptr; task = task->outer_)
    if (const auto found = parents.live.find(task); found != parents.live.end())
      shared().live.insert(parents.live.extract(found));
  for (Task* task : parents.live) {
    task->forget();
    task->failure_ = runtime_error(
        "the work was pending at a fork; only the parent process goes on with it; make it again here");
    task->phase_.store(Task::Phase::done, std::memory_order_release);
  }
}

bool Executor::start_thread() noexcept {
  const SignalsBlocked blocked;
  try {
    std::thread([this] { work(); }).detach();
    return true;
  } catch (...) {  // no thread left: what is queued waits for those there are
    return false;
  }
}

void Executor::submit(const Ref<Task>& task) {
  Ref<Task> queued = task;
  bool is_alone = false;
  {
    Shared& all = shared();
    const std::lock_guard lock(all.mutex);
    if (all.is_draining)
      raise<RuntimeError>("background work", "the process is about to end: nothing new can be started");
    all.live.insert(task.get());
    try {
      queue_.push_back(std::move(queued));
    } catch (...) {
      all.live.erase(task.get());
      throw;
    }
    task->executor_ = this;
    // A thread that is free now may have a task in the queue to come to first.
    if (std::cmp_greater(queue_.size(), threads_ - busy_) && threads_ < thread_limit_)
      threads_ += start_thread() ? 1 : 0;
    is_alone = threads_ == 0;
    all.work_came.notify_all();
  }
  if (!is_alone) return;
  withdraw(*task);
  task->run();
}

void Executor::work() noexcept {
  is_worker = true;
  yield_to_callers();
  while (true) {
    Ref<Task> task;
    {
      Shared& all = shared();
      std::unique_lock lock(all.mutex);
      all.work_came.wait(lock, [this] { return !queue_.empty(); });
      ++busy_;
      ++all.busy_threads;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task->run();
    task.reset();
    const std::lock_guard lock(shared().mutex);
    --busy_;
    --shared().busy_threads;
    shared().task_ended.notify_all();
  }
}

/// A waiter is about to run the task: a pool that is held up need not keep it.
void Executor::withdraw(const Task& task) noexcept {
  Ref<Task> withdrawn;  // goes after the lock
  const std::lock_guard lock(shared().mutex);
  for (auto queued = queue_.begin(); queued != queue_.end(); ++queued) {
    if (queued->get() != &task) continue;
    withdrawn = std::move(*queued);
    queue_.erase(queued);
    return;
  }
}

void Executor::drain_all() noexcept {
  const auto next_unstarted = [] {
    Ref<Task> task;
    Shared& all = shared();
    const std::lock_guard lock(all.mutex);
    all.is_draining = true;
    for (Executor* executor : all.executors) {
      if (executor->queue_.empty()) continue;
      task = std::move(executor->queue_.front());
      executor->queue_.pop_front();
      break;
    }
    return task;
  };
  while (const Ref<Task> task = next_unstarted())
    task->cancel("the process ended before the work was started");
  const BlockingScope blocking;
  std::unique_lock lock(shared().mutex);
  shared().task_ended.wait(lock, [] { return shared().live.empty() && shared().busy_threads == 0; });
}

}  // namespace orlop::inline v0
