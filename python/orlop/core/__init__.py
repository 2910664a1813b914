"""The Tensor: a layout placed on a carrier."""

from orlop._core import Tensor

__all__ = ["Tensor"]
