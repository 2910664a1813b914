"""Tensors beside NumPy arrays: what the tests of whole operations share."""

import ctypes
import math

import numpy as np
from list_carrier import ListCarrier

import orlop
from orlop import CPU, DType, Layout, Metal, Shape, Stride, Tensor
from orlop.core._representation import Subtensor, TensorRepresentation

DTYPES = {np.dtype(np.float32): DType.Float32, np.dtype(np.int32): DType.Int32, np.dtype(np.bool_): DType.Bool}


def numpy_type(dtype):
    return next(key for key, value in DTYPES.items() if value is dtype)


def canonical(extents):
    """The compact layout of a flat shape, first mode fastest."""
    return Layout(Shape(*extents), Stride(*(math.prod(extents[:i]) for i in range(len(extents)))))


def memory(carrier):
    """The slots of a CPU carrier as an array over the same memory."""
    kind = numpy_type(carrier.dtype())
    slots = (ctypes.c_char * (carrier.size() * kind.itemsize)).from_address(carrier.pointer())
    return np.frombuffer(slots, kind)


def slots_of(carrier):
    """A copy of the slots of any carrier."""
    if type(carrier) is CPU:
        return memory(carrier).copy()
    return np.array([carrier[i] for i in range(carrier.size())], numpy_type(carrier.dtype()))


def carrier_of(slots, kind=CPU):
    """A fresh carrier that holds these slots."""
    dtype = DTYPES[slots.dtype]
    if kind is Metal:
        return Metal(0, dtype=dtype).new_like(slots.tolist())
    if kind is not CPU:
        return kind(slots.tolist(), dtype=dtype)
    carrier = CPU(len(slots), dtype=dtype)
    memory(carrier)[:] = slots
    return carrier


def leaf_index(layout):
    """The index at every coordinate of the leaves, as an array with one axis per leaf."""
    leaves = layout.infix()
    grids = np.indices([extent for extent, _ in leaves])
    return sum((grids[axis] * stride for axis, (_, stride) in enumerate(leaves)), start=np.zeros(grids.shape[1:], int))


def tensor(values, strides=None, offset=0, kind=CPU):
    """`values` in fresh storage: canonical, or with these strides from this slot on."""
    values = np.asarray(values)
    layout = canonical(values.shape) if strides is None else Layout(Shape(*values.shape), Stride(*strides))
    slots = np.zeros(offset + layout.cosize, values.dtype)
    slots[offset + leaf_index(layout)] = values
    return Tensor(carrier_of(slots, kind), offset, layout)


def array(result):
    """The elements of a Tensor, with one axis per leaf."""
    return slots_of(result.carrier)[result.offset + leaf_index(result.layout)]


def floats(*values):
    return tensor(np.array(values, np.float32))


def ints(*values):
    return tensor(np.array(values, np.int32))


def expect(result, expected):
    """A fresh canonical Tensor with the same bits, any NaN for a NaN."""
    assert result.offset == 0
    assert result.layout == canonical(tuple(result.shape))
    values, expected = array(result), np.asarray(expected)
    assert values.dtype == expected.dtype
    np.testing.assert_array_equal(values, expected)
    if values.dtype == np.float32:
        ordered = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(values[ordered]), np.signbit(expected[ordered]))


def numbers(kind, size, seed):
    """Random elements of a NumPy type; among floats the special ones too."""
    random = np.random.default_rng(seed)
    if kind is np.bool_:
        return random.random(size) < 0.5
    if kind is np.int32:
        return random.integers(-40000, 40000, size).astype(np.int32)
    specials = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, 3e38, -3e38]
    values = (random.standard_normal(size) * 10).astype(np.float32)
    chosen = random.random(size) < 0.2
    values[chosen] = random.choice(np.array(specials, np.float32), np.count_nonzero(chosen))
    return values


WAYS = ["contiguous", "strided", "widened", "repeated"]


def placed(values, way):
    """A Tensor of these elements, lying in memory in this way, and its elements; `widened` and `repeated` keep the
    first element only."""
    size = len(values)
    if way == "contiguous":
        return tensor(values), values
    if way == "strided":
        return tensor(values, strides=[3], offset=2), values
    if way == "widened":
        return tensor(values[:1]), np.full(size, values[0])
    assert way == "repeated"
    return tensor(np.full(size, values[0]), strides=[0], offset=1), np.full(size, values[0])


def expect_slopes(compute, model, operands):
    """The gradients of `compute` at these float32 operands agree with central differences of `model` in binary64."""
    cotangent = np.random.default_rng(1).standard_normal(len(operands[0])).astype(np.float32)
    ways = ["contiguous", "strided", "contiguous"]
    leaves = [placed(values, way)[0] for values, way in zip(operands, ways)]
    gradients = orlop.grad(compute(*leaves), leaves, tensor(cotangent))
    exact = [values.astype(np.float64) for values in operands]
    step = 1e-6
    for position, gradient in enumerate(gradients):
        above, below = list(exact), list(exact)
        above[position] = exact[position] + step
        below[position] = exact[position] - step
        slope = (model(*above) - model(*below)) / (2 * step)
        assert gradient.layout == leaves[position].layout
        np.testing.assert_allclose(array(gradient), cotangent * slope, rtol=1e-5, atol=1e-6)


def compound():
    """A block-scaled Tensor of 32 elements: more than one subtensor."""
    element, scale = (
        Subtensor(dtype, ListCarrier([0] * size, dtype=dtype), 0, canonical((size,)))
        for dtype, size in ((DType.E2M1, 32), (DType.E8M0, 1))
    )
    shared = Layout(Shape(32), Stride(0))
    return Tensor._from_representation(TensorRepresentation(DType.MXFP4, (element, scale), (shared,)))
