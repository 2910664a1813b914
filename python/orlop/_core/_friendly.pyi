from typing import Any
from orlop.carriers.dtype import DType
from orlop._core import Layout
from orlop._core import Tensor
def column_major(*extents: int) -> Layout:
    """
    Compact strides, first mode fastest: column_major(3, 2, 5) has strides (1, 3, 6).
    """

def row_major(*extents: int) -> Layout:
    """
    Compact strides, last mode fastest: row_major(3, 2, 5) has strides (10, 5, 1).
    """

def full(*extents: int, value: float, dtype: DType | None = None) -> Tensor:
    """Every element `value`; Float32 by default."""

def zeros(*extents: int, dtype: DType | None = None) -> Tensor:
    """Every element zero; Float32 by default."""

def ones(*extents: int, dtype: DType | None = None) -> Tensor:
    """Every element 1.0, 1 or True; Float32 by default."""

def arange(count: int, *, dtype: DType | None = None) -> Tensor:
    """0 to count - 1; Float32 by default."""

def tensor(values: object, *, layout: Layout | None = None, dtype: DType | None = None) -> Tensor:
    """
    A CPU Tensor of nested lists or a native buffer, values[i][j] at [i, j]; or, with a layout, of an iterable by ordinal.
    """

def sum(tensor: Tensor) -> Tensor:
    """The sum of all elements, of shape (1)."""

def mean(tensor: Tensor) -> Tensor:
    """The mean of all elements, of shape (1)."""

def item(tensor: Tensor) -> Any:
    """The value of a Tensor of exactly one element."""

def to_list(tensor: Tensor) -> list[Any]:
    """A new list of all values in ordinal order."""
