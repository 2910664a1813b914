// Where the tiles are: storage of single tiles, requests that move them, and room under a budget.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "carriers/tiled_evictable/tile_store.hpp"
#include "io/fork.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/base/log.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

ResidencyTask::~ResidencyTask() = default;

namespace detail {

namespace {

constexpr std::string_view what = "TiledEvictable";
constexpr Index kBounceBytes = Index{8} << 20;

Executor& residency_pool() {
  constexpr int thread_limit = 4;
  static Executor& pool = Executor::make(thread_limit);
  return pool;
}

bool is_current_copy(const Tile& entry) { return entry.is_backed && !entry.is_dirty; }

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
      table_(carrier.grid().tile_count(), initial) {
  if (carrier.primary_budget_bytes()) capacity_ = *carrier.primary_budget_bytes() / tile_bytes_;
  if (initial.location == TileLocation::invalid) invalid_count_ = table_.count();
}

TileStore::~TileStore() {
  if (backing_token_ != 0) static_cast<void>(make_ref<TileStorage>(std::move(backing_), backing_token_));
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
  entry.is_backed = is_backed;
  if (!is_backed && entry.secondary) {
    entry.secondary->retire();
    garbage.push_back(std::move(entry.secondary));
  }
  touch(tile);
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

// --- The storage of tiles

Ref<Carrier> TileStore::make_child(const Carrier& like, bool is_empty) const {
  Ref<Carrier> child = like.allocate_like(grid().tile_size(),
                                          {.is_mutable = true, .dtype = carrier_.dtype(), .empty = is_empty});
  if (child->carrier_class() != like.carrier_class() || child->size() != grid().tile_size() ||
      &child->dtype() != &carrier_.dtype())
    raise<TypeError>(what, "a tier's factory must return its own exact class, dtype and size: asked for ",
                     grid().tile_size(), " ", carrier_.dtype().name(), " slots on ", like.carrier_class(),
                     ", got ", child->size(), " ", child->dtype().name(), " slots on ",
                     child->carrier_class());
  return child;
}

/// Where evicted tiles have their windows, in the order of tiles; made when the first one comes.
Carrier& TileStore::backing() {
  while (true) {
    {
      const std::lock_guard lock(residency_mutex());
      if (backing_) return *backing_;
      if (!std::exchange(makes_backing_, true)) break;
    }
    const BlockingScope blocking;
    std::unique_lock lock(residency_mutex());
    residency_changed().wait(lock, [this] { return !makes_backing_; });
  }
  const auto end_making = [this](Ref<Carrier> made, Carrier::OwnerToken token) {
    const std::lock_guard lock(residency_mutex());
    makes_backing_ = false;
    backing_ = std::move(made);
    backing_token_ = token;
    residency_changed().notify_all();
  };
  try {
    Ref<Carrier> made = carrier_.secondary()->allocate_like(
        grid().size(), {.is_mutable = true, .dtype = carrier_.dtype(), .empty = true});
    Carrier& backing = *made;
    end_making(std::move(made), backing.claim_ownership());
    return backing;
  } catch (...) {
    end_making({}, 0);
    throw;
  }
}

std::byte* TileStore::host_slots(const Carrier& carrier) const noexcept {
  return carrier.carrier_class().is_shipped() ? carrier.host_data() : nullptr;
}

Index TileStore::bounce_slots() const noexcept {
  return std::min(grid().tile_size(), std::max<Index>(1, kBounceBytes / slot_bytes_));
}

/// Positions `first` to `first + count` of a tile, out of all tiles one after another or out of slot order.
void TileStore::gather(const Carrier& from, bool is_slot_order, Index tile, Index first, Index count,
                       std::byte* out) const {
  if (!is_slot_order) return from.read_span(tile * grid().tile_size() + first, count, out);
  // One call per run; where runs lie close together on a file, one per row of them, with what is between.
  constexpr Index close_bytes = 8192;
  const Index step = grid().run_step();
  const bool reads_rows =
      grid().runs_in_row() > 1 && step * slot_bytes_ <= close_bytes && from.host_data() == nullptr;
  std::vector<std::byte> row;
  while (count > 0) {
    const Index within = first % grid().run();
    const Index slot = grid().slot({tile, first});
    Index runs = 1;
    if (reads_rows && within == 0) {
      const Index left = grid().runs_in_row() - first / grid().run() % grid().runs_in_row();
      runs = std::min({left, count / grid().run(), std::max<Index>(1, bounce_slots() / step)});
    }
    if (runs > 1) {
      const Index span = (runs - 1) * step + grid().run();
      row.resize(static_cast<std::size_t>(span * slot_bytes_));
      from.read_span(slot, span, row.data());
      const auto run_bytes = static_cast<std::size_t>(grid().run() * slot_bytes_);
      for (Index run = 0; run < runs; ++run, out += run_bytes)
        std::memcpy(out, row.data() + run * step * slot_bytes_, run_bytes);
      first += runs * grid().run();
      count -= runs * grid().run();
      continue;
    }
    const Index part = std::min(count, grid().run() - within);
    from.read_span(slot, part, out);
    out += part * slot_bytes_;
    first += part;
    count -= part;
  }
}

void TileStore::put(Carrier& to, bool is_slot_order, Index tile, Index first, Index count,
                    const std::byte* in) const {
  if (!is_slot_order) return to.write_span(tile * grid().tile_size() + first, count, in);
  while (count > 0) {
    const Index part = std::min(count, grid().run() - first % grid().run());
    to.write_span(grid().slot({tile, first}), part, in);
    in += part * slot_bytes_;
    first += part;
    count -= part;
  }
}

namespace {

/// Calls `move(first, count)` for the positions of a tile, at most `most` at once.
template <class Move>
void in_pieces(Index tile_size, Index most, Move move) {
  for (Index first = 0; first < tile_size; first += most) move(first, std::min(most, tile_size - first));
}

}  // namespace

/// Fills a fresh child, which nobody owns.
void TileStore::load(const Carrier& from, bool is_slot_order, Index tile, Carrier& child) const {
  if (std::byte* slots = host_slots(child))
    return gather(from, is_slot_order, tile, 0, grid().tile_size(), slots);
  std::vector<std::byte> bounce(static_cast<std::size_t>(bounce_slots() * slot_bytes_));
  in_pieces(grid().tile_size(), bounce_slots(), [&](Index first, Index count) {
    gather(from, is_slot_order, tile, first, count, bounce.data());
    child.write_span(first, count, bounce.data());
  });
}

void TileStore::save(const Carrier& child, Carrier& to, bool is_slot_order, Index tile) const {
  if (const std::byte* slots = host_slots(child))
    return put(to, is_slot_order, tile, 0, grid().tile_size(), slots);
  std::vector<std::byte> bounce(static_cast<std::size_t>(bounce_slots() * slot_bytes_));
  in_pieces(grid().tile_size(), bounce_slots(), [&](Index first, Index count) {
    child.read_span(first, count, bounce.data());
    put(to, is_slot_order, tile, first, count, bounce.data());
  });
}

/// A tile that still lies in the primary seed.
void TileStore::save_seed(Index tile, Carrier& to, bool is_slot_order) const {
  std::vector<std::byte> bounce(static_cast<std::size_t>(bounce_slots() * slot_bytes_));
  in_pieces(grid().tile_size(), bounce_slots(), [&](Index first, Index count) {
    gather(*carrier_.primary(), true, tile, first, count, bounce.data());
    put(to, is_slot_order, tile, first, count, bounce.data());
  });
}

void TileStore::materialize(Index tile) {
  {
    const std::lock_guard lock(residency_mutex());
    if (!table_[tile].on_primary_seed) return;
  }
  const Ref<Carrier> child = make_child(*carrier_.primary(), true);
  load(*carrier_.primary(), true, tile, *child);
  Storage storage = make_ref<TileStorage>(child);
  const std::lock_guard lock(residency_mutex());
  Tile& entry = table_.edit(tile);
  if (!entry.on_primary_seed || entry.location != TileLocation::primary) return storage->retire();
  entry.primary = std::move(storage);
  entry.on_primary_seed = false;
}

// --- Construction

/// A tile beyond the budget, straight to secondary.
void TileStore::save_to_secondary(Index tile, const std::byte* values) {
  Tile& entry = table_.edit(tile);
  if (has_windows_) {
    put(backing(), false, tile, 0, grid().tile_size(), values);
  } else {
    const Ref<Carrier> child = make_child(*carrier_.secondary(), true);
    child->write_span(0, grid().tile_size(), values);
    entry.secondary = make_ref<TileStorage>(child);
  }
  set_location(entry, TileLocation::secondary);
  entry.on_primary_seed = false;
}

void TileStore::place_primary_seed() {
  const bool stays_in_place = carrier_.primary()->carrier_class().is_shipped();
  const Index fitting = std::min(table_.count(), capacity_.value_or(table_.count()));
  primary_count_ = table_.count();
  Garbage none;
  for (Index tile = 0; tile < fitting && !(stays_in_place && !capacity_); ++tile) {
    if (!stays_in_place) {
      const Ref<Carrier> child = make_child(*carrier_.primary(), true);
      load(*carrier_.primary(), true, tile, *child);
      table_.edit(tile).on_primary_seed = false;
      enter_primary(tile, make_ref<TileStorage>(child), false, false, none);
    } else {
      touch(tile);
    }
  }
  std::vector<std::byte> values;
  for (Index tile = fitting; tile < table_.count(); ++tile) {
    values.resize(static_cast<std::size_t>(tile_bytes_));
    gather(*carrier_.primary(), true, tile, 0, grid().tile_size(), values.data());
    save_to_secondary(tile, values.data());
  }
  used_ = fitting;
  note_peak();
}

void TileStore::place_secondary_seed() {
  for (Index tile = 0; tile < table_.count(); ++tile) {
    const Ref<Carrier> child = make_child(*carrier_.secondary(), true);
    load(*carrier_.secondary(), true, tile, *child);
    Tile& entry = table_.edit(tile);
    entry.secondary = make_ref<TileStorage>(child);
  }
}

void TileStore::place_values(const std::byte* slots) {
  std::vector<std::byte> values(static_cast<std::size_t>(tile_bytes_));
  const auto run_bytes = static_cast<std::size_t>(grid().run() * slot_bytes_);
  Garbage none;
  for (Index tile = 0; tile < table_.count(); ++tile) {
    std::byte* out = values.data();
    for (Index position = 0; position < grid().tile_size(); position += grid().run(), out += run_bytes)
      std::memcpy(out, slots + grid().slot({tile, position}) * slot_bytes_, run_bytes);
    if (std::ranges::all_of(values, [](std::byte byte) { return byte == std::byte{0}; })) continue;
    if (capacity_ && used_ >= *capacity_) {
      save_to_secondary(tile, values.data());
      continue;
    }
    const Ref<Carrier> child = make_child(*carrier_.primary(), true);
    child->write_span(0, grid().tile_size(), values.data());
    ++used_;
    enter_primary(tile, make_ref<TileStorage>(child), false, false, none);
  }
  note_peak();
}

// --- Elements

/// So many of the next slots lie side by side in a seed, in whatever tiles. With the lock held.
Index TileStore::seed_run(Index slot, Index count, bool TileFlags::*on_seed) const {
  constexpr Index most = Index{1} << 16;
  const TileLocation location = table_[grid().place(slot).tile].location;
  Index part = 0;
  while (part < std::min(count, most)) {
    const TileGrid::Place place = grid().place(slot + part);
    const Tile& entry = table_[place.tile];
    if (entry.location != location || !(entry.*on_seed)) break;
    part += grid().run() - place.position % grid().run();
  }
  return std::min(part, count);
}

void TileStore::read(Index slot, Index count, std::byte* out) {
  while (count > 0) {
    const TileGrid::Place place = grid().place(slot);
    Index part = std::min(count, grid().run() - place.position % grid().run());
    Storage storage;
    Carrier* from = nullptr;
    Index at = place.position;
    {
      const std::lock_guard lock(residency_mutex());
      check_open();
      const Tile& entry = table_[place.tile];
      if (entry.location == TileLocation::invalid)
        raise<RuntimeError>(what, "slot ", slot, " lies in tile ",
                            TileSet::from_numbers(grid().grid_shape(), {&place.tile, 1}),
                            ", which is invalid: it has no values yet");
      if (entry.location == TileLocation::primary) {
        storage = entry.primary;
        if (entry.on_primary_seed) {
          from = carrier_.primary().get();
          at = slot;
          part = seed_run(slot, count, &TileFlags::on_primary_seed);
        }
        if (entry.is_linked) touch(place.tile);
      } else if (entry.location == TileLocation::secondary) {
        storage = entry.secondary;
        if (!storage) {
          from = entry.on_secondary_seed ? carrier_.secondary().get() : backing_.get();
          at = entry.on_secondary_seed ? slot : place.tile * grid().tile_size() + place.position;
          if (entry.on_secondary_seed) part = seed_run(slot, count, &TileFlags::on_secondary_seed);
        }
      }
    }
    if (storage) from = &storage->carrier();
    if (from == nullptr)
      std::memset(out, 0, static_cast<std::size_t>(part * slot_bytes_));
    else
      from->read_span(at, part, out);
    slot += part;
    count -= part;
    out += part * slot_bytes_;
  }
}

void TileStore::write(TileGrid::Place place, Index count, const std::byte* in) {
  const Index tile = place.tile;
  const auto is_zero = [&] {
    return std::all_of(in, in + count * slot_bytes_, [](std::byte byte) { return byte == std::byte{0}; });
  };
  Garbage garbage;
  garbage.reserve(1);
  Storage storage;
  while (!storage) {
    bool on_seed = false;
    {
      const std::lock_guard lock(residency_mutex());
      check_open();
      const Tile& entry = table_[tile];
      const auto coordinate = [&] { return TileSet::from_numbers(grid().grid_shape(), {&tile, 1}); };
      if (entry.location == TileLocation::invalid)
        raise<RuntimeError>(what, "tile ", coordinate(),
                            " is invalid: it has no values yet, so none can be changed");
      if (entry.is_pending)
        raise<RuntimeError>(what, "tile ", coordinate(),
                            " is part of a pending residency request; wait for it");
      if (pinned_by_others(tile, entry, nullptr))
        raise<RuntimeError>(what, "tile ", coordinate(), " is pinned by unfinished work; wait for it");
      if (entry.location == TileLocation::implicit && is_zero()) return;
      on_seed = entry.on_primary_seed;
      prepare_hold(tile);
      if (entry.location == TileLocation::primary && !on_seed) {
        storage = entry.primary;
        hold(tile);
      }
    }
    if (storage) break;
    if (on_seed)
      materialize(tile);
    else
      promote({&tile, 1}, nullptr)->wait();
  }
  const auto let_go = [&](bool is_written) {
    const std::lock_guard lock(residency_mutex());
    if (is_written) {
      Tile& entry = table_.edit(tile);
      entry.is_dirty = true;
      entry.is_backed = false;
      if (entry.secondary) {
        entry.secondary->retire();
        garbage.push_back(std::move(entry.secondary));
      }
    }
    unhold(tile);
  };
  try {
    Carrier& child = storage->carrier();
    if (child.carrier_class().is_shipped()) {
      child.write_span(place.position, count, in);
    } else {
      const OwnerAccess access = storage->access();
      for (Index i = 0; i < count; ++i)
        child.store(place.position + i, decode_slot(carrier_.dtype(), in + i * slot_bytes_));
    }
  } catch (...) {
    let_go(false);
    throw;
  }
  let_go(true);
}

// --- Requests

bool TileStore::pinned_by_others(Index tile, const Tile& entry, const TileClaim* claim) const noexcept {
  Index pins = all_pins_ + Index{entry.pins};
  if (claim != nullptr && claim->contains(tile)) --pins;
  return pins > 0;
}

/// X51 up to the pins and validity.
void TileStore::check_request(std::span<const Index> tiles, bool evicts, const TileClaim* claim) const {
  const auto named = [&](Index tile) { return TileSet::from_numbers(grid().grid_shape(), {&tile, 1}); };
  if (pending_count_ != 0)
    for (const Index tile : tiles)
      if (table_[tile].is_pending)
        raise<RuntimeError>(what, "tile ", named(tile),
                            " is part of a pending residency request; wait for it");
  for (const Index tile : tiles) {
    const Tile& entry = table_[tile];
    const bool moves = entry.location == (evicts ? TileLocation::primary : TileLocation::secondary);
    if (moves && (pinned_by_others(tile, entry, claim) || (evicts && entry.holds != 0)))
      raise<RuntimeError>(what, "tile ", named(tile), " is pinned by unfinished work; wait for it");
    if (!evicts && entry.location == TileLocation::invalid)
      raise<RuntimeError>(what, "tile ", named(tile), " is invalid: it has no values to promote");
  }
}

void TileStore::check_routes(bool evicts) const {
  CarrierClass source = carrier_.primary()->carrier_class();
  CarrierClass destination = carrier_.secondary()->carrier_class();
  if (!evicts) std::swap(source, destination);
  const auto is_exact = [](CarrierClass carrier_class) {
    return route_policy(carrier_class) == RoutePolicy::exact;
  };
  if ((is_exact(source) || is_exact(destination)) && !has_move_operation(source, destination))
    raise<NotImplementedError>(what, "no move operation is registered for (", source, ", ", destination, ")");
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
  const auto moves = [&](Index tile) {
    const TileLocation location = table_[tile].location;
    return evicts ? location == TileLocation::primary : location != TileLocation::primary;
  };
  const auto needs_route = [&](Index tile) {
    const Tile& entry = table_[tile];
    return evicts ? moves(tile) && !is_current_copy(entry) : entry.location == TileLocation::secondary;
  };
  bool is_routed = false;
  {
    const std::lock_guard lock(residency_mutex());
    check_open();
    if (asked != Asked::ahead) check_request(tiles, evicts, claim);
    is_routed = std::ranges::any_of(tiles, needs_route);
  }
  const auto count = static_cast<Index>(tiles.size());
  if (!evicts && asked == Asked::explicitly && capacity_ && count > *capacity_)
    raise<ValueError>(what, count, " tiles of ", tile_bytes_,
                      " bytes exceed primary_budget_bytes=", *carrier_.primary_budget_bytes(),
                      "; promote fewer at once or raise the budget");
  if (is_routed) check_routes(evicts);
  made->set_.reserve(tiles.size());
  made->victims_.reserve(tiles.size());
  made->garbage_.reserve(tiles.size());
  {
    const std::lock_guard lock(residency_mutex());
    check_open();
    if (asked == Asked::ahead) {
      for (const Index tile : tiles)
        if (table_[tile].is_pending || table_[tile].location == TileLocation::invalid ||
            pinned_by_others(tile, table_[tile], claim))
          return {};
    } else {
      check_request(tiles, evicts, claim);
    }
    for (const Index tile : tiles)
      if (moves(tile)) made->set_.push_back({tile});
    if (!evicts) {
      if (!make_room_beside(tiles, claim, *made)) {
        made->set_.clear();
        if (asked == Asked::ahead) return {};
        raise<RuntimeError>(what, "pinned or pending tiles leave no room for ", count, " tiles of ",
                            tile_bytes_,
                            " bytes within primary_budget_bytes=", *carrier_.primary_budget_bytes(),
                            "; wait for the work that uses them");
      }
    }
    for (ResidencyRequest::Transfer& transfer : made->set_) {
      Tile& entry = table_.edit(transfer.tile);
      transfer.is_copy = needs_route(transfer.tile);
      transfer.source = evicts ? entry.primary : entry.secondary;
      mark_pending(transfer.tile);
    }
    ++requests_;
    made->is_ended_ = false;
  }
  made->start();
  return made;
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
  for (const Index tile : tiles) table_.edit(tile);  // what may fail, before anything has changed
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
    if (victims_.empty()) stage();
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

/// Takes part in the transfers of a request.
class TransferHelper final : public Task {
 public:
  explicit TransferHelper(const std::function<void()>& work) : work_(work) {}

 protected:
  void perform() override { work_(); }
  void abandon() noexcept override {}
  void forget() noexcept override {}

 private:
  const std::function<void()>& work_;  // of the request, which waits for this
};

}  // namespace

void ResidencyRequest::carry_out(std::vector<Transfer>& transfers, bool evicts) {
  if (!store().has_windows_) {
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
    return;
  }
  std::optional<BlockingScope> blocking;  // nothing below needs the interpreter
  if (carrier_->primary()->carrier_class().is_shipped()) blocking.emplace();
  constexpr Index worthwhile_bytes = Index{1} << 16;
  constexpr std::size_t most_helpers = 3;
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> has_failed = false;
  const std::function<void()> work = [&] {
    for (std::size_t i; !has_failed && (i = next.fetch_add(1)) < transfers.size();) {
      try {
        copy(transfers[i], evicts);
      } catch (...) {
        has_failed = true;
        throw;
      }
    }
  };
  std::vector<Ref<Task>> helpers;
  if (store().tile_bytes_ >= worthwhile_bytes && blocking)
    for (std::size_t i = 1; i < std::min(transfers.size(), most_helpers + 1); ++i) {
      helpers.push_back(make_ref<TransferHelper>(work));
      try {
        residency_pool().submit(helpers.back());
      } catch (...) {  // then fewer help
        helpers.pop_back();
        break;
      }
    }
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  for (const Ref<Task>& helper : helpers) {
    while (!helper->is_done()) {
      try {
        helper->wait_until_done();
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (!failure) failure = helper->failure();
  }
  if (failure) std::rethrow_exception(failure);
}

/// One tile from or to its window.
void ResidencyRequest::copy(Transfer& transfer, bool evicts) const {
  if (!transfer.is_copy) return;
  TileStore& tiles = store();
  const Index tile = transfer.tile;
  if (!evicts) {
    bool on_seed = false;
    {
      const std::lock_guard lock(residency_mutex());
      on_seed = tiles.table_[tile].on_secondary_seed;
    }
    const Carrier& from = on_seed ? *carrier_->secondary() : tiles.backing();
    const OwnerAccess access = transfer.destination->access();
    tiles.load(from, on_seed, tile, transfer.destination->carrier());
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
  tiles.settle();
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
  tiles.makes_backing_ = false;
  --tiles.requests_;
}

// --- Work

void TileStore::begin_work(const TileClaim& claim, const std::vector<Index>& readable, bool reads_all) {
  check_open();
  const auto named = [&](Index tile) { return TileSet::from_numbers(grid().grid_shape(), {&tile, 1}); };
  if (pending_count_ != 0) {
    if (claim.is_all)
      raise<RuntimeError>(what, pending_count_,
                          " tiles are part of a pending residency request; wait for it");
    for (const Index tile : claim.tiles)
      if (table_[tile].is_pending)
        raise<RuntimeError>(what, "tile ", named(tile),
                            " is part of a pending residency request; wait for it");
  }
  if (reads_all && invalid_count_ != 0)
    raise<RuntimeError>(what, invalid_count_, " of the tiles are invalid: they have no values yet");
  for (const Index tile : readable)
    if (table_[tile].location == TileLocation::invalid)
      raise<RuntimeError>(what, "tile ", named(tile), " is invalid: it has no values yet");
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
        raise<RuntimeError>(
            what,
            "an operation on this carrier runs on this thread already: its callbacks cannot start another");
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

Ref<Carrier> TileStore::child(Index tile) const {
  Storage storage;
  {
    const std::lock_guard lock(residency_mutex());
    storage = table_[tile].primary;
  }
  if (!storage) raise<RuntimeError>(what, "a tile is used that is not part of the current step");
  return storage->ref();
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

void TileStore::settle() noexcept {
  try {
    static_cast<void>(evict_deferred());
  } catch (...) {
    log(LogChannel::residency, what, ": tiles that a policy wanted evicted stay primary");
  }
}

// --- Tiles made one by one

/// Waits until one more tile has room.
void TileStore::make_room_now() {
  Ref<ResidencyRequest> room = make_ref<ResidencyRequest>(Ref<TiledEvictable>(&carrier_), false);
  room->victims_.reserve(1);
  room->garbage_.reserve(1);
  {
    const std::lock_guard lock(residency_mutex());
    check_open();
    if (!make_room(1, nullptr, *room))
      raise<RuntimeError>(what, "pinned or pending tiles leave no room for one more tile; wait for them");
    // The place is the caller's, not the request's.
    room->reserved_ = 0;
    ++requests_;
    room->is_ended_ = false;
  }
  std::exception_ptr failure;
  try {
    room->start();
    room->wait();
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(residency_mutex());
    --reserved_;
    if (!failure) ++used_;
    note_peak();
  }
  if (failure) std::rethrow_exception(failure);
}

Tensor TileStore::start_tile(Index tile) {
  make_room_now();
  try {
    Ref<Carrier> child = make_child(*carrier_.primary(), true);
    started_.emplace_back(tile, child);
    return Tensor::trusted(std::move(child), 0, grid().tile_layout());
  } catch (...) {
    const std::lock_guard lock(residency_mutex());
    --used_;
    throw;
  }
}

void TileStore::finish_tile(Index tile, bool is_dirty) {
  const auto found = std::ranges::find(started_, tile, &std::pair<Index, Ref<Carrier>>::first);
  Storage storage = make_ref<TileStorage>(std::move(found->second));
  started_.erase(found);
  Garbage none;
  const std::lock_guard lock(residency_mutex());
  enter_primary(tile, std::move(storage), is_dirty, false, none);
}

void TileStore::install_tile(Index tile, const Ref<Carrier>& storage, bool is_dirty) {
  if (storage->carrier_class() != carrier_.primary()->carrier_class() ||
      &storage->dtype() != &carrier_.dtype())
    raise<TypeError>(what, "the storage of a tile must be a ", carrier_.primary()->carrier_class(), " of ",
                     carrier_.dtype().name(), ": got a ", storage->carrier_class(), " of ",
                     storage->dtype().name());
  if (storage->size() != grid().tile_size())
    raise<ValueError>(what, "the storage of a tile must have ", grid().tile_size(), " slots: got ",
                      storage->size());
  make_room_now();
  started_.emplace_back(tile, storage);
  finish_tile(tile, is_dirty);
}

}  // namespace detail

}  // namespace orlop::inline v0
