"""The Tensor: a layout placed on a carrier."""

from orlop._core import Tensor

__all__ = ["Tensor"]


def __getattr__(name):
    if name in ("module", "parameter"):
        return __import__(f"{__name__}.{name}", fromlist=[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
