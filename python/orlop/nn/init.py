"""First values of Parameters, written in place (M810).

>>> import random
>>> from orlop import Parameter, friendly
>>> from orlop.nn import init
>>> weight = Parameter(friendly.zeros(2, 3))
>>> init.fill_(weight, 0.5)
>>> weight[1, 2]
0.5
>>> init.kaiming_uniform_(weight, 3, rng=random.Random(0))
>>> all(abs(value) <= 3**-0.5 for value in friendly.to_list(weight))
True
"""

from typing import Any

from orlop import friendly
from orlop._core import Tensor
from orlop.nn._support import generator, positive, write

__all__ = ["fill_", "kaiming_uniform_"]


def fill_(parameter: Tensor, value: float) -> None:
    """Writes ``value`` to every element, with the conversions and refusals of ``friendly.full``.

    >>> from orlop import friendly, nn
    >>> weight = friendly.zeros(2)
    >>> nn.init.fill_(weight, 0.5)
    >>> friendly.to_list(weight)
    [0.5, 0.5]
    """
    _check_tensor(parameter, "fill_")
    write(parameter, friendly.full(parameter.size(), value=value, dtype=parameter.dtype()))


def kaiming_uniform_(parameter: Tensor, fan_in: int, *, rng: Any) -> None:
    """Writes ``rng.uniform(-b, b)``, b = fan_in ** -0.5, to every element in ordinal order; None is a fresh generator.

    TypeError: fan_in no integer. ValueError: fan_in not > 0. Nothing is written where the generator fails.

    >>> import random
    >>> from orlop import friendly, nn
    >>> weight = friendly.zeros(2)
    >>> nn.init.kaiming_uniform_(weight, 4, rng=random.Random(0))
    >>> all(abs(value) <= 0.5 for value in friendly.to_list(weight))
    True
    """
    _check_tensor(parameter, "kaiming_uniform_")
    bound = positive(fan_in, "kaiming_uniform_", "fan_in") ** -0.5
    rng = generator(rng)
    draws = [rng.uniform(-bound, bound) for _ in range(parameter.size())]
    write(parameter, friendly.tensor(draws, dtype=parameter.dtype()))


def _check_tensor(parameter: Tensor, what: str) -> None:
    if not isinstance(parameter, Tensor):
        raise TypeError(f"[{what}] parameter must be a Tensor: got {type(parameter).__name__}")
    parameter._require_single_subtensor("mutation")
