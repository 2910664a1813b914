"""Optimizers: they write Parameters by what their gradients say (M809)."""

import math
from collections.abc import Iterable
from numbers import Real

from orlop import friendly
from orlop._core import Tensor
from orlop.autograd import no_grad
from orlop.nn._support import write


class SGD:
    """SGD(parameters, lr): gradient descent, ``p -= lr * p.grad`` for every element.

    A Parameter without a gradient is skipped; one that is named twice counts once. What is written has its version
    raised, so that a graph made before ``step()`` no longer runs backward.

    TypeError: parameters no iterable of Tensors, lr no real number. ValueError: lr not positive and finite. ``step``:
    RuntimeError for a Parameter that cannot be written or whose values are evicted, before any is written.

    >>> from orlop import Parameter, friendly, nn
    >>> weight = Parameter(friendly.ones(2))
    >>> optimizer = nn.SGD([weight], lr=0.5)
    >>> friendly.sum(weight * 3).backward()
    >>> optimizer.step()
    >>> optimizer.zero_grad()
    >>> friendly.to_list(weight), weight.grad
    ([-0.5, -0.5], None)
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        found: dict[int, Tensor] = {}
        if isinstance(parameters, Tensor):
            raise TypeError("[SGD] parameters must be an iterable of Parameters: got one Tensor; put it into a list")
        try:
            entries = iter(parameters)
        except TypeError:
            given = type(parameters).__name__
            raise TypeError(f"[SGD] parameters must be an iterable of Parameters: got {given}") from None
        for parameter in entries:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"[SGD] every entry of parameters must be a Tensor: got {type(parameter).__name__}")
            found[id(parameter)] = parameter
        self.parameters = tuple(found.values())
        if not isinstance(lr, Real) or isinstance(lr, bool):
            raise TypeError(f"[SGD] lr must be a real number: got {type(lr).__name__}")
        if not 0 < lr < math.inf:
            raise ValueError(f"[SGD] lr must be positive and finite: got {lr}")
        self.lr = lr

    def step(self) -> None:
        """Moves every Parameter against its gradient."""
        moved = [parameter for parameter in self.parameters if parameter.grad is not None]
        for parameter in moved:
            if not parameter.is_mutable():
                raise RuntimeError(f"[SGD] a parameter cannot be written: {parameter!r}; nothing was written")
            parameter[0], parameter.grad[0]  # raises where the values are out of reach: in an evicted hierarchy
        for parameter in moved:
            write(parameter, self._stepped(parameter))

    @no_grad()
    def _stepped(self, parameter: Tensor) -> Tensor:
        try:
            return parameter - parameter.grad * self.lr
        except NotImplementedError:  # storage that does not compute: CPU does, to the same bits
            value, gradient = (friendly.tensor(friendly.to_list(tensor)) for tensor in (parameter, parameter.grad))
            return value - gradient * self.lr

    def zero_grad(self) -> None:
        """Forgets all gradients: ``p.grad = None``."""
        for parameter in self.parameters:
            parameter.grad = None
