"""Carrier definitions: see orlop.carriers.extension."""



def register_carrier_definition(carrier_class: object | None, definition: object | None) -> None:
    """
    Gives exactly `carrier_class` its definition, all or nothing, once, before its first use.

    Errors, all TypeError (X7): no proper Carrier subclass, no CarrierDefinition, a shipped class, a route from another
    class, a DependentCarrier without composite, capabilities declared by hand before, a class already observed or
    already defined.
    """

def has_carrier_definition(carrier_class: object | None) -> bool: ...

def peek_carrier_definition(carrier_class: object | None) -> object: ...

def show_facets(carrier_class: object | None, facets: tuple) -> None:
    """Python's faces of the facets of a native class."""
