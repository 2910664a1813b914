"""Tensors beside NumPy arrays: what the tests of whole operations share."""

import ctypes
import math

import numpy as np

from orlop import CPU, DType, Layout, Shape, Stride, Tensor

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
