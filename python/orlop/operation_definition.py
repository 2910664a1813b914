"""Operation definitions: what an operation name means wherever it runs (X21-X33).

A definition has a schema, a resolver that says what one call will do, a reference, and a gradient rule. Carriers with a
CarrierDefinition run it with their kernels; ``orlop.operation_definition(name)`` gives those of the built-in names.

>>> mul = operation_definition("mul")
>>> [operand.name for operand in mul.schema.operands]
['lhs', 'rhs']
>>> OperandSpec("scale", OperandKind.TENSOR, differentiable=True).kind.value
'tensor'
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from orlop._core import Tensor
from orlop._core import _definitions as _native

__all__ = [
    "NON_DIFFERENTIABLE",
    "BoundOperationCall",
    "OperandKind",
    "OperandSpec",
    "OperationCall",
    "OperationDefinition",
    "OperationSchema",
    "OptionSpec",
    "ProviderContractError",
    "REQUIRED",
    "ResolvedInvocation",
    "ResultSpec",
    "VJPContext",
    "call_vjp",
    "define_operation",
    "execute_reference",
    "operation_definition",
]


class OperandKind(str, Enum):
    """What an operand may be; a structural one is bound by the value it is given.

    >>> from orlop.operation_definition import operation_definition
    >>> operation_definition("gather").schema.operands[2].kind
    <OperandKind.STRUCTURAL: 'structural'>
    """

    TENSOR = "tensor"
    WEAK_SCALAR = "weak_scalar"
    STRUCTURAL = "structural"


class ProviderContractError(RuntimeError):
    """Whoever carries out an invocation did not do what it says.

    >>> from orlop import ProviderContractError
    >>> issubclass(ProviderContractError, RuntimeError)
    True
    """


NON_DIFFERENTIABLE = _native.NON_DIFFERENTIABLE
REQUIRED = _native.REQUIRED
BoundOperationCall = _native.BoundOperationCall
OperandSpec = _native.OperandSpec
OperationDefinition = _native.OperationDefinition
OperationSchema = _native.OperationSchema
OptionSpec = _native.OptionSpec
ResolvedInvocation = _native.ResolvedInvocation
ResultSpec = _native.ResultSpec
VJPContext = _native.VJPContext
call_vjp = _native.call_vjp
define_operation = _native.define_operation
execute_reference = _native.execute_reference


def operation_definition(name):
    """The definition of a built-in or defined name. Errors: TypeError where it is no str, LookupError.

    >>> from orlop.operation_definition import operation_definition
    >>> operation_definition("relu").name
    'relu'
    >>> operation_definition("swish")
    Traceback (most recent call last):
        ...
    LookupError: [operation_definition] no operation has the name 'swish'; define_operation makes one
    """
    return _native.operation_definition(name)


# Kept stable for tools that test conformance.
_operation_definition = operation_definition
_execute_reference = execute_reference
_call_vjp = call_vjp


@dataclass(frozen=True, eq=False)
class OperationCall:
    """A call as somebody writes it, before it is bound; Tensors are equal where they are the same one.

    Errors: TypeError for a definition of another type, operands that are no finite iterable, options that are no
    mapping.

    >>> from orlop import friendly
    >>> from orlop.operation_definition import OperationCall, operation_definition
    >>> call = OperationCall(operation_definition("relu"), [friendly.ones(2)])
    >>> len(call.bind().operands)
    1
    """

    definition: OperationDefinition
    operands: tuple = ()
    options: Mapping = field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.definition, OperationDefinition):
            raise TypeError(f"[OperationCall] definition must be an OperationDefinition: got {self.definition!r}")
        try:
            operands = tuple(self.operands)
        except TypeError:
            raise TypeError(f"[OperationCall] operands must be a finite iterable: got {self.operands!r}") from None
        if not isinstance(self.options, Mapping):
            raise TypeError(f"[OperationCall] options must be a mapping: got {self.options!r}")
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))

    def bind(self):
        """The call checked against the schema."""
        return self.definition.bind(*self.operands, **self.options)

    def _fields(self):
        # A Tensor's == compares elements, so it stands for its identity here.
        values = (*self.operands, *self.options.values())
        return self.definition, tuple(self.options), tuple(id(value) if isinstance(value, Tensor) else value
                                                           for value in values)

    def __eq__(self, other):
        return self._fields() == other._fields() if type(other) is OperationCall else NotImplemented

    def __hash__(self):
        return hash(self._fields())
