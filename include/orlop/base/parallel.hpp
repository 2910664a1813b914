// Loops on several threads: how kernels use the processor.
#pragma once

#include <memory>
#include <type_traits>

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

namespace detail {
ORLOP_API void run_parallel(Index count, Index grain, void (*run)(void*, Index, Index), void* body);
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
  using Target = std::remove_reference_t<Body>;
  const auto run = [](void* target, Index first, Index last) {
    (*static_cast<Target*>(target))(first, last);
  };
  detail::run_parallel(count, grain, run, const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

}  // namespace orlop::inline v0
