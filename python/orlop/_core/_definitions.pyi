from typing import final
from orlop.carriers.dtype import DType
from orlop._core import Carrier
from orlop._core import Tensor
import orlop._core
import orlop.operation_definition
from orlop.operation_definition import (
    BoundOperationCall as BoundOperationCall,
    Marker as Marker,
    OperandSpec as OperandSpec,
    OperationDefinition as OperationDefinition,
    OperationSchema as OperationSchema,
    OptionSpec as OptionSpec,
    ResolvedInvocation as ResolvedInvocation,
    ResultSpec as ResultSpec,
    VJPContext as VJPContext
)


REQUIRED: orlop.operation_definition.Marker = ...

NON_DIFFERENTIABLE: orlop.operation_definition.Marker = ...

def define_operation(name: object, schema: object, resolve: object, reference: object | None = None, vjp: object | None = ...) -> orlop.operation_definition.OperationDefinition:
    """
    Defines an operation for good and returns its OperationDefinition (X23).

    name is namespaced ('acme.layer_norm'). resolve(call) returns a ResolvedInvocation; reference(
    invocation) a Tensor or a tuple of them; vjp(context, cotangents) one Tensor or None per
    differentiable operand, or NON_DIFFERENTIABLE, an explicit choice either way.
    Errors: TypeError for an argument of the wrong type; ValueError where the name is not namespaced,
    reserved or taken, or vjp is left out.

    >>> from orlop import DType, OperandKind, OperandSpec, OperationSchema, ResultSpec, define_operation, friendly
    >>> from orlop.operation import NON_DIFFERENTIABLE, OperationPlan, ResolvedInvocation, execute_reference
    >>> from orlop.operation import resolve_operation_plan
    >>> relu = resolve_operation_plan("relu", DType.Float32)
    >>> plan = OperationPlan("example.shifted", relu.operands, relu.compute, None, None, DType.Float32)
    >>> def resolve(call):
    ...     layout = friendly.column_major(*call.operands[0].shape)
    ...     return ResolvedInvocation(call, plan, [ResultSpec(DType.Float32, layout.shape, layout)])
    >>> shifted = define_operation(
    ...     "example.shifted",
    ...     OperationSchema([OperandSpec("x", OperandKind.TENSOR)]),
    ...     resolve,
    ...     reference=lambda invocation: invocation.operands[0] + 1.0,
    ...     vjp=NON_DIFFERENTIABLE,
    ... )
    >>> friendly.to_list(execute_reference(shifted.resolve_call(shifted.bind(friendly.tensor([1, 2]))))[0])
    [2.0, 3.0]
    """

def operation_definition(name: object) -> object:
    """
    The definition of a built-in or defined name. Errors: TypeError where it is no str, LookupError.
    """

def execute_reference(invocation: object) -> tuple:
    """
    The reference's results, checked against the invocation (X31).

    Errors: UnsupportedOperationPlan without a reference; ProviderContractError for results that do
    not fit.

    >>> from orlop import friendly
    >>> from orlop.operation_definition import execute_reference, operation_definition
    >>> relu = operation_definition("relu")
    >>> result, = execute_reference(relu.resolve_call(relu.bind(friendly.tensor([3, -2]))))
    >>> friendly.to_list(result)
    [3.0, 0.0]
    """

def call_vjp(context: object, cotangents: object) -> tuple:
    """
    One Tensor or None per differentiable operand (X32); cotangents has one per result.

    Errors: ValueError and TypeError for what does not fit, RuntimeError without a VJP.

    >>> from orlop import friendly
    >>> from orlop.operation_definition import VJPContext, call_vjp, execute_reference, operation_definition
    >>> relu = operation_definition("relu")
    >>> tensor = friendly.tensor([3, -2])
    >>> invocation = relu.resolve_call(relu.bind(tensor))
    >>> context = VJPContext(invocation, execute_reference(invocation), (tensor,))
    >>> gradient, = call_vjp(context, (friendly.ones(2),))
    >>> friendly.to_list(gradient)
    [1.0, 0.0]
    """

def execute_definition_invocation(carrier: Carrier, invocation: object) -> tuple:
    """
    Runs a resolved invocation through a fresh operation.

    >>> from orlop import friendly
    >>> from orlop.carriers.definition_dispatch import execute_definition_invocation
    >>> from orlop.operation_definition import operation_definition
    >>> relu, tensor = operation_definition("relu"), friendly.ones(2)
    >>> execute_definition_invocation(tensor.carrier, relu.resolve_call(relu.bind(tensor)))
    Traceback (most recent call last):
        ...
    TypeError: [relu] CPU has no carrier definition, and runs no resolved invocation; call the ...
    """

@final
class DefinitionOperation(orlop._core.Operation):
    """
    One call of a definition on a carrier class with a CarrierDefinition (X27).
    """

    def forward(self, *inputs, **kwargs) -> object:
        """A Tensor, or a tuple of them in result order."""

    @property
    def definition(self) -> object: ...
