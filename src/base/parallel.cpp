// Parallel loops: how many threads, which ranges, and what becomes of failures.
#include "orlop/base/parallel.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/task_arena.hpp"
#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

namespace {

std::atomic<Index> chosen_count{0};        // 0: not asked for yet
std::atomic<bool> is_forked_child{false};  // the other threads did not come along
thread_local bool is_inside = false;       // of a loop's body

// Counted before a fork: a child that comes while another thread counts for the first time would wait for it.
[[maybe_unused]] const int handler =
    pthread_atfork([] { static_cast<void>(detail::processor_count()); }, nullptr,
                   [] { is_forked_child.store(true, std::memory_order_relaxed); });

Index initial_count() {
  const char* const variable = std::getenv("ORLOP_NUM_THREADS");
  if (variable == nullptr || *variable == '\0')
    return std::clamp<Index>(detail::processor_count(), 1, max_thread_count);
  const std::string_view text(variable);
  Index count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count < 1 || count > max_thread_count)
    raise<ValueError>("ORLOP_NUM_THREADS", "must be a whole number from 1 to ", max_thread_count, ": got ",
                      text);
  return count;
}

/// One loop, or a round of it: its ranges, and the first failure.
class Loop {
 public:
  Loop(Index first, Index count, Index ranges, void (*run)(void*, Index, Index), void* body)
      : first_(first), count_(count), ranges_(ranges), run_(run), body_(body) {
    failed_.store(ranges, std::memory_order_release);  // hands everything before to the other threads
  }

  void run(Index range) noexcept {
    // Ranges before the first one that failed still run: theirs would be the first failure.
    if (range <= failed_.load(std::memory_order_acquire)) attempt(range);
    finished_.fetch_add(1, std::memory_order_release);
  }

  /// After the last range: takes over what the other threads have written, and throws the first failure.
  void finish() const {
    static_cast<void>(finished_.load(std::memory_order_acquire));
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void attempt(Index range) noexcept {
    const bool was_inside = std::exchange(is_inside, true);
    try {
      run_(body_, start(range), start(range + 1));
    } catch (...) {
      const std::lock_guard lock(failing_);
      if (range < failed_.load(std::memory_order_relaxed)) {
        failed_.store(range, std::memory_order_release);
        failure_ = std::current_exception();
      }
    }
    is_inside = was_inside;
  }

  /// Equal ranges but for one item.
  [[nodiscard]] Index start(Index range) const {
    return first_ + count_ / ranges_ * range + std::min(range, count_ % ranges_);
  }

  Index first_;
  Index count_;
  Index ranges_;
  void (*run_)(void*, Index, Index);
  void* body_;
  std::atomic<Index> failed_{0};  // the first range that failed, or the number of ranges
  std::atomic<Index> finished_{0};
  std::mutex failing_;
  std::exception_ptr failure_;
};

/// `count` items from number `first` on.
void run_round(Index first, Index count, Index grain, void (*run)(void*, Index, Index), void* body) {
  constexpr Index ranges_per_thread = 4;  // where one thread is held up, the others take over
  const Index most = count / std::max<Index>(grain, 1);
  const Index threads = most < 2 ? 1 : thread_count();
  if (threads == 1) return run(body, first, first + count);
  const Index ranges = std::min(most, threads * ranges_per_thread);
  Loop loop(first, count, ranges, run, body);
  if (is_inside || is_forked_child.load(std::memory_order_relaxed)) {
    for (Index range = 0; range < ranges; ++range) loop.run(range);
  } else {
    detail::run_ranges(
        threads, ranges, [](void* all, Index range) { static_cast<Loop*>(all)->run(range); }, &loop);
  }
  loop.finish();
}

}  // namespace

Index thread_count() {
  const Index known = chosen_count.load(std::memory_order_relaxed);
  if (known != 0) return known;
  const Index found = initial_count();
  Index expected = 0;
  return chosen_count.compare_exchange_strong(expected, found) ? found : expected;
}

void set_thread_count(Index count) {
  if (count < 1 || count > max_thread_count)
    raise<ValueError>("set_thread_count", "the number of threads must lie in 1 to ", max_thread_count,
                      ": got ", count);
  chosen_count.store(count, std::memory_order_relaxed);
}

bool detail::is_in_loop() noexcept { return is_inside; }

void detail::run_parallel(Index count, Index grain, Index round, void (*run)(void*, Index, Index),
                          void* body) {
  if (count > round) round *= std::min(thread_count(), (count - 1) / round + 1);
  for (Index first = 0; first < count; first += round) {
    if (first > 0) check_interrupts_of_loop();
    run_round(first, std::min(round, count - first), grain, run, body);
  }
}

}  // namespace orlop::inline v0
