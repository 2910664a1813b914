from typing import final
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
    """

def call_vjp(context: object, cotangents: object) -> tuple:
    """
    One Tensor or None per differentiable operand (X32); cotangents has one per result.

    Errors: ValueError and TypeError for what does not fit, RuntimeError without a VJP.
    """

def execute_definition_invocation(carrier: Carrier, invocation: object) -> tuple:
    """Runs a resolved invocation through a fresh operation."""

@final
class DefinitionOperation(orlop._core.Operation):
    """
    One call of a definition on a carrier class with a CarrierDefinition (X27).
    """

    def forward(self, *inputs, **kwargs) -> object:
        """A Tensor, or a tuple of them in result order."""

    @property
    def definition(self) -> object: ...
