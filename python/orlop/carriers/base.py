"""Carrier, the extension point for storage authors, and the rule about closed classes."""

from orlop._core import CLOSED_CARRIER_MESSAGE, Carrier, DependentCarrier, reject_carrier_subclass

__all__ = ["CLOSED_CARRIER_MESSAGE", "Carrier", "DependentCarrier", "reject_carrier_subclass"]
