// Everything that includes oneTBB. ThreadSanitizer leaves this unit alone (cmake/library.cmake), as it cannot
// see what oneTBB's library does: parallel.cpp hands the data over by atomics of its own.
#include "base/task_arena.hpp"

#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

namespace tbb = oneapi::tbb;

namespace {

/// The arena of `threads` threads. Arenas stay until the process ends: another thread may be in one.
tbb::task_arena& arena(Index threads) {
  static std::array<std::atomic<tbb::task_arena*>, max_thread_count + 1> arenas{};
  static std::mutex making;
  std::atomic<tbb::task_arena*>& place = arenas[static_cast<std::size_t>(threads)];
  if (tbb::task_arena* const found = place.load(std::memory_order_acquire)) return *found;
  const std::lock_guard lock(making);
  if (place.load(std::memory_order_relaxed) == nullptr)
    place.store(std::make_unique<tbb::task_arena>(static_cast<int>(threads)).release(),
                std::memory_order_release);
  return *place.load(std::memory_order_relaxed);
}

}  // namespace

Index detail::processor_count() { return tbb::info::default_concurrency(); }

void detail::run_ranges(Index threads, Index ranges, void (*run)(void* loop, Index range), void* loop) {
  arena(threads).execute([=] {
    tbb::parallel_for(Index{0}, ranges, [=](Index range) { run(loop, range); }, tbb::simple_partitioner());
  });
}

}  // namespace orlop::inline v0
