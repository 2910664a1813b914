// Element and span access, wherever the tiles are (X45).
#include <algorithm>
#include <cstring>

#include "carriers/tiled_evictable/tile_store.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0::detail {

/// So many of the next slots lie side by side in a seed, in whatever tiles. With the lock held.
Index TileStore::seed_run(Index slot, Index count, bool TileFlags::* on_seed) const {
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

/// Where slots from `slot` on can be read in one piece of at most `count`. Nothing to read from: zeros.
TileStore::Piece TileStore::find_piece(Index slot, Index count) {
  const TileGrid::Place place = grid().place(slot);
  const Index run = std::min(count, grid().run() - place.position % grid().run());
  const std::lock_guard lock(residency_mutex());
  check_open();
  const Tile& entry = table_[place.tile];
  if (entry.is_linked) touch(place.tile);
  switch (entry.location) {
    case TileLocation::invalid:
      refuse_invalid(place.tile);
    case TileLocation::implicit:
      return {nullptr, {}, 0, run};
    case TileLocation::primary:
      if (entry.on_primary_seed)
        return {carrier_.primary().get(), {}, slot, seed_run(slot, count, &TileFlags::on_primary_seed)};
      return {&entry.primary->carrier(), entry.primary, place.position, run};
    case TileLocation::secondary:
      break;
  }
  if (entry.secondary) return {&entry.secondary->carrier(), entry.secondary, place.position, run};
  if (entry.on_secondary_seed)
    return {carrier_.secondary().get(), {}, slot, seed_run(slot, count, &TileFlags::on_secondary_seed)};
  return {backing_.get(), {}, place.tile * grid().tile_size() + place.position, run};
}

void TileStore::read(Index slot, Index count, std::byte* out) {
  while (count > 0) {
    const Piece piece = find_piece(slot, count);
    const Index bytes = piece.count * slot_bytes_;
    if (piece.from == nullptr)
      std::memset(out, 0, static_cast<std::size_t>(bytes));
    else
      piece.from->read_span(piece.first, piece.count, out);
    slot += piece.count;
    count -= piece.count;
    out += bytes;
  }
}

/// The storage of a tile that is to be written, held; null for an implicit tile that stays as it is.
TileStore::Storage TileStore::hold_for_write(Index tile, bool writes_zeros) {
  while (true) {
    bool on_seed = false;
    {
      const std::lock_guard lock(residency_mutex());
      check_open();
      const Tile& entry = table_.edit(tile);  // what hold() needs memory for
      if (entry.location == TileLocation::invalid) refuse_invalid(tile);
      if (entry.is_pending) refuse_pending(tile);
      if (pinned_by_others(tile, entry, nullptr)) refuse_pinned(tile);
      if (entry.location == TileLocation::implicit && writes_zeros) return {};
      on_seed = entry.on_primary_seed;
      if (entry.location == TileLocation::primary && !on_seed) {
        hold(tile);
        return entry.primary;
      }
    }
    if (on_seed)
      materialize(tile);
    else
      promote({&tile, 1}, nullptr)->wait();
  }
}

void TileStore::end_write(Index tile, bool is_written, Garbage& garbage) noexcept {
  const std::lock_guard lock(residency_mutex());
  if (is_written) {
    Tile& entry = table_.edit(tile);
    entry.is_dirty = true;
    drop_copy(entry, garbage);
  }
  unhold(tile);
}

void TileStore::write(TileGrid::Place place, Index count, const std::byte* in) {
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  Garbage garbage;
  garbage.reserve(1);
  const Storage storage = hold_for_write(place.tile, std::all_of(in, in + count * slot_bytes_, is_zero));
  if (!storage) return;
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
    end_write(place.tile, false, garbage);
    throw;
  }
  end_write(place.tile, true, garbage);
}

}  // namespace orlop::inline v0::detail
