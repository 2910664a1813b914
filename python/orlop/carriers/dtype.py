"""Dtype descriptors: process-wide singletons, compared by identity.

``DType.Float32`` and its like are built in; ``SimpleDType``, ``DTypeCategory`` and ``BlockScaledDType`` register
new ones. A descriptor is found by name, never changes, and pickles to the receiver's own object.

>>> from orlop.carriers.dtype import DType, SimpleDType
>>> DType.Float32.bits, DType.Float32.is_subtype_of(DType.Floating)
(32, True)
>>> SimpleDType.from_name("Int8") is DType.Int8
True
"""

from orlop._core import _dtype as _native

__all__ = [
    "BlockScaledDType",
    "CompoundDType",
    "DType",
    "DTypeCategory",
    "Level",
    "LevelExtent",
    "RepresentationRule",
    "RepresentationValidationContext",
    "SimpleDType",
    "SymbolicBits",
    "Whole",
    "WholeExtent",
    "accepts_storage_dtype",
    "storage_zero",
    "validate_storage_dtype",
]

Level = _native.Level
SymbolicBits = _native.SymbolicBits


class WholeExtent:
    """The extent that takes in a whole level; its one instance is ``Whole`` (M202).

    >>> from orlop import Whole, WholeExtent
    >>> WholeExtent() is Whole
    True
    """

    __slots__ = ()

    def __new__(cls):
        return Whole

    def __repr__(self):
        return "Whole"

    def __reduce__(self):
        return "Whole"


Whole = object.__new__(WholeExtent)

_slot_type = type(type.__dict__["__dictoffset__"])
_class_fields = ("_abstract", "_owned")  # every class of the model has its own
_builtin_names = frozenset()


class _Model(type):
    """The metaclass of descriptors and rules: guards what the model owns, finishes what is constructed.

    ``_owned`` maps each member that a subclass may not replace to the class that owns it (M109, M204).
    """

    def __new__(meta, name, bases, namespace, *, abstract=True, owns=(), **keywords):
        owned = {}
        for base in bases:
            if isinstance(base, _Model):
                owned.update(base._owned)
        for member in namespace:
            if member in owned:
                raise TypeError(f"[{name}] a subclass must not redefine {member}: the dtype model owns it")
        cls = super().__new__(meta, name, bases, namespace, **keywords)
        for base in cls.__mro__[1:]:
            for member in base.__dict__:
                owner = owned.get(member, cls)
                if not issubclass(owner, base) and not (isinstance(base, _Model) and member in _class_fields):
                    raise TypeError(f"[{name}] the class inherits {member} from {base.__name__}: the dtype model owns it")
        slots = [member for member, value in cls.__dict__.items() if type(value) is _slot_type]
        type.__setattr__(cls, "_owned", owned | dict.fromkeys((*owns, *slots), cls))
        type.__setattr__(cls, "_abstract", abstract)
        return cls

    def __init__(cls, name, bases, namespace, *, abstract=True, owns=(), **keywords):
        super().__init__(name, bases, namespace)

    def __call__(cls, *args, **keywords):
        cls._require_constructible()
        self = cls.__new__(cls, *args, **keywords)
        try:
            if isinstance(self, cls):
                type(self).__init__(self, *args, **keywords)
            cls._finish(self)
        except BaseException:
            cls._discard(self)
            raise
        return self

    def __setattr__(cls, name, value):
        cls._guard(name)
        if cls is DType and isinstance(value, DType):
            raise AttributeError(f"[DType] no descriptor can be bound to the new name {name}; use DType.from_name")
        super().__setattr__(name, value)

    def __delattr__(cls, name):
        cls._guard(name)
        super().__delattr__(name)

    def _guard(cls, name):
        if name in cls._owned:
            raise AttributeError(f"[{cls.__name__}] {name} is owned by the dtype model; it cannot be set or deleted")
        if cls is DType and name in _builtin_names:
            raise AttributeError(f"[DType] the built-in {name} is owned by the dtype model; it cannot be set or deleted")


class DType(
    _native.Descriptor,
    metaclass=_Model,
    owns=(
        *("name", "value", "supertype", "supertypes", "is_subtype_of", "structure", "representation_rules"),
        *("__getattr__", "__getattribute__", "__setattr__", "__delattr__"),
        *("_abstract", "_owned", "_require_constructible", "_finish", "_discard", "_check_members"),
        *("_contract_structure", "_structural_key", "_structure_conflict", "_validate_finalized"),
    ),
):
    """Base of every descriptor (M101–M112); the built-in ones are its attributes.

    Extend DTypeCategory, SimpleDType, CompoundDType or BlockScaledDType with ``class X(Base, abstract=False)``. A
    construction is one transaction: a failure leaves the name free and an object that nothing accepts.

    >>> from orlop import DType
    >>> DType.from_name("Int32") is DType.Int32, DType.Int32.is_subtype_of(DType.Integer)
    (True, True)
    >>> DType.Int32.supertypes()
    (DTypeCategory('Integer'), DTypeCategory('Any'))
    >>> DType.MXFP4.is_compound(), DType.Int32.is_simple()
    (True, True)
    >>> DType.Integer.is_category(), DType.Integer.is_opaque_storage()
    (True, False)
    >>> DType.Bool.structure()
    ('str:DType', ('str:Any', 'str:DType', 'none', 'str:DTypeCategory', 'bool:True'), 'str:SimpleDType', 'int:8')
    """

    __slots__ = ("__weakref__",)

    Any: "DTypeCategory"
    Floating: "DTypeCategory"
    Integer: "DTypeCategory"
    Bool: "SimpleDType"
    Int32: "SimpleDType"
    Int8: "SimpleDType"
    Float32: "SimpleDType"
    Float64: "SimpleDType"
    E8M0: "SimpleDType"
    E5M2: "SimpleDType"
    E4M3: "SimpleDType"
    E3M2: "SimpleDType"
    E2M3: "SimpleDType"
    E2M1: "SimpleDType"
    MXFP8_E4M3: "BlockScaledDType"
    MXFP8_E5M2: "BlockScaledDType"
    MXINT8: "BlockScaledDType"
    MXFP6_E3M2: "BlockScaledDType"
    MXFP6_E2M3: "BlockScaledDType"
    MXFP4: "BlockScaledDType"
    NVFP4: "BlockScaledDType"

    def __init__(self, name, *, supertype=None):
        _native.initialize_dtype(self, name, supertype)

    name = property(_native.name, doc="The name, unique in the process.")
    value = property(_native.name, doc="The same as name.")
    supertype = property(_native.supertype, doc="The category directly above, or None at the root.")
    representation_rules = property(_native.representation_rules, doc="Rules that every representation must pass.")

    def supertypes(self):
        """All categories above, nearest first."""
        return _native.supertypes(self)

    def is_category(self):
        """Whether it is a DTypeCategory."""
        return _native.is_category(self)

    def is_simple(self):
        """Whether it is a SimpleDType."""
        return _native.is_simple(self)

    def is_compound(self):
        """Whether it is a CompoundDType."""
        return _native.is_compound(self)

    def is_opaque_storage(self):
        """Whether it is an opaque category (M104); that promises no carrier."""
        return _native.is_opaque_storage(self)

    def is_subtype_of(self, other):
        """Whether ``other`` is this descriptor or one of its supertypes. TypeError where it is no DType."""
        return _native.is_subtype_of(self, other)

    def structure(self):
        """The meaning as a tree of tuples and strings (M111)."""
        return _native.structure(self)

    def structure_extension(self):
        """What a subclass adds to the structure: a tuple of str, int, float, bool, None, Whole and such tuples.

        >>> from orlop import DType, SimpleDType
        >>> class Scaled(SimpleDType, abstract=False):
        ...     def __init__(self, name, scale):
        ...         super().__init__(name, bits=8, supertype=DType.Any)
        ...         self.scale = scale
        ...
        ...     def structure_extension(self):
        ...         return (self.scale,)
        >>> Scaled("ExampleScaled", 0.5).structure()[-1]
        'float:0x1.0000000000000p-1'
        """
        return ()

    @classmethod
    def registered(cls):
        """Every registered instance of this class, in registration order.

        >>> from orlop import DTypeCategory
        >>> DTypeCategory.registered()[:2]
        (DTypeCategory('Any'), DTypeCategory('Floating'))
        """
        return tuple(dtype for dtype in _native.registered() if isinstance(dtype, cls))

    @classmethod
    def from_name(cls, name):
        """The instance of this class called ``name``. TypeError: no str. LookupError: unknown, or of another class."""
        return _native.from_name(cls, name)

    @classmethod
    def _require_constructible(cls):
        if cls._abstract:
            raise TypeError(f"[{cls.__name__}] the class is abstract; construct one declared with abstract=False")

    def _finish(self):
        _native.check_draft(self)
        self._check_members()
        extension = self.structure_extension()
        self._check_members()
        _native.publish(self, extension)

    def _discard(self):
        _native.discard_draft(self)

    def _check_members(self):
        for member in getattr(self, "__dict__", ()):
            if member in type(self)._owned:
                raise TypeError(f"[{type(self).__name__}] the constructor assigned {member} on itself: the model owns it")

    def __setattr__(self, name, value):
        if _native.is_published(self):
            raise AttributeError(f"[{self.name}] a dtype is immutable; {name} cannot be set")
        super().__setattr__(name, value)

    def __delattr__(self, name):
        if _native.is_published(self):
            raise AttributeError(f"[{self.name}] a dtype is immutable; {name} cannot be deleted")
        super().__delattr__(name)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _unpickle_dtype, (self.name, self.structure())

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r})"


_kind_queries = ("is_category", "is_simple", "is_compound", "is_opaque_storage")


class DTypeCategory(DType, abstract=False, owns=_kind_queries):
    """A set of dtypes; ``opaque_storage`` marks those that name a storage themselves (M104).

    Errors: ValueError for a name that is no non-empty str or is used; TypeError for a supertype that is no category.

    >>> from orlop import DType, DTypeCategory
    >>> complex_numbers = DTypeCategory("ExampleComplex", supertype=DType.Any)
    >>> complex_numbers.is_subtype_of(DType.Any)
    True
    >>> DTypeCategory("ExampleComplex")
    Traceback (most recent call last):
        ...
    ValueError: [dtype] 'ExampleComplex' is already registered; a dtype's name is used once
    """

    __slots__ = ()

    def __init__(self, name, *, supertype=None, opaque_storage=False):
        _native.initialize_category(self, name, supertype, opaque_storage)


class SimpleDType(DType, abstract=False, owns=(*_kind_queries, "bits")):
    """A dtype whose values are one pattern of ``bits`` bits.

    Errors: TypeError for a supertype that is no category; ValueError for the name, or for bits that are no int above 0.

    >>> from orlop import DType, SimpleDType
    >>> SimpleDType("ExampleFloat16", bits=16, supertype=DType.Floating).bits
    16
    """

    __slots__ = ()

    def __init__(self, name, *, bits, supertype):
        _native.initialize_simple(self, name, bits, supertype)

    bits = property(_native.bits, doc="The exact width of one value.")


class CompoundDType(DType, owns=(*_kind_queries, "simple_types", "num_carriers")):
    """A dtype whose plane i lives in its own carrier of dtype ``simple_types[i]`` (M201). Extend it to define one.

    Errors: ValueError for the name or without a plane; TypeError for any other argument of a wrong type.

    >>> from orlop import CompoundDType, DType
    >>> class Interval(CompoundDType, abstract=False):
    ...     def __init__(self, name):
    ...         super().__init__(name, simple_types=[DType.Float32, DType.Float32])
    >>> Interval("ExampleInterval").num_carriers
    2
    """

    __slots__ = ()

    def __init__(self, name, *, supertype=None, simple_types, representation_rules=()):
        _native.initialize_compound(self, name, supertype, simple_types, representation_rules)

    simple_types = property(_native.simple_types, doc="The SimpleDType of each plane.")
    num_carriers = property(_native.num_carriers, doc="The number of planes.")


class BlockScaledDType(
    CompoundDType, abstract=False, owns=("element", "levels", "num_axes", "bits_per_element")
):
    """Values that are an element times one scale per level, ``levels`` innermost first (M206).

    >>> DType.MXFP4.element, DType.MXFP4.bits_per_element
    (SimpleDType('E2M1'), 4.25)
    >>> DType.NVFP4.bits_per_element.evaluate(1024)
    4.53125

    Errors: TypeError for an element that is no SimpleDType or a level that is no Level; ValueError without a level, for
    a Whole level that is not the last, for the name, or for a structure that already has a name.
    """

    __slots__ = ()

    def __init__(self, name, *, element, levels):
        _native.initialize_block_scaled(self, name, element, levels)

    element = property(_native.element, doc="The SimpleDType of the elements.")
    levels = property(_native.levels, doc="The Level values, innermost first.")
    num_axes = property(_native.num_axes, doc="The number of levels whose block is an int.")
    bits_per_element = property(_native.bits_per_element, doc="A float, or SymbolicBits where the last level is Whole.")


class RepresentationValidationContext:
    """What a rule sees of the representation it validates (M204); read-only.

    ``adjacent_layouts[i]`` maps level i, of shape ``level_shapes[i]``, to level i + 1.

    >>> from orlop import DType, Layout, RepresentationValidationContext, Shape, Stride
    >>> context = RepresentationValidationContext(
    ...     DType.Float32, [DType.Float32], [Layout(Shape(4), Stride(1))], [], [Shape(4)]
    ... )
    >>> context.level_shapes
    (Shape<(4,)>,)
    """

    __slots__ = ("logical_dtype", "storage_dtypes", "placement_layouts", "adjacent_layouts", "level_shapes")

    def __init__(self, logical_dtype, storage_dtypes, placement_layouts, adjacent_layouts, level_shapes):
        set_field = super().__setattr__
        set_field("logical_dtype", logical_dtype)
        set_field("storage_dtypes", tuple(storage_dtypes))
        set_field("placement_layouts", tuple(placement_layouts))
        set_field("adjacent_layouts", tuple(adjacent_layouts))
        set_field("level_shapes", tuple(level_shapes))

    def __setattr__(self, name, value):
        raise AttributeError(f"[RepresentationValidationContext] {name} is read-only")

    def __delattr__(self, name):
        raise AttributeError(f"[RepresentationValidationContext] {name} is read-only")


class RepresentationRule(
    _native.Rule,
    metaclass=_Model,
    owns=(
        *("structure", "__setattr__", "__delattr__", "__copy__", "__deepcopy__", "_structure", "_finalized"),
        *("_abstract", "_owned", "_require_constructible", "_finish", "_discard"),
    ),
):
    """One condition on the planes of a compound value; abstract. Equality is identity (M204).

    A subclass implements ``validate(context)``, which returns or raises, and may add to the structure with
    ``structure_extension()``. Once constructed, a rule is immutable.

    >>> from orlop import RepresentationRule
    >>> class OneShape(RepresentationRule):
    ...     def validate(self, context):
    ...         if len(set(context.level_shapes)) > 1:
    ...             raise ValueError(f"all planes must have one shape: got {context.level_shapes}")
    >>> OneShape().structure()[1:], OneShape().structure_extension()
    (('str:OneShape', ()), ())
    """

    __slots__ = ("__weakref__",)

    def validate(self, context):
        """Returns where the representation described by ``context`` obeys the rule, else raises."""
        _native.validate_rule(self, context)

    def structure(self):
        """(module, qualified name, extension) as a tree of strings."""
        return _native.rule_structure(self)

    def structure_extension(self):
        """What a subclass adds to the structure: a tuple of str, int, float, bool, None, Whole and such tuples."""
        return ()

    @classmethod
    def _require_constructible(cls):
        if cls.validate is RepresentationRule.validate and cls is not LevelExtent:
            raise TypeError(f"[{cls.__name__}] the class is abstract; implement validate(context)")

    def _finish(self):
        if not _native.is_final_rule(self):
            _native.finalize_rule(self, self.structure_extension())

    def _discard(self):
        """Nothing is registered before the rule is final."""

    def __setattr__(self, name, value):
        if _native.is_final_rule(self):
            raise AttributeError(f"[{type(self).__name__}] rules are immutable; {name} cannot be set")
        super().__setattr__(name, value)

    def __delattr__(self, name):
        if _native.is_final_rule(self):
            raise AttributeError(f"[{type(self).__name__}] rules are immutable; {name} cannot be deleted")
        super().__delattr__(name)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError(f"[{type(self).__name__}] the rule cannot be pickled; define __reduce__ to construct it again")


class LevelExtent(RepresentationRule):
    """Adjacent layout ``level`` maps exactly ``extent`` coordinates of its level to each of the next (M205).

    level: an exact int of at least 0. extent: Whole or an exact int of at least 1. Else TypeError, ValueError.

    >>> from orlop import DType, LevelExtent
    >>> DType.MXFP4.representation_rules, LevelExtent(0, 32).extent
    ((LevelExtent(level=0, extent=32),), 32)
    """

    __slots__ = ()

    def __init__(self, level, extent):
        _native.initialize_level_extent(self, level, extent)

    def __init_subclass__(cls, **keywords):
        raise TypeError("[LevelExtent] the class cannot be extended; extend RepresentationRule")

    level = property(_native.level, doc="The index of the adjacent layout.")
    extent = property(_native.extent, doc="An int, or Whole.")

    def __reduce__(self):
        return LevelExtent, (self.level, self.extent)

    def __repr__(self):
        return f"LevelExtent(level={self.level}, extent={self.extent})"


def validate_storage_dtype(dtype, *, carrier, accepted):
    """Returns ``dtype`` where it is identical to one of ``accepted``; ``carrier`` names the carrier in messages.

    >>> validate_storage_dtype(DType.Int32, carrier="CPU", accepted=(DType.Float32, DType.Int32))
    SimpleDType('Int32')

    Errors: TypeError where it is no DType; ValueError where it is not accepted, which for a compound dtype says that
    multi-plane storage is deferred.
    """
    return _native.validate_storage_dtype(dtype, carrier, accepted)


def accepts_storage_dtype(dtype, accepted):
    """Whether ``dtype`` is identical, not merely equal, to one of ``accepted``.

    >>> from orlop import DType
    >>> from orlop.carriers.dtype import accepts_storage_dtype
    >>> accepts_storage_dtype(DType.Bool, (DType.Float32, DType.Int32))
    False
    """
    try:
        entries = iter(accepted)
    except TypeError:
        raise TypeError(f"[accepts_storage_dtype] accepted must be iterable: got {type(accepted).__name__}") from None
    return any(dtype is one for one in entries)


def storage_zero(dtype):
    """What a fresh slot holds: 0.0, 0, False for Float32, Int32, Bool; None for every other DType.

    >>> storage_zero(DType.Bool)
    False
    """
    return _native.storage_zero(dtype)


def _unpickle_dtype(name, structure):
    """The receiver's own descriptor of a pickled one. LookupError: unknown here. ValueError: means something else."""
    return _native.resolve(name, structure)


_native.install_model(
    _native,
    *(DTypeCategory, SimpleDType, CompoundDType, BlockScaledDType),
    *(RepresentationRule, LevelExtent, RepresentationValidationContext, Whole),
)
for _dtype in _native.builtins():
    type.__setattr__(DType, _dtype.name, _dtype)
_builtin_names = frozenset(dtype.name for dtype in _native.builtins())
