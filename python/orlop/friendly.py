"""Friendly creation and extraction: CPU tensors from extents and values, and values back.

>>> from orlop import friendly
>>> t = friendly.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
>>> t.shape, t[1, 0]
((2, 3), 4.0)
>>> friendly.to_list(t)  # in ordinal order, first mode fastest
[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
>>> friendly.item(friendly.sum(t)), friendly.item(friendly.mean(t))
(21.0, 3.5)
"""

from orlop._core import Tensor
from orlop._core._friendly import (
    arange,
    column_major,
    full,
    item,
    mean,
    ones,
    row_major,
    sum,
    tensor,
    to_list,
    zeros,
)

__all__ = [
    "arange",
    "column_major",
    "full",
    "item",
    "mean",
    "ones",
    "rand",
    "randn",
    "row_major",
    "sum",
    "tensor",
    "to_list",
    "zeros",
]


def _drawn(extents, draw):
    from array import array

    layout = zeros(*extents).layout  # what cannot be is refused before anything is drawn
    return tensor(array("f", (draw() for _ in range(layout.size))), layout=layout)


def _source(rng):
    if rng is not None:
        return rng
    from random import Random

    return Random()


def rand(*extents: int, rng: object = None) -> Tensor:
    """Float32 numbers in [0, 1): one ``rng.random()`` per ordinal; a fresh generator where none is given.

    >>> import random
    >>> from orlop import friendly
    >>> t = friendly.rand(2, 3, rng=random.Random(0))
    >>> t.shape, 0 <= t[1, 2] < 1
    ((2, 3), True)
    """
    rng = _source(rng)
    return _drawn(extents, rng.random)


def randn(*extents: int, rng: object = None) -> Tensor:
    """Float32 standard normal numbers: one ``rng.gauss(0.0, 1.0)`` per ordinal; a fresh generator by default.

    >>> import random
    >>> from orlop import friendly
    >>> friendly.randn(2, 3, rng=random.Random(0))[1, 2] == friendly.randn(6, rng=random.Random(0))[5]
    True
    """
    rng = _source(rng)
    return _drawn(extents, lambda: rng.gauss(0.0, 1.0))
