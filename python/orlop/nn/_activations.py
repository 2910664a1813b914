"""Activations as modules: each calls the operation of its name, element by element."""

from orlop import functional
from orlop._core import Tensor
from orlop.core.module import Module


class ELU(Module):
    """``orlop.elu``: x where x > 0, else exp(x) - 1.

    >>> from orlop import friendly, nn
    >>> friendly.to_list(nn.ELU()(friendly.tensor([2, -200])))
    [2.0, -1.0]
    """

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.elu(tensor)


class GELU(Module):
    """``orlop.gelu``: x times the standard normal distribution function of x, the exact form.

    >>> from orlop import friendly, nn
    >>> friendly.to_list(nn.GELU()(friendly.tensor([0, 10])))
    [0.0, 10.0]
    """

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.gelu(tensor)


class LeakyReLU(Module):
    """``orlop.leaky_relu``: x where x >= 0, else 0.01 x.

    >>> from orlop import friendly, nn
    >>> friendly.to_list(nn.LeakyReLU()(friendly.tensor([3, -100])))
    [3.0, -1.0]
    """

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.leaky_relu(tensor)


class ReLU(Module):
    """``orlop.relu``: x where x > 0, else 0.

    >>> from orlop import friendly, nn
    >>> friendly.to_list(nn.ReLU()(friendly.tensor([3, -2])))
    [3.0, 0.0]
    """

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.relu(tensor)


class Sigmoid(Module):
    """``orlop.sigmoid``: 1 / (1 + exp(-x)).

    >>> from orlop import friendly, nn
    >>> friendly.to_list(nn.Sigmoid()(friendly.tensor([0, 100])))
    [0.5, 1.0]
    """

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.sigmoid(tensor)


class SiLU(Module):
    """``orlop.silu``: x times its sigmoid.

    >>> from orlop import friendly, nn
    >>> friendly.to_list(nn.SiLU()(friendly.tensor([0, 100])))
    [0.0, 100.0]
    """

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.silu(tensor)


class Softplus(Module):
    """``orlop.softplus``: log(1 + exp(x)).

    >>> from orlop import friendly, nn
    >>> friendly.to_list(nn.Softplus()(friendly.tensor([-200, 200])))
    [0.0, 200.0]
    """

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.softplus(tensor)


class Tanh(Module):
    """``orlop.tanh``: The hyperbolic tangent.

    >>> from orlop import friendly, nn
    >>> friendly.to_list(nn.Tanh()(friendly.tensor([0, 20])))
    [0.0, 1.0]
    """

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.tanh(tensor)
