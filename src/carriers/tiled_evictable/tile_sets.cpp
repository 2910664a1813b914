// Tile sets and selections: flat arrays in the order of tile numbers.
#include "orlop/carriers/tiled_evictable/tile_sets.hpp"

#include <algorithm>
#include <numeric>

namespace orlop::inline v0 {

std::string detail::tuple_text(std::span<const Index> values) {
  std::string out = "(";
  std::string_view separator;
  for (const Index value : values) {
    out += text(separator, value);
    separator = ", ";
  }
  return out + (values.size() == 1 ? ",)" : ")");
}

namespace {

using detail::tuple_text;
using Coordinate = std::span<const Index>;

/// The order of tile numbers: the last axis decides first.
bool precedes(Coordinate a, Coordinate b) noexcept {
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

bool is_same(Coordinate a, Coordinate b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

Coordinate at(const std::vector<Index>& components, std::size_t rank, std::size_t i) noexcept {
  return Coordinate(components).subspan(i * rank, rank);
}

void require_non_negative(std::string_view what, Coordinate components) {
  for (const Index component : components)
    if (component < 0)
      raise<ValueError>(what, "tile coordinates must be non-negative integers: got ", component,
                        "; the first tile of an axis is 0");
}

/// The tiles sorted, or as they are where they ascend already.
std::vector<Index> sorted(std::size_t rank, std::vector<Index> components) {
  const std::size_t count = components.size() / rank;
  const auto ascends = [&] {
    for (std::size_t i = 1; i < count; ++i)
      if (!precedes(at(components, rank, i - 1), at(components, rank, i))) return false;
    return true;
  };
  if (ascends()) return components;
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return precedes(at(components, rank, a), at(components, rank, b));
  });
  std::vector<Index> result;
  result.reserve(components.size());
  for (const std::size_t i : order) {
    const Coordinate tile = at(components, rank, i);
    if (!result.empty() && is_same(at(result, rank, result.size() / rank - 1), tile))
      raise<ValueError>("TileSet", "duplicate tile coordinates: ", tuple_text(tile), "; list each tile once");
    result.insert(result.end(), tile.begin(), tile.end());
  }
  return result;
}

void require_rank(std::string_view what, std::size_t rank, Coordinate grid_shape) {
  if (rank != grid_shape.size())
    raise<ValueError>(what, "the rank ", rank, " of the tile coordinates is not that of the grid ",
                      tuple_text(grid_shape), "; give one coordinate per grid axis");
}

void require_inside(std::string_view what, Index component, std::size_t axis, Coordinate grid_shape) {
  if (component >= grid_shape[axis])
    raise<ValueError>(what, "tile coordinate ", component, " on axis ", axis, " is outside the grid ",
                      tuple_text(grid_shape), "; use 0 to ", grid_shape[axis] - 1);
}

}  // namespace

// --- TileSet ----------------------------------------------------------------------------------------------

TileSet::TileSet(std::size_t rank, std::vector<Index> components) {
  if (!components.empty()) set_ = std::make_shared<const Set>(rank, std::move(components));
}

TileSet::TileSet(const std::vector<TileCoordinate>& coordinates) {
  if (coordinates.empty()) return;
  const std::size_t rank = coordinates.front().size();
  std::vector<Index> components;
  components.reserve(rank * coordinates.size());
  for (const TileCoordinate& coordinate : coordinates) {
    require_non_negative("TileSet", coordinate);
    if (coordinate.size() != rank)
      raise<ValueError>("TileSet", "all coordinates must have the same rank: got ",
                        tuple_text(coordinates.front()), " and ", tuple_text(coordinate));
    components.insert(components.end(), coordinate.begin(), coordinate.end());
  }
  *this = from_components(rank, std::move(components));
}

TileSet TileSet::from_components(std::size_t rank, std::vector<Index> components) {
  if (rank == 0)
    raise<ValueError>("TileSet", "coordinates must have at least one component each; give one per grid axis");
  if (components.size() % rank != 0)
    raise<ValueError>("TileSet", "all coordinates must have the same rank: ", components.size(),
                      " components do not make tiles of rank ", rank);
  require_non_negative("TileSet", components);
  return {rank, sorted(rank, std::move(components))};
}

TileSet TileSet::from_numbers(Coordinate grid_shape, std::span<const Index> numbers) {
  std::vector<Index> components;
  components.reserve(grid_shape.size() * numbers.size());
  for (Index number : numbers)
    for (const Index extent : grid_shape) {
      components.push_back(number % extent);
      number /= extent;
    }
  return {grid_shape.size(), std::move(components)};
}

TileSet TileSet::all(Sequence<Index> grid_shape) {
  std::vector<std::vector<Index>> per_axis;
  for (const Index extent : grid_shape) {
    std::vector<Index>& axis = per_axis.emplace_back(static_cast<std::size_t>(extent));
    std::iota(axis.begin(), axis.end(), Index{0});
  }
  return TileSelection(std::move(per_axis)).tile_set();
}

std::size_t TileSet::size() const noexcept { return rank() == 0 ? 0 : set_->components.size() / rank(); }

Coordinate TileSet::operator[](std::size_t i) const noexcept { return at(set_->components, set_->rank, i); }

std::vector<TileCoordinate> TileSet::coordinates() const {
  std::vector<TileCoordinate> result;
  result.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) result.emplace_back((*this)[i].begin(), (*this)[i].end());
  return result;
}

bool TileSet::contains(Sequence<Index> coordinate) const noexcept {
  if (coordinate.size() != rank()) return false;
  std::size_t first = 0;
  std::size_t last = size();
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (precedes((*this)[middle], coordinate))
      first = middle + 1;
    else
      last = middle;
  }
  return first < size() && is_same((*this)[first], coordinate);
}

bool TileSet::intersects(const TileSet& other) const noexcept {
  if (rank() != other.rank()) return false;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < size() && j < other.size()) {
    if (is_same((*this)[i], other[j])) return true;
    if (precedes((*this)[i], other[j]))
      ++i;
    else
      ++j;
  }
  return false;
}

void TileSet::require_grid(Coordinate grid_shape) const {
  if (empty()) return;
  require_rank("TileSet", rank(), grid_shape);
  for (std::size_t i = 0; i < set_->components.size(); ++i)
    require_inside("TileSet", set_->components[i], i % rank(), grid_shape);
}

std::vector<Index> TileSet::numbers(Coordinate grid_shape) const {
  require_grid(grid_shape);
  std::vector<Index> result;
  result.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) {
    const Coordinate tile = (*this)[i];
    Index number = 0;
    for (std::size_t axis = rank(); axis-- > 0;) number = number * grid_shape[axis] + tile[axis];
    result.push_back(number);
  }
  return result;
}

std::size_t TileSet::hash() const noexcept {
  std::size_t result = rank();
  if (!empty())
    for (const Index component : set_->components)
      result = (result ^ static_cast<std::size_t>(component)) * std::size_t{0x100000001b3};
  return result;
}

std::string TileSet::to_string() const {
  std::string out = "TileSet(coordinates=(";
  for (std::size_t i = 0; i < size(); ++i) out += text(i == 0 ? "" : ", ", tuple_text((*this)[i]));
  return out + (size() == 1 ? ",))" : "))");
}

bool operator==(const TileSet& a, const TileSet& b) noexcept {
  if (a.set_ == b.set_) return true;
  return a.rank() == b.rank() && a.size() == b.size() && a.set_->components == b.set_->components;
}

// --- TileSelection ----------------------------------------------------------------------------------------

void TileSelection::require_choices(std::span<const std::size_t> counts) {
  constexpr std::string_view what = "TileSelection";
  if (counts.empty()) raise<ValueError>(what, "per_axis must have at least one axis: got none");
  for (std::size_t axis = 0; axis < counts.size(); ++axis)
    if (counts[axis] == 0)
      raise<ValueError>(what, "per_axis[", axis, "] must choose at least one tile: got none");
}

TileSelection::TileSelection(std::vector<std::vector<Index>> per_axis) {
  constexpr std::string_view what = "TileSelection";
  std::vector<std::size_t> counts;
  counts.reserve(per_axis.size());
  for (const std::vector<Index>& axis : per_axis) counts.push_back(axis.size());
  require_choices(counts);
  for (const std::vector<Index>& axis : per_axis) require_non_negative(what, axis);
  for (std::size_t axis = 0; axis < per_axis.size(); ++axis) {
    std::vector<Index> ascending = per_axis[axis];
    std::sort(ascending.begin(), ascending.end());
    const auto repeated = std::adjacent_find(ascending.begin(), ascending.end());
    if (repeated != ascending.end())
      raise<ValueError>(what, "per_axis[", axis, "] has a duplicate coordinate: ", *repeated,
                        "; choose each tile of an axis once");
  }
  per_axis_ = std::make_shared<const std::vector<std::vector<Index>>>(std::move(per_axis));
}

std::vector<Index> TileSelection::compact_grid_shape() const {
  std::vector<Index> result;
  for (const std::vector<Index>& axis : per_axis()) result.push_back(static_cast<Index>(axis.size()));
  return result;
}

std::vector<Index> TileSelection::components() const {
  constexpr std::size_t limit = std::size_t{1} << 48;  // components; more than any memory holds
  std::size_t total = rank();
  for (const std::vector<Index>& axis : per_axis())
    if (__builtin_mul_overflow(total, axis.size(), &total) || total > limit)
      raise<MemoryError>("TileSelection",
                         "the selection has too many tiles to list: ", tuple_text(compact_grid_shape()),
                         "; choose fewer");
  std::vector<Index> result;
  result.reserve(total);
  std::vector<std::size_t> digits(rank());
  while (result.size() < total) {
    for (std::size_t axis = 0; axis < rank(); ++axis) result.push_back(per_axis()[axis][digits[axis]]);
    for (std::size_t axis = 0; axis < rank(); ++axis) {
      if (++digits[axis] < per_axis()[axis].size()) break;
      digits[axis] = 0;
    }
  }
  return result;
}

std::vector<TileCoordinate> TileSelection::coordinates() const {
  const std::vector<Index> flat = components();
  std::vector<TileCoordinate> result;
  result.reserve(flat.size() / rank());
  for (std::size_t i = 0; i < flat.size() / rank(); ++i) {
    const Coordinate tile = at(flat, rank(), i);
    result.emplace_back(tile.begin(), tile.end());
  }
  return result;
}

TileSet TileSelection::tile_set() const { return TileSet::from_components(rank(), components()); }

void TileSelection::require_grid(Coordinate grid_shape) const {
  require_rank("TileSelection", rank(), grid_shape);
  for (std::size_t axis = 0; axis < rank(); ++axis)
    for (const Index component : per_axis()[axis])
      require_inside("TileSelection", component, axis, grid_shape);
}

std::string TileSelection::to_string() const {
  std::string out = "TileSelection(per_axis=(";
  for (std::size_t axis = 0; axis < rank(); ++axis)
    out += text(axis == 0 ? "" : ", ", tuple_text(per_axis()[axis]));
  return out + (rank() == 1 ? ",))" : "))");
}

// --- Plans ------------------------------------------------------------------------------------------------

void ResidencyPlan::validate() const {
  if (promote.intersects(retain) || promote.intersects(evict) || retain.intersects(evict))
    raise<ValueError>("ResidencyPlan",
                      "promote, retain and evict must be disjoint: a tile is in two of them; a promoted tile "
                      "stays, so name it once");
}

std::string_view to_string(Purpose purpose) noexcept {
  switch (purpose) {
    case Purpose::operation:
      return "operation";
    case Purpose::projection:
      return "projection";
    case Purpose::scatter:
      return "scatter";
    case Purpose::backward:
      break;
  }
  return "backward";
}

ResidencyPolicy::~ResidencyPolicy() = default;

}  // namespace orlop::inline v0
