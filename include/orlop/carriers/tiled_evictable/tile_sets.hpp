// Which tiles of a grid: ordered selections, sets, and what a residency policy answers (X47-X50, X56).
//
// All are immutable values. Coordinates are kept flat, one array per set, and shared by copies: a set of a
// million tiles is one allocation, and copying it copies a pointer.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/base/object.hpp"
#include "orlop/base/sequence.hpp"

namespace orlop::inline v0 {

namespace detail {
/// A coordinate as messages have it: "(1, 0)".
[[nodiscard]] std::string tuple_text(std::span<const Index> values);
}  // namespace detail

/// One coordinate per grid axis.
using TileCoordinate = std::vector<Index>;

/// A set of tiles in the order of their numbers (first axis fastest). The empty set fits any grid (X48).
///
///     TileSet{{0, 1}, {1, 0}, {0, 0}}.coordinates()   // (0,0), (1,0), (0,1)
class ORLOP_API TileSet {
 public:
  TileSet() noexcept = default;
  /// Any order. ValueError ‹non-negative›, ‹same rank›, ‹duplicate›.
  explicit TileSet(const std::vector<TileCoordinate>& coordinates);
  TileSet(std::initializer_list<TileCoordinate> coordinates)
      : TileSet(std::vector<TileCoordinate>(coordinates)) {}
  /// The same from one array, `rank` components per tile.
  [[nodiscard]] static TileSet from_components(std::size_t rank, std::vector<Index> components);
  /// The tiles with these numbers, which ascend within the grid; trusted.
  [[nodiscard]] static TileSet from_numbers(std::span<const Index> grid_shape,
                                            std::span<const Index> numbers);
  /// Every tile of the grid.
  [[nodiscard]] static TileSet all(Sequence<Index> grid_shape);

  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return set_ == nullptr; }
  /// Axes of the grid; 0 for the empty set.
  [[nodiscard]] std::size_t rank() const noexcept { return set_ == nullptr ? 0 : set_->rank; }
  /// The coordinate of the i-th tile.
  [[nodiscard]] std::span<const Index> operator[](std::size_t i) const noexcept;
  [[nodiscard]] std::vector<TileCoordinate> coordinates() const;
  [[nodiscard]] bool contains(Sequence<Index> coordinate) const noexcept;
  /// Whether some tile is in both.
  [[nodiscard]] bool intersects(const TileSet& other) const noexcept;

  /// ValueError ‹rank›, ‹outside … grid› unless every tile is one of the grid (X49).
  void require_grid(std::span<const Index> grid_shape) const;
  /// The first-axis-fastest numbers of the tiles in that grid, ascending; the checks of require_grid.
  [[nodiscard]] std::vector<Index> numbers(std::span<const Index> grid_shape) const;

  [[nodiscard]] std::size_t hash() const noexcept;
  [[nodiscard]] std::string to_string() const;
  ORLOP_API friend bool operator==(const TileSet& a, const TileSet& b) noexcept;

 private:
  struct Set {
    std::size_t rank;
    std::vector<Index> components;
  };
  TileSet(std::size_t rank, std::vector<Index> components);
  std::shared_ptr<const Set> set_;  // null: empty
};

/// The Cartesian product of chosen coordinates per axis, in the caller's order: which tiles to gather, and in
/// which arrangement (X47).
class ORLOP_API TileSelection {
 public:
  /// ValueError where there is no axis, an axis is empty, or has a negative or repeated coordinate.
  explicit TileSelection(std::vector<std::vector<Index>> per_axis);
  TileSelection(std::initializer_list<std::vector<Index>> per_axis)
      : TileSelection(std::vector<std::vector<Index>>(per_axis)) {}

  [[nodiscard]] const std::vector<std::vector<Index>>& per_axis() const noexcept { return *per_axis_; }
  [[nodiscard]] std::size_t rank() const noexcept { return per_axis_->size(); }
  /// How many tiles are chosen on each axis.
  [[nodiscard]] std::vector<Index> compact_grid_shape() const;
  /// Every chosen tile, axis 0 fastest, in the caller's order. MemoryError for more than memory can list.
  [[nodiscard]] std::vector<TileCoordinate> coordinates() const;
  [[nodiscard]] TileSet tile_set() const;
  void require_grid(std::span<const Index> grid_shape) const;

  /// ValueError where there is no axis or one of `counts` tiles chosen per axis is 0: the first checks.
  static void require_choices(std::span<const std::size_t> counts);

  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const TileSelection& a, const TileSelection& b) noexcept {
    return a.per_axis() == b.per_axis();
  }

 private:
  [[nodiscard]] std::vector<Index> components() const;
  std::shared_ptr<const std::vector<std::vector<Index>>> per_axis_;
};

/// What a policy wants of the tiles around one piece of work (X50, X56).
struct ORLOP_API ResidencyPlan {
  TileSet promote;  ///< primary before the work starts
  TileSet retain;   ///< not evicted while it runs
  TileSet evict;    ///< leave primary afterwards

  /// ValueError ‹must be disjoint› where a tile is in two of the sets.
  void validate() const;
  friend bool operator==(const ResidencyPlan&, const ResidencyPlan&) = default;
};

/// What a policy is asked for.
enum class Purpose { operation, projection, scatter, backward };
/// "operation", "projection", "scatter" or "backward".
[[nodiscard]] ORLOP_API std::string_view to_string(Purpose purpose) noexcept;

/// Decides about residency: asked once per piece of work and tiled carrier, before any transfer (X56). What
/// it throws ends the work.
struct ORLOP_API ResidencyPolicy {
  ResidencyPolicy() = default;
  ResidencyPolicy(const ResidencyPolicy&) = delete;
  ResidencyPolicy& operator=(const ResidencyPolicy&) = delete;
  virtual ~ResidencyPolicy();
  virtual ResidencyPlan plan(const TileSet& required, Purpose purpose) = 0;

  /// For a binding: reports what the policy holds, for the cycle collector.
  virtual void visit_references(ReferenceVisitor&) const {}
  /// For a binding that counts who holds the policy: the same one for one more carrier. Null: shared as it
  /// is.
  [[nodiscard]] virtual std::shared_ptr<ResidencyPolicy> held_again() const { return nullptr; }
};

}  // namespace orlop::inline v0
