// Many threads at once, over carriers, moves, hierarchies, a device and operations: what is promised to be
// safe (S110, S201, S404, S506) stays whole, whoever wins. ./dev check thread runs it under ThreadSanitizer.
#include <array>
#include <atomic>
#include <barrier>
#include <functional>
#include <thread>

#include "backends.hpp"
#include "files.hpp"
#include "orlop/carriers/block_device/block_device.hpp"
#include "orlop/carriers/evictable/evictable.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/carriers/generic/generic.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/profiler.hpp"

namespace orlop::inline v0 {
namespace {

using testing_support::Backend;
using testing_support::elements;
using testing_support::Place;

[[maybe_unused]] const auto* const place_of_files =
    testing::AddGlobalTestEnvironment(new Place(std::filesystem::temp_directory_path(), "concurrency"));

constexpr int kThreads = 4;
constexpr int kRounds = 50;
const std::vector<float> kValues{1.0F, 2.0F, 3.0F, 4.0F};

/// Runs `work(thread)` on all threads at once.
void together(const std::function<void(int)>& work) {
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      work(i);
    });
  for (std::thread& thread : threads) thread.join();
}

/// Whether `call` is let through; a refusal is a RuntimeError.
bool succeeds(const std::function<void()>& call) {
  try {
    call();
    return true;
  } catch (const RuntimeError&) {
    return false;
  }
}

Tensor line(const Ref<Carrier>& carrier) {
  return Tensor(carrier, 0, Layout(Shape{carrier->size()}, Stride{1}));
}
Tensor values() { return testing_support::place(Backend::cpu, kValues, Layout(Shape{4}, Stride{1})); }

TEST(Concurrency, OneOfManyClaimsWinsAndNoVersionIsLost) {
  for (int round = 0; round < kRounds; ++round) {
    const Tensor tensor = values();
    const Ref<Carrier>& carrier = tensor.carrier();
    const std::int64_t before = carrier->version();
    std::atomic<int> steps = 0;
    std::atomic<int> claims = 0;
    std::atomic<Carrier::OwnerToken> token = 0;
    together([&](int) {
      if (succeeds([&] { carrier->increment_version(); })) ++steps;
      if (succeeds([&] { token = carrier->claim_ownership(); })) ++claims;
    });
    EXPECT_EQ(claims, 1);
    EXPECT_EQ(carrier->version(), before + steps);
    carrier->relinquish_ownership(token);
    together([&](int) { carrier->release(); });
    EXPECT_TRUE(carrier->is_released());
  }
}

TEST(Concurrency, MovesOfTheirOwn) {
  together([](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      const Tensor stored = move(values(), FileBacked::make(dtypes::Float32));
      const Tensor back = move_async(stored, CPU::make(4)).wait();
      const Tensor checked = move(back, Generic::make(std::vector<Scalar>(4, Scalar(0.0)),
                                                      {.is_mutable = true, .dtype = dtypes::Float32}));
      if (elements<float>(checked) != kValues) ADD_FAILURE() << "thread " << thread;
    }
  });
}

TEST(Concurrency, OneOfManyMovesOfATensorWins) {
  for (int round = 0; round < kRounds; ++round) {
    const Tensor tensor = values();
    std::vector<Ref<CPU>> destinations;
    for (int i = 0; i < kThreads; ++i) destinations.push_back(CPU::make(4));
    std::atomic<int> winners = 0;
    std::atomic<int> winner = -1;
    together([&](int thread) {
      const Ref<CPU>& destination = destinations[static_cast<std::size_t>(thread)];
      const bool has_won = succeeds([&] {
        if (thread % 2 == 0)
          static_cast<void>(move(tensor, destination));
        else
          static_cast<void>(move_async(tensor, destination).wait());
      });
      if (!has_won) return;
      ++winners;
      winner = thread;
    });
    ASSERT_EQ(winners, 1);
    EXPECT_TRUE(tensor.carrier()->is_released());
    EXPECT_EQ(elements<float>(line(destinations[static_cast<std::size_t>(winner)])), kValues);
    for (const Ref<CPU>& destination : destinations) EXPECT_FALSE(destination->is_owned());
  }
}

TEST(Concurrency, ATensorIsReadWhileItIsMoved) {
  for (int round = 0; round < kRounds; ++round) {
    const Tensor tensor = values();
    const AwaitMove handle = move_async(tensor, FileBacked::make(dtypes::Float32));
    together([&](int thread) {
      if (thread == 0) return static_cast<void>(handle.wait());
      static_cast<void>(handle.done());
      static_cast<void>(tensor.carrier()->version());
      static_cast<void>(succeeds([&] { tensor.carrier()->store(0, Scalar(9.0)); }));
    });
    EXPECT_EQ(elements<float>(handle.wait()), kValues);
  }
}

TEST(Concurrency, TransitionsOfOneHierarchyAreMadeOrRefused) {
  const Ref<Evictable> hierarchy = Evictable::make(values().carrier(), FileBacked::make(dtypes::Float32));
  together([&](int thread) {
    for (int round = 0; round < kRounds; ++round)
      static_cast<void>(
          succeeds([&] { (thread + round) % 2 == 0 ? hierarchy->evict() : hierarchy->promote(); }));
  });
  hierarchy->promote();
  EXPECT_EQ(elements<float>(line(hierarchy)), kValues);
  EXPECT_EQ(hierarchy->version(), 0);
  std::atomic<int> released = 0;
  together([&](int) {
    if (succeeds([&] { hierarchy->release(); })) ++released;
  });
  EXPECT_GE(released, 1);
  EXPECT_TRUE(hierarchy->is_released());
}

TEST(Concurrency, ADeviceServesManyThreads) {
  constexpr std::uint64_t capacity = 1 << 18;
  const std::filesystem::path path = Place::root / "node";
  std::fclose(std::fopen(path.c_str(), "wb"));
  std::filesystem::resize_file(path, capacity);
  const auto calls = std::make_shared<detail::IoScript>(detail::IoScriptOptions{});
  calls->present_as_device({capacity, 512, 4096});
  const Ref<BlockDevice> device = BlockDevice::open(path.string(), calls);
  together([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      const Ref<BlockDeviceCarrier> block = device->allocate(1 + 700 * ((thread + round) % 3));
      block->store(0, Scalar(static_cast<double>(thread)));
      if (!(block->at(0).to_binary64() == thread)) ADD_FAILURE() << "thread " << thread;
      const Tensor stored = move(values(), device->allocate(4));
      const Tensor back = move_async(stored, CPU::make(4)).wait();
      if (elements<float>(back) != kValues) ADD_FAILURE() << "thread " << thread;
      if (round % 2 == 0) block->release();
    }
  });
  EXPECT_EQ(device->allocate(static_cast<Index>(capacity) / 4, {.empty = true})->device_offset_bytes(), 0);
}

TEST(Concurrency, OperationsAndGradientsOverSharedOperands) {
  const Tensor shared = values();
  const std::vector<float> expected{2.0F, 4.0F, 6.0F, 8.0F};
  const Tensor ones =
      testing_support::place(Backend::cpu, std::vector<float>(4, 1.0F), Layout(Shape{4}, Stride{1}));
  Profiler profiler;
  profiler.enter();
  together([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      const Tensor mine = values();
      const Tensor result = mul(mine, shared);
      const std::array<Tensor, 1> inputs{mine};
      const auto gradients = grad(add(result, mul(mine, shared)), inputs, ones);
      if (elements<float>(gradients[0].value()) != expected) ADD_FAILURE() << "thread " << thread;
      const Tensor checked = testing_support::place(Backend::reference, kValues, Layout(Shape{4}, Stride{1}));
      static_cast<void>(add(checked, checked));  // the kernels of two backends in turn
    }
  });
  profiler.exit();
}

TEST(Concurrency, NoGradientOfASharedLeafIsLost) {
  const Tensor shared = values();
  const Tensor ones =
      testing_support::place(Backend::cpu, std::vector<float>(4, 1.0F), Layout(Shape{4}, Stride{1}));
  together([&](int) {
    for (int round = 0; round < kRounds; ++round) {
      backward(mul(shared, ones), ones);
      static_cast<void>(elements<float>(gradient_of(shared)));
    }
  });
  EXPECT_EQ(elements<float>(gradient_of(shared)), std::vector<float>(4, kThreads * kRounds));
}

}  // namespace
}  // namespace orlop::inline v0
