// parallel_for: every item once, the same ranges each time, failures, nesting, threads and forks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// Puts the number of threads back.
class Parallel : public testing::Test {
 protected:
  ~Parallel() override { set_thread_count(before_); }

  /// `size`: the grain, or the Work of an item.
  template <class Size>
  static std::vector<std::pair<Index, Index>> ranges(Index count, Size size) {
    std::mutex mutex;
    std::vector<std::pair<Index, Index>> found;
    parallel_for(count, size, [&](Index first, Index last) {
      const std::lock_guard lock(mutex);
      found.emplace_back(first, last);
    });
    std::sort(found.begin(), found.end());
    return found;
  }

  const Index before_ = thread_count();
};

TEST_F(Parallel, EveryItemIsVisitedOnce) {
  for (const Index threads : {1, 2, 3, 8}) {
    set_thread_count(threads);
    for (const Index count : {0, 1, 2, 7, 64, 1000, 4097}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      parallel_for(count, 8, [&](Index first, Index last) {
        for (Index i = first; i < last; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& visit : visits) EXPECT_EQ(visit, 1);
    }
  }
}

TEST_F(Parallel, RangesDependOnTheArgumentsAndTheNumberOfThreadsOnly) {
  set_thread_count(2);
  EXPECT_THAT(ranges(100, 51), ElementsAre(Pair(0, 100)));
  EXPECT_THAT(ranges(101, 50), ElementsAre(Pair(0, 51), Pair(51, 101)));
  EXPECT_THAT(ranges(10, 3), ElementsAre(Pair(0, 4), Pair(4, 7), Pair(7, 10)));
  EXPECT_EQ(ranges(1 << 20, 1).size(), 8U);
  set_thread_count(1);
  EXPECT_THAT(ranges(1 << 20, 1), ElementsAre(Pair(0, 1 << 20)));
}

TEST_F(Parallel, LongLoopsRunInRounds) {
  constexpr Index round = detail::round_elements;
  constexpr Index item = round / 4;
  set_thread_count(2);
  EXPECT_EQ(ranges(4 * round, Work{1}).size(), 16U);
  EXPECT_THAT(ranges(9, Work{item}), ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3), Pair(3, 4), Pair(4, 5),
                                                 Pair(5, 6), Pair(6, 7), Pair(7, 8), Pair(8, 9)));
  EXPECT_THAT(ranges(9, Work{item, 9}), ElementsAre(Pair(0, 9)));
  EXPECT_THAT(ranges(100, Work{1}), ElementsAre(Pair(0, 100)));
  set_thread_count(1);
  EXPECT_THAT(ranges(9, Work{item}), ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 9)));
  std::vector<std::pair<Index, Index>> found;
  serial_for(9, item, [&](Index first, Index last) { found.emplace_back(first, last); });
  EXPECT_THAT(found, ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 9)));
}

TEST_F(Parallel, SizesAtTheEndsOfTheNumbers) {
  set_thread_count(2);
  constexpr Index most = std::numeric_limits<Index>::max();
  EXPECT_THAT(ranges(-1, 1), ElementsAre());
  EXPECT_THAT(ranges(1, 0), ElementsAre(Pair(0, 1)));
  const auto found = ranges(most, 1);
  EXPECT_EQ(found.front().first, 0);
  EXPECT_EQ(found.back().second, most);
}

TEST_F(Parallel, TheWorkIsShared) {
  if (before_ < 2) GTEST_SKIP() << "there is one processor";
  set_thread_count(2);
  // Both ranges wait until the other one has begun: one thread alone would never end.
  std::atomic<int> begun{0};
  parallel_for(2, 1, [&](Index, Index) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
  });
  EXPECT_EQ(begun, 2);
}

TEST_F(Parallel, TheFirstOfSeveralFailuresIsThrown) {
  set_thread_count(4);
  for (int repeat = 0; repeat < 20; ++repeat) {
    try {
      parallel_for(1600, 100, [](Index first, Index) {
        if (first >= 300) raise<ValueError>("body", "failed at ", first);
      });
      FAIL() << "nothing was thrown";
    } catch (const ValueError& error) {
      EXPECT_THAT(error.what(), HasSubstr("failed at 300"));
    }
  }
  EXPECT_EQ(ranges(1600, 100).size(), 16U);  // the next loop works
}

TEST_F(Parallel, ALoopInABodyStaysOnItsThread) {
  set_thread_count(2);
  std::atomic<int> total{0};
  parallel_for(64, 1, [&](Index, Index) {
    const std::thread::id self = std::this_thread::get_id();
    parallel_for(64, 1, [&](Index first, Index last) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      total += static_cast<int>(last - first);
    });
  });
  EXPECT_EQ(total, 8 * 64);
}

TEST_F(Parallel, SeveralThreadsLoopAtOnce) {
  set_thread_count(2);
  std::vector<std::thread> threads;
  std::atomic<Index> total{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat)
        parallel_for(100, 1, [&](Index first, Index last) { total += last - first; });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, 4 * 50 * 100);
}

TEST_F(Parallel, AChildOfAForkLoopsAloneAndExits) {
  set_thread_count(2);
  const auto before = ranges(1000, 10);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const std::thread::id self = std::this_thread::get_id();
    bool is_alone = true;
    parallel_for(1000, 10, [&](Index, Index) { is_alone = is_alone && std::this_thread::get_id() == self; });
    std::exit(is_alone && ranges(1000, 10) == before ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(ranges(1000, 10), before);
}

TEST_F(Parallel, NumbersOfThreadsThatAreRefused) {
  const Index before = thread_count();
  for (const Index count : {Index{0}, Index{-1}, max_thread_count + 1, std::numeric_limits<Index>::max()})
    EXPECT_THROW(set_thread_count(count), ValueError);
  EXPECT_EQ(thread_count(), before);
}

}  // namespace
}  // namespace orlop
