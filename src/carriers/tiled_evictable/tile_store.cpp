// What is known about the tiles, and who may use them: snapshots, pins, turns.
#include "carriers/tiled_evictable/tile_store.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "io/fork.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/base/log.hpp"

namespace orlop::inline v0::detail {

namespace {
constexpr std::string_view what = "TiledEvictable";
}  // namespace

bool TileClaim::contains(Index tile) const noexcept {
  return is_all || std::ranges::binary_search(tiles, tile);
}

TileStore::TileStore(TiledEvictable& carrier, const TileFlags& initial, bool evicts_to_seed)
    : carrier_(carrier),
      slot_bytes_(carrier.dtype().slot_bytes()),
      tile_bytes_(carrier.grid().tile_size() * slot_bytes_),
      has_windows_(carrier.secondary()->carrier_class().is_shipped()),
      evicts_to_seed_(evicts_to_seed),
      reads_seed_(grid().run() == grid().tile_size() && host_slots(*carrier.primary()) != nullptr),
      table_(carrier.grid().tile_count(), initial) {
  if (carrier.primary_budget_bytes()) capacity_ = *carrier.primary_budget_bytes() / tile_bytes_;
  if (initial.location == TileLocation::invalid) invalid_count_ = table_.count();
}

TileStore::~TileStore() {
  if (backing_token_ != 0) static_cast<void>(TileStorage(std::move(backing_), backing_token_));
}

// --- State

void TileStore::set_location(Tile& entry, TileLocation location) noexcept {
  primary_count_ += (location == TileLocation::primary) - (entry.location == TileLocation::primary);
  invalid_count_ += (location == TileLocation::invalid) - (entry.location == TileLocation::invalid);
  entry.location = location;
}

void TileStore::note_peak() noexcept {
  stats_.peak_primary_bytes = std::max(stats_.peak_primary_bytes, used_ * tile_bytes_);
}

/// The tile's storage goes to `garbage`; it counts as used until that is dropped.
void TileStore::leave_primary(Index tile, Garbage& garbage) {
  Tile& entry = table_.edit(tile);
  table_.unlink(tile);
  if (entry.primary) {
    entry.primary->retire();
    garbage.push_back(std::move(entry.primary));
  }
  set_location(entry, TileLocation::secondary);
  entry.is_dirty = entry.is_backed = entry.on_primary_seed = false;
  ++stats_.evictions;
}

void TileStore::enter_primary(Index tile, Storage storage, bool is_dirty, bool is_backed, Garbage& garbage) {
  Tile& entry = table_.edit(tile);
  entry.primary = std::move(storage);
  set_location(entry, TileLocation::primary);
  entry.is_dirty = is_dirty;
  if (is_backed)
    entry.is_backed = true;
  else
    drop_copy(entry, garbage);
  touch(tile);
}

/// The secondary copy is not current any more.
void TileStore::drop_copy(Tile& entry, Garbage& garbage) noexcept {
  entry.is_backed = false;
  if (!entry.secondary) return;
  entry.secondary->retire();
  garbage.push_back(std::move(entry.secondary));  // reserved by who asks
}

namespace {
std::string named(const TileGrid& grid, Index tile) {
  return text("tile ", tuple_text(grid.coordinate(tile)));
}
}  // namespace

void TileStore::refuse_pending(Index tile) const {
  raise<RuntimeError>(what, named(grid(), tile), " is part of a pending residency request; wait for it");
}
void TileStore::refuse_pinned(Index tile) const {
  raise<RuntimeError>(what, named(grid(), tile), " is pinned by unfinished work; wait for it");
}
void TileStore::refuse_invalid(Index tile) const {
  raise<RuntimeError>(what, named(grid(), tile),
                      " is invalid: it has no values yet; only tiles "
                      "that were given some can be used");
}

TileState TileStore::state(Index tile) const {
  const std::lock_guard lock(residency_mutex());
  if (is_closed_) return {};
  const Tile& entry = table_[tile];
  return {entry.location, entry.location != TileLocation::invalid, entry.is_dirty};
}

TileSet TileStore::tiles_where(bool (*accepts)(const Tile&)) const {
  std::vector<Index> numbers;
  {
    const std::lock_guard lock(residency_mutex());
    if (!is_closed_)
      for (Index tile = 0; tile < table_.count(); ++tile)
        if (accepts(table_[tile])) numbers.push_back(tile);
  }
  return TileSet::from_numbers(grid().grid_shape(), numbers);
}

std::string TileStore::symbols() const {
  const auto symbol = [](const Tile& tile) {
    if (tile.is_pending) return '~';
    if (tile.location == TileLocation::primary) return tile.is_dirty ? '*' : '#';
    if (tile.location == TileLocation::secondary) return '.';
    return tile.location == TileLocation::implicit ? '0' : '-';
  };
  std::string out(static_cast<std::size_t>(grid().tile_count()), '-');
  const std::lock_guard lock(residency_mutex());
  if (!is_closed_)
    for (Index tile = 0; tile < table_.count(); ++tile)
      out[static_cast<std::size_t>(tile)] = symbol(table_[tile]);
  return out;
}

streaming::ResidencyStats TileStore::stats() const {
  const std::lock_guard lock(residency_mutex());
  return stats_;
}

void TileStore::reset_stats() {
  const std::lock_guard lock(residency_mutex());
  stats_ = {};
  note_peak();
}

Index TileStore::primary_bytes() const {
  const std::lock_guard lock(residency_mutex());
  return used_ * tile_bytes_;
}

Index TileStore::pending_requests() const {
  const std::lock_guard lock(residency_mutex());
  return requests_;
}

void TileStore::check_open() const {
  if (is_closed_) raise<RuntimeError>(what, "the carrier is released; its storage is gone for good");
}

void TileStore::check_valid() const {
  if (invalid_count_ != 0)
    raise<RuntimeError>(what, invalid_count_, " of ", table_.count(),
                        " tiles are invalid: they have no values yet; work on a Tensor all of whose tiles "
                        "were given some, or project() those that have");
}

void TileStore::require_valid() const {
  const std::lock_guard lock(residency_mutex());
  check_valid();
}

void TileStore::close() {
  const std::lock_guard lock(residency_mutex());
  if (requests_ != 0 || works_ != 0)
    raise<RuntimeError>(what, "unfinished work uses the tiles: ", requests_, " pending requests, ", works_,
                        " projections or operations; wait for them, then release");
  is_closed_ = true;
}

void TileStore::reopen() {
  const std::lock_guard lock(residency_mutex());
  is_closed_ = false;
}

void TileStore::drop_tiles() {
  TileTable dropped(0, {});
  Ref<Carrier> backing;
  {
    const std::lock_guard lock(residency_mutex());
    std::swap(table_, dropped);
    std::swap(backing_, backing);
    deferred_.clear();
    used_ = primary_count_ = 0;
  }
  dropped.retire_all();
  if (backing_token_ == 0) return;  // the seed, which goes with its tier
  make_ref<TileStorage>(std::move(backing), std::exchange(backing_token_, 0))->retire();
}

void TileStore::visit_references(ReferenceVisitor& visitor) const {
  const bool has_foreign = !has_windows_ || !carrier_.primary()->carrier_class().is_shipped();
  if (!has_foreign) return;  // nobody outside can hold a shipped child
  const std::lock_guard lock(residency_mutex());
  table_.visit_references(visitor);
}

// --- Work

bool TileStore::pinned_by_others(Index tile, const Tile& entry, const TileClaim* claim) const noexcept {
  Index pins = all_pins_ + Index{entry.pins};
  if (claim != nullptr && claim->contains(tile)) --pins;
  return pins > 0;
}

/// A tile that has still to come can be brought in by whoever alone has pinned it.
void TileStore::require_unpinned(const std::vector<Index>& readable, bool reads_all) const {
  if (works_ == 0 || primary_count_ == table_.count()) return;
  const auto require = [this](Index tile) {
    const Tile& entry = table_[tile];
    if (entry.location == TileLocation::secondary && pinned_by_others(tile, entry, nullptr))
      refuse_pinned(tile);
  };
  for (const Index tile : readable) require(tile);
  for (Index tile = 0; reads_all && tile < table_.count(); ++tile) require(tile);
}

void TileStore::begin_work(const TileClaim& claim, const std::vector<Index>& readable, bool reads_all,
                           bool has_steps) {
  check_open();
  if (pending_count_ != 0 && claim.is_all)
    raise<RuntimeError>(what, pending_count_, " tiles are part of a pending residency request; wait for it",
                        capacity_ ? "" : ", or give a primary_budget_bytes: operations then take turns");
  if (pending_count_ != 0)
    for (const Index tile : claim.tiles)
      if (table_[tile].is_pending) refuse_pending(tile);
  if (reads_all) check_valid();
  for (const Index tile : readable)
    if (table_[tile].location == TileLocation::invalid) refuse_invalid(tile);
  if (has_steps) require_unpinned(readable, reads_all);
  for (const Index tile : claim.tiles) table_.edit(tile);  // what may fail, before anything has changed
  for (const Index tile : claim.tiles) ++table_.edit(tile).pins;
  if (claim.is_all) ++all_pins_;
  ++works_;
}

void TileStore::end_work(const TileClaim& claim) noexcept {
  for (const Index tile : claim.tiles) --table_.edit(tile).pins;
  if (claim.is_all) --all_pins_;
  --works_;
}

void TileStore::hold(Index tile) noexcept {
  ++table_.edit(tile).holds;
  table_.unlink(tile);
}

void TileStore::unhold(Index tile) noexcept {
  if (--table_.edit(tile).holds == 0) touch(tile);
}

void TileStore::count_hits(std::int64_t hits, std::int64_t misses) noexcept {
  stats_.hits += hits;
  stats_.misses += misses;
}

void TileStore::take_turn(const void* holder) {
  while (true) {
    std::optional<BlockingScope> blocking;
    for (const bool waits : {false, true}) {
      if (waits) blocking.emplace();
      std::unique_lock lock(residency_mutex());
      if (turn_ == nullptr || turn_process_ != process_id()) {
        turn_ = holder;
        turn_thread_ = std::this_thread::get_id();
        turn_process_ = process_id();
        return;
      }
      if (turn_thread_ == std::this_thread::get_id())
        raise<RuntimeError>(what,
                            "an operation on this carrier runs on this thread already: its callbacks cannot "
                            "start another; do it when "
                            "the operation has ended");
      if (waits) residency_changed().wait_for(lock, std::chrono::milliseconds(50));
    }
    blocking.reset();
    check_interrupts();
  }
}

void TileStore::give_turn(const void* holder) noexcept {
  const std::lock_guard lock(residency_mutex());
  if (turn_ != holder) return;
  turn_ = nullptr;
  residency_changed().notify_all();
}

Tensor TileStore::tile(Index tile) const {
  Storage storage;
  bool on_seed = false;
  {
    const std::lock_guard lock(residency_mutex());
    storage = table_[tile].primary;
    on_seed = table_[tile].on_primary_seed;
  }
  if (storage) return Tensor::trusted(storage->ref(), 0, grid().tile_layout());
  if (!on_seed || !reads_seed_)
    raise<RuntimeError>(what, "a tile is used that is not part of the current step");
  return Tensor::trusted(carrier_.primary(), grid().first_slot(tile), grid().tile_layout());
}

void TileStore::let_leave(const std::vector<Index>& tiles) {
  if (tiles.empty()) return;
  {
    const std::lock_guard lock(residency_mutex());
    deferred_.insert(deferred_.end(), tiles.begin(), tiles.end());
  }
  if (const Ref<ResidencyRequest> request = evict_deferred()) request->wait();
}

/// Begins to evict those of the tiles that wait for it and are free now.
Ref<ResidencyRequest> TileStore::evict_deferred() {
  std::vector<Index> ready;
  {
    const std::lock_guard lock(residency_mutex());
    std::erase_if(deferred_, [&](Index tile) {
      const Tile& entry = table_[tile];
      if (entry.location != TileLocation::primary) return !entry.is_pending;
      if (entry.is_pending || entry.holds != 0 || pinned_by_others(tile, entry, nullptr)) return false;
      ready.push_back(tile);
      return true;
    });
  }
  if (ready.empty()) return {};
  std::ranges::sort(ready);
  ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
  return evict(ready, nullptr);
}

void TileStore::settle(bool waits) noexcept {
  try {
    const Ref<ResidencyRequest> request = evict_deferred();
    if (request && waits) request->wait();
  } catch (...) {
    log(LogChannel::residency, what, ": tiles that a policy wanted evicted stay primary");
  }
}

}  // namespace orlop::inline v0::detail
