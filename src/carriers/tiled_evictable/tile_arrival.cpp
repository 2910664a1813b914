// The pieces of a tile on its way: who brings which, and who waits.
#include "carriers/tiled_evictable/tile_arrival.hpp"

#include <algorithm>
#include <utility>

namespace orlop::inline v0::detail {

TileArrival::TileArrival(const std::byte* slots, Index bytes, Load load)
    : slots_(slots),
      bytes_(bytes),
      load_(std::move(load)),
      pieces_(static_cast<std::size_t>((bytes - 1) / kPieceBytes + 1)) {}

/// While another thread brings a piece, this one brings a later one.
void TileArrival::require(const std::byte* first, const std::byte* last) {
  const auto end = static_cast<std::size_t>((last - slots_ - 1) / kPieceBytes);
  for (auto piece = static_cast<std::size_t>((first - slots_) / kPieceBytes); piece <= end; ++piece)
    while (pieces_[piece].load(std::memory_order_acquire) != Piece::here)
      if (!bring(piece) && !bring_one_from(piece + 1))
        pieces_[piece].wait(Piece::coming, std::memory_order_acquire);
}

void TileArrival::require_all() { require(slots_, slots_ + bytes_); }

/// Brings the piece unless somebody else does. One that could not be brought is absent again: whoever needs
/// it tries anew.
bool TileArrival::bring(std::size_t piece) {
  std::atomic<Piece>& state = pieces_[piece];
  Piece expected = Piece::absent;
  if (!state.compare_exchange_strong(expected, Piece::coming, std::memory_order_acq_rel)) return false;
  const auto end = [&state](Piece result) {
    state.store(result, std::memory_order_release);
    state.notify_all();
  };
  const Index first = static_cast<Index>(piece) * kPieceBytes;
  try {
    load_(first, std::min(kPieceBytes, bytes_ - first));
  } catch (...) {
    end(Piece::absent);
    throw;
  }
  end(Piece::here);
  return true;
}

bool TileArrival::bring_one_from(std::size_t piece) {
  for (; piece < pieces_.size(); ++piece)
    if (pieces_[piece].load(std::memory_order_relaxed) == Piece::absent && bring(piece)) return true;
  return false;
}

}  // namespace orlop::inline v0::detail
