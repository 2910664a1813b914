"""TiledEvictable: construction, tile states, residency, policies, pins, release (X40-X56, X64, X100-X105)."""

import errno
import gc
import math
import os
import threading
import weakref

import pytest
from list_carrier import ListCarrier
from test_tiled_sets import refuse
from tiles import (
    ALL,
    GRID,
    NONE,
    SLOTS,
    TILE,
    Recording,
    Shelf,
    cold,
    cpu,
    dense,
    empty,
    full,
    gate,
    grid,
    sets,
    shelved,
    state,
    tiles,
    values,
)

import orlop
from orlop import (
    CPU,
    AwaitResult,
    DependentCarrier,
    DType,
    Evictable,
    FileBacked,
    Generic,
    Tensor,
    move,
    move_async,
)
from orlop._testing import IoScript, file_backed_io
from orlop.carriers import tiled_evictable
from orlop.carriers.extension import CarrierFacet
from orlop.carriers.tiled_evictable import (
    AwaitResidency,
    ResidencyPlan,
    ResidencyPolicy,
    TiledEvictable,
    TiledResidencyFacet,
    TileSelection,
    TileState,
    streaming,
)


def file():
    return FileBacked(dtype=DType.Float32)


# --- Names (X3)


def test_the_public_names_are_those_of_the_module():
    assert tiled_evictable.__all__ == [
        "AwaitProjection",
        "AwaitResidency",
        "ResidencyPlan",
        "ResidencyPolicy",
        "TileSelection",
        "TileSet",
        "TiledEvictable",
        "TiledResidencyFacet",
    ]
    for name in tiled_evictable.__all__:
        assert getattr(orlop, name) is getattr(tiled_evictable, name) and name in orlop.__all__
    assert orlop.carriers.TiledEvictable is TiledEvictable


# --- Construction (X40)


def test_construction_checks_in_order_and_claims_nothing():
    released, owned = CPU(0, dtype=DType.Int32), cpu([1])
    released.release()
    token = owned._claim_ownership()
    hierarchy = Evictable(cpu([1]), file())
    good = {"grid_shape": GRID, "tile_shape": TILE}

    def make(primary, secondary, grid_shape="x", tile_shape=0, **options):
        return lambda: TiledEvictable(primary, secondary, grid_shape, tile_shape, **options)

    refuse(TypeError, "primary must be a Carrier", make(3, released))
    refuse(TypeError, "secondary must be a Carrier", make(released, None))
    refuse(TypeError, "primary", make(hierarchy, released))
    refuse(TypeError, "secondary", make(released, hierarchy))
    refuse(ValueError, "distinct", make(released, released))
    refuse(RuntimeError, "primary is released", make(released, owned))
    refuse(RuntimeError, "secondary is released", make(owned, released))
    refuse(RuntimeError, "primary is already owned", make(owned, CPU(0, dtype=DType.Int32)))
    refuse(RuntimeError, "secondary is already owned", make(CPU(0, dtype=DType.Int32), owned))
    refuse(TypeError, "dtypes", make(CPU(0), CPU(0, dtype=DType.Int32)))
    primary, secondary = CPU(5), file()
    for wrong in (3, None):
        refuse(TypeError, "grid_shape must be a finite iterable", make(primary, secondary, wrong))
    refuse(ValueError, "grid_shape", make(primary, secondary, ()))
    for wrong in ((2.0, 3), (True, 3), ("a", 3)):
        refuse(TypeError, "grid_shape[0] must be an int", make(primary, secondary, wrong))
    for wrong in ((0, 3), (-1, 3)):
        refuse(ValueError, "grid_shape[0] must be positive", make(primary, secondary, wrong))
    refuse(TypeError, "tile_shape must be a finite iterable", make(primary, secondary, GRID))
    refuse(ValueError, "tile_shape", make(primary, secondary, GRID, ()))
    refuse(TypeError, "tile_shape[1]", make(primary, secondary, GRID, (2, 2.0)))
    refuse(ValueError, "tile_shape[1] must be positive", make(primary, secondary, GRID, (2, 0)))
    refuse(ValueError, "rank", make(primary, secondary, GRID, (2,), residency_policy=1))
    refuse(ValueError, "primary must be empty or hold the full extent of 24", make(primary, secondary, **good))
    refuse(ValueError, "secondary must be empty or hold the full extent", make(CPU(0), cpu([1]), **good))
    refuse(OverflowError, "64 bits", make(CPU(0), secondary, (2**40, 2**40), (1, 1)))
    tiers = CPU(0), file()
    refuse(TypeError, "residency_policy", make(*tiers, **good, residency_policy=3, primary_budget_bytes=1.0))
    uncallable = type("Policy", (), {"plan": 3})()
    refuse(TypeError, "callable", make(*tiers, **good, residency_policy=uncallable, primary_budget_bytes=1.0))
    assert not any(tier.is_owned() for tier in (primary, secondary, *tiers, released))
    owned._relinquish_ownership(token)


def test_a_budget_holds_a_tile_or_is_refused():
    tiers = CPU(0), file()
    for budget, kind in ((15, ValueError), (0, ValueError), (-1, ValueError), (True, TypeError), (32.0, TypeError)):
        with pytest.raises(kind, match="primary_budget_bytes"):
            TiledEvictable(*tiers, GRID, TILE, primary_budget_bytes=budget)
        assert not tiers[0].is_owned() and not tiers[1].is_owned()
    carrier = TiledEvictable(*tiers, GRID, TILE, primary_budget_bytes=16)
    assert carrier.primary_budget_bytes == 16 and tiers[0].is_owned() and tiers[1].is_owned()
    with pytest.raises(AttributeError):
        carrier.primary_budget_bytes = 32


def test_arguments_are_those_of_the_signature():
    refuse(TypeError, "missing", TiledEvictable, CPU(0), file())
    refuse(TypeError, "unexpected", lambda: TiledEvictable(CPU(0), file(), GRID, TILE, budget=3))
    refuse(TypeError, "positional", TiledEvictable, CPU(0), file(), GRID, TILE, None)
    carrier = TiledEvictable(secondary=file(), primary=CPU(0), tile_shape=iter(TILE), grid_shape=list(GRID))
    assert (carrier.grid_shape, carrier.tile_shape, carrier.logical_shape) == (GRID, TILE, (4, 6))
    assert carrier.residency_policy is None and carrier.primary_budget_bytes is None


def test_the_class_is_closed():
    with pytest.raises(TypeError, match="sibling"):
        type("Derived", (TiledEvictable,), {})
    assert isinstance(empty(), DependentCarrier)


def test_seeds_decide_where_tiles_are():
    primary, secondary = cpu(range(SLOTS)), file()
    carrier = TiledEvictable(primary, secondary, GRID, TILE)
    assert sets(carrier) == (ALL, NONE, ALL, NONE) and carrier.size() == SLOTS
    assert carrier.primary is primary and carrier.secondary is secondary and primary.is_owned()
    assert sets(cold()) == (NONE, ALL, ALL, NONE)
    assert sets(empty()) == (NONE, NONE, NONE, NONE)
    both = TiledEvictable(cpu(range(SLOTS)), cpu([0.0] * SLOTS), GRID, TILE)
    assert sets(both) == (ALL, NONE, ALL, NONE) and values(both) == list(range(SLOTS))


def test_mutability_is_the_primarys():
    assert grid().is_mutable()
    frozen = TiledEvictable(cpu(range(SLOTS), mutable=False), file(), GRID, TILE)
    assert not frozen.is_mutable()
    with pytest.raises(RuntimeError, match="not mutable"):
        frozen[0] = 1.0


# --- Tile states (X44)


def test_a_tile_state_is_a_record():
    carrier = grid()
    assert carrier.tile_state((0, 1)) == TileState("primary", True, False)
    carrier[13] = 1.0
    assert carrier.tile_state([0, 1]) == TileState("primary", valid=True, dirty=True)
    carrier.evict(tiles((0, 1)))
    assert carrier.tile_state(iter((0, 1))) == TileState("secondary", True, False)
    assert repr(empty().tile_state((0, 0))) == "TileState(location='invalid', valid=False, dirty=False)"
    zero = carrier._implicit_zero_like()
    assert zero.tile_state((1, 2)) == TileState("implicit", True, False)
    assert zero.valid_tiles == ALL and zero.primary_tiles == NONE == zero.secondary_tiles
    refuse(ValueError, "location", TileState, "nowhere", True, True)
    refuse(TypeError, "valid", TileState, "primary", 1, True)


def test_a_tile_state_wants_a_coordinate_of_the_grid():
    carrier = grid()
    refuse(TypeError, "must be", carrier.tile_state, 3)
    refuse(TypeError, "components must be integers", carrier.tile_state, (1.0, 0))
    refuse(TypeError, "components must be integers", carrier.tile_state, (True, 0))
    refuse(ValueError, "non-negative", carrier.tile_state, (-1, 0))
    refuse(ValueError, "rank", carrier.tile_state, (0,))
    refuse(ValueError, "outside the grid", carrier.tile_state, (0, 3))
    refuse(ValueError, "", carrier.tile_state, ())


# --- Elements (X45)


def test_elements_are_read_where_they_are_and_written_in_primary():
    carrier = cold()
    assert values(carrier) == list(range(SLOTS)) and carrier.primary_tiles == NONE
    carrier[13] = -1.0
    assert carrier.primary_tiles == tiles((0, 1)) == carrier.dirty_tiles and carrier[13] == -1.0
    assert carrier.version == 1
    zero = carrier._implicit_zero_like()
    zero[0] = 0.0
    assert zero.primary_tiles == NONE and zero.version == 1
    zero[0] = -0.0
    assert zero.primary_tiles == tiles((0, 0))
    hollow = empty()
    refuse(RuntimeError, "invalid", lambda: hollow[0])
    with pytest.raises(RuntimeError, match="invalid"):
        hollow[0] = 1.0
    assert hollow.version == 0


# --- Factories (X46)


@pytest.mark.parametrize("make", [grid, cold])
def test_many_slots_at_once_are_read_where_each_tile_is(make):
    carrier = make()
    for slot in (9, 22):  # written tiles leave the seed; one of them goes on to the file
        carrier[slot] = -1.0
        carrier.evict(tiles((1, 2)))
        assert carrier[slot] == -1.0 and orlop.friendly.to_list(full(carrier)) == values(carrier)


def test_factories_keep_the_geometry():
    policy = Recording()
    carrier = grid(residency_policy=policy, primary_budget_bytes=32)
    fresh = carrier.new_like([0.0] * 20 + [1.0, 2.0, -0.0, 4.0])
    assert (fresh.grid_shape, fresh.tile_shape, fresh.primary_budget_bytes) == (GRID, TILE, 32)
    assert fresh.residency_policy is policy and type(fresh.primary) is CPU
    assert values(fresh) == [0.0] * 20 + [1.0, 2.0, -0.0, 4.0]
    locations = [fresh.tile_state(tile).location for tile in ALL]
    assert locations[:4] == ["implicit"] * 4 and "implicit" not in locations[4:]
    refuse(ValueError, "24", carrier.new_like, [0.0] * 23)
    refuse(ValueError, "24", carrier.allocate_like, 23)
    zeros = carrier.allocate_like(SLOTS)
    assert [zeros.tile_state(tile).location for tile in ALL] == ["implicit"] * 6
    assert carrier.allocate_like(SLOTS, empty=True).valid_tiles == NONE
    carrier.release()
    assert carrier.allocate_like(SLOTS).valid_tiles == ALL
    integers = carrier.allocate_like(SLOTS, dtype=DType.Int32)
    assert integers.dtype() is DType.Int32 and integers[3] == 0


def test_nothing_leaves_but_through_projection():
    carrier = grid()
    with pytest.raises(BufferError):
        carrier.dlpack_info()
    for call in (move, move_async):
        with pytest.raises(NotImplementedError, match=r"TiledEvictable.*project\(\) gathers"):
            call(full(carrier), CPU(SLOTS))
        with pytest.raises(NotImplementedError, match=r"TiledEvictable.*scatter\(\) makes"):
            call(dense(range(SLOTS), (SLOTS,)), carrier)
    assert not carrier.is_released() and not carrier.is_owned() and values(carrier) == list(range(SLOTS))


# --- Residency requests (X51-X54)


def test_promote_and_evict_move_tiles_and_nothing_else():
    carrier = grid()
    before = carrier.version
    assert carrier.evict(tiles((0, 0), (1, 1))) is None
    assert carrier.secondary_tiles == tiles((0, 0), (1, 1)) and values(carrier) == list(range(SLOTS))
    assert carrier.promote(TileSelection([[0], [0]])) is None
    assert carrier.secondary_tiles == tiles((1, 1)) and carrier.version == before
    zero = carrier._implicit_zero_like()
    zero.evict(ALL)
    assert zero.secondary_tiles == NONE
    zero.promote(tiles((0, 0)))
    assert sets(zero)[0] == tiles((0, 0)) and zero.dirty_tiles == NONE
    hollow = empty()
    hollow.evict(ALL)
    refuse(RuntimeError, "invalid", hollow.promote, tiles((0, 0)))


@pytest.mark.parametrize("name", ["promote", "evict", "promote_async", "evict_async"])
def test_a_request_checks_in_order(name):
    carrier = grid()
    request = getattr(carrier, name)
    for wrong in (None, [(0, 0)], (0, 0), "x"):
        refuse(TypeError, "TileSet", request, wrong)
    refuse(ValueError, "rank", request, tiles((0,)))
    refuse(ValueError, "outside the grid", request, tiles((2, 0)))
    refuse(ValueError, "outside the grid", request, TileSelection([[0], [3]]))
    carrier.release()
    refuse(RuntimeError, "released", request, None)


def test_the_facet_has_the_same_requests():
    facet, carrier = TiledResidencyFacet(), grid()
    for name in ("promote", "evict", "promote_async", "evict_async"):
        for wrong in (None, CPU(0), 3):
            refuse(TypeError, "TiledEvictable", getattr(facet, name), wrong, ALL)
    facet.evict(carrier, tiles((0, 0)))
    assert carrier.secondary_tiles == tiles((0, 0))
    handle = facet.promote_async(carrier, tiles((0, 0)))
    assert isinstance(handle, AwaitResidency) and handle.wait() is None and carrier.secondary_tiles == NONE
    refuse(TypeError, "TileSet", facet.evict, carrier, 3)
    found = carrier.facet(TiledResidencyFacet)
    assert type(found) is TiledResidencyFacet and carrier.require_facet(TiledResidencyFacet) is found
    assert isinstance(found, CarrierFacet) and CPU(0).facet(TiledResidencyFacet) is None
    assert carrier.facet(type("Narrow", (TiledResidencyFacet,), {})) is None


def test_handles_are_made_by_requests_alone():
    with pytest.raises(TypeError):
        AwaitResidency()
    with pytest.raises(TypeError):
        type("Derived", (AwaitResidency,), {})
    carrier = grid()
    handle = carrier.evict_async(tiles((0, 0)))
    assert isinstance(handle, AwaitResult) and not hasattr(handle, "__await__")
    assert handle.wait() is None and handle.wait() is None and handle.done
    assert carrier.evict_async(tiles((0, 0))).done and carrier.evict_async(NONE).done


def test_a_pending_tile_is_refused_and_others_are_usable():
    carrier, one, other = shelved(), tiles((0, 0)), tiles((1, 0))
    with gate(Shelf, CPU) as held:
        handle = carrier.promote_async(one)
        assert held.started.acquire(timeout=30) and not handle.done
        assert len(carrier._pending_requests) == 1
        assert carrier[0] == 0.0 and carrier.tile_state((0, 0)).location == "secondary"
        for request in (carrier.promote, carrier.evict):
            refuse(RuntimeError, "wait", request, one)
        with pytest.raises(RuntimeError, match="wait"):
            carrier[0] = 1.0
        refuse(RuntimeError, "wait", carrier.release)
        second = carrier.promote_async(other)  # disjoint requests overlap
        assert held.started.acquire(timeout=30)
        held.open.set()
        assert handle.wait() is None and second.wait() is None
    assert carrier.primary_tiles == tiles((0, 0), (1, 0)) and not carrier._pending_requests
    carrier[0] = 1.0
    assert carrier.version == 1


def test_a_dropped_handle_still_completes():
    carrier = shelved()
    with gate(Shelf, CPU) as held:
        handle = carrier.promote_async(tiles((0, 0), (0, 1)))
        assert held.started.acquire(timeout=30)
        del handle
        gc.collect()
        held.open.set()
        while carrier._pending_requests:
            pass
    assert carrier.primary_tiles == tiles((0, 0), (0, 1))


def test_a_failed_eviction_leaves_the_whole_set():
    carrier = TiledEvictable(cpu(range(SLOTS)), Shelf(), GRID, TILE)
    carrier[0] = 7.0
    before = state(carrier)
    with gate(CPU, Shelf) as held:
        held.open.set()
        held.fails.append(1)
        handle = carrier.evict_async(tiles((0, 0), (1, 1)))
        for _ in range(2):
            with pytest.raises(ConnectionError, match="transfer 1 fails"):
                handle.wait()
        assert state(carrier) == before and not carrier._pending_requests
        carrier.evict(tiles((0, 0), (1, 1)))
    assert carrier.secondary_tiles == tiles((0, 0), (1, 1)) and values(carrier) == [7.0, *range(1, SLOTS)]


def test_a_failed_request_releases_its_storage():
    made = []

    class Watched(Shelf):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            made.append(self)

    carrier = TiledEvictable(cpu(range(SLOTS)), Watched(), GRID, TILE)
    with gate(CPU, Watched) as held:
        held.open.set()
        held.fails.append(1)
        with pytest.raises(ConnectionError):
            carrier.evict(tiles((0, 0), (1, 1)))
    assert [each.is_released() for each in made] == [False, True, True]  # the seed, and one for each tile


def test_all_waiters_see_one_outcome():
    carrier = shelved()
    caught = []

    def wait(handle):
        try:
            handle.wait()
        except ConnectionError as error:
            caught.append(error)

    with gate(Shelf, CPU) as held:
        held.fails.append(0)
        handle = carrier.promote_async(tiles((0, 0)))
        threads = [threading.Thread(target=wait, args=(handle,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        held.open.set()
        for thread in threads:
            thread.join()
    assert len(caught) == 4 and len({id(error) for error in caught}) == 1


# --- Budgets (X103-X105)


def test_a_request_beyond_the_budget_changes_nothing():
    carrier = cold(primary_budget_bytes=32)
    refuse(ValueError, "budget", carrier.promote, ALL)
    assert sets(carrier) == (NONE, ALL, ALL, NONE) and carrier.residency_stats() == streaming.ResidencyStats(
        0, 0, 0, 0, 0, 0, 0
    )


def test_a_clean_backed_tile_leaves_first_and_for_nothing():
    carrier = cold(primary_budget_bytes=32)
    carrier[0] = 5.0
    carrier.promote(tiles((1, 0)))
    carrier.promote(tiles((0, 1)))
    assert carrier.primary_tiles == tiles((0, 0), (0, 1)) and carrier.residency_stats().bytes_written == 0
    carrier.evict(tiles((0, 0)))
    assert carrier.residency_stats().bytes_written == 16 and carrier[0] == 5.0


def test_short_runs_of_a_tile_are_moved_together():
    """What lies between runs of a tile in a file is moved with them, a tile's bytes at once, and stays what it is."""
    rows, columns, tile = 128, 1024, (16, 1024)
    numbers = [float(i % 1009) for i in range(rows * columns)]
    file = FileBacked(dtype=DType.Float32).new_like(numbers)
    carrier = TiledEvictable(CPU(0), file, (8, 1), tile)
    whole = TileSelection([range(8), [0]]).tile_set
    with file_backed_io(IoScript()) as io:
        carrier.promote(whole)
        assert io.reads == 8
        for slot in range(5, rows * columns, rows):
            carrier[slot] = numbers[slot] = -numbers[slot]
        carrier.evict(tiles((0, 0)))
        assert (io.reads, io.writes) == (8 + 8, 8)
        for row in range(rows):  # all tiles are written, some at the same time
            carrier.promote(whole)
            carrier[row] = numbers[row] = float(row) + 0.5
        carrier.evict(whole)
    assert carrier.secondary_tiles == whole and values(carrier) == numbers


@pytest.mark.parametrize(
    ("grid_shape", "tile_shape", "left_out", "calls"),
    [
        ((64, 1), (32, 64), [], 64),  # a row of all tiles at once
        ((64, 1), (32, 5), [], 5 * 13),  # as much of it as a tile has bytes
        ((4, 2, 3), (3, 5, 2), [], 6 * 2 * 3),  # as many rows as a tile has bytes: two, and the odd one
        ((1, 8, 2), (2, 3, 4), [], 2 * 4 * 2),
        ((64, 2), (32, 4), [(7, 1)], 4 * 16 + 63 * 4),  # of the second row of tiles one stays, and each goes alone
    ],
)
def test_short_runs_of_tiles_that_move_together_are_moved_side_by_side(grid_shape, tile_shape, left_out, calls):
    size = math.prod(grid_shape) * math.prod(tile_shape)
    file = FileBacked(dtype=DType.Float32).new_like([0.0] * size)
    carrier = TiledEvictable(CPU(0), file, grid_shape, tile_shape)
    every = TileSelection([range(count) for count in grid_shape]).tile_set
    carrier.promote(every)
    numbers = [float(slot) for slot in range(size)]
    for slot, number in enumerate(numbers):
        carrier[slot] = number
    leaving = tiles(*(tile for tile in every.coordinates if tile not in left_out))
    with file_backed_io(IoScript()) as io:
        carrier.evict(leaving)
        assert io.writes == calls
    assert carrier.secondary_tiles == leaving and values(carrier) == numbers
    with file_backed_io(IoScript()) as io:
        carrier.promote(every)
        assert io.reads == calls
    assert carrier.primary_tiles == every and values(carrier) == numbers


@pytest.mark.parametrize("failing", range(0, 8, 3))
def test_tiles_written_side_by_side_all_stay_where_one_write_fails(failing):
    numbers = [float(slot) for slot in range(64 * 8)]
    file = FileBacked(dtype=DType.Float32).new_like([0.0] * len(numbers))
    carrier = TiledEvictable(CPU(0), file, (16, 1), (4, 8))
    every = TileSelection([range(16), [0]]).tile_set
    carrier.promote(every)
    for slot, number in enumerate(numbers):
        carrier[slot] = number
    version = carrier.version
    with file_backed_io(IoScript(write=[("pass",)] * failing + [("fail", errno.EIO)])):
        with pytest.raises(OSError) as caught:
            carrier.evict(every)
    assert caught.value.errno == errno.EIO and carrier.version == version
    assert carrier.primary_tiles == carrier.dirty_tiles == every and values(carrier) == numbers
    carrier.evict(every)
    assert carrier.secondary_tiles == every and values(carrier) == numbers


def test_statistics_are_a_record_that_starts_again():
    carrier = grid()
    stats = carrier.residency_stats()
    assert stats == streaming.ResidencyStats(0, 0, 0, 0, 0, 0, peak_primary_bytes=96)
    carrier.evict(tiles((0, 0), (1, 0)))
    carrier.promote(tiles((0, 0)))
    stats = carrier.residency_stats()
    assert (stats.evictions, stats.promotions, stats.bytes_written, stats.bytes_read) == (2, 1, 32, 16)
    assert (stats.hits, stats.misses) == (0, 0)
    assert carrier.reset_residency_stats() is None
    assert carrier.residency_stats() == streaming.ResidencyStats(0, 0, 0, 0, 0, 0, 80)
    carrier.release()
    assert carrier.residency_stats().peak_primary_bytes == 80
    refuse(TypeError, "hits", lambda: streaming.ResidencyStats(0, 0, 0, 0, 1.0, 0, 0))


def test_a_progress_block_wants_a_callback_and_is_entered_once():
    refuse(TypeError, "callable", streaming.progress, 3)
    with streaming.progress(lambda progress: None) as block:
        refuse(RuntimeError, "entered", block.__enter__)
    with block:
        pass


# --- Pins and policies (X55, X56)


def test_pinned_tiles_are_refused_to_others_but_readable():
    policy = Recording(ResidencyPlan(retain=tiles((1, 1))))
    carrier = cold(residency_policy=policy)
    carrier.promote(tiles((0, 0), (1, 1)))
    with carrier._pin_tiles_for_work(tiles((0, 0), (1, 0)), "operation") as plan:
        assert plan == policy.answer and policy.calls == [(tiles((0, 0), (1, 0)), "operation")]
        for pinned in ((0, 0), (1, 1)):
            refuse(RuntimeError, "pinned", carrier.evict, tiles(pinned))
        refuse(RuntimeError, "pinned", carrier.promote, tiles((1, 0)))
        with pytest.raises(RuntimeError, match="pinned"):
            carrier[0] = 1.0
        assert carrier[0] == 0.0
        refuse(RuntimeError, "wait", carrier.release)
        with carrier._pin_tiles_for_work(tiles((0, 0)), "projection"):  # pins add up
            pass
        refuse(RuntimeError, "pinned", carrier.evict, tiles((0, 0)))
        carrier.evict(tiles((0, 1)))
    carrier.evict(tiles((0, 0), (1, 1)))
    refuse(ValueError, "purpose", carrier._pin_tiles_for_work, NONE, "other")


def test_what_a_plan_lets_go_has_gone_when_the_operation_that_held_it_ends():
    policy = Recording()
    carrier = grid(residency_policy=policy)
    with carrier._pin_tiles_for_work(tiles((0, 0)), "operation"):
        policy.answer = ResidencyPlan(evict=ALL)
        orlop.relu(full(carrier))
        assert carrier.primary_tiles == tiles((0, 0))
    assert not carrier._pending_requests and carrier.primary_tiles == NONE


def test_a_policy_is_a_protocol():
    assert isinstance(Recording(), ResidencyPolicy) and not isinstance(3, ResidencyPolicy)
    policy = Recording()
    carrier = grid(residency_policy=policy)
    assert carrier.residency_policy is policy
    carrier.evict(ALL)
    carrier.promote(ALL)
    assert policy.calls == []


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (ResidencyPlan(evict=tiles((2, 0))), ValueError, "outside the grid"),
        (ResidencyPlan(promote=tiles((0,))), ValueError, "rank"),
        (KeyError("mine"), KeyError, "mine"),
    ],
)
def test_a_plan_is_checked_before_any_transfer(answer, kind, words):
    policy = Recording()
    policy.answer = answer
    carrier = cold(residency_policy=policy)
    before = sets(carrier)
    with pytest.raises(kind, match=words), carrier._pin_tiles_for_work(tiles((0, 0)), "operation"):
        raise AssertionError
    assert sets(carrier) == before
    carrier.release()


@pytest.mark.parametrize("answer", [None, (NONE, NONE, NONE), tiles((0, 0))])
def test_a_policy_returns_a_plan(answer):
    carrier = cold(residency_policy=type("Policy", (), {"plan": lambda *_: answer})())
    with pytest.raises(TypeError, match="ResidencyPlan"), carrier._pin_tiles_for_work(NONE, "operation"):
        raise AssertionError


# --- Release (X64), lifetime


def test_release_frees_both_tiers_once():
    primary, secondary = cpu(range(SLOTS)), file()
    carrier = TiledEvictable(primary, secondary, GRID, TILE)
    tensor = full(carrier)
    carrier.release()
    carrier.release()
    assert primary.is_released() and secondary.is_released() and carrier.is_released()
    assert not primary.is_owned() and not secondary.is_owned()
    assert carrier.size() == 0 and carrier.valid_tiles == NONE
    assert carrier.tile_state((0, 0)) == TileState("invalid", False, False)
    refuse(RuntimeError, "released", lambda: carrier[0])
    refuse(RuntimeError, "released", lambda: orlop.project(tensor, TileSelection([[0], [0]])))
    refuse(RuntimeError, "released", lambda: tiled_evictable.scatter(3, tensor, TileSelection([[0], [0]])))
    for name in ("relu", "no such name"):
        refuse(RuntimeError, "TiledEvictable is released", carrier.dispatch_op, name)
    for request in (carrier.promote, carrier.evict):
        refuse(RuntimeError, "released", request, ALL)
    with pytest.raises(RuntimeError, match="released"):
        carrier[0] = 1.0
    assert carrier.operation_capabilities("relu")


def test_collection_returns_ownership():
    primary, secondary = cpu(range(SLOTS)), file()
    carrier = TiledEvictable(primary, secondary, GRID, TILE)
    del carrier
    gc.collect()
    assert not primary.is_owned() and not primary.is_released() and not secondary.is_owned()


class Policy(Recording):
    pass


@pytest.mark.parametrize("derives", [lambda carrier: carrier, lambda carrier: carrier._implicit_zero_like()])
def test_a_cycle_through_a_policy_is_collected(derives):
    policy = Policy()
    carrier = grid(residency_policy=policy)
    policy.carrier = derives(carrier)
    policy.other = carrier
    watched = weakref.ref(policy)
    del policy, carrier
    gc.collect()
    assert watched() is None


def test_a_cycle_through_a_tier_is_collected():
    shelf = ListCarrier([float(i) for i in range(SLOTS)])
    carrier = TiledEvictable(CPU(0), shelf, GRID, TILE)
    shelf.owner = carrier
    watched = weakref.ref(carrier)
    del shelf, carrier
    gc.collect()
    assert watched() is None


def test_tiers_may_be_generic_or_pythons():
    generic = TiledEvictable(Generic([float(i) for i in range(SLOTS)], dtype=DType.Float32), file(), GRID, TILE)
    python = TiledEvictable(ListCarrier([float(i) for i in range(SLOTS)]), file(), GRID, TILE)
    for carrier in (generic, python):
        carrier.evict(ALL)
        carrier.promote(tiles((1, 2)))
        assert values(carrier) == list(range(SLOTS)) and carrier.primary_tiles == tiles((1, 2))


def test_many_threads_use_disjoint_tiles():
    carrier = cold(primary_budget_bytes=96)
    errors = []

    def work(tile, slot):
        try:
            for turn in range(50):
                carrier.promote(tiles(tile))
                carrier[slot] = float(turn)
                assert carrier[slot] == turn
                carrier.evict(tiles(tile))
        except Exception as error:
            errors.append(error)

    slots = {(0, 0): 0, (1, 0): 2, (0, 1): 8, (1, 2): 18}
    threads = [threading.Thread(target=work, args=item) for item in slots.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and [carrier[slot] for slot in slots.values()] == [49.0] * 4 and carrier.version == 200


def test_a_forks_child_reads_and_is_not_waited_for():
    carrier = shelved()
    with gate(Shelf, CPU) as held:
        handle = carrier.promote_async(tiles((0, 0)))
        assert held.started.acquire(timeout=30)
        child = os.fork()
        if child == 0:
            try:
                good = handle.done and carrier[0] == 0.0 and values(carrier) == list(range(SLOTS))
                try:
                    handle.wait()
                    good = False
                except RuntimeError as error:
                    good = good and "fork" in str(error)
                os._exit(0 if good else 1)
            finally:
                os._exit(2)
        held.open.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        handle.wait()
    assert carrier.primary_tiles == tiles((0, 0))
    assert isinstance(full(carrier), Tensor)
