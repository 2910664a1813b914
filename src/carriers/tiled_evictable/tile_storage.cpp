// The storage of tiles: children of the tiers, windows on a shipped secondary, seeds, tiles made one by one.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "carriers/tiled_evictable/tile_store.hpp"
#include "orlop/base/blocking.hpp"

namespace orlop::inline v0::detail {

namespace {
constexpr std::string_view what = "TiledEvictable";
constexpr Index kBounceBytes = Index{8} << 20;
// A call on a file costs as much as so many bytes that are moved along; to write they are read first.
constexpr Index kCloseToRead = 8192;
constexpr Index kCloseToWrite = 4096;
}  // namespace

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

TileStore::BackingWindow TileStore::window(Index tile) {
  bool on_seed = false;
  {
    const std::lock_guard lock(residency_mutex());
    on_seed = table_[tile].on_secondary_seed;
  }
  return {on_seed ? carrier_.secondary().get() : &backing(), on_seed};
}

/// For a tile that can be read as it comes; otherwise null.
std::shared_ptr<TileArrival> TileStore::make_arrival(Index tile, const Ref<TileStorage>& storage) {
  std::byte* const slots = host_slots(storage->carrier());
  if (!has_windows_ || slots == nullptr || tile_bytes_ < TileArrival::kLeastBytes) return nullptr;
  const auto load = [this, tile, slots, storage](Index first, Index count) {
    const auto [from, is_slot_order] = window(tile);
    gather(*from, is_slot_order, tile, first / slot_bytes_, count / slot_bytes_, slots + first);
  };
  return std::make_shared<TileArrival>(slots, tile_bytes_, load);
}

std::byte* TileStore::host_slots(const Carrier& carrier) const noexcept {
  return carrier.carrier_class().is_shipped() ? carrier.host_data() : nullptr;
}

Index TileStore::bounce_slots() const noexcept {
  return std::min(grid().tile_size(), std::max<Index>(1, kBounceBytes / slot_bytes_));
}

/// Calls `each(slot, runs)` for the runs of some positions of a tile, of which the first and the last may be
/// parts: for one, or for a row of them, at steps of run_step(), that `joins` allows to be moved at once with
/// what lies between.
template <class Each>
void TileStore::for_each_run(Index tile, Index first, Index count, bool joins, Each each) const {
  while (count > 0) {
    const Index within = first % grid().run();
    Index runs = 1;
    if (joins && within == 0) {
      const Index left = grid().runs_in_row() - first / grid().run() % grid().runs_in_row();
      runs = std::min({left, count / grid().run(), bounce_slots() / grid().run_step()});
    }
    const Index part = runs > 1 ? runs * grid().run() : std::min(count, grid().run() - within);
    each(grid().slot({tile, first}), std::max<Index>(runs, 1), part);
    first += part;
    count -= part;
  }
}

/// Whether the runs of a tile in `file` lie at most so many bytes apart.
bool TileStore::has_close_runs(const Carrier& file, Index bytes) const noexcept {
  return grid().runs_in_row() > 1 && grid().run_step() * slot_bytes_ <= bytes && file.host_data() == nullptr;
}

/// The slots from the first of a row of runs to its last, and where each run lies in them.
struct TileStore::Row {
  Row(const TileStore& store, const Carrier& carrier, Index slot, Index runs, std::vector<std::byte>& bytes)
      : run_bytes(static_cast<std::size_t>(store.grid().run() * store.slot_bytes_)),
        step_bytes(static_cast<std::size_t>(store.grid().run_step() * store.slot_bytes_)),
        slots((runs - 1) * store.grid().run_step() + store.grid().run()) {
    bytes.resize(static_cast<std::size_t>(slots * store.slot_bytes_));
    carrier.read_span(slot, slots, bytes.data());
  }
  std::size_t run_bytes;
  std::size_t step_bytes;
  Index slots;
};

/// Positions `first` to `first + count` of a tile, out of all tiles one after another or out of slot order.
void TileStore::gather(const Carrier& from, bool is_slot_order, Index tile, Index first, Index count,
                       std::byte* out) const {
  if (!is_slot_order) return from.read_span(tile * grid().tile_size() + first, count, out);
  std::vector<std::byte> bytes;
  for_each_run(
      tile, first, count, has_close_runs(from, kCloseToRead), [&](Index slot, Index runs, Index part) {
        if (runs == 1) {
          from.read_span(slot, part, out);
        } else {
          const Row row(*this, from, slot, runs, bytes);
          for (std::size_t run = 0; run < static_cast<std::size_t>(runs); ++run)
            std::memcpy(out + run * row.run_bytes, bytes.data() + run * row.step_bytes, row.run_bytes);
        }
        out += part * slot_bytes_;
      });
}

/// While it lives, no other thread writes rows of runs: what lies between them is other tiles'.
class TileStore::RowWriter {
 public:
  explicit RowWriter(bool& is_writing) : is_writing_(is_writing) {
    std::unique_lock lock(residency_mutex());
    residency_changed().wait(lock, [this] { return !is_writing_; });
    is_writing_ = true;
  }
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;
  ~RowWriter() {
    const std::lock_guard lock(residency_mutex());
    is_writing_ = false;
    residency_changed().notify_all();
  }

 private:
  bool& is_writing_;
};

/// The same into there.
void TileStore::put(Carrier& to, bool is_slot_order, Index tile, Index first, Index count,
                    const std::byte* in) const {
  if (!is_slot_order) return to.write_span(tile * grid().tile_size() + first, count, in);
  const bool joins = has_close_runs(to, kCloseToWrite);
  std::optional<RowWriter> alone;
  if (joins) alone.emplace(writes_rows_);
  std::vector<std::byte> bytes;
  for_each_run(tile, first, count, joins, [&](Index slot, Index runs, Index part) {
    if (runs == 1) {
      to.write_span(slot, part, in);
    } else {
      const Row row(*this, to, slot, runs, bytes);
      for (std::size_t run = 0; run < static_cast<std::size_t>(runs); ++run)
        std::memcpy(bytes.data() + run * row.step_bytes, in + run * row.run_bytes, row.run_bytes);
      to.write_span(slot, row.slots, bytes.data());
    }
    in += part * slot_bytes_;
  });
}

namespace {

/// Calls `move(first, count)` for the positions of a tile, at most `most` at once.
template <class Move>
void in_pieces(Index tile_size, Index most, Move move) {
  for (Index first = 0; first < tile_size; first += most) move(first, std::min(most, tile_size - first));
}

}  // namespace

/// How many tiles, from a multiple of that number on, have their runs side by side in `file`, where one call
/// for all of them costs less than one for each; otherwise 1.
Index TileStore::tiles_abreast(const Carrier& file) const noexcept {
  const bool are_short = grid().runs_in_row() > 1 && grid().run() * slot_bytes_ <= kCloseToRead;
  return are_short && file.host_data() == nullptr ? grid().run_step() / grid().run() : 1;
}

/// Tiles that are abreast, from number `first` on, out of slot order or into it: run beside run, so that
/// nothing of other tiles lies between.
void TileStore::move_abreast(std::span<std::byte* const> tiles, Index first, Carrier& file,
                             bool reads) const {
  const Index run = grid().run();
  const auto count = static_cast<Index>(tiles.size());
  const Index width = std::clamp<Index>(bounce_slots() / run, 1, count);  // tiles at once
  const Index height =
      std::clamp<Index>(bounce_slots() / run / count, 1, grid().runs_in_row());  // their runs
  const auto run_bytes = static_cast<std::size_t>(run * slot_bytes_);
  std::vector<std::byte> bounce(static_cast<std::size_t>(width * height) * run_bytes);
  for (Index position = 0; position < grid().tile_size();) {
    const Index left = grid().runs_in_row() - position / run % grid().runs_in_row();
    const Index runs = std::min(height, left);
    for (Index tile = 0; tile < count; tile += width) {
      const Index end = std::min(tile + width, count);
      const Index slot = grid().slot({first + tile, position});
      const Index slots = (end - tile) * runs * run;
      if (reads) file.read_span(slot, slots, bounce.data());
      std::byte* part = bounce.data();
      for (Index above = 0; above < runs; ++above)
        for (Index each = tile; each < end; ++each, part += run_bytes) {
          std::byte* const own =
              tiles[static_cast<std::size_t>(each)] + (position + above * run) * slot_bytes_;
          std::memcpy(reads ? own : part, reads ? part : own, run_bytes);
        }
      if (!reads) file.write_span(slot, slots, bounce.data());
    }
    position += runs * run;
  }
}

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

void TileStore::begin_secondary(Index tile, Storage storage) {
  Tile& entry = table_.edit(tile);
  entry.secondary = std::move(storage);
  set_location(entry, TileLocation::secondary);
  entry.on_primary_seed = false;
}

/// A seed of a shipped class is left where it is: each tile takes storage of its own when it is used.
void TileStore::place_primary_seed() {
  const Carrier& seed = *carrier_.primary();
  const bool stays_in_place = seed.carrier_class().is_shipped();
  const Index fitting = std::min(table_.count(), capacity_.value_or(table_.count()));
  primary_count_ = table_.count();
  Garbage none;
  for (Index tile = 0; tile < fitting && !stays_in_place; ++tile) {
    const Ref<Carrier> child = make_child(seed, true);
    load(seed, true, tile, *child);
    table_.edit(tile).on_primary_seed = false;
    enter_primary(tile, make_ref<TileStorage>(child), false, false, none);
  }
  if (stays_in_place && capacity_)
    for (Index tile = 0; tile < fitting; ++tile) touch(tile);
  for (Index tile = fitting; tile < table_.count(); ++tile) {
    Storage storage;
    if (has_windows_) {
      save_seed(tile, backing(), false);
    } else {
      const Ref<Carrier> child = make_child(*carrier_.secondary(), true);
      load(seed, true, tile, *child);
      storage = make_ref<TileStorage>(child);
    }
    begin_secondary(tile, std::move(storage));
  }
  used_ = fitting;
  note_peak();
}

void TileStore::place_secondary_seed() {
  for (Index tile = 0; tile < table_.count(); ++tile) {
    const Ref<Carrier> child = make_child(*carrier_.secondary(), true);
    load(*carrier_.secondary(), true, tile, *child);
    begin_secondary(tile, make_ref<TileStorage>(child));
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
    const bool fits = !capacity_ || used_ < *capacity_;
    Storage storage;
    if (!fits && has_windows_) {
      put(backing(), false, tile, 0, grid().tile_size(), values.data());
    } else {
      const Ref<Carrier> child = make_child(fits ? *carrier_.primary() : *carrier_.secondary(), true);
      child->write_span(0, grid().tile_size(), values.data());
      storage = make_ref<TileStorage>(child);
    }
    if (!fits) {
      begin_secondary(tile, std::move(storage));
    } else {
      ++used_;
      enter_primary(tile, std::move(storage), false, false, none);
    }
  }
  note_peak();
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

}  // namespace orlop::inline v0::detail
