// A tile on its way to primary, piece by piece: a kernel need not wait for the last one, and computes on
// what has just come while it is in the caches.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "operation/arrival.hpp"
#include "orlop/base/message.hpp"

namespace orlop::inline v0::detail {

class TileArrival final : public Arrival {
 public:
  /// Bytes `first` to `first + count` of the tile, to be brought into its storage.
  using Load = std::function<void(Index first, Index count)>;
  /// Tiles of fewer bytes come in one piece.
  static constexpr Index kLeastBytes = Index{1} << 20;

  /// `slots`: the storage, of `bytes` bytes, which `load` keeps alive.
  TileArrival(const std::byte* slots, Index bytes, Load load);

  void require(const std::byte* first, const std::byte* last) override;
  void require_all() override;
  /// Brings a piece that nobody has begun; false where there is none.
  bool bring_one() { return bring_one_from(0); }

 private:
  enum class Piece : std::uint32_t { absent, coming, here };
  static constexpr Index kPieceBytes = Index{1} << 19;  // half of a usual second-level cache

  bool bring(std::size_t piece);
  bool bring_one_from(std::size_t piece);

  const std::byte* slots_;
  Index bytes_;
  Load load_;
  std::vector<std::atomic<Piece>> pieces_;
};

}  // namespace orlop::inline v0::detail
