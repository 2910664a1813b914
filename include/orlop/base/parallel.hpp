// Loops on several threads: how kernels use the processor.
#pragma once

#include <algorithm>
#include <memory>
#include <type_traits>

#include "orlop/base/blocking.hpp"
#include "orlop/base/export.hpp"
#include "orlop/base/message.hpp"

namespace orlop::inline v0 {

/// How many threads a kernel may use: what set_thread_count said last, or else the environment variable
/// ORLOP_NUM_THREADS, or else the processors that this process may run on. ValueError where the variable is
/// no number from 1 to max_thread_count.
[[nodiscard]] ORLOP_API Index thread_count();
/// Applies to the calls that begin later, on every thread. ValueError outside 1 to max_thread_count.
ORLOP_API void set_thread_count(Index count);
constexpr Index max_thread_count = 1024;

/// The fewest elements of a cheap elementwise loop that are worth a thread: with fewer than twice as many the
/// loop stays on its caller.
constexpr Index parallel_grain = Index{1} << 16;

/// How much work the items of a loop are.
struct Work {
  Index elements;   ///< of a cheap elementwise loop that take as long as one item
  Index least = 1;  ///< the fewest items that a thread gets
};

namespace detail {
/// What a thread is busy with for some milliseconds, or a tenth of a second where elements are dear.
constexpr Index round_elements = Index{1} << 22;

ORLOP_API void run_parallel(Index count, Index grain, Index round, void (*run)(void*, Index, Index),
                            void* body);

template <class Body>
void run_body(Index count, Index grain, Index round, Body& body) {
  const auto run = [](void* target, Index first, Index last) { (*static_cast<Body*>(target))(first, last); };
  run_parallel(count, grain, round, run, const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}
}  // namespace detail

/// Calls `body(first, last)` for consecutive ranges that cover 0 … count, each of at least `grain` items (but
/// where there are no more), on the caller and on others; returns when all are done. Where the ranges lie
/// depends on nothing but `count`, `grain` and thread_count().
///
/// Of several exceptions the one of the first range is thrown. A loop in the body of another one stays on its
/// thread, and so does every loop in the child of a fork. Bodies must not wait for one another, nor for the
/// interpreter's lock.
template <class Body>
void parallel_for(Index count, Index grain, Body&& body) {
  detail::run_body(count, grain, count, body);
}

/// The same where each thread gets as many items as are worth it. A long loop runs in rounds, between which
/// an interrupted user can end it in an InterruptibleScope.
template <class Body>
void parallel_for(Index count, Work item, Body&& body) {
  const Index round = std::max(detail::round_elements / item.elements, item.least);
  detail::run_body(count, std::max(parallel_grain / item.elements, item.least), round, body);
}

/// The same on the caller alone, range after range: of items that are `elements` of a cheap loop each.
template <class Body>
void serial_for(Index count, Index elements, Body&& body) {
  const Index round = std::max<Index>(detail::round_elements / elements, 1);
  for (Index first = 0; first < count; first += round) {
    if (first > 0) detail::check_interrupts_of_loop();
    body(first, std::min(first + round, count));
  }
}

}  // namespace orlop::inline v0
