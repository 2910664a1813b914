"""project and scatter: values, checks in order, work in the background, gradients, policies (X57-X60)."""

import gc
import math
import os
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from list_carrier import ComputingCarrier
from test_tiled_sets import refuse
from tiles import (
    ALL,
    CANONICAL,
    GRID,
    MISFITS,
    NONE,
    SLOTS,
    TILE,
    TRANSPOSED,
    Recording,
    Shelf,
    cold,
    cpu,
    dense,
    elements,
    empty,
    full,
    gate,
    grid,
    layout,
    sets,
    shelved,
    state,
    tiles,
    values,
)
from waiting import are_collected

import orlop
from orlop import (
    CPU,
    AwaitMove,
    AwaitProjection,
    AwaitResult,
    DType,
    Evictable,
    FileBacked,
    Generic,
    Tensor,
    TileSelection,
    no_grad,
    project,
)
from orlop.carriers import tiled_evictable
from orlop.carriers.tiled_evictable import ResidencyPlan, TiledEvictable
from orlop.functional import scatter

PICK = TileSelection([[1, 0], [2]])
ONE = TileSelection([[1], [0]])
TWO = TileSelection([[1], [0, 2]])


def ones(tensor, value=1.0):
    return Tensor(cpu([value] * tensor.layout.size), 0, tensor.layout)


# --- Values


def test_a_projection_gathers_in_the_order_of_the_selection():
    assert elements(project(full(grid()), PICK).wait()) == [18, 19, 16, 17, 22, 23, 20, 21]
    assert elements(project(full(grid(), TRANSPOSED), PICK).wait()) == [18, 22, 16, 20, 19, 23, 17, 21]
    result = project(full(cold()), PICK).wait()
    assert result.layout == layout((4, 2), (1, 4)) and result.offset == 0 and type(result.carrier) is CPU
    assert elements(result) == [18, 19, 16, 17, 22, 23, 20, 21] and not result.carrier.is_owned()


@pytest.mark.parametrize("placed", [CANONICAL, TRANSPOSED])
@pytest.mark.parametrize("budget", [None, 16, 32])
def test_a_projection_is_the_slice_of_the_whole(placed, budget):
    carrier = cold(primary_budget_bytes=budget)
    whole = full(carrier, placed)
    picked = TileSelection([[1], [2, 0]])
    result = project(whole, picked).wait()
    expected = [
        carrier[placed((2 + row) + 4 * (2 * picked.per_axis[1][column // 2] + column % 2))]
        for column in range(4)
        for row in range(2)
    ]
    assert elements(result) == expected
    assert budget is None or carrier.residency_stats().peak_primary_bytes <= budget
    assert carrier.version == 0


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_selection_of_any_geometry_agrees_with_numpy(data):
    few = st.integers(1, 3)
    rank = data.draw(few)
    tile, counts = ([data.draw(few) for _ in range(rank)] for _ in range(2))
    logical = [count * extent for count, extent in zip(counts, tile, strict=True)]
    whole = np.arange(math.prod(logical), dtype=np.float32).reshape(logical, order="F")
    budget = data.draw(st.sampled_from([None, 1, 2]))
    carrier = TiledEvictable(
        CPU(0), cpu(whole.ravel("F")), counts, tile, primary_budget_bytes=budget and budget * 4 * math.prod(tile)
    )
    source = full(carrier, layout(logical, [math.prod(logical[:mode]) for mode in range(rank)]))
    picks = [data.draw(st.permutations(range(count)))[: data.draw(st.integers(1, count))] for count in counts]
    selection = TileSelection(picks)
    places = np.ix_(
        *([t * extent + i for t in pick for i in range(extent)] for pick, extent in zip(picks, tile, strict=True))
    )

    compact = project(source, selection).wait()
    assert elements(compact) == whole[places].ravel("F").tolist()
    (gradient,) = orlop.grad(compact, [source], ones(compact, 2.0))
    expected = np.zeros_like(whole)
    expected[places] = 2.0
    assert values(gradient.carrier) == expected.ravel("F").tolist()
    added = scatter(compact, source, selection, reduction="add").wait()
    assert elements(project(added, selection).wait()) == (2 * whole[places]).ravel("F").tolist()
    assert values(carrier) == whole.ravel("F").tolist()


@pytest.mark.parametrize(
    "primary", [lambda: Generic([], dtype=DType.Float32), ComputingCarrier, lambda: FileBacked(dtype=DType.Float32)]
)
def test_any_class_may_be_the_primary(primary):
    seed = FileBacked(dtype=DType.Float32).new_like([float(i) for i in range(SLOTS)])
    carrier = TiledEvictable(primary(), seed, GRID, TILE)
    compact = project(full(carrier, TRANSPOSED), PICK).wait()
    assert type(compact.carrier) is type(carrier.primary)
    assert elements(compact) == [18, 22, 16, 20, 19, 23, 17, 21]
    back = scatter(compact, full(carrier, TRANSPOSED), PICK).wait()
    assert elements(project(back, PICK).wait()) == [18, 22, 16, 20, 19, 23, 17, 21]
    assert [back.carrier[slot] for slot in (16, 17, 20, 21, 18, 19, 22, 23)] == [16, 17, 20, 21, 18, 19, 22, 23]


def test_a_projection_writes_to_a_destination_and_gives_it_back():
    carrier = grid()
    roomy = cpu([-1.0] * 10)
    result = project(full(carrier), ONE, roomy).wait()
    assert result.carrier is roomy and values(roomy) == [2, 3, 6, 7, -1, -1, -1, -1, -1, -1]
    assert not roomy.is_owned() and roomy.version == 1
    on_file = TiledEvictable(FileBacked(dtype=DType.Float32), cpu(range(SLOTS)), GRID, TILE)
    growing = FileBacked(dtype=DType.Float32)
    assert project(full(on_file), ONE, destination=growing).wait().carrier is growing
    assert values(growing) == [2, 3, 6, 7] and not growing.is_owned()


def test_an_implicit_tile_is_projected_as_zeros():
    zero = grid()._implicit_zero_like()
    assert elements(project(full(zero), PICK).wait()) == [0.0] * 8


# --- Checks in order (X43, X57)


def test_a_projection_checks_in_order():
    carrier, hollow = grid(), empty()
    whole = full(carrier)
    released, owned = CPU(0), cpu([0.0] * 8)
    released.release()
    token = owned._claim_ownership()
    before = state(carrier)
    refuse(TypeError, "tensor must be a Tensor", project, 3, 4)
    refuse(TypeError, "TiledEvictable", project, dense(range(4), (2, 2)), 4)
    refuse(ValueError, "mode", project, Tensor(carrier, 0, layout((24,), (1,))), 4)
    refuse(ValueError, "mode", project, Tensor(carrier, 0, layout((6, 4), (1, 6))), 4)
    refuse(ValueError, "mode", project, Tensor(carrier, 0, layout((4, 5), (1, 4))), 4)
    for misfit in MISFITS:
        refuse(ValueError, "tile footprints", project, Tensor(carrier, 0, misfit), 4)
    for wrong in (4, None, tiles((0, 0)), [[0], [0]]):
        refuse(TypeError, "selection must be a TileSelection", project, whole, wrong, 4)
    refuse(ValueError, "rank", project, whole, TileSelection([[0]]), 4)
    refuse(ValueError, "outside the grid", project, whole, TileSelection([[0], [3]]), 4)
    refuse(TypeError, "destination must be a Carrier", project, whole, PICK, 4)
    refuse(TypeError, "exactly the primary's class", project, whole, PICK, Evictable(CPU(8), CPU(0)))
    refuse(TypeError, "exactly the primary's class", project, whole, PICK, Generic([0.0] * 8, dtype=DType.Float32))
    refuse(RuntimeError, "released", project, whole, PICK, released)
    refuse(RuntimeError, "owned", project, whole, PICK, owned)
    refuse(RuntimeError, "not mutable", project, whole, PICK, cpu([0.0] * 7, mutable=False))
    refuse(TypeError, "dtype", project, whole, PICK, CPU(7, dtype=DType.Int32))
    refuse(ValueError, "small", project, whole, PICK, CPU(7))
    supplied = cpu([-1.0] * 8)
    refuse(RuntimeError, "invalid", project, full(hollow), PICK, supplied)
    assert values(supplied) == [-1.0] * 8 and not supplied.is_owned() and supplied.version == 0
    assert state(carrier) == before
    owned._relinquish_ownership(token)
    carrier.release()
    refuse(RuntimeError, "released", project, whole, 4)


@pytest.mark.parametrize("misfit", MISFITS, ids=str)
def test_a_layout_across_tiles_is_refused_everywhere(misfit):
    carrier = cold()
    tensor, supplied = Tensor(carrier, 0, misfit), CPU(8)
    before = sets(carrier), carrier.version
    refuse(ValueError, "tile footprints", project, tensor, PICK, supplied)
    refuse(ValueError, "tile footprints", scatter, dense(range(8), (4, 2)), tensor, PICK)
    refuse(ValueError, "tile footprints", orlop.relu, tensor)
    assert (sets(carrier), carrier.version) == before and supplied.version == 0 and not supplied.is_owned()


def test_a_handle_is_no_operand():
    handle = project(full(grid()), PICK)
    assert isinstance(handle, AwaitProjection) and isinstance(handle, AwaitResult)
    refuse(TypeError, "Tensor", orlop.relu, handle)
    refuse(TypeError, "", AwaitProjection)
    assert handle.wait() is handle.wait() and handle.done and not hasattr(handle, "__await__")


# --- In the background


def test_a_projection_waits_for_no_transfer():
    carrier, destination = shelved(), CPU(8)
    carrier.promote(tiles((0, 2)))
    with gate(Shelf, CPU) as held:
        handle = project(full(carrier), PICK, destination)
        assert held.started.acquire(timeout=30) and not handle.done and destination.is_owned()
        assert [destination[slot] for slot in (2, 3, 6, 7)] == [16, 17, 20, 21]  # readable at once
        for request in (carrier.promote, carrier.evict):
            refuse(RuntimeError, "wait", request, tiles((1, 2)))
        refuse(RuntimeError, "pinned", carrier.evict, tiles((0, 2)))
        refuse(RuntimeError, "wait", project, full(carrier), TileSelection([[1], [2]]))
        refuse(RuntimeError, "wait", orlop.relu, full(carrier))
        with pytest.raises(RuntimeError, match="wait"):
            carrier[18] = 1.0
        refuse(RuntimeError, "wait", carrier.release)
        held.open.set()
        assert elements(handle.wait()) == [18, 19, 16, 17, 22, 23, 20, 21]
    assert not destination.is_owned() and carrier.primary_tiles == tiles((0, 2), (1, 2))
    carrier.release()


def test_a_dropped_projection_still_ends():
    carrier, destination = shelved(), CPU(4)
    with gate(Shelf, CPU) as held:
        project(full(carrier), ONE, destination)
        assert held.started.acquire(timeout=30)
        gc.collect()
        held.open.set()
        while destination.is_owned():
            pass
    assert values(destination) == [2, 3, 6, 7]


def test_a_failed_projection_gives_the_destination_back():
    carrier, roomy = shelved(), cpu([-1.0] * 8)
    carrier.promote(tiles((0, 2)))
    before = sets(carrier), carrier.version
    with gate(Shelf, CPU) as held:
        held.open.set()
        held.fails += [0, 1]
        for destination in (roomy, None):
            handle = project(full(carrier), PICK, destination)
            for _ in range(2):
                with pytest.raises(ConnectionError):
                    handle.wait()
            assert not roomy.is_owned() and (sets(carrier), carrier.version) == before
    assert roomy.version == 1
    assert elements(project(full(carrier), PICK, roomy).wait()) == [18, 19, 16, 17, 22, 23, 20, 21]


def test_a_destination_that_grew_for_nothing_is_empty_again():
    seed = Shelf([float(i) for i in range(SLOTS)])
    carrier = TiledEvictable(FileBacked(dtype=DType.Float32), seed, GRID, TILE)
    growing = FileBacked(dtype=DType.Float32)
    with gate(Shelf, FileBacked) as held:
        held.open.set()
        held.fails.append(0)
        with pytest.raises(ConnectionError):
            project(full(carrier), ONE, growing).wait()
    assert growing.size() == 0 and not growing.is_owned()
    assert elements(project(full(carrier), ONE, growing).wait()) == [2, 3, 6, 7]


def test_a_scatter_owns_its_compact_tensor_until_the_end():
    carrier, compact = shelved(), dense(range(8), (2, 4))
    with gate(Shelf, CPU) as held:
        handle = scatter(compact, full(carrier), TWO, "add")
        assert isinstance(handle, AwaitMove) and held.started.acquire(timeout=30) and not handle.done
        assert compact.carrier.is_owned() and compact.carrier[3] == 3.0
        refuse(RuntimeError, "owned", scatter, compact, full(carrier), TWO)
        held.open.set()
        result = handle.wait()
    assert not compact.carrier.is_owned() and handle.wait() is result
    assert elements(project(result, TWO).wait()) == [2 + 0, 3 + 1, 6 + 2, 7 + 3, 18 + 4, 19 + 5, 22 + 6, 23 + 7]


# --- Scatter (X59)


@pytest.mark.parametrize("placed", [CANONICAL, TRANSPOSED])
@pytest.mark.parametrize("budget", [None, 16])
def test_a_replacing_scatter_makes_a_new_carrier(placed, budget):
    carrier = cold(primary_budget_bytes=budget)
    before = sets(carrier), carrier.version
    compact = dense(range(100, 108), (2, 4))
    result = scatter(compact, full(carrier, placed), TWO).wait()
    chosen = tiles((1, 0), (1, 2))
    fresh = result.carrier
    assert type(fresh) is TiledEvictable and fresh is not carrier and fresh.version == 1
    assert (result.layout, result.offset) == (placed, 0) and fresh.primary_budget_bytes == budget
    assert fresh.valid_tiles == chosen
    if budget is None:
        assert fresh.primary_tiles == chosen == fresh.dirty_tiles
    else:
        assert fresh.primary_tiles == tiles((1, 2)) and fresh.residency_stats().peak_primary_bytes == 16
    assert elements(project(result, TWO).wait()) == list(range(100, 108))
    assert (sets(carrier), carrier.version) == before and compact.carrier.version == 0
    refuse(RuntimeError, "invalid", lambda: fresh[0])


@pytest.mark.parametrize("placed", [CANONICAL, TRANSPOSED])
@pytest.mark.parametrize("budget", [None, 16])
def test_an_adding_scatter_adds_to_the_templates_values(placed, budget):
    carrier = cold(primary_budget_bytes=budget)
    whole, compact = full(carrier, placed), dense(range(100, 108), (2, 4))
    chosen = elements(project(whole, TWO).wait())
    result = scatter(compact, whole, TWO, reduction="add").wait()
    assert elements(project(result, TWO).wait()) == [a + b for a, b in zip(chosen, range(100, 108), strict=True)]
    assert result.carrier.version == 1 and carrier.version == 0 and values(carrier) == list(range(SLOTS))


def test_implicit_tiles_count_as_zero_and_invalid_ones_are_refused():
    zero, hollow, compact = grid()._implicit_zero_like(), empty(), dense(range(8), (2, 4))
    assert elements(project(scatter(compact, full(zero), TWO, "add").wait(), TWO).wait()) == list(range(8))
    refuse(RuntimeError, "invalid", scatter, compact, full(hollow), TWO, "add")
    assert not compact.carrier.is_owned()
    assert scatter(compact, full(hollow), TWO).wait().carrier.valid_tiles == tiles((1, 0), (1, 2))


def test_a_scatter_checks_in_order():
    carrier = grid()
    whole = full(carrier)
    released, owned = dense(range(8), (2, 4)), dense(range(8), (2, 4))
    released.carrier.release()
    token = owned.carrier._claim_ownership()
    before = state(carrier)
    scatter_tiles = tiled_evictable.scatter
    for wrong in ("mean", None, 3):
        refuse(ValueError, "reduction", scatter_tiles, 1, 2, 3, wrong)
    refuse(TypeError, "template must be a Tensor", scatter_tiles, 1, 2, 3)
    refuse(TypeError, "TiledEvictable", scatter_tiles, 1, dense(range(8), (2, 4)), 3)
    refuse(ValueError, "mode", scatter_tiles, 1, Tensor(carrier, 0, layout((24,), (1,))), 3)
    for misfit in MISFITS:
        refuse(ValueError, "tile footprints", scatter_tiles, 1, Tensor(carrier, 0, misfit), 3)
    refuse(TypeError, "selection must be a TileSelection", scatter_tiles, 1, whole, 3)
    refuse(ValueError, "rank", scatter, 1, whole, TileSelection([[0]]))
    refuse(ValueError, "outside the grid", scatter, 1, whole, TileSelection([[0], [3]]))
    refuse(TypeError, "compact must be a Tensor", scatter, 1, whole, TWO)
    refuse(TypeError, "exactly the primary's class", scatter, whole, whole, TWO)
    on_file = Tensor(FileBacked(dtype=DType.Float32).new_like([0.0] * 8), 0, layout((2, 4), (1, 2)))
    refuse(TypeError, "exactly the primary's class", scatter, on_file, whole, TWO)
    refuse(RuntimeError, "released", scatter, released, whole, TWO)
    refuse(RuntimeError, "owned", scatter, owned, whole, TWO)
    whole_numbers = Tensor(CPU(7, dtype=DType.Int32), 0, layout((7,), (1,)))
    refuse(TypeError, "dtype", scatter, whole_numbers, whole, TWO)
    for shape, stride in (((8,), (1,)), ((4, 2), (1, 4)), ((2, 4), (4, 1)), (((2, 1), 4), ((1, 1), 2))):
        wrong = Tensor(cpu(range(8)), 0, layout(shape, stride))
        refuse(ValueError, "dense layout", scatter, wrong, whole, TWO)
    assert state(carrier) == before
    owned.carrier._relinquish_ownership(token)


def test_a_compact_tensor_may_start_anywhere():
    carrier = grid()
    compact = Tensor(cpu([-1.0, -1.0, 1.0, 2.0, 3.0, 4.0]), 2, layout((2, 2), (1, 2)))
    assert elements(project(scatter(compact, full(carrier), ONE).wait(), ONE).wait()) == [1, 2, 3, 4]


def test_the_scatter_of_indices_keeps_its_name():
    base = dense(range(3), (3,))
    indices = Tensor(CPU(0, dtype=DType.Int32).new_like([1]), 0, layout((1,), (1,)))
    assert elements(scatter(base, indices, dense([9], (1,)), 0)) == [0, 9, 2]
    assert elements(orlop.scatter(base=base, indices=indices, updates=dense([9], (1,)), axis=0)) == [0, 9, 2]
    compact = dense(range(4), (2, 2))
    named = scatter(compact=compact, template=full(grid()), selection=ONE, reduction="replace").wait()
    assert elements(project(named, ONE).wait()) == [0, 1, 2, 3]


def test_dtypes_without_addition_are_refused_before_anything():
    seed = CPU(0, dtype=DType.Bool).new_like([True] * SLOTS)
    carrier = TiledEvictable(seed, CPU(0, dtype=DType.Bool), GRID, TILE)
    compact = Tensor(CPU(0, dtype=DType.Bool).new_like([False] * 4), 0, layout((2, 2), (1, 2)))
    with pytest.raises(NotImplementedError):
        scatter(compact, full(carrier), ONE, "add")
    assert not compact.carrier.is_owned()
    assert elements(project(scatter(compact, full(carrier), ONE).wait(), ONE).wait()) == [False] * 4


# --- Gradients (X58, X60)


def test_the_gradient_of_a_projection_is_implicit_elsewhere():
    source = full(grid(), CANONICAL)
    for cotangent, expected in ((1.0, 1.0), (2.0, 3.0)):
        result = project(source, ONE).wait()
        assert type(result.autograd_ctx).__name__ == "_ProjectionOperation"
        result.backward(gradient=ones(result, cotangent))
        gradient = source.grad
        assert type(gradient.carrier) is TiledEvictable and gradient.layout == source.layout
        assert gradient.carrier.primary_tiles == tiles((1, 0))
        assert gradient.carrier.tile_state((0, 0)).location == "implicit"
        assert values(gradient.carrier) == [expected if slot in (2, 3, 6, 7) else 0.0 for slot in range(SLOTS)]


def test_a_gradient_keeps_layout_geometry_policy_and_budget():
    policy = Recording()
    source = full(cold(residency_policy=policy, primary_budget_bytes=32), TRANSPOSED)
    result = project(source, PICK).wait()
    result.backward(gradient=dense(range(8), (4, 2)))
    gradient = source.grad
    assert (gradient.layout, gradient.carrier.primary_budget_bytes) == (TRANSPOSED, 32)
    assert gradient.carrier.residency_policy is policy
    assert policy.calls == [(PICK.tile_set, "projection")]
    assert elements(project(gradient, PICK).wait()) == list(range(8))


def test_a_projection_is_recorded_only_where_gradients_are_wanted():
    source = full(grid())
    with no_grad():
        assert project(source, ONE).wait().autograd_ctx is None
    numbers = CPU(0, dtype=DType.Int32)
    integers = TiledEvictable(numbers.new_like(range(SLOTS)), numbers, GRID, TILE)
    assert project(full(integers), ONE).wait().autograd_ctx is None


def test_a_write_after_a_projection_is_noticed():
    source = full(grid())
    result = project(source, ONE).wait()
    source.carrier[0] = 5.0  # not even in the chosen tile
    with pytest.raises(RuntimeError, match="modified in-place"):
        result.backward(gradient=ones(result))
    assert source.grad is None


@pytest.mark.parametrize("reduction", ["replace", "add"])
def test_the_gradients_of_a_scatter(reduction):
    template, compact = full(cold()), dense(range(8), (2, 4))
    scattered = scatter(compact, template, TWO, reduction).wait()
    assert type(scattered.autograd_ctx).__name__ == "_ScatterOperation"
    cotangent = full(grid([10.0 * slot for slot in range(SLOTS)]))
    scattered.backward(gradient=cotangent)
    assert elements(compact.grad) == [20, 30, 60, 70, 180, 190, 220, 230]
    gradient = template.grad
    assert type(gradient.carrier) is TiledEvictable and gradient.layout == template.layout
    chosen = {2, 3, 6, 7, 18, 19, 22, 23}
    assert values(gradient.carrier) == [
        0.0 if reduction == "replace" and slot in chosen else 10.0 * slot for slot in range(SLOTS)
    ]
    locations = {gradient.carrier.tile_state(tile).location for tile in TWO.tile_set}
    assert (locations == {"implicit"}) == (reduction == "replace")


def test_a_dense_cotangent_serves_a_scatter_too():
    template, compact = full(cold(), TRANSPOSED), dense(range(8), (2, 4))
    scattered = scatter(compact, template, TWO, "add").wait()
    cotangent = Tensor(cpu(range(SLOTS)), 0, TRANSPOSED)
    scattered.backward(gradient=cotangent)
    assert elements(compact.grad) == elements(project(Tensor(grid(), 0, TRANSPOSED), TWO).wait())
    assert type(template.grad.carrier) is TiledEvictable and values(template.grad.carrier) == list(range(SLOTS))


def test_projecting_a_scatter_back_leaves_the_replaced_tiles_implicit():
    template, compact = full(grid()), dense(range(8), (2, 4))
    back = project(scatter(compact, template, TWO).wait(), TWO).wait()
    back.backward(gradient=ones(back))
    assert elements(compact.grad) == [1.0] * 8
    assert [template.grad.carrier.tile_state(tile).location for tile in TWO.tile_set] == ["implicit"] * 2
    assert template.grad.carrier.valid_tiles == ALL and template.grad.carrier.primary_tiles == NONE


@pytest.mark.parametrize("changed", ["compact", "template"])
def test_both_versions_of_a_scatter_are_checked(changed):
    template, compact = full(grid()), dense(range(8), (2, 4))
    result = project(scatter(compact, template, TWO).wait(), TWO).wait()
    {"compact": compact, "template": template}[changed].carrier[0] = 5.0
    with pytest.raises(RuntimeError, match="modified in-place"):
        result.backward(gradient=ones(result))
    assert compact.grad is None and template.grad is None


def test_gradients_of_tiles_add_up_along_every_path():
    source = full(grid())
    first, second, again = (project(source, TileSelection([[row], [0]])).wait() for row in (1, 0, 1))
    total = orlop.add(orlop.mul(first, 2.0), orlop.add(second, again))
    total.backward(gradient=ones(total))
    gradient = source.grad.carrier
    assert gradient.primary_tiles == tiles((0, 0), (1, 0)) and gradient.tile_state((0, 1)).location == "implicit"
    assert values(gradient) == [1.0, 1.0, 3.0, 3.0] * 2 + [0.0] * 16


@pytest.mark.parametrize("budget", [None, 16])
def test_gradients_of_operations_and_projections_add_up(budget):
    source = full(cold([slot - 4.0 for slot in range(SLOTS)], primary_budget_bytes=budget))
    whole = orlop.relu(source)
    whole.backward(gradient=ones(whole))
    for _ in range(2):
        part = project(source, ONE).wait()
        part.backward(gradient=ones(part))
    chosen = {2, 3, 6, 7}
    assert values(source.grad.carrier) == [(slot > 4) + 2.0 * (slot in chosen) for slot in range(SLOTS)]
    assert source.grad.carrier.valid_tiles == ALL


def test_an_operation_reads_what_a_scatter_made():
    source = full(cold())
    chosen = TileSelection([range(2), range(3)])
    compact = dense([-1.0] * SLOTS, (4, 6))
    result = orlop.reduce_sum(scatter(compact, source, chosen).wait(), "i j -> i")
    assert elements(result) == [-6.0] * 4
    result.backward(gradient=ones(result))
    assert elements(compact.grad) == [1.0] * SLOTS
    assert source.grad.carrier.primary_tiles == NONE and values(source.grad.carrier) == [0.0] * SLOTS


def test_grad_gives_tiled_gradients_without_touching_the_leaf():
    source = full(grid())
    result = project(source, ONE).wait()
    (gradient,) = orlop.grad(result, [source], ones(result), retain_graph=True)
    assert source.grad is None and gradient.carrier.primary_tiles == tiles((1, 0))
    result.backward(gradient=ones(result))
    assert source.grad.carrier is not gradient.carrier


def test_a_stored_gradient_shares_nothing_with_the_callers():
    template = full(grid())
    cotangent = full(grid([1.0] * SLOTS))
    scattered = scatter(dense(range(8), (2, 4)), template, TWO, "add").wait()
    scattered.backward(gradient=cotangent)
    cotangent.carrier[0] = 9.0
    assert values(template.grad.carrier) == [1.0] * SLOTS


def test_a_cotangent_is_checked():
    source = full(grid())
    result = project(source, ONE).wait()
    for wrong in (dense(range(4), (4,)), full(grid())):
        refuse(ValueError, "layout", lambda: result.backward(gradient=wrong))  # noqa: B023
    node = result.autograd_ctx
    refuse(ValueError, "layout", node.backward, dense(range(8), (4, 2)))
    refuse(RuntimeError, "no forward", node.forward, source)


def test_the_gradients_stay_within_the_budget():
    source = full(cold(primary_budget_bytes=16))
    result = project(source, PICK).wait()
    result.backward(gradient=dense(range(8), (4, 2)))
    assert source.grad.carrier.residency_stats().peak_primary_bytes <= 16
    assert elements(project(source.grad, PICK).wait()) == list(range(8))


# --- Policies (X56)


def test_policies_are_asked_once_for_what_runs():
    policy = Recording()
    carrier = cold(residency_policy=policy)
    whole, compact = full(carrier), dense(range(8), (2, 4))
    project(whole, PICK).wait()
    scatter(compact, whole, TWO, "add").wait()
    scatter(compact, whole, TWO, "replace").wait()
    refuse(ValueError, "outside", project, whole, TileSelection([[0], [3]]))
    assert policy.calls == [
        (PICK.tile_set, "projection"),
        (TWO.tile_set, "scatter"),
        (TWO.tile_set, "scatter"),
    ]


def test_a_plan_promotes_retains_and_evicts_around_a_projection():
    chosen = PICK.tile_set
    policy = Recording(ResidencyPlan(promote=tiles((0, 0)), evict=chosen))
    carrier = cold(residency_policy=policy)
    assert elements(project(full(carrier), PICK).wait()) == [18, 19, 16, 17, 22, 23, 20, 21]
    assert carrier.primary_tiles == tiles((0, 0))


def start_scatter(carrier):
    return scatter(dense(range(4), (2, 2)), full(carrier), TileSelection([[0], [0]]))


@pytest.mark.parametrize("start", [lambda carrier: project(full(carrier), ONE), start_scatter])
def test_a_plan_that_promotes_more_makes_no_call_wait(start):
    seed = Shelf([float(i) for i in range(SLOTS)])
    policy = Recording(ResidencyPlan(promote=tiles((1, 1))))
    carrier = TiledEvictable(CPU(0), seed, GRID, TILE, residency_policy=policy)
    with gate(Shelf, CPU) as held:
        handle = start(carrier)
        assert held.started.acquire(timeout=30) and not handle.done
        held.open.set()
        assert handle.wait() is not None
    assert carrier.tile_state((1, 1)).location == "primary"


def test_a_policy_that_fails_ends_the_call_before_any_transfer():
    policy = Recording()
    policy.answer = KeyError("mine")
    carrier = cold(residency_policy=policy)
    supplied, compact = CPU(8), dense(range(8), (4, 2))
    refuse(KeyError, "mine", project, full(carrier), PICK, supplied)
    refuse(KeyError, "mine", scatter, compact, full(carrier), PICK)
    assert carrier.primary_tiles == NONE and supplied.version == 0
    assert not supplied.is_owned() and not compact.carrier.is_owned()
    carrier.release()


# --- Lifetime, threads


def test_a_cycle_through_a_node_is_collected():
    policy = Recording()
    source = full(grid(residency_policy=policy))
    policy.result = project(source, ONE).wait()
    policy.result.backward(gradient=ones(policy.result), retain_graph=True)
    policy.source = source
    watched = weakref.ref(policy)
    del policy, source
    assert are_collected(watched)


def test_many_projections_at_once():
    carrier = cold(primary_budget_bytes=96)
    whole = full(carrier)
    picks = [TileSelection([[row], [column]]) for row in range(2) for column in range(3)]
    wanted = {pick: elements(project(whole, pick).wait()) for pick in picks}
    assert sorted(sum(wanted.values(), [])) == list(range(SLOTS))
    errors = []

    def work(pick):
        try:
            for _ in range(30):
                assert elements(project(whole, pick).wait()) == wanted[pick]
                carrier.evict(pick.tile_set)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(pick,)) for pick in picks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_forks_child_gets_its_carriers_back():
    carrier, destination, compact = shelved(), CPU(4), dense(range(8), (2, 4))
    with gate(Shelf, CPU) as held:
        others = TileSelection([[0], [0, 2]])
        handles = [project(full(carrier), ONE, destination), scatter(compact, full(carrier), others)]
        assert held.started.acquire(timeout=30)
        child = os.fork()
        if child == 0:
            try:
                good = not destination.is_owned() and not compact.carrier.is_owned() and carrier[2] == 2.0
                for handle in handles:
                    try:
                        good = handle.wait() is not None and handle is not handles[0] and good
                    except RuntimeError as error:
                        good = good and "fork" in str(error)
                os._exit(0 if good else 1)
            finally:
                os._exit(2)
        held.open.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert elements(handles[0].wait()) == [2, 3, 6, 7]
        handles[1].wait()
    assert not destination.is_owned() and not compact.carrier.is_owned()


def test_dispatch_execute_after_explicit_projection():
    source = full(cold([slot - 12.0 for slot in range(SLOTS)]))
    compact = project(source, PICK).wait()
    result = orlop.relu(compact)
    assert type(compact.carrier) is CPU and type(result.carrier) is CPU
    node = result.autograd_ctx
    assert node._operation_name == "relu" and node._dispatch_carrier_class is CPU
    assert node.inputs()[0] is compact and type(compact.autograd_ctx).__name__ == "_ProjectionOperation"
    assert elements(result) == [6, 7, 4, 5, 10, 11, 8, 9]
    result.backward(gradient=ones(result))
    assert elements(project(source.grad, PICK).wait()) == [1.0] * 8
