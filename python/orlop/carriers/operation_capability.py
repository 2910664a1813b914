"""Capabilities: which plans a carrier class can execute, declared once for each exact class (P20-P31)."""

from orlop._core import _plans as _native

__all__ = [
    "OperandCapability",
    "OperationCapability",
    "UnsupportedOperationPlan",
    "capabilities_for_carrier_class",
    "matching_capability",
    "register_operation_capabilities",
    "require_capability",
    "supports_operation_plan",
    "unsupported_plan_reason",
]

OperandCapability = _native.OperandCapability
OperationCapability = _native.OperationCapability
capabilities_for_carrier_class = _native.capabilities_for_carrier_class
matching_capability = _native.matching_capability
register_operation_capabilities = _native.register_operation_capabilities
require_capability = _native.require_capability
supports_operation_plan = _native.supports_operation_plan
unsupported_plan_reason = _native.unsupported_plan_reason


class UnsupportedOperationPlan(NotImplementedError):
    """A carrier does not advertise a plan; nothing has been allocated (P28).

    ``plan`` is the refused plan, ``carrier_class`` the exact class, and ``kind`` says why: ``"operation"`` where the
    class advertises nothing of that name, ``"shape"`` where the name is there but not this plan, ``"invocation"``
    where the plan is, but every extension candidate declined.

    >>> from orlop import DType, FileBacked
    >>> from orlop.carriers.operation_capability import UnsupportedOperationPlan, require_capability
    >>> from orlop.carriers.operation_policy import resolve_operation_plan
    >>> try:
    ...     require_capability(FileBacked, resolve_operation_plan("relu", DType.Float32))
    ... except UnsupportedOperationPlan as refusal:
    ...     print(refusal.kind, refusal.plan.operation, refusal.carrier_class.__name__)
    operation relu FileBacked
    """

    def __init__(self, message="", *, plan=None, carrier_class=None, kind=None):
        super().__init__(message)
        self._refusal = (plan, carrier_class, kind)

    @property
    def plan(self):
        """The refused OperationPlan."""
        return self._refusal[0]

    @property
    def carrier_class(self):
        """The exact class that was asked."""
        return self._refusal[1]

    @property
    def kind(self):
        """Why: "operation", "shape" or "invocation"."""
        return self._refusal[2]
