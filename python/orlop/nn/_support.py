"""What initialisers, layers and optimizers share: checked integers, generators, writing a whole Tensor."""

import operator
from typing import Any

from orlop import friendly
from orlop._core import Tensor, reshape
from orlop.autograd import no_grad


def positive(value: int, what: str, name: str) -> int:
    """An integer greater than zero. TypeError, ValueError."""
    if isinstance(value, bool):
        raise TypeError(f"[{what}] {name} must be an integer, not a bool")
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"[{what}] {name} must be an integer: got {type(value).__name__}")
    number = operator.index(value)
    if number <= 0:
        raise ValueError(f"[{what}] {name} must be > 0: got {number}")
    return number


def generator(rng: Any) -> Any:
    """``rng``, or a fresh generator for None."""
    if rng is not None:
        return rng
    from random import Random

    return Random()


def write(tensor: Tensor, values: Tensor) -> None:
    """Writes as many ``values`` in ordinal order: in one go where the carrier scatters, otherwise one by one."""
    try:
        with no_grad():
            tensor.carrier.scatter(reshape(values, tensor.layout.shape), tensor, tensor.layout)
    except NotImplementedError:
        for ordinal, value in enumerate(friendly.to_list(values)):
            tensor[ordinal] = value
