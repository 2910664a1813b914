"""Operands that lie in any way, nested, gapped, repeated or out of order, give the same on the CPU as on Generic."""

import math

import numpy as np
import orlop
import pytest
from arrays import array, carrier_of, leaf_index, memory, slots_of
from hypothesis import given, settings
from hypothesis import strategies as st
from orlop import CPU, Generic, Layout, Shape, Stride, Tensor

EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 65])
MOST = 4000  # elements of an operand

pytestmark = pytest.mark.usefixtures("unchanged_thread_count")


@st.composite
def shapes(draw, least=1, most=4):
    """Modes of at most MOST elements together; some are two modes in one."""
    modes = []
    for _ in range(draw(st.integers(least, most))):
        extent = draw(EXTENTS)
        if extent * math.prod(sizes(modes)) > MOST:
            extent = 1
        inner = draw(st.sampled_from([each for each in range(1, extent + 1) if extent % each == 0]))
        modes.append((inner, extent // inner) if draw(st.integers(0, 4)) == 0 else extent)
    return modes


def sizes(modes):
    return [math.prod(mode) if isinstance(mode, tuple) else mode for mode in modes]


def nested(modes, leaves):
    """One entry for each leaf, in the modes' nesting."""
    rest = iter(leaves)
    return [tuple(next(rest) for _ in mode) if isinstance(mode, tuple) else next(rest) for mode in modes]


@st.composite
def placements(draw, modes, is_injective=False):
    """A layout of these modes and the slot where it begins."""
    leaves = [leaf for mode in modes for leaf in (mode if isinstance(mode, tuple) else (mode,))]
    strides, step = [0] * len(leaves), draw(st.sampled_from([1, 1, 2, 5]))
    for position in draw(st.permutations(range(len(leaves)))):
        strides[position] = step
        step = step * leaves[position] + draw(st.sampled_from([0, 0, 1, 7]))
    if not is_injective:
        strides = [stride if draw(st.integers(0, 5)) else 0 for stride in strides]
    return Layout(Shape(tuple(modes)), Stride(tuple(nested(modes, strides)))), draw(st.sampled_from([0, 1, 3, 16]))


class Operand:
    """Slots of small whole numbers, whose sums are exact in any order, and a view of some of them."""

    def __init__(self, data, modes, kind=np.float32, choices=(-3, 3), is_injective=False):
        self.layout, self.offset = data.draw(placements(modes, is_injective))
        random = np.random.default_rng(data.draw(st.integers(0, 9)))
        self.slots = random.integers(*choices, self.offset + self.layout.cosize + 3, endpoint=True).astype(kind)

    def write(self, values):
        places = self.offset + leaf_index(self.layout)
        self.slots[places] = np.reshape(values, places.shape, order="F")
        return self

    def on(self, kind):
        return Tensor(carrier_of(self.slots, kind), self.offset, self.layout)


def expect_agreement(data, function, operands):
    """The same results and gradients, or the same refusal; on the CPU no slot of an operand changes."""
    orlop.set_thread_count(data.draw(st.sampled_from([1, 3])))
    seen = []
    for kind in (CPU, Generic):
        tensors = [operand.on(kind) for operand in operands]
        results = function(*tensors)
        results = results if isinstance(results, tuple) else (results,)
        leaves = [tensor for tensor in tensors if tensor.is_differentiable()]
        if results[0].autograd_ctx is not None:
            ones = np.arange(results[0].layout.cosize, dtype=np.float32) % 5 - 2
            results += orlop.grad(results[0], leaves, Tensor(carrier_of(ones, kind), 0, results[0].layout))
        seen.append([(result.layout, array(result)) for result in results])
        for tensor, operand in zip(tensors, operands, strict=True):
            slots = memory(tensor.carrier) if kind is CPU else slots_of(tensor.carrier)
            assert slots.tobytes() == operand.slots.tobytes()
    for (layout, values), (expected_layout, expected) in zip(*seen, strict=True):
        assert layout == expected_layout
        np.testing.assert_array_equal(values, expected)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_elementwise_operations_agree(data):
    modes = data.draw(shapes())
    widened = [
        [mode if data.draw(st.integers(0, 3)) else nested([mode], [1] * 2)[0] for mode in modes] for _ in range(3)
    ]
    operands = [Operand(data, each) for each in widened]
    function = data.draw(st.sampled_from([orlop.add, orlop.sub, orlop.mul, orlop.maximum, orlop.lt]))
    expect_agreement(data, function, operands[:2])
    expect_agreement(data, orlop.clamp, [Operand(data, modes), *operands[1:]])
    condition = Operand(data, widened[0], np.bool_, (0, 1))
    expect_agreement(data, orlop.select, [condition, *operands[1:]])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_reductions_agree(data):
    modes = data.draw(shapes(2, 5))
    names = [chr(ord("a") + i) for i in range(len(modes))]
    kept = data.draw(st.permutations(names))[: data.draw(st.integers(1, len(names) - 1))]
    command = f"{' '.join(names)} -> {' '.join(kept)}"
    function = data.draw(
        st.sampled_from([orlop.reduce_sum, orlop.reduce_max, orlop.reduce_min, orlop.argmax, orlop.argmin])
    )
    kind = data.draw(st.sampled_from([np.float32, np.int32]))
    # A maximum's gradient is shared among equal terms: thirds, whose sums in a repeated slot are not exact.
    shares = function in (orlop.reduce_max, orlop.reduce_min)
    expect_agreement(data, lambda x: function(x, command), [Operand(data, modes, kind, is_injective=shares)])
    axis = data.draw(st.integers(0, len(modes) - 1))
    expect_agreement(data, lambda x: orlop.cumsum(x, axis), [Operand(data, modes, kind)])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_orderings_and_indexings_agree(data):
    modes = data.draw(shapes())
    axis = data.draw(st.integers(0, len(modes) - 1))
    extent = sizes(modes)[axis]
    x, flag = Operand(data, modes), data.draw(st.booleans())
    expect_agreement(data, lambda x: tuple(orlop.sort(x, axis, flag)), [x])
    k = data.draw(st.integers(1, extent))
    expect_agreement(data, lambda x: tuple(orlop.topk(x, k, axis, flag)), [x])

    places = [data.draw(st.integers(1, extent))]
    chosen = np.random.default_rng(k).permutation(extent)[: places[0]]
    indices = Operand(data, places, np.int32, is_injective=True).write(chosen)
    updates = Operand(data, [*modes[:axis], *places, *modes[axis + 1 :]])
    expect_agreement(data, lambda x, i: orlop.gather(x, i, axis), [x, indices])
    expect_agreement(data, lambda x, i, u: orlop.scatter(x, i, u, axis), [x, indices, updates])
    repeated = Operand(data, places, np.int32, (0, extent - 1))
    expect_agreement(data, lambda x, i, u: orlop.scatter_add(x, i, u, axis), [x, repeated, updates])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_contractions_agree(data):
    rows, columns, terms = (data.draw(shapes(1, 1))[0] for _ in range(3))
    expect_agreement(data, orlop.matmul, [Operand(data, [rows, terms]), Operand(data, [columns, terms])])

    groups, few = data.draw(st.sampled_from([1, 1, 2, 3, 8])), st.integers(1, 3)
    inputs, outputs, rank = data.draw(few), groups * data.draw(few), data.draw(st.integers(1, 2))
    lengths = [data.draw(st.sampled_from([1, 4, 7, 16, 17])) for _ in range(rank)]
    widths = [data.draw(few) for _ in range(rank)]
    strides, spread, holes = ([data.draw(few) for _ in range(rank)] for _ in range(3))
    # So much padding that every window fits.
    padding = [((width - 1) * hole, data.draw(st.integers(0, 2))) for width, hole in zip(widths, holes, strict=True)]
    expect_agreement(
        data,
        lambda x, y: orlop.conv_general(
            x, y, strides, padding, lhs_dilation=spread, kernel_dilation=holes, feature_groups=groups
        ),
        [Operand(data, [data.draw(few), groups * inputs, *lengths]), Operand(data, [outputs, inputs, *widths])],
    )
