"""Shapes, strides, layouts, trees and index maps (M301-M319), beside a brute-force model."""

import copy
import gc
import itertools
import math
import pickle
import subprocess
import sys
import threading
import weakref

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import orlop
from orlop.layout import (
    IndexMap,
    Layout,
    Node,
    Permutation,
    Product,
    Shape,
    Stride,
    Swizzle,
    SwizzleStage,
    Tiler,
    Tree,
)

BIG = 2**40


def layout(shape, stride):
    return Layout(Shape(shape), Stride(stride))


# The model: nested tuples, and every ordinal listed.


def leaves(nest):
    return [nest] if isinstance(nest, int) else [leaf for item in nest for leaf in leaves(item)]


def coordinates(extents):
    """All leaf coordinates, first leaf fastest."""
    return [tuple(reversed(c)) for c in itertools.product(*(range(e) for e in reversed(extents)))]


def listed(a):
    """The index at every ordinal, from extents and strides alone."""
    strides = leaves(a.stride.top_level)
    return [sum(c * d for c, d in zip(each, strides)) for each in coordinates(leaves(a.shape.top_level))]


def nest_like(shape, flat):
    return next(flat) if isinstance(shape, int) else tuple(nest_like(item, flat) for item in shape)


extents = st.integers(1, 4)
nested_shapes = st.recursive(
    st.lists(extents, max_size=3).map(tuple),
    lambda inner: st.lists(extents | inner, max_size=3).map(tuple),
    max_leaves=4,
).filter(lambda shape: math.prod(leaves(shape)) <= 200)


@st.composite
def layouts(draw, shapes=nested_shapes, strides=st.integers(0, 12)):
    shape = draw(shapes)
    return layout(shape, nest_like(shape, iter([draw(strides) for _ in leaves(shape)])))


flat_shapes = st.lists(extents, min_size=1, max_size=3).map(tuple)


# Shape and Stride


def test_shape_is_spelt_in_many_ways():
    assert Shape(2, (3, 4)) == Shape([2, [3, 4]]) == Shape((2, Shape(3, 4))) == Shape(iter([2, [3, 4]]))
    assert Shape(4) == Shape([4]) == Shape(Shape(4)) == Shape((Shape(4),))
    assert Shape(True, 2) == Shape(1, 2)
    assert Shape() == Shape([]) == Shape(())
    assert Shape({2: "a", 3: "b"}) == Shape(2, 3)
    assert Shape([[4]]) != Shape(4)
    assert Shape([[], 3]).top_level == ((), 3)
    assert Shape(Shape([[4]])) == Shape([[4]])
    assert Shape(Stride(2, 3)) == Shape(2, 3)
    assert Shape(2) != Stride(2)
    assert Shape(2) != (2,)


class Counter:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.mark.parametrize(
    "items, error, words",
    [
        ((0,), ValueError, "must not be less than 1"),
        ((2, (3, -1)), ValueError, "must not be less than 1"),
        ((-(2**70),), ValueError, "must not be less than 1"),
        ((2.0,), TypeError, "iterable"),
        ((None,), TypeError, "iterable"),
        ((2.0, 3), ValueError, "mode"),
        ((2, None), ValueError, "mode"),
        ((["ab"],), ValueError, "mode"),
        ((2, "34"), ValueError, "mode"),
        ((2, iter([3])), ValueError, "mode"),
        ((2**63,), OverflowError, "64 bits"),
        ((2, (2**200,)), OverflowError, "64 bits"),
        ((2, Counter(ZeroDivisionError("own"))), ZeroDivisionError, "own"),
    ],
)
def test_shape_refuses_bad_modes(items, error, words):
    with pytest.raises(error, match=words):
        Shape(*items)


def test_stride_refuses_negative_modes():
    assert Stride(0, Counter(3)).top_level == (0, 3)
    with pytest.raises(ValueError, match="must not be negative"):
        Stride(1, (2, -1))


def nested_lists(depth):
    nest = 1
    for _ in range(depth):
        nest = [nest]
    return nest


def test_nests_are_limited_to_64_levels():
    assert Shape(nested_lists(64)).depth == 64
    cyclic = []
    cyclic.append(cyclic)
    deep = Shape(nested_lists(64))
    tree = Tree(1)
    for _ in range(63):
        tree = Tree(tree)
    for call in (
        lambda: Shape(nested_lists(65)),
        lambda: Shape(nested_lists(100_000)),
        lambda: Shape(cyclic),
        lambda: Shape(2).encode(cyclic),
        lambda: layout(2, 1)(nested_lists(100_000)),
        lambda: Shape.append(Shape(2), deep),
        lambda: Tree(tree),
    ):
        with pytest.raises(ValueError, match="too deep"):
            call()


class Shrinking:
    """Empties the list that holds it when asked for its value."""

    def __init__(self, owner):
        self.owner = owner

    def __index__(self):
        self.owner.clear()
        return 1


def test_a_list_that_changes_while_it_is_read_is_read_as_it_was():
    modes = [2, 3]
    modes.insert(0, Shrinking(modes))
    assert Shape(modes) == Shape(1, 2, 3)
    key = [2, 1]
    key.insert(0, Shrinking(key))
    assert layout((4, 4, 4), (1, 4, 16))(key) == 1 + 8 + 16


def test_shape_properties_and_items():
    shape = Shape(3, (4, 5))
    assert (shape.size, len(shape), shape.depth, shape.is_int) == (60, 2, 2, False)
    assert shape[0] == Shape(3) and shape[1] == shape[-1] == Shape(4, 5)
    assert shape[1:] == Shape([[4, 5]]) and shape[::-1] == Shape((4, 5), 3) and shape[2:] == Shape()
    assert list(shape) == [Shape(3), Shape(4, 5)]
    assert Shape().size == 1 and Shape().is_int and Shape(7).is_int and not Shape([[7]]).is_int
    assert int(Shape(7)) == int(Shape([[7]])) == 7
    for shape in (Shape(2, 3), Shape()):
        with pytest.raises(ValueError, match="single leaf"):
            int(shape)
    for key in (2, -3, 2**80):
        with pytest.raises(IndexError):
            Shape(2, 3)[key]
    for key in ("a", True, 1.0, None):
        with pytest.raises(TypeError):
            Shape(2, 3)[key]
    assert repr(Shape(2, (3, 4))) == "Shape<(2, (3, 4))>" and repr(Stride([[4], []])) == "Stride<((4,), ())>"


def test_shape_joins():
    assert Shape.concat(Shape(2), Shape(3, 4)) == Shape(2, 3, 4)
    assert Shape.append(Shape(2), Shape(3, 4)) == Shape(2, (3, 4))
    assert Shape.append(Shape(2), Shape(3)) == Shape(2, 3)
    assert Shape.append(Shape(2), Shape()) == Shape(2)
    assert Shape.append(Shape(2), Shape([[3]])) == Shape(2, [[3]])
    assert Stride.append(Stride(2), Stride(3, 4)) == Stride(2, (3, 4))


def test_decode_and_encode_values():
    shape = Shape(3, [4, 5])
    assert shape.decode(31) == (1, (2, 2))
    assert shape.encode((1, 10)) == shape.encode([1, [2, 2]]) == shape.encode(31) == 31
    assert shape.encode((Counter(1), 10)) == 31
    assert Shape().decode(0) == () and Shape().encode(()) == Shape().encode(0) == 0
    assert Shape([[], 3]).decode(2) == ((), 2)
    for wrong in (True, (True, 0), "a", 1.0, None, (1, "a"), {1: 2}, Shape(1)):
        with pytest.raises(TypeError):
            shape.encode(wrong)
    numbers = (60, -1, 2**80, -(2**80))
    nests = ((3, 0), (0, 20), (0,), (0, 0, 0), ((0,), 0), (0, (0, 5)), (0, (0, 0, 0)))
    for wrong in (*numbers, *nests):
        with pytest.raises(ValueError, match="Coordinate"):
            shape.encode(wrong)
    for wrong in (True, 1.0, "1", None):
        with pytest.raises(TypeError):
            shape.decode(wrong)
    for wrong in (60, -1, 2**80):
        with pytest.raises(ValueError, match="out of range"):
            shape.decode(wrong)


def test_a_shape_beyond_64_bits_is_exact():
    shape = Shape(BIG, (BIG, 3))
    assert shape.size == 3 * BIG * BIG
    assert shape.decode(BIG * BIG + 5) == (5, (0, 1))
    assert shape.decode(7 * BIG + 5) == (5, (7, 0))
    assert shape.encode((5, (7, 2))) == 5 + 7 * BIG + 2 * BIG * BIG
    assert shape.encode(BIG * BIG + 5) == BIG * BIG + 5
    assert shape.encode((1, BIG + 1)) == 1 + BIG * (BIG + 1)
    for wrong in (3 * BIG * BIG, -(2**90)):
        with pytest.raises(ValueError):
            shape.decode(wrong)
        with pytest.raises(ValueError):
            shape.encode(wrong)
    with pytest.raises(ValueError, match="Coordinate"):
        shape.encode((BIG, 0))
    with pytest.raises(OverflowError):
        Layout(shape, Stride(0, (0, 0)))


@given(nested_shapes, st.data())
def test_decode_and_encode_invert_each_other(modes, data):
    shape = Shape(modes)
    ordinal = data.draw(st.integers(0, shape.size - 1))
    assert shape.encode(shape.decode(ordinal)) == ordinal
    assert tuple(leaves(shape.decode(ordinal))) == coordinates(leaves(modes))[ordinal]


@given(nested_shapes)
def test_shape_keeps_its_nesting(modes):
    shape = Shape(modes)
    assert shape.top_level == modes
    assert Shape(*modes) == shape or len(modes) == 1
    assert pickle.loads(pickle.dumps(shape)) == shape
    assert Shape(shape.top_level) == shape and hash(Shape(shape.top_level)) == hash(shape)
    assert shape.size == math.prod(leaves(modes))


# Layout


def test_layout_values():
    a = layout((4, 3), (3, 20))
    assert a(7) == a.index(7) == Layout.get_index(a, 7) == a((3, 1)) == a([3, 1]) == 29
    assert layout((3, (2, 4)), (2, (7, 20)))([2, [1, 3]]) == 71
    b = layout((3, 2), (1, 5))
    assert (b.size, b.cosize, b.codomain_size) == (6, 8, 8)
    assert (a.shape, a.stride, a.depth, len(a), a.is_leaf) == (Shape(4, 3), Stride(3, 20), 1, 2, False)
    assert a.infix() == [(4, 3), (3, 20)]
    assert a[0] == Layout.leaf(4, 3) and list(a) == [Layout.leaf(4, 3), Layout.leaf(3, 20)] and a[1:] == a[1]
    assert layout((3, (2, 4)), (2, (7, 20)))[1] == layout((2, 4), (7, 20))
    assert Layout.empty() == layout((), ()) and Layout.empty()(0) == Layout.empty()(()) == 0
    assert Layout.empty().is_leaf and layout(3, 1).is_leaf and not layout([[3]], [[1]]).is_leaf
    nested = layout((5, (6, 7)), (1, (5, 30)))
    assert nested.profile == [Node.Leaf, Node.Push, Node.Leaf, Node.Leaf, Node.Pop]
    assert nested.profile is not nested.profile
    assert repr(layout((3, 4), (2, 10))) == "Layout( Shape<(3, 4)>, Stride<(2, 10)>)"


@pytest.mark.parametrize("key", [[4, 0], 12, -1, 2**80, (0,), (0, 0, 0), ((0,), 0), (-1, 0), (0, 2**80)])
def test_layout_key_outside_the_domain(key):
    with pytest.raises(ValueError, match="Key is not in domain of shape"):
        layout((4, 3), (3, 20))(key)


@pytest.mark.parametrize("key", [True, 1.5, "1", None, (0, True), (0, "a"), [0, None], {0, 1}])
def test_layout_key_of_a_wrong_type(key):
    with pytest.raises(TypeError):
        layout((4, 3), (3, 20)).index(key)


def test_layout_construction_errors():
    for shape, stride in [
        (Shape(2, 3), Stride([[1, 2]])),
        (Shape(2), Stride(1, 2)),
        (Shape([[2]]), Stride(1)),
        ((2, 3), Stride(1, 2)),
        (Stride(1), Shape(2)),
        (None, None),
    ]:
        with pytest.raises(ValueError, match="do not match in Structure"):
            Layout(shape, stride)
    with pytest.raises(ValueError, match="must be a Layout"):
        Layout.get_index(3, 3)
    with pytest.raises(TypeError):
        Layout(Shape(2))
    for shape, stride in [((BIG, BIG), (0, 0)), (3, 2**62), ((2, 2), (2**62, 2**62))]:
        with pytest.raises(OverflowError):
            layout(shape, stride)
    assert layout(2, 2**63 - 2).cosize == 2**63 - 1


@given(layouts())
def test_layout_agrees_with_the_listing(a):
    expected = listed(a)
    assert [a(q) for q in range(a.size)] == expected
    assert [a(a.shape.decode(q)) for q in range(a.size)] == expected
    assert a.cosize == max(expected) + 1
    assert a.is_injective == (len(set(expected)) == len(expected))
    coalesced = a.coalesce()
    assert listed(coalesced) == expected and len(coalesced) <= max(len(leaves(a.shape.top_level)), 0)
    flat, recipe = Layout.flatten_layout(a)
    assert listed(flat) == expected and flat.depth == 1 and recipe == a.profile
    assert [Layout.leaf(*pair) for pair in a.infix()] == Layout.extract_profile(a)
    assert pickle.loads(pickle.dumps(a)) == a and hash(pickle.loads(pickle.dumps(a))) == hash(a)


def test_values_are_immutable():
    for value in (
        Shape(2),
        Stride(2),
        layout(2, 1),
        Tree(1),
        Node.Leaf,
        Node.id(0),
        Permutation([0], 1),
        Product(Permutation([0], 1), Permutation([0], 1)),
        Swizzle(Shape(4)),
        SwizzleStage(1, 0, 1),
        layout((2, 3), (1, 4)).compose(layout((2, 2), (1, 1))),
    ):
        for name in ("size", "id", "new"):
            with pytest.raises(AttributeError, match="immutable"):
                setattr(value, name, 1)
            with pytest.raises(AttributeError, match="immutable"):
                delattr(value, name)
        assert copy.copy(value) is value or value == copy.copy(value)
        assert copy.deepcopy(value) is value or value == copy.deepcopy(value)


def test_pickle_in_a_fresh_process():
    values = [Shape(2, (3, 4)), Stride([[1]]), layout((2, 3), (3, 1)), Tree(1, Tree(Node.id(2))), Node.Pop]
    program = (
        "import pickle, sys; from orlop.layout import *; v = pickle.loads(bytes.fromhex(sys.argv[1]));"
        "assert v == [Shape(2, (3, 4)), Stride([[1]]), Layout(Shape(2, 3), Stride(3, 1)),"
        "             Tree(1, Tree(Node.id(2))), Node.Pop], v; assert type(v[3]) is Tree"
    )
    subprocess.run([sys.executable, "-c", program, pickle.dumps(values).hex()], check=True)


def test_equality_and_hash():
    assert layout((2, 3), (1, 2)) == layout((2, 3), (1, 2)) != layout((2, 3), (3, 1))
    assert layout(2, 1) != Shape(2) and layout(2, 1) != 2 and layout(2, 1) != None  # noqa: E711
    assert {layout((2, 3), (1, 2)): 1}[layout((2, 3), (1, 2))] == 1
    assert len({Shape(2, 3), Shape(2, 3), Shape([[2, 3]])}) == 2


def test_exports():
    import orlop.layout as module

    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(orlop, name) is getattr(module, name) and name in orlop.__all__
    assert isinstance([layout(2, 1)], Tiler.__origin__)


# Injectivity (M307)


def test_injectivity_values():
    assert layout((4, 2), (2, 3)).is_injective is True
    assert layout((3, 2), (1, 2)).is_injective is False
    assert layout((3, 2), (0, 1)).is_injective is False
    assert layout((3, 1), (1, 0)).is_injective is True


def test_injectivity_never_lists_the_ordinals():
    assert layout((2**30, 2**30), (1, 2**30)).is_injective
    assert not layout((2**30, 2**30), (1, 2**30 - 1)).is_injective
    assert not layout((10**9, 2), (0, 1)).is_injective
    assert not layout((10**6, 10**6, 10**6), (10**6 + 3, 10**6 + 33, 10**6 + 37)).is_injective
    assert layout((3, 3, 3, 3), (10**15, 10**15 + 1, 10**15 + 3, 10**15 + 9)).is_injective
    assert layout((1000, 1000, 1000), (10**6, 10**3, 1)).is_injective


def test_an_object_without_its_constructor_is_refused():
    a = layout(2, 1)
    shape, stride, blank, stage = (cls.__new__(cls) for cls in (Shape, Stride, Layout, SwizzleStage))
    with pytest.warns(RuntimeWarning):
        for call in (
            lambda: Layout(shape, Stride(1)),
            lambda: Layout(Shape(2), stride),
            lambda: Shape(2, shape),
            lambda: Shape(shape),
            lambda: a == blank,
            lambda: a.compose(blank),
            lambda: a.compose(shape),
            lambda: a.compose([blank]),
            lambda: Layout.compose(blank, a),
            lambda: Layout.make_layout(blank),
            lambda: Layout.get_index(blank, 0),
            lambda: a.broadcast_to(shape),
            lambda: blank + a,
            lambda: blank(0),
            lambda: repr(blank),
            lambda: IndexMap.__repr__(blank),
            lambda: Product(a, blank),
            lambda: Swizzle(Shape(4), stage),
            lambda: Swizzle(shape),
            lambda: Permutation.__new__(Permutation)._compose(a),
            lambda: hash(stage),
        ):
            with pytest.raises(TypeError):
                call()


# Joining and rearranging (M310-M313)


def test_joins():
    a = layout((2, 3), (1, 2))
    leaf = Layout.leaf(4, 7)
    assert Layout.concat(leaf, a) == leaf + a == layout((4, 2, 3), (7, 1, 2))
    assert Layout.append(leaf, a) == layout((4, (2, 3)), (7, (1, 2)))
    assert Layout.append(a, leaf) == layout((2, 3, 4), (1, 2, 7))
    assert Layout.append(a, Layout.empty()) == a
    assert Layout.make_layout() == Layout.empty()
    assert Layout.make_layout(a, leaf, Layout.empty()) == layout(((2, 3), 4), ((1, 2), 7))
    with pytest.raises(ValueError, match="must be a Layout"):
        Layout.make_layout(a, Shape(2))
    with pytest.raises(TypeError):
        a + 3


def test_permute():
    a = layout((2, (3, 4), 5), (1, (2, 6), 24))
    expected = layout((5, 2, (3, 4)), (24, 1, (2, 6)))
    assert Layout.permute(a, 2, 0, 1) == a.permute([2, 0, 1]) == a.permute(iter((2, 0, 1))) == expected
    assert Layout.empty().permute() == Layout.empty()
    for wrong in [(0, 1), (0, 0, 1), (0, 1, 3), (-1, 0, 1), (), ([],)]:
        with pytest.raises(ValueError, match="must reorder every layout mode"):
            a.permute(*wrong)
    with pytest.raises(ValueError, match="64 bits"):
        a.permute(2**80, 0, 1)
    for wrong in [(0, 1, "2"), (0, 1, 2.0), (0, True, 2), (None,), ("012",), ([0, 1, None],)]:
        with pytest.raises(TypeError):
            a.permute(*wrong)


@given(layouts(), st.data())
def test_permute_moves_coordinates(a, data):
    order = data.draw(st.permutations(range(len(a))))
    b = a.permute(*order) if order else a.permute()
    for q in range(b.size):
        coordinate = b.shape.decode(q)
        assert b(q) == a(tuple(coordinate[order.index(i)] for i in range(len(a))))


def test_tree():
    tree = Tree(1, Tree(Node.id(2), Node.Leaf))
    assert isinstance(tree, tuple) and tree[0] is Node.Leaf and tree[1][0] == Node.id(2)
    assert tree.recipe == [Node.Leaf, Node.Push, Node.Leaf, Node.Leaf, Node.Pop]
    assert (tree.size, tree.depth) == (3, 2)
    assert tree.reshape("abc") == ["a", ["b", "c"]] and Tree().reshape([]) == []
    for items in ("ab", "abcd"):
        with pytest.raises(ValueError, match="too few|too many"):
            tree.reshape(items)
    assert Tree(1) == Tree(Node.Leaf) != Tree(Node.id(0))
    assert Tree(Node.id(1)) == Tree(Node.id(1)) and hash(Tree(Node.id(1))) == hash(Tree(Node.id(1)))
    assert Node.id(Counter(3)).id == 3 and Node.id(3) != Node.id(4) and Node.id(3) != 3
    assert repr(tree) == "Tree(Node.Leaf, Tree(Node.id(2), Node.Leaf))"
    assert len(Node) == 3
    for wrong in ("a", True, None, 1.0, (1,), [1], Node.Push, Node.Pop):
        with pytest.raises(ValueError):
            Tree(wrong)
    with pytest.raises(ValueError, match="64 bits"):
        Tree(Node.id(2**80))
    for wrong in (True, 1.0, "1", None):
        with pytest.raises(TypeError):
            Node.id(wrong)
    with pytest.raises(ValueError, match="negative"):
        Node.id(-1)


def test_rearrange_values():
    a = layout((4, 5), (1, 4))
    output = Tree(Node.id(1), Node.Leaf, Node.id(0))
    b = Layout.rearrange(a, output)
    assert b == a.rearrange(output, Tree(1, 1)) == layout((5, 1, 4), (4, 0, 1))
    assert Layout.rearrange(b, *Layout.reverse_rearrange(output, Tree(1, 1))) == a
    assert a.rearrange(Tree(Tree(Node.id(1)), Tree(Node.id(0)))) == layout((5, 4), (4, 1))
    assert a.rearrange(Tree(Tree(Node.id(0), Node.id(1)))) == layout([[4, 5]], [[1, 4]])
    nested = layout((2, (3, 4)), (1, (2, 6)))
    assert nested.rearrange(Tree(Node.id(1), Node.id(0)), Tree(1, 1)) == layout(((3, 4), 2), ((2, 6), 1))
    assert nested.rearrange(Tree(Node.id(2), Node.id(0), Node.id(1)), Tree(1, Tree(1, 1))) == layout(
        (4, 2, 3), (6, 1, 2)
    )
    dropped = layout((4, 1, 5), (1, 9, 4)).rearrange(Tree(Node.id(2), Node.id(0)))
    assert dropped == layout((5, 4), (4, 1))


@pytest.mark.parametrize(
    "output, selection, words",
    [
        ((Node.id(0), Node.id(1)), None, "must be a Tree"),
        (Tree(Node.id(0), Node.id(1)), (1, 1), "must be a Tree"),
        (Tree(Node.id(0), Node.id(2)), None, "out of range"),
        (Tree(Node.id(0), Node.id(2**62)), None, "out of range"),
        (Tree(Node.id(0), Node.id(0)), None, "duplicated"),
        (Tree(Node.id(0)), None, "must include every extracted layout"),
        (Tree(Node.id(0), Node.id(1)), Tree(1), "tree profile do not match"),
        (Tree(Node.id(0), Node.id(1)), Tree(1, 1, 1), "tree profile do not match"),
        (Tree(Node.id(0), Node.id(1)), Tree(Tree(1), 1), "tree profile do not match"),
        (Tree(Node.id(0), Node.id(1)), Tree(1, Tree()), "tree profile do not match"),
    ],
)
def test_rearrange_errors(output, selection, words):
    with pytest.raises(ValueError, match=words):
        Layout.rearrange(layout((4, 5), (1, 4)), output, selection)


def test_reverse_rearrange_errors():
    for output in (Tree(Node.id(2)), Tree(Node.id(0), Node.id(0)), (1,)):
        with pytest.raises(ValueError):
            Layout.reverse_rearrange(output, Tree(1, 1))


@st.composite
def rearrangements(draw):
    """A flat layout and an output tree over its leaves that keeps all of them."""
    a = draw(layouts(shapes=flat_shapes))
    ids = draw(st.permutations(range(len(a))))
    items = [Node.id(i) for i in ids]
    for position in draw(st.lists(st.integers(0, len(items)), max_size=2)):
        items.insert(position, Node.Leaf)
    cut = draw(st.integers(0, len(items)))
    return a, Tree(*items[:cut], Tree(*items[cut:])) if draw(st.booleans()) else Tree(*items)


@given(rearrangements())
def test_rearranging_and_back(case):
    a, output = case
    b = a.rearrange(output)
    assert sorted(listed(b)) == sorted(listed(a))
    assert b.rearrange(*Layout.reverse_rearrange(output, Tree(*[1] * len(a)))) == a


def test_profiles():
    a = layout((2, (3, 1), 4), (1, (2, 9), 6))
    assert a.coalesce() == Layout.leaf(24, 1)
    assert layout((2, 3), (1, 4)).coalesce() == layout((2, 3), (1, 4))
    assert layout((1, 1), (7, 3)).coalesce() == Layout.leaf(1, 7)
    assert Layout.empty().coalesce() == Layout.empty()
    b = layout(((2, 3), (4, 5)), ((1, 2), (6, 7)))
    assert Layout.coalesce_by_mode(b, Tree(1, 1)) == layout((6, (4, 5)), (1, (6, 7)))
    assert Layout.extract_profile(b, Tree(1, Tree(1, 1))) == [b[0], Layout.leaf(4, 6), Layout.leaf(5, 7)]
    for call in (Layout.coalesce_by_mode, Layout.extract_profile):
        with pytest.raises(ValueError, match="tree profile do not match"):
            call(b, Tree(1))
        with pytest.raises(ValueError, match="must be a Tree"):
            call(b, (1, 1))


def test_broadcast_to():
    assert layout((3, (1, 2)), (1, (9, 3))).broadcast_to(Shape(3, [5, 2])) == layout((3, (5, 2)), (1, (0, 3)))
    with pytest.raises(ValueError, match="same shape profile"):
        layout((3, 1), (1, 0)).broadcast_to(Shape([[3, 1]]))
    with pytest.raises(ValueError, match="can only widen an extent-1 leaf"):
        layout((3, 1), (1, 0)).broadcast_to(Shape(4, 1))
    with pytest.raises(TypeError):
        layout(3, 1).broadcast_to((3,))
    with pytest.raises(OverflowError):
        layout((1, 1), (0, 0)).broadcast_to(Shape(BIG, BIG))


def test_uniform_preimage_extent():
    assert layout((5, 2), (0, 1)).uniform_preimage_extent(Shape(2)) == 5
    assert layout((3, 2), (1, 2)).uniform_preimage_extent(Shape(5)) is None
    assert layout((2, 3), (3, 1)).uniform_preimage_extent(Shape(6)) == 1
    assert layout((10**9, 10**9), (0, 1)).uniform_preimage_extent(Shape(10**9)) == 10**9
    assert layout(2, 1).uniform_preimage_extent(Shape(BIG, BIG)) is None
    with pytest.raises(TypeError):
        layout(2, 1).uniform_preimage_extent(2)


@given(layouts(shapes=flat_shapes, strides=st.sampled_from([0, 1, 2, 3, 4, 6])), st.integers(1, 12))
def test_uniform_preimages_are_uniform(a, size):
    k = a.uniform_preimage_extent(Shape(size))
    if k is not None:
        assert sorted(listed(a)) == sorted(list(range(size)) * k)


# The algebra (M314-M317)


def test_choose_and_modout():
    assert Layout.choose(layout((3, 6, 2, 8), (5, 15, 90, 180)), 9) == layout((1, 2, 2, 8), (45, 45, 90, 180))
    assert Layout.modout(layout((3, 6, 2, 8), (1, 3, 18, 36)), 6) == layout((3, 2, 1, 1), (1, 3, 18, 36))
    for d in (3, 24, 0, -1):
        with pytest.raises(ValueError, match="choose the d-th"):
            layout((4, 3), (1, 4)).choose(d)
    for s in (6, 24, 0, -1):
        with pytest.raises(ValueError, match="divisibility condition"):
            layout((4, 3), (1, 4)).modout(s)
    for call in (Layout.choose, Layout.modout):
        with pytest.raises(ValueError, match="flat"):
            call(layout([[4, 3]], [[1, 4]]), 2)
        with pytest.raises(TypeError):
            call(layout(4, 1), True)


@given(layouts(shapes=flat_shapes), st.integers(1, 12))
def test_choose_and_modout_pick_ordinals(a, n):
    for call, expected in ((Layout.choose, slice(None, None, n)), (Layout.modout, slice(n))):
        try:
            picked = call(a, n)
        except ValueError:
            continue
        assert listed(picked) == listed(a)[expected]


def test_compose_values():
    assert layout((4, 3), (5, 1)).compose(layout((6, 2), (2, 1))) == layout(((2, 3), 2), ((10, 1), 5))
    assert layout(18, 3).compose(layout((3, 6), (6, 1))) == layout((3, 6), (18, 3))
    opaque = Layout.compose(layout((2, 3), (1, 4)), inner=layout((2, 2), (1, 1)))
    assert isinstance(opaque, IndexMap) and not isinstance(opaque, Layout)
    assert opaque.is_injective is False and opaque.shape == Shape(2, 2) and opaque.codomain_size == 10
    assert [opaque(q) for q in range(4)] == [0, 1, 1, 4] and opaque((1, 1)) == 4
    assert opaque == opaque and opaque != Layout.compose(layout((2, 3), (1, 4)), layout((2, 2), (1, 1)))
    with pytest.raises(ValueError, match="inner codomain exceeds"):
        layout(3, 1).compose(layout(4, 1))


def test_compose_returns_the_operand_itself():
    a = layout((2, 3), (1, 4))
    assert a.compose(layout((2, 3), (1, 2))) is a
    b = layout((2, 2), (1, 7))
    assert layout(9, 1).compose(b) is b
    assert a.compose([]) is a and a.compose(Shape()) is a


def test_compose_operand_errors():
    for arguments in [(), (1, 2), (3,), ("ab",), (None,), ([1],), ((Shape(2),),), (Stride(1),), (Tree(1),)]:
        with pytest.raises(TypeError):
            layout((2, 3), (1, 4)).compose(*arguments)
    for tiler in (layout((2, 3), (1, 4)), 3, {Layout.leaf(2, 1)}, [2]):
        for call in (Layout.divide_tiler, Layout.zipped_divide):
            with pytest.raises(TypeError):
                call(layout((2, 3), (1, 4)), tiler)


def test_compose_with_tiles():
    a = layout(((4, 6), 3), ((7, 30), 1))
    assert a.compose(Shape(8)) == a.compose([Layout.leaf(8, 1)]) == layout(((4, 2), 3), ((7, 30), 1))
    tiler = [Layout.leaf(4, 2), layout((2, 3), (1, 4))]
    b = layout((8, (2, 6)), (24, (12, 2)))
    assert b.compose(tiler) == b.compose(tuple(tiler)) == layout((4, (2, 3)), (48, (12, 4)))
    with pytest.raises(ValueError, match="more tiles"):
        a.compose(Shape(2, 3, 1))
    with pytest.raises(ValueError, match="reaches beyond its mode"):
        a.compose([Layout.leaf(2, 1), Layout.leaf(2, 3)])
    with pytest.raises(ValueError, match="flat"):
        layout([[[2, 3], 4]], [[[1, 2], 6]]).compose(Shape(2))


@given(layouts(), layouts(strides=st.integers(0, 6)))
def test_composition_is_evaluation_in_turn(a, b):
    assume(b.cosize <= a.size)
    c = a.compose(b)
    values = [c(q) for q in range(c.size)]
    assert values == [a(b(q)) for q in range(b.size)]
    if c.is_injective is not None:
        assert c.is_injective == (len(set(values)) == len(values))
    if isinstance(c, Layout):  # the coordinates of b stay coordinates
        assert [c(b.shape.decode(q)) for q in range(b.size)] == values


def test_complement_and_divide_values():
    assert Layout.complement(layout((2, 3), (1, 4)), 24) == layout((2, 2), (2, 12))
    assert Layout.complement(layout(3, 2), 24) == layout((2, 4), (1, 6))
    assert layout(24, 1).complement(24) == Layout.empty()
    assert Layout.empty().complement(5) == layout((1, 1), (0, 0)).complement(5) == Layout.leaf(5, 1)
    divided = Layout.divide(layout((4, 6), (7, 30)), layout(6, 2))
    assert divided == layout(((2, 3), (2, 2)), ((14, 30), (7, 90)))
    a = layout((8, (2, 6)), (24, (12, 2)))
    tiler = (Layout.leaf(4, 2), layout((2, 3), (1, 4)))
    assert Layout.zipped_divide(a, tiler) == layout(((4, (2, 3)), (2, 2)), ((48, (12, 4)), (24, 2)))
    assert Layout.zipped_divide(a, list(tiler)) == Layout.zipped_divide(a, tiler)
    assert Layout.divide_tiler(a, tiler) == layout(((4, 2), ((2, 3), 2)), ((48, 24), ((12, 4), 2)))
    b = layout((4, 5), (1, 4))
    assert b.zipped_divide([Layout.leaf(4, 1)]) == layout((4, 1, 5), (1, 0, 4))
    assert b.zipped_divide([Layout.leaf(2, 1)]) == layout((2, 2, 5), (1, 2, 4))
    assert b.divide_tiler([Layout.leaf(2, 1)]) == layout(((2, 2), 5), ((1, 2), 4))


@pytest.mark.parametrize(
    "shape, stride, cotarget, words",
    [
        ((2, 2), (1, 1), 24, "overlaps with itself"),
        ((2, 2), (0, 1), 24, "overlaps with itself"),
        ((2, 2), (1, 3), 24, "incongruent"),
        (4, 1, 6, "incongruent"),
        (4, 2, 6, "larger than cotarget"),
        (2, 2**62, 6, "larger than cotarget"),
        (4, 2, 0, "cotarget"),
        (4, 2, -1, "cotarget"),
    ],
)
def test_complement_errors(shape, stride, cotarget, words):
    with pytest.raises(ValueError, match=words):
        layout(shape, stride).complement(cotarget)


@given(layouts(), st.integers(1, 72))
def test_a_layout_and_its_complement_cover_the_cotarget(a, cotarget):
    try:
        rest = a.complement(cotarget)
    except ValueError:
        return
    both = Layout.make_layout(a, rest)
    assert sorted(listed(both)) == list(range(cotarget))
    assert listed(rest) == sorted(listed(rest))


@given(layouts(shapes=flat_shapes), layouts(shapes=flat_shapes, strides=st.integers(0, 6)))
def test_division_keeps_every_index(a, tile):
    try:
        divided = a.divide(tile)
    except ValueError:
        return
    assert sorted(listed(divided)) == sorted(listed(a))
    assert listed(divided)[: tile.size] == [a(tile(q)) for q in range(tile.size)]


# Index maps (M319)


class Reversed(IndexMap):
    def __init__(self, count, known=True):
        super().__init__(Shape(count), count, known)
        self.count = count

    def _index_ordinal(self, ordinal):
        return self.count - 1 - ordinal


def test_index_map_is_abstract():
    class Nothing(IndexMap):
        pass

    for call in (lambda: IndexMap(Shape(2), 2, True), lambda: Nothing(Shape(2), 2, True)):
        with pytest.raises(TypeError, match="abstract"):
            call()


def test_index_map_constructor_checks():
    class Any(IndexMap):
        def _index_ordinal(self, ordinal):
            return 0

    for arguments, error in [
        ((3, 3, True), TypeError),
        ((Shape(3), 3.0, True), TypeError),
        ((Shape(3), True, True), TypeError),
        ((Shape(3), 0, True), ValueError),
        ((Shape(3), -(2**80), True), ValueError),
        ((Shape(3), 2**63, True), OverflowError),
        ((Shape(BIG, BIG), 3, True), OverflowError),
        ((Shape(3), 3, 1), TypeError),
        ((Shape(3), 3, "yes"), TypeError),
    ]:
        with pytest.raises(error):
            Any(*arguments)


def test_a_map_written_in_python():
    r = Reversed(4)
    assert (r(0), r((3,)), r.index(1), r.size, r.codomain_size, r.is_injective) == (3, 0, 2, 4, 4, True)
    with pytest.raises(ValueError, match="Key is not in domain of shape"):
        r(4)
    with pytest.raises(TypeError):
        r(True)
    with pytest.raises(AttributeError, match="immutable"):
        r.shape = Shape(2)
    with pytest.raises(AttributeError, match="immutable"):
        del r.size
    assert copy.deepcopy(r) is r
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(r)


def test_the_result_of_a_hook_is_checked():
    class Wrong(IndexMap):
        value = None

        def __init__(self, **hooks):
            super().__init__(Shape(2), 2, None)
            vars(self).update(hooks)

        def _index_ordinal(self, ordinal):
            return self.value

    for value in (True, 1.0, None):
        with pytest.raises(TypeError):
            Wrong(value=value)(0)
    for value in (2, -1, 2**80):
        with pytest.raises(ValueError):
            Wrong(value=value)(0)
    a = layout((2, 2), (2, 1))
    with pytest.raises(TypeError, match="_compose"):
        Wrong(_compose=lambda inner: 3).compose(layout((2, 2), (1, 0)))
    with pytest.raises(TypeError, match="_composition_is_identity"):
        a.compose(Wrong(_composition_is_identity=lambda: None))
    with pytest.raises(TypeError, match="_composition_injectivity"):
        a.compose(Wrong(_composition_injectivity=lambda: 1))
    with pytest.raises(ZeroDivisionError):
        a.compose(Wrong(_composition_is_identity=lambda: 1 / 0))


def test_opaque_composition():
    swap = layout((2, 2), (2, 1))
    r = Reversed(4)
    chain = swap.compose(r).compose(swap)
    assert [chain(q) for q in range(4)] == [swap(r(swap(q))) for q in range(4)]
    assert chain.is_injective is True and chain.shape == swap.shape
    assert swap.compose(Reversed(4, None)).is_injective is None
    assert swap.compose(Reversed(4, False)).is_injective is False
    assert Reversed(4, False).compose(r).is_injective is None
    assert r.compose(Permutation([1, 0], 4)).shape == Shape(2)


def test_compose_hook_and_its_order():
    calls = []

    class Hooked(Reversed):
        def _compose(self, inner):
            calls.append(inner)
            return super()._compose(inner)

        def _composition_is_identity(self):
            calls.append("identity")
            return False

    h = Hooked(4)
    inner = Permutation([3, 1], 4)
    result = h.compose(inner)
    assert calls == ["identity", inner] and [result(q) for q in range(2)] == [0, 2]
    del calls[:]
    with pytest.raises(ValueError, match="inner codomain exceeds"):
        h.compose(Permutation([3, 1], 5))
    with pytest.raises(TypeError):
        h.compose(Shape(4))
    assert calls == []


def test_identity_hook_returns_the_other_operand():
    class Identity(IndexMap):
        def __init__(self, count):
            super().__init__(Shape(count), count, True)

        def _index_ordinal(self, ordinal):
            return ordinal

        def _composition_is_identity(self):
            return True

    r = Reversed(4)
    assert Identity(4).compose(r) is r and r.compose(Identity(4)) is r


def test_permutation():
    p = Permutation([2, 0, 4], 5)
    assert (p.values, p.codomain_size, p.shape, p.is_injective) == ((2, 0, 4), 5, Shape(3), True)
    assert [p(q) for q in range(3)] == [2, 0, 4]
    inner = Permutation((2, 0), 3)
    composed = p.compose(inner)
    assert isinstance(composed, Permutation) and composed.values == (4, 2) and composed.codomain_size == 5
    assert p.compose(Permutation(range(3), 3)) is p
    assert pickle.loads(pickle.dumps(p)).values == p.values and p != Permutation([2, 0, 4], 5)
    for values, size, error, words in [
        ([], 3, ValueError, "at least one entry"),
        ([-1], 3, ValueError, "non-negative"),
        ([3], 3, ValueError, "smaller than codomain_size"),
        ([1, 1], 3, ValueError, "pairwise distinct"),
        ([True], 3, TypeError, "bool"),
        ([1.0], 3, TypeError, "integer"),
        (3, 3, TypeError, "sequence"),
        ({0, 1}, 3, TypeError, "sequence"),
        ("01", 3, TypeError, "sequence"),
        ([0], 1.0, TypeError, "integer"),
    ]:
        with pytest.raises(error, match=words):
            Permutation(values, size)


def test_product():
    p = Product(Permutation([2, 0], 5), Permutation([1, 3], 7))
    assert p((0, 0)) == 7 and p((1, 1)) == 15
    assert (p.shape, p.target_shape, p.codomain_size, p.is_injective) == (Shape(2, 2), Shape(5, 7), 35, True)
    inner = Product(Permutation([1], 2), Permutation([1, 0], 2))
    composed = p.compose(inner)
    assert isinstance(composed, Product)
    assert [composed(q) for q in range(2)] == [p(inner(q)) for q in range(2)]
    assert all(isinstance(child, Permutation) for child in composed.children)
    nested = Product(layout((2, 3), (1, 2)), layout((), ()), layout([[2]], [[1]]))
    assert nested.shape == Shape((2, 3), (), [[2]]) and nested.is_injective is True
    assert [nested(q) for q in range(12)] == list(range(12))
    assert Product(layout(2, 0), Reversed(2, None)).is_injective is False
    assert Product(layout(2, 1), Reversed(2, None)).is_injective is None
    unlike = p.compose(layout((2, 2), (2, 1)))
    assert [unlike(q) for q in range(4)] == [p(layout((2, 2), (2, 1))(q)) for q in range(4)]
    with pytest.raises(ValueError, match="at least two"):
        Product(layout(2, 1))
    with pytest.raises(TypeError):
        Product(layout(2, 1), Shape(2))
    with pytest.raises(OverflowError):
        Product(layout(2, BIG), layout(2, BIG))


def test_swizzle():
    assert Swizzle(Shape(16), SwizzleStage(2, 0, 2))(0b0111) == 0b0110
    assert Swizzle(Shape(16), SwizzleStage(2, 0, -2))(0b0111) == 0b1011
    stage = SwizzleStage(bits=1, base=0, shift=2)
    assert (stage.bits, stage.base, stage.shift) == (1, 0, 2)
    assert stage == SwizzleStage(1, 0, 2) != SwizzleStage(1, 0, -2)
    assert hash(stage) == hash(SwizzleStage(1, 0, 2))
    assert pickle.loads(pickle.dumps(stage)) == stage
    assert Swizzle(Shape(4, 2)).is_injective is True and Swizzle(Shape(1))(0) == 0
    for arguments, error, words in [
        ((True, 0, 1), TypeError, "int"),
        ((1.0, 0, 1), TypeError, "int"),
        ((0, 0, 1), ValueError, "bits must be positive"),
        ((1, -1, 1), ValueError, "base must be non-negative"),
        ((1, 0, 0), ValueError, "shift must be non-zero"),
        ((2, 0, 1), ValueError, "must not overlap"),
        ((2, 0, -1), ValueError, "must not overlap"),
        ((2**80, 0, 1), OverflowError, "64 bits"),
    ]:
        with pytest.raises(error, match=words):
            SwizzleStage(*arguments)
    with pytest.raises(ValueError, match="power of two"):
        Swizzle(Shape(12))
    for wide in ((2, 1, 2), (2, 1, -2), (1, 2**62, 2**62), (1, 0, -(2**63))):
        with pytest.raises(ValueError, match="exceed the domain bit width"):
            Swizzle(Shape(16), SwizzleStage(*wide))
    with pytest.raises(TypeError):
        Swizzle(16, SwizzleStage(2, 0, 2))
    with pytest.raises(TypeError):
        Swizzle(Shape(16), (2, 0, 2))


@st.composite
def swizzles(draw, width=5):
    stages = []
    for _ in range(draw(st.integers(0, 3))):
        bits = draw(st.integers(1, width // 2))
        shift = draw(st.integers(bits, width - bits))
        base = draw(st.integers(0, width - bits - shift))
        stages.append(SwizzleStage(bits, base, shift if draw(st.booleans()) else -shift))
    return Swizzle(Shape(2**width), *stages)


@given(swizzles(), swizzles())
def test_swizzles_are_bijections_and_compose(a, b):
    assert sorted(a(q) for q in range(a.size)) == list(range(a.size))
    c = a.compose(b)
    assert isinstance(c, Swizzle)
    assert [c(q) for q in range(c.size)] == [a(b(q)) for q in range(b.size)]


def test_equal_neighbouring_stages_cancel():
    a, b = SwizzleStage(2, 0, 2), SwizzleStage(1, 0, 3)
    shape = Shape(16)
    assert Swizzle(shape, a, b).compose(Swizzle(shape, a, b)).stages == (a, b, a, b)
    assert Swizzle(shape, a, b).compose(Swizzle(shape, b)).stages == (b, a, b)
    assert Swizzle(shape, b).compose(Swizzle(shape, a, b)).stages == (a,)
    assert Swizzle(shape, a).compose(Swizzle(shape, a)).stages == ()


def test_a_cycle_through_maps_is_collected():
    r = Reversed(4)
    r.chain = layout((2, 2), (2, 1)).compose(r)
    r.product = Product(r, r)
    gone = weakref.ref(r)
    del r
    gc.collect()
    assert gone() is None


def test_a_python_map_lives_as_long_as_its_composition():
    chain = layout((2, 2), (2, 1)).compose(Reversed(4))
    gc.collect()
    assert [chain(q) for q in range(4)] == [3, 1, 2, 0]


def test_layouts_are_shared_between_threads():
    a = layout((3, 4, 5), (20, 5, 1))
    results = []

    def work():
        for _ in range(200):
            b = a.permute(2, 1, 0)
            same = b == layout((5, 4, 3), (1, 5, 20)) and a(7) == a.compose(a.shape)(7)
            results.append(b.is_injective and same)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 800 and all(results)
