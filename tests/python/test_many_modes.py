"""Tensors and layouts of very many modes: each step costs in proportion to their number."""

import functools
import gc
import math
import os
import time

import pytest

import orlop
from orlop import CPU, DType, FileBacked, Layout, Node, Shape, Stride, Tensor, Tree
from orlop.carriers.tiled_evictable import TiledEvictable

MODES = 100_000
SYMBOLS = [f"s{number}" for number in range(MODES)]
ALL = " ".join(SYMBOLS)
HALF = " ".join(SYMBOLS[: MODES // 2])
PAIRS = " ".join(f"({first} {second})" for first, second in zip(SYMBOLS[::2], SYMBOLS[1::2], strict=True))


def flat_layout():
    return Layout(Shape(*(1,) * MODES), Stride(*range(MODES)))


def nested_layout():
    return Layout(Shape(*((1, 1),) * (MODES // 2)), Stride(*((1, 0),) * (MODES // 2)))


def tensor(layout):
    return Tensor(CPU(layout.cosize), 0, layout)


def ids(numbers):
    return Tree(*map(Node.id, numbers))


CASES = {
    "permute": lambda flat, nested: orlop.permute(tensor(flat), tuple(reversed(range(MODES)))),
    "permute nested modes": lambda flat, nested: orlop.permute(tensor(nested), tuple(reversed(range(MODES // 2)))),
    "rearrange": lambda flat, nested: orlop.rearrange(tensor(flat), f"{ALL} -> {PAIRS}"),
    "rearrange nested modes": lambda flat, nested: orlop.rearrange(tensor(nested), f"{PAIRS} -> {ALL}"),
    "reduce": lambda flat, nested: orlop.reduce_sum(tensor(flat), f"{ALL} -> {HALF}"),
    "einsum of batches": lambda flat, nested: orlop.einsum(tensor(flat), tensor(flat), f"{ALL}, {ALL} -> {ALL}"),
    "einsum of batches and sums": lambda flat, nested: orlop.einsum(
        tensor(flat), tensor(flat), f"{ALL}, {ALL} -> {HALF}"
    ),
    "contraction": lambda flat, nested: orlop.einsum(tensor(flat), tensor(flat), f"{ALL}, {ALL} -> 1"),
    "slice": lambda flat, nested: tensor(flat)[(slice(None),) * MODES],
    "slice of nested modes": lambda flat, nested: tensor(nested)[(slice(None), 0) * (MODES // 4)],
    "squeeze": lambda flat, nested: orlop.squeeze(tensor(flat), -1),
    "unsqueeze beside nested modes": lambda flat, nested: orlop.unsqueeze(tensor(nested), -1),
    "compose with a shape": lambda flat, nested: nested.compose(Shape(*(1,) * (MODES // 2))),
    "compose with tiles": lambda flat, nested: nested.compose([Layout(Shape(1), Stride(1))] * (MODES // 2)),
    "divide by tiles": lambda flat, nested: nested.divide_tiler([Layout(Shape(1), Stride(1))] * (MODES // 2)),
    "zipped division": lambda flat, nested: nested.zipped_divide([Layout(Shape(1), Stride(1))] * (MODES // 2)),
    "extraction": lambda flat, nested: nested.extract_profile(ids(range(MODES // 2))),
    "coalescing mode by mode": lambda flat, nested: nested.coalesce_by_mode(ids(range(MODES // 2))),
    "reversed rearrangement": lambda flat, nested: Layout.reverse_rearrange(
        ids(reversed(range(MODES))), ids(range(MODES))
    ),
    "modes of a shape": lambda flat, nested: list(nested.shape),
    "modes of a stride": lambda flat, nested: list(nested.stride),
    "equality": lambda flat, nested: (flat == flat_layout(), nested == nested_layout()),
    "hash": lambda flat, nested: (hash(flat), hash(nested)),
    "text": lambda flat, nested: (repr(flat), repr(nested)),
    "coalescing": lambda flat, nested: (flat.coalesce(), nested.coalesce()),
}


def seconds_of(call):
    """Without the collector's, which looks at what other tests have left too."""
    gc.disable()
    try:
        start = time.process_time()
        call()
        return time.process_time() - start
    finally:
        gc.enable()


@functools.cache
def most_seconds():
    """About 1.5: on a slow machine more. Sanitizers slow the calls down, but not this loop."""
    if "ORLOP_SANITIZED" in os.environ:
        return math.inf
    return 10 * seconds_of(lambda: sum(number * number for number in range(2_000_000)))


@pytest.mark.parametrize("case", CASES)
def test_a_hundred_thousand_modes_take_no_time_to_speak_of(case):
    flat, nested = flat_layout(), nested_layout()
    # Work in proportion to the square of their number would take from two seconds to a minute, each time.
    assert any(seconds_of(lambda: CASES[case](flat, nested)) < most_seconds() for _ in range(3))


def refused(error, call):
    with pytest.raises(error):
        call()


def test_a_coordinate_that_does_not_fit_is_refused_at_once():
    nested = nested_layout()
    coordinate = ((0, 0),) * (MODES // 2 - 1) + ((0, 5),)
    assert seconds_of(lambda: refused(ValueError, lambda: nested(coordinate))) < most_seconds()


def test_operands_that_do_not_broadcast_are_refused_at_once():
    def operand(extent):
        return tensor(Layout(Shape(*((1, 1),) * (MODES // 2), (1, extent)), Stride(*((0, 0),) * (MODES // 2), (0, 0))))

    left, right = operand(2), operand(3)
    call = lambda: refused(ValueError, lambda: orlop.add(left, right))  # noqa: E731
    assert seconds_of(call) < most_seconds()


def tiled(layout):
    ones = (1,) * (MODES - 1)
    carrier = TiledEvictable(CPU(4), FileBacked(dtype=DType.Float32), (2, *ones), (2, *ones))
    return Tensor(carrier, 0, layout)


@pytest.mark.parametrize("kind", ["flat", "nested"])
def test_tiles_of_a_hundred_thousand_modes_take_no_time_to_speak_of(kind):
    first, other = {"flat": ((4, 1), (1, 4)), "nested": (((2, 2), (1, 2)), ((1, 1), (4, 4)))}[kind]
    layout = Layout(Shape(first[0], *(other[0],) * (MODES - 1)), Stride(first[1], *(other[1],) * (MODES - 1)))

    def compute():
        tensor = tiled(layout)
        orlop.add(tensor, tensor)

    assert seconds_of(compute) < most_seconds()
