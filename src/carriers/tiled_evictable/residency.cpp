// Requests: tiles that move between the tiers together or not at all, and the room they need under a budget.
#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "carriers/tiled_evictable/tile_store.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/base/log.hpp"

namespace orlop::inline v0 {

ResidencyTask::~ResidencyTask() = default;

namespace detail {

namespace {

constexpr std::string_view what = "TiledEvictable";

Executor& residency_pool() {
  constexpr int thread_limit = 4;
  static Executor& pool = Executor::make(thread_limit);
  return pool;
}

bool is_current_copy(const Tile& entry) { return entry.is_backed && !entry.is_dirty; }

}  // namespace

/// X51 up to the pins and validity.
void TileStore::check_request(std::span<const Index> tiles, bool evicts, const TileClaim* claim) const {
  if (pending_count_ != 0)
    for (const Index tile : tiles)
      if (table_[tile].is_pending) refuse_pending(tile);
  for (const Index tile : tiles) {
    const Tile& entry = table_[tile];
    const bool moves = entry.location == (evicts ? TileLocation::primary : TileLocation::secondary);
    if (moves && (pinned_by_others(tile, entry, claim) || (evicts && entry.holds != 0))) refuse_pinned(tile);
    if (!evicts && entry.location == TileLocation::invalid) refuse_invalid(tile);
  }
}

/// The same as a question, for who only looks ahead.
bool TileStore::admits(std::span<const Index> tiles, const TileClaim* claim) const noexcept {
  return std::ranges::none_of(tiles, [&](Index tile) {
    const Tile& entry = table_[tile];
    return entry.is_pending || entry.location == TileLocation::invalid ||
           pinned_by_others(tile, entry, claim);
  });
}

/// Whether values of the tile pass from tier to tier.
bool TileStore::needs_copy(Index tile, bool evicts) const noexcept {
  const Tile& entry = table_[tile];
  if (!evicts) return entry.location == TileLocation::secondary;
  return entry.location == TileLocation::primary && !is_current_copy(entry);
}

void TileStore::check_routes(bool evicts) const {
  CarrierClass source = carrier_.primary()->carrier_class();
  CarrierClass destination = carrier_.secondary()->carrier_class();
  if (!evicts) std::swap(source, destination);
  const auto is_exact = [](CarrierClass carrier_class) {
    return route_policy(carrier_class) == RoutePolicy::exact;
  };
  if ((is_exact(source) || is_exact(destination)) && !has_move_operation(source, destination))
    raise<NotImplementedError>(what, "no move operation is registered for (", source, ", ", destination,
                               "); register one before tiles move between these tiers");
  static_cast<void>(detail::find_move_route(source, destination));
}

Ref<ResidencyRequest> TileStore::promote(std::span<const Index> tiles, const TileClaim* claim) {
  return request(tiles, false, claim, claim == nullptr ? Asked::explicitly : Asked::by_work);
}
Ref<ResidencyRequest> TileStore::evict(std::span<const Index> tiles, const TileClaim* claim) {
  return request(tiles, true, claim, claim == nullptr ? Asked::explicitly : Asked::by_work);
}
Ref<ResidencyRequest> TileStore::try_promote(std::span<const Index> tiles, const TileClaim* claim) {
  return request(tiles, false, claim, Asked::ahead);
}

Ref<ResidencyRequest> TileStore::request(std::span<const Index> tiles, bool evicts, const TileClaim* claim,
                                         Asked asked) {
  Ref<ResidencyRequest> made = make_ref<ResidencyRequest>(Ref<TiledEvictable>(&carrier_), evicts);
  bool is_routed = false;
  {
    const std::lock_guard lock(residency_mutex());
    check_open();
    if (asked != Asked::ahead) check_request(tiles, evicts, claim);
    is_routed = std::ranges::any_of(tiles, [&](Index tile) { return needs_copy(tile, evicts); });
  }
  if (const auto count = static_cast<Index>(tiles.size());
      !evicts && asked == Asked::explicitly && capacity_ && count > *capacity_)
    raise<ValueError>(what, count, " tiles of ", tile_bytes_,
                      " bytes exceed primary_budget_bytes=", *carrier_.primary_budget_bytes(),
                      "; promote fewer at once or raise the budget");
  if (is_routed) check_routes(evicts);
  made->is_by_work_ = claim != nullptr;
  made->set_.reserve(tiles.size());
  made->victims_.reserve(tiles.size());
  made->garbage_.reserve(tiles.size());
  {
    const std::lock_guard lock(residency_mutex());
    check_open();  // again: it was open to all while the routes were looked up
    if (asked == Asked::ahead && !admits(tiles, claim)) return {};
    if (asked != Asked::ahead) check_request(tiles, evicts, claim);
    if (!enlist(tiles, claim, *made)) {
      if (asked == Asked::ahead) return {};
      raise<RuntimeError>(what, "pinned or pending tiles leave no room for ", tiles.size(), " tiles of ",
                          tile_bytes_,
                          " bytes within primary_budget_bytes=", *carrier_.primary_budget_bytes(),
                          "; wait for the work that uses them");
    }
  }
  made->start();
  return made;
}

/// Marks the tiles that have to move, and what has to make room for them. False, with nothing changed, where
/// there is no room.
bool TileStore::enlist(std::span<const Index> tiles, const TileClaim* claim, ResidencyRequest& request) {
  for (const Index tile : tiles) {
    table_.edit(tile);  // what may fail, before anything has changed
    if ((table_[tile].location == TileLocation::primary) == request.evicts_) request.set_.push_back({tile});
  }
  if (!request.evicts_ && !make_room_beside(tiles, claim, request)) {
    request.set_.clear();
    return false;
  }
  for (ResidencyRequest::Transfer& transfer : request.set_) {
    transfer.is_copy = needs_copy(transfer.tile, request.evicts_);
    transfer.source = request.evicts_ ? table_[transfer.tile].primary : table_[transfer.tile].secondary;
    mark_pending(transfer.tile);
  }
  ++requests_;
  request.is_ended_ = false;
  return true;
}

void TileStore::mark_pending(Index tile) {
  table_.edit(tile).is_pending = true;
  table_.unlink(tile);
  ++pending_count_;
}

void TileStore::unmark_pending(Index tile) noexcept {
  table_.edit(tile).is_pending = false;
  --pending_count_;
  touch(tile);
}

/// Room for those of `tiles` that are to come; the others among them are no victims.
bool TileStore::make_room_beside(std::span<const Index> tiles, const TileClaim* claim,
                                 ResidencyRequest& request) {
  const auto coming = static_cast<Index>(request.set_.size());
  if (!capacity_) return make_room(coming, claim, request);
  for (const Index tile : tiles) hold(tile);
  bool fits = false;
  std::exception_ptr failure;
  try {
    fits = make_room(coming, claim, request);
  } catch (...) {
    failure = std::current_exception();
  }
  for (const Index tile : tiles) unhold(tile);
  if (failure) std::rethrow_exception(failure);
  return fits;
}

/// Reserves room for so many tiles: clean victims leave at once, others become part of the request. False
/// where the victims do not suffice; nothing has changed then.
bool TileStore::make_room(Index tiles, const TileClaim* claim, ResidencyRequest& request) {
  if (capacity_) {
    const Index missing = used_ + reserved_ - leaving_ + tiles - *capacity_;
    std::vector<Index> victims;
    if (missing > 0)
      table_.offer_victims([&](Index tile, const Tile& entry) {
        if (!pinned_by_others(tile, entry, claim)) victims.push_back(tile);
        return static_cast<Index>(victims.size()) == missing;
      });
    if (static_cast<Index>(victims.size()) < missing) return false;
    for (const Index tile : victims) {
      Tile& entry = table_.edit(tile);
      if (is_current_copy(entry)) {
        leave_primary(tile, request.garbage_);
        ++request.dropped_;
      } else {
        request.victims_.push_back({tile});
        request.victims_.back().source = entry.primary;
        mark_pending(tile);
      }
    }
    request.leaving_ = static_cast<Index>(victims.size());
    leaving_ += request.leaving_;
  }
  request.reserved_ = tiles;
  reserved_ += tiles;
  return true;
}

ResidencyRequest::ResidencyRequest(Ref<TiledEvictable> carrier, bool evicts)
    : carrier_(std::move(carrier)), evicts_(evicts) {}
ResidencyRequest::~ResidencyRequest() = default;

/// Gives back the storage of clean victims: only then is their room free.
void ResidencyRequest::drop_garbage() {
  garbage_.clear();
  const std::lock_guard lock(residency_mutex());
  store().used_ -= dropped_;
  store().leaving_ -= dropped_;
  leaving_ -= dropped_;
  dropped_ = 0;
}

void ResidencyRequest::start() {
  bool is_idle = false;
  try {
    drop_garbage();
    open_spans();
    // Shipped classes are written by the pool. Providers start their transfers on the thread that asks.
    if (!store().has_windows_) evict_victims();
    if (victims_.empty()) {
      stage();
      offer_arriving();
    }
    is_idle = set_.empty() || (victims_.empty() && std::ranges::none_of(set_, &Transfer::is_copy));
  } catch (...) {
    end(false);
    throw;
  }
  if (is_idle) return run();
  try {
    residency_pool().submit(Ref<Task>(this));
  } catch (...) {  // the process is about to end
    run();
  }
}

/// A profiler is one of the thread that asks.
void ResidencyRequest::open_spans() {
  const auto open = [&](std::optional<ResidencySpan>& span, bool evicts, std::size_t tiles) {
    if (tiles != 0)
      span.emplace(evicts ? "evict" : "promote", carrier_->carrier_class(),
                   static_cast<Index>(tiles) * store().tile_bytes_);
  };
  open(victim_span_, true, victims_.size());
  open(span_, evicts_, set_.size());
}

void ResidencyRequest::evict_victims() {
  if (victims_.empty()) return;
  prepare(victims_, true);
  start_all(victims_);
  carry_out(victims_, true);
  commit(victims_, true);
  victims_.clear();
  if (victim_span_) victim_span_->close(true);
}

void ResidencyRequest::stage() {
  if (std::exchange(is_staged_, true)) return;
  prepare(set_, evicts_);
  start_all(set_);
}

/// Tiles that come from windows into memory can be read meanwhile.
void ResidencyRequest::offer_arriving() {
  if (evicts_ || !is_by_work_) return;
  arriving_.reserve(set_.size());
  for (Transfer& transfer : set_) {
    if (transfer.is_copy) transfer.arrival = store().make_arrival(transfer.tile, transfer.destination);
    if (transfer.arrival) arriving_.push_back({transfer.tile, transfer.destination, transfer.arrival});
  }
  if (arriving_.size() != set_.size()) arriving_.clear();
}

/// Storage for what comes, and who brings it.
void ResidencyRequest::prepare(std::vector<Transfer>& transfers, bool evicts) {
  TileStore& tiles = store();
  const Carrier& primary = *carrier_->primary();
  const Carrier& secondary = *carrier_->secondary();
  for (Transfer& transfer : transfers) {
    if (!evicts) {
      {
        const std::lock_guard lock(residency_mutex());
        --tiles.reserved_;
        --reserved_;
        ++tiles.used_;
        ++arrived_;
        tiles.note_peak();
      }
      transfer.destination = make_ref<TileStorage>(tiles.make_child(primary, transfer.is_copy));
    }
    if (!transfer.is_copy || tiles.has_windows_) continue;
    if (evicts) transfer.destination = make_ref<TileStorage>(tiles.make_child(secondary, true));
    if (!transfer.source) {  // still in the primary seed
      const Ref<Carrier> child = tiles.make_child(primary, true);
      tiles.load(primary, true, transfer.tile, *child);
      transfer.source = make_ref<TileStorage>(child);
      transfer.source->retire();
    }
    transfer.operation = detail::find_move_route(transfer.source->carrier().carrier_class(),
                                                 transfer.destination->carrier().carrier_class())
                             .make();
  }
}

/// Providers start what they can. Once the first has started, what fails is the handle's.
void ResidencyRequest::start_all(std::vector<Transfer>& transfers) {
  bool has_started = false;
  for (Transfer& transfer : transfers) {
    if (!transfer.operation) continue;
    try {
      const OwnerAccess source = transfer.source->access();
      const OwnerAccess destination = transfer.destination->access();
      transfer.finish = transfer.operation->start_transfer(
          Tensor::trusted(transfer.source->ref(), 0, store().grid().tile_layout()),
          transfer.destination->ref());
    } catch (...) {
      if (!has_started) throw;
      failure_ = std::current_exception();
      return;
    }
    has_started = true;
  }
}

namespace {

/// Takes part in work that is done when all of it is.
class Helper final : public Task {
 public:
  explicit Helper(const std::function<void()>& work) : work_(work) {}

 protected:
  void perform() override { work_(); }
  void abandon() noexcept override {}
  void forget() noexcept override {}

 private:
  const std::function<void()>& work_;  // of in_parallel, which waits for this
};

/// Calls `one(i)` for each i below `count`, here and on up to `helpers` threads of the pool. After a failure
/// no other call begins; the first failure is thrown when all have ended.
void in_parallel(std::size_t count, std::size_t helpers, const std::function<void(std::size_t)>& one) {
  std::atomic<std::size_t> next = 0;
  const std::function<void()> work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < count;) {
      try {
        one(i);
      } catch (...) {
        next = count;
        throw;
      }
    }
  };
  std::vector<Ref<Task>> helping;
  std::exception_ptr failure;
  try {
    for (std::size_t i = 0; i < std::min(helpers, count - 1); ++i) helping.push_back(make_ref<Helper>(work));
    for (const Ref<Task>& helper : helping) residency_pool().submit(helper);
  } catch (...) {  // who could not be asked finds nothing to do, below
  }
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  for (const Ref<Task>& helper : helping) {
    while (!helper->is_done()) {
      try {
        helper->wait_until_done();
      } catch (...) {  // an interrupt; what the helper works on is ours
        if (!failure) failure = std::current_exception();
      }
    }
    if (!failure) failure = helper->failure();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

/// Waits for what providers have started, all of it, and throws what failed first.
void ResidencyRequest::finish_all(std::vector<Transfer>& transfers) {
  std::exception_ptr failure = std::exchange(failure_, nullptr);
  for (Transfer& transfer : transfers) {
    if (!transfer.finish) continue;
    try {
      const OwnerAccess source = transfer.source->access();
      const OwnerAccess destination = transfer.destination->access();
      std::exchange(transfer.finish, nullptr)();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void ResidencyRequest::carry_out(std::vector<Transfer>& transfers, bool evicts) {
  if (!store().has_windows_) return finish_all(transfers);
  if (transfers.empty()) return;
  constexpr Index worthwhile_bytes = Index{1} << 16;
  const bool is_native = carrier_->primary()->carrier_class().is_shipped();
  std::optional<BlockingScope> blocking;
  if (is_native) blocking.emplace();  // nothing below needs the interpreter
  const std::vector<std::span<Transfer>> groups = abreast(transfers, evicts);
  in_parallel(groups.size(), is_native && store().tile_bytes_ >= worthwhile_bytes ? 3 : 0,
              [&](std::size_t i) { copy(groups[i], evicts); });
}

/// Each for itself, but tiles whose runs lie side by side in the secondary seed together, where all of them
/// move.
std::vector<std::span<ResidencyRequest::Transfer>> ResidencyRequest::abreast(std::span<Transfer> transfers,
                                                                             bool evicts) const {
  const Index width = store().tiles_abreast(*carrier_->secondary());
  if (width > 1) std::ranges::sort(transfers, {}, &Transfer::tile);
  std::vector<std::span<Transfer>> groups;
  groups.reserve(transfers.size());
  while (!transfers.empty()) {
    const std::span<Transfer> next =
        transfers.first(std::min(static_cast<std::size_t>(width), transfers.size()));
    const bool is_whole = width > 1 && std::ssize(next) == width && next.front().tile % width == 0 &&
                          next.back().tile - next.front().tile == width - 1 &&
                          std::ranges::all_of(next, [&](const Transfer& transfer) {
                            return slots_abreast(transfer, evicts) != nullptr;
                          });
    groups.push_back(is_whole ? next : next.first(1));
    transfers = transfers.subspan(groups.back().size());
  }
  return groups;
}

/// The memory of a tile that can move with those beside it, or null.
std::byte* ResidencyRequest::slots_abreast(const Transfer& transfer, bool evicts) const {
  const Ref<TileStorage>& inside = evicts ? transfer.source : transfer.destination;
  if (!transfer.is_copy || transfer.arrival || !inside) return nullptr;
  const bool on_seed = evicts ? store().evicts_to_seed_ : store().window(transfer.tile).is_slot_order;
  return on_seed ? store().host_slots(inside->carrier()) : nullptr;
}

void ResidencyRequest::copy(std::span<Transfer> transfers, bool evicts) const {
  if (transfers.size() == 1) return copy(transfers.front(), evicts);
  std::vector<std::byte*> slots;
  slots.reserve(transfers.size());
  for (const Transfer& transfer : transfers) slots.push_back(slots_abreast(transfer, evicts));
  store().move_abreast(slots, transfers.front().tile, *carrier_->secondary(), !evicts);
}

/// One tile from or to its window.
void ResidencyRequest::copy(Transfer& transfer, bool evicts) const {
  if (!transfer.is_copy) return;
  if (transfer.arrival) return transfer.arrival->require_all();
  TileStore& tiles = store();
  const Index tile = transfer.tile;
  if (!evicts) {
    const auto [from, on_seed] = tiles.window(tile);
    const OwnerAccess access = transfer.destination->access();
    tiles.load(*from, on_seed, tile, transfer.destination->carrier());
    return;
  }
  const bool to_seed = tiles.evicts_to_seed_;
  Carrier& to = to_seed ? *carrier_->secondary() : tiles.backing();
  if (transfer.source)
    tiles.save(transfer.source->carrier(), to, to_seed, tile);
  else
    tiles.save_seed(tile, to, to_seed);
}

void ResidencyRequest::commit(std::vector<Transfer>& transfers, bool evicts) {
  TileStore& tiles = store();
  std::vector<Ref<TileStorage>> garbage;
  garbage.reserve(2 * transfers.size());
  const auto count = static_cast<Index>(transfers.size());
  {
    const std::lock_guard lock(residency_mutex());
    for (Transfer& transfer : transfers) {
      Tile& entry = tiles.table_.edit(transfer.tile);
      const Index bytes = transfer.is_copy ? tiles.tile_bytes_ : 0;
      if (evicts) {
        tiles.leave_primary(transfer.tile, garbage);
        if (transfer.destination) entry.secondary = std::move(transfer.destination);
        if (transfer.is_copy) entry.on_secondary_seed = tiles.evicts_to_seed_;
        tiles.stats_.bytes_written += bytes;
      } else {
        const bool is_backed = tiles.capacity_.has_value() && transfer.is_copy;
        tiles.enter_primary(transfer.tile, std::move(transfer.destination), false, is_backed, garbage);
        ++tiles.stats_.promotions;
        tiles.stats_.bytes_read += bytes;
      }
      tiles.unmark_pending(transfer.tile);
    }
    if (!evicts) arrived_ = 0;
  }
  for (Transfer& transfer : transfers) {
    transfer.operation.reset();
    transfer.source.reset();
  }
  garbage.clear();
  transfers.clear();
  if (!evicts) return;
  const std::lock_guard lock(residency_mutex());
  tiles.used_ -= count;
  const Index promised = std::min(count, leaving_);
  tiles.leaving_ -= promised;
  leaving_ -= promised;
}

void ResidencyRequest::perform() {
  const std::size_t count = set_.size();
  try {
    evict_victims();
    stage();
    carry_out(set_, evicts_);
    commit(set_, evicts_);
  } catch (...) {
    end(false);
    throw;
  }
  if (count != 0)
    log(LogChannel::residency, what, ": ", evicts_ ? "evicted " : "promoted ", count, " tiles of ",
        store().tile_bytes_, " bytes");
  end(true);
}

/// Puts everything back that was not committed.
void ResidencyRequest::end(bool succeeded) noexcept {
  if (std::exchange(is_ended_, true)) return;
  for (std::optional<ResidencySpan>* span : {&victim_span_, &span_})
    if (*span) (*span)->close(succeeded);
  TileStore& tiles = store();
  {
    const std::lock_guard lock(residency_mutex());
    for (const auto* transfers : {&set_, &victims_})
      for (const Transfer& transfer : *transfers) tiles.unmark_pending(transfer.tile);
    tiles.reserved_ -= reserved_;
    tiles.leaving_ -= leaving_;
    reserved_ = leaving_ = 0;
  }
  for (auto* transfers : {&set_, &victims_}) {
    for (Transfer& transfer : *transfers)
      if (transfer.destination) transfer.destination->retire();
    transfers->clear();
  }
  garbage_.clear();
  {
    const std::lock_guard lock(residency_mutex());
    tiles.used_ -= std::exchange(arrived_, 0);
    --tiles.requests_;
    residency_changed().notify_all();
  }
  tiles.settle(false);
  const Ref<TiledEvictable> last = std::move(carrier_);
}

void ResidencyRequest::abandon() noexcept { end(false); }

void ResidencyRequest::forget() noexcept {
  if (std::exchange(is_ended_, true)) return;
  TileStore& tiles = store();
  for (const auto* transfers : {&set_, &victims_})
    for (const Transfer& transfer : *transfers) tiles.unmark_pending(transfer.tile);
  tiles.reserved_ -= reserved_;
  tiles.leaving_ -= leaving_;
  tiles.used_ -= arrived_;
  tiles.makes_backing_ = tiles.writes_rows_ = false;
  --tiles.requests_;
}

}  // namespace detail

}  // namespace orlop::inline v0
