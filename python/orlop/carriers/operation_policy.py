"""Plans: what an operation name means for given operand dtypes, decided before anything runs (P1-P12).

A tensor operand is given as its storage dtype, a weak scalar as its value.

>>> from orlop import DType
>>> plan = resolve_operation_plan("mul", DType.Int32, 2.5)
>>> plan.compute.value, plan.output.name
('binary32', 'Float32')
>>> [operand.role.name for operand in plan.operands]
['TENSOR', 'WEAK_SCALAR']
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from orlop._core import _plans as _native
from orlop.carriers.dtype import DType

__all__ = [
    "ACCUMULATOR_CONFIGURABLE_OPERATIONS",
    "Accumulation",
    "Arithmetic",
    "INT32_MAX",
    "INT32_MIN",
    "OperandPlan",
    "OperandRole",
    "OperationExecutionOptions",
    "OperationOverload",
    "OperationPlan",
    "OperationSpec",
    "POW_INTEGER_EXPONENT_MAX",
    "SUPPORTED_ACCUMULATOR_DTYPES",
    "SUPPORTED_TENSOR_DTYPES",
    "WEAK_SCALAR_PROBES",
    "WeakScalarKind",
    "operation_execution_options",
    "plan_accumulator_variants",
    "registered_operations",
    "resolvable_plans",
    "resolve_operation_plan",
]


class OperandRole(Enum):
    """What an operand is.

    >>> from orlop import DType
    >>> from orlop.carriers.operation_policy import OperandRole, resolve_operation_plan
    >>> resolve_operation_plan("add", DType.Float32, 1).operands[1].role is OperandRole.WEAK_SCALAR
    True
    """

    TENSOR = "tensor"
    WEAK_SCALAR = "weak_scalar"


class WeakScalarKind(Enum):
    """What a weak scalar's value can select: an integer that is no bool, or any other real number.

    >>> from orlop.carriers.operation_policy import WeakScalarKind
    >>> [kind.value for kind in WeakScalarKind]
    ['integer', 'float']
    """

    INTEGER = "integer"
    FLOAT = "float"


class Arithmetic(Enum):
    """How each primitive rounds (P9).

    >>> from orlop import DType
    >>> from orlop.carriers.operation_policy import Arithmetic, resolve_operation_plan
    >>> resolve_operation_plan("add", DType.Int32, DType.Int32).compute is Arithmetic.INT32_EXACT_CHECKED
    True
    """

    BINARY32 = "binary32"
    INT32_EXACT_CHECKED = "int32_exact_checked"
    INT32_EXACT = "int32_exact"


class Accumulation(Enum):
    """How terms are combined (P10).

    >>> from orlop import DType
    >>> from orlop.carriers.operation_policy import Accumulation, resolve_operation_plan
    >>> resolve_operation_plan("reduce_sum", DType.Int32).accumulation is Accumulation.EXACT_INTEGER
    True
    """

    FLOATING = "floating"
    SEQUENTIAL_BINARY32 = "sequential_binary32"
    SEQUENTIAL_BINARY32_PRODUCT = "sequential_binary32_product"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    ARGMAX = "argmax"
    ARGMIN = "argmin"
    EXACT_INTEGER = "exact_integer"


INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1
POW_INTEGER_EXPONENT_MAX = 2**31 - 1
SUPPORTED_TENSOR_DTYPES = _native.supported_tensor_dtypes()
SUPPORTED_ACCUMULATOR_DTYPES = _native.supported_accumulator_dtypes()
WEAK_SCALAR_PROBES = _native.weak_scalar_probes()

OperandPlan = _native.OperandPlan
OperationPlan = _native.OperationPlan
OperationExecutionOptions = _native.OperationExecutionOptions
resolve_operation_plan = _native.resolve_operation_plan
plan_accumulator_variants = _native.plan_accumulator_variants


def _finite_tuple(value, what):
    try:
        iterator = iter(value)
    except TypeError:
        raise TypeError(f"[{what}] must be a finite iterable: got {type(value).__name__}") from None
    return tuple(iterator)


def _require(value, kind, what):
    if not isinstance(value, kind):
        raise TypeError(f"[{what}] must be a {kind.__name__}: got {type(value).__name__}")


def _ordinals(value, what):
    ordinals = _finite_tuple(value, what)
    for ordinal in ordinals:
        if type(ordinal) is not int:
            raise TypeError(f"[{what}] entries must be of type int: got {type(ordinal).__name__}")
    return ordinals


@dataclass(frozen=True)
class OperationOverload:
    """One way to call an operation.

    ``rule(operation, *operands)`` gives the plan. ``tensor_domains`` has one group of dtypes for each tensor role;
    ``same_dtype`` are the tensor roles, counted from 0, that must carry one dtype.

    >>> from orlop.carriers.operation_policy import registered_operations
    >>> relu, = [spec for spec in registered_operations() if spec.name == "relu"]
    >>> relu.overloads[0].tensor_domains
    ((SimpleDType('Float32'), SimpleDType('Int32')),)
    """

    roles: tuple[OperandRole, ...]
    rule: Callable[..., OperationPlan]
    tensor_domains: tuple[tuple[DType, ...], ...] | None = None
    same_dtype: tuple[int, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self):
        roles = _finite_tuple(self.roles, "OperationOverload.roles")
        for role in roles:
            _require(role, OperandRole, "OperationOverload.roles")
        if not callable(self.rule):
            raise TypeError(f"[OperationOverload.rule] must be callable: got {type(self.rule).__name__}")
        object.__setattr__(self, "roles", roles)
        tensors = roles.count(OperandRole.TENSOR)
        if self.tensor_domains is not None:
            object.__setattr__(self, "tensor_domains", self._checked_domains(tensors))
        if self.same_dtype is not None:
            object.__setattr__(self, "same_dtype", self._checked_same_dtype(tensors))

    def _checked_domains(self, tensors):
        what = "OperationOverload.tensor_domains"
        domains = tuple(_finite_tuple(domain, what) for domain in _finite_tuple(self.tensor_domains, what))
        for dtype in (dtype for domain in domains for dtype in domain):
            _require(dtype, DType, what)
        if len(domains) != tensors or not all(domains):
            raise ValueError(f"[{what}] {tensors} tensor roles need {tensors} groups of dtypes, none empty: got "
                             f"{[len(domain) for domain in domains]} dtypes")
        return domains

    def _checked_same_dtype(self, tensors):
        what = "OperationOverload.same_dtype"
        ordinals = _ordinals(self.same_dtype, what)
        if len(ordinals) < 2 or len(set(ordinals)) < len(ordinals) or not all(0 <= i < tensors for i in ordinals):
            raise ValueError(f"[{what}] needs at least two distinct tensor roles below {tensors}: got {ordinals}")
        return ordinals


@dataclass(frozen=True)
class OperationSpec:
    """One operation name: the ways to call it, and which arguments of ``forward`` its plan is about.

    >>> from orlop.carriers.operation_policy import registered_operations
    >>> gather, = [spec for spec in registered_operations() if spec.name == "gather"]
    >>> gather.public, gather.dtype_operand_positions, [role.value for role in gather.roles]
    (True, (0, 1), ['tensor', 'tensor'])
    """

    name: str
    overloads: tuple[OperationOverload, ...]
    public: bool = True
    dtype_operand_positions: tuple[int, ...] | None = None

    def __post_init__(self):
        _require(self.name, str, "OperationSpec.name")
        overloads = _finite_tuple(self.overloads, "OperationSpec.overloads")
        for overload in overloads:
            _require(overload, OperationOverload, "OperationSpec.overloads")
        _require(self.public, bool, "OperationSpec.public")
        roles = [overload.roles for overload in overloads]
        if not overloads or len(set(roles)) < len(roles):
            raise ValueError(f"[OperationSpec.overloads] {self.name!r} needs at least one overload, each with its own "
                             f"roles: got {roles}")
        object.__setattr__(self, "overloads", overloads)
        if self.dtype_operand_positions is not None:
            object.__setattr__(self, "dtype_operand_positions", self._checked_positions({len(r) for r in roles}))

    def _checked_positions(self, arities):
        what = "OperationSpec.dtype_operand_positions"
        positions = _ordinals(self.dtype_operand_positions, what)
        increasing = all(a < b for a, b in zip((-1, *positions), positions, strict=False))
        if not increasing or arities != {len(positions)}:
            raise ValueError(f"[{what}] needs non-negative, strictly increasing positions, as many as every overload "
                             f"has operands ({sorted(arities)}): got {positions}")
        return positions

    @property
    def roles(self):
        """The roles of the only overload; AttributeError where there are several."""
        return self._only_overload("roles").roles

    @property
    def rule(self):
        """The rule of the only overload; AttributeError where there are several."""
        return self._only_overload("rule").rule

    def _only_overload(self, attribute):
        if len(self.overloads) > 1:
            raise AttributeError(f"[OperationSpec.{attribute}] {self.name!r} has {len(self.overloads)} overloads; "
                                 f"read {attribute} from one of them")
        return self.overloads[0]


def _builtin_rule(operation, *operands):
    """The plan of a registered operation, without an accumulator request."""
    return resolve_operation_plan(operation, *operands)


_registered = tuple(
    OperationSpec(
        name,
        [OperationOverload(roles, _builtin_rule, domains, same_dtype=same) for roles, domains, same in overloads],
        public,
        positions,
    )
    for name, overloads, public, positions in _native.operation_specification_fields()
)

ACCUMULATOR_CONFIGURABLE_OPERATIONS = frozenset(
    spec.name for spec in _registered if _native.is_accumulator_configurable(spec.name)
)


def registered_operations():
    """Every registered operation, ascending by name (P4).

    >>> from orlop.carriers.operation_policy import registered_operations
    >>> names = [spec.name for spec in registered_operations() if spec.public]
    >>> names[:3], "gt" in names
    (['abs', 'add', 'argmax'], False)
    """
    return _registered


def operation_execution_options(operation, *, accumulator_dtype=None):
    """The validated options of ``operation``; equals constructing OperationExecutionOptions (P11).

    >>> from orlop import DType
    >>> from orlop.carriers.operation_policy import operation_execution_options
    >>> operation_execution_options("matmul", accumulator_dtype=DType.Float64).accumulator_dtype
    SimpleDType('Float64')
    >>> operation_execution_options("matmul", accumulator_dtype=DType.Int32)
    Traceback (most recent call last):
        ...
    NotImplementedError: [operation options] 'matmul' cannot accumulate in Int32; use Float32 or Float64
    """
    return OperationExecutionOptions(operation, accumulator_dtype)


def resolvable_plans(tensor_dtypes=SUPPORTED_TENSOR_DTYPES, weak_scalars=WEAK_SCALAR_PROBES):
    """Every plan reachable with these dtypes and scalars, in registry order, without repeats (P5).

    The default has no Bool plan; ``resolvable_plans((DType.Float32, DType.Int32, DType.Bool))`` gives all.

    >>> from orlop import DType
    >>> from orlop.carriers.operation_policy import resolvable_plans
    >>> [plan.operands[0].dtype.name for plan in resolvable_plans([DType.Bool]) if plan.operation == "logical_not"]
    ['Bool']
    """
    return _native.resolvable_plans(tensor_dtypes, weak_scalars)
