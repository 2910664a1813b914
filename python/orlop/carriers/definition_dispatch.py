"""Runs resolved invocations on carriers with a CarrierDefinition; for tools that test conformance."""

from orlop._core._definitions import execute_definition_invocation

__all__ = ["execute_definition_invocation"]
