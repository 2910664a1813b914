// TileStore: the tiles of one carrier, their storage, and the requests that move them between the tiers.
//
// Protocol. A request marks its tiles pending, stages every transfer, and commits all of them under the lock;
// until then the old storage is whole and readable. Room for a promotion is reserved when the request is
// made: `used_` counts tiles with primary storage, also that of promotions in flight, and never passes the
// capacity.
#pragma once

#include <exception>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "carriers/tiled_evictable/tile_arrival.hpp"
#include "carriers/tiled_evictable/tile_table.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/profiler.hpp"

namespace orlop::inline v0::detail {

/// The tiles that one piece of work has pinned.
struct TileClaim {
  bool is_all = false;
  std::vector<Index> tiles;  ///< ascending; where it is not all
  [[nodiscard]] bool contains(Index tile) const noexcept;
};

class ResidencyRequest;

class TileStore {
 public:
  /// The tiles of `carrier`, whose tiers are already set, all in one state. `evicts_to_seed`: evicted tiles
  /// go back to where the full secondary seed has their slots.
  TileStore(TiledEvictable& carrier, const TileFlags& initial, bool evicts_to_seed);
  TileStore(const TileStore&) = delete;
  TileStore& operator=(const TileStore&) = delete;
  ~TileStore();

  // --- Construction; nobody else has the carrier yet. Bytes are those of one tile, in its own order.
  // ---------
  /// A full primary seed, in place or tile by tile as its class has it; beyond the budget to secondary
  /// (X102).
  void place_primary_seed();
  /// A full secondary seed of a class that is not shipped: one child per tile.
  void place_secondary_seed();
  /// Every slot of the carrier, in slot order.
  void place_values(const std::byte* slots);
  /// Where a full secondary seed lies unused, it becomes the place of evicted tiles.
  void use_seed_as_backing() { backing_ = carrier_.secondary(); }

  // --- Elements -------------------------------------------------------------------------------------------
  void read(Index slot, Index count, std::byte* out);
  /// Slots of one tile, in the tile's order.
  void write(TileGrid::Place place, Index count, const std::byte* in);

  // --- State ----------------------------------------------------------------------------------------------
  [[nodiscard]] TileState state(Index tile) const;
  [[nodiscard]] TileSet tiles_where(bool (*accepts)(const Tile&)) const;
  [[nodiscard]] std::string symbols() const;
  [[nodiscard]] streaming::ResidencyStats stats() const;
  void reset_stats();
  [[nodiscard]] Index primary_bytes() const;
  [[nodiscard]] Index pending_requests() const;
  /// No request, work or element write can begin any more. RuntimeError ‹wait› while one is unfinished.
  void close();
  void reopen();
  void drop_tiles();
  void visit_references(ReferenceVisitor& visitor) const;

  // --- Requests -------------------------------------------------------------------------------------------
  /// X51 for the public, `claim` null, or for a piece of work that holds its tiles.
  [[nodiscard]] Ref<ResidencyRequest> promote(std::span<const Index> tiles, const TileClaim* claim);
  [[nodiscard]] Ref<ResidencyRequest> evict(std::span<const Index> tiles, const TileClaim* claim);
  /// The same for work that looks ahead: null where pins or pending tiles leave no room now.
  [[nodiscard]] Ref<ResidencyRequest> try_promote(std::span<const Index> tiles, const TileClaim* claim);
  /// Storage of its own for a primary tile that still lies in the seed.
  void materialize(Index tile);

  // --- Results and gradients made tile by tile (X102)
  // -------------------------------------------------------
  [[nodiscard]] Tensor start_tile(Index tile);
  void finish_tile(Index tile, bool is_dirty);
  void install_tile(Index tile, const Ref<Carrier>& storage, bool is_dirty);

  // --- Work; everything with the lock held unless it says otherwise
  // ------------------------------------------
  /// RuntimeError ‹invalid› where any tile is.
  void require_valid() const;
  /// RuntimeError ‹wait› where a tile is pending, ‹invalid›, ‹released›; also where steps are to bring a tile
  /// in that other work has pinned. Otherwise all are pinned.
  void begin_work(const TileClaim& claim, const std::vector<Index>& readable, bool reads_all, bool has_steps);
  void end_work(const TileClaim& claim) noexcept;
  /// What hold() needs memory for.
  void prepare_hold(Index tile) { table_.edit(tile); }
  void hold(Index tile) noexcept;
  void unhold(Index tile) noexcept;
  [[nodiscard]] const Tile& at(Index tile) const noexcept { return table_[tile]; }
  void count_hits(std::int64_t hits, std::int64_t misses) noexcept;
  /// Without the lock: waits for the turn. RuntimeError for who holds it already.
  void take_turn(const void* holder);
  void give_turn(const void* holder) noexcept;
  /// Without the lock: evicts what plans wanted to leave and could not before. `waits`: to the end, so that
  /// who comes next finds nothing pending; not for a thread of the pool.
  void settle(bool waits) noexcept;
  /// Without the lock: these leave primary, now or as soon as nobody else has anything to do with them.
  void let_leave(const std::vector<Index>& tiles);
  /// Without the lock: what tile() needs of a primary tile that is held.
  void make_readable(Index tile) {
    if (!reads_seed_) materialize(tile);
  }
  /// Without the lock: a tile that was made readable, in its dense layout.
  [[nodiscard]] Tensor tile(Index tile) const;

  /// Tiles that the budget admits; nothing: any number.
  [[nodiscard]] std::optional<Index> capacity() const noexcept { return capacity_; }
  [[nodiscard]] const TileGrid& grid() const noexcept { return carrier_.grid(); }
  [[nodiscard]] TiledEvictable& carrier() const noexcept { return carrier_; }

 private:
  friend class ResidencyRequest;
  using Storage = Ref<TileStorage>;
  using Garbage = std::vector<Storage>;
  enum class Asked : std::uint8_t { explicitly, by_work, ahead };
  /// Slots that can be read at once.
  struct Piece {
    const Carrier* from;
    Storage held;  ///< keeps `from` while it is read, where it may go meanwhile
    Index first;
    Index count;
  };

  [[nodiscard]] Ref<ResidencyRequest> evict_deferred();
  [[nodiscard]] Ref<ResidencyRequest> request(std::span<const Index> tiles, bool evicts,
                                              const TileClaim* claim, Asked asked);
  // With the lock held.
  void check_open() const;
  void check_valid() const;
  [[noreturn]] void refuse_pending(Index tile) const;
  [[noreturn]] void refuse_pinned(Index tile) const;
  [[noreturn]] void refuse_invalid(Index tile) const;
  void require_unpinned(const std::vector<Index>& readable, bool reads_all) const;
  void check_request(std::span<const Index> tiles, bool evicts, const TileClaim* claim) const;
  void check_routes(bool evicts) const;  // without the lock
  [[nodiscard]] bool pinned_by_others(Index tile, const Tile& entry, const TileClaim* claim) const noexcept;
  [[nodiscard]] bool make_room_beside(std::span<const Index> tiles, const TileClaim* claim,
                                      ResidencyRequest& request);
  [[nodiscard]] Index seed_run(Index slot, Index count, bool TileFlags::* on_seed) const;
  [[nodiscard]] bool make_room(Index tiles, const TileClaim* claim, ResidencyRequest& request);
  void touch(Index tile) {
    if (capacity_) table_.touch(tile);
  }
  [[nodiscard]] bool admits(std::span<const Index> tiles, const TileClaim* claim) const noexcept;
  [[nodiscard]] bool needs_copy(Index tile, bool evicts) const noexcept;
  [[nodiscard]] bool enlist(std::span<const Index> tiles, const TileClaim* claim, ResidencyRequest& request);
  void mark_pending(Index tile);
  void unmark_pending(Index tile) noexcept;
  void drop_copy(Tile& entry, Garbage& garbage) noexcept;
  void set_location(Tile& entry, TileLocation location) noexcept;
  void note_peak() noexcept;
  void leave_primary(Index tile, Garbage& garbage);
  void enter_primary(Index tile, Storage storage, bool is_dirty, bool is_backed, Garbage& garbage);

  // Storage and transfers, without the lock.
  [[nodiscard]] Piece find_piece(Index slot, Index count);
  [[nodiscard]] Storage hold_for_write(Index tile, bool writes_zeros);
  void end_write(Index tile, bool is_written, Garbage& garbage) noexcept;
  [[nodiscard]] Ref<Carrier> make_child(const Carrier& like, bool is_empty) const;
  [[nodiscard]] Carrier& backing();
  /// Where a tile lies on a shipped secondary.
  struct BackingWindow {
    const Carrier* from;
    bool is_slot_order;
  };
  [[nodiscard]] BackingWindow window(Index tile);
  void gather(const Carrier& from, bool is_slot_order, Index tile, Index first, Index count,
              std::byte* out) const;
  void put(Carrier& to, bool is_slot_order, Index tile, Index first, Index count, const std::byte* in) const;
  struct Row;
  class RowWriter;
  [[nodiscard]] bool has_close_runs(const Carrier& file, Index bytes) const noexcept;
  template <class Each>
  void for_each_run(Index tile, Index first, Index count, bool joins, Each each) const;
  [[nodiscard]] std::byte* host_slots(const Carrier& carrier) const noexcept;
  [[nodiscard]] std::shared_ptr<TileArrival> make_arrival(Index tile, const Ref<TileStorage>& storage);
  [[nodiscard]] Index bounce_slots() const noexcept;
  void load(const Carrier& from, bool is_slot_order, Index tile, Carrier& child) const;
  void save(const Carrier& child, Carrier& to, bool is_slot_order, Index tile) const;
  [[nodiscard]] Index tiles_abreast(const Carrier& file) const noexcept;
  void move_abreast(std::span<std::byte* const> tiles, Index first, Carrier& file, bool reads) const;
  void save_seed(Index tile, Carrier& to, bool is_slot_order) const;
  void begin_secondary(Index tile, Storage storage);
  void make_room_now();

  TiledEvictable& carrier_;
  const Index slot_bytes_;
  const Index tile_bytes_;
  const bool has_windows_;     // the secondary class is shipped
  const bool evicts_to_seed_;  // in slot order, where the seed's values lie
  const bool reads_seed_;      // of the primary, in which a tile's slots lie side by side
  std::optional<Index> capacity_;

  // Guarded by residency_mutex().
  TileTable table_;
  Index primary_count_ = 0;
  Index invalid_count_ = 0;
  Index pending_count_ = 0;
  Index used_ = 0;
  Index reserved_ = 0;  // promised to requests, not yet storage
  Index leaving_ = 0;   // of used_: on its way out, for the promises
  Index requests_ = 0;
  Index works_ = 0;
  Index all_pins_ = 0;
  bool is_closed_ = false;
  bool makes_backing_ = false;
  mutable bool writes_rows_ = false;
  Ref<Carrier> backing_;  // set once
  Carrier::OwnerToken backing_token_ = 0;
  streaming::ResidencyStats stats_;
  std::vector<Index> deferred_;
  const void* turn_ = nullptr;
  std::thread::id turn_thread_;
  int turn_process_ = 0;
  std::vector<std::pair<Index, Ref<Carrier>>> started_;  // by start_tile
};

/// Moves tiles between the tiers, all of them or none.
class ResidencyRequest final : public ResidencyTask {
 public:
  ResidencyRequest(Ref<TiledEvictable> carrier, bool evicts);
  ~ResidencyRequest() override;
  /// What can fail before the first submission; then runs, here or on the pool.
  void start();

  /// A tile that can be read as it comes, before it is primary.
  struct Arriving {
    Index tile;
    Ref<TileStorage> storage;
    std::shared_ptr<TileArrival> arrival;
  };
  /// All tiles of a request by a piece of work, large ones on shipped tiers; otherwise none. For the thread
  /// that made the request, until it forgets them.
  [[nodiscard]] std::span<const Arriving> arriving() const noexcept { return arriving_; }
  void forget_arriving() noexcept { arriving_.clear(); }

 protected:
  void perform() override;
  void abandon() noexcept override;
  void forget() noexcept override;

 private:
  friend class TileStore;
  struct Transfer {
    Index tile;
    Ref<TileStorage> source{};
    Ref<TileStorage> destination{};
    Ref<MoveOperation> operation{};
    std::function<void()> finish{};
    std::shared_ptr<TileArrival> arrival{};
    bool is_copy = true;  ///< values move; false: zeros, or a current secondary copy
  };

  [[nodiscard]] TileStore& store() const noexcept { return carrier_->tile_store(); }
  void drop_garbage();
  void open_spans();
  void stage();
  void offer_arriving();
  void evict_victims();
  void prepare(std::vector<Transfer>& transfers, bool evicts);
  void start_all(std::vector<Transfer>& transfers);
  void finish_all(std::vector<Transfer>& transfers);
  void carry_out(std::vector<Transfer>& transfers, bool evicts);
  [[nodiscard]] std::vector<std::span<Transfer>> abreast(std::span<Transfer> transfers, bool evicts) const;
  [[nodiscard]] std::byte* slots_abreast(const Transfer& transfer, bool evicts) const;
  void copy(std::span<Transfer> transfers, bool evicts) const;
  void copy(Transfer& transfer, bool evicts) const;
  void commit(std::vector<Transfer>& transfers, bool evicts);
  void end(bool succeeded) noexcept;

  Ref<TiledEvictable> carrier_;
  const bool evicts_;
  bool is_by_work_ = false;
  bool is_staged_ = false;
  bool is_ended_ = true;  // until it is counted
  std::vector<Transfer> set_;
  std::vector<Arriving> arriving_;
  std::vector<Transfer> victims_;          // written back first
  std::vector<Ref<TileStorage>> garbage_;  // clean victims: gone already, storage not yet given back
  Index dropped_ = 0;                      // clean victims whose room is not free yet
  Index reserved_ = 0;                     // promised, not yet storage
  Index arrived_ = 0;                      // storage that is not yet committed
  Index leaving_ = 0;                      // victims that still count as used
  std::exception_ptr failure_;             // of a transfer that could not start after others had
  std::optional<ResidencySpan> span_;      // of the set, and of the victims, where a profiler is active
  std::optional<ResidencySpan> victim_span_;
};

}  // namespace orlop::inline v0::detail
