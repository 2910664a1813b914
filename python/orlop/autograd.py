"""Recording graphs and asking for gradients."""

from collections.abc import Callable
from threading import local
from typing import TypeVar

from orlop._core import grad, is_grad_enabled, set_grad_enabled

__all__ = ["grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]

_Function = TypeVar("_Function", bound=Callable[..., object])


class no_grad:
    """A scope in which this thread records no graph; also a decorator.

    >>> import orlop
    >>> with orlop.no_grad():
    ...     orlop.is_grad_enabled()
    False
    >>> orlop.is_grad_enabled()
    True
    """

    def __init__(self) -> None:
        self._found = local()  # by thread; one object may be entered again inside itself

    def __enter__(self) -> None:
        self._found.__dict__.setdefault("values", []).append(is_grad_enabled())
        set_grad_enabled(False)

    def __exit__(self, *exception: object) -> None:
        set_grad_enabled(self._found.values.pop())

    def __call__(self, function: _Function) -> _Function:
        from functools import wraps

        @wraps(function)
        def without_graph(*args, **kwargs):
            with no_grad():
                return function(*args, **kwargs)

        return without_graph
