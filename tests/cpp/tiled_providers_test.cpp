// Tiles whose tiers are classes with definitions: transfers that providers start, hold open and fail.
#include <deque>
#include <mutex>

#include "backends.hpp"
#include "carriers/tiled_evictable/tile_work.hpp"
#include "orlop/extension/defined_carrier.hpp"
#include "orlop/extension/definition.hpp"
#include "orlop/io/io_script.hpp"

namespace orlop::inline v0 {
namespace {

using testing_support::expect_refusal;

/// What the routes of a test do: written down, and told what comes next.
struct Traffic {
  std::vector<std::string> log;
  std::deque<std::shared_ptr<detail::Gate>> gates;  ///< of the next transfers: each waits until it is open
  int fail_submit = 0;                              ///< the n-th submit from now on fails
  int fail_wait = 0;  ///< the n-th transfer from now on fails while it is waited for
};
Traffic& traffic() {
  static Traffic instance;
  return instance;
}

bool comes_up(int& countdown) { return countdown > 0 && --countdown == 0; }

class Copy final : public ProviderCompletion<void> {
 public:
  explicit Copy(TransferRequest request) : request_(std::move(request)) {
    if (!traffic().gates.empty()) {
      gate_ = traffic().gates.front();
      traffic().gates.pop_front();
    }
    fails_ = comes_up(traffic().fail_wait);
  }
  [[nodiscard]] bool done() const noexcept override { return is_done_; }
  void wait() override {
    const std::lock_guard lock(mutex_);
    if (is_done_) return;
    if (gate_) gate_->enter();
    is_done_ = true;
    if (fails_) raise<RuntimeError>("Copy", "the line is down");
    for (Index i = 0; i < request_.physical_span; ++i)
      request_.destination->store(i, request_.tensor.carrier()->at(request_.tensor.offset() + i));
  }

 private:
  TransferRequest request_;
  std::shared_ptr<detail::Gate> gate_;
  bool fails_ = false;
  std::atomic<bool> is_done_ = false;
  std::mutex mutex_;
};

/// Slots that a provider keeps; kind 0 computes, kind 1 stores.
template <int Kind>
class Shelf final : public DefinedCarrier {
 public:
  std::vector<Scalar> values;

 protected:
  [[nodiscard]] Ref<Carrier> make_blank() const override { return make_ref<Shelf>(); }
};

template <int Kind>
std::vector<Scalar>& slots_of(const Carrier& carrier) {
  return const_cast<Shelf<Kind>&>(dynamic_cast<const Shelf<Kind>&>(carrier)).values;
}

template <int Kind>
void define() {
  const auto provider = make_transfer([](const TransferRequest& request) -> Result<PreparedTransfer> {
    return PreparedTransfer([request]() -> std::shared_ptr<ProviderCompletion<void>> {
      traffic().log.emplace_back(Kind == 0 ? "save" : "load");
      if (comes_up(traffic().fail_submit)) raise<RuntimeError>("Copy", "nobody answers");
      return std::make_shared<Copy>(request);
    });
  });
  register_carrier_definition(
      carrier_class<Shelf<Kind>>(),
      {.storage = make_storage(
           {.supports_dtype = [](const Carrier&, const DType& dtype) { return &dtype == &dtypes::Float32; },
            .physical_size =
                [](const Carrier& carrier) { return static_cast<Index>(slots_of<Kind>(carrier).size()); },
            .allocate =
                [](Carrier& carrier, Index slots) {
                  slots_of<Kind>(carrier).assign(static_cast<std::size_t>(slots), Scalar(0.0F));
                },
            .release = [](Carrier& carrier) { slots_of<Kind>(carrier).clear(); },
            .read = [](const Carrier& carrier,
                       Index index) { return slots_of<Kind>(carrier)[static_cast<std::size_t>(index)]; },
            .write =
                [](Carrier& carrier, Index index, const Scalar& value) {
                  slots_of<Kind>(carrier)[static_cast<std::size_t>(index)] = value;
                }}),
       .transfers = {{carrier_class<Shelf<Kind>>(), carrier_class<Shelf<1 - Kind>>(),
                      Kind == 0 ? "save" : "load", provider}}});
}

constexpr Index kSlots = 24;

/// G of two defined classes: grid (2,3), tile (2,2), slot s holds s, all in the storage class.
Ref<TiledEvictable> cold(std::optional<std::int64_t> budget = std::nullopt) {
  static const bool is_defined = [] {
    define<0>();
    define<1>();
    return true;
  }();
  EXPECT_TRUE(is_defined);
  traffic() = {};
  const Ref<Carrier> seed = make_defined<Shelf<1>>(kSlots, {.dtype = dtypes::Float32});
  for (Index s = 0; s < kSlots; ++s) seed->store(s, Scalar(static_cast<double>(s)));
  return TiledEvictable::make(make_defined<Shelf<0>>(0, {.dtype = dtypes::Float32}), seed,
                              {.grid_shape = {2, 3}, .tile_shape = {2, 2}, .primary_budget_bytes = budget});
}

TileSet set(const std::vector<TileCoordinate>& tiles) { return TileSet(tiles); }

void expect_counted(const Carrier& carrier) {
  for (Index s = 0; s < kSlots; ++s) EXPECT_EQ(carrier.at(s).to_binary32(), static_cast<float>(s));
}

TEST(TiledProviders, ATransferHeldOpenKeepsItsTileFromEverybody) {
  const Ref<TiledEvictable> carrier = cold();
  const auto gate = std::make_shared<detail::Gate>();
  traffic().gates = {gate};
  std::optional<AwaitResidency> handle = carrier->promote_async(set({{0, 0}}));
  ASSERT_TRUE(gate->wait_entered(30));
  EXPECT_FALSE(handle->done());
  expect_refusal<RuntimeError>([&] { carrier->evict(set({{0, 0}})); }, "wait");
  expect_refusal<RuntimeError>([&] { carrier->store(0, Scalar(1.0)); }, "wait");
  expect_refusal<RuntimeError>([&] { TileWork({{carrier, std::nullopt}}, Purpose::operation); }, "wait");
  expect_refusal<RuntimeError>([&] { TileWork({{carrier, set({{0, 0}})}}, Purpose::projection); }, "wait");
  expect_refusal<RuntimeError>([&] { carrier->release(); }, "wait");
  carrier->promote(set({{1, 2}}));
  carrier->store(23, Scalar(23.0));
  expect_counted(*carrier);
  handle.reset();
  gate->open();
  while (carrier->pending_requests() != 0) std::this_thread::yield();
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 0}, {1, 2}}));
  expect_counted(*carrier);
}

TEST(TiledProviders, ASetOfTransfersCommitsWholeOrNotAtAll) {
  const Ref<TiledEvictable> carrier = cold();
  const TileSet two = set({{0, 0}, {1, 0}});
  carrier->promote(set({{0, 0}, {1, 0}, {0, 1}}));
  carrier->store(0, Scalar(0.0));
  for (const bool fails_late : {false, true}) {
    (fails_late ? traffic().fail_wait : traffic().fail_submit) = 2;
    const AwaitResidency handle = carrier->evict_async(two);
    EXPECT_THROW(handle.wait(), RuntimeError);
    EXPECT_EQ(carrier->primary_tiles().size(), 3U);
    EXPECT_EQ(carrier->dirty_tiles(), set({{0, 0}}));
    EXPECT_EQ(carrier->version(), 1);
    expect_counted(*carrier);
  }
  traffic().fail_submit = 1;
  expect_refusal<RuntimeError>([&] { static_cast<void>(carrier->evict_async(two)); }, "nobody answers");
  EXPECT_EQ(carrier->pending_requests(), 0);
  carrier->evict(two);
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 1}}));
  expect_counted(*carrier);
  traffic().fail_wait = 1;
  EXPECT_THROW(carrier->promote(two), RuntimeError);
  EXPECT_EQ(carrier->primary_tiles(), set({{0, 1}}));
  carrier->promote(two);
  expect_counted(*carrier);
}

TEST(TiledProviders, TheNextStepIsSubmittedBeforeTheKernelOfThisOneWhereBothFit) {
  for (const std::int64_t budget : {16, 32}) {
    const Ref<TiledEvictable> carrier = cold(budget);
    TileWork work({{carrier, std::nullopt}}, Purpose::operation);
    std::vector<std::size_t> submitted;
    for (Index tile = 0; tile < 6; ++tile) {
      const TileWork::TileRef step{0, tile};
      const TileWork::TileRef next{0, tile + 1};
      work.enter_step({&step, 1}, {&next, tile + 1 < 6 ? 1U : 0U});
      submitted.push_back(traffic().log.size());
      EXPECT_EQ(work.tile(step).at(0).to_binary32(), static_cast<float>(carrier->grid().first_slot(tile)));
      EXPECT_LE(carrier->primary_bytes(), budget);
    }
    using Counts = std::vector<std::size_t>;
    EXPECT_EQ(submitted, budget == 32 ? (Counts{2, 3, 4, 5, 6, 6}) : (Counts{1, 2, 3, 4, 5, 6}));
  }
}

TEST(TiledProviders, ChangedTilesAreSavedBeforeTheirRoomIsTaken) {
  const Ref<TiledEvictable> carrier = cold(32);
  for (Index s = 0; s < kSlots; ++s) carrier->store(s, Scalar(static_cast<double>(s)));
  EXPECT_LE(carrier->residency_stats().peak_primary_bytes, 32);
  expect_counted(*carrier);
  traffic().fail_wait = 1;  // of the victim's way out
  EXPECT_THROW(carrier->promote(set({{0, 0}})), RuntimeError);
  EXPECT_EQ(carrier->dirty_tiles().size(), 2U);
  expect_counted(*carrier);
  carrier->release();
}

}  // namespace
}  // namespace orlop::inline v0
