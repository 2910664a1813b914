"""Recording graphs and asking for gradients."""

from threading import local

from orlop._core import grad, is_grad_enabled, set_grad_enabled

__all__ = ["grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]


class no_grad:
    """A scope in which this thread records no graph; also a decorator.

    >>> import orlop
    >>> with orlop.no_grad():
    ...     orlop.is_grad_enabled()
    False
    >>> orlop.is_grad_enabled()
    True
    """

    def __init__(self):
        self._found = local()  # by thread; one object may be entered again inside itself

    def __enter__(self):
        self._found.__dict__.setdefault("values", []).append(is_grad_enabled())
        set_grad_enabled(False)

    def __exit__(self, *exception):
        set_grad_enabled(self._found.values.pop())
        return False

    def __call__(self, function):
        from functools import wraps

        @wraps(function)
        def without_graph(*args, **kwargs):
            with no_grad():
                return function(*args, **kwargs)

        return without_graph
