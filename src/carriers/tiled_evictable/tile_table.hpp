// What is known about each tile of a carrier, and in which order tiles leave primary (X44, X103, X104).
//
// Everything here is guarded by residency_mutex(), one lock for all tiled carriers: it is held for a few
// loads and stores, never over I/O, a callback, or the last drop of a counted object.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"

namespace orlop::inline v0::detail {

[[nodiscard]] std::mutex& residency_mutex() noexcept;
/// Notified where a turn, a request or a backing ends.
[[nodiscard]] std::condition_variable& residency_changed() noexcept;

/// The storage of one tile: a carrier of the primary's or secondary's class, owned by the tiled carrier.
/// Shared by the table and whoever reads it at the moment; counted by us alone, so that copies need no
/// interpreter.
class TileStorage final : public Object {
 public:
  explicit TileStorage(Ref<Carrier> carrier);
  /// The same with a carrier that is ours already.
  TileStorage(Ref<Carrier> carrier, Carrier::OwnerToken token)
      : carrier_(std::move(carrier)), token_(token) {}
  ~TileStorage() override;

  [[nodiscard]] Carrier& carrier() const noexcept { return *carrier_; }
  [[nodiscard]] const Ref<Carrier>& ref() const noexcept { return carrier_; }
  [[nodiscard]] OwnerAccess access() const { return OwnerAccess(*carrier_, token_); }
  /// The carrier is to be released by whoever drops the storage last.
  void retire() noexcept { is_retired_ = true; }
  void visit_references(ReferenceVisitor& visitor) const override { visitor.visit(carrier_); }

 private:
  Ref<Carrier> carrier_;
  Carrier::OwnerToken token_;
  std::atomic<bool> is_retired_{false};
};

struct TileFlags {
  TileLocation location = TileLocation::invalid;
  bool is_dirty = false;           ///< primary, and written since it came there
  bool is_backed = false;          ///< primary, and the secondary copy is current (X103)
  bool is_pending = false;         ///< part of an unfinished request
  bool on_primary_seed = false;    ///< primary, still in the seed: it has no storage of its own
  bool on_secondary_seed = false;  ///< the secondary copy is a window on the seed, in slot order
  bool is_linked = false;          ///< in one of the two lists of victims
};

struct Tile : TileFlags {
  explicit Tile(const TileFlags& flags = {}) : TileFlags(flags) {}
  Ref<TileStorage> primary;
  Ref<TileStorage> secondary;  ///< only where the secondary class is not shipped
  std::uint32_t older = 0;     ///< neighbours in a list of victims: number + 1, 0 for none
  std::uint32_t newer = 0;
  std::uint32_t pins = 0;   ///< by work that names the tile (X55)
  std::uint32_t holds = 0;  ///< by steps, retained sets and element writes: nobody's victim
};

/// All tiles of one carrier, in pages that are made when a tile of theirs first changes.
class TileTable {
 public:
  static constexpr Index kMostTiles = (Index{1} << 32) - 2;

  /// ValueError for more than kMostTiles.
  TileTable(Index count, const TileFlags& initial);

  [[nodiscard]] Index count() const noexcept { return count_; }
  [[nodiscard]] const Tile& operator[](Index tile) const noexcept {
    const Page* page = pages_[static_cast<std::size_t>(tile / kPage)].get();
    return page == nullptr ? initial_ : (*page)[static_cast<std::size_t>(tile % kPage)];
  }
  Tile& edit(Index tile);

  /// All storage is to be released by its last holder.
  void retire_all() noexcept;
  void visit_references(ReferenceVisitor& visitor) const;

  // Victims: primary tiles that nobody holds and no request moves. Those whose secondary copy is current come
  // first, then the rest, each from the least to the most recently used.
  /// Makes the tile the most recently used one, and puts it where its flags say.
  void touch(Index tile);
  void unlink(Index tile) noexcept;
  /// Offers victims in their order until `take` says that it has enough.
  template <class Take>
  void offer_victims(Take take) const {
    for (const List& list : lists_)
      for (std::uint32_t next = list.oldest; next != 0; next = (*this)[Index{next} - 1].newer)
        if (take(Index{next} - 1, (*this)[Index{next} - 1])) return;
  }

 private:
  static constexpr Index kPage = 512;
  using Page = std::array<Tile, static_cast<std::size_t>(kPage)>;
  struct List {
    std::uint32_t oldest = 0;
    std::uint32_t newest = 0;
  };

  Index count_;
  Tile initial_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::array<List, 2> lists_;  // backed, others
};

}  // namespace orlop::inline v0::detail
