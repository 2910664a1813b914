from orlop._core import _array_files as _array_files
from orlop._core import _definitions as _definitions
from orlop._core import _dtype as _dtype
from orlop._core import _einops as _einops
from orlop._core import _extension as _extension
from orlop._core import _friendly as _friendly
from orlop._core import _plans as _plans
from orlop._core import _profiler as _profiler
from orlop._core import _tiled as _tiled
from orlop._core import testing as testing
from typing import final
from typing import Any
from orlop.carriers.dtype import DType
from collections.abc import Iterable
from collections.abc import Sequence
from orlop.layout import Tree
from collections.abc import Iterator
from typing import Self, TypeAlias, overload

from orlop._core import testing as testing
import orlop.layout


def thread_count() -> int:
    """
    How many threads a kernel may use: what set_thread_count said last, or else the environment
    variable ORLOP_NUM_THREADS, or else the processors that this process may run on.

    >>> orlop.thread_count() >= 1
    True
    """

def set_thread_count(count: int) -> None:
    """
    Applies to the operations that begin later, on every thread. A `count` outside 1 to 1024 is a
    ValueError.

    >>> before = orlop.thread_count()
    >>> orlop.set_thread_count(1)
    >>> orlop.thread_count()
    1
    >>> orlop.set_thread_count(before)
    """

@final
class Shape:
    """
    Extents, each at least 1, in nested modes: `Shape(2, (3, 4))` has rank 2 and size 24 (M302).

    A single argument that is no integer is the list of modes. At most 64 levels. ValueError, TypeError, OverflowError.

        >>> from orlop import Shape
        >>> Shape(3, [4, 5]).decode(31)
        (1, (2, 2))
    """

    def __init__(self, *args) -> None: ...

    def __int__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

    @property
    def top_level(self) -> object:
        """The modes as nested tuples."""

    @property
    def is_int(self) -> bool:
        """At most one mode, and that one a leaf."""

    @staticmethod
    def concat(a: Shape, b: Shape) -> Shape:
        """
        The modes of a, then those of b.

        >>> from orlop import Shape
        >>> Shape.concat(Shape(2), Shape(3, 4))
        Shape<(2, 3, 4)>
        """

    @staticmethod
    def append(a: Shape, b: Shape) -> Shape:
        """
        b as one nested mode after those of a; a b of at most one leaf is concatenated.

        >>> from orlop import Shape
        >>> Shape.append(Shape(2), Shape(3, 4))
        Shape<(2, (3, 4))>
        """

    def __len__(self) -> int: ...

    def __getitem__(self, key: object) -> Shape: ...

    def __iter__(self) -> Iterator[Shape]: ...

    def __eq__(self, other: object) -> object: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __copy__(self) -> object: ...

    def __deepcopy__(self, memo: object) -> object: ...

    @property
    def depth(self) -> int:
        """Levels of nesting, 1 where every mode is a leaf."""

    def __setattr__(self, name: str, value: object) -> None: ...

    def __delattr__(self, name: str) -> None: ...

    @property
    def size(self) -> object:
        """The product of all extents, exactly; 1 for rank zero."""

    def decode(self, ordinal: int) -> object:
        """The coordinate of an ordinal, as nested tuples. TypeError, ValueError."""

    def encode(self, coordinate: object) -> object:
        """
        The ordinal of a coordinate: a tuple or list nest of integers, where an integer may stand for any nested mode
        or the whole. TypeError, ValueError.

        >>> from orlop import Shape
        >>> Shape(2, (3, 4)).encode((1, (2, 3))), Shape(2, (3, 4)).encode((1, 5))
        (23, 11)
        >>> Shape(2, 3).encode((2, 0))
        Traceback (most recent call last):
            ...
        ValueError: [Shape.encode] Coordinate does not fit the shape: (2, 0) in Shape<(2, 3)>; mode 0 goes ...
        """

@final
class Stride:
    """
    Strides, each at least 0, in nested modes, spelt like a Shape (M302).

    >>> from orlop import Layout, Shape, Stride
    >>> Layout(Shape(2, (3, 4)), Stride(1, (2, 6)))((1, (2, 3)))
    23
    >>> Stride(-1)
    Traceback (most recent call last):
        ...
    ValueError: [Stride] a stride must not be negative: got -1
    """

    def __init__(self, *args) -> None: ...

    def __int__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

    @property
    def top_level(self) -> object:
        """The modes as nested tuples."""

    @property
    def is_int(self) -> bool:
        """At most one mode, and that one a leaf."""

    @staticmethod
    def concat(a: Stride, b: Stride) -> Stride:
        """
        The modes of a, then those of b.

        >>> from orlop import Shape
        >>> Shape.concat(Shape(2), Shape(3, 4))
        Shape<(2, 3, 4)>
        """

    @staticmethod
    def append(a: Stride, b: Stride) -> Stride:
        """
        b as one nested mode after those of a; a b of at most one leaf is concatenated.

        >>> from orlop import Shape
        >>> Shape.append(Shape(2), Shape(3, 4))
        Shape<(2, (3, 4))>
        """

    def __len__(self) -> int: ...

    def __getitem__(self, key: object) -> Stride: ...

    def __iter__(self) -> Iterator[Stride]: ...

    def __eq__(self, other: object) -> object: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __copy__(self) -> object: ...

    def __deepcopy__(self, memo: object) -> object: ...

    @property
    def depth(self) -> int:
        """Levels of nesting, 1 where every mode is a leaf."""

    def __setattr__(self, name: str, value: object) -> None: ...

    def __delattr__(self, name: str) -> None: ...

class IndexMap:
    """
    Base of all maps from the coordinates of a shape into 0 … codomain_size - 1; abstract (M319).

    A subclass defines `_index_ordinal(i)` and may define `_compose(inner)`, `_composition_injectivity()` and
    `_composition_is_identity()`.

    >>> from orlop import IndexMap, Shape
    >>> class Reversed(IndexMap):
    ...     def __init__(self, size):
    ...         super().__init__(Shape(size), size, True)
    ...
    ...     def _index_ordinal(self, i):
    ...         return self.size - 1 - i
    >>> Reversed(4).index(0), Reversed(4).compose(Reversed(4))(0)
    (3, 0)
    """

    def __init__(self, shape: Shape, codomain_size: int, is_injective: object) -> None: ...

    def __setattr__(self, name: str, value: object) -> None: ...

    def __delattr__(self, name: str) -> None: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def size(self) -> int:
        """The number of coordinates."""

    @property
    def codomain_size(self) -> int:
        """One more than the greatest possible value."""

    @property
    def is_injective(self) -> object:
        """True, False, or None where it is not known."""

    def __call__(self, key: object) -> int:
        """
        The value at an ordinal or coordinate. TypeError; ValueError 'Key is not in domain of shape'.
        """

    def index(self, key: object) -> int:
        """The same as a call."""

    def compose(self, inner: object) -> IndexMap:
        """
        q ↦ self(inner(q)). TypeError; ValueError where inner's codomain exceeds self's size (M315).
        """

    def __repr__(self) -> str: ...

    def __copy__(self) -> object: ...

    def __deepcopy__(self, memo: object) -> object: ...

    def __reduce__(self) -> object: ...

@final
class Layout(IndexMap):
    """
    A strided map: the index at a coordinate is the sum of coordinate times stride (M305).

        >>> from orlop import Layout, Shape, Stride
        >>> Layout(Shape(4, 3), Stride(3, 20))(7)
        29
    """

    def __init__(self, shape: Shape, stride: Stride) -> None: ...

    def __reduce__(self) -> tuple: ...

    def __call__(self, key: object) -> int:
        """
        The index at an ordinal or coordinate. TypeError; ValueError 'Key is not in domain of shape'.
        """

    def index(self, key: object) -> int:
        """The same as a call."""

    @staticmethod
    def get_index(layout: Layout, key: object) -> int:
        """
        layout(key), with a ValueError for what is no Layout.

        >>> from orlop import Layout, friendly
        >>> Layout.get_index(friendly.row_major(2, 3), (1, 2))
        5
        """

    def __add__(self, arg: Layout, /) -> Layout: ...

    @property
    def stride(self) -> Stride: ...

    @property
    def size(self) -> int:
        """The number of coordinates."""

    @property
    def cosize(self) -> int:
        """One more than the greatest index."""

    @property
    def is_leaf(self) -> bool:
        """At most one mode, and that one a leaf."""

    @property
    def profile(self) -> list:
        """The nest of the modes as a new list of Node.Leaf, Node.Push, Node.Pop."""

    def infix(self) -> list:
        """
        The (extent, stride) pairs of the leaves, depth-first.

        >>> from orlop import friendly
        >>> friendly.row_major(2, 3).infix()
        [(2, 3), (3, 1)]
        """

    def __len__(self) -> int: ...

    def __getitem__(self, key: object) -> Layout: ...

    def __iter__(self) -> Iterator[Layout]: ...

    def __eq__(self, other: object) -> object: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __copy__(self) -> object: ...

    def __deepcopy__(self, memo: object) -> object: ...

    @property
    def depth(self) -> int:
        """Levels of nesting, 1 where every mode is a leaf."""

    def __setattr__(self, name: str, value: object) -> None: ...

    def __delattr__(self, name: str) -> None: ...

    @staticmethod
    def leaf(s: int, d: int) -> Layout:
        """
        The layout of one leaf, s:d. TypeError for no integers, ValueError for s below 1 or d below 0.

        >>> from orlop import Layout
        >>> Layout.leaf(4, 3)
        Layout( Shape<(4,)>, Stride<(3,)>)
        """

    @staticmethod
    def empty() -> Layout:
        """
        The layout of rank zero.

        >>> from orlop import Layout
        >>> Layout.empty().size, len(Layout.empty())
        (1, 0)
        """

    @staticmethod
    def concat(a: Layout, b: Layout) -> Layout:
        """
        The modes of a, then those of b; also a + b. OverflowError where the size leaves 64 bits.

        >>> from orlop import Layout
        >>> Layout.concat(Layout.leaf(4, 1), Layout.leaf(2, 4))
        Layout( Shape<(4, 2)>, Stride<(1, 4)>)
        """

    @staticmethod
    def append(a: Layout, b: Layout) -> Layout:
        """
        b as one nested mode after those of a; a b of at most one leaf is concatenated (M311).

        >>> from orlop import Layout, friendly
        >>> Layout.append(Layout.leaf(4, 1), friendly.column_major(2, 3))
        Layout( Shape<(4, (2, 3))>, Stride<(1, (1, 2))>)
        """

    @staticmethod
    def make_layout(*args) -> Layout:
        """
        Appends all arguments to rank zero. ValueError for what is no Layout.

        >>> from orlop import Layout, friendly
        >>> Layout.make_layout(Layout.leaf(4, 1), friendly.column_major(2, 3))
        Layout( Shape<(4, (2, 3))>, Stride<(1, (1, 2))>)
        """

    def permute(self, *args) -> Layout:
        """
        Every top-level mode once, in the order given as integers or one iterable. TypeError; ValueError 'must reorder
        every layout mode' (M313).

        >>> from orlop import friendly
        >>> friendly.column_major(4, 3).permute(1, 0)
        Layout( Shape<(3, 4)>, Stride<(4, 1)>)
        >>> friendly.column_major(4, 3).permute(1)
        Traceback (most recent call last):
            ...
        ValueError: [permute] the order must reorder every layout mode: got (1,) for rank 2; name each mode ...
        """

    def rearrange(self, output: Tree | str, selection: Tree | None = None) -> Layout:
        """
        Places the leaves, or the sublayouts that the leaves of the Tree `selection` stand for, as the Tree `output`
        says: Node.id(k) places source k, Node.Leaf inserts 1:0, a Tree groups. ValueError (M312).

        >>> from orlop import Node, Tree, friendly
        >>> friendly.column_major(4, 3).rearrange(Tree(Node.id(1), Node.Leaf, Node.id(0)))
        Layout( Shape<(3, 1, 4)>, Stride<(4, 0, 1)>)
        """

    @staticmethod
    def reverse_rearrange(output: Tree, selection: Tree) -> object:
        """
        The (output, selection) that undo a rearrangement of leaves; dropped singletons return as 1:0.

        >>> from orlop import Layout, Node, Tree, friendly
        >>> output, selection = Layout.reverse_rearrange(Tree(Node.id(1), Node.id(0)), Tree(1, 1))
        >>> friendly.column_major(4, 3).permute(1, 0).rearrange(output, selection)
        Layout( Shape<(4, 3)>, Stride<(1, 4)>)
        """

    def broadcast_to(self, target: Shape) -> Layout:
        """
        Widens extent-1 leaves with stride zero. TypeError, ValueError (M308).

        >>> from orlop import Shape, friendly
        >>> friendly.column_major(2, 1).broadcast_to(Shape(2, 3))
        Layout( Shape<(2, 3)>, Stride<(1, 0)>)
        """

    def coalesce(self) -> Layout:
        """
        Drops extent-1 leaves and merges neighbours where the index allows (M318).

        >>> from orlop import Layout, Shape, Stride
        >>> Layout(Shape(2, 1, 3), Stride(1, 9, 2)).coalesce()
        Layout( Shape<(6,)>, Stride<(1,)>)
        """

    def coalesce_by_mode(self, tree: Tree) -> Layout:
        """
        Coalesces what each leaf of the tree stands for. ValueError.

        >>> from orlop import Layout, Shape, Stride, Tree
        >>> Layout(Shape((2, 3), 4), Stride((1, 2), 9)).coalesce_by_mode(Tree(1, 1))
        Layout( Shape<(6, 4)>, Stride<(1, 9)>)
        """

    def flatten_layout(self) -> tuple:
        """
        (the flat layout, the profile).

        >>> from orlop import Layout, Shape, Stride
        >>> Layout(Shape((2, 3), 4), Stride((1, 2), 6)).flatten_layout()
        (Layout( Shape<(2, 3, 4)>, Stride<(1, 2, 6)>), [Node.Push, Node.Leaf, Node.Leaf, Node.Pop, Node.Leaf])
        """

    def extract_profile(self, tree: Tree | None = None) -> list:
        """
        The list of leaves, or of what the leaves of the tree stand for. ValueError.

        >>> from orlop import Layout, Shape, Stride, Tree
        >>> Layout(Shape((2, 3), 4), Stride((1, 2), 6)).extract_profile(Tree(1, 1))
        [Layout( Shape<(2, 3)>, Stride<(1, 2)>), Layout( Shape<(4,)>, Stride<(6,)>)]
        """

    def compose(self, inner: object) -> object:
        """
        q ↦ self(inner(q)). A Shape or a sequence of Layouts composes each leading mode with a tile. TypeError,
        ValueError (M315).

        >>> from orlop import Layout, Shape, Stride
        >>> Layout(Shape(4, 3), Stride(5, 1)).compose(Layout(Shape(6, 2), Stride(2, 1)))
        Layout( Shape<((2, 3), 2)>, Stride<((10, 1), 5)>)
        """

    def uniform_preimage_extent(self, target_shape: Shape) -> int | None:
        """
        How many ordinals map to each target where that is one number and no target is left out, else None (M309).

        >>> from orlop import Layout, Shape, Stride
        >>> Layout(Shape(5, 2), Stride(0, 1)).uniform_preimage_extent(Shape(2))
        5
        """

    def complement(self, cotarget: object) -> Layout:
        """
        What is left of `cotarget` indices. ValueError (M316).

        >>> from orlop import Layout, Shape, Stride
        >>> Layout(Shape(2, 3), Stride(1, 4)).complement(24)
        Layout( Shape<(2, 2)>, Stride<(2, 12)>)
        """

    def choose(self, d: int) -> Layout:
        """
        Every d-th ordinal. ValueError 'choose the d-th' (M314).

        >>> from orlop import friendly
        >>> friendly.column_major(4, 3).choose(2)
        Layout( Shape<(2, 3)>, Stride<(2, 4)>)
        >>> friendly.column_major(4, 3).choose(3)
        Traceback (most recent call last):
            ...
        ValueError: [Layout] cannot choose the d-th ordinals: d is 3 in Layout( Shape<(4, 3)>, Stride<(1, ...
        """

    def modout(self, s: int) -> Layout:
        """
        The first s ordinals. ValueError 'divisibility condition' (M314).

        >>> from orlop import friendly
        >>> friendly.column_major(4, 3).modout(2)
        Layout( Shape<(2, 1)>, Stride<(1, 4)>)
        >>> friendly.column_major(4, 3).modout(6)
        Traceback (most recent call last):
            ...
        ValueError: [Layout] the divisibility condition fails: the first 6 ordinals of Layout( Shape<(4, ...
        """

    def divide(self, tile: object) -> Layout:
        """
        (tile, rest) of the whole layout. ValueError (M317).

        >>> from orlop import Layout, Shape, Stride
        >>> Layout(Shape(4, 6), Stride(7, 30)).divide(Layout.leaf(6, 2))
        Layout( Shape<((2, 3), (2, 2))>, Stride<((14, 30), (7, 90))>)
        """

    def divide_tiler(self, tiler: object) -> Layout:
        """
        (tile, rest) of each leading mode. ValueError (M317).

        >>> from orlop import Layout, friendly
        >>> friendly.column_major(4, 6).divide_tiler([Layout.leaf(2, 1), Layout.leaf(3, 1)])
        Layout( Shape<((2, 2), (3, 2))>, Stride<((1, 2), (4, 12))>)
        """

    def zipped_divide(self, tiler: object) -> Layout:
        """
        Tiles of the leading modes grouped, then remainders, then the other modes. ValueError (M317).

        >>> from orlop import Layout, friendly
        >>> friendly.column_major(4, 6).zipped_divide([Layout.leaf(2, 1), Layout.leaf(3, 1)])
        Layout( Shape<((2, 3), (2, 2))>, Stride<((1, 4), (2, 12))>)
        """

@final
class Permutation(IndexMap):
    """
    The value at ordinal i is values[i] (M319). TypeError for what is no sequence of integers, ValueError where they
    are not distinct, non-negative and below codomain_size.

    >>> from orlop import Permutation
    >>> [Permutation([2, 0, 1], 3)(i) for i in range(3)]
    [2, 0, 1]
    >>> Permutation([2, 0, 2], 3)
    Traceback (most recent call last):
        ...
    ValueError: [Permutation] values must be pairwise distinct: 2 twice
    """

    def __init__(self, values: Iterable[object], codomain_size: int) -> None: ...

    def __reduce__(self) -> tuple: ...

    @property
    def values(self) -> tuple: ...

@final
class Product(IndexMap):
    """
    One domain mode per child; the value is the ordinal of the children's values (M319). TypeError for a
    child that is no IndexMap, ValueError for less than two.

    >>> from orlop import Permutation, Product
    >>> product = Product(Permutation([2, 0], 5), Permutation([1, 3], 7))
    >>> product((0, 0)), product((1, 1))
    (7, 15)
    """

    def __init__(self, *args) -> None: ...

    def __reduce__(self) -> tuple: ...

    @property
    def children(self) -> tuple: ...

    @property
    def target_shape(self) -> Shape: ...

@final
class SwizzleStage:
    """
    One xor of a bit field with another, `shift` bits away (M319). TypeError for other types;
    ValueError where bits is not positive, base negative, shift 0, or the fields overlap.

    >>> from orlop import SwizzleStage
    >>> SwizzleStage(2, 0, 2).shift
    2
    >>> SwizzleStage(2, 0, 1)
    Traceback (most recent call last):
        ...
    ValueError: [SwizzleStage] the fields must not overlap: bits 2, shift 1; abs(shift) must be at ...
    """

    def __init__(self, bits: int, base: int, shift: int) -> None: ...

    @property
    def bits(self) -> int: ...

    @property
    def base(self) -> int: ...

    @property
    def shift(self) -> int: ...

    def __eq__(self, other: object) -> object: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

    def __setattr__(self, name: str, value: object) -> None: ...

    def __delattr__(self, name: str) -> None: ...

@final
class Swizzle(IndexMap):
    """
    The stages, one after the other, on the ordinals of a shape (M319). TypeError for other types, ValueError for a
    size that is no power of two or a stage that needs more bits.

    >>> from orlop import Shape, Swizzle, SwizzleStage
    >>> Swizzle(Shape(16), SwizzleStage(2, 0, 2))(0b0111) == 0b0110
    True
    """

    def __init__(self, shape: Shape, *stages) -> None: ...

    def __reduce__(self) -> tuple: ...

    @property
    def stages(self) -> tuple: ...

def set_tree_classes(arg0: object, arg1: object, arg2: object, /) -> None: ...

def tree_recipe(arg: object, /) -> list: ...

def tree_depth(arg: object, /) -> int: ...

def tree_reshape(arg0: object, arg1: object, /) -> object: ...

CLOSED_CARRIER_MESSAGE: str = ...

def reject_carrier_subclass(name: str) -> None:
    """
    Raises the TypeError that every closed carrier class gives to a subclass (S108).

    >>> from orlop.carriers.base import reject_carrier_subclass
    >>> reject_carrier_subclass("CPU")
    Traceback (most recent call last):
        ...
    TypeError: [CPU] CPU is a closed carrier implementation and cannot be subclassed; write a sibling ...
    """

class Carrier:
    """
    One homogeneous storage sequence: the extension point for storage authors.

    >>> carrier = orlop.CPU(0).new_like([1, 2])
    >>> carrier.set_value(0, 5)
    >>> carrier.get_value(0), carrier.size(), carrier.dtype(), carrier.version
    (5.0, 2, SimpleDType('Float32'), 1)
    >>> carrier.is_mutable(), carrier.is_owned(), carrier.supports_storage_dtype(orlop.DType.Bool)
    (True, False, True)
    >>> carrier.release()
    >>> carrier.is_released(), carrier.size()
    (True, 0)
    >>> class Boxed(orlop.Carrier):
    ...     def size(self):
    ...         return 0
    >>> Boxed()
    Traceback (most recent call last):
        ...
    TypeError: [Boxed] the class does not implement the required hooks of a Carrier: dtype, get_value, ...
    """

    def __init__(self, *args, **kwargs) -> None: ...

    def size(self) -> int:
        """Number of physical slots."""

    def dtype(self) -> DType:
        """The dtype of every slot; also after release."""

    def get_value(self, index: int) -> object:
        """
        The value of one slot. TypeError, IndexError for the index; RuntimeError once released.
        """

    def set_value(self, index: int, value: object) -> None:
        """
        Writes one slot; the version advances once. TypeError, IndexError, OverflowError for what does not fit the slot; RuntimeError where the carrier is not mutable.
        """

    def new_like(self, values: Iterable[object], *, mutable: bool = True, dtype: object | None = None) -> Carrier:
        """
        Fresh storage of the same kind holding `values`, of this dtype where none is named. TypeError, ValueError and
        OverflowError for values and dtypes that the kind does not store.

        >>> carrier = orlop.CPU(0).new_like([1, 2], mutable=False)
        >>> carrier[1], carrier.is_mutable()
        (2.0, False)
        """

    def allocate_like(self, size: int, *, mutable: bool = True, dtype: object | None = None, empty: bool = False) -> Carrier:
        """
        Fresh storage of the same kind with `size` slots, zero unless `empty`, of this dtype where none is named.
        TypeError, ValueError for the arguments, MemoryError where there is no room.

        >>> carrier = orlop.CPU(0).allocate_like(3, dtype=orlop.DType.Int32)
        >>> carrier.size(), carrier[0]
        (3, 0)
        """

    def scatter(self, to_scatter: Tensor, scatter_onto: Tensor, mapping: Layout, mapping_offset: int = 0) -> None:
        """
        Writes the logical values of a Tensor: that of ordinal i to the slot scatter_onto.offset + mapping_offset +
        mapping(i). Errors: TypeError for other types, ValueError for operands elsewhere or what does not fit.

        >>> from orlop import Layout, Shape, Stride, friendly
        >>> onto = friendly.zeros(4)
        >>> onto.carrier.scatter(friendly.tensor([1, 2]), onto, Layout(Shape(2), Stride(2)))
        >>> friendly.to_list(onto)
        [1.0, 0.0, 2.0, 0.0]
        """

    def dlpack_info(self) -> dict:
        """
        pointer, device_type and device_id, or BufferError.

        >>> sorted(orlop.CPU(1).dlpack_info())
        ['device_id', 'device_type', 'pointer']
        >>> orlop.FileBacked(dtype=orlop.DType.Float32).dlpack_info()
        Traceback (most recent call last):
            ...
        BufferError: [FileBacked] DLPack export is not supported; move the Tensor to CPU first, or ...
        """

    def __getitem__(self, index: int) -> object: ...

    def __setitem__(self, index: int, value: object) -> None: ...

    def is_mutable(self) -> bool:
        """Whether public interfaces may write now."""

    def is_owned(self) -> bool:
        """Whether another carrier owns this one exclusively."""

    def is_released(self) -> bool:
        """Whether the storage is gone for good."""

    def release(self) -> None:
        """Gives the storage up for good; idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception) -> None:
        """
        Releases the carrier: `with FileBacked(dtype=DType.Float32) as scratch:`.
        """

    def __repr__(self) -> str: ...

    @property
    def version(self) -> int:
        """Advances with every successful mutation."""

    def supports_storage_dtype(self, dtype: object) -> bool:
        """
        Whether the kind can store the dtype; allocates nothing. TypeError for what is no DType.
        """

    def dispatch_op(self, operation_name: str) -> Operation:
        """
        A fresh operation bound to the name and this exact class. TypeError for what is no str, NotImplementedError for a
        name that the class does not dispatch.

        >>> from orlop import CPU, friendly
        >>> tensor = friendly.tensor([3, -2])
        >>> friendly.to_list(tensor.carrier.dispatch_op("relu").forward(tensor))
        [3.0, 0.0]
        >>> CPU(1).dispatch_op("swish")
        Traceback (most recent call last):
            ...
        NotImplementedError: [table_operation] no built-in operation has this name: got 'swish'; ...
        """

    def __reduce_ex__(self, *args) -> None: ...

    def __copy__(self, *args) -> None: ...

    def __deepcopy__(self, *args) -> None: ...

    def operation_capabilities(self, operation_name: str | None = None) -> tuple:
        """
        What this carrier advertises, optionally of one operation (P27): an independent one answers from its exact
        class,
        a dependent one from the set frozen with it.

        >>> [entry.operands[0].dtype.name for entry in orlop.CPU(1).operation_capabilities("relu")]
        ['Float32', 'Int32']
        >>> orlop.FileBacked(dtype=orlop.DType.Float32).operation_capabilities()
        ()
        """

    def supports_operation_plan(self, plan: object) -> bool:
        """
        Whether this carrier advertises the plan (P27).

        >>> from orlop.operation import resolve_operation_plan
        >>> orlop.CPU(1).supports_operation_plan(resolve_operation_plan("relu", orlop.DType.Int32))
        True
        """

    def unsupported_plan_reason(self, plan: object) -> object:
        """
        None where the plan is supported, otherwise why not (P28).

        >>> from orlop.operation import resolve_operation_plan
        >>> orlop.CPU(1).unsupported_plan_reason(resolve_operation_plan("relu", orlop.DType.Int32)) is None
        True
        """

    def require_operation_plan(self, plan: object) -> object:
        """
        The stored entry that matches the plan, or UnsupportedOperationPlan (P27).

        >>> from orlop.operation import resolve_operation_plan
        >>> plan = resolve_operation_plan("relu", orlop.DType.Float32)
        >>> orlop.CPU(1).require_operation_plan(plan).matches(plan)
        True
        """

    def facet(self, facet_class: object) -> object:
        """
        The object of exactly this CarrierFacet class that the carrier's definition offers, or None (X12).

        >>> from orlop.carriers.tiled_evictable import TiledResidencyFacet
        >>> orlop.CPU(1).facet(TiledResidencyFacet) is None
        True
        """

    def require_facet(self, facet_class: object) -> object:
        """
        The same; NotImplementedError naming the class where there is none (X12).

        >>> from orlop.carriers.tiled_evictable import TiledResidencyFacet
        >>> orlop.CPU(1).require_facet(TiledResidencyFacet)
        Traceback (most recent call last):
            ...
        NotImplementedError: [CPU] the carrier offers no facet TiledResidencyFacet; a facet is found by its ...
        """

class DependentCarrier(Carrier):
    """
    Base of carriers whose capabilities depend on what they are built from.

    >>> issubclass(orlop.Evictable, orlop.DependentCarrier), issubclass(orlop.CPU, orlop.DependentCarrier)
    (True, False)
    """

    def __init__(self, *args, **kwargs) -> None: ...

class Operation:
    """
    One stateful invocation; subclass it with `_forward` and `backward`.

    >>> from orlop import Operation, friendly
    >>> class Triple(Operation):
    ...     def _forward(self, tensor):
    ...         return tensor * 3.0
    ...
    ...     def backward(self, gradient):
    ...         return (gradient * 3.0,)
    >>> x, operation = friendly.ones(2), Triple()
    >>> y = operation.forward(x)
    >>> operation.inputs()[0] is x, len(operation.input_versions())
    (True, 1)
    >>> y.backward(friendly.ones(2))
    >>> friendly.to_list(x.grad)
    [3.0, 3.0]
    """

    def __init__(self) -> None: ...

    def forward(self, *inputs, **kwargs) -> Tensor:
        """Runs the operation on positional inputs; options= is the only keyword."""

    def backward(self, gradient: Tensor) -> tuple:
        """One Tensor or None per saved input."""

    @property
    def ctx(self) -> dict:
        """The instance's own dict."""

    def store_inputs(self, *inputs) -> None:
        """
        Keeps the Tensors among the arguments with fresh version tokens.

        >>> from orlop import Operation, friendly
        >>> operation, x = Operation(), friendly.ones(2)
        >>> operation.store_inputs(x, 3.0)
        >>> operation.inputs() == (x,), len(operation.input_versions())
        (True, 1)
        """

    def inputs(self) -> tuple:
        """The kept Tensors."""

    def input_versions(self) -> tuple:
        """One version token per kept Tensor."""

    def validate_input_versions(self) -> None:
        """
        RuntimeError when a kept Tensor was mutated since.

        >>> from orlop import Operation, friendly
        >>> operation, x = Operation(), friendly.ones(2)
        >>> operation.store_inputs(x)
        >>> operation.validate_input_versions()
        >>> x[0] = 5
        >>> operation.validate_input_versions()
        Traceback (most recent call last):
            ...
        RuntimeError: [Operation] saved input 0 was modified in-place since the forward call: its version ...
        """

@final
class TableOperation(Operation):
    """The one class of all built-in operations (P45)."""

def execute_lowered_operation(operation: Operation, *inputs, **kwargs) -> Tensor:
    """
    The base path of `_execute_lowered`, whatever a subclass shadows.

    >>> from orlop import friendly
    >>> from orlop.operation import execute_lowered_operation
    >>> tensor = friendly.tensor([3, -2])
    >>> friendly.to_list(execute_lowered_operation(tensor.carrier.dispatch_op("relu"), tensor))
    [3.0, 0.0]
    """

def table_operation(name: object) -> Operation:
    """
    A fresh undispatched built-in operation, for a carrier's `_dispatch_op`. NotImplementedError for another
    name.

    >>> from orlop import friendly
    >>> from orlop.operation import table_operation
    >>> friendly.to_list(table_operation("relu").forward(friendly.tensor([3, -2])))
    [3.0, 0.0]
    """

class Tensor:
    """
    Tensor(carrier, offset, layout)

    A layout placed on a carrier from slot `offset` (M401). TypeError for other types, RuntimeError for a released
    carrier, ValueError for a negative offset or where the layout reaches beyond the carrier.

    >>> from orlop import CPU, Layout, Shape, Stride, Tensor
    >>> carrier = CPU(0).new_like([1, 2, 3, 4, 5, 6])
    >>> tensor = Tensor(carrier, 1, Layout(Shape(2, 2), Stride(1, 2)))
    >>> tensor[0, 1], tensor[3], tensor[1, :].shape
    (4.0, 5.0, (2,))
    >>> Tensor(carrier, 3, Layout(Shape(2, 2), Stride(1, 2)))
    Traceback (most recent call last):
        ...
    ValueError: [Tensor] Tensor storage exceeds carrier size: offset 3 plus span 4; the carrier has 6 slots
    """

    def __init__(self, carrier: Carrier, offset: int, layout: orlop.layout.Layout) -> None: ...

    @property
    def carrier(self) -> Carrier:
        """The storage of plane 0."""

    @property
    def offset(self) -> int:
        """The slot of index 0."""

    @property
    def layout(self) -> Layout:
        """Where elements lie."""

    @property
    def version(self) -> int:
        """The carrier's version."""

    @property
    def shape(self) -> object:
        """The extents as nested tuples."""

    @property
    def ndim(self) -> int:
        """Top-level modes."""

    def dtype(self) -> DType:
        """
        The logical dtype.

        >>> orlop.friendly.ones(2).dtype()
        SimpleDType('Float32')
        """

    def size(self) -> int:
        """
        Number of logical elements.

        >>> orlop.friendly.ones(2, 3).size()
        6
        """

    def carrier_type(self) -> object:
        """
        The exact class of the carrier.

        >>> orlop.friendly.ones(2).carrier_type().__name__
        'CPU'
        """

    def is_mutable(self) -> bool:
        """
        Whether elements may be written.

        >>> from orlop import CPU, Tensor, friendly
        >>> Tensor(CPU(2, mutable=False), 0, friendly.column_major(2)).is_mutable()
        False
        """

    def is_differentiable(self) -> bool:
        """
        Logical dtype Float32 or Floating.

        >>> from orlop import DType, friendly
        >>> friendly.ones(2).is_differentiable(), friendly.ones(2, dtype=DType.Int32).is_differentiable()
        (True, False)
        """

    def __getitem__(self, key: object) -> Any: ...

    def __setitem__(self, key: object, value: object) -> None: ...

    def __hash__(self) -> int: ...

    def __neg__(self) -> Tensor: ...

    def __abs__(self) -> Tensor: ...

    def __matmul__(self, other: Tensor) -> Tensor: ...

    def __rmatmul__(self, other: Tensor) -> Tensor: ...

    __array_ufunc__: None = None

    def __add__(self, other: Tensor | float) -> Tensor: ...

    def __radd__(self, other: Tensor | float) -> Tensor: ...

    def __sub__(self, other: Tensor | float) -> Tensor: ...

    def __rsub__(self, other: Tensor | float) -> Tensor: ...

    def __mul__(self, other: Tensor | float) -> Tensor: ...

    def __rmul__(self, other: Tensor | float) -> Tensor: ...

    def __truediv__(self, other: Tensor | float) -> Tensor: ...

    def __rtruediv__(self, other: Tensor | float) -> Tensor: ...

    def __lt__(self, other: Tensor | float) -> Tensor: ...

    def __le__(self, other: Tensor | float) -> Tensor: ...

    def __gt__(self, other: Tensor | float) -> Tensor: ...

    def __ge__(self, other: Tensor | float) -> Tensor: ...

    def __eq__(self, other: object) -> Any: ...

    def __ne__(self, other: object) -> Any: ...

    def __pow__(self, exponent: Tensor | float, modulus: object | None = None) -> Tensor: ...

    def __rpow__(self, base: Tensor | float, modulus: object | None = None) -> Tensor: ...

    def __len__(self) -> int: ...

    def __float__(self) -> float: ...

    def __int__(self) -> object: ...

    def __bool__(self) -> bool: ...

    def __iter__(self) -> Iterator: ...

    def __reversed__(self) -> Iterator: ...

    def __repr__(self) -> str: ...

    def __reduce_ex__(self, *args) -> None: ...

    def __copy__(self, *args) -> None: ...

    def __deepcopy__(self, *args) -> None: ...

    def __dlpack__(self, stream: object | None = None, *, max_version: object | None = None, dl_device: object | None = None, copy: bool | None = None) -> object:
        """
        A DLPack capsule of the Tensor's own memory: Float32 or Int32 on CPU. `stream` is ignored.
        """

    def __dlpack_device__(self) -> tuple:
        """The DLPack device type and id."""

    def __array__(self, dtype: object | None = None, copy: bool | None = None) -> object:
        """
        A NumPy array: the Tensor's own memory on CPU, else a fresh copy of its values.
        """

    def backward(self, gradient: Tensor | None = None, retain_graph: bool = False) -> None:
        """
        Adds gradients to `.grad` of every leaf below this Tensor, all or nothing (P83-P88).

        `gradient` has its dtype and layout and may be left out for one element. The graph is released unless retain_graph.
        Errors: RuntimeError for a dtype without gradients, a released graph, or a saved input that was written since;
        TypeError and ValueError for a gradient that does not fit.

        >>> from orlop import friendly
        >>> x = friendly.tensor([1, 2])
        >>> (x * x).backward(friendly.ones(2))
        >>> friendly.to_list(x.grad)
        [2.0, 4.0]
        >>> (x * x).backward()
        Traceback (most recent call last):
            ...
        ValueError: [backward] only a Tensor of shape (1,) can start without a gradient: its shape is ...
        """

    @staticmethod
    def backwards_traversal(gradient: Tensor, operation: object, retain_graph: bool = False) -> None:
        """
        backward, started at a node; nothing where it is None. Errors as there, and AttributeError for what is no node (P89).

        >>> from orlop import Tensor, friendly
        >>> x = friendly.tensor([1, 2])
        >>> y = x * x
        >>> Tensor.backwards_traversal(friendly.ones(2), y.autograd_ctx)
        >>> friendly.to_list(x.grad)
        [2.0, 4.0]
        """

    @property
    def grad(self, /) -> Tensor | None:
        """The accumulated gradient, or None."""

    @grad.setter
    def grad(self, value: Tensor | None, /) -> None: ...

    @property
    def autograd_ctx(self) -> Operation:
        """The operation that produced this Tensor, or None for a leaf."""

    @autograd_ctx.setter
    def autograd_ctx(self, value: Operation | None, /) -> None: ...

    def retain_grad(self, retain: bool = True) -> None:
        """
        Whether a Tensor that is no leaf keeps its gradient too. TypeError for no bool, RuntimeError for a dtype without
        gradients.

        >>> from orlop import friendly
        >>> y = friendly.ones(2) * 3.0
        >>> y.retain_grad()
        >>> friendly.sum(y).backward()
        >>> friendly.to_list(y.grad)
        [1.0, 1.0]
        """

def is_grad_enabled() -> bool:
    """
    Whether this thread records graphs.

    >>> orlop.is_grad_enabled()
    True
    """

def set_grad_enabled(enabled: bool) -> None:
    """
    Switches recording on or off for this thread (P82). TypeError for what is no bool.

    >>> orlop.set_grad_enabled(False)
    >>> orlop.is_grad_enabled()
    False
    >>> orlop.set_grad_enabled(True)
    """

def grad(output: Tensor, inputs: Iterable[Tensor], cotangents: Tensor, *, batched: bool = False, retain_graph: bool = False) -> tuple[Tensor | None, ...]:
    """
    One gradient for each input, in its layout and without a graph, None where it is not reached; touches no `.grad`.

    `cotangents` has the layout of output. With batched=True it has a first mode more, of extent K, and so has each
    gradient (P91). Errors (P90): TypeError for other types, RuntimeError for an output without gradients, a released
    graph or a saved input that was written since; ValueError for inputs without gradients and cotangents that do not fit.

    >>> from orlop import friendly
    >>> x = friendly.tensor([2, 3])
    >>> dx, = orlop.grad(friendly.sum(x * x), [x], friendly.ones(1))
    >>> friendly.to_list(dx), x.grad
    ([4.0, 6.0], None)
    """

def check_representation(logical_dtype: object, subtensors: tuple, adjacent_layouts: tuple) -> None:
    """All checks of M407 from the schema on."""

def carriers_token(carriers: tuple) -> tuple:
    """
    (carrier identity, version) of each carrier once, by first occurrence (M408).
    """

def from_dlpack(x: object, /, *, device: object | None = None, copy: bool | None = None) -> Tensor:
    """
    A CPU Tensor over the memory of an array that speaks DLPack, or of a copy with copy=True.

    float32, int32 and bool elements in host memory; mutable unless the array is read-only. TypeError for what has no
    __dlpack__; BufferError for other elements or devices, or where only a copy would do and none is wanted (S710).

    >>> from orlop import friendly
    >>> source = friendly.ones(2)
    >>> shared, copied = orlop.from_dlpack(source), orlop.from_dlpack(source, copy=True)
    >>> source[0] = 5
    >>> shared[0], copied[0]
    (5.0, 1.0)
    """

def from_buffer(exporter: object, /, *, copy: bool | None = None) -> Tensor:
    """
    A CPU Tensor over the memory of a buffer exporter, or of a copy with copy=True.

    Native float32, int32 and bool items; mutable unless the buffer is read-only. TypeError for what exports no buffer,
    BufferError for other items.

    >>> import array
    >>> memory = array.array("f", [1, 2])
    >>> tensor = orlop.from_buffer(memory)
    >>> tensor[0] = 5
    >>> memory[0]
    5.0
    >>> orlop.from_buffer(array.array("d", [1, 2]))
    Traceback (most recent call last):
        ...
    BufferError: [from_buffer] the element type with format 'd' of 8 bytes is not supported; use native ...
    """

def add(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs + rhs, element by element; either side may be a number.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.add(friendly.tensor([1, 2]), 10))
    [11.0, 12.0]
    """

def sub(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs - rhs, element by element; either side may be a number.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.sub(friendly.tensor([1, 2]), 10))
    [-9.0, -8.0]
    """

def mul(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs * rhs, element by element; either side may be a number.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.mul(friendly.tensor([1, 2]), 10))
    [10.0, 20.0]
    """

def div(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs / rhs as Float32; either side may be a number.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.div(friendly.tensor([1, 2]), 4))
    [0.25, 0.5]
    """

def pow(base: Tensor | float, exponent: Tensor | float) -> Tensor:
    """
    base ** exponent; either side may be a number.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.pow(friendly.tensor([2, 3]), 2))
    [4.0, 9.0]
    """

def maximum(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    The greater of both; a NaN wins.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.maximum(friendly.tensor([1, 5]), 3))
    [3.0, 5.0]
    """

def minimum(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    The lesser of both; a NaN wins.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.minimum(friendly.tensor([1, 5]), 3))
    [1.0, 3.0]
    """

def eq(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs == rhs as Bool.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.eq(friendly.tensor([1, 5]), 5))
    [False, True]
    """

def ne(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs != rhs as Bool.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.ne(friendly.tensor([1, 5]), 5))
    [True, False]
    """

def lt(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs < rhs as Bool.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.lt(friendly.tensor([1, 5]), 5))
    [True, False]
    """

def le(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs <= rhs as Bool.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.le(friendly.tensor([1, 5]), 5))
    [True, True]
    """

def gt(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs > rhs as Bool: lt with the operands swapped.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.gt(friendly.tensor([1, 5]), 3))
    [False, True]
    """

def ge(lhs: Tensor | float, rhs: Tensor | float) -> Tensor:
    """
    lhs >= rhs as Bool: le with the operands swapped.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.ge(friendly.tensor([1, 5]), 5))
    [False, True]
    """

def elementwise_mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """
    lhs * rhs of two Tensors, element by element.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.elementwise_mul(friendly.tensor([1, 2]), friendly.tensor([3, 4])))
    [3.0, 8.0]
    """

def rem(lhs: Tensor, rhs: Tensor) -> Tensor:
    """
    The remainder of lhs / rhs truncated, exact and of the sign of lhs: C's fmod (P62).
    ValueError where an Int32 divisor is 0.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.rem(friendly.tensor([7, -7]), friendly.tensor([4, 4])))
    [3.0, -3.0]
    """

def neg(tensor: Tensor) -> Tensor:
    """
    -tensor.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.neg(friendly.tensor([1, -2])))
    [-1.0, 2.0]
    """

def abs(tensor: Tensor) -> Tensor:
    """
    The size of each element.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.abs(friendly.tensor([1, -2])))
    [1.0, 2.0]
    """

def sign(tensor: Tensor) -> Tensor:
    """
    -1, 0 or 1 as each element is below, at or above 0; NaN stays.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.sign(friendly.tensor([3, 0, -2])))
    [1.0, 0.0, -1.0]
    """

def recip(tensor: Tensor) -> Tensor:
    """
    1 / tensor, for Float32.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.recip(friendly.tensor([2, 4])))
    [0.5, 0.25]
    """

def sqrt(tensor: Tensor) -> Tensor:
    """
    The square root of each element, NaN below 0.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.sqrt(friendly.tensor([4, 9])))
    [2.0, 3.0]
    """

def rsqrt(tensor: Tensor) -> Tensor:
    """
    1 / sqrt(tensor), in two roundings.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.rsqrt(friendly.tensor([4, 16])))
    [0.5, 0.25]
    """

def exp(tensor: Tensor) -> Tensor:
    """
    e to the power of each element, as Float32.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.exp(friendly.tensor([0, -200])))
    [1.0, 0.0]
    """

def exp2(tensor: Tensor) -> Tensor:
    """
    2 to the power of each element.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.exp2(friendly.tensor([3, -1])))
    [8.0, 0.5]
    """

def log(tensor: Tensor) -> Tensor:
    """
    The natural logarithm of each element.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.log(friendly.tensor([1, 0])))
    [0.0, -inf]
    """

def log2(tensor: Tensor) -> Tensor:
    """
    The logarithm to base 2 of each element.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.log2(friendly.tensor([8, 0.5])))
    [3.0, -1.0]
    """

def sin(tensor: Tensor) -> Tensor:
    """
    The sine of each element, in radians.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.sin(friendly.tensor([0])))
    [0.0]
    """

def cos(tensor: Tensor) -> Tensor:
    """
    The cosine of each element, in radians.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.cos(friendly.tensor([0])))
    [1.0]
    """

def erf(tensor: Tensor) -> Tensor:
    """
    The error function of each element.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.erf(friendly.tensor([0, 9])))
    [0.0, 1.0]
    """

def floor(tensor: Tensor) -> Tensor:
    """
    The greatest integer that is not above each element.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.floor(friendly.tensor([1.5, -1.5])))
    [1.0, -2.0]
    """

def ceil(tensor: Tensor) -> Tensor:
    """
    The least integer that is not below each element.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.ceil(friendly.tensor([1.5, -1.5])))
    [2.0, -1.0]
    """

def round(tensor: Tensor) -> Tensor:
    """
    The nearest integer, ties to even.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.round(friendly.tensor([0.5, 1.5, -2.6])))
    [0.0, 2.0, -3.0]
    """

def logical_not(tensor: Tensor) -> Tensor:
    """
    As Bool: True at 0 and at False, otherwise False.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.logical_not(friendly.tensor([0, 2])))
    [True, False]
    """

def relu(tensor: Tensor) -> Tensor:
    """
    Each element where it is positive, otherwise 0; NaN stays.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.relu(friendly.tensor([3, -2])))
    [3.0, 0.0]
    """

def tanh(tensor: Tensor) -> Tensor:
    """
    The hyperbolic tangent of each element, as Float32.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.tanh(friendly.tensor([0, 20])))
    [0.0, 1.0]
    """

def gelu(tensor: Tensor) -> Tensor:
    """
    x / 2 * (1 + erf(x / sqrt(2))) of each element, as Float32.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.gelu(friendly.tensor([0, 10])))
    [0.0, 10.0]
    """

def silu(tensor: Tensor) -> Tensor:
    """
    x * sigmoid(x) of each element, as Float32.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.silu(friendly.tensor([0, 100])))
    [0.0, 100.0]
    """

def softplus(tensor: Tensor) -> Tensor:
    """
    log(1 + exp(x)) of each element, as Float32; no overflow.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.softplus(friendly.tensor([-200, 200])))
    [0.0, 200.0]
    """

def elu(tensor: Tensor) -> Tensor:
    """
    Each element where it is positive, otherwise exp(x) - 1, as Float32.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.elu(friendly.tensor([2, -200])))
    [2.0, -1.0]
    """

def sigmoid(tensor: Tensor) -> Tensor:
    """
    1 / (1 + exp(-x)) of each element, as Float32.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.sigmoid(friendly.tensor([0, 100])))
    [0.5, 1.0]
    """

def leaky_relu(tensor: Tensor) -> Tensor:
    """
    Each element from 0 on, otherwise 0.01 times it, as Float32.

    Computed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges and
    gradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,
    UnsupportedOperationPlan where the carrier does not compute it.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.leaky_relu(friendly.tensor([3, -100])))
    [3.0, -1.0]
    """

def clamp(tensor: Tensor, lower: Tensor | float, upper: Tensor | float) -> Tensor:
    """
    minimum(maximum(tensor, lower), upper); each bound is a Tensor or a number (P63).
    Nothing asks that lower is below upper. NaN anywhere gives NaN.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.clamp(friendly.tensor([-3, 0.5, 7]), 0, 1))
    [0.0, 0.5, 1.0]
    """

def select(condition: Tensor, on_true: Tensor, on_false: Tensor) -> Tensor:
    """
    on_true where the Bool condition holds, otherwise on_false.

    Errors: TypeError for a condition that is not Bool or branches of two dtypes.

    >>> from orlop import friendly
    >>> a = friendly.tensor([1, 5])
    >>> friendly.to_list(orlop.select(a > 2, a, -a))
    [-1.0, 5.0]
    """

def matmul(lhs: Tensor, rhs: Tensor, *, accumulator_dtype: DType | None = None) -> Tensor:
    """
    y[i, j] = sum over k of lhs[i, k] * rhs[j, k]: the second modes of both are contracted.

    Both have two modes. Sums of Float32 are carried in accumulator_dtype, Float32 by default or Float64; those of
    Int32 are exact. Errors: ValueError where the modes do not fit, OverflowError where a sum leaves Int32.

    >>> from orlop import friendly
    >>> a = friendly.tensor([[1, 2], [3, 4]])
    >>> friendly.to_list(orlop.matmul(a, friendly.tensor([[1, 0]])))
    [1.0, 3.0]
    """

def conv_general(lhs: Tensor, kernel: Tensor, strides: Sequence[int], padding: Sequence[Sequence[int]], *, lhs_dilation: Sequence[int] | None = None, kernel_dilation: Sequence[int] | None = None, feature_groups: int = 1, lhs_dims: Sequence[int] | None = None, kernel_dims: Sequence[int] | None = None, output_dims: Sequence[int] | None = None) -> Tensor:
    """
    Cross-correlation of lhs [batch, feature, spatial...] with kernel [out feature, in feature, spatial...],
    both Float32, as [batch, out feature, spatial...] (P67).

    strides, lhs_dilation and kernel_dilation are one positive integer per spatial mode, padding one
    (low, high). feature_groups divides the features of lhs and result. lhs_dims and kernel_dims name the
    source's mode in each role, output_dims permutes the result. Padding and the holes of lhs_dilation
    count as zeros. TypeError and ValueError name the parameter.

    >>> from orlop import friendly
    >>> lhs = orlop.reshape(friendly.tensor([1, 2, 4]), orlop.Shape(1, 1, 3))
    >>> kernel = orlop.reshape(friendly.tensor([3, -1]), orlop.Shape(1, 1, 2))
    >>> friendly.to_list(orlop.conv_general(lhs, kernel, (1,), ((0, 0),)))
    [1.0, 2.0]
    """

def gather(tensor: Tensor, indices: Tensor, axis: int) -> Tensor:
    """
    The entries of a mode at Int32 indices, whose modes take its place. IndexError outside [0, extent) (P68).

    >>> from orlop import friendly
    >>> indices = friendly.tensor([2, 0], dtype=orlop.DType.Int32)
    >>> friendly.to_list(orlop.gather(friendly.tensor([5, 6, 7]), indices, 0))
    [7.0, 5.0]
    """

@overload
def scatter(base: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """
    A copy of base in which updates, of the shape that gather gives, replace the entries at the indices.
    ValueError where an index is repeated, IndexError outside [0, extent) (P68).

    >>> from orlop import friendly
    >>> indices = friendly.tensor([2, 0], dtype=orlop.DType.Int32)
    >>> updates = friendly.tensor([8, 9])
    >>> friendly.to_list(orlop.scatter(friendly.tensor([5, 6, 7]), indices, updates, 0))
    [9.0, 6.0, 8.0]
    """

@overload
def scatter(compact: Tensor, template: Tensor, selection: TileSelection, reduction: str = 'replace') -> AwaitMove:
    """
    A new full Tensor like `template` whose chosen tiles hold `compact`, laid out as project() gives it:
    "replace" alone, "add" on top of the template's values. The other tiles are invalid, the inputs unchanged.
    Returns the handle; until its end `compact` is owned (X59).

    Errors: ValueError, TypeError and RuntimeError in the order of X59, before anything has changed.
    """

def scatter_add(base: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """
    A copy of base to which updates, of the shape that gather gives, are added at the indices (P68).

    >>> from orlop import friendly
    >>> indices = friendly.tensor([2, 2], dtype=orlop.DType.Int32)
    >>> updates = friendly.tensor([8, 9])
    >>> friendly.to_list(orlop.scatter_add(friendly.tensor([5, 6, 7]), indices, updates, 0))
    [5.0, 6.0, 24.0]
    """

def cumsum(tensor: Tensor, dimension: int) -> Tensor:
    """
    The sum of the elements up to and including each one along the ordinals of a mode, in the shape of the
    Tensor (P64). Float32 is carried in binary64 and rounded once for each element. Int32 is exact;
    OverflowError where a sum leaves it. ValueError for a mode that there is not.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.cumsum(friendly.tensor([1, 2, 3]), 0))
    [1.0, 3.0, 6.0]
    """

def as_strided(tensor: Tensor, shape: Shape, stride: Stride) -> Tensor:
    """
    A view whose element at q is the tensor's at ordinal Layout(shape, stride)(q).

    TypeError for other types; ValueError where the selection is not injective, leaves the tensor or cannot be
    written as strides (M501, M503).

    >>> from orlop import Shape, Stride, friendly
    >>> friendly.to_list(orlop.as_strided(friendly.arange(6), Shape(2, 2), Stride(1, 4)))
    [0.0, 1.0, 4.0, 5.0]
    >>> orlop.as_strided(friendly.arange(6), Shape(4), Stride(2))
    Traceback (most recent call last):
        ...
    ValueError: [as_strided] the mapping exceeds the input: it reaches ordinal 6, the input has 6 elements
    """

def broadcast_to(tensor: Tensor, target: Shape) -> Tensor:
    """
    A view of shape `target`: leaves of extent 1 widen with stride 0. ValueError where another leaf differs or the
    profiles do (M308).

    >>> from orlop import Shape, friendly
    >>> friendly.to_list(orlop.broadcast_to(friendly.tensor([[1], [2]]), Shape(2, 3)))
    [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]
    >>> orlop.broadcast_to(friendly.tensor([[1], [2]]), Shape(3, 3))
    Traceback (most recent call last):
        ...
    ValueError: [broadcast_to] broadcasting can only widen an extent-1 leaf: leaf 0 has extent 2, the ...
    """

def broadcast_in_dim(tensor: Tensor, target: Shape, broadcast_dimensions: Sequence[int]) -> Tensor:
    """
    A view of shape `target` in which mode i of the tensor is mode broadcast_dimensions[i], strictly increasing;
    the other modes are repeated. TypeError for other types; ValueError where the dimensions are not one for each mode,
    in order, or an extent neither fits nor is 1 (M501).

    >>> from orlop import Shape, friendly
    >>> friendly.to_list(orlop.broadcast_in_dim(friendly.tensor([1, 2]), Shape(3, 2), [1]))
    [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    """

def permute(tensor: Tensor, *order: int | Sequence[int]) -> Tensor:
    """
    A view with the top-level modes in another order: integers or one iterable, each mode once (M313).
    TypeError for other entries, ValueError where a mode is left out or named twice.

    >>> from orlop import friendly
    >>> orlop.permute(friendly.zeros(2, 3, 4), 2, 0, 1).shape
    (4, 2, 3)
    """

def reshape(tensor: Tensor, shape: Shape) -> Tensor:
    """
    A view of the same ordinal sequence in another shape. ValueError where the sizes differ or the layout has no
    one step that all ordinals share (M501).

    >>> from orlop import Shape, friendly
    >>> t = friendly.arange(6)
    >>> orlop.reshape(t, Shape(2, 3))[0, 1]
    2.0
    >>> orlop.reshape(t, Shape(2, 2))
    Traceback (most recent call last):
        ...
    ValueError: [reshape] both shapes must have the same logical size: Shape<(6,)> and Shape<(2, 2)>
    """

def squeeze(tensor: Tensor, dim: int) -> Tensor:
    """
    A view without the top-level leaf `dim` of extent 1; negative dims count from the end (M501).
    TypeError for no integer, ValueError for another mode.

    >>> from orlop import friendly
    >>> orlop.squeeze(friendly.zeros(2, 1), -1).shape
    (2,)
    >>> orlop.squeeze(friendly.zeros(2, 1), 0)
    Traceback (most recent call last):
        ...
    ValueError: [squeeze] mode 0 has extent 2; only a leaf of extent 1 can go
    """

def unsqueeze(tensor: Tensor, dim: int) -> Tensor:
    """
    A view with a new leaf of extent 1 as top-level mode `dim`, in [-n-1, n] (M501).
    TypeError for no integer, ValueError outside.

    >>> from orlop import friendly
    >>> orlop.unsqueeze(friendly.zeros(2, 3), 1).shape
    (2, 1, 3)
    """

def rearrange(tensor: Tensor, output: Tree | str, selection: Tree | None = None) -> Tensor:
    """
    A view that places every leaf, or every mode that `selection` names, as the Tree `output` says (M312). A command
    is taken too: `rearrange(t, "b (h w) -> h w b")` (M708). TypeError for other types, ValueError for what does not fit.

    >>> from orlop import Node, Tree, friendly
    >>> orlop.rearrange(friendly.zeros(2, 3), Tree(Node.id(1), Node.id(0))).shape
    (3, 2)
    >>> orlop.rearrange(friendly.zeros(2, 3, 4), "b h w -> (h w) b").shape
    ((3, 4), 2)
    """

def reduce_sum(tensor: Tensor, description: str, *, accumulator_dtype: DType | None = None) -> Tensor:
    """
    The sum over the dimensions that the description leaves out, compact in the kept ones' shape (P64):
    `reduce_sum(t, "row column -> row")`. Int32 is exact; OverflowError where a sum leaves it.
    Float32 is added in accumulator_dtype, Float32 or Float64. ValueError for the description.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.reduce_sum(friendly.tensor([[1, 5], [7, 3]]), "row column -> row"))
    [6.0, 10.0]
    >>> orlop.reduce_sum(friendly.tensor([[1, 5], [7, 3]]), "row column -> row column")
    Traceback (most recent call last):
        ...
    ValueError: [command] Reduce command must omit at least one dimension
    """

def reduce_prod(tensor: Tensor, description: str) -> Tensor:
    """
    The product over the dimensions that the description leaves out: Float32 from 1 on in ordinal order,
    Int32 exact; OverflowError where a product leaves it (P64). ValueError for the description.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.reduce_prod(friendly.tensor([[1, 5], [7, 3]]), "row column -> column"))
    [7.0, 15.0]
    """

def reduce_max(tensor: Tensor, description: str) -> Tensor:
    """
    The greatest value over the dimensions that the description leaves out; the first NaN wins, and +0 beats -0
    (P64). ValueError for the description.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.reduce_max(friendly.tensor([[1, 5], [7, 3]]), "row column -> row"))
    [5.0, 7.0]
    """

def reduce_min(tensor: Tensor, description: str) -> Tensor:
    """
    The least value over the dimensions that the description leaves out; the first NaN wins, and -0 beats +0
    (P64). ValueError for the description.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.reduce_min(friendly.tensor([[1, 5], [7, 3]]), "row column -> row"))
    [1.0, 3.0]
    """

def argmax(tensor: Tensor, description: str) -> Tensor:
    """
    Where the greatest value is among the dimensions that the description leaves out: its first ordinal there, as
    Int32 (P64). ValueError for the description.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.argmax(friendly.tensor([[1, 5], [7, 7]]), "row column -> row"))
    [1, 0]
    """

def argmin(tensor: Tensor, description: str) -> Tensor:
    """
    Where the least value is among the dimensions that the description leaves out: its first ordinal there, as
    Int32 (P64). ValueError for the description.

    >>> from orlop import friendly
    >>> friendly.to_list(orlop.argmin(friendly.tensor([[1, 5], [7, 7]]), "row column -> row"))
    [0, 0]
    """

def einsum(lhs: Tensor, rhs: Tensor, description: str) -> Tensor:
    """
    The contraction of two Tensors: `einsum(a, b, "i k, j k -> i j")`. Symbols of both that the output
    leaves out are summed; those of one must be kept. ValueError where a shared dimension has two sizes (M707).

    >>> from orlop import einops, friendly
    >>> a = friendly.tensor([[1, 2], [3, 4]])
    >>> friendly.to_list(einops.einsum(a, friendly.tensor([[1, 1]]), "i k, j k -> i j"))
    [3.0, 7.0]
    """

@final
class CPU(Carrier):
    """
    CPU(size, pointer=None, *, mutable=True, dtype=DType.Float32, empty=False)

    Typed host storage of `size` slots, owned, or wrapped at the address `pointer`.
    Errors: TypeError for arguments of other types; ValueError for a negative size, an address that is not positive, or a
    dtype other than Float32, Int32 and Bool; MemoryError.

    >>> carrier = orlop.CPU(3, dtype=orlop.DType.Int32)
    >>> carrier[1] = 7
    >>> carrier.size(), carrier[0], carrier[1]
    (3, 0, 7)
    """

    def __init__(self, *args, **kwargs) -> None: ...

    def pointer(self) -> int:
        """
        The positive address of slot 0.

        >>> orlop.CPU(3).pointer() > 0
        True
        """

    @classmethod
    def __init_subclass__(cls, **kwargs) -> None: ...

@final
class Generic(Carrier):
    """
    Generic(values, *, mutable=True, dtype)

    The reference store: normalized copies of `values`.
    Errors: TypeError for values that are no real numbers, OverflowError for one that leaves Int32, ValueError for a dtype
    other than Float32, Int32 and Bool.

    >>> carrier = orlop.Generic([1, 2.7], dtype=orlop.DType.Float32)
    >>> carrier[0], carrier.size()
    (1.0, 2)
    """

    def __init__(self, *args, **kwargs) -> None: ...

    @classmethod
    def __init_subclass__(cls, **kwargs) -> None: ...

@final
class FileBacked(Carrier):
    """
    FileBacked(filename=None, *, mutable=True, dtype)

    A temporary raw numeric file of Float32 or Int32 slots, initially empty. `filename` is a bare name in the
    process's hidden session directory (ORLOP_TMPDIR, else TMPDIR, TEMP, TMP, else /var/tmp); None: a unique
    one. TypeError without dtype; ValueError for another dtype or a path; FileExistsError where the name is
    taken. The file goes with release(), with the object, and at exit; it is never flushed to the disk.

    >>> with orlop.FileBacked(dtype=orlop.DType.Float32) as empty:
    ...     stored = empty.new_like([1.0, 2.0])
    >>> type(stored).__name__, stored[1]
    ('FileBacked', 2.0)
    """

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def path(self) -> object:
        """
        The file, a pathlib.Path. A factory's result without slots makes its file when first asked.
        """

    @classmethod
    def __init_subclass__(cls, **kwargs) -> None: ...

@final
class BlockDevice:
    """
    BlockDevice(path)

    An open block device, from which carriers are allocated; whatever it held is overwritten. ValueError
    ‹block device› for any other node, OSError where it cannot be opened. A context manager: leaving it
    closes the device. A transfer that fails faults it for good (S501-S511).

    >>> import pathlib, tempfile
    >>> from orlop import friendly
    >>> from orlop._testing import open_block_device
    >>> folder = tempfile.TemporaryDirectory()
    >>> node = pathlib.Path(folder.name, "node")
    >>> _ = node.write_bytes(bytes(1 << 16))
    >>> device = open_block_device(node, capacity=1 << 16)  # a file in place of BlockDevice("/dev/...")
    >>> moved = orlop.move(friendly.arange(3), device.allocate(3))
    >>> moved[2], device.is_faulted()
    (2.0, False)
    >>> del moved
    >>> device.close()
    >>> device.is_closed()
    True
    >>> folder.cleanup()
    >>> orlop.BlockDevice("/dev/null")
    Traceback (most recent call last):
        ...
    ValueError: [BlockDevice] the path must be a block device: '/dev/null' is none; use the node of one
    """

    def __init__(self, path: object) -> None: ...

    @property
    def path(self) -> object:
        """The path as it was given."""

    @property
    def capacity_bytes(self) -> int: ...

    @property
    def logical_block_size(self) -> int: ...

    @property
    def physical_block_size(self) -> int: ...

    @property
    def allocation_alignment(self) -> int:
        """What every extent starts and ends at a multiple of."""

    def is_closed(self) -> bool: ...

    def is_faulted(self) -> bool:
        """Whether a transfer has failed: then no slot can be reached."""

    def allocate(self, size: int, *, mutable: bool = True, dtype: object = ..., empty: bool = False) -> BlockDeviceCarrier:
        """
        `size` Float32 slots in the lowest free extent that is large enough; zero unless `empty`. MemoryError
        where there is no room, ValueError for another dtype, RuntimeError once closed or faulted.
        """

    def close(self) -> None:
        """
        Closes the device, once. RuntimeError while a carrier of it exists, even a released one.
        """

    def __enter__(self) -> BlockDevice: ...

    def __exit__(self, *args) -> bool: ...

@final
class BlockDeviceCarrier(Carrier):
    """
    Float32 slots in one extent of a BlockDevice, of fixed size; made by BlockDevice.allocate and by the
    factories of another one. Moves to and from CPU only, computes nothing.

    >>> orlop.BlockDeviceCarrier()
    Traceback (most recent call last):
        ...
    TypeError: [BlockDeviceCarrier] the class cannot be called; use BlockDevice.allocate to make one
    """

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def device(self) -> BlockDevice: ...

    @property
    def device_offset_bytes(self) -> int:
        """Where slot 0 lies on the device; 0 once released or without slots."""

    @property
    def extent_bytes(self) -> int:
        """The bytes reserved for the slots."""

    @classmethod
    def __init_subclass__(cls, **kwargs) -> None: ...

@final
class Metal(Carrier):
    """
    Metal(size, *, mutable=True, dtype=DType.Float32, empty=False)

    Typed accelerator storage of `size` slots. Arguments are checked first; where no Metal
    runtime is available, construction is a RuntimeError that says what is needed.

    >>> from orlop.carriers import metal
    >>> metal.use_runtime("emulated")
    >>> orlop.Metal(4).size()
    4
    """

    def __init__(self, *args, **kwargs) -> None: ...

    @classmethod
    def __init_subclass__(cls, **kwargs) -> None: ...

def use_metal_runtime(name: object) -> None:
    """
    Chooses the runtime of all Metal carriers, "apple" or "emulated", before the first of them.

    ValueError for another name; RuntimeError where that runtime does not exist here or
    another one is in use.

    >>> from orlop.carriers import metal
    >>> metal.use_runtime("cuda")
    Traceback (most recent call last):
        ...
    ValueError: [Metal] no runtime has the name cuda; "apple" and "emulated" do
    """

def metal_runtime_info() -> object:
    """
    What runs Metal kernels here: a dict with `runtime` ("apple" or "emulated"), `device` and
    `largest_buffer_bytes`; None where nothing does.

    >>> from orlop.carriers import metal
    >>> metal.use_runtime("emulated")
    >>> orlop.Metal(0).size(), metal.runtime_info()["runtime"]
    (0, 'emulated')
    """

class MoveOperation(Operation):
    """
    One way to move between two carriers; subclass it with `_copy(tensor, destination, output, element_count)`.

    The class attributes source_class and destination_class pin exact classes; None takes any. `_copy` runs after
    all checks, with both carriers owned by the move; `output` is the Tensor's layout on `destination` from slot 0
    and `element_count` its span. forward(tensor, destination) is the whole move.

    >>> from orlop import CPU, friendly
    >>> from orlop.carriers.move import MoveOperation
    >>> class Doubling(MoveOperation):
    ...     source_class = CPU
    ...
    ...     def _copy(self, tensor, destination, output, element_count):
    ...         for slot in range(element_count):
    ...             destination[slot] = 2 * tensor.carrier[tensor.offset + slot]
    >>> friendly.to_list(Doubling().forward(friendly.tensor([1, 2]), CPU(2)))
    [2.0, 4.0]
    """

    def __init__(self) -> None: ...

    def backward(self, gradient: Tensor) -> tuple:
        """
        The cotangent, moved back by the route that was kept at the forward call.
        """

    source_class: None = None

    destination_class: None = None

class ElementwiseMoveOperation(MoveOperation):
    """
    Moves the logical values in ascending order; holes stay untouched. The route of every unregistered pair.

    >>> from orlop import CPU, Generic
    >>> from orlop.carriers import move
    >>> move.dispatch_move(CPU, Generic) is move.ElementwiseMoveOperation
    True
    """

    def __init__(self) -> None: ...

    def backward(self, gradient: Tensor) -> tuple:
        """
        The cotangent, moved back by the route that was kept at the forward call.
        """

    source_class: None = None

    destination_class: None = None

class CpuToFileBackedMoveOperation(MoveOperation):
    """
    Writes the span of a CPU into a file from byte 0, in one transfer.

    >>> from orlop import CPU, FileBacked
    >>> from orlop.carriers import move
    >>> move.dispatch_move(CPU, FileBacked) is move.CpuToFileBackedMoveOperation
    True
    """

    def __init__(self) -> None: ...

    def backward(self, gradient: Tensor) -> tuple:
        """
        The cotangent, moved back by the route that was kept at the forward call.
        """

    source_class: TypeAlias = CPU

    destination_class: TypeAlias = FileBacked

class FileBackedToCpuMoveOperation(MoveOperation):
    """
    Reads the span of a file into a CPU from slot 0, in one transfer.

    >>> from orlop import CPU, FileBacked
    >>> from orlop.carriers import move
    >>> move.dispatch_move(FileBacked, CPU) is move.FileBackedToCpuMoveOperation
    True
    """

    def __init__(self) -> None: ...

    def backward(self, gradient: Tensor) -> tuple:
        """
        The cotangent, moved back by the route that was kept at the forward call.
        """

    source_class: TypeAlias = FileBacked

    destination_class: TypeAlias = CPU

class CpuToBlockDeviceMoveOperation(MoveOperation):
    """
    Writes the span of a CPU to a block device from slot 0, in one transfer.

    >>> from orlop import CPU, BlockDeviceCarrier
    >>> from orlop.carriers import move
    >>> move.dispatch_move(CPU, BlockDeviceCarrier) is move.CpuToBlockDeviceMoveOperation
    True
    """

    def __init__(self) -> None: ...

    def backward(self, gradient: Tensor) -> tuple:
        """
        The cotangent, moved back by the route that was kept at the forward call.
        """

    source_class: TypeAlias = CPU

    destination_class: TypeAlias = BlockDeviceCarrier

class BlockDeviceToCpuMoveOperation(MoveOperation):
    """
    Reads the span of a block device carrier into a CPU from slot 0, in one transfer.

    >>> from orlop import CPU, BlockDeviceCarrier
    >>> from orlop.carriers import move
    >>> move.dispatch_move(BlockDeviceCarrier, CPU) is move.BlockDeviceToCpuMoveOperation
    True
    """

    def __init__(self) -> None: ...

    def backward(self, gradient: Tensor) -> tuple:
        """
        The cotangent, moved back by the route that was kept at the forward call.
        """

    source_class: TypeAlias = BlockDeviceCarrier

    destination_class: TypeAlias = CPU

class CpuToMetalMoveOperation(MoveOperation):
    """
    Copies the span of a CPU into a Metal carrier from slot 0.

    >>> from orlop import CPU, Metal
    >>> from orlop.carriers import move
    >>> move.dispatch_move(CPU, Metal) is move.CpuToMetalMoveOperation
    True
    """

    def __init__(self) -> None: ...

    def backward(self, gradient: Tensor) -> tuple:
        """
        The cotangent, moved back by the route that was kept at the forward call.
        """

    source_class: TypeAlias = CPU

    destination_class: str = 'Metal'

class MetalToCpuMoveOperation(MoveOperation):
    """
    Copies the span of a Metal carrier into a CPU from slot 0.

    >>> from orlop import CPU, Metal
    >>> from orlop.carriers import move
    >>> move.dispatch_move(Metal, CPU) is move.MetalToCpuMoveOperation
    True
    """

    def __init__(self) -> None: ...

    def backward(self, gradient: Tensor) -> tuple:
        """
        The cotangent, moved back by the route that was kept at the forward call.
        """

    source_class: str = 'Metal'

    destination_class: TypeAlias = CPU

class MetalToMetalMoveOperation(MoveOperation):
    """
    Copies the span of a Metal carrier into another one.

    >>> from orlop import Metal
    >>> from orlop.carriers import move
    >>> move.dispatch_move(Metal, Metal) is move.MetalToMetalMoveOperation
    True
    """

    def __init__(self) -> None: ...

    def backward(self, gradient: Tensor) -> tuple:
        """
        The cotangent, moved back by the route that was kept at the forward call.
        """

    source_class: str = 'Metal'

    destination_class: str = 'Metal'

def move(tensor: Tensor, destination: Carrier) -> Tensor:
    """
    Moves `tensor` to the carrier `destination` and releases its own: the result has the same layout at
    offset 0. The destination must be live, mutable, of the same dtype and large enough, or empty and able to
    grow. Where gradients are recorded they are moved back the same way. A failed move leaves the source
    as it was (S403, S406).

    >>> from orlop import DType, FileBacked, friendly
    >>> moved = orlop.move(friendly.arange(3), FileBacked(dtype=DType.Float32))
    >>> type(moved.carrier).__name__, friendly.to_list(moved)
    ('FileBacked', [0.0, 1.0, 2.0])
    """

def move_async(tensor: Tensor, destination: Carrier) -> AwaitMove:
    """
    Starts to move `tensor` to the carrier `destination` and returns the handle: its wait() gives what move()
    returns. Checks are done at once and raise here; what fails later is raised by wait(). Until the move has
    ended both carriers are owned by it: they can be read, not written, moved or released.

    >>> from orlop import CPU, friendly
    >>> handle = orlop.move_async(friendly.arange(3), CPU(3))
    >>> friendly.to_list(handle.wait())
    [0.0, 1.0, 2.0]
    """

def register_move_operation(source_class: type[Carrier], destination_class: type[Carrier], operation_class: object) -> None:
    """
    Makes `operation_class` the route of the exact pair; ValueError where the pair has one.

    >>> from orlop import CPU, Generic
    >>> from orlop.carriers import move
    >>> class Counting(move.MoveOperation):
    ...     def _copy(self, tensor, destination, output, element_count): ...
    >>> move.register_move_operation(Generic, CPU, Counting)
    >>> move.unregister_move_operation(Generic, CPU) is Counting
    True
    """

def unregister_move_operation(source_class: type[Carrier], destination_class: type[Carrier]) -> object:
    """
    Takes the route of the exact pair away and returns its class; KeyError.

    >>> from orlop import CPU, Generic
    >>> from orlop.carriers.move import unregister_move_operation
    >>> unregister_move_operation(Generic, CPU)
    Traceback (most recent call last):
        ...
    KeyError: '[unregister_move_operation] no move operation is registered for (Generic, CPU); ...
    """

def dispatch_move(source_class: type[Carrier], destination_class: type[Carrier]) -> object:
    """
    The class that moves the exact pair: its entry, or the elementwise one. TypeError for what is no
    Carrier class.

    >>> from orlop import CPU, FileBacked, Generic
    >>> from orlop.carriers.move import dispatch_move
    >>> dispatch_move(CPU, FileBacked).__name__, dispatch_move(CPU, Generic).__name__
    ('CpuToFileBackedMoveOperation', 'ElementwiseMoveOperation')
    """

class AwaitResult:
    """
    The handle of work that goes on in the background, created by the framework.

    Dropping it neither blocks nor cancels. There is no await, no cancel and no timeout.

    >>> from orlop import CPU, friendly
    >>> from orlop.carriers.move import AwaitResult
    >>> handle = orlop.move_async(friendly.arange(3), CPU(3))
    >>> isinstance(handle, AwaitResult), handle.wait() is handle.wait()
    (True, True)
    """

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def done(self) -> bool:
        """Whether the work has ended, well or not; never waits."""

    def wait(self) -> object:
        """
        Returns the result, or raises what the work failed with: the identical object on every call and
        thread. Work that has not started runs here. An interrupt (KeyboardInterrupt) ends the wait, not the work.
        """

@final
class AwaitMove(AwaitResult):
    """
    The handle of a move: wait() returns the moved Tensor. Until then both carriers are owned by the move.

    >>> from orlop import CPU, friendly
    >>> handle = orlop.move_async(friendly.arange(3), CPU(3))
    >>> friendly.to_list(handle.wait())
    [0.0, 1.0, 2.0]
    """

    def __init__(self, *args, **kwargs) -> None: ...

    def wait(self) -> Tensor:
        """As AwaitResult.wait: the result, or what the work failed with."""

@final
class Evictable(DependentCarrier):
    """
    Evictable(primary, secondary)

    A two-tier hierarchy: the values live in `primary`, or, evicted, in `secondary`. It owns both tiers, two live
    unowned carriers of one dtype; the secondary must be mutable, the primary hold at least one slot (S301).
    Errors: TypeError for tiers of other kinds or of two dtypes; ValueError for one object twice or an empty primary;
    RuntimeError for tiers that are released, owned or immutable.

    >>> from orlop import CPU, DType, Evictable, FileBacked
    >>> carrier = Evictable(CPU(3), FileBacked(dtype=DType.Float32))
    >>> carrier.evict()
    >>> carrier.is_evicted(), carrier.primary.size(), carrier.secondary.size()
    (True, 0, 3)
    >>> carrier.promote()
    >>> carrier.is_evicted(), carrier[2]
    (False, 0.0)
    """

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def primary(self) -> Carrier:
        """The primary tier as it is now."""

    @property
    def secondary(self) -> Carrier:
        """The secondary tier as it is now."""

    def is_evicted(self) -> bool:
        """Whether the values are in the secondary."""

    def evict(self) -> None:
        """
        Moves the values to the secondary and releases the primary; nothing where they are there already.
        """

    def promote(self) -> None:
        """Moves the values back to the primary."""

    def scatter(self, to_scatter: Tensor, scatter_onto: Tensor, mapping: Layout, mapping_offset: int = 0) -> None:
        """
        Writes the logical values of a Tensor through a mapping into the promoted primary.

        >>> from orlop import CPU, Evictable, Tensor, friendly
        >>> onto = Tensor(Evictable(CPU(2), CPU(0)), 0, friendly.column_major(2))
        >>> values = Tensor(Evictable(friendly.ones(2).carrier, CPU(0)), 0, friendly.column_major(2))
        >>> onto.carrier.scatter(values, onto, onto.layout)
        >>> friendly.to_list(onto)
        [1.0, 1.0]
        """

    @classmethod
    def __init_subclass__(cls, **kwargs) -> None: ...

@final
class EvictableOperation(Operation):
    """
    EvictableOperation(primary_operation)

    Runs the operation that a promoted primary dispatched on Evictable Tensors, once, and restores the result and
    the gradients to hierarchies of the same tier classes (S310).

    >>> from orlop import CPU, DType, Evictable, FileBacked
    >>> carrier = Evictable(CPU(3), FileBacked(dtype=DType.Float32))
    >>> type(carrier.dispatch_op("relu")).__name__
    'EvictableOperation'
    """

    def __init__(self, primary_operation: object) -> None: ...

    @property
    def primary_operation(self) -> Operation:
        """The nested operation."""
