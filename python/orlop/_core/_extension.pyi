from orlop._core import Carrier
"""Carrier definitions: see orlop.carriers.extension."""



def register_carrier_definition(carrier_class: type[Carrier], definition: object) -> None:
    """
    Gives exactly `carrier_class` its definition, all or nothing, once, before its first use.

    Errors, all TypeError (X7): no proper Carrier subclass, no CarrierDefinition, a shipped class, a route from
    another
    class, a DependentCarrier without composite, capabilities declared by hand before, a class already observed or
    already defined.

    >>> from orlop.carriers.extension import register_carrier_definition
    >>> register_carrier_definition(orlop.CPU, None)
    Traceback (most recent call last):
        ...
    TypeError: [register_carrier_definition] definition must be a CarrierDefinition: got NoneType
    """

def has_carrier_definition(carrier_class: type[Carrier]) -> bool: ...

def peek_carrier_definition(carrier_class: type[Carrier]) -> object: ...

def show_facets(carrier_class: type[Carrier], facets: tuple) -> None:
    """Python's faces of the facets of a native class."""

def register_kernel_pack(pack: object) -> None:
    """
    Adds a KernelPack to its class, all or nothing, before the class is observed.

    Errors (X15): TypeError for no pack, a class without CarrierDefinition of its own, a DependentCarrier, a
    storage-only or already observed class, or an interface that does not match; ValueError where the namespace and
    version, or a kernel_id, are taken.

    >>> from orlop.carriers.extension import register_kernel_pack
    >>> register_kernel_pack("acme")
    Traceback (most recent call last):
        ...
    TypeError: [register_kernel_pack] pack must be a KernelPack: got str
    """
