"""Tiled carriers under failing system calls, and failing allocations where test_allocation_faults.py runs this: a
request for several tiles is carried out whole or not at all, and the next one works (X53)."""

import pytest
from test_faults import CODES, file, until_clean
from tiles import ALL, GRID, SLOTS, TILE, cold, cpu, dense, elements, full, grid, sets, tiles, values

from orlop import CPU, TiledEvictable, TileSelection, project
from orlop.functional import scatter

PICK = TileSelection([[1, 0], [2]])
NUMBERS = [float(i) for i in range(SLOTS)]
TILE_BYTES = 16


def unchanged(carrier, before):
    return sets(carrier) == before and carrier.version == 0 and values(carrier) == NUMBERS


@CODES
@pytest.mark.parametrize("options", [{}, {"primary_budget_bytes": 2 * TILE_BYTES}], ids=["free", "budget"])
@pytest.mark.parametrize("tiers", [lambda: (cpu(NUMBERS), file([])), lambda: (CPU(0), file(NUMBERS))], ids=[1, 2])
def test_making_a_tiled_carrier(tiers, options, code):
    def attempt(run):
        seeds, carrier = tiers(), None
        with run.faults():
            carrier = TiledEvictable(*seeds, GRID, TILE, **options)
        if carrier is None:
            assert not any(seed.is_owned() or seed.is_released() for seed in seeds)
            carrier = TiledEvictable(*seeds, GRID, TILE, **options)
        assert values(carrier) == NUMBERS

    until_clean(attempt, code)


@CODES
@pytest.mark.parametrize("wanted", [ALL, tiles((0, 1), (1, 2))], ids=["all", "two"])
def test_evicting_and_promoting_tiles(wanted, code):
    def evict(run):
        carrier = grid()
        before = sets(carrier)
        with run.faults():
            carrier.evict(wanted)
        if run.error:
            assert unchanged(carrier, before)
            carrier.evict(wanted)
        assert carrier.secondary_tiles == wanted and values(carrier) == NUMBERS

    def promote(run):
        carrier = cold()
        before = sets(carrier)
        with run.faults():
            carrier.promote_async(wanted).wait()
        if run.error:
            assert unchanged(carrier, before)
            carrier.promote(wanted)
        assert carrier.primary_tiles == wanted and values(carrier) == NUMBERS

    until_clean(evict, code)
    until_clean(promote, code)


@CODES
@pytest.mark.parametrize("options", [{}, {"primary_budget_bytes": TILE_BYTES}], ids=["free", "budget"])
def test_writing_a_slot_of_a_stored_tile(options, code):
    def attempt(run):
        carrier = cold(**options)
        if options:
            carrier.promote(tiles((0, 0)))
            carrier[0] = 50.0
        before, version = values(carrier), carrier.version
        with run.faults():
            carrier[SLOTS - 1] = 9.0
        assert values(carrier) == (before if run.error else [*before[:-1], 9.0])
        assert carrier.version == version + (0 if run.error else 1)
        carrier[SLOTS - 1] = 9.0
        assert values(carrier) == [*before[:-1], 9.0]

    until_clean(attempt, code)


@CODES
def test_projecting_and_scattering(code):
    def gather(run):
        carrier = cold()
        with run.faults():
            project(full(carrier), PICK).wait()
        assert values(carrier) == NUMBERS and carrier.version == 0
        assert elements(project(full(carrier), PICK).wait()) == [18, 19, 16, 17, 22, 23, 20, 21]

    def replace(run):
        carrier, compact = cold(), dense(range(8), (4, 2))
        result = None
        with run.faults():
            result = scatter(compact, full(carrier), PICK).wait()
        assert values(carrier) == NUMBERS and carrier.version == 0 and elements(compact) == list(range(8))
        assert not compact.carrier.is_owned()
        if result is None:
            result = scatter(compact, full(carrier), PICK).wait()
        assert elements(project(result, PICK).wait()) == list(range(8)) and result.version == 1

    until_clean(gather, code)
    until_clean(replace, code)


@CODES
def test_releasing_a_tiled_carrier(code):
    def attempt(run):
        carrier = cold()
        carrier.promote(tiles((0, 0)))
        with run.faults():
            carrier.release()
        assert carrier.is_released() is (run.error is None)
        carrier.release()
        assert carrier.is_released()

    until_clean(attempt, code)
