// Registers the layer's fork handlers when the library is loaded.
#include "io/fork.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace orlop::inline v0::detail {

namespace {

std::mutex tables;
std::mutex session;
std::atomic<int> current_process{0};

// A thread may hold a lock while another forks: the child would find it locked for ever.
void before_fork() {
  session.lock();
  tables.lock();
}
void after_fork() {
  tables.unlock();
  session.unlock();
}
void after_fork_in_child() {
  after_fork();
  current_process.store(getpid(), std::memory_order_relaxed);
  forget_parent_session();
  forget_parent_users();
}

[[maybe_unused]] const int handlers = pthread_atfork(before_fork, after_fork, after_fork_in_child);

}  // namespace

int process_id() noexcept {
  const int known = current_process.load(std::memory_order_relaxed);
  if (known != 0) return known;
  const int found = getpid();
  current_process.store(found, std::memory_order_relaxed);
  return found;
}

std::mutex& io_mutex() noexcept { return tables; }
std::mutex& session_mutex() noexcept { return session; }

}  // namespace orlop::inline v0::detail
