from orlop._core import Layout
from orlop._core import Tensor
import orlop._core


def column_major(*extents) -> orlop._core.Layout:
    """
    Compact strides, first mode fastest: column_major(3, 2, 5) has strides (1, 3, 6).
    """

def row_major(*extents) -> orlop._core.Layout:
    """
    Compact strides, last mode fastest: row_major(3, 2, 5) has strides (10, 5, 1).
    """

def full(*extents, value: object, dtype: object | None = None) -> orlop._core.Tensor:
    """Every element `value`; Float32 by default."""

def zeros(*extents, dtype: object | None = None) -> orlop._core.Tensor:
    """Every element zero; Float32 by default."""

def ones(*extents, dtype: object | None = None) -> orlop._core.Tensor:
    """Every element 1.0, 1 or True; Float32 by default."""

def arange(count: int, *, dtype: object | None = None) -> orlop._core.Tensor:
    """0 to count - 1; Float32 by default."""

def tensor(values: object, *, layout: Layout | None = None, dtype: object | None = None) -> orlop._core.Tensor:
    """
    A CPU Tensor of nested lists or a native buffer, values[i][j] at [i, j]; or, with a layout, of an iterable by ordinal.
    """

def sum(tensor: Tensor) -> orlop._core.Tensor:
    """The sum of all elements, of shape (1)."""

def mean(tensor: Tensor) -> orlop._core.Tensor:
    """The mean of all elements, of shape (1)."""

def item(tensor: Tensor) -> object:
    """The value of a Tensor of exactly one element."""

def to_list(tensor: Tensor) -> list:
    """A new list of all values in ordinal order."""
