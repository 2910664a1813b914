"""TileSelection, TileSet and ResidencyPlan as values: order, checks in order, dataclass behaviour (X47-X50)."""

import copy
import dataclasses
import pickle
import sys

import pytest

from orlop.carriers.tiled_evictable import ResidencyPlan, TileSelection, TileSet, TileState, streaming


class Intlike:
    def __index__(self):
        return 1


class Breaking:
    """An iterable that fails after one item."""

    def __iter__(self):
        yield 0
        raise KeyError("mine")


def refuse(kind, words, call, *arguments):
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert words in str(caught.value)


# --- TileSelection


def test_a_selection_lists_the_product_axis_0_fastest_in_the_callers_order():
    selection = TileSelection([[1, 0], [2]])
    assert selection.coordinates == ((1, 2), (0, 2))
    assert selection.per_axis == ((1, 0), (2,))
    assert selection.rank == 2
    assert selection.compact_grid_shape == (2, 1)
    assert selection.tile_set == TileSet([(0, 2), (1, 2)])


def test_a_selection_walks_each_iterable_once():
    walked = iter([iter([2, 7]), range(4, 5)])
    assert TileSelection(walked) == TileSelection(per_axis=((2, 7), (4,)))


def test_a_selection_represents_itself():
    assert repr(TileSelection([[2, 7], [4]])) == "TileSelection(per_axis=((2, 7), (4,)))"


@pytest.mark.parametrize(
    ("per_axis", "kind", "words"),
    [
        (3, TypeError, "per_axis must be a finite iterable"),
        (None, TypeError, "per_axis must be a finite iterable"),
        ([[0], 1], TypeError, "per_axis[1] must"),
        ([[], 1], TypeError, "per_axis[1] must"),  # iterables come before what they hold
        ([], ValueError, "per_axis"),
        ([[0], []], ValueError, "per_axis[1]"),
        ([["a"], []], ValueError, "per_axis[1]"),  # an empty axis before a wrong component
        ([[0.0]], TypeError, "tile coordinates must be integers"),
        ([[True]], TypeError, "tile coordinates must be integers"),
        ([[Intlike()]], TypeError, "tile coordinates must be integers"),
        (["a"], TypeError, "tile coordinates must be integers"),
        ([[-1, 0.5]], TypeError, "tile coordinates must be integers"),
        ([[0], [-1]], ValueError, "non-negative"),
        ([[2**70]], ValueError, "non-negative"),
        ([[-(2**70)]], ValueError, "non-negative"),
        ([[4, 2, 4]], ValueError, "duplicate"),
        ([[4, 4], [-1]], ValueError, "non-negative"),
    ],
)
def test_a_selection_refuses(per_axis, kind, words):
    refuse(kind, words, TileSelection, per_axis)


def test_an_iterable_of_the_caller_fails_with_its_own_exception():
    refuse(KeyError, "mine", TileSelection, Breaking())
    refuse(KeyError, "mine", TileSelection, [Breaking()])
    refuse(KeyError, "mine", TileSet, [Breaking()])


def test_both_values_bind_to_a_grid():
    TileSelection([[1], [2, 0]])._validate_grid_shape((2, 3))
    TileSet([(1, 2), (0, 0)])._validate_grid_shape((2, 3))
    TileSet()._validate_grid_shape((5,))
    for value in (TileSelection([[0]]), TileSet([(0,)])):
        refuse(ValueError, "rank", value._validate_grid_shape, (2, 3))
    for value in (TileSelection([[0], [3]]), TileSet([(0, 3)])):
        refuse(ValueError, "outside the grid", value._validate_grid_shape, (2, 3))
    refuse(ValueError, "outside the grid", TileSelection([[2**62], [0]])._validate_grid_shape, (2, 3))


# --- TileSet


def test_a_set_is_sorted_by_reversed_coordinate():
    tiles = TileSet([(0, 1), (1, 0), (0, 0)])
    assert tiles.coordinates == ((0, 0), (1, 0), (0, 1))
    assert list(tiles) == [(0, 0), (1, 0), (0, 1)] and len(tiles) == 3
    assert tiles == TileSet(coordinates=iter([[1, 0], [0, 0], [0, 1]]))
    assert repr(TileSet([(5,)])) == "TileSet(coordinates=((5,),))"


def test_a_set_knows_its_members():
    tiles = TileSet([(0, 1), (1, 0)])
    assert (1, 0) in tiles and (1, 1) not in tiles
    assert (1,) not in tiles and "ab" not in tiles and (1.0, 0) not in tiles and (True, 0) not in tiles
    assert (2**70, 0) not in tiles and None not in tiles


@pytest.mark.parametrize(
    ("coordinates", "kind", "words"),
    [
        (3, TypeError, "coordinates must be"),
        (None, TypeError, "coordinates must be"),
        ([(0, 0), 1], TypeError, "coordinates[1] must be"),
        ([(1.0,)], TypeError, "components must be integers"),
        ([(True,)], TypeError, "components must be integers"),
        ([(Intlike(),)], TypeError, "components must be integers"),
        ([(-1, 0)], ValueError, "non-negative"),
        ([(2**70,)], ValueError, "non-negative"),
        ([(0, 1), (0,)], ValueError, "same rank"),
        ([(0, 1), (0,), ("a",)], TypeError, "components must be integers"),
        ([(0, 1), (1, 0), (0, 1)], ValueError, "duplicate"),
        ([()], ValueError, "at least one component"),
    ],
)
def test_a_set_refuses(coordinates, kind, words):
    refuse(kind, words, TileSet, coordinates)


def test_a_million_tiles_are_cheap():
    side = range(1000)
    tiles = TileSelection([side, side]).tile_set
    assert len(tiles) == 10**6
    assert tiles == TileSelection([reversed(side), side]).tile_set
    assert hash(tiles) == hash(TileSelection([side, reversed(side)]).tile_set)
    ResidencyPlan(promote=tiles, evict=TileSet([(1000, 0)]))


def test_a_selection_too_large_to_list_says_so():
    vast = TileSelection([range(10**5)] * 4)
    refuse(MemoryError, "too many tiles", lambda: vast.tile_set)


# --- ResidencyPlan


def test_a_plan_takes_none_for_the_empty_set():
    plan = ResidencyPlan(retain=TileSet([(0, 0)]))
    assert plan == ResidencyPlan(TileSet(), TileSet([(0, 0)]), None)
    assert plan.promote == TileSet() == plan.evict


@pytest.mark.parametrize("field", ["promote", "retain", "evict"])
@pytest.mark.parametrize("value", [[(0, 0)], TileSelection([[0], [0]]), 0, "x"])
def test_a_plan_refuses_what_is_no_set(field, value):
    refuse(TypeError, f"{field} must be a TileSet", lambda: ResidencyPlan(**{field: value}))


@pytest.mark.parametrize("pair", [("promote", "retain"), ("promote", "evict"), ("retain", "evict")])
def test_a_plan_names_each_tile_once(pair):
    tiles = TileSet([(0, 0), (1, 1)])
    refuse(
        ValueError, "must be disjoint", lambda: ResidencyPlan(**{pair[0]: tiles, pair[1]: TileSet([(1, 1)])})
    )


# --- All are frozen dataclasses (X4)

RECORDS = [
    (TileSelection([[2, 7], [4]]), {"per_axis": [[1], [0]]}),
    (TileSet([(0, 1)]), {"coordinates": [(5, 5)]}),
    (ResidencyPlan(TileSet([(0, 1)])), {"promote": None}),
    (TileState("primary", True, False), {"dirty": True}),
    (streaming.ResidencyStats(1, 2, 3, 4, 5, 6, 7), {"hits": 0}),
    (streaming.TiledProgress("relu", "forward", 1, 6, 32), {"step": 2}),
]


@pytest.mark.parametrize(("record", "change"), RECORDS, ids=lambda value: type(value).__name__)
def test_records_are_frozen_dataclasses(record, change):
    (field,) = change
    assert dataclasses.is_dataclass(record)
    for action in (lambda: setattr(record, field, 1), lambda: setattr(record, "other", 1)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            action()
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(record, field)
    changed = dataclasses.replace(record, **change)
    assert changed != record and dataclasses.replace(changed, **{field: getattr(record, field)}) == record
    assert dataclasses.replace(record) == record and hash(dataclasses.replace(record)) == hash(record)
    assert pickle.loads(pickle.dumps(record)) == record == copy.deepcopy(record)
    kind = type(record)
    assert record != 1 and record is not None and getattr(sys.modules[kind.__module__], kind.__name__) is kind
    with pytest.raises(TypeError):
        type("Derived", (type(record),), {})
