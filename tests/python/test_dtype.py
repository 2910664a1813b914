"""Dtype descriptors, block-scaled formats, representation rules and the storage dtype helpers from Python."""

import copy
import dataclasses
import gc
import math
import pickle
import subprocess
import sys
import threading
import weakref

import orlop
import orlop.carriers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from orlop import Layout, Shape, Stride
from orlop.carriers import dtype as home
from orlop.carriers.dtype import (
    BlockScaledDType,
    CompoundDType,
    DType,
    DTypeCategory,
    Level,
    LevelExtent,
    RepresentationRule,
    RepresentationValidationContext,
    SimpleDType,
    SymbolicBits,
    Whole,
    WholeExtent,
    accepts_storage_dtype,
    storage_zero,
    validate_storage_dtype,
)

_names = iter(range(10**9))


def fresh(stem="Fresh"):
    """A name that no test has used."""
    return f"{stem}{next(_names)}"


def is_free(name):
    return all(dtype.name != name for dtype in DType.registered())


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


# --- M101: the module -----------------------------------------------------------------------------------------


def test_names_live_in_one_home():
    helpers = {"accepts_storage_dtype", "storage_zero", "validate_storage_dtype"}
    assert helpers < set(home.__all__)
    for name in home.__all__:
        value = getattr(home, name)
        if name != "Whole":
            assert value.__module__ == "orlop.carriers.dtype", name
        for package in (orlop, orlop.carriers):
            if name in helpers:
                assert name not in package.__all__
            else:
                assert name in package.__all__
                assert getattr(package, name) is value
    with pytest.raises(AttributeError):
        orlop.no_such_name  # noqa: B018
    assert "DType" in dir(orlop)
    assert "DType" in dir(orlop.carriers)


def test_importing_the_package_does_not_load_the_model():
    done = run_python("import sys, orlop; assert 'orlop.carriers.dtype' not in sys.modules; orlop.DType.Float32")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_descriptor_classes_share_one_metaclass():
    kinds = (DType, DTypeCategory, SimpleDType, CompoundDType, BlockScaledDType, RepresentationRule, LevelExtent)
    assert len({type(kind) for kind in kinds}) == 1


# --- M104, M105: built-ins and queries ------------------------------------------------------------------------

SIMPLE = {
    "Bool": (8, "Any"),
    "Int32": (32, "Integer"),
    "Int8": (8, "Integer"),
    "Float32": (32, "Floating"),
    "Float64": (64, "Floating"),
    "E8M0": (8, "Floating"),
    "E5M2": (8, "Floating"),
    "E4M3": (8, "Floating"),
    "E3M2": (6, "Floating"),
    "E2M3": (6, "Floating"),
    "E2M1": (4, "Floating"),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_builtins_have_the_widths_of_the_table(name):
    dtype = getattr(DType, name)
    bits, supertype = SIMPLE[name]
    assert dtype is DType.from_name(name) is SimpleDType.from_name(name)
    assert (dtype.name, dtype.value, dtype.bits) == (name, name, bits)
    assert dtype.supertype is getattr(DType, supertype)
    assert (dtype.is_category(), dtype.is_simple(), dtype.is_compound()) == (False, True, False)
    assert not dtype.is_opaque_storage()
    assert dtype.representation_rules == ()
    assert repr(dtype) == f"SimpleDType('{name}')"


def test_categories_are_the_roots_of_the_table():
    assert DType.Any.supertype is None
    assert DType.Any.supertypes() == ()
    assert DType.Float32.supertypes() == (DType.Floating, DType.Any)
    assert [c.is_opaque_storage() for c in (DType.Any, DType.Floating, DType.Integer)] == [True, True, False]
    assert DType.Integer.is_category()
    assert repr(DType.Any) == "DTypeCategory('Any')"
    assert not hasattr(DType.Any, "bits")
    assert not hasattr(DType.Float32, "simple_types")


def test_subtype_is_reflexive_and_follows_the_supertypes():
    assert DType.Float32.is_subtype_of(DType.Float32)
    assert DType.Float32.is_subtype_of(DType.Any)
    assert DType.NVFP4.is_subtype_of(DType.Any)
    assert not DType.Float32.is_subtype_of(DType.Integer)
    assert not DType.Floating.is_subtype_of(DType.Float32)
    with pytest.raises(TypeError):
        DType.Float32.is_subtype_of("Any")


def test_registered_lists_the_instances_in_order():
    names = [dtype.name for dtype in DType.registered()]
    assert names[:4] == ["Any", "Floating", "Integer", "Bool"]
    assert [dtype.name for dtype in BlockScaledDType.registered()][:7] == list(FORMATS)
    assert all(isinstance(dtype, SimpleDType) for dtype in SimpleDType.registered())
    added = SimpleDType(fresh(), bits=3, supertype=DType.Any)
    assert SimpleDType.registered()[-1] is added
    assert added not in DTypeCategory.registered()


def test_from_name_finds_only_its_own_class():
    assert DType.from_name("NVFP4") is CompoundDType.from_name("NVFP4") is DType.NVFP4
    with pytest.raises(LookupError, match="No Orlop dtype named"):
        DType.from_name("Float12")
    with pytest.raises(LookupError, match="No Orlop dtype named"):
        DType.from_name("\ud800")
    with pytest.raises(LookupError, match="not a SimpleDType descriptor"):
        SimpleDType.from_name("Any")
    for wrong in (3, None, b"Any", DType.Any):
        with pytest.raises(TypeError):
            DType.from_name(wrong)


class Text(str):
    """A str whose hash and equality must not run."""

    def __hash__(self):
        raise AssertionError

    def __eq__(self, other):
        raise AssertionError


def test_a_str_subclass_is_reduced_to_its_exact_string():
    assert DType.from_name(Text("Int8")) is DType.Int8
    name = fresh()
    dtype = DTypeCategory(Text(name))
    assert type(dtype.name) is str
    assert DType.from_name(name) is dtype


# --- M102, M103: construction ---------------------------------------------------------------------------------


def test_a_new_simple_dtype_is_found_by_name_only():
    half = SimpleDType("Float16", bits=16, supertype=DType.Floating)
    assert DType.from_name("Float16") is half
    with pytest.raises(AttributeError):
        DType.Float16  # noqa: B018
    with pytest.raises(ValueError, match="already registered"):
        SimpleDType("Float16", bits=16, supertype=DType.Floating)
    with pytest.raises(ValueError, match="already registered"):
        DTypeCategory("Float16")


def test_identity_is_equality_and_hash():
    a = SimpleDType(fresh(), bits=7, supertype=DType.Any)
    b = SimpleDType(fresh(), bits=7, supertype=DType.Any)
    assert a == a
    assert a != b
    assert len({a, b, a}) == 2
    assert weakref.ref(a)() is a


@pytest.mark.parametrize("bits", [True, 0, -1, "8", 8.0, None, 2**70])
def test_bits_must_be_an_exact_positive_width(bits):
    name = fresh()
    with pytest.raises(ValueError, match="exact positive bit width"):
        SimpleDType(name, bits=bits, supertype=DType.Any)
    assert is_free(name)
    assert SimpleDType(name, bits=1, supertype=DType.Any).bits == 1


def test_arguments_are_checked_in_order():
    with pytest.raises(ValueError, match="non-empty"):
        DTypeCategory("", supertype=3)
    with pytest.raises(ValueError, match="non-empty"):
        DTypeCategory(3)
    with pytest.raises(TypeError, match="supertype"):
        DTypeCategory(fresh(), supertype=DType.Float32)
    with pytest.raises(TypeError, match="opaque_storage"):
        DTypeCategory(fresh(), opaque_storage=1)
    with pytest.raises(TypeError, match="supertype"):
        SimpleDType("", bits=0, supertype=None)
    with pytest.raises(ValueError, match="non-empty"):
        SimpleDType("", bits=0, supertype=DType.Any)
    with pytest.raises(ValueError, match="exact positive"):
        SimpleDType("Any", bits=0, supertype=DType.Any)
    with pytest.raises(ValueError):  # noqa: PT011  a lone surrogate is no text
        DTypeCategory("\ud800")


class Pair(CompoundDType, abstract=False):
    """Two planes."""


def test_compound_arguments_are_checked_in_order():
    planes = (DType.Float32, DType.Int8)
    with pytest.raises(ValueError, match="non-empty"):
        Pair("", supertype=3, simple_types=planes)
    with pytest.raises(TypeError, match="supertype"):
        Pair(fresh(), supertype=3, simple_types=3)
    with pytest.raises(TypeError, match="iterable"):
        Pair(fresh(), simple_types=3)
    with pytest.raises(ValueError, match="at least one"):
        Pair(fresh(), simple_types=(), representation_rules=3)
    with pytest.raises(TypeError, match="SimpleDType"):
        Pair(fresh(), simple_types=(DType.Any,))
    with pytest.raises(TypeError, match="iterable"):
        Pair(fresh(), simple_types=planes, representation_rules=3)
    with pytest.raises(TypeError, match="RepresentationRule"):
        Pair(fresh(), simple_types=planes, representation_rules=[LevelExtent])
    rule = LevelExtent(0, 4)
    pair = Pair(fresh(), simple_types=iter(planes), representation_rules=iter([rule]))
    assert pair.simple_types == planes
    assert pair.num_carriers == 2
    assert pair.supertype is None
    assert pair.representation_rules[0] is rule
    assert pair.is_compound()


def test_an_iterator_that_raises_passes_its_error_on():
    def planes():
        yield DType.Float32
        raise KeyError("mine")

    name = fresh()
    with pytest.raises(KeyError, match="mine"):
        Pair(name, simple_types=planes())
    assert is_free(name)


# --- M107, M108: the transaction ------------------------------------------------------------------------------


def test_a_constructor_raising_after_its_base_frees_name_and_structure():
    kept = []

    class Failing(BlockScaledDType, abstract=False):
        def __init__(self, name, block, fail):
            super().__init__(name, element=DType.E2M1, levels=[Level(DType.E8M0, block)])
            kept.append(self)
            assert self.name == name
            if fail:
                raise KeyError(name)

    name = fresh()
    with pytest.raises(KeyError):
        Failing(name, 7, fail=True)
    assert is_free(name)
    broken = kept[0]
    for use in (
        lambda: broken.name,
        lambda: broken.structure(),
        lambda: DType.Float32.is_subtype_of(broken),
        lambda: Level(broken, 3),
        lambda: DTypeCategory(fresh(), supertype=broken),
        lambda: storage_zero(broken),
        lambda: pickle.dumps(broken),
    ):
        with pytest.raises(ValueError, match="is not finalized"):
            use()
    assert Failing(name, 7, fail=False) is DType.from_name(name)


def test_no_lookup_sees_a_dtype_before_its_constructor_returns():
    name = fresh()

    class Watching(SimpleDType, abstract=False):
        def __init__(self):
            super().__init__(name, bits=5, supertype=DType.Any)
            assert is_free(name)
            with pytest.raises(ValueError, match="is not finalized"):
                DType.Float32.is_subtype_of(self)

        def structure_extension(self):
            assert self.bits == 5
            assert is_free(name)
            return ()

    assert Watching() is DType.from_name(name)


def test_of_two_racing_threads_one_gets_value_error():
    name = fresh()
    barrier = threading.Barrier(2)
    outcomes = []

    class Racing(SimpleDType, abstract=False):
        def __init__(self):
            super().__init__(name, bits=9, supertype=DType.Any)
            barrier.wait()

    def construct():
        try:
            outcomes.append(Racing())
        except ValueError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=construct) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [one for one in outcomes if isinstance(one, ValueError)]
    assert len(errors) == 1
    assert "already registered" in str(errors[0])
    assert DType.from_name(name) in outcomes


def test_a_class_is_abstract_unless_it_says_otherwise():
    class Sketch(SimpleDType):
        pass

    for cls in (DType, CompoundDType, Sketch):
        with pytest.raises(TypeError, match="is abstract"):
            cls(fresh(), bits=8, supertype=DType.Any)

    class Final(Sketch, abstract=False):
        pass

    dtype = Final(fresh(), bits=8, supertype=DType.Any)
    assert repr(dtype) == f"Final('{dtype.name}')"
    assert Sketch.registered() == (dtype,)
    assert Final.from_name(dtype.name) is dtype
    with pytest.raises(LookupError, match="not a Final descriptor"):
        Final.from_name("Float32")


def test_a_base_left_uninitialized_is_a_type_error():
    class Nothing(SimpleDType, abstract=False):
        def __init__(self):
            pass

    class OnlyRoot(CompoundDType, abstract=False):
        def __init__(self, name):
            DType.__init__(self, name)

    class OnlyCompound(BlockScaledDType, abstract=False):
        def __init__(self, name):
            CompoundDType.__init__(self, name, simple_types=[DType.Float32])

    class Kindless(DType, abstract=False):
        pass

    class Both(SimpleDType, DTypeCategory, abstract=False):
        pass

    class Elsewhere(SimpleDType, abstract=False):
        def __new__(cls):
            return DType.Float32

        def __init__(self):
            pass

    with pytest.raises(TypeError, match="did not initialize its DType base"):
        Nothing()
    with pytest.raises(TypeError, match="did not initialize its compound base"):
        OnlyRoot(fresh())
    with pytest.raises(TypeError, match="did not initialize its block-scaled base"):
        OnlyCompound(fresh())
    with pytest.raises(TypeError, match="category, a simple or a compound"):
        Kindless(fresh())
    with pytest.raises(TypeError, match="category, a simple or a compound"):
        Both(fresh(), bits=3, supertype=DType.Any)
    with pytest.raises(TypeError, match="did not initialize its DType base"):
        Elsewhere()
    with pytest.raises(TypeError, match="instance of DTypeCategory"):
        DTypeCategory.__init__(SimpleDType.__new__(SimpleDType), fresh())
    assert DType.Float32.bits == 32


def test_extensions_keep_their_own_fields_with_or_without_slots():
    class Slotted(SimpleDType, abstract=False):
        __slots__ = ("bias",)

        def __init__(self, name, bias):
            super().__init__(name, bits=8, supertype=DType.Any)
            self.bias = bias

    class Open(SimpleDType, abstract=False):
        def __init__(self, name, bias):
            super().__init__(name, bits=8, supertype=DType.Any)
            self.bias = bias

    for cls in (Slotted, Open):
        dtype = cls(fresh(), 3)
        assert dtype.bias == 3
        with pytest.raises(AttributeError, match="immutable"):
            dtype.bias = 4
        with pytest.raises(AttributeError, match="immutable"):
            del dtype.bias
    assert not hasattr(Slotted(fresh(), 1), "__dict__")
    with pytest.raises(TypeError, match="must not redefine bias"):
        type(SimpleDType)("Sub", (Slotted,), {"bias": 3})


# --- M109, M110: ownership and immutability -------------------------------------------------------------------

OWNED = {
    DType: ["name", "value", "supertype", "supertypes", "is_subtype_of", "structure", "representation_rules"]
    + ["__getattr__", "__getattribute__", "__setattr__", "__delattr__"]
    + ["_contract_structure", "_structural_key", "_structure_conflict", "_validate_finalized"],
    DTypeCategory: ["is_category", "is_simple", "is_compound", "is_opaque_storage"],
    SimpleDType: ["is_category", "bits"],
    CompoundDType: ["is_compound", "simple_types", "num_carriers"],
    BlockScaledDType: ["element", "levels", "num_axes", "bits_per_element", "simple_types", "name"],
    RepresentationRule: ["structure", "__setattr__", "__delattr__", "__copy__", "__deepcopy__", "_structure"]
    + ["_finalized"],
}


@pytest.mark.parametrize(("base", "member"), [(base, member) for base in OWNED for member in OWNED[base]])
def test_model_owned_members_cannot_be_replaced(base, member):
    metaclass = type(base)
    with pytest.raises(TypeError, match=f"must not redefine {member}"):
        metaclass("Body", (base,), {member: 3})
    mixin = type("Mixin", (), {member: 3})
    with pytest.raises(TypeError, match=f"inherits {member} from Mixin"):
        metaclass("Mixed", (mixin, base), {})
    subclass = metaclass("Sub", (base,), {})
    for cls in (base, subclass):
        with pytest.raises(AttributeError, match="owned by the dtype model"):
            setattr(cls, member, 3)
        with pytest.raises(AttributeError, match="owned by the dtype model"):
            delattr(cls, member)


def test_an_owned_member_in_the_instance_dictionary_is_found_before_and_after_the_extension():
    class Early(SimpleDType, abstract=False):
        def __init__(self, name):
            super().__init__(name, bits=8, supertype=DType.Any)
            self.is_simple = lambda: False

    class Late(SimpleDType, abstract=False):
        def structure_extension(self):
            self.is_simple = lambda: False
            return ()

    name = fresh()
    with pytest.raises(TypeError, match="assigned is_simple on itself"):
        Early(name)
    with pytest.raises(TypeError, match="assigned is_simple on itself"):
        Late(name, bits=8, supertype=DType.Any)
    assert is_free(name)


def test_published_dtypes_are_immutable():
    for dtype in (DType.Float32, DType.NVFP4, DType.Any):
        for member in ("name", "anything"):
            with pytest.raises(AttributeError, match="immutable"):
                setattr(dtype, member, 1)
            with pytest.raises(AttributeError, match="immutable"):
                delattr(dtype, member)
        assert copy.copy(dtype) is dtype
        assert copy.deepcopy([dtype])[0] is dtype
    with pytest.raises(AttributeError, match="immutable"):
        SimpleDType.__init__(DType.Float32, "Other", bits=3, supertype=DType.Any)
    assert (DType.Float32.name, DType.Float32.bits) == ("Float32", 32)


def test_builtins_stay_where_they_are():
    for act in (
        lambda: delattr(DType, "Float32"),
        lambda: setattr(DType, "Float32", 3),
        lambda: setattr(DType, "Float33", DType.Float32),
    ):
        with pytest.raises(AttributeError):
            act()
    assert DType.Float32.name == "Float32"
    before = set(vars(DType))
    SimpleDType(fresh(), bits=3, supertype=DType.Any)
    assert set(vars(DType)) == before


# --- M111, M112: structure and pickling -----------------------------------------------------------------------

ANY = ("str:DType", "none", "str:DTypeCategory", "bool:True")


def test_structure_goes_from_general_to_special():
    assert DType.Any.structure() == ANY
    assert DType.Bool.structure() == ("str:DType", ("str:Any", *ANY), "str:SimpleDType", "int:8")
    scale = ("str:E8M0", *DType.E8M0.structure())
    element = ("str:E2M1", *DType.E2M1.structure())
    rule = ("str:orlop.carriers.dtype", "str:LevelExtent", ("int:0", "int:32"))
    assert DType.MXFP4.structure() == (
        *("str:DType", ("str:Any", *ANY)),
        *("str:CompoundDType", (element, scale), (rule,)),
        *("str:BlockScaledDType", element, ((scale, "int:32"),)),
    )
    assert DType.NVFP4.structure()[-1][1][1] == "whole"


def extended(extension):
    class Extended(SimpleDType, abstract=False):
        def structure_extension(self):
            return extension

    return Extended(fresh(), bits=8, supertype=DType.Any)


def test_the_extension_comes_last_and_distinguishes_types():
    tail = extended((1, 1.0, True, None, "x", Whole, (2, ()), -0.0, math.nan)).structure()[4:]
    assert tail == (
        *("int:1", "float:0x1.0000000000000p+0", "bool:True", "none", "str:x", "whole"),
        *(("int:2", ()), "float:-0x0.0p+0", "float:nan"),
    )


@pytest.mark.parametrize("extension", [[1], None, "x", type("Tuple", (tuple,), {})()])
def test_the_extension_must_be_an_exact_tuple(extension):
    with pytest.raises(TypeError, match="must return a tuple"):
        extended(extension)


@pytest.mark.parametrize("leaf", [b"x", [1], Text("x"), 1j, DType.Any, type("Int", (int,), {})(3)])
def test_the_extension_holds_only_exact_leaves(leaf):
    with pytest.raises(TypeError, match="holds only exact strings"):
        extended((1, (leaf,)))


def test_an_extension_of_any_depth_or_size_is_safe():
    deep = ()
    for _ in range(30_000):
        deep = (deep,)
    found = extended(deep).structure()[4:]
    depth = 0
    while found:
        found, depth = found[0], depth + 1
    assert depth == 30_000
    doubled = ("x",)
    for _ in range(60):
        doubled = (doubled, doubled)
    with pytest.raises(ValueError, match="at most"):
        extended(doubled)


def test_the_extension_runs_once():
    calls = []

    class Counting(SimpleDType, abstract=False):
        def structure_extension(self):
            calls.append(1)
            return (len(calls),)

    dtype = Counting(fresh(), bits=8, supertype=DType.Any)
    assert dtype.structure() == dtype.structure()
    assert calls == [1]


def test_pickle_gives_the_receivers_own_object():
    for dtype in (*DType.registered()[:21], extended((1.5, "x"))):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype


PICKLED = """
import pickle, sys
from orlop.carriers.dtype import *
print(pickle.loads(bytes.fromhex('{nvfp4}')) is DType.NVFP4)
try:
    pickle.loads(bytes.fromhex('{custom}'))
except LookupError as error:
    print(error)
SimpleDType('{name}', bits=4, supertype=DType.Any)
try:
    pickle.loads(bytes.fromhex('{custom}'))
except ValueError as error:
    print(error)
"""


def test_pickle_into_a_fresh_process():
    custom = SimpleDType(fresh("Travelling"), bits=3, supertype=DType.Any)
    done = run_python(
        PICKLED.format(
            nvfp4=pickle.dumps(DType.NVFP4).hex(), custom=pickle.dumps(custom).hex(), name=custom.name
        )
    )
    assert done.returncode == 0, done.stderr
    same, unregistered, other_width = done.stdout.splitlines()
    assert same == "True"
    assert "must be registered again" in unregistered
    assert "structure" in other_width


@pytest.mark.parametrize("structure", [3, [], (3,), ("str:DType", (b"x",)), None])
def test_a_forged_pickle_is_refused(structure):
    with pytest.raises((TypeError, ValueError)):
        home._unpickle_dtype("Float32", structure)


# --- M201–M206: levels and formats ----------------------------------------------------------------------------

FORMATS = {
    "MXFP8_E4M3": ("E4M3", 8.25),
    "MXFP8_E5M2": ("E5M2", 8.25),
    "MXINT8": ("Int8", 8.25),
    "MXFP6_E3M2": ("E3M2", 6.25),
    "MXFP6_E2M3": ("E2M3", 6.25),
    "MXFP4": ("E2M1", 4.25),
    "NVFP4": ("E2M1", SymbolicBits(4.5, 32)),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_have_the_bits_of_the_table(name):
    dtype = getattr(DType, name)
    element, bits = FORMATS[name]
    assert dtype is BlockScaledDType.from_name(name)
    assert dtype.element is getattr(DType, element)
    assert dtype.bits_per_element == bits
    assert dtype.num_axes == 1
    assert dtype.supertype is DType.Any
    assert dtype.simple_types == (dtype.element, *(level.scale for level in dtype.levels))
    assert dtype.num_carriers == 1 + len(dtype.levels)
    assert [(rule.level, rule.extent) for rule in dtype.representation_rules] == [
        (i, level.block) for i, level in enumerate(dtype.levels)
    ]
    assert dtype.representation_rules[0] is dtype.representation_rules[0]
    assert dtype.is_compound()
    assert repr(dtype) == f"BlockScaledDType('{name}')"


def test_nvfp4_levels():
    assert DType.NVFP4.levels == (Level(DType.E4M3, 16), Level(DType.Float32, Whole))
    assert DType.NVFP4.bits_per_element.evaluate(1024) == 4.53125


def test_bits_divide_by_the_product_of_the_blocks():
    dtype = BlockScaledDType(
        fresh(), element=DType.E2M1, levels=(Level(DType.E8M0, 8), Level(DType.Float32, 4), Level(DType.Float64, 2))
    )
    assert dtype.bits_per_element == 4 + 8 / 8 + 32 / 32 + 64 / 64
    assert dtype.num_axes == 3


def test_one_structure_has_one_name():
    class Mine(BlockScaledDType, abstract=False):
        pass

    for cls in (BlockScaledDType, Mine):
        name = fresh()
        with pytest.raises(ValueError, match="'MXFP4' already describes"):
            cls(name, element=DType.E2M1, levels=[Level(DType.E8M0, 32)])
        assert is_free(name)


def test_block_scaled_arguments():
    level = Level(DType.E8M0, 5)
    with pytest.raises(TypeError, match="element"):
        BlockScaledDType("", element=DType.Any, levels=3)
    with pytest.raises(TypeError, match="iterable"):
        BlockScaledDType("", element=DType.E2M1, levels=3)
    with pytest.raises(ValueError, match="at least one level"):
        BlockScaledDType("", element=DType.E2M1, levels=[])
    with pytest.raises(TypeError, match="Level"):
        BlockScaledDType("", element=DType.E2M1, levels=[level, (DType.E8M0, 5)])
    with pytest.raises(ValueError, match="Whole"):
        BlockScaledDType("", element=DType.E2M1, levels=[Level(DType.E8M0, Whole), level])
    with pytest.raises(ValueError, match="non-empty"):
        BlockScaledDType("", element=DType.E2M1, levels=[level])
    with pytest.raises(ValueError, match="non-empty"):
        BlockScaledDType(3, element=DType.E2M1, levels=[level])


def test_whole_is_one_object():
    assert WholeExtent() is Whole
    assert copy.copy(Whole) is copy.deepcopy(Whole) is Whole
    assert pickle.loads(pickle.dumps(Whole)) is Whole
    assert repr(Whole) == "Whole"


def test_levels_are_frozen_values():
    level = Level(DType.E8M0, 32)
    assert level == Level(scale=DType.E8M0, block=32)
    assert hash(level) == hash(Level(DType.E8M0, 32))
    assert level != Level(DType.E8M0, 16)
    assert level != Level(DType.E4M3, 32)
    assert level != 32
    assert (level.scale, level.block, level.is_whole()) == (DType.E8M0, 32, False)
    assert Level(DType.E8M0, Whole).is_whole()
    assert Level(DType.E8M0, Whole).block is Whole
    assert repr(level) == "Level(scale=SimpleDType('E8M0'), block=32)"
    assert dataclasses.replace(level, block=8) == Level(DType.E8M0, 8)
    for record in (level, SymbolicBits(4.5, 32)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            record.block = record.constant = 1
    assert pickle.loads(pickle.dumps(Level(DType.E8M0, Whole))) == Level(DType.E8M0, Whole)
    for member in ("scale", "block", "other"):
        with pytest.raises(AttributeError):
            setattr(level, member, 1)


def test_level_arguments():
    with pytest.raises(TypeError, match="scale"):
        Level(DType.Any, 0)
    with pytest.raises(TypeError, match="scale"):
        Level("E8M0", 0)
    for block in (True, 1.0, "32", None, WholeExtent):
        with pytest.raises(TypeError, match="block"):
            Level(DType.E8M0, block)
    for block in (0, -3):
        with pytest.raises(ValueError, match="block"):
            Level(DType.E8M0, block)
    with pytest.raises(OverflowError):
        Level(DType.E8M0, 2**70)


def test_symbolic_bits_are_frozen_values():
    bits = SymbolicBits(4.5, 32)
    assert bits == SymbolicBits(constant=4.5, whole_scale_bits=32)
    assert hash(bits) == hash(SymbolicBits(4.5, 32))
    assert bits != SymbolicBits(4.5, 16)
    assert bits != 4.5
    assert repr(bits) == "SymbolicBits(constant=4.5, whole_scale_bits=32)"
    assert pickle.loads(pickle.dumps(bits)) == bits
    with pytest.raises(AttributeError):
        bits.constant = 3
    for count in (True, 2.0, None):
        with pytest.raises(TypeError, match="element_count"):
            bits.evaluate(count)
    for count in (0, -1):
        with pytest.raises(ValueError, match="element_count"):
            bits.evaluate(count)


# --- M204, M205: rules ----------------------------------------------------------------------------------------


class Size:
    """A level shape of a given size."""

    def __init__(self, size):
        self.size = size


class Preimages:
    """An adjacent layout with a given uniform preimage extent."""

    def __init__(self, extent):
        self.extent = extent

    def uniform_preimage_extent(self, shape):
        assert isinstance(shape, Size)
        return self.extent


def context(sizes, extents, logical_dtype=DType.NVFP4):
    return RepresentationValidationContext(
        logical_dtype, [DType.E2M1], [], [Preimages(extent) for extent in extents], [Size(size) for size in sizes]
    )


def test_level_extent_accepts_uniform_blocks():
    assert LevelExtent(0, 16).validate(context([32, 2], [16])) is None
    LevelExtent(1, Whole).validate(context([32, 2, 1], [16, 2]))
    LevelExtent(0, Whole).validate(context([10**18, 1], [10**18]))


@pytest.mark.parametrize(
    ("rule", "sizes", "extents", "text"),
    [
        ((1, 4), [8, 2], [4], "has no adjacent layout"),
        ((0, Whole), [8, 2], [4], "complete source level"),
        ((0, 3), [8, 2], [4], "requires target cardinality"),
        ((0, 4), [8, 4], [2], "requires target cardinality"),
        ((0, 4), [8, 2], [None], "overlaps targets or leaves holes"),
        ((0, Whole), [8, 1], [None], "overlaps targets or leaves holes"),
    ],
)
def test_level_extent_says_what_is_wrong(rule, sizes, extents, text):
    with pytest.raises(ValueError, match=f"^NVFP4 LevelExtent rule at level {rule[0]}.*{text}"):
        LevelExtent(*rule).validate(context(sizes, extents))


@given(st.integers(0, 3), st.integers(1, 40), st.integers(1, 40), st.none() | st.integers(1, 40))
def test_level_extent_agrees_with_its_definition(level, extent, size, uniform):
    for target in {size // extent, 1, size}:
        if target == 0:
            continue
        sizes, extents = [size] * (level + 1) + [target], [1] * level + [uniform]
        is_right = size % extent == 0 and target == size // extent and uniform == extent
        try:
            LevelExtent(level, extent).validate(context(sizes, extents))
        except ValueError:
            assert not is_right
        else:
            assert is_right


def layouts_context(adjacent, target):
    planes = [Layout(shape, Stride([0] * len(shape))) for shape in (adjacent.shape, target)]
    return RepresentationValidationContext(
        DType.MXFP4, [DType.E2M1, DType.E8M0], planes, [adjacent], [adjacent.shape, target]
    )


def test_level_extent_over_huge_layouts_is_instant():
    billion = 10**9
    shape, target = Shape([billion, billion]), Shape([billion])
    LevelExtent(0, billion).validate(layouts_context(Layout(shape, Stride([0, 1])), target))
    LevelExtent(0, Whole).validate(layouts_context(Layout(shape, Stride([0, 0])), Shape([1])))
    with pytest.raises(ValueError, match="overlaps targets or leaves holes"):
        LevelExtent(0, billion).validate(layouts_context(Layout(shape, Stride([1, 1])), target))


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=3),
    st.integers(1, 8),
    st.integers(1, 8) | st.just(Whole),
)
def test_level_extent_agrees_with_counting_the_preimages(leaves, target, extent):
    adjacent = Layout(Shape([size for size, _ in leaves]), Stride([stride for _, stride in leaves]))
    counts = [0] * max(target, adjacent.cosize)
    for ordinal in range(adjacent.size):
        counts[adjacent(ordinal)] += 1
    wanted = adjacent.size if extent is Whole else extent
    is_uniform = counts == [wanted] * target
    try:
        LevelExtent(0, extent).validate(layouts_context(adjacent, Shape([target])))
    except ValueError:
        # Uniform maps whose leaves are not mixed-radix digits are refused too (M309).
        digits = sorted(stride for size, stride in leaves if size > 1 and stride > 0)
        assert not is_uniform or (extent is Whole and target != 1) or not is_mixed_radix(leaves, digits)
    else:
        assert is_uniform


def is_mixed_radix(leaves, strides):
    sizes = {stride: size for size, stride in leaves if size > 1 and stride > 0}
    expected = 1
    for stride in strides:
        if stride != expected:
            return False
        expected *= sizes[stride]
    return True


def test_level_extent_arguments_and_value():
    for level in (True, 1.0, None, type("Int", (int,), {})(0)):
        with pytest.raises(TypeError, match="level"):
            LevelExtent(level, 0)
    with pytest.raises(ValueError, match="level"):
        LevelExtent(-1, "x")
    for extent in (True, 1.0, None, type("Int", (int,), {})(4)):
        with pytest.raises(TypeError, match="extent"):
            LevelExtent(0, extent)
    for extent in (0, -1):
        with pytest.raises(ValueError, match="extent"):
            LevelExtent(0, extent)
    rule = LevelExtent(1, Whole)
    assert repr(rule) == "LevelExtent(level=1, extent=Whole)"
    found = pickle.loads(pickle.dumps(rule))
    assert (found.level, found.extent) == (1, Whole)
    assert found != rule
    with pytest.raises(TypeError, match="cannot be extended"):
        type(LevelExtent)("Sub", (LevelExtent,), {})


class Even(RepresentationRule):
    """A rule that counts planes."""

    def __init__(self, log=None):
        self.log = log

    def validate(self, context):
        if len(context.storage_dtypes) % 2:
            raise ValueError("odd")

    def structure_extension(self):
        return ("even", 2)


def test_a_rule_is_abstract_until_it_validates():
    with pytest.raises(TypeError, match="abstract"):
        RepresentationRule()

    class Still(RepresentationRule):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Still()


def test_a_rule_is_fixed_after_construction():
    log = []
    rule = Even(log)
    assert rule.structure() == (f"str:{__name__}", "str:Even", ("str:even", "int:2"))
    with pytest.raises(AttributeError, match="rules are immutable"):
        rule.log = 3
    with pytest.raises(AttributeError, match="rules are immutable"):
        del rule.log
    with pytest.raises(AttributeError, match="rules are immutable"):
        LevelExtent(0, 1).level = 3
    with pytest.raises(AttributeError, match="immutable"):
        LevelExtent.__init__(DType.NVFP4.representation_rules[0], 0, 3)
    assert rule.log is log
    assert copy.copy(rule) is copy.deepcopy(rule) is rule
    assert rule == rule
    assert rule != Even(log)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(rule)


def test_rules_shape_the_structure_of_their_compound():
    rule = Even()
    pair = Pair(fresh(), simple_types=[DType.Float32], representation_rules=[rule])
    assert pair.structure()[4] == (rule.structure(),)
    assert pair.representation_rules == (rule,)
    with pytest.raises(ValueError, match="odd"):
        pair.representation_rules[0].validate(context([], []))


def test_an_unfinished_rule_is_refused():
    kept = []

    class Broken(RepresentationRule):
        def __init__(self):
            kept.append(self)
            raise KeyError("no")

        def validate(self, context):
            pass

    with pytest.raises(KeyError):
        Broken()
    with pytest.raises(ValueError, match="is not finalized"):
        Pair(fresh(), simple_types=[DType.Float32], representation_rules=kept)
    with pytest.raises(ValueError, match="is not finalized"):
        kept[0].structure()


def test_a_rule_lives_as_long_as_its_dtype_and_dies_without_one():
    gone = weakref.ref(Even())
    gc.collect()
    assert gone() is None
    pair = Pair(fresh(), simple_types=[DType.Float32], representation_rules=[Even()])
    gc.collect()
    assert isinstance(pair.representation_rules[0], Even)


def test_the_context_is_read_only():
    seen = context([4, 2], [2])
    assert seen.logical_dtype is DType.NVFP4
    assert seen.storage_dtypes == (DType.E2M1,)
    assert (len(seen.adjacent_layouts), len(seen.level_shapes), seen.placement_layouts) == (1, 2, ())
    with pytest.raises(AttributeError, match="read-only"):
        seen.logical_dtype = DType.MXFP4
    with pytest.raises(AttributeError, match="read-only"):
        del seen.level_shapes


def test_a_dying_rule_is_not_handed_out_again():
    seen = []
    ask = lambda _: seen.extend(DType.MXFP6_E3M2.representation_rules)  # noqa: E731
    watch = weakref.ref(DType.MXFP6_E3M2.representation_rules[0], ask)
    gc.collect()
    assert watch() is None
    assert [rule.extent for rule in seen] == [32]
    assert DType.MXFP6_E3M2.representation_rules[0] is seen[0]


EXITING = """
import weakref
from orlop.carriers.dtype import *
class Loud(SimpleDType, abstract=False):
    def __del__(self):
        print(DType.from_name("Loud") is self)
Loud("Loud", bits=3, supertype=DType.Any)
quiet = SimpleDType("Quiet", bits=3, supertype=DType.Any)
watch = weakref.ref(quiet, lambda _: print(DType.from_name("Quiet")))
class Rule(RepresentationRule):
    def validate(self, context):
        pass
class Pair(CompoundDType, abstract=False):
    pass
Pair("Pair", simple_types=[DType.Int8], representation_rules=[Rule(), LevelExtent(0, 3)])
del quiet
"""


def test_the_interpreter_exits_cleanly_with_registered_dtypes():
    done = run_python(EXITING)
    assert done.returncode == 0
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == ["SimpleDType('Quiet')", "True"]


# --- The private functions take anything ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in dir(home._native) if not name.startswith("_")])
def test_native_functions_refuse_foreign_arguments(name):
    function = getattr(home._native, name)
    if name in ("Descriptor", "Rule"):
        with pytest.raises(ValueError, match="is not finalized"):
            home._native.name(home._native.Descriptor())
        return
    for count in range(9):
        for argument in (3, None, "x", object(), int, home._native.Descriptor(), home._native.Rule()):
            try:
                function(*[argument] * count)
            except (TypeError, ValueError, LookupError, AttributeError, RuntimeError):
                continue
    assert DType.Float32.bits == 32


# --- Storage helpers ------------------------------------------------------------------------------------------

ACCEPTED = (DType.Float32, DType.Int32, DType.Bool)


def test_storage_validate_an_exact_accepted_identity():
    for dtype in ACCEPTED:
        assert validate_storage_dtype(dtype, carrier="CPU", accepted=ACCEPTED) is dtype


def test_storage_obtain_a_concrete_storage_zero():
    assert storage_zero(DType.Bool) is False


def test_a_storage_zero_is_typed():
    assert (storage_zero(DType.Float32), type(storage_zero(DType.Float32))) == (0.0, float)
    assert (storage_zero(DType.Int32), type(storage_zero(DType.Int32))) == (0, int)
    for dtype in (DType.Any, DType.Floating, DType.Integer, DType.Float64, DType.Int8, DType.NVFP4):
        assert storage_zero(dtype) is None
    with pytest.raises(TypeError):
        storage_zero("Float32")


def test_validation_of_storage_names_what_is_accepted():
    def said(dtype, accepted):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            validate_storage_dtype(dtype, carrier="CPU", accepted=accepted)
        return str(caught.value)

    assert "CPU dtype must be DType.Float32, DType.Int32, or DType.Bool" in said(DType.Float64, ACCEPTED)
    assert "CPU dtype must be DType.Float32 or DType.Int32:" in said(DType.Integer, ACCEPTED[:2])
    assert "CPU dtype must be DType.Float32:" in said(DType.Floating, ACCEPTED[:1])
    assert "CPU accepts no dtype" in said(DType.Floating, ())
    compound = said(DType.NVFP4, ACCEPTED)
    assert "CPU cannot store compound dtype 'NVFP4'" in compound
    assert "multi-plane" in compound


def test_validation_of_storage_needs_a_dtype_and_keywords():
    for wrong in ("Float32", None, float, object()):
        with pytest.raises(TypeError, match="CPU dtype must be a DType"):
            validate_storage_dtype(wrong, carrier="CPU", accepted=ACCEPTED)
    with pytest.raises(TypeError):
        validate_storage_dtype(DType.Float32, "CPU", ACCEPTED)
    with pytest.raises(TypeError):
        validate_storage_dtype(DType.Float32, carrier="CPU", accepted=3)
    with pytest.raises(TypeError):
        validate_storage_dtype(DType.Float32, carrier="CPU", accepted=("Float32",))


def test_acceptance_for_storage_is_by_identity():
    class Equal:
        def __eq__(self, other):
            return True

        __hash__ = None

    assert accepts_storage_dtype(DType.Bool, ACCEPTED) is True
    assert accepts_storage_dtype(DType.Floating, ACCEPTED) is False
    assert accepts_storage_dtype(Equal(), ACCEPTED) is False
    assert accepts_storage_dtype("Float32", ACCEPTED) is False
    assert accepts_storage_dtype(DType.Bool, ()) is False
