// The Python faces of TileSelection, TileSet and ResidencyPlan (X47-X50).
#include <new>

#include "plans.hpp"
#include "record.hpp"
#include "tiled_evictable.hpp"

namespace orlop::bindings {

namespace {

/// The items of each item of `values`, every iterable walked once; `name` is what messages call `values`.
std::vector<nb::tuple> to_nested(nb::handle values, std::string_view what, std::string_view name) {
  std::vector<nb::tuple> result;
  for (const nb::handle items : to_finite_tuple(values, what, name))
    result.push_back(to_finite_tuple(items, what, text(name, '[', result.size(), ']')));
  return result;
}

Index to_component(nb::handle value, std::string_view what, std::string_view noun) {
  if (!PyLong_CheckExact(value.ptr()))
    raise<TypeError>(what, noun, " must be integers: got ", python_type_name(value));
  if (const auto component = detail::index_protocol(value, what, noun, false)) return *component;
  raise<ValueError>(what, noun, " must be non-negative integers below 2**63: got ", to_text(nb::repr(value)));
}

void append_components(std::vector<Index>& out, const nb::tuple& items, std::string_view what,
                       std::string_view noun) {
  for (const nb::handle item : items) out.push_back(to_component(item, what, noun));
}

void construct_selection(TileSelection* self, nb::handle per_axis) {
  constexpr std::string_view what = "TileSelection";
  const std::vector<nb::tuple> axes = to_nested(per_axis, what, "per_axis");
  std::vector<std::vector<Index>> chosen(axes.size());
  std::vector<std::size_t> counts;
  for (const nb::tuple& axis : axes) counts.push_back(axis.size());
  TileSelection::require_choices(counts);
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    append_components(chosen[axis], axes[axis], what, "tile coordinates");
  new (self) TileSelection(std::move(chosen));
}

TileSet make_tile_set(nb::handle coordinates) {
  constexpr std::string_view what = "TileSet";
  const std::vector<nb::tuple> tiles = to_nested(coordinates, what, "coordinates");
  if (tiles.empty()) return {};
  const std::size_t rank = tiles.front().size();
  std::vector<Index> components;
  components.reserve(tiles.size() * rank);
  bool is_ragged = false;
  for (const nb::tuple& tile : tiles) {
    append_components(components, tile, what, "coordinate components");
    is_ragged = is_ragged || tile.size() != rank;
  }
  if (is_ragged) {  // rare: the constructor over coordinates says which one
    std::vector<TileCoordinate> ragged;
    for (const nb::tuple& tile : tiles) append_components(ragged.emplace_back(), tile, what, "");
    static_cast<void>(TileSet(ragged));
  }
  return TileSet::from_components(rank, std::move(components));
}

nb::tuple from_tiles(const TileSet& tiles) {
  nb::list result;
  for (std::size_t i = 0; i < tiles.size(); ++i) result.append(from_indices(tiles[i]));
  return nb::tuple(result);
}

nb::tuple from_nested(const std::vector<std::vector<Index>>& values) {
  return tuple_of(values, from_indices);
}

std::vector<Index> to_grid(nb::handle grid, std::string_view what) {
  std::vector<Index> result;
  for (const nb::handle extent : to_finite_tuple(grid, what, "grid"))
    result.push_back(to_exact_int<ValueError>(extent, what, "the grid's extents"));
  return result;
}

bool contains(const TileSet& tiles, nb::handle coordinate) {
  if (!PyTuple_Check(coordinate.ptr())) return false;
  std::vector<Index> components;
  for (const nb::handle component : nb::borrow<nb::tuple>(coordinate)) {
    if (!PyLong_CheckExact(component.ptr())) return false;
    const auto value = detail::index_protocol(component, "TileSet", "a component", false);
    if (!value) return false;
    components.push_back(*value);
  }
  return tiles.contains(components);
}

void bind_selection(nb::module_& module) {
  nb::class_<TileSelection> type(
      module, "TileSelection", nb::is_final(),
      "TileSelection(per_axis)\n\n"
      "The Cartesian product of chosen tile coordinates per grid axis, in the order given: which tiles a\n"
      "projection gathers, and in which arrangement (X47).\n\n"
      ">>> TileSelection([[1, 0], [2]]).coordinates\n"
      "((1, 2), (0, 2))\n\n"
      "Errors: TypeError for what is no iterable of iterables of int; ValueError where an axis chooses no "
      "tile, a\nnegative one, or one twice.");
  type.def("__init__", &construct_selection, "per_axis"_a.none())
      .def_prop_ro(
          "per_axis", [](const TileSelection& self) { return from_nested(self.per_axis()); },
          "The chosen coordinates of each axis.")
      .def_prop_ro("rank", &TileSelection::rank, "The number of grid axes.")
      .def_prop_ro(
          "compact_grid_shape",
          [](const TileSelection& self) { return from_indices(self.compact_grid_shape()); },
          "How many tiles are chosen on each axis.")
      .def_prop_ro(
          "coordinates", [](const TileSelection& self) { return from_nested(self.coordinates()); },
          "Every chosen tile, axis 0 fastest, in the order given.")
      .def_prop_ro("tile_set", &TileSelection::tile_set, "The chosen tiles as a TileSet.")
      .def(
          "_validate_grid_shape",
          [](const TileSelection& self, nb::handle grid) {
            self.require_grid(to_grid(grid, "TileSelection"));
          },
          "grid"_a.none(), "ValueError unless every tile lies in the grid (X49).");
  make_record(type, tiled_home, {"per_axis"});
}

void bind_tile_set(nb::module_& module) {
  nb::class_<TileSet> type(
      module, "TileSet", nb::is_final(),
      "TileSet(coordinates=())\n\n"
      "A set of tiles, kept in the order of their numbers: sorted by the reversed coordinate (X48). The "
      "empty "
      "set\nfits any grid.\n\n"
      ">>> TileSet([(0, 1), (1, 0), (0, 0)]).coordinates\n"
      "((0, 0), (1, 0), (0, 1))\n\n"
      "Errors: TypeError for what is no iterable of iterables of int; ValueError for negative, repeated or\n"
      "ragged coordinates.");
  type.def(
          "__init__",
          [](TileSet* self, nb::handle coordinates) { new (self) TileSet(make_tile_set(coordinates)); },
          "coordinates"_a.none() = nb::make_tuple())
      .def_prop_ro("coordinates", &from_tiles, "One tuple per tile, in the order of the tiles' numbers.")
      .def("__len__", &TileSet::size)
      .def("__iter__", [](const TileSet& self) { return nb::iter(from_tiles(self)); })
      .def("__contains__", &contains, "coordinate"_a.none())
      .def(
          "_validate_grid_shape",
          [](const TileSet& self, nb::handle grid) { self.require_grid(to_grid(grid, "TileSet")); },
          "grid"_a.none(), "ValueError unless every tile lies in the grid (X49).")
      // Found before those of the record: a large set is compared without a Python object per tile.
      .def(
          "__eq__", [](const TileSet& self, const TileSet& other) { return self == other; }, "other"_a)
      .def("__hash__", &TileSet::hash);
  make_record(type, tiled_home, {"coordinates"});
}

TileSet to_plan_field(nb::handle value, std::string_view name) {
  if (value.is_none()) return {};
  if (const auto* tiles = try_native<TileSet>(value)) return *tiles;
  raise<TypeError>("ResidencyPlan", name, " must be a TileSet or None: got ", python_type_name(value));
}

void bind_plan(nb::module_& module) {
  nb::class_<ResidencyPlan> type(module, "ResidencyPlan", nb::is_final(),
                                 R"(ResidencyPlan(promote=None, retain=None, evict=None)

What a ResidencyPolicy answers: tiles that are primary before the work starts, tiles that stay while it
runs, tiles that leave afterwards (X50, X56). None is the empty TileSet.

Errors: TypeError for a field that is no TileSet; ValueError where a tile is in two of them.

>>> from orlop import ResidencyPlan, TileSet
>>> plan = ResidencyPlan(evict=TileSet([(0,)]))
>>> plan.promote, plan.evict
(TileSet(coordinates=()), TileSet(coordinates=((0,),))))");
  type.def(
          "__init__",
          [](ResidencyPlan* self, nb::handle promote, nb::handle retain, nb::handle evict) {
            ResidencyPlan plan{to_plan_field(promote, "promote"), to_plan_field(retain, "retain"),
                               to_plan_field(evict, "evict")};
            plan.validate();
            new (self) ResidencyPlan(std::move(plan));
          },
          "promote"_a.none() = nb::none(), "retain"_a.none() = nb::none(), "evict"_a.none() = nb::none())
      .def_prop_ro(
          "promote", [](const ResidencyPlan& self) { return self.promote; }, "Primary before the work.")
      .def_prop_ro(
          "retain", [](const ResidencyPlan& self) { return self.retain; }, "Not evicted during it.")
      .def_prop_ro(
          "evict", [](const ResidencyPlan& self) { return self.evict; }, "Leave primary afterwards.");
  make_record(type, tiled_home, {"promote", "retain", "evict"});
}

}  // namespace

nb::tuple from_indices(std::span<const Index> values) { return tuple_of(values); }

TileSet to_tile_set(nb::handle value, std::string_view what, std::string_view name) {
  if (const auto* tiles = try_native<TileSet>(value)) return *tiles;
  if (const auto* selection = try_native<TileSelection>(value)) return selection->tile_set();
  raise<TypeError>(what, name, " must be a TileSet or a TileSelection: got ", python_type_name(value));
}

TileSet to_tile(nb::handle coordinate) { return make_tile_set(nb::make_tuple(coordinate)); }

const TileSelection& to_selection(nb::handle value, std::string_view what) {
  if (const auto* selection = try_native<TileSelection>(value)) return *selection;
  raise<TypeError>(what, "selection must be a TileSelection: got ", python_type_name(value));
}

void bind_tile_sets(nb::module_& module) {
  bind_selection(module);
  bind_tile_set(module);
  bind_plan(module);
}

}  // namespace orlop::bindings
