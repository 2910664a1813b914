// TiledEvictable: one tensor cut into tiles, each in a primary tier, in a secondary tier, or nowhere yet
// (X40-X56, X64, X100-X105, X111, X113, X115).
//
// Who owns the bytes: the carrier owns both tiers from construction to release, and every tile's storage.
// Primary tiles are carriers of the primary's class, one each. On a shipped secondary class all tiles are
// windows of one carrier: the seed itself where it came full, else a backing made at the first eviction;
// otherwise one carrier per tile. Atomic: a request commits all its tiles or none; until the commit the old
// storage holds every value. A write-back of a window is not atomic: the tile stays primary until it is
// whole. Durable: what the tiers make durable; a crash leaves at most what the secondary's own clean-up
// removes. Residency is no mutation: the version stays. A fork's child may read; what the parent was moving
// stays where it was.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orlop/carriers/tiled_evictable/tile_grid.hpp"
#include "orlop/carriers/tiled_evictable/tile_sets.hpp"
#include "orlop/extension/facet.hpp"
#include "orlop/movement/await.hpp"
#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0 {

class TiledEvictable;

namespace detail {
class TileStore;
}

struct TiledOptions {
  std::vector<Index> grid_shape;
  std::vector<Index> tile_shape;
  std::shared_ptr<ResidencyPolicy> residency_policy = nullptr;
  std::optional<std::int64_t> primary_budget_bytes = std::nullopt;  ///< absent: unlimited (X100)
};

enum class TileLocation : std::uint8_t { primary, secondary, implicit, invalid };
/// "primary", "secondary", "implicit" or "invalid".
[[nodiscard]] ORLOP_API std::string_view to_string(TileLocation location) noexcept;

/// Where one tile is (X44).
struct TileState {
  TileLocation location = TileLocation::invalid;
  bool valid = false;  ///< not invalid
  bool dirty = false;  ///< primary, and written since it came there
  friend bool operator==(const TileState&, const TileState&) = default;
};

namespace streaming {
/// What moved, and what was found primary, since construction or the last reset (X115).
struct ResidencyStats {
  std::int64_t promotions = 0;          ///< tiles that entered primary
  std::int64_t evictions = 0;           ///< tiles that left it
  std::int64_t bytes_read = 0;          ///< secondary to primary
  std::int64_t bytes_written = 0;       ///< primary to secondary
  std::int64_t hits = 0;                ///< per step and distinct tile: already primary
  std::int64_t misses = 0;              ///< or promoted for it
  std::int64_t peak_primary_bytes = 0;  ///< maximum of primary_bytes()
  friend bool operator==(const ResidencyStats&, const ResidencyStats&) = default;
};
}  // namespace streaming

/// The background work of one residency request (X51-X53).
class ORLOP_API ResidencyTask : public ResultTask<bool> {
 public:
  ~ResidencyTask() override;
};

/// The handle of a residency request; `wait()` returns once it has ended, or throws what it failed with.
class ORLOP_API AwaitResidency {
 public:
  explicit AwaitResidency(Ref<ResidencyTask> task) noexcept : task_(std::move(task)) {}
  [[nodiscard]] bool done() const noexcept { return task_->is_done(); }
  void wait() const { task_->wait(); }
  [[nodiscard]] const Ref<ResidencyTask>& task() const noexcept { return task_; }

 private:
  Ref<ResidencyTask> task_;
};

/// Residency as a facet of the class (X51): `carrier.require_facet<TiledResidencyFacet>().promote(carrier,
/// tiles)`. RuntimeError ‹released›; ValueError for tiles off the grid; RuntimeError ‹pending›, ‹pinned›,
/// ‹invalid›, ‹wait›; ValueError beyond the budget; NotImplementedError where the tiers' classes have no
/// route. What fails after the first submission is in the handle.
class ORLOP_API TiledResidencyFacet final : public CarrierFacet {
 public:
  ~TiledResidencyFacet() override;
  AwaitResidency promote_async(TiledEvictable& carrier, const TileSet& tiles) const;
  AwaitResidency evict_async(TiledEvictable& carrier, const TileSet& tiles) const;
  void promote(TiledEvictable& carrier, const TileSet& tiles) const { promote_async(carrier, tiles).wait(); }
  void evict(TiledEvictable& carrier, const TileSet& tiles) const { evict_async(carrier, tiles).wait(); }
};

/// `TiledEvictable::make(primary, secondary, {.grid_shape = {2, 3}, .tile_shape = {2, 2}})`
class ORLOP_API TiledEvictable final : public DependentCarrier {
 public:
  /// Takes ownership of two tiers; the checks and their order are those of X40, and on failure both are left
  /// unowned.
  [[nodiscard]] static Ref<TiledEvictable> make(const Ref<Carrier>& primary, const Ref<Carrier>& secondary,
                                                const TiledOptions& options);
  ~TiledEvictable() override;
  /// Steps 1 to 4 and step 7 of X40 alone, for a binding that has other checks between them.
  static void check_tiers(const Ref<Carrier>& primary, const Ref<Carrier>& secondary);
  static void check_sizes(const Carrier& primary, const Carrier& secondary, const TileGrid& grid);

  [[nodiscard]] const Ref<Carrier>& primary() const noexcept { return primary_; }
  [[nodiscard]] const Ref<Carrier>& secondary() const noexcept { return secondary_; }
  [[nodiscard]] const TileGrid& grid() const noexcept { return grid_; }
  [[nodiscard]] const std::shared_ptr<ResidencyPolicy>& residency_policy() const noexcept { return policy_; }
  [[nodiscard]] std::optional<std::int64_t> primary_budget_bytes() const noexcept { return budget_; }
  /// B of X100.
  [[nodiscard]] Index tile_bytes() const noexcept;
  /// P of X101.
  [[nodiscard]] Index primary_bytes() const;

  // --- Residency; defined in residency.cpp -------------------------------------------------------------
  /// ValueError ‹rank›, ‹outside … grid› for a coordinate that is not the grid's.
  [[nodiscard]] TileState tile_state(Sequence<Index> coordinate) const;
  [[nodiscard]] TileState tile_state(Index tile) const;
  // Each is one consistent snapshot; a released carrier has none but invalid tiles.
  [[nodiscard]] TileSet primary_tiles() const;
  [[nodiscard]] TileSet secondary_tiles() const;
  [[nodiscard]] TileSet valid_tiles() const;
  [[nodiscard]] TileSet dirty_tiles() const;

  /// All tiles at one moment for the eye, one symbol each, first axis fastest: # primary, * dirty, .
  /// secondary, ~ part of an unfinished request, 0 implicit, - invalid.
  [[nodiscard]] std::string tile_symbols() const;

  // As the facet's.
  AwaitResidency promote_async(const TileSet& tiles);
  AwaitResidency evict_async(const TileSet& tiles);
  void promote(const TileSet& tiles) { promote_async(tiles).wait(); }
  void evict(const TileSet& tiles) { evict_async(tiles).wait(); }
  /// Requests that have not ended.
  [[nodiscard]] Index pending_requests() const;

  [[nodiscard]] streaming::ResidencyStats residency_stats() const;
  /// Zero again; the peak restarts at what is primary now.
  void reset_residency_stats();

  // --- Carrier -----------------------------------------------------------------------------------------
  [[nodiscard]] Index size() const override { return is_released() ? 0 : grid_.size(); }
  [[nodiscard]] const DType& dtype() const override { return *dtype_; }
  [[nodiscard]] Scalar get_value(Index index) const override;
  void set_value(Index index, const Scalar& value) override;
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values,
                                      const NewLikeOptions& options = {}) const override;
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options = {}) const override;
  void read_span(Index first, Index count, void* out) const override;
  void write_span(Index first, Index count, const void* in) override;
  [[nodiscard]] bool holes_are_zero() const noexcept override { return true; }
  [[nodiscard]] std::string_view residency() const noexcept override { return "tiled"; }
  /// Tiles that are implicit in both stay implicit; no policy is asked. What nobody else has is itself the
  /// sum of one.
  [[nodiscard]] Ref<Carrier> sum_gradients(const Tensor& first, const Tensor* second) const override;
  void visit_references(ReferenceVisitor& visitor) const override;

  // --- For work over tiles: projection, scatter, direct operations, gradients ------------------------------
  /// The checks of X43 in its order: ValueError, of `what`; RuntimeError ‹released›. The tensor lives here.
  void check_tensor(std::string_view what, const Tensor& tensor) const;
  /// A fresh carrier of this geometry, tiers, policy and budget: every tile implicit zero, or every tile
  /// invalid. Works after release.
  [[nodiscard]] Ref<TiledEvictable> make_like(bool is_implicit, const DType& dtype,
                                              bool is_mutable = true) const;
  [[nodiscard]] Ref<TiledEvictable> make_like(bool is_implicit) const {
    return make_like(is_implicit, *dtype_);
  }
  /// An empty carrier of the primary's class, for its factories; works after release.
  [[nodiscard]] const Carrier& primary_prototype() const noexcept { return *primary_; }

  /// Fills a carrier that nobody else has yet, tile by tile, in any order (X102). Makes room for one tile
  /// under the budget (tiles that came earlier are written back), and returns fresh storage for it,
  /// uninitialized, as a Tensor of tile_layout() whose slots may be written until finish_tile.
  [[nodiscard]] Tensor start_tile(Index tile);
  /// The tile is primary and valid from here on; `is_dirty` as for tile_state.
  void finish_tile(Index tile, bool is_dirty);
  /// The same with storage that exists: an unowned carrier of exactly the primary's class and dtype with
  /// tile_size() slots, which this one takes over.
  void install_tile(Index tile, const Ref<Carrier>& storage, bool is_dirty);
  /// One version step, for who has written tiles.
  void advance() noexcept { advance_version(); }
  /// Creation order: the order in which several carriers are acquired (X113).
  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }

  [[nodiscard]] detail::TileStore& tile_store() const noexcept { return *store_; }

 protected:
  [[nodiscard]] bool intrinsic_mutable() const override { return is_mutable_; }
  [[nodiscard]] bool stores(const DType& dtype) const override;
  void on_release() override;

 private:
  struct Parts;
  explicit TiledEvictable(Parts parts);
  template <class T, class... Args>
  friend Ref<T> make_ref(Args&&... args);
  void give_tiers_back() noexcept;

  Ref<Carrier> primary_;
  Ref<Carrier> secondary_;
  OwnerToken primary_token_ = 0;
  OwnerToken secondary_token_ = 0;
  TileGrid grid_;
  const DType* dtype_;
  bool is_mutable_;
  std::shared_ptr<ResidencyPolicy> policy_;
  std::optional<std::int64_t> budget_;
  std::uint64_t serial_;
  std::unique_ptr<detail::TileStore> store_;
};

}  // namespace orlop::inline v0
