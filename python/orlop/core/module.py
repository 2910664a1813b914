"""Module: parts of a model that hold Parameters and other Modules (M803 to M805)."""

from collections.abc import Iterator
from typing import Any

from orlop.core.parameter import Parameter, checked_name

__all__ = ["Module"]


class Module:
    """Module(*, name=None): derive from it and write ``forward``; calling the module calls that.

    Every public attribute (no leading underscore) that holds a Parameter or a Module registers; assigning something
    else to it or deleting it ends that. Modules may be shared and may form cycles.

    >>> from orlop import Module, Parameter, friendly
    >>> class Scale(Module):
    ...     def __init__(self, factor, *, name=None):
    ...         super().__init__(name=name)
    ...         self.factor = Parameter(friendly.full(1, value=factor))
    ...
    ...     def forward(self, tensor):
    ...         return tensor * self.factor
    >>> scale = Scale(3.0)
    >>> scale(friendly.ones(2))[1]
    3.0
    >>> [name for name, parameter in scale.get_named_parameters()]
    ['factor']
    >>> len(scale.parameters()), scale.modules() == (scale,)
    (1, True)
    """

    _name: str | None = None

    def __init__(self, *, name: str | None = None) -> None:
        self.name = name

    @property
    def name(self) -> str | None:
        """What replaces the attribute's name in dotted names, or None. Setting checks it again (M802)."""
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        self._name = checked_name(name, type(self).__name__)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module does. NotImplementedError where a subclass does not define it."""
        raise NotImplementedError(f"[{type(self).__name__}] forward is not implemented; define it in the subclass")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def modules(self) -> tuple["Module", ...]:
        """This module and all below it, pre-order, each once."""
        return tuple(module for module, _ in self._walk())

    def parameters(self) -> tuple[Parameter, ...]:
        """Each Parameter once: the module's own in the order of their attributes, then those of its submodules."""
        return tuple(parameter for _, parameter in self.get_named_parameters())

    def get_named_parameters(self) -> tuple[tuple[str, Parameter], ...]:
        """The pairs of a dotted name and a Parameter, in the order of ``parameters()``; a shared one at its first path.

        A segment is the attribute's name, or the name of the Parameter or Module in it; the root has no segment.
        """
        found: dict[int, tuple[str, Parameter]] = {}
        for module, path in self._walk():
            for attribute, value in module._registered(Parameter):
                if id(value) not in found:
                    found[id(value)] = (path + (value.name or attribute), value)
        return tuple(found.values())

    def _registered(self, kind: type) -> list[tuple[str, Any]]:
        # The instance dictionary is the registry: what is reassigned or deleted is gone from it.
        return [(key, value) for key, value in list(vars(self).items()) if key[:1] != "_" and isinstance(value, kind)]

    def _walk(self) -> Iterator[tuple["Module", str]]:
        # Each module and the prefix of the names below it. An explicit stack: a chain of modules may be long.
        seen, pending = set(), [(self, "")]
        while pending:
            module, path = pending.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield module, path
            below = module._registered(Module)
            pending += [(child, f"{path}{child.name or key}.") for key, child in reversed(below)]
