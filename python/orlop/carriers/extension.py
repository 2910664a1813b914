"""Carrier definitions: what a carrier class from outside the library says about itself, once (X1-X20).

A class that has one needs no hooks of its own:

>>> from orlop import Carrier, DType
>>> class Boxed(Carrier):
...     pass
>>> storage = StorageProvider(
...     supports_dtype=lambda carrier, dtype: dtype is DType.Float32,
...     physical_size=lambda carrier: len(carrier.box),
...     allocate=lambda carrier, slots: setattr(carrier, "box", [0.0] * slots),
...     release=lambda carrier: setattr(carrier, "box", []),
...     read=lambda carrier, index: carrier.box[index],
...     write=lambda carrier, index, value: carrier.box.__setitem__(index, value),
... )
>>> register_carrier_definition(Boxed, CarrierDefinition(storage))
>>> carrier = Boxed(3, dtype=DType.Float32)
>>> carrier[1] = 2
>>> carrier.box, carrier.version
([0.0, 2.0, 0.0], 1)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from orlop._core import Carrier, Layout, Tensor
from orlop._core import _extension as _native
from orlop.carriers.dtype import DType

__all__ = [
    "CarrierDefinition",
    "CarrierFacet",
    "PreparedTransfer",
    "ProviderCompletion",
    "StorageProvider",
    "TransferProvider",
    "TransferRequest",
    "TransferRoute",
    "Unsupported",
    "register_carrier_definition",
]

register_carrier_definition = _native.register_carrier_definition
_has_carrier_definition = _native.has_carrier_definition
_peek_carrier_definition = _native.peek_carrier_definition


class UnsupportedStorageDTypeError(ValueError, TypeError):
    """A carrier class was asked for storage of a dtype that its provider does not support (X9)."""


# --- Checks shared by the records


def _require(condition, what, *words):
    if not condition:
        raise TypeError(f"[{what}] {' '.join(map(str, words))}")


def _kind(value):
    return type(value).__name__


def _require_callables(record, *fields):
    for field in fields:
        value = getattr(record, field)
        _require(callable(value), _kind(record), field, "must be callable: got", _kind(value))


def _require_text(record, field):
    value = getattr(record, field)
    _require(isinstance(value, str), _kind(record), field, "must be a str: got", _kind(value))
    if not value:
        raise ValueError(f"[{_kind(record)}] {field} must not be empty")


def _require_class(record, field):
    value = getattr(record, field)
    is_carrier = isinstance(value, type) and issubclass(value, Carrier)
    _require(is_carrier, _kind(record), field, "must be a Carrier class: got", value)


def _keep_tuple(record, field, kind=None):
    """Walks an iterable field once and keeps it as a tuple, each entry a `kind`."""
    try:
        entries = iter(getattr(record, field))
    except TypeError:
        value = getattr(record, field)
        raise TypeError(f"[{_kind(record)}] {field} must be a finite iterable: got {_kind(value)}") from None
    entries = tuple(entries)
    object.__setattr__(record, field, entries)
    for entry in entries if kind else ():
        _require(isinstance(entry, kind), _kind(record), f"every entry of {field} must be a",
                 f"{kind.__name__}: got", _kind(entry))
    return entries


# --- Answers and work (X14, X18)


@dataclass(frozen=True)
class Unsupported:
    """A provider declines one request; `reason` says why. Errors: TypeError for no str, ValueError for ""."""

    reason: str

    def __post_init__(self):
        _require_text(self, "reason")


@runtime_checkable
class ProviderCompletion(Protocol):
    """Work that a provider has started: `done`, a bool property, and a blocking `wait()`.

    `wait()` may be called again and from several threads; all get one object or one exception, and `done` is True from
    then on. There is no `__await__`.
    """

    @property
    def done(self) -> bool: ...

    def wait(self) -> Any: ...


def _require_provider_completion(value):
    """TypeError unless `value` is a completion: it has a `done` and a `wait()`, and is no coroutine."""
    _require(not hasattr(value, "__await__"), "ProviderCompletion", "a completion must not expose a coroutine: got",
             _kind(value))
    _require(isinstance(value, ProviderCompletion), "ProviderCompletion", "submit must return its result or a",
             "completion of it: got", _kind(value))


# --- Storage (X10)


@dataclass(frozen=True)
class StorageProvider:
    """How a class keeps its slots: six callables, each given the carrier first.

    `supports_dtype(carrier, dtype)` answers a bool, the same in every state. `physical_size(carrier)` is the number of
    slots. `allocate(carrier, slots)` makes them, `release(carrier)` gives them up, once. `read(carrier, index)` returns
    a value, `write(carrier, index, value)` stores one of the dtype; indices are in range. `elementwise_fallback` allows
    moves to copy value by value where there is no route and the other class allows it too.

    Errors: TypeError for a field that is not callable, or a flag that is no bool.
    """

    supports_dtype: Callable[[Carrier, DType], bool]
    physical_size: Callable[[Carrier], int]
    allocate: Callable[[Carrier, int], None]
    release: Callable[[Carrier], None]
    read: Callable[[Carrier, int], Any]
    write: Callable[[Carrier, int, Any], None]
    elementwise_fallback: bool = False

    def __post_init__(self):
        _require_callables(self, "supports_dtype", "physical_size", "allocate", "release", "read", "write")
        flag = self.elementwise_fallback
        _require(flag is True or flag is False, "StorageProvider", "elementwise_fallback must be a bool: got",
                 _kind(flag))


# --- Transfers (X20)


@dataclass(frozen=True, eq=False)
class TransferRequest:
    """One move, as a provider is asked about it; made by the framework. Both carriers are owned by the move."""

    tensor: Tensor
    destination: Carrier
    source_class: type
    destination_class: type
    dtype: DType
    layout: Layout
    physical_span: int


@dataclass(frozen=True)
class PreparedTransfer:
    """Work that is ready: `submit()` is called at most once and returns None, or a completion of None."""

    submit: Callable[[], "ProviderCompletion | None"]

    def __post_init__(self):
        _require_callables(self, "submit")


@dataclass(frozen=True)
class TransferProvider:
    """`prepare(request)` returns a PreparedTransfer or Unsupported and changes nothing.

    The submitted work puts the `physical_span` slots from `request.tensor.offset` into the slots of
    `request.destination` from 0.
    """

    prepare: Callable[[TransferRequest], "PreparedTransfer | Unsupported"]

    def __post_init__(self):
        _require_callables(self, "prepare")


@dataclass(frozen=True)
class TransferRoute:
    """How Tensors of exactly `source_class` move to exactly `destination_class`; part of the source's definition."""

    source_class: type
    destination_class: type
    route_id: str
    provider: TransferProvider

    def __post_init__(self):
        _require_class(self, "source_class")
        _require_class(self, "destination_class")
        _require_text(self, "route_id")
        _require(isinstance(self.provider, TransferProvider), "TransferRoute",
                 "provider must be a TransferProvider: got", _kind(self.provider))


# --- Facets and the definition (X6, X12)


class CarrierFacet:
    """Open marker base of what a carrier offers beyond the common interface; found by its exact class."""


@dataclass(frozen=True)
class CarrierDefinition:
    """Everything that one carrier class says about itself.

    Errors: TypeError for fields of other types; ValueError for two routes of one pair of classes, or two facets of one
    class.
    """

    storage: StorageProvider
    kernels: None = None
    transfers: tuple = ()
    composite: None = None
    facets: tuple = ()

    def __post_init__(self):
        _require(isinstance(self.storage, StorageProvider), "CarrierDefinition",
                 "storage must be a StorageProvider: got", _kind(self.storage))
        for field in ("kernels", "composite"):
            _require(getattr(self, field) is None, "CarrierDefinition", field, "must be None")
        routes = _keep_tuple(self, "transfers", TransferRoute)
        pairs = [(route.source_class, route.destination_class) for route in routes]
        if len(set(pairs)) != len(pairs):
            raise ValueError(f"[CarrierDefinition] duplicate exact transfer routes: {pairs}; give one per pair")
        facets = _keep_tuple(self, "facets", CarrierFacet)
        if len({type(facet) for facet in facets}) != len(facets):
            raise ValueError(f"[CarrierDefinition] duplicate exact facet types: {[_kind(facet) for facet in facets]}")
