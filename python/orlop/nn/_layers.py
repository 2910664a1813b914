"""Modules with rules of their own about what goes in (M807, M808)."""

from typing import Any

from orlop import friendly
from orlop._core import Shape, Tensor, broadcast_to, permute
from orlop.core.module import Module
from orlop.core.parameter import Parameter
from orlop.nn import init
from orlop.nn._support import generator, positive


def _check_two_modes(tensor: Tensor, what: str, name: str) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"[{what}] {name} must be a Tensor: got {type(tensor).__name__}")
    if len(tensor.shape) != 2 or not all(isinstance(extent, int) for extent in tensor.shape):
        raise ValueError(f"[{what}] {name} must be a flat two-mode Tensor: its shape is {tensor.shape}")


class Linear(Module):
    """Linear(in_features, out_features, *, bias=True, rng=None, name=None): ``x @ weight + bias``.

    x is (batch, in_features) and the result (batch, out_features), as matmul contracts the second modes of x and of
    ``weight`` (out_features, in_features); ``bias`` is (out_features, 1), or None without a bias. Both are Float32 on
    CPU, drawn from ``rng.uniform(-b, b)`` with b = in_features ** -0.5, the weight first, in ordinal order; without an
    rng from a fresh generator. A Parameter elsewhere may take their place: ``layer.weight = Parameter(...)``.

    TypeError: features no integers, bias no bool. ValueError: features not > 0; forward: x is not flat two-mode or has
    another number of input features (M807).

    >>> from orlop import friendly
    >>> from orlop.nn import Linear
    >>> Linear(3, 5)(friendly.ones(2, 3)).shape
    (2, 5)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = True, rng: Any = None, name: str | None = None
    ) -> None:
        super().__init__(name=name)
        self.in_features = positive(in_features, "Linear", "in_features")
        self.out_features = positive(out_features, "Linear", "out_features")
        if not isinstance(bias, bool):
            raise TypeError(f"[Linear] bias must be a bool: got {type(bias).__name__}")
        rng = generator(rng)
        self.weight = Parameter(friendly.zeros(self.out_features, self.in_features))
        init.kaiming_uniform_(self.weight, self.in_features, rng=rng)
        self.bias = Parameter(friendly.zeros(self.out_features, 1)) if bias else None
        if self.bias is not None:
            init.kaiming_uniform_(self.bias, self.in_features, rng=rng)

    def forward(self, x: Tensor) -> Tensor:
        _check_two_modes(x, "Linear", "input")
        rows, features = x.shape
        if features != self.in_features:
            raise ValueError(f"[Linear] input features must be {self.in_features}: got {features}")
        product = x @ self.weight
        if self.bias is None:
            return product
        return product + broadcast_to(permute(self.bias, 1, 0), Shape(rows, self.out_features))


class MSELoss(Module):
    """The mean of the squared differences of prediction and target, of shape (1): ``backward()`` alone works on it.

    ValueError: the two are not flat two-mode, or their layouts differ (M808).

    >>> from orlop import friendly, nn
    >>> friendly.item(nn.MSELoss()(friendly.tensor([[1], [2]]), friendly.tensor([[1], [4]])))
    2.0
    """

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        _check_two_modes(prediction, "MSELoss", "prediction")
        _check_two_modes(target, "MSELoss", "target")
        if prediction.layout != target.layout:
            raise ValueError(f"[MSELoss] layouts must match: prediction {prediction.layout}, target {target.layout}")
        return friendly.mean((prediction - target) ** 2.0)
