// TileWork: one piece of work over tiled carriers: a projection, a scatter, a direct operation, a backward.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "operation/arrival.hpp"
#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"

namespace orlop::inline v0 {

/// Asks the policies, pins the tiles against others, takes turns on budgeted carriers, brings tiles in and
/// lets them go within the budget, and counts (X55, X56, X62, X104, X106, X109, X111, X113, X115).
///
///     TileWork work({{x, std::nullopt, 1}}, Purpose::operation);
///     for (step…) { work.enter_step({{{0, step}}}, {{{0, step + 1}}}); use(work.tile({0, step})); }
///     work.finish();
///
/// May be made on one thread and used on another, by one at a time; with Purpose::operation or backward it
/// belongs to its thread. Destroyed: lets everything go.
class ORLOP_API TileWork {
 public:
  struct Source {
    Ref<TiledEvictable> carrier;
    /// What the policy is told and what is pinned; absent: every tile.
    std::optional<TileSet> required;
    /// Tiles of this carrier that one step needs at most (X106).
    Index minimum_tiles = 1;
    /// Whether values of the required tiles are needed: then none of them may be invalid.
    bool is_read = true;
    /// Whether steps are to bring the required tiles in: then no other work may be about to.
    bool has_steps = true;
  };
  struct TileRef {
    std::size_t source;  ///< index of the Source as given
    Index tile;          ///< number in the grid
    friend bool operator==(const TileRef&, const TileRef&) = default;
  };

  /// Sources in operand order; where a carrier comes twice both mean the same tiles, their required sets are
  /// joined and the greater minimum counts. Per distinct carrier, all before any transfer: RuntimeError
  /// ‹released›; ValueError for a budget below the minimum; RuntimeError ‹invalid›, ‹wait›; its turn;
  /// the policy's call and the checks of its plan.
  TileWork(std::vector<Source> sources, Purpose purpose);
  TileWork(const TileWork&) = delete;
  TileWork& operator=(const TileWork&) = delete;
  ~TileWork();

  /// Makes `tiles` primary, at first also what the plans promote beyond the required tiles, and returns when
  /// they are; counts hits and misses; lets go of the former step's.
  /// Missing tiles of `next` are submitted, if both steps fit together (X109).
  void enter_step(std::span<const TileRef> tiles, std::span<const TileRef> next);
  /// The same in two parts: between them tiles may still be on their way.
  void begin_step(std::span<const TileRef> tiles, std::span<const TileRef> next);
  void complete_step();
  /// What a tile of the step that has begun can be read through; null where it is primary.
  [[nodiscard]] std::shared_ptr<Arrival> arrival(TileRef ref) const;
  /// A tile of the current step on the primary's class, dense, of the tile's shape. Valid until the next
  /// enter_step; not to be written.
  [[nodiscard]] Tensor tile(TileRef ref) const;
  /// Whether the tile is primary now, so that entering a step with it waits for nothing.
  [[nodiscard]] bool is_primary(TileRef ref) const;
  [[nodiscard]] bool is_implicit(TileRef ref) const;

  /// What the policy of a source's carrier answered; empty without one.
  [[nodiscard]] const ResidencyPlan& plan(std::size_t source) const;

  /// Ends the work: what the plans say leaves primary, now or when others let it. Throws what that fails
  /// with; the destructor does the same and keeps silent.
  void finish();
  /// In a fork's child, for work that only the parent goes on with: stores to memory only.
  void forget() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orlop::inline v0
