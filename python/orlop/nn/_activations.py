"""Activations as modules: each calls the operation of its name, element by element."""

from orlop import functional
from orlop._core import Tensor
from orlop.core.module import Module


class ELU(Module):
    """``orlop.elu``: x where x > 0, else exp(x) - 1."""

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.elu(tensor)


class GELU(Module):
    """``orlop.gelu``: x times the standard normal distribution function of x, the exact form."""

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.gelu(tensor)


class LeakyReLU(Module):
    """``orlop.leaky_relu``: x where x >= 0, else 0.01 x."""

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.leaky_relu(tensor)


class ReLU(Module):
    """``orlop.relu``: x where x > 0, else 0."""

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.relu(tensor)


class Sigmoid(Module):
    """``orlop.sigmoid``: 1 / (1 + exp(-x))."""

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.sigmoid(tensor)


class SiLU(Module):
    """``orlop.silu``: x times its sigmoid."""

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.silu(tensor)


class Softplus(Module):
    """``orlop.softplus``: log(1 + exp(x))."""

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.softplus(tensor)


class Tanh(Module):
    """``orlop.tanh``: The hyperbolic tangent."""

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.tanh(tensor)
