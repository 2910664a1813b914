from orlop.carriers.dtype import DType
from orlop._core import Carrier
from orlop.carriers.operation_capability import (
    OperandCapability as OperandCapability,
    OperationCapability as OperationCapability
)
from orlop.carriers.operation_policy import (
    OperandPlan as OperandPlan,
    OperationExecutionOptions as OperationExecutionOptions,
    OperationPlan as OperationPlan
)


def resolve_operation_plan(operation: object, *operands, accumulator_dtype: object | None = None, options: object | None = None) -> object:
    """
    The plan of an operation for its operands (P6); reads no element.

    A tensor operand is given as its storage dtype, a weak scalar as its value:
    `resolve_operation_plan("mul", DType.Int32, 2.0)`.
    Errors: NotImplementedError for an unknown name or a dtype that is not implemented; TypeError for
    operands the operation does not take; OverflowError for an integer outside Int32.

    >>> from orlop import DType
    >>> from orlop.carriers.operation_policy import resolve_operation_plan
    >>> resolve_operation_plan("mul", DType.Int32, 2.5).output
    SimpleDType('Float32')
    >>> resolve_operation_plan("mul", DType.Int32, 2**31).output
    Traceback (most recent call last):
        ...
    OverflowError: [mul] an integer scalar leaves Int32; use a value between -2147483648 and ...
    """

def resolvable_plans(tensor_dtypes: object, weak_scalars: object) -> tuple: ...

def plan_accumulator_variants(plan: object) -> tuple:
    """
    The plan, then its variants for the other accumulators where its operation has them (P12).
    Errors: TypeError where `plan` is no OperationPlan.

    >>> from orlop import DType
    >>> from orlop.carriers.operation_policy import plan_accumulator_variants, resolve_operation_plan
    >>> plan = resolve_operation_plan("reduce_sum", DType.Float32)
    >>> [variant.accumulator_dtype.name for variant in plan_accumulator_variants(plan)]
    ['Float32', 'Float64']
    """

def operation_specification_fields() -> list: ...

def supported_tensor_dtypes() -> tuple: ...

def supported_accumulator_dtypes() -> tuple: ...

def is_accumulator_configurable(arg: str, /) -> bool: ...

def weak_scalar_probes() -> tuple: ...

def register_operation_capabilities(carrier_class: type[Carrier], capabilities: object) -> None:
    """
    Declares, once and for good, what exactly `carrier_class` can execute (P23).

    All or nothing; a rejected call leaves the class open, an empty iterable is a full declaration.
    Errors: TypeError for Carrier itself, a class that is no Carrier, a dependent, shipped or defined class,
    one already declared or observed, or an entry that is no OperationCapability; ValueError for two equal
    entries.

    >>> from orlop import Carrier, DType
    >>> from orlop.carriers.operation_capability import OperationCapability, register_operation_capabilities
    >>> from orlop.carriers.operation_policy import resolve_operation_plan
    >>> class Rectifying(Carrier):
    ...     pass
    >>> plan = resolve_operation_plan("relu", DType.Float32)
    >>> register_operation_capabilities(Rectifying, [OperationCapability.from_plan(plan)])
    >>> register_operation_capabilities(Rectifying, [])
    Traceback (most recent call last):
        ...
    TypeError: [register_operation_capabilities] Rectifying has already declared its capabilities by ...
    """

def capabilities_for_carrier_class(carrier_class: type[Carrier], operation: object | None = None) -> tuple:
    """
    What the exact class advertises, optionally of one operation, in a fixed order (P25, P26).
    TypeError for what is no class or no str.

    >>> from orlop import CPU, FileBacked
    >>> from orlop.carriers.operation_capability import capabilities_for_carrier_class
    >>> [entry.operands[0].dtype.name for entry in capabilities_for_carrier_class(CPU, "relu")]
    ['Float32', 'Int32']
    >>> capabilities_for_carrier_class(FileBacked)
    ()
    """

def matching_capability(carrier_class: type[Carrier], plan: object) -> object:
    """
    The stored entry that matches the plan, or None (P25).

    >>> from orlop import CPU, DType, FileBacked
    >>> from orlop.carriers.operation_capability import matching_capability
    >>> from orlop.carriers.operation_policy import resolve_operation_plan
    >>> plan = resolve_operation_plan("relu", DType.Float32)
    >>> matching_capability(CPU, plan).matches(plan), matching_capability(FileBacked, plan)
    (True, None)
    """

def supports_operation_plan(carrier_class: type[Carrier], plan: object) -> bool:
    """
    Whether the exact class advertises the plan (P25). TypeError for what is no class or no OperationPlan.

    >>> from orlop import CPU, DType, FileBacked
    >>> from orlop.carriers.operation_capability import supports_operation_plan
    >>> from orlop.carriers.operation_policy import resolve_operation_plan
    >>> plan = resolve_operation_plan("relu", DType.Float32)
    >>> supports_operation_plan(CPU, plan), supports_operation_plan(FileBacked, plan)
    (True, False)
    """

def unsupported_plan_reason(carrier_class: type[Carrier], plan: object) -> object:
    """
    None where the plan is supported, otherwise why not (P28).

    >>> from orlop import CPU, DType, FileBacked
    >>> from orlop.carriers.operation_capability import unsupported_plan_reason
    >>> from orlop.carriers.operation_policy import resolve_operation_plan
    >>> plan = resolve_operation_plan("relu", DType.Float32)
    >>> unsupported_plan_reason(CPU, plan) is None
    True
    >>> print(unsupported_plan_reason(FileBacked, plan).partition(":")[0])
    [FileBacked] does not support the operation 'relu'
    """

def require_capability(carrier_class: type[Carrier], plan: object) -> object:
    """
    The stored entry that matches the plan, or UnsupportedOperationPlan (P25).

    >>> from orlop import CPU, DType
    >>> from orlop.carriers.operation_capability import require_capability
    >>> from orlop.carriers.operation_policy import resolve_operation_plan
    >>> plan = resolve_operation_plan("relu", DType.Float32)
    >>> require_capability(CPU, plan).matches(plan)
    True
    """
