// Background work from C++: one terminal state, waiters that run what nobody has started, dropped handles,
// many threads.
#include "orlop/base/executor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {
namespace {

/// A place where work stops until the test lets it go on.
class Stop {
 public:
  void arrive() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  void await(int arrivals) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= arrivals; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool is_open_ = false;
};

class Work final : public Task {
 public:
  explicit Work(std::function<void()> action, std::atomic<int>* alive = nullptr)
      : action_(std::move(action)), alive_(alive) {
    if (alive_ != nullptr) ++*alive_;
  }
  ~Work() override {
    if (alive_ != nullptr) --*alive_;
  }
  std::thread::id thread;

 protected:
  void perform() override {
    thread = std::this_thread::get_id();
    action_();
  }
  void abandon() noexcept override {}
  void forget() noexcept override {}

 private:
  std::function<void()> action_;
  std::atomic<int>* alive_;
};

constexpr int kThreads = 3;

Executor& pool() {
  static Executor& made = Executor::make(kThreads);
  return made;
}

TEST(Executor, WorkRunsInTheBackground) {
  Stop stop;
  const Ref<Work> work = make_ref<Work>([&] { stop.arrive(); });
  pool().submit(work);
  stop.await(1);
  EXPECT_FALSE(work->is_done());
  stop.open();
  work->wait();
  EXPECT_TRUE(work->is_done());
  EXPECT_NE(work->thread, std::this_thread::get_id());
}

TEST(Executor, AFailureIsThrownToEveryWaiter) {
  const Ref<Work> work = make_ref<Work>([] { raise<ValueError>("test", "mine"); });
  pool().submit(work);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(work->wait(), ValueError);
  EXPECT_NE(work->failure(), nullptr);
  work->wait_until_done();
}

TEST(Executor, AWaiterRunsWhatNobodyHasStarted) {
  Stop stop;
  std::vector<Ref<Work>> blocking;
  for (int i = 0; i < kThreads; ++i) {
    blocking.push_back(make_ref<Work>([&] { stop.arrive(); }));
    pool().submit(blocking.back());
  }
  stop.await(kThreads);
  const Ref<Work> work = make_ref<Work>([] {});
  pool().submit(work);
  work->wait();
  EXPECT_EQ(work->thread, std::this_thread::get_id());
  stop.open();
  for (const Ref<Work>& each : blocking) each->wait();
}

TEST(Executor, ADroppedHandleNeitherBlocksNorCancels) {
  std::atomic<int> alive = 0;
  std::atomic<int> ran = 0;
  Stop stop;
  {
    const Ref<Work> work = make_ref<Work>(
        [&] {
          stop.arrive();
          ++ran;
        },
        &alive);
    pool().submit(work);
    stop.await(1);
  }
  EXPECT_EQ(alive, 1);
  stop.open();
  while (alive != 0) std::this_thread::yield();
  EXPECT_EQ(ran, 1);
}

TEST(Executor, WorkThatWaitsForWorkCannotExhaustThePool) {
  std::atomic<int> ended = 0;
  std::vector<Ref<Work>> all;
  for (int i = 0; i < 64; ++i) {
    all.push_back(make_ref<Work>([&] {
      const Ref<Work> inner = make_ref<Work>([&] { ++ended; });
      pool().submit(inner);
      inner->wait();
    }));
    pool().submit(all.back());
  }
  for (const Ref<Work>& work : all) work->wait();
  EXPECT_EQ(ended, 64);
}

TEST(Executor, WhatIsSubmittedAtOnceRunsAtOnce) {
  for (int i = 0; i < 200; ++i) {
    Stop stop;
    std::vector<Ref<Work>> all;
    for (int j = 0; j < kThreads; ++j) {
      all.push_back(make_ref<Work>([&] { stop.arrive(); }));
      pool().submit(all.back());
    }
    stop.await(kThreads);  // before any of them has ended
    stop.open();
    for (const Ref<Work>& work : all) work->wait_until_done();
  }
}

TEST(Executor, WorkThatWaitsInACircleIsRefusedOnce) {
  for (int length = 2; length <= kThreads; ++length) {
    std::vector<Ref<Work>> all(static_cast<std::size_t>(length));
    Stop stop;
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = make_ref<Work>([&, i] {
        stop.arrive();
        all[(i + 1) % all.size()]->wait_until_done();
      });
    for (const Ref<Work>& work : all) pool().submit(work);
    stop.await(length);
    stop.open();
    int refused = 0;
    for (const Ref<Work>& work : all) {
      try {
        work->wait();
      } catch (const RuntimeError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("its own end"));
        ++refused;
      }
    }
    EXPECT_EQ(refused, 1);
  }
}

TEST(Executor, ManyThreadsSubmitAndWait) {
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const Ref<Work> work = make_ref<Work>([&] { ++ended; });
        pool().submit(work);
        if (i % 2 == 0) work->wait();
      }
    });
  for (std::thread& thread : threads) thread.join();
  while (ended != 8 * 200) std::this_thread::yield();
}

TEST(Executor, WorkThatWasNeverSubmittedRunsOnItsCaller) {
  const Ref<Work> work = make_ref<Work>([] {});
  work->run();
  EXPECT_EQ(work->thread, std::this_thread::get_id());
  EXPECT_TRUE(work->is_done());
}

void drain_and_end() {
  Stop stop;
  std::vector<Ref<Work>> running;
  for (int i = 0; i < kThreads; ++i) {
    running.push_back(make_ref<Work>([&] { stop.arrive(); }));
    pool().submit(running.back());
  }
  stop.await(kThreads);
  const Ref<Work> unstarted = make_ref<Work>([] {});
  pool().submit(unstarted);
  std::thread opener([&] {
    while (!unstarted->is_done()) std::this_thread::yield();
    stop.open();
  });
  Executor::drain_all();
  opener.join();
  bool is_right = true;
  for (const Ref<Work>& work : running) is_right = is_right && work->is_done() && work->failure() == nullptr;
  try {
    unstarted->wait();
    is_right = false;
  } catch (const RuntimeError&) {
  }
  try {
    pool().submit(make_ref<Work>([] {}));
    is_right = false;
  } catch (const RuntimeError&) {
  }
  std::exit(is_right ? 0 : 1);
}

TEST(ExecutorDeathTest, DrainingEndsWhatRunsAndFailsTheRest) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(drain_and_end(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace orlop::inline v0
