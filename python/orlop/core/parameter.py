"""Parameter: a Tensor that a Module looks after (M801, M802)."""

from orlop._core import Carrier, Layout, Tensor

__all__ = ["Parameter"]


def checked_name(name: str | None, what: str) -> str | None:
    """The name of a Parameter or Module. TypeError: neither None nor a str; ValueError: empty, or with a '.'."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise TypeError(f"[{what}] name must be None or a str: got {type(name).__name__}")
    name = str.__str__(name)  # a subclass may say anything later
    if not name:
        raise ValueError(f"[{what}] name must be non-empty; use None for no name")
    if "." in name:
        raise ValueError(f"[{what}] name must not contain '.': got {name!r}; dots separate modules")
    return name


class Parameter(Tensor):
    """Parameter(tensor, *, name=None) or Parameter(carrier, offset, layout, *, name=None).

    A Tensor that registers when it becomes a public attribute of a Module. From a Tensor it shares the storage and is a
    leaf of its own; from a carrier it is placed as a Tensor is. What is computed from it is a plain Tensor.

    TypeError: neither Tensor nor Carrier; a Tensor with offset or layout, a carrier without; names (M802).

    >>> from orlop import Parameter, friendly
    >>> weight = Parameter(friendly.ones(2), name="weight")
    >>> friendly.sum(weight * 3).backward()
    >>> friendly.to_list(weight.grad)
    [3.0, 3.0]
    """

    __slots__ = ("_name",)

    def __init__(
        self,
        tensor_or_carrier: Tensor | Carrier,
        offset: int | None = None,
        layout: Layout | None = None,
        *,
        name: str | None = None,
    ) -> None:
        if isinstance(tensor_or_carrier, Tensor):
            if offset is not None or layout is not None:
                raise TypeError("[Parameter] offset and layout are those of the Tensor; give them with a carrier only")
            tensor_or_carrier._require_single_subtensor("Parameter")
            carrier, offset, layout = tensor_or_carrier.carrier, tensor_or_carrier.offset, tensor_or_carrier.layout
        elif isinstance(tensor_or_carrier, Carrier):
            if offset is None or layout is None:
                raise TypeError("[Parameter] a carrier needs both offset and layout")
            carrier = tensor_or_carrier
        else:
            given = type(tensor_or_carrier).__name__
            raise TypeError(f"[Parameter] needs a Tensor, or a Carrier with offset and layout: got {given}")
        name = checked_name(name, "Parameter")
        super().__init__(carrier, offset, layout)
        self._name = name

    @property
    def name(self) -> str | None:
        """What replaces the attribute's name in dotted names, or None. Setting checks it again."""
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        self._name = checked_name(name, "Parameter")

    def __repr__(self) -> str:
        return f"Parameter{super().__repr__().removeprefix('Tensor')[:-1]}, name={self._name!r})"
