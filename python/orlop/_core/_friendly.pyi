from typing import Any
from orlop.carriers.dtype import DType
from orlop._core import Layout
from orlop._core import Shape
from orlop._core import Stride
from orlop._core import Tensor
def column_major(*extents: int) -> Layout:
    """
    Compact strides, first mode fastest: column_major(3, 2, 5) has strides (1, 3, 6).
    ValueError unless there are extents, all positive integers (M601).

    >>> from orlop import friendly
    >>> friendly.column_major(3, 2, 5)
    Layout( Shape<(3, 2, 5)>, Stride<(1, 3, 6)>)
    """

def row_major(*extents: int) -> Layout:
    """
    Compact strides, last mode fastest: row_major(3, 2, 5) has strides (10, 5, 1).
    ValueError unless there are extents, all positive integers (M601).

    >>> from orlop import friendly
    >>> friendly.row_major(3, 2, 5)
    Layout( Shape<(3, 2, 5)>, Stride<(10, 5, 1)>)
    """

def full(*extents: int, value: float, dtype: DType | None = None) -> Tensor:
    """
    A CPU Tensor, first mode fastest, every element `value`; dtype is Float32, the default, Int32 or Bool (M601).
    ValueError for extents that are no positive integers or another dtype; TypeError, OverflowError for the value.

    >>> from orlop import friendly
    >>> friendly.to_list(friendly.full(2, value=0.5))
    [0.5, 0.5]
    """

def zeros(*extents: int, dtype: DType | None = None) -> Tensor:
    """
    A CPU Tensor of zeros; extents, dtype and errors as in full.

    >>> from orlop import DType, friendly
    >>> friendly.to_list(friendly.zeros(2, dtype=DType.Bool))
    [False, False]
    """

def ones(*extents: int, dtype: DType | None = None) -> Tensor:
    """
    A CPU Tensor of ones: 1.0, 1 or True; extents, dtype and errors as in full.

    >>> from orlop import friendly
    >>> friendly.ones(2, 3).shape
    (2, 3)
    >>> friendly.ones((2, 3))
    Traceback (most recent call last):
        ...
    ValueError: [friendly] extents must be positive integers: got tuple; give one argument for each ...
    """

def arange(count: int, *, dtype: DType | None = None) -> Tensor:
    """
    A CPU Tensor of one mode, 0 to count - 1, in Float32, the default, or Int32. TypeError for Bool; ValueError for a
    count that is no positive integer.

    >>> from orlop import DType, friendly
    >>> friendly.to_list(friendly.arange(3, dtype=DType.Int32))
    [0, 1, 2]
    """

def tensor(values: object, *, layout: Layout | None = None, dtype: DType | None = None) -> Tensor:
    """
    A CPU Tensor of nested lists or a native buffer, values[i][j] at [i, j]; or, with a layout, of an iterable by
    ordinal, one value for each. dtype is Float32, the default, Int32 or Bool (M602).
    ValueError for values that are no rectangle, for another number of them or another dtype; TypeError for a value that is
    no number, or that an Int32 slot would round; OverflowError for one that leaves Int32.

    >>> from orlop import friendly
    >>> friendly.tensor([[1, 2, 3], [4, 5, 6]])[1, 0]
    4.0
    >>> friendly.tensor(range(4), layout=friendly.row_major(2, 2))[1]
    1.0
    >>> friendly.tensor([[1, 2], [3]])
    Traceback (most recent call last):
        ...
    ValueError: [friendly] values must be rectangular: a level or a length differs at depth 1
    """

def sum(tensor: Tensor) -> Tensor:
    """
    The sum of all elements, of shape (1), where the Tensor is. ValueError for nested modes or more than 26 (M603).

    >>> from orlop import friendly
    >>> total = friendly.sum(friendly.tensor([[1, 2], [3, 6]]))
    >>> total.shape, friendly.item(total)
    ((1,), 12.0)
    """

def mean(tensor: Tensor) -> Tensor:
    """
    The mean of all elements, of shape (1), where the Tensor is. ValueError for nested modes or more than 26 (M603).

    >>> from orlop import friendly
    >>> friendly.item(friendly.mean(friendly.tensor([[1, 2], [3, 6]])))
    3.0
    """

def item(tensor: Tensor) -> Any:
    """
    The value of a Tensor of exactly one element, as a Python number. ValueError for another size.

    >>> from orlop import friendly
    >>> friendly.item(friendly.full(1, value=0.5))
    0.5
    >>> friendly.item(friendly.zeros(2))
    Traceback (most recent call last):
        ...
    ValueError: [friendly] item takes a Tensor of exactly one element: it has 2
    """

def to_list(tensor: Tensor) -> list[Any]:
    """
    A new list of all values in ordinal order.

    >>> from orlop import friendly
    >>> friendly.to_list(friendly.tensor([[1, 2], [3, 4]]))
    [1.0, 3.0, 2.0, 4.0]
    """
