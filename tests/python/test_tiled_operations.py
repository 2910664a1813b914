"""Direct operations on tiled carriers: results, traffic, budgets, policies, gradients, progress, refusals."""

import contextlib
import errno
import itertools
import math
import os
import pathlib
import subprocess
import sys
import threading
import time

import numpy as np
import orlop
import pytest
from arrays import array, canonical, carrier_of, slots_of, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from list_carrier import ComputingCarrier, ListCarrier, ListHooks
from orlop import CPU, Carrier, DType, FileBacked, Generic, Layout, Shape, Stride, Tensor, UnsupportedOperationPlan
from orlop._testing import IoScript, file_backed_io
from orlop.carriers.move import MoveOperation, registered_move_operation
from orlop.carriers.operation_capability import OperationCapability, register_operation_capabilities
from orlop.carriers.operation_policy import resolve_operation_plan
from orlop.carriers.tiled_evictable import ResidencyPlan, TiledEvictable, TileSet, streaming
from orlop.operation import Operation

FLOAT, INT = DType.Float32, DType.Int32
GRID, TILE = (2, 3), (2, 2)
ALL = TileSet(list(itertools.product(range(2), range(3))))


def slots(grid=GRID, tile=TILE, dtype=np.float32):
    return np.arange(math.prod(grid) * math.prod(tile), dtype=dtype)


def cold(values, grid=GRID, tile=TILE, *, kind=CPU, layout=None, **options):
    """A Tensor on a fresh tiled carrier, every tile in the secondary tier."""
    seed = carrier_of(np.ascontiguousarray(values).reshape(-1))
    primary = CPU(0, dtype=seed.dtype()) if kind is CPU else kind([], dtype=seed.dtype())
    carrier = TiledEvictable(primary, seed, grid, tile, **options)
    logical = tuple(g * t for g, t in zip(grid, tile, strict=True))
    return Tensor(carrier, 0, layout or canonical(logical))


def g(**options):
    """Grid (2,3), tile (2,2), slot s holds s."""
    return cold(slots(), **options)


def dense(x, kind=CPU):
    """The same elements on a dense carrier."""
    values = np.array([x.carrier[i] for i in range(x.carrier.size())], np.float32)
    return Tensor(carrier_of(values, kind), 0, x.layout)


def elements_of(x):
    return [x.carrier[x.offset + x.layout(i)] for i in range(x.size())]


def counted(result):
    """1, 2, 3 … in a result's layout, as its cotangent."""
    return Tensor(carrier_of(np.arange(1, result.size() + 1, dtype=np.float32)), 0, result.layout)


def extents(tensor):
    return tuple(extent for extent, _ in tensor.layout.infix())


def bits(result):
    assert (result.offset, result.layout) == (0, Layout(result.layout.shape, canonical(extents(result)).stride))
    return slots_of(result.carrier).view(np.uint32).tolist()


class Recording:
    """A residency policy that remembers what it was asked and gives one answer."""

    def __init__(self, answer=None):
        self.calls, self.answer = [], answer or ResidencyPlan()

    def plan(self, required, purpose):
        self.calls.append((required, purpose))
        return self.answer


# --- Results


def test_results_count_every_tile_whatever_is_resident():
    x, y = g(), g()
    x.carrier.promote(TileSet([(1, 1)]))
    x.carrier.evict(TileSet([(1, 1)]))
    sums = orlop.reduce_sum(x, "a b -> a")
    assert array(sums).tolist() == [60, 66, 72, 78]
    product = orlop.matmul(x, y)
    assert (product[0, 0], product[0, 3], product[3, 3]) == (880, 1060, 1294)
    for result in (sums, product):
        assert type(result.carrier) is CPU
        assert result.carrier.size() == result.layout.size
    assert x.carrier.version == 0


def test_dispatch_execute_directly_on_a_full_tiled_tensor():
    x = g()
    result = orlop.relu(x)
    assert type(result.carrier) is CPU
    assert result.layout == x.layout
    assert array(result).tolist() == array(dense(x)).tolist()
    node = result.autograd_ctx
    assert node._operation_name == "relu"
    assert node._dispatch_carrier_class is TiledEvictable
    assert [parent is x for parent in node.inputs()] == [True]
    assert x.autograd_ctx is None


STARTS = [
    lambda carrier: None,
    lambda carrier: carrier.promote(TileSet([(0, 0)])),
    lambda carrier: carrier.promote(TileSet([(1, 2)])),
    lambda carrier: (carrier.promote(TileSet([(1, 1)])), carrier.evict(TileSet([(1, 1)]))),
]


@pytest.mark.parametrize("kind", [CPU, Generic])
def test_budget_and_residency_change_no_bit_of_a_result(kind):
    random = np.random.default_rng(1)
    values, others = random.normal(size=(2, 24)).astype(np.float32)
    seen = set()
    for budget, start in itertools.product((16, 32, 96, None), STARTS):
        x, y = (cold(v, kind=kind, primary_budget_bytes=budget) for v in (values, others))
        start(x.carrier)
        seen.add(
            tuple(
                tuple(bits(result))
                for result in (
                    orlop.relu(x),
                    orlop.add(x, y),
                    orlop.mul(x, 3.0),
                    orlop.reduce_sum(x, "a b -> a"),
                    orlop.matmul(x, y),
                )
            )
        )
    assert len(seen) == 1
    # And pointwise results are those of dense operands.
    (relu, add, mul, _, _) = seen.pop()
    a, b = dense(x, kind), dense(y, kind)
    for ours, theirs in zip((relu, add, mul), (orlop.relu(a), orlop.add(a, b), orlop.mul(a, 3.0)), strict=True):
        assert list(ours) == bits(theirs)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_two_geometries_give_the_dense_results(data):
    size = st.integers(1, 4)
    grids, tiles = [], []
    rank = data.draw(st.integers(1, 3))
    counts = [data.draw(size) * data.draw(size) for _ in range(rank)]
    for _ in range(2):
        own = [count if data.draw(st.integers(0, 3)) else 1 for count in counts]
        tiles.append(
            [data.draw(st.sampled_from([t for t in range(1, extent + 1) if extent % t == 0])) for extent in own]
        )
        grids.append([extent // tile for extent, tile in zip(own, tiles[-1], strict=True)])
    x, y = (
        cold(
            np.random.default_rng(i).normal(size=math.prod(grids[i]) * math.prod(tiles[i])).astype(np.float32),
            grids[i],
            tiles[i],
            primary_budget_bytes=4 * math.prod(tiles[i]) if data.draw(st.booleans()) else None,
        )
        for i in range(2)
    )
    for function in (orlop.add, orlop.mul, orlop.elementwise_mul):
        expected = bits(function(dense(x), dense(y)))
        assert bits(function(x, y)) == expected
        assert bits(function(dense(x), y)) == expected
        assert bits(function(x, dense(y))) == expected


def turned(grid, tile, splits):
    """A layout of whole tiles in which the order of a tile's elements is turned over along every mode."""
    shape, stride, step = [], [], 1
    for count, extent, split in zip(grid, tile, splits, strict=True):
        shape.append(((split, extent // split), count))
        stride.append(((step * extent // split, step), step * extent))
        step *= extent * count
    return Layout(Shape(tuple(shape)), Stride(tuple(stride)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_tiles_in_another_order_give_the_dense_results(data):
    few = st.integers(1, 3)
    terms = data.draw(st.sampled_from([2, 4, 6, 12]))
    dividers = {n: [d for d in range(1, n + 1) if n % d == 0] for n in range(1, 13)}
    operands = []
    for seed in range(2):
        tile = [data.draw(st.sampled_from([1, 2, 4, 6])), data.draw(st.sampled_from(dividers[terms]))]
        grid = [data.draw(few), terms // tile[1]]
        layout = turned(grid, tile, [data.draw(st.sampled_from(dividers[extent])) for extent in tile])
        random = np.random.default_rng(seed)  # small whole numbers: every sum is exact
        values = random.integers(-9, 9, math.prod(grid) * math.prod(tile)).astype(np.float32)
        budget = data.draw(st.sampled_from([None, 1, 2]))
        budget = budget and budget * 4 * math.prod(tile)
        operands.append(cold(values, grid, tile, layout=layout, primary_budget_bytes=budget))
    pairs = [operands, [dense(x) for x in operands]]
    for function in (lambda x, _: orlop.relu(x), lambda x, _: orlop.mul(x, 0.5), orlop.matmul):
        seen = []
        for x, y in pairs:
            result = function(x, y)
            gradients = orlop.grad(result, [x, y], counted(result))
            reached = [gradient for gradient in gradients if gradient is not None]
            seen.append((result.layout, array(result), [(each.layout, elements_of(each)) for each in reached]))
        assert seen[0][0] == seen[1][0]
        np.testing.assert_array_equal(seen[0][1], seen[1][1])
        assert seen[0][2] == seen[1][2]


def test_operators_dispatch_on_the_tiled_operand_wherever_it_stands():
    x = g()
    d = dense(x)
    for result, expected in [
        (d + x, orlop.add(d, d)),
        (x + d, orlop.add(d, d)),
        (d * x, orlop.mul(d, d)),
        (2.0 * x, orlop.mul(d, 2.0)),
        (x * 2.0, orlop.mul(d, 2.0)),
        (orlop.matmul(d, x), orlop.matmul(d, d)),
    ]:
        assert array(result) == pytest.approx(array(expected), rel=1e-6)
        assert result.autograd_ctx._dispatch_carrier_class is TiledEvictable


def test_a_result_of_an_accumulator_keeps_it_across_steps():
    values = np.array([1.0, 2.0**-30, 2.0**-30, -1.0], np.float32)
    x = cold(values, (1, 4), (1, 1), primary_budget_bytes=4)
    assert orlop.reduce_sum(x, "a b -> a", accumulator_dtype=DType.Float64)[0] == 2.0**-29
    ones = cold(np.ones(4, np.float32), (1, 2), (1, 2))
    assert orlop.matmul(x, ones, accumulator_dtype=DType.Float64)[0, 0] == 2.0**-29


def test_int32_sums_are_exact_and_narrowed_once():
    most = 2**31 - 1
    x = cold(np.array([most, most, -most, -5], np.int32), (1, 4), (1, 1))
    assert orlop.reduce_sum(x, "a b -> a")[0] == most - 5
    y = cold(np.array([most, 1, most, 1], np.int32), (1, 2), (1, 2))
    assert orlop.matmul(x, y)[0, 0] == most - 5
    with pytest.raises(OverflowError):
        orlop.matmul(x, x)
    with pytest.raises(OverflowError, match="element 2"):
        orlop.mul(cold(np.array([1, 2, -most - 1], np.int32), (3,), (1,)), -1)


# --- Traffic and budgets


def test_relu_streams_under_a_budget_of_two_tiles():
    x = g(primary_budget_bytes=32)
    orlop.relu(x)
    stats = x.carrier.residency_stats()
    assert (stats.promotions, stats.misses, stats.hits, stats.evictions) == (6, 6, 0, 4)
    assert (stats.bytes_read, stats.bytes_written) == (96, 0)
    assert stats.peak_primary_bytes <= 32
    assert x.carrier.primary_tiles == TileSet([(0, 2), (1, 2)])


@pytest.mark.parametrize("budget", [None, 32])
def test_a_plan_that_promotes_what_is_required_is_the_default(budget):
    plain = g(primary_budget_bytes=budget)
    planned = g(primary_budget_bytes=budget, residency_policy=Recording(ResidencyPlan(promote=ALL)))
    for x in (plain, planned):
        orlop.relu(x)
    assert planned.carrier.residency_stats() == plain.carrier.residency_stats()
    assert planned.carrier.primary_tiles == plain.carrier.primary_tiles


def test_every_tile_is_promoted_once_without_a_budget():
    x, y = g(), g()
    orlop.matmul(x, y)
    for operand in (x, y):
        stats = operand.carrier.residency_stats()
        assert (stats.promotions, stats.bytes_read, stats.evictions) == (6, 96, 0)
        assert operand.carrier.primary_tiles == ALL


def test_a_contraction_reads_no_more_than_the_bound():
    x, y = g(primary_budget_bytes=16), g(primary_budget_bytes=16)
    orlop.matmul(x, y)
    stats = [operand.carrier.residency_stats() for operand in (x, y)]
    assert sum(one.bytes_read for one in stats) <= 240
    assert all(one.peak_primary_bytes <= 16 for one in stats)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_no_contraction_reads_more_than_the_bound(n, m, k, rows, columns):
    x = cold(slots((n, k), (rows, 2)), (n, k), (rows, 2), primary_budget_bytes=8 * rows)
    y = cold(slots((m, k), (columns, 2)), (m, k), (columns, 2), primary_budget_bytes=8 * columns)
    orlop.matmul(x, y)
    tile_x, tile_y = 8 * rows, 8 * columns
    all_x, all_y = n * k * tile_x, m * k * tile_y
    read = sum(operand.carrier.residency_stats().bytes_read for operand in (x, y))
    assert read <= min(all_x + n * all_y - (n - 1) * k * tile_y, all_y + m * all_x - (m - 1) * k * tile_x)


def test_the_smallest_budget_is_told_before_the_policy_is_asked():
    policy = Recording()
    x = g(primary_budget_bytes=16, residency_policy=policy)
    before = x.carrier.residency_stats()
    with pytest.raises(ValueError, match=r"16[^\n]*32|32[^\n]*16"):
        orlop.matmul(x, x)
    assert policy.calls == []
    assert x.carrier.residency_stats() == before
    x = g(primary_budget_bytes=32)
    assert bits(orlop.matmul(x, x)) == bits(orlop.matmul(g(), g()))
    assert x.carrier.residency_stats().peak_primary_bytes <= 32


def test_retained_tiles_need_their_own_room():
    policy = Recording(ResidencyPlan(retain=TileSet([(0, 0)])))
    x = g(primary_budget_bytes=16, residency_policy=policy)
    x.carrier.promote(TileSet([(0, 0)]))
    reads = x.carrier.residency_stats()
    with pytest.raises(ValueError, match=r"16[^\n]*32|32[^\n]*16"):
        orlop.relu(x)
    assert len(policy.calls) == 1
    assert x.carrier.residency_stats() == reads
    x = g(primary_budget_bytes=32, residency_policy=policy)
    x.carrier.promote(TileSet([(0, 0)]))
    orlop.relu(x)
    assert x.carrier.residency_stats().promotions == 6


def test_tiles_of_one_carrier_on_both_sides_count_once():
    x = g(primary_budget_bytes=16)
    orlop.add(x, x)
    assert x.carrier.residency_stats().bytes_read == 96
    assert x.carrier.residency_stats().misses == 6


def test_a_dense_operand_costs_no_budget():
    x = g(primary_budget_bytes=16)
    d = dense(g())
    result = orlop.matmul(d, x)
    assert x.carrier.residency_stats().bytes_read == 96
    assert x.carrier.residency_stats().peak_primary_bytes <= 16
    assert array(result) == pytest.approx(array(orlop.matmul(d, d)), rel=1e-6)


def memory_of_process(field):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


@pytest.mark.skipif("ORLOP_SANITIZED" in os.environ, reason="a sanitizer keeps freed memory for a while")
def test_a_file_four_times_the_budget_is_summed_within_it():
    tile = 1 << 18
    count = 16
    budget = count // 4 * tile * 4
    values = np.random.default_rng(2).normal(size=(count, tile)).astype(np.float32)
    seed = orlop.move(tensor(values.reshape(-1)), FileBacked(dtype=FLOAT)).carrier
    carrier = TiledEvictable(CPU(0), seed, (1, count), (1, tile), primary_budget_bytes=budget)
    x = Tensor(carrier, 0, canonical((1, count * tile)))
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak restarts
    before = memory_of_process("VmRSS")
    result = orlop.reduce_sum(x, "a b -> a")[0]
    grown = memory_of_process("VmHWM") - before
    exact = math.fsum(values.reshape(-1).tolist())
    terms = values.size
    unit = 2.0**-24
    assert abs(result - exact) <= (terms - 1) * unit / (1 - (terms - 1) * unit) * float(np.abs(values).sum())
    assert carrier.residency_stats().peak_primary_bytes <= budget
    assert grown < 2 * budget


# --- Failures


def derive(x):
    """A backward that reads x and writes gradients to files."""
    y = orlop.elementwise_mul(x, x)
    return orlop.grad(y, [x], dense(g()))[0]


@pytest.mark.parametrize(
    "function", [orlop.relu, lambda x: orlop.matmul(x, x), lambda x: orlop.reduce_sum(x, "a b -> a"), derive]
)
def test_a_failed_transfer_changes_nothing_but_residency(function):
    def make():
        seed = orlop.move(tensor(slots()), FileBacked(dtype=FLOAT)).carrier
        return Tensor(TiledEvictable(CPU(0), seed, GRID, TILE, primary_budget_bytes=32), 0, canonical((4, 6)))

    expected = slots_of(function(make()).carrier).tolist()
    for n in itertools.count(1):
        x, script = make(), IoScript(fail_at=n, fail_errno=errno.EIO)
        result = None
        with file_backed_io(script), contextlib.suppress(OSError):
            result = function(x)
        assert result is not None or script.calls >= n
        assert x.autograd_ctx is None
        assert x.carrier.version == 0
        assert [x.carrier[i] for i in range(24)] == slots().tolist()
        assert slots_of(function(x).carrier).tolist() == expected
        if result is not None:  # what failed could be done without, or nothing did
            assert slots_of(result.carrier).tolist() == expected
        if script.calls < n:
            assert n > 6
            return


# --- Tiles that are read as they come


def large(rows=256, **options):
    """Three tiles of 1 MiB in a file."""
    columns = (1 << 18) // rows
    values = np.random.default_rng(5).normal(size=3 * rows * columns).astype(np.float32)
    seed = orlop.move(tensor(values), FileBacked(dtype=FLOAT)).carrier
    carrier = TiledEvictable(CPU(0), seed, (1, 3), (rows, columns), **options)
    return Tensor(carrier, 0, canonical((rows, 3 * columns)))


OF_LARGE_TILES = [
    lambda x: orlop.reduce_sum(x, "a b -> a"),
    lambda x: orlop.reduce_sum(x, "a b -> a", accumulator_dtype=DType.Float64),
    orlop.relu,
    lambda x: orlop.add(x, x),
    lambda x: orlop.matmul(x, x),
]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("rows", [256, 2, 1])
@pytest.mark.parametrize("function", OF_LARGE_TILES)
def test_large_tiles_give_the_same_bits_on_their_way_and_in_place(function, rows):
    resident = large(rows)
    resident.carrier.promote(resident.carrier.valid_tiles)
    expected = bits(function(resident))
    for budget in (1, 2, 3, None):
        x = large(rows, primary_budget_bytes=budget and budget << 20)
        for _ in range(2):
            assert bits(function(x)) == expected
        stats = x.carrier.residency_stats()
        assert stats.bytes_read == stats.promotions << 20
        assert stats.hits + stats.misses == 6
        assert stats.peak_primary_bytes == min(budget or 3, 3) << 20
        assert len(x.carrier.primary_tiles) == (budget or 3)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("function", [OF_LARGE_TILES[0], orlop.relu])
def test_a_failed_read_of_a_part_of_a_tile_changes_nothing_but_residency(function):
    expected = bits(function(large()))
    for n in itertools.count(1):
        x, script = large(primary_budget_bytes=2 << 20), IoScript(fail_at=n, fail_errno=errno.EIO)
        result = None
        with file_backed_io(script), contextlib.suppress(OSError):
            result = function(x)
        assert result is not None or script.calls >= n
        assert (x.autograd_ctx, x.carrier.version) == (None, 0)
        assert x.carrier.residency_stats().peak_primary_bytes <= 2 << 20
        assert bits(function(x)) == expected
        if result is not None:
            assert bits(result) == expected
        if script.calls < n:
            assert n > 6
            return


# --- Policies


def test_one_call_of_the_policy_for_each_carrier_and_direction():
    policy = Recording()
    x = g(residency_policy=policy)
    y = orlop.relu(x)
    x.carrier.evict(ALL)
    y.backward(dense(g()))
    assert policy.calls == [(ALL, "operation"), (ALL, "backward")]
    assert x.carrier.primary_tiles == ALL
    assert x.grad.carrier.valid_tiles == ALL


def test_a_sum_saves_nothing_and_asks_no_policy_for_its_gradient():
    policy = Recording()
    for function in (lambda x: orlop.add(x, x), lambda x: orlop.mul(x, 3.0), lambda x: orlop.add(x, 0 * dense(g()))):
        x = g(residency_policy=policy)
        result = function(x)
        policy.calls.clear()
        result.backward(dense(g()))
        assert policy.calls == []
    x = g(residency_policy=policy)
    result = orlop.reduce_sum(x, "a b -> a")
    policy.calls.clear()
    result.backward(tensor(np.ones(4, np.float32)))
    assert policy.calls == []
    assert slots_of(x.grad.carrier).tolist() == [1.0] * 24


def test_carriers_are_asked_in_operand_order_once_each():
    order = []

    class Named(Recording):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def plan(self, required, purpose):
            order.append(self.name)
            return super().plan(required, purpose)

    y, x = g(residency_policy=Named("y")), g(residency_policy=Named("x"))
    orlop.matmul(x, y)
    orlop.add(x, x)
    assert order == ["x", "y", "x"]


def test_a_policy_that_fails_ends_the_operation_before_any_transfer():
    class Failing:
        def plan(self, required, purpose):
            raise LookupError("no plan")

    x = g(residency_policy=Failing())
    with pytest.raises(LookupError, match="no plan"):
        orlop.relu(x)
    assert x.carrier.residency_stats().promotions == 0


# --- Gradients


def gradients_of(function, inputs, cotangent):
    return orlop.grad(function(*inputs), inputs, cotangent)


@pytest.mark.parametrize(
    "function",
    [
        orlop.add,
        orlop.mul,
        orlop.elementwise_mul,
        orlop.matmul,
        lambda a, b: orlop.relu(a) + b * 3.0,
        lambda a, b: orlop.matmul(a, b, accumulator_dtype=DType.Float64),
    ],
)
@pytest.mark.parametrize("budget", [None, 16, 32])
@pytest.mark.parametrize("kind", [CPU, Generic])
def test_gradients_are_tiled_like_their_operands(function, budget, kind):
    values = np.random.default_rng(3).normal(size=(3, 24)).astype(np.float32)
    x, y = (cold(v, kind=kind, primary_budget_bytes=budget) for v in values[:2])
    a, b = dense(x, kind), dense(y, kind)
    shape = extents(function(a, b))
    cotangent = Tensor(carrier_of(values[2][: math.prod(shape)], kind), 0, canonical(shape))
    expected = gradients_of(function, (a, b), cotangent)
    for inputs in ((x, y), (x, b), (a, y)):
        for given_input, ours, theirs in zip(
            inputs, gradients_of(function, inputs, cotangent), expected, strict=True
        ):
            assert slots_of(ours.carrier) == pytest.approx(slots_of(theirs.carrier), rel=1e-5, abs=1e-5)
            assert type(ours.carrier) is type(given_input.carrier)
            assert ours.layout == given_input.layout
            if type(ours.carrier) is not TiledEvictable:
                continue
            assert ours.carrier.valid_tiles == ALL
            assert ours.carrier.primary_budget_bytes == budget
            stats = ours.carrier.residency_stats()
            assert budget is None or stats.peak_primary_bytes <= budget


def test_a_number_on_either_side_multiplies():
    x = g()
    result = orlop.mul(2.0, x)
    invocation = result.autograd_ctx._resolved_invocation
    assert [operand.role.value for operand in invocation.plan.operands] == ["weak_scalar", "tensor"]
    tripled = orlop.mul(x, 3.0)
    one = tensor(np.ones((4, 6), np.float32))
    tripled.backward(one, retain_graph=True)
    tripled.backward(one)
    assert type(x.grad.carrier) is TiledEvictable
    assert slots_of(x.grad.carrier).tolist() == [6.0] * 24


def test_backward_obeys_the_budget():
    x, y = g(primary_budget_bytes=16), g(primary_budget_bytes=16)
    product = orlop.matmul(x, y)
    for operand in (x, y):
        operand.carrier.reset_residency_stats()
    product.backward(tensor(np.ones((4, 4), np.float32)))
    for operand in (x, y):
        assert operand.carrier.residency_stats().peak_primary_bytes <= 16
        assert operand.grad.carrier.residency_stats().peak_primary_bytes <= 16


def test_a_cotangent_must_be_dense_and_of_the_result():
    x = g()
    node = orlop.relu(x).autograd_ctx
    with pytest.raises(TypeError, match="dense"):
        node.backward(g())
    with pytest.raises(TypeError):
        node.backward(tensor(np.ones((4, 6), np.int32)))
    with pytest.raises(ValueError, match="shape"):
        node.backward(tensor(np.ones((6, 4), np.float32)))


def test_changed_operands_end_a_backward():
    x = g()
    result = orlop.relu(x)
    x.carrier[0] = 7.0
    with pytest.raises(RuntimeError, match="modified in-place"):
        result.backward(dense(g()))


# --- Custom compute classes


class Store(ListCarrier):
    """A storage class of its own."""


class Compute(ListHooks, Carrier):
    """Computes relu, and remembers in which order tiles came and kernels ran."""

    firsts = (0.0, 2.0, 8.0, 10.0, 16.0, 18.0)  # of the six tiles

    def _supports_storage_dtype(self, dtype):
        return dtype is FLOAT

    def _is_mutable(self):
        return True

    def _dispatch_op(self, operation_name):
        return WatchedRelu()


class WatchedRelu(Operation):
    def _forward(self, x):
        values = [x.carrier[x.offset + x.layout(i)] for i in range(x.layout.size)]
        tile = Compute.firsts.index(values[0])
        if tile < 5:
            Compute.came_before.append(Compute.arrived[tile + 1].wait(Compute.patience))
        return Tensor(x.carrier.new_like([max(value, 0.0) for value in values]), 0, canonical(extents(x)))

    def backward(self, gradient):
        raise NotImplementedError


class WatchedMove(MoveOperation):
    def _copy(self, tensor, destination, output, element_count):
        for slot in range(element_count):
            destination[slot] = tensor.carrier[tensor.offset + slot]
        Compute.arrived[Compute.firsts.index(destination[0])].set()


register_operation_capabilities(Compute, [OperationCapability.from_plan(resolve_operation_plan("relu", FLOAT))])


@pytest.mark.parametrize(("budget", "is_ahead"), [(32, True), (16, False)])
def test_the_next_tile_is_on_its_way_while_a_kernel_runs(budget, is_ahead):
    Compute.arrived = [threading.Event() for _ in range(6)]
    Compute.came_before, Compute.patience = [], 20 if is_ahead else 0.01
    with registered_move_operation(Store, Compute, WatchedMove):
        carrier = TiledEvictable(Compute(), Store(slots().tolist()), GRID, TILE, primary_budget_bytes=budget)
        result = orlop.relu(Tensor(carrier, 0, canonical((4, 6))))
    assert Compute.came_before == [is_ahead] * 5
    assert [result.carrier[i] for i in range(24)] == slots().tolist()


def test_a_class_without_kernels_of_ours_computes_by_its_own_dispatch():
    random = np.random.default_rng(4)
    values, others = random.normal(size=(2, 24)).astype(np.float32)
    x, y = (cold(v, kind=ComputingCarrier, primary_budget_bytes=96) for v in (values, others))
    a, b = dense(x, ComputingCarrier), dense(y, ComputingCarrier)
    for ours, theirs in [
        (orlop.relu(x), orlop.relu(a)),
        (orlop.add(x, y), orlop.add(a, b)),
        (orlop.mul(x, 2.0), orlop.mul(a, 2.0)),
        (orlop.reduce_sum(x, "a b -> a"), orlop.reduce_sum(a, "a b -> a")),
        (orlop.matmul(x, y), orlop.matmul(a, b)),
        (orlop.matmul(a, y), orlop.matmul(a, b)),
    ]:
        assert type(ours.carrier) is ComputingCarrier
        assert bits(ours) == bits(theirs)
    small = cold(values, kind=ComputingCarrier, primary_budget_bytes=80)
    assert bits(orlop.relu(small)) == bits(orlop.relu(a))
    with pytest.raises(ValueError, match="96"):
        orlop.reduce_sum(small, "a b -> a")
    with pytest.raises(ValueError, match="96"):
        orlop.matmul(small, y)


# --- Progress


def test_progress_counts_the_steps():
    x = g(primary_budget_bytes=32)
    told = []
    with streaming.progress(told.append):
        orlop.relu(x)
    orlop.relu(x)
    assert [(one.step, one.steps) for one in told] == [(step, 6) for step in range(7)]
    assert {(one.operation, one.phase) for one in told} == {("relu", "forward")}
    assert told[0].primary_bytes == 0
    assert all(one.primary_bytes <= 32 for one in told)


def test_the_innermost_progress_callback_is_told():
    x, outer, inner = g(), [], []
    with streaming.progress(outer.append):
        with streaming.progress(inner.append):
            orlop.relu(x).backward(dense(x))
        assert outer == []
    assert [one.phase for one in inner] == ["forward"] * 7 + ["backward"] * 7
    with pytest.raises(TypeError):
        streaming.progress(3)


def test_a_progress_callback_that_raises_ends_the_operation_cleanly():
    x = g(primary_budget_bytes=32)

    def stop(told):
        assert x.carrier.residency_stats().peak_primary_bytes <= 32
        if told.step == 3:
            raise LookupError("enough")

    with streaming.progress(stop), pytest.raises(LookupError, match="enough"):
        orlop.relu(x)
    assert [x.carrier[i] for i in range(24)] == list(range(24))
    assert x.carrier.version == 0
    assert array(orlop.relu(x)).tolist() == array(dense(x)).tolist()


def test_a_progress_callback_may_not_move_tiles_nor_release():
    x = g(primary_budget_bytes=32)
    refused = []

    def meddle(told):
        for action in (
            lambda: x.carrier.promote(ALL),  # of a single tile it might turn out that it has just come
            lambda: x.carrier.evict(x.carrier.primary_tiles) if told.step else x.carrier.release(),
            x.carrier.release,
            lambda: orlop.relu(x),
        ):
            with pytest.raises(RuntimeError):
                action()
            refused.append(told.step)

    with streaming.progress(meddle):
        orlop.relu(x)
    assert len(refused) == 28


# --- Refusals


def test_names_beyond_the_six_are_refused_without_reading_anything():
    x = g()
    for call in (lambda: orlop.exp(x), lambda: orlop.sub(x, x), lambda: x.carrier.dispatch_op("cumsum")):
        with pytest.raises(NotImplementedError, match="does not support"):
            call()
    with pytest.raises(NotImplementedError, match="no_such_name has no operation definition"):
        x.carrier.dispatch_op("no_such_name")
    for view in (lambda: orlop.permute(x, 1, 0), lambda: x[0:2, :], lambda: orlop.reduce_sum(x, "a b -> b")):
        with pytest.raises(NotImplementedError, match=r"has no views, of which .* project\(\) the tiles"):
            view()
    assert x.carrier.residency_stats().promotions == 0
    x.carrier.release()
    for name in ("relu", "exp", "no_such_name"):
        with pytest.raises(RuntimeError, match="TiledEvictable is released"):
            x.carrier.dispatch_op(name)


def test_capabilities_are_the_primarys_six_with_mirrored_products():
    carrier = g().carrier
    names = {capability.operation for capability in carrier.operation_capabilities()}
    assert names == {"add", "elementwise_mul", "mul", "relu", "reduce_sum", "matmul"}
    assert carrier.supports_operation_plan(resolve_operation_plan("add", FLOAT, INT))
    assert not carrier.supports_operation_plan(resolve_operation_plan("add", INT, FLOAT))
    roles = [
        tuple(operand.role.value for operand in capability.operands)
        for capability in carrier.operation_capabilities("mul")
    ]
    assert set(roles) == {("tensor", "tensor"), ("tensor", "weak_scalar"), ("weak_scalar", "tensor")}
    carrier.release()
    assert {capability.operation for capability in carrier.operation_capabilities()} == names


def test_only_whole_tensors_whose_order_follows_the_tiles():
    x = g()
    with pytest.raises(UnsupportedOperationPlan, match="full geometry"):
        orlop.relu(Tensor(x.carrier, 0, Layout(Shape(2, 6), Stride(1, 4))))
    for layout in (
        Layout(Shape(4, 6), Stride(1, 0)),
        Layout(Shape(4, 6), Stride(6, 1)),
        Layout(Shape((2, 2), 6), Stride((2, 1), 4)),
        Layout(Shape((2, 2), (2, 3)), Stride((1, 8), (4, 2))),
    ):
        with pytest.raises(ValueError, match="tile footprints"):
            orlop.relu(Tensor(x.carrier, 0, layout))
    assert x.carrier.primary_tiles == TileSet([])
    transposed = Layout(Shape((2, 2), (2, 3)), Stride((4, 2), (1, 8)))
    y = Tensor(x.carrier, 0, transposed)
    assert array(orlop.relu(y)).tolist() == array(dense(y)).tolist()


def test_mixed_operands_are_dense_ones_on_the_primarys_class():
    x = g()
    d = dense(x)
    for other in (
        dense(x, Generic),
        Tensor(orlop.Evictable(carrier_of(slots()), FileBacked(dtype=FLOAT)), 0, x.layout),
        cold(slots(), kind=Generic),
    ):
        for function in (orlop.add, orlop.elementwise_mul, orlop.mul, orlop.matmul):
            for operands in ((x, other), (other, x)):
                with pytest.raises(TypeError):
                    function(*operands)
    with pytest.raises(ValueError, match="one size|contracted"):
        orlop.matmul(x, tensor(np.ones((2, 5), np.float32)))
    with pytest.raises(ValueError):
        orlop.add(x, tensor(np.ones((4, 5), np.float32)))
    d.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        orlop.add(x, d)


def test_invalid_tiles_are_no_operand():
    carrier = TiledEvictable(CPU(0), FileBacked(dtype=FLOAT), GRID, TILE)
    x = Tensor(carrier, 0, canonical((4, 6)))
    with pytest.raises(RuntimeError, match="invalid"):
        orlop.relu(x)


def test_however_many_tiles_are_invalid_the_refusal_is_at_once():
    tiles = 1 << 31
    carrier = TiledEvictable(CPU(0), FileBacked(dtype=FLOAT), (tiles,), (1,))
    x = Tensor(carrier, 0, Layout(Shape(tiles), Stride(1)))
    start = time.process_time()
    for call in (lambda: orlop.relu(x), lambda: orlop.add(x, x), lambda: orlop.mul(x, 2.0)):
        with pytest.raises(RuntimeError, match=f"{tiles} of {tiles} tiles are invalid"):
            call()
    assert time.process_time() - start < 2.0  # their steps alone would take many times as long


LITTLE_MEMORY = """if True:
    import resource, time
    from orlop import CPU, DType, FileBacked, Layout, Shape, Stride, Tensor, TiledEvictable, relu
    tiles = 1 << 30
    carrier = TiledEvictable(CPU(0), FileBacked(dtype=DType.Float32), (tiles,), (1,)).allocate_like(tiles)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    start = time.process_time()
    try:
        relu(Tensor(carrier, 0, Layout(Shape(tiles), Stride(1))))
    except MemoryError:
        print(time.process_time() - start)
"""


@pytest.mark.skipif("ORLOP_SANITIZED" in os.environ, reason="AddressSanitizer ends the process where new has no memory")
def test_steps_beyond_all_memory_are_refused_before_they_are_laid_out():
    run = subprocess.run([sys.executable, "-c", LITTLE_MEMORY], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 2.0
