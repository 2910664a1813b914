"""Shapes, strides, layouts, and the trees that rearrange them (M301)."""

import enum
import operator
from collections.abc import Sequence

from orlop import _core
from orlop._core import IndexMap, Layout, Permutation, Product, Shape, Stride, Swizzle, SwizzleStage

__all__ = [
    "IndexMap",
    "Layout",
    "Node",
    "Permutation",
    "Product",
    "Shape",
    "Stride",
    "Swizzle",
    "SwizzleStage",
    "Tiler",
    "Tree",
]

for _class in (IndexMap, Layout, Permutation, Product, Shape, Stride, Swizzle, SwizzleStage):
    _class.__module__ = __name__
del _class

#: What composes or divides leading modes one by one.
Tiler = Sequence[Layout]


def _refuse(self, name, value=None):
    kind = type(self).__name__
    raise AttributeError(f"[{kind}] the value is immutable: cannot change {name}; build another one")


class _IdentifiedLeaf:
    """A leaf that places the source of its number; made by Node.id."""

    __slots__ = ("id",)

    def __init__(self, number):
        if isinstance(number, bool):
            raise TypeError("[Node.id] the number must be an integer, not a bool")
        if not hasattr(type(number), "__index__"):
            raise TypeError(f"[Node.id] the number must be an integer: got {type(number).__name__}")
        number = operator.index(number)
        if number < 0:
            raise ValueError(f"[Node.id] the number must not be negative: got {number}")
        object.__setattr__(self, "id", number)

    __setattr__ = __delattr__ = _refuse

    def __eq__(self, other):
        return self.id == other.id if isinstance(other, _IdentifiedLeaf) else NotImplemented

    def __hash__(self):
        return hash((_IdentifiedLeaf, self.id))

    def __repr__(self):
        return f"Node.id({self.id})"

    def __reduce__(self):
        return _IdentifiedLeaf, (self.id,)


class Node(enum.Enum):
    """One step of a nest written flat; Node.Leaf and Node.id(n) are also the leaves of a Tree (M310).

    >>> from orlop import Node, Tree
    >>> Tree(1, Tree(Node.id(0))).recipe
    [Node.Leaf, Node.Push, Node.Leaf, Node.Pop]
    >>> Node.id(-1)
    Traceback (most recent call last):
        ...
    ValueError: [Node.id] the number must not be negative: got -1
    """

    Leaf = "leaf"
    Push = "push"
    Pop = "pop"

    @staticmethod
    def id(number):
        """The leaf that places source ``number``. TypeError; ValueError below 0."""
        return _IdentifiedLeaf(number)

    def __repr__(self):
        return f"Node.{self.name}"


# Afterwards: the enumeration sets attributes while it is built.
Node.__setattr__ = Node.__delattr__ = _refuse


class Tree(tuple):
    """A nest of leaves. An integer or Node.Leaf is a leaf, Node.id(n) an identified one, a Tree nests (M310).

    >>> from orlop import Node, Tree
    >>> Tree(1, Tree(Node.id(0), 1)).size
    3
    """

    __slots__ = ()

    def __new__(cls, *items):
        tree = super().__new__(cls, map(_tree_item, items))
        _core.tree_recipe(tree)  # the depth is within bounds
        return tree

    def __getnewargs__(self):
        return tuple(self)

    __setattr__ = __delattr__ = _refuse

    @property
    def recipe(self):
        """The tree as a list of Node.Leaf, Node.Push and Node.Pop."""
        return _core.tree_recipe(self)

    @property
    def size(self):
        """How many leaves it has."""
        return self.recipe.count(Node.Leaf)

    @property
    def depth(self):
        """Levels of nesting; 1 where every item is a leaf."""
        return _core.tree_depth(self)

    def reshape(self, items):
        """Nests a flat list, one item per leaf. ValueError for another number of items.

        >>> from orlop import Tree
        >>> Tree(1, Tree(1, 1)).reshape("abc")
        ['a', ['b', 'c']]
        >>> Tree(1, Tree(1, 1)).reshape("ab")
        Traceback (most recent call last):
            ...
        ValueError: [Tree.reshape] the tree has 3 leaves: got 2, too few items
        """
        return _core.tree_reshape(self, items)

    def __repr__(self):
        return f"Tree({', '.join(map(repr, self))})"


def _tree_item(item):
    if item is Node.Leaf or isinstance(item, (_IdentifiedLeaf, Tree)):
        return item
    if hasattr(type(item), "__index__") and not isinstance(item, bool):
        operator.index(item)
        return Node.Leaf
    raise ValueError(f"[Tree] an item must be an integer, Node.Leaf, Node.id(n) or a Tree: got {item!r}")


_core.set_tree_classes(Tree, Node, _IdentifiedLeaf)
