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

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from orlop._core import Carrier, Layout, Tensor
from orlop._core import _extension as _native
from orlop.carriers.dtype import DType
from orlop.carriers.operation_capability import OperationCapability
from orlop.operation_definition import OperationDefinition, ProviderContractError

__all__ = [
    "CarrierDefinition",
    "CarrierFacet",
    "CompositeProvider",
    "KernelExecutionInterface",
    "KernelPack",
    "KernelPattern",
    "KernelProvider",
    "PreparedComposite",
    "PreparedKernel",
    "PreparedTransfer",
    "ProviderCompletion",
    "ProviderResult",
    "StorageProvider",
    "TransferProvider",
    "TransferRequest",
    "TransferRoute",
    "Unsupported",
    "register_carrier_definition",
    "register_kernel_pack",
]

register_carrier_definition = _native.register_carrier_definition
register_kernel_pack = _native.register_kernel_pack
_has_carrier_definition = _native.has_carrier_definition
_peek_carrier_definition = _native.peek_carrier_definition


class UnsupportedStorageDTypeError(ValueError, TypeError):
    """A carrier class was asked for storage of a dtype that its provider does not support (X9).

    >>> from orlop.carriers.extension import UnsupportedStorageDTypeError
    >>> issubclass(UnsupportedStorageDTypeError, ValueError), issubclass(UnsupportedStorageDTypeError, TypeError)
    (True, True)
    """


class _ResultCarriersError(ProviderContractError, ValueError):
    """A composite named another number of result carriers than there are results (X19)."""


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


def _require_str(record, field):
    value = getattr(record, field)
    _require(isinstance(value, str), _kind(record), field, "must be a str: got", _kind(value))


def _require_content(record, field):
    if not getattr(record, field):
        raise ValueError(f"[{_kind(record)}] {field} must not be empty")


def _require_text(record, field):
    _require_str(record, field)
    _require_content(record, field)


def _require_class(record, field):
    value = getattr(record, field)
    is_carrier = isinstance(value, type) and issubclass(value, Carrier)
    _require(is_carrier, _kind(record), field, "must be a Carrier class: got", value)


def _keep_tuple(record, field, kind=None, *, not_empty=False):
    """Walks an iterable field once and keeps it as a tuple, each entry a `kind`."""
    try:
        entries = iter(getattr(record, field))
    except TypeError:
        value = getattr(record, field)
        raise TypeError(f"[{_kind(record)}] {field} must be a finite iterable: got {_kind(value)}") from None
    entries = tuple(entries)
    object.__setattr__(record, field, entries)
    if not_empty:
        _require_content(record, field)
    for entry in entries if kind else ():
        _require(isinstance(entry, kind), _kind(record), f"every entry of {field} must be a",
                 f"{kind.__name__}: got", _kind(entry))
    return entries


def _equal_by_identity(*fields):
    """Records whose `fields`, Tensors and carriers or tuples of them, are compared by identity, the others by value."""

    def key(record):
        values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        for name in fields:
            value = values[name]
            values[name] = tuple(map(id, value)) if isinstance(value, tuple) else id(value)
        return tuple(values.values())

    def complete(cls):
        cls.__eq__ = lambda self, other: key(self) == key(other) if type(other) is type(self) else NotImplemented
        cls.__hash__ = lambda self: hash(key(self))
        return cls

    return complete


# --- Answers and work (X14, X18)


@dataclass(frozen=True)
class Unsupported:
    """A provider declines one request; `reason` says why. Errors: TypeError for no str, ValueError for "".

    >>> from orlop.carriers.extension import Unsupported
    >>> Unsupported("the span is odd").reason
    'the span is odd'
    >>> Unsupported("")
    Traceback (most recent call last):
        ...
    ValueError: [Unsupported] reason must not be empty
    """

    reason: str

    def __post_init__(self):
        _require_text(self, "reason")


@runtime_checkable
class ProviderCompletion(Protocol):
    """Work that a provider has started: `done`, a bool property, and a blocking `wait()`.

    `wait()` may be called again and from several threads; all get one object or one exception, and `done` is True from
    then on. There is no `__await__`.

    >>> from orlop.carriers.extension import ProviderCompletion
    >>> class Done:
    ...     done = True
    ...
    ...     def wait(self):
    ...         return None
    >>> isinstance(Done(), ProviderCompletion)
    True
    """

    @property
    def done(self) -> bool:
        """Whether the work has ended, well or not."""

    def wait(self) -> Any:
        """The result, once the work has ended; what failed is raised."""


def _require_provider_completion(value):
    """TypeError unless `value` is a completion: it has a `done` and a `wait()`, and is no coroutine."""
    _require(not hasattr(value, "__await__"), "ProviderCompletion", "a completion must not expose a coroutine: got",
             _kind(value))
    _require(isinstance(value, ProviderCompletion), "ProviderCompletion", "submit must return its result or a",
             "completion of it: got", _kind(value))


@_equal_by_identity("outputs")
@dataclass(frozen=True, eq=False)
class ProviderResult:
    """The Tensors that one invocation gives, in result order; equal where they are the same Tensors.

    Errors: TypeError for an entry that is no Tensor, ValueError where there is none.

    >>> from orlop import friendly
    >>> from orlop.carriers.extension import ProviderResult
    >>> one, other = friendly.ones(2), friendly.ones(2)
    >>> ProviderResult([one]) == ProviderResult([one]), ProviderResult([one]) == ProviderResult([other])
    (True, False)
    """

    outputs: tuple

    def __post_init__(self):
        if not _keep_tuple(self, "outputs", Tensor):
            raise ValueError("[ProviderResult] outputs must not be empty; give one per result")


# --- Storage (X10)


@dataclass(frozen=True)
class StorageProvider:
    """How a class keeps its slots: six callables, each given the carrier first.

    `supports_dtype(carrier, dtype)` answers a bool, the same in every state. `physical_size(carrier)` is the number of
    slots. `allocate(carrier, slots)` makes them, `release(carrier)` gives them up, once. `read(carrier, index)` returns
    a value, `write(carrier, index, value)` stores one of the dtype; indices are in range. `elementwise_fallback` allows
    moves to copy value by value where there is no route and the other class allows it too.

    Errors: TypeError for a field that is not callable, or a flag that is no bool.

    >>> from orlop.carriers.extension import StorageProvider
    >>> provider = StorageProvider(
    ...     supports_dtype=lambda carrier, dtype: dtype is orlop.DType.Float32,
    ...     physical_size=lambda carrier: len(carrier.box),
    ...     allocate=lambda carrier, slots: setattr(carrier, "box", [0.0] * slots),
    ...     release=lambda carrier: setattr(carrier, "box", []),
    ...     read=lambda carrier, index: carrier.box[index],
    ...     write=lambda carrier, index, value: carrier.box.__setitem__(index, value),
    ... )
    >>> provider.elementwise_fallback
    False
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


@_equal_by_identity("tensor", "destination")
@dataclass(frozen=True, eq=False)
class TransferRequest:
    """One move, as a provider is asked about it; made by the framework. Both carriers are owned by the move.

    >>> from orlop import CPU, DType, friendly
    >>> from orlop.carriers.extension import TransferRequest
    >>> tensor = friendly.ones(2)
    >>> request = TransferRequest(tensor, CPU(2), CPU, CPU, DType.Float32, tensor.layout, 2)
    >>> request.physical_span
    2
    """

    tensor: Tensor
    destination: Carrier
    source_class: type
    destination_class: type
    dtype: DType
    layout: Layout
    physical_span: int


@dataclass(frozen=True)
class PreparedTransfer:
    """Work that is ready: `submit()` is called at most once and returns None, or a completion of None.

    >>> from orlop.carriers.extension import PreparedTransfer
    >>> PreparedTransfer(lambda: None).submit()
    >>> PreparedTransfer(None)
    Traceback (most recent call last):
        ...
    TypeError: [PreparedTransfer] submit must be callable: got NoneType
    """

    submit: Callable[[], "ProviderCompletion | None"]

    def __post_init__(self):
        _require_callables(self, "submit")


@dataclass(frozen=True)
class TransferProvider:
    """`prepare(request)` returns a PreparedTransfer or Unsupported and changes nothing.

    The submitted work puts the `physical_span` slots from `request.tensor.offset` into the slots of
    `request.destination` from 0.

    >>> from orlop.carriers.extension import PreparedTransfer, TransferProvider, Unsupported
    >>> def prepare(request):
    ...     if request.dtype is not orlop.DType.Float32:
    ...         return Unsupported("only Float32 is moved in bulk")
    ...     span = slice(request.tensor.offset, request.tensor.offset + request.physical_span)
    ...     return PreparedTransfer(lambda: request.destination.fill(request.tensor.carrier.box[span]))
    >>> TransferProvider(prepare).prepare is prepare
    True
    """

    prepare: Callable[[TransferRequest], "PreparedTransfer | Unsupported"]

    def __post_init__(self):
        _require_callables(self, "prepare")


@dataclass(frozen=True)
class TransferRoute:
    """How Tensors of exactly `source_class` move to exactly `destination_class`; part of the source's definition.

    >>> from orlop import CPU, Carrier
    >>> from orlop.carriers.extension import TransferProvider, TransferRoute, Unsupported
    >>> provider = TransferProvider(lambda request: Unsupported("only an example"))
    >>> class Boxed(Carrier):
    ...     pass
    >>> TransferRoute(Boxed, CPU, "boxed.read", provider).route_id
    'boxed.read'
    >>> TransferRoute(Boxed, "CPU", "boxed.read", provider)
    Traceback (most recent call last):
        ...
    TypeError: [TransferRoute] destination_class must be a Carrier class: got CPU
    """

    source_class: type
    destination_class: type
    route_id: str
    provider: TransferProvider

    def __post_init__(self):
        _require_class(self, "source_class")
        _require_class(self, "destination_class")
        _require_str(self, "route_id")
        _require(isinstance(self.provider, TransferProvider), "TransferRoute",
                 "provider must be a TransferProvider: got", _kind(self.provider))
        _require_content(self, "route_id")


# --- Kernels and packs (X13-X18)


class KernelExecutionInterface:
    """What kernels of one class rely on. A pack fits where `compatibility_identity` is equal: class and version.

    Subclasses add what kernels need; what is set stays. Errors: TypeError for a version that is no str, ValueError for
    "", AttributeError for an assignment.

    >>> from orlop.carriers.extension import KernelExecutionInterface
    >>> KernelExecutionInterface("1") == KernelExecutionInterface("1")
    False
    >>> one, other = KernelExecutionInterface("1"), KernelExecutionInterface("1")
    >>> one.compatibility_identity == other.compatibility_identity
    True
    """

    def __init__(self, version):
        _require(isinstance(version, str), "KernelExecutionInterface", "version must be a str: got", _kind(version))
        if not version:
            raise ValueError("[KernelExecutionInterface] version must not be empty")
        object.__setattr__(self, "version", version)

    @property
    def compatibility_identity(self):
        """The exact class and the version."""
        return type(self), self.version

    def __setattr__(self, name, value):
        if type(self) is KernelExecutionInterface or name == "version" or hasattr(self, name):
            raise AttributeError(f"[{_kind(self)}] the interface is immutable: {name!r} cannot be assigned")
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        raise AttributeError(f"[{_kind(self)}] the interface is immutable: {name!r} cannot be deleted")

    def __repr__(self):
        return f"{_kind(self)}({self.version!r})"


def _require_interface(record, field):
    value = getattr(record, field)
    _require(isinstance(value, KernelExecutionInterface), _kind(record), field,
             "must be a KernelExecutionInterface: got", _kind(value))


@dataclass(frozen=True)
class PreparedKernel:
    """A kernel that is ready: `submit()` is called at most once and returns a ProviderResult, or a completion of it.

    >>> from orlop import friendly
    >>> from orlop.carriers.extension import KernelExecutionInterface, PreparedKernel, ProviderResult
    >>> prepared = PreparedKernel(KernelExecutionInterface("1"), lambda: ProviderResult([friendly.ones(2)]))
    >>> len(prepared.submit().outputs)
    1
    """

    interface: KernelExecutionInterface
    submit: Callable[[], "ProviderResult | ProviderCompletion"]

    def __post_init__(self):
        _require_interface(self, "interface")
        _require_callables(self, "submit")


@dataclass(frozen=True)
class KernelPattern:
    """One kernel and the exact plans that it may be asked about.

    `prepare(invocation, interface)` returns a PreparedKernel or Unsupported and changes no operand. Of several patterns
    the higher `preference` is asked first. Errors (X14): TypeError for fields of other types; ValueError for no plan, a
    repeated one or one of another operation, and for an empty kernel_id.

    >>> from orlop import DType
    >>> from orlop.carriers.extension import KernelPattern, Unsupported
    >>> from orlop.carriers.operation_capability import OperationCapability
    >>> from orlop.operation import operation_definition, resolve_operation_plan
    >>> pattern = KernelPattern(
    ...     operation_definition("relu"),
    ...     [OperationCapability.from_plan(resolve_operation_plan("relu", DType.Float32))],
    ...     "acme.relu",
    ...     prepare=lambda invocation, interface: Unsupported("only an example"),
    ... )
    >>> pattern.preference, len(pattern.plans)
    (0, 1)
    """

    operation: OperationDefinition
    plans: tuple
    kernel_id: str
    prepare: Callable
    preference: int = 0

    def __post_init__(self):
        what = "KernelPattern"
        _require(isinstance(self.operation, OperationDefinition), what, "operation must be an OperationDefinition: got",
                 _kind(self.operation))
        plans = _keep_tuple(self, "plans", not_empty=True)
        for position, plan in enumerate(plans):
            _require(isinstance(plan, OperationCapability), what, "every entry of plans must be an OperationCapability:",
                     "got", _kind(plan))
            if plan in plans[:position]:
                raise ValueError(f"[{what}] duplicate plans of {plan.operation}; list each once")
            if plan.operation != self.operation.name:
                raise ValueError(f"[{what}] every plan must be of operation.name {self.operation.name}: "
                                 f"got one of {plan.operation}")
        _require_text(self, "kernel_id")
        _require_callables(self, "prepare")
        _require(type(self.preference) is int, what, "preference must be a signed integer: got",
                 _kind(self.preference))


def _require_distinct_kernels(record, patterns):
    names = [pattern.kernel_id for pattern in patterns]
    if len(set(names)) != len(names):
        raise ValueError(f"[{_kind(record)}] duplicate kernel_id: {names}; give every kernel its own")


@dataclass(frozen=True)
class KernelProvider:
    """The kernels that come with a definition; packs add to them.

    Errors: TypeError for fields of other types, ValueError for a repeated kernel_id.

    >>> from orlop.carriers.extension import KernelExecutionInterface, KernelProvider
    >>> KernelProvider(KernelExecutionInterface("1")).patterns
    ()
    """

    interface: KernelExecutionInterface
    patterns: tuple = ()

    def __post_init__(self):
        _require_interface(self, "interface")
        _require_distinct_kernels(self, _keep_tuple(self, "patterns", KernelPattern))


@dataclass(frozen=True)
class KernelPack:
    """Kernels for somebody else's carrier class.

    Errors: TypeError for fields of other types; ValueError for empty ones, or a repeated kernel_id.

    >>> from orlop import CPU
    >>> from orlop.carriers.extension import KernelExecutionInterface, KernelPack
    >>> KernelPack("acme", "1", CPU, KernelExecutionInterface("1"), patterns=[])
    Traceback (most recent call last):
        ...
    ValueError: [KernelPack] patterns must not be empty
    """

    namespace: str
    version: str
    carrier_class: type
    execution_interface: KernelExecutionInterface
    patterns: tuple

    def __post_init__(self):
        _require_str(self, "namespace")
        _require_str(self, "version")
        _require_class(self, "carrier_class")
        _require_interface(self, "execution_interface")
        _keep_tuple(self, "patterns", KernelPattern)
        for field in ("namespace", "version", "patterns"):
            _require_content(self, field)
        _require_distinct_kernels(self, self.patterns)


# --- Composites (X19)


@dataclass(frozen=True)
class PreparedComposite:
    """Work that is ready: `submit()` is called at most once and returns a ProviderResult, or a completion of it.

    >>> from orlop import friendly
    >>> from orlop.carriers.extension import PreparedComposite, ProviderResult
    >>> prepared = PreparedComposite(lambda: ProviderResult([friendly.ones(2)]))
    >>> len(prepared.submit().outputs)
    1
    """

    submit: Callable[[], "ProviderResult | ProviderCompletion"]

    def __post_init__(self):
        _require_callables(self, "submit")


@dataclass(frozen=True)
class CompositeProvider:
    """How a DependentCarrier computes: three callables, each given the carrier first.

    `capabilities(carrier)` is asked once, at the end of construction. `result_carriers(carrier, invocation)` names the
    exact class of each result's carrier. `prepare(carrier, invocation)` returns a PreparedComposite or Unsupported.

    >>> from orlop.carriers.extension import CompositeProvider, Unsupported
    >>> provider = CompositeProvider(
    ...     capabilities=lambda carrier: [],
    ...     result_carriers=lambda carrier, invocation: (type(carrier),),
    ...     prepare=lambda carrier, invocation: Unsupported("nothing is computed here"),
    ... )
    >>> provider.prepare(None, None).reason
    'nothing is computed here'
    """

    capabilities: Callable[[Carrier], Iterable[OperationCapability]]
    result_carriers: Callable
    prepare: Callable

    def __post_init__(self):
        _require_callables(self, "capabilities", "result_carriers", "prepare")


# --- Facets and the definition (X6, X12)


class CarrierFacet:
    """Open marker base of what a carrier offers beyond the common interface; found by its exact class.

    >>> from orlop.carriers.extension import CarrierFacet
    >>> class Durable(CarrierFacet):
    ...     def flush(self, carrier): ...
    >>> orlop.CPU(1).facet(Durable) is None
    True
    """


@dataclass(frozen=True)
class CarrierDefinition:
    """Everything that one carrier class says about itself.

    Errors: TypeError for fields of other types; ValueError for two routes of one pair of classes, or two facets of one
    class.

    >>> from orlop.carriers.extension import CarrierDefinition, CarrierFacet, StorageProvider
    >>> class Durable(CarrierFacet):
    ...     pass
    >>> storage = StorageProvider(*[lambda carrier, *rest: None] * 6)
    >>> CarrierDefinition(storage, facets=[Durable()]).transfers
    ()
    >>> CarrierDefinition(storage, facets=[Durable(), Durable()])
    Traceback (most recent call last):
        ...
    ValueError: [CarrierDefinition] duplicate exact facet types: ['Durable', 'Durable']
    """

    storage: StorageProvider
    kernels: KernelProvider | None = None
    transfers: tuple = ()
    composite: CompositeProvider | None = None
    facets: tuple = ()

    def __post_init__(self):
        _require(isinstance(self.storage, StorageProvider), "CarrierDefinition",
                 "storage must be a StorageProvider: got", _kind(self.storage))
        for field, kind in (("kernels", KernelProvider), ("composite", CompositeProvider)):
            value = getattr(self, field)
            _require(value is None or isinstance(value, kind), "CarrierDefinition", field, "must be a", kind.__name__,
                     "or None: got", _kind(value))
        routes = _keep_tuple(self, "transfers", TransferRoute)
        pairs = [(route.source_class, route.destination_class) for route in routes]
        if len(set(pairs)) != len(pairs):
            raise ValueError(f"[CarrierDefinition] duplicate exact transfer routes: {pairs}; give one per pair")
        facets = _keep_tuple(self, "facets", CarrierFacet)
        if len({type(facet) for facet in facets}) != len(facets):
            raise ValueError(f"[CarrierDefinition] duplicate exact facet types: {[_kind(facet) for facet in facets]}")
