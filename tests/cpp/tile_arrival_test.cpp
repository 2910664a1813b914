// Tiles on their way: every piece comes once, whoever asks; failures are of those who ask.
#include "carriers/tiled_evictable/tile_arrival.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace orlop {
namespace {

using detail::TileArrival;

constexpr Index size = (Index{1} << 22) + 12;  // the last piece is a short one

/// A tile whose byte i is i modulo 251, and the ranges that were brought.
struct Source {
  std::vector<std::byte> slots = std::vector<std::byte>(static_cast<std::size_t>(size));
  std::mutex mutex;
  std::vector<std::pair<Index, Index>> brought;
  Index failing = -1;  // the byte whose piece cannot be brought

  TileArrival arrival() {
    return {slots.data(), size, [this](Index first, Index count) {
              if (first <= failing && failing < first + count) throw std::runtime_error("unreadable");
              for (Index i = first; i < first + count; ++i)
                slots[static_cast<std::size_t>(i)] = static_cast<std::byte>(i % 251);
              const std::lock_guard lock(mutex);
              brought.emplace_back(first, count);
            }};
  }
  [[nodiscard]] Index bytes() const {
    return std::accumulate(brought.begin(), brought.end(), Index{0},
                           [](Index sum, const auto& range) { return sum + range.second; });
  }
  [[nodiscard]] bool is_there(Index first, Index last) const {
    for (Index i = first; i < last; ++i)
      if (slots[static_cast<std::size_t>(i)] != static_cast<std::byte>(i % 251)) return false;
    return true;
  }
};

TEST(TileArrival, BringsWhatIsAskedForAndNoMore) {
  Source source;
  TileArrival arrival = source.arrival();
  arrival.require(source.slots.data() + 5, source.slots.data() + 6);
  EXPECT_EQ(source.brought.size(), 1U);
  EXPECT_TRUE(source.is_there(5, 6));
  arrival.require(source.slots.data() + size - 1, source.slots.data() + size);
  EXPECT_EQ(source.brought.size(), 2U);
  EXPECT_TRUE(source.is_there(size - 12, size));
  arrival.require(source.slots.data() + 7, source.slots.data() + 8);
  EXPECT_EQ(source.brought.size(), 2U);
}

TEST(TileArrival, EveryPieceComesOnceWhoeverAsks) {
  for (int round = 0; round < 20; ++round) {
    Source source;
    TileArrival arrival = source.arrival();
    std::vector<std::thread> threads;
    std::array<bool, 4> is_complete{};
    for (std::size_t thread = 0; thread < is_complete.size(); ++thread)
      threads.emplace_back([&, thread] {
        if (thread == 3)
          while (arrival.bring_one()) continue;
        arrival.require_all();
        is_complete[thread] = source.is_there(0, size);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(source.bytes(), size);
    for (const bool is_one_complete : is_complete) EXPECT_TRUE(is_one_complete);
    EXPECT_FALSE(arrival.bring_one());
  }
}

TEST(TileArrival, APieceThatFailedIsTriedAgainByWhoNeedsIt) {
  Source source;
  source.failing = size / 2;
  TileArrival arrival = source.arrival();
  const auto ask = [&] {
    arrival.require(source.slots.data() + size / 2, source.slots.data() + size / 2 + 1);
  };
  EXPECT_THROW(arrival.require_all(), std::runtime_error);
  EXPECT_THROW(ask(), std::runtime_error);
  source.failing = -1;
  ask();
  arrival.require_all();
  EXPECT_TRUE(source.is_there(0, size));
  EXPECT_EQ(source.bytes(), size);
}

}  // namespace
}  // namespace orlop
