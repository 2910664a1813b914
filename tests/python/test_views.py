"""Zero-copy views and tensor keys from Python: index models, every error, compound tensors, gradients."""

import itertools
import math

import orlop
import pytest
from hypothesis import given
from hypothesis import strategies as st
from orlop import CPU, Carrier, DType, Layout, Node, Shape, Stride, Tensor, Tree, functional, no_grad
from orlop.carriers.dtype import CompoundDType
from orlop.core._representation import Subtensor, TensorRepresentation
from orlop.operation import Operation, table_operation

VIEWS = ["as_strided", "broadcast_in_dim", "broadcast_to", "permute", "rearrange", "reshape", "squeeze", "unsqueeze"]


def layout(shape, stride):
    return Layout(Shape(shape), Stride(stride))


def counting(placement, offset=0, dtype=DType.Float32):
    """A tensor whose every slot holds its own number."""
    return Tensor(CPU(1).new_like(range(offset + placement.cosize), dtype=dtype), offset, placement)


def values(tensor):
    return [tensor[i] for i in range(tensor.size())]


class Index:
    """An integer by protocol only."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


# --- Strategies -----------------------------------------------------------------------------------


@st.composite
def layouts(draw, depth=2, max_rank=3):
    """Nested layouts of small extents and any small strides."""

    def mode(level):
        if level == 0 or draw(st.integers(0, 3)) > 0:
            return draw(st.integers(1, 4)), draw(st.integers(0, 9))
        modes = [mode(level - 1) for _ in range(draw(st.integers(1, 2)))]
        return [m[0] for m in modes], [m[1] for m in modes]

    modes = [mode(depth - 1) for _ in range(draw(st.integers(0, max_rank)))]
    return Layout(Shape([m[0] for m in modes]), Stride([m[1] for m in modes]))


def mode_sizes(placement):
    return [math.prod(flat(extent)) for extent in placement.shape.top_level]


def flat(nest):
    return [leaf for item in nest for leaf in flat(item)] if isinstance(nest, tuple) else [nest]


def injective(placement):
    """The canonical layout of the same shape."""
    strides, step = [], 1

    def compact(nest):
        nonlocal step
        if isinstance(nest, tuple):
            return [compact(item) for item in nest]
        stride, step = step, step * nest
        return stride

    strides = [compact(item) for item in placement.shape.top_level]
    return Layout(placement.shape, Stride(strides))


# --- Elements (M404) ------------------------------------------------------------------------------


def test_an_element_is_found_by_ordinal_and_by_nested_coordinate():
    tensor = counting(layout([3, [2, 4]], [2, [7, 20]]), offset=5)
    assert tensor[2, [1, 3]] == tensor[2, (1, 3)] == tensor[[2, 7]] == tensor[2 + 3 * 7] == 5 + 4 + 7 + 60
    assert tensor[Index(1), 0] == 7.0
    tensor[2, 7] = -1
    assert tensor[23] == -1.0
    assert tensor.version == 1


@pytest.mark.parametrize("key", ["a", 1.0, None, True, (0, False), (0, "a"), [0, [1.0]], {0}, b"a"])
def test_a_key_of_another_type_is_a_type_error(key):
    tensor = counting(layout([3, [2, 4]], [2, [7, 20]]))
    with pytest.raises(TypeError):
        tensor[key]
    with pytest.raises(TypeError):
        tensor[key] = 0.0
    assert tensor.version == 0


@pytest.mark.parametrize(
    ("key", "what_fits"),
    [
        (24, "24 in Shape<(3, (2, 4))>; an ordinal goes from 0 to 23"),
        ((3, 0), "(3, 0) in Shape<(3, (2, 4))>; mode 0 goes from 0 to 2"),
        ((0, -1), "mode 1 goes from 0 to 7"),
        ((0, (1, 4)), "mode 1 is Shape<(2, 4)>"),
        (((0,), 0), "mode 0 is Shape<(3,)>"),
        ((0, 0, 0), "use an entry for each of its 2 modes, or one ordinal"),
    ],
)
def test_a_refused_key_is_told_which_mode_takes_what(key, what_fits):
    with pytest.raises(ValueError) as refusal:
        counting(layout([3, [2, 4]], [2, [7, 20]]))[key]
    assert str(refusal.value).endswith(what_fits)


@pytest.mark.parametrize("key", [-1, 24, (3, 0), (0, -1), (0, 0, 0), (0,), (), (0, (1,)), ((0, 0), 0), 2**63, -(2**70), (0, 2**64)])
def test_a_key_outside_the_shape_is_a_value_error(key):
    tensor = counting(layout([3, [2, 4]], [2, [7, 20]]))
    with pytest.raises(ValueError, match="Key is not in domain of shape"):
        tensor[key]
    with pytest.raises(ValueError, match="Key is not in domain of shape"):
        tensor[key] = 0.0
    assert tensor.version == 0


def test_slices_are_not_assigned():
    tensor = counting(layout([4], [1]))
    for key in (slice(0, 1), [slice(0, 1)], ((0, slice(None)),)):
        with pytest.raises(TypeError, match="slice"):
            tensor[key] = 1.0


def test_keys_that_hold_themselves_end_in_an_error():
    tensor = counting(layout([4], [1]))
    deep = []
    deep.append(deep)
    wide = [0]
    for _ in range(50):
        wide = [wide, wide]
    for key in (deep, wide):
        with pytest.raises(ValueError):
            tensor[key]
        with pytest.raises(ValueError):
            tensor[key] = 1.0


def test_errors_of_the_index_protocol_pass():
    tensor = counting(layout([4, 2], [1, 4]))
    broken = Index(ZeroDivisionError("broken"))
    for key in (broken, (0, broken), (broken, slice(None)), (slice(broken, None), 0), (slice(None, None, broken), 0)):
        with pytest.raises(ZeroDivisionError, match="broken"):
            tensor[key]


# --- Slices (M502) --------------------------------------------------------------------------------


def test_a_slice_is_a_view_that_writes_through():
    tensor = counting(layout([6, 8], [1, 6]))
    view = tensor[3, 2:8:3]
    assert view.layout == layout([2], [18])
    assert view.offset == 15
    assert view.carrier is tensor.carrier
    assert view.autograd_ctx._operation_name == "view"
    view[1] = -5
    assert tensor[3, 5] == -5.0
    assert tensor.version == view.version == 1


@st.composite
def sliced(draw):
    """A layout, one key per mode, and the kept ordinals of each mode."""
    placement = draw(layouts())
    keys, kept = [], []
    for extent, size in zip(placement.shape.top_level, mode_sizes(placement), strict=True):
        if draw(st.booleans()):
            index = draw(st.integers(0, size - 1))
            keys.append(index)
            kept.append([index])
        elif isinstance(extent, tuple):
            keys.append(draw(st.sampled_from([slice(None), slice(None, None, 1)])))
            kept.append(list(range(size)))
        else:
            bound = st.none() | st.integers(-size - 2, size + 2)
            keys.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, size + 1))))
            kept.append(list(range(*keys[-1].indices(size))))
    return placement, tuple(keys), kept


@given(sliced(), st.integers(0, 3))
def test_slices_agree_with_an_index_model(case, offset):
    placement, keys, kept = case
    tensor = counting(placement, offset)
    if not any(isinstance(key, slice) for key in keys):
        assert tensor[keys] == offset + placement(list(keys))
        return
    for size, key, chosen in zip(mode_sizes(placement), keys, kept, strict=True):
        if isinstance(key, slice):
            start, stop, step = key.indices(size)
            message = "non-empty" if not chosen else "divisible by its step" if (stop - start) % step else None
            if message:
                with pytest.raises(ValueError, match=message):
                    tensor[keys]
                return
    # The first mode runs fastest.
    expected = [offset + placement(list(reversed(chosen))) for chosen in itertools.product(*reversed(kept))]
    view = tensor[keys]
    assert values(view) == expected
    assert view.carrier is tensor.carrier
    assert tensor.version == 0


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        ((slice(None),), ValueError, "exactly one key per top-level mode"),
        (slice(None), ValueError, "exactly one key per top-level mode"),
        ([slice(None), 0, slice(None)], ValueError, "exactly one key per top-level mode"),
        ((0, 0, slice(None), 0), ValueError, "exactly one key per top-level mode"),
        (("a", slice(None), 0), TypeError, "integer or slice"),
        ((True, slice(None), 0), TypeError, "integer or slice"),
        (((0,), slice(None), 0), TypeError, "integer or slice"),
        (([slice(None)], 0, 0), TypeError, "integer or slice"),
        ((6, "a", slice(None)), ValueError, "out of domain"),
        ((-1, slice(None), 0), ValueError, "out of domain"),
        ((2**64, slice(None), 0), ValueError, "out of domain"),
        ((slice(None, None, "a"), 0, 0), TypeError, "step of a slice must be an integer"),
        ((slice(None, None, True), 0, 0), TypeError, "step of a slice must be an integer"),
        ((slice("a", None, 0), 0, 0), ValueError, "positive step"),
        ((slice(None, None, -1), 0, 0), ValueError, "positive step"),
        ((slice(None, None, -(2**70)), 0, 0), ValueError, "positive step"),
        ((slice("a", None), 0, 0), TypeError, "slice indices must be integers"),
        ((slice(None, 1.5), 0, 0), TypeError, "slice indices must be integers"),
        ((slice(3, 3), 0, 0), ValueError, "non-empty"),
        ((slice(5, 2), 0, 0), ValueError, "non-empty"),
        ((slice(2**70, None), 0, 0), ValueError, "non-empty"),
        ((slice(0, 5, 2), 0, 0), ValueError, "divisible by its step"),
        ((slice(None, None, 2**70), 0, 0), ValueError, "divisible by its step"),
        ((0, 0, slice(0, None)), ValueError, "whole slices"),
        ((0, 0, slice("a", None)), ValueError, "whole slices"),
        ((0, 0, slice(None, None, 2)), ValueError, "whole slices"),
        ((0, 0, slice(None, None, True)), ValueError, "whole slices"),
        ((slice(None), 0, 6), ValueError, "out of domain"),
    ],
)
def test_a_slice_names_what_is_wrong_with_its_first_bad_key(key, error, words):
    tensor = counting(layout([6, 4, [2, 3]], [1, 6, [24, 48]]))
    with pytest.raises(error, match=words):
        tensor[key]


def test_bounds_of_a_slice_are_pythons():
    tensor = counting(layout([5], [1]))
    assert values(tensor[-(2**70) : 2**70]) == [0, 1, 2, 3, 4]
    assert values(tensor[Index(1) : Index(-1)]) == [1, 2, 3]
    assert values(tensor[:: Index(5)]) == [0]


# --- The view functions (M501, M503) --------------------------------------------------------------


def test_the_functions_stand_in_orlop_and_in_functional():
    for name in VIEWS:
        assert getattr(orlop, name) is getattr(functional, name)
        assert name in functional.__all__
        assert name in orlop.__all__


def test_every_function_first_wants_a_tensor():
    bad = object()
    for call in (
        lambda: orlop.as_strided(1, bad, bad),
        lambda: orlop.broadcast_in_dim(1, bad, bad),
        lambda: orlop.broadcast_to(1, bad),
        lambda: orlop.permute(1, bad),
        lambda: orlop.rearrange(1, bad, bad),
        lambda: orlop.reshape(1, bad),
        lambda: orlop.squeeze(1, bad),
        lambda: orlop.unsqueeze(1, bad),
    ):
        with pytest.raises(TypeError, match="tensor must be a Tensor"):
            call()


def test_wrong_argument_types_are_type_errors_before_any_value():
    tensor = counting(layout([2, 3], [1, 2]))
    tensor.carrier.release()
    for call in (
        lambda: orlop.as_strided(tensor, (6,), Stride(1)),
        lambda: orlop.as_strided(tensor, Shape(6), (1,)),
        lambda: orlop.broadcast_to(tensor, (2, 3)),
        lambda: orlop.broadcast_in_dim(tensor, (2, 3), (0, 1)),
        lambda: orlop.broadcast_in_dim(tensor, Shape(2, 3), 0),
        lambda: orlop.broadcast_in_dim(tensor, Shape(2, 3), (0, True)),
        lambda: orlop.broadcast_in_dim(tensor, Shape(2, 3), (0, "1")),
        lambda: orlop.permute(tensor, 0, "a"),
        lambda: orlop.permute(tensor, 0, True),
        lambda: orlop.permute(tensor, [0, 1.0]),
        lambda: orlop.permute(tensor, None),
        lambda: orlop.reshape(tensor, 6),
        lambda: orlop.squeeze(tensor, 0.0),
        lambda: orlop.squeeze(tensor, True),
        lambda: orlop.unsqueeze(tensor, "0"),
        lambda: orlop.rearrange(tensor, (1, 0)),
        lambda: orlop.rearrange(tensor, Tree(Node.id(0), Node.id(1)), (1, 1)),
    ):
        with pytest.raises(TypeError):
            call()


def test_a_released_carrier_has_no_views():
    tensor = counting(layout([1, 3], [1, 1]))
    tensor.carrier.release()
    for call in (
        lambda: orlop.as_strided(tensor, Shape(3), Stride(1)),
        lambda: orlop.broadcast_to(tensor, Shape(2, 3)),
        lambda: orlop.broadcast_in_dim(tensor, Shape(2, 3), (0, 1)),
        lambda: orlop.permute(tensor, 1, 0),
        lambda: orlop.rearrange(tensor, Tree(Node.id(1))),
        lambda: orlop.reshape(tensor, Shape(3)),
        lambda: orlop.squeeze(tensor, 0),
        lambda: orlop.unsqueeze(tensor, 0),
        lambda: tensor[:, :],
    ):
        with pytest.raises(RuntimeError, match="released"):
            call()


@given(layouts(), st.data())
def test_permute_reorders_whole_modes(placement, data):
    order = data.draw(st.permutations(range(len(placement.shape))))
    tensor = counting(placement)
    spellings = [orlop.permute(tensor, *order), orlop.permute(tensor, order), orlop.permute(tensor, iter(order))]
    sizes = mode_sizes(placement)
    inverse = [order.index(i) for i in range(len(order))]
    places = list(itertools.product(*(range(sizes[i]) for i in reversed(order))))
    expected = [placement([list(reversed(place))[inverse[i]] for i in range(len(order))]) for place in places]
    for view in spellings:
        assert view.layout == Layout.permute(placement, *order)
        assert values(view) == expected


@pytest.mark.parametrize("order", [(0,), (0, 0), (0, 2), (-1, 0), (0, 1, 2), (0, 2**70)])
def test_permute_wants_every_mode_once(order):
    with pytest.raises(ValueError, match="must reorder every layout mode|64 bits"):
        orlop.permute(counting(layout([2, 3], [1, 2])), *order)


def test_an_element_without_modes_takes_every_shape_of_one():
    scalar = counting(Layout(Shape(), Stride()))
    for shape in (Shape(), Shape(1), Shape(1, [1, 1])):
        view = orlop.reshape(scalar, shape)
        assert view.layout.shape == shape and values(view) == values(scalar)
        assert orlop.reshape(view, Shape()).layout == scalar.layout
    orlop.reshape(scalar, Shape(1)).backward()
    assert values(scalar.grad) == [1]


def test_reshape_needs_one_step():
    assert orlop.reshape(counting(layout([2, 4], [3, 6])), Shape(4, [2])).layout == layout([4, [2]], [3, [12]])
    with pytest.raises(ValueError, match="coalesces to one logical leaf"):
        orlop.reshape(counting(layout([3, 2], [1, 4])), Shape(6))
    with pytest.raises(ValueError, match="same logical size"):
        orlop.reshape(counting(layout([6], [1])), Shape(2**62, 2**62))


@given(layouts(), layouts())
def test_as_strided_composes_or_refuses(placement, selector):
    tensor = counting(placement)
    accepted = None
    try:
        accepted = orlop.as_strided(tensor, selector.shape, selector.stride)
    except ValueError as error:
        if not selector.is_injective:
            words = "mapping must be injective"
        elif selector.cosize > placement.size:
            words = "exceeds the input"
        elif "not representable" in str(error):
            words = "not representable"
            coalesced = Layout.coalesce(placement)
            assert len(coalesced.shape) > 1  # a constant step represents everything
        else:
            words = "composed placement must be injective"
            picked = [placement(selector(q)) for q in range(selector.size)]
            assert len(set(picked)) < len(picked)
        assert words in str(error)
    if accepted is not None:
        assert accepted.layout.shape == selector.shape
        assert values(accepted) == [placement(selector(q)) for q in range(selector.size)]


def test_as_strided_decides_at_once():
    tensor = counting(layout([3, 4], [4, 1]))
    assert orlop.as_strided(tensor, Shape(3, 2), Stride(1, 3)).layout == layout([3, 2], [4, 1])
    assert orlop.as_strided(tensor, Shape(3), Stride(4)).layout == layout([3], [5])
    for shape, stride, words in [
        (Shape(2, 2), Stride([[1, 2]]), "do not match in Structure"),
        (Shape(2, 2), Stride(0, 1), "mapping must be injective"),
        (Shape(10**9), Stride(0), "mapping must be injective"),
        (Shape(10**9, 10**9), Stride(1, 10**9), "exceeds the input"),
        (Shape(4), Stride(2), "not representable"),
    ]:
        with pytest.raises(ValueError, match=words):
            orlop.as_strided(tensor, shape, stride)


@given(layouts(), st.data())
def test_squeeze_undoes_unsqueeze(placement, data):
    rank = len(placement.shape)
    dim = data.draw(st.integers(-rank - 1, rank))
    tensor = counting(placement)
    wide = orlop.unsqueeze(tensor, dim)
    position = dim + rank + 1 if dim < 0 else dim
    extents = list(placement.shape.top_level)
    assert wide.layout.shape.top_level == tuple(extents[:position] + [1] + extents[position:])
    assert values(wide) == values(tensor)
    for back in (orlop.squeeze(wide, position), orlop.squeeze(wide, position - rank - 1)):
        assert back.layout == placement


@pytest.mark.parametrize("dim", [-4, 3, 2**64, -(2**64)])
def test_dims_out_of_range(dim):
    tensor = counting(layout([1, 2, [1]], [1, 1, [1]]))
    with pytest.raises(ValueError):
        orlop.squeeze(tensor, dim)
    with pytest.raises(ValueError):
        orlop.unsqueeze(tensor, dim + 1 if dim > 0 else dim - 1)


def test_squeeze_drops_only_unit_leaves():
    tensor = counting(layout([1, 2, [1]], [1, 1, [1]]))
    with pytest.raises(ValueError, match="extent 2"):
        orlop.squeeze(tensor, 1)
    with pytest.raises(ValueError, match="nested"):
        orlop.squeeze(tensor, 2)


def test_broadcasts_widen_unit_leaves():
    tensor = counting(layout([3, [1, 2]], [1, [9, 3]]))
    assert orlop.broadcast_to(tensor, Shape(3, [5, 2])).layout == layout([3, [5, 2]], [1, [0, 3]])
    with pytest.raises(ValueError, match="same shape profile"):
        orlop.broadcast_to(tensor, Shape(3, 1, 2))
    with pytest.raises(ValueError, match="can only widen an extent-1 leaf"):
        orlop.broadcast_to(tensor, Shape(6, [1, 2]))
    assert orlop.broadcast_in_dim(counting(layout([4], [1])), Shape(2, 4, 3), (1,)).layout == layout([2, 4, 3], [0, 1, 0])
    matrix = counting(layout([4, 3], [1, 4]))
    for positions, words in [
        ((1, 0), "strictly increasing"),
        ((), "one position per source mode"),
        ((0, 3), "out of range"),
        ((-2, 2), "out of range"),
        ((0, 2**70), "64 bits"),
    ]:
        with pytest.raises(ValueError, match=words):
            orlop.broadcast_in_dim(matrix, Shape(4, 3, 2), positions)


def test_rearrange_follows_trees():
    tensor = counting(layout([4, 5], [1, 4]))
    output = Tree(Node.id(1), Node.Leaf, Node.id(0))
    assert orlop.rearrange(tensor, output).layout == layout([5, 1, 4], [4, 0, 1])
    grouped = orlop.rearrange(tensor, Tree(Tree(Node.id(1), Node.id(0))), Tree(1, 1))
    assert grouped.layout == layout([[5, 4]], [[4, 1]])
    assert orlop.rearrange(tensor, output, None).layout == orlop.rearrange(tensor, output, selection=None).layout
    with pytest.raises(ValueError, match="must include every extracted layout"):
        orlop.rearrange(tensor, Tree(Node.id(0)))
    with pytest.raises(ValueError, match="tree profile do not match"):
        orlop.rearrange(tensor, output, Tree(1))


# --- Dispatch -------------------------------------------------------------------------------------


def test_forward_takes_what_python_writes():
    tensor = counting(layout([2, 3], [1, 2]))

    def forward(name, *arguments):
        return tensor.carrier.dispatch_op(name).forward(tensor, *arguments).layout

    assert forward("view", (1, slice(None))) == forward("view", [1, slice(0, 3)]) == layout([3], [2])
    assert forward("view", (1, 2)) == Layout.empty()
    assert forward("permute", 1, 0) == forward("permute", (1, 0)) == layout([3, 2], [2, 1])
    assert forward("reshape", Shape(6)) == layout([6], [1])
    assert forward("as_strided", Shape(2), Stride(3)) == layout([2], [3])
    assert forward("unsqueeze", 0) == layout([1, 2, 3], [0, 1, 2])
    assert forward("broadcast_to", Shape(2, 3)) == tensor.layout
    swapped = Tree(Node.id(1), Node.id(0))
    assert forward("rearrange", swapped) == forward("rearrange", swapped, None) == layout([3, 2], [2, 1])
    line = tensor[0, :]
    assert line.carrier.dispatch_op("view").forward(line, 2).layout == Layout.empty()
    assert line.carrier.dispatch_op("view").forward(line, slice(1, None)).layout == layout([2], [2])
    for name, *arguments in [
        ("view",),
        ("view", 0.5),
        ("view", (0, "a")),
        ("view", (True, 0)),
        ("view", 0, 0),
        ("permute", "ab"),
        ("permute", 0, slice(1)),
        ("reshape", (6,)),
        ("squeeze", None),
        ("rearrange", None),
        ("rearrange", swapped, 0),
    ]:
        with pytest.raises(TypeError):
            forward(name, *arguments)


class Shelf(Carrier):
    """Values of any dtype in a list; it remembers what it was asked to do."""

    def __init__(self, content, dtype=DType.Float32):
        super().__init__()
        self.content, self.kind, self.asked = list(content), dtype, []

    def size(self):
        return len(self.content)

    def dtype(self):
        return self.kind

    def get_value(self, index):
        return self.content[index]

    def set_value(self, index, value):
        self.content[index] = value

    def new_like(self, values, *, mutable=True, dtype=None):
        return Shelf(values, dtype or self.kind)

    def allocate_like(self, size, *, mutable=True, dtype=None, empty=False):
        return Shelf([0.0] * size, dtype or self.kind)

    def scatter(self, to_scatter, scatter_onto, mapping, mapping_offset=0):
        raise NotImplementedError

    def _dispatch_op(self, operation_name):
        self.asked.append(operation_name)
        return table_operation(operation_name)


def test_a_carrier_in_python_offers_views():
    tensor = Tensor(Shelf(range(6)), 0, layout([2, 3], [1, 2]))
    assert values(tensor[1, 1:]) == [3, 5]
    assert values(orlop.permute(tensor, 1, 0)) == [0, 2, 4, 1, 3, 5]
    assert values(orlop.broadcast_in_dim(tensor[0, :], Shape(2, 3), (1,))) == [0, 0, 2, 2, 4, 4]
    assert tensor.carrier.asked == ["view", "permute", "view", "unsqueeze", "broadcast_to"]


def test_an_operation_in_python_sees_keys_and_orders():
    seen = []

    class Recording(Operation):
        def _forward(self, tensor, *arguments):
            seen.append(arguments)
            return tensor

    class Recorder(Shelf):
        def _dispatch_op(self, operation_name):
            return Recording()

    with no_grad():
        tensor = Tensor(Recorder(range(6)), 0, layout([2, 3], [1, 2]))
        assert tensor[1, 1:] is tensor
        orlop.permute(tensor, [1, 0])
        orlop.rearrange(tensor, Tree(Node.id(1), Node.id(0)))
        orlop.reshape(tensor, Shape(6))
    assert seen == [((1, slice(1, None)),), (1, 0), (Tree(Node.id(1), Node.id(0)),), (Shape(6),)]


# --- Compound tensors (M406–M409) -----------------------------------------------------------------


class Pair(CompoundDType, abstract=False):
    def __init__(self, name):
        super().__init__(name, simple_types=(DType.Float32, DType.Float32))


PAIR = Pair("TestViewsPair")


def subtensor(placement, kind=DType.Float32, carrier=None, offset=0):
    return Subtensor(kind, carrier or CPU(1).new_like(range(offset + placement.cosize)), offset, placement)


def pair(placement, adjacent, deeper):
    return Tensor._from_representation(TensorRepresentation(PAIR, (subtensor(placement), subtensor(deeper)), (adjacent,)))


def test_views_of_two_subtensors_keep_carriers_deeper_layouts_and_token():
    tensor = pair(layout([1, 4], [4, 1]), layout([1, 4], [0, 1]), layout([4], [1]))
    before = tensor._representation
    token = tensor._version_token()
    assert token == before._version_token()
    assert len(token) == 2
    for view, placement, adjacent in [
        (orlop.unsqueeze(tensor, 2), layout([1, 4, 1], [4, 1, 0]), layout([1, 4, 1], [0, 1, 0])),
        (orlop.broadcast_to(tensor, Shape(3, 4)), layout([3, 4], [0, 1]), layout([3, 4], [0, 1])),
        (orlop.squeeze(tensor, 0), layout([4], [1]), layout([4], [1])),
        (orlop.permute(tensor, 1, 0), layout([4, 1], [1, 4]), layout([4, 1], [1, 0])),
        (orlop.reshape(tensor, Shape(2, 2)), layout([2, 2], [1, 2]), layout([2, 2], [1, 2])),
        (orlop.as_strided(tensor, Shape(2), Stride(2)), layout([2], [2]), layout([2], [2])),
        (tensor[0, :2], layout([2], [1]), layout([2], [1])),
        (tensor[:, 0], layout([1], [4]), layout([1], [0])),
    ]:
        after = view._representation
        assert view.dtype() is PAIR
        assert after.logical_dtype is PAIR
        assert after.primary == Subtensor(DType.Float32, before.primary.carrier, 0, placement)
        assert after.subtensors[1] == before.subtensors[1]
        assert after.adjacent_layouts == (adjacent,)
        assert view._version_token() == token
        assert view.autograd_ctx is None


def test_everything_else_refuses_two_subtensors_before_any_effect():
    tensor = pair(layout([2, 4], [1, 2]), layout([2, 4], [1, 2]), layout([8], [1]))

    def write():
        tensor[0, 0] = 1.0

    for call, words in [
        (lambda: tensor[0, 0], "Multi-subtensor Tensor indexing"),
        (write, "Multi-subtensor Tensor mutation"),
        (lambda: tensor + tensor, "Multi-subtensor Tensor operation execution"),
        (lambda: orlop.rearrange(tensor, Tree(Node.id(0), Node.id(1))), "Multi-subtensor Tensor operation execution"),
        (lambda: tensor.backward(), "Multi-subtensor Tensor backward"),
        (lambda: tensor[:, 1:], "normalized start 0"),
        (lambda: tensor[1, :], "normalized start 0"),
        (lambda: tensor._require_single_subtensor("a test"), "Multi-subtensor Tensor a test"),
    ]:
        with pytest.raises(NotImplementedError, match=words):
            call()
    assert [version for _, version in tensor._version_token()] == [0, 0]
    assert not tensor.is_mutable()


def nvfp4(blocks=None, **changes):
    planes = {
        "elements": subtensor(layout([16, 2], [1, 16]), DType.E2M1, Shelf(range(32), DType.E2M1)),
        "scales": subtensor(layout([2], [1]), DType.E4M3, Shelf(range(2), DType.E4M3)),
        "whole": subtensor(layout([1], [1]), DType.Float32, Shelf(range(1))),
        **changes,
    }
    blocks = blocks or layout([16, 2], [0, 1])
    return TensorRepresentation(DType.NVFP4, planes.values(), [blocks, layout([2], [0])])


def test_nvfp4_planes_are_accepted_and_viewed_within_their_rules():
    tensor = Tensor._from_representation(nvfp4())
    assert tensor.size() == 32
    assert tensor.dtype() is DType.NVFP4
    view = orlop.permute(tensor, 1, 0)
    assert view._representation.adjacent_layouts == (layout([2, 16], [1, 0]), layout([2], [0]))
    for call in (lambda: tensor[:, :1], lambda: orlop.broadcast_to(orlop.unsqueeze(tensor, 0), Shape(2, 16, 2))):
        with pytest.raises(ValueError, match="NVFP4 LevelExtent rule at level 0"):
            call()


def test_a_representation_names_its_first_fault():
    class Sibling(Shelf):
        pass

    good = nvfp4()
    elements, scales, whole = good.subtensors
    adjacent = good.adjacent_layouts

    def build(*arguments):
        return lambda: TensorRepresentation(*arguments)

    released = Shelf(range(2), DType.E4M3)
    released.release()
    for call, error, words in [
        (build(DType.NVFP4, 1, adjacent), TypeError, "iterable"),
        (build(DType.NVFP4, good.subtensors, 1), TypeError, "iterable"),
        (build("NVFP4", good.subtensors, adjacent), TypeError, "logical dtype must be a DType"),
        (build(DType.NVFP4, (elements, scales, 1), adjacent), TypeError, "Subtensor records"),
        (build(DType.Integer, (whole,)), ValueError, "abstract dtype category"),
        (build(DType.NVFP4, (elements, scales), adjacent), ValueError, "requires 3 subtensors"),
        (build(DType.NVFP4, good.subtensors, adjacent[:1]), ValueError, "requires 2 adjacent layouts"),
        (build(DType.Float32, (Subtensor("E2M1", None, -1, None),)), TypeError, "dtype must be a DType"),
        (build(DType.Int32, (Subtensor(DType.Bool, None, -1, None),)), ValueError, "subtensor 0 must use storage dtype"),
        (build(DType.Int32, (Subtensor(DType.Int32, None, -1, None),)), TypeError, "must be a Carrier"),
        (build(DType.Int32, (Subtensor(DType.Int32, CPU(1), -1, None),)), ValueError, "carrier dtype must be identical"),
        (build(DType.Float32, (Subtensor(DType.Float32, CPU(1), "0", None),)), TypeError, "offset must be an integer"),
        (build(DType.Float32, (Subtensor(DType.Float32, CPU(1), -1, None),)), ValueError, "must be non-negative"),
        (build(DType.Float32, (Subtensor(DType.Float32, CPU(1), 2, None),)), TypeError, "placement must be a Layout"),
        (build(DType.Float32, (subtensor(layout([2], [1]), carrier=CPU(1)),)), ValueError, "exceeds carrier size"),
        (lambda: nvfp4(scales=Subtensor(DType.E4M3, released, 0, scales.layout)), RuntimeError, "released"),
        (
            lambda: nvfp4(scales=Subtensor(DType.E4M3, Sibling(range(2), DType.E4M3), 0, scales.layout)),
            TypeError,
            "one exact class",
        ),
        (build(DType.NVFP4, good.subtensors, (adjacent[0], 1)), TypeError, "must be a Layout"),
        (lambda: nvfp4(layout([2, 16], [1, 0])), ValueError, "source placement shape"),
        (lambda: nvfp4(layout([16, 2], [0, 2])), ValueError, "outside level 1 shape cardinality 2"),
        (lambda: nvfp4(layout([16, 2], [1, 0])), ValueError, "outside level 1 shape cardinality 2"),
        (lambda: nvfp4(layout([16, 2], [0, 0])), ValueError, "NVFP4 LevelExtent rule at level 0"),
    ]:
        with pytest.raises(error, match=words):
            call()


def test_representations_are_frozen_values():
    carrier = CPU(3)
    plane = Subtensor(DType.Float32, carrier, 1, layout([2], [1]))
    representation = TensorRepresentation(DType.Float32, [plane])
    assert representation.subtensors == (plane,)
    assert representation.adjacent_layouts == ()
    assert representation.primary is plane
    assert representation.is_single_subtensor
    with pytest.raises(AttributeError):
        plane.offset = 0
    with pytest.raises(AttributeError):
        representation.subtensors = ()
    tensor = Tensor._from_representation(representation)
    assert (tensor.carrier, tensor.offset, tensor.layout) == (carrier, 1, layout([2], [1]))
    assert tensor._representation == representation
    tensor[0] = 1.0
    assert representation._version_token() == tensor._version_token()
    assert [version for _, version in tensor._version_token()] == [1]
    with pytest.raises(TypeError, match="must be a TensorRepresentation"):
        Tensor._from_representation(plane)


def test_a_shared_carrier_counts_once_in_the_token():
    carrier = CPU(8)
    planes = (subtensor(layout([4], [1]), carrier=carrier), subtensor(layout([4], [1]), carrier=carrier, offset=4))
    representation = TensorRepresentation(PAIR, planes, (layout([4], [1]),))
    assert len(representation._version_token()) == 1
    assert Tensor._from_representation(representation)._version_token() == representation._version_token()


class Triple(CompoundDType, abstract=False):
    def __init__(self, name):
        super().__init__(name, simple_types=(DType.Float32,) * 3)


def test_deeper_planes_on_one_carrier_count_once_too():
    first, shared = CPU(4), CPU(8)
    planes = [subtensor(layout([4], [1]), carrier=first)]
    planes += [subtensor(layout([4], [1]), carrier=shared, offset=offset) for offset in (0, 4)]
    edges = (layout([4], [1]), layout([4], [1]))
    tensor = Tensor._from_representation(TensorRepresentation(Triple("TestViewsTriple"), planes, edges))
    shared[0] = 1.0
    assert [version for _, version in tensor._version_token()] == [0, 1]


def test_a_rule_in_python_sees_the_layouts_and_its_exception_passes():
    from orlop.carriers.dtype import RepresentationRule

    class Refusal(Exception):
        pass

    class SameSize(RepresentationRule):
        def validate(self, context):
            seen.append(context)
            first, second = context.level_shapes
            if first.size != second.size:
                raise Refusal("sizes differ")

    class Ruled(CompoundDType, abstract=False):
        def __init__(self, name):
            super().__init__(name, simple_types=(DType.Float32, DType.Float32), representation_rules=(SameSize(),))

    seen = []
    ruled = Ruled("TestViewsRuled")
    placement, adjacent = layout([4], [2]), layout([4], [1])
    representation = TensorRepresentation(ruled, (subtensor(placement), subtensor(layout([2, 2], [1, 2]))), (adjacent,))
    (context,) = seen
    assert context.logical_dtype is ruled
    assert context.storage_dtypes == (DType.Float32, DType.Float32)
    assert context.placement_layouts == (placement, layout([2, 2], [1, 2]))
    assert context.adjacent_layouts == (adjacent,)
    assert context.level_shapes == (Shape(4), Shape(2, 2))
    tensor = Tensor._from_representation(representation)
    with pytest.raises(Refusal, match="sizes differ"):
        tensor[:2]


# --- Gradients (M504) -----------------------------------------------------------------------------


def cotangent_for(view):
    """1, 2, 3 … in ordinal order, in a layout that the view accepts."""
    placement = view.layout if view.layout.is_injective else injective(view.layout)
    tensor = Tensor(CPU(placement.cosize), 0, placement)
    for i in range(tensor.size()):
        tensor[i] = i + 1
    return tensor


@st.composite
def view_of(draw, tensor):
    """A view of `tensor` that repeats no element."""
    placement = tensor.layout
    rank = len(placement.shape)
    sizes = mode_sizes(placement)
    leaves = [not isinstance(extent, tuple) for extent in placement.shape.top_level]
    kind = draw(st.sampled_from(["permute", "unsqueeze", "view", "rearrange", "reshape", "as_strided"]))
    if kind == "permute":
        return orlop.permute(tensor, draw(st.permutations(range(rank))))
    if kind == "unsqueeze":
        return orlop.unsqueeze(tensor, draw(st.integers(-rank - 1, rank)))
    if kind == "view" and rank > 0:
        keys = []
        for size, leaf in zip(sizes, leaves, strict=True):
            if draw(st.booleans()):
                start = draw(st.integers(0, size - 1)) if leaf else None
                keys.append(slice(start, None))
            else:
                keys.append(draw(st.integers(0, size - 1)))
        return tensor[tuple(keys)] if any(isinstance(key, slice) for key in keys) else orlop.unsqueeze(tensor, 0)
    if kind == "reshape" and len(Layout.coalesce(placement).shape) == 1:
        return orlop.reshape(tensor, Shape([tensor.size(), 1]))
    if kind == "as_strided" and tensor.size() > 1:
        return orlop.as_strided(tensor, Shape(2), Stride(draw(st.integers(1, tensor.size() - 1))))
    count = len(flat(placement.shape.top_level))
    return orlop.rearrange(tensor, Tree(*(Node.id(i) for i in draw(st.permutations(range(count)))), Node.Leaf))


@given(layouts(), st.integers(0, 2), st.data())
def test_gradients_of_chained_views_land_on_the_slots_they_came_from(placement, offset, data):
    if not placement.is_injective:
        placement = injective(placement)
    source = counting(placement, offset)
    view = source
    for _ in range(data.draw(st.integers(1, 3))):
        view = data.draw(view_of(view))
    cotangent = cotangent_for(view)
    by_slot = {view.offset + view.layout(i): i + 1 for i in range(view.size())}
    view.backward(cotangent)
    assert source.grad.layout == placement
    assert source.grad.autograd_ctx is None
    assert values(source.grad) == [by_slot.get(offset + placement(i), 0) for i in range(source.size())]


def test_a_slice_has_gradient_zero_elsewhere():
    tensor = counting(layout([2, 3], [1, 2]))
    view = tensor[1, :2]
    view.backward(cotangent_for(view))
    assert values(tensor.grad) == [0, 1, 0, 2, 0, 0]


def test_what_is_broadcast_has_the_sum_as_gradient():
    tensor = counting(layout([3], [1]))
    view = orlop.broadcast_in_dim(tensor, Shape(2, 3), (1,))
    view.backward(cotangent_for(view))
    assert values(tensor.grad) == [3, 7, 11]
    assert tensor.grad.layout == tensor.layout


@given(layouts(), st.data())
def test_gradients_through_repeated_elements_are_summed_per_slot(placement, data):
    source = counting(injective(placement))
    shape = [data.draw(st.integers(1, 3)), *placement.shape.top_level]
    wide = orlop.broadcast_to(orlop.unsqueeze(source, 0), Shape(shape))
    view = orlop.permute(wide, data.draw(st.permutations(range(len(shape)))))
    expected = [0] * source.size()
    for i in range(view.size()):
        expected[view.layout(i)] += i + 1
    view.backward(cotangent_for(view))
    assert values(source.grad) == expected


def test_a_source_that_repeats_elements_gets_a_compact_gradient_of_sums():
    tensor = counting(layout([2, 3], [0, 1]))
    view = orlop.permute(tensor, 1, 0)
    view.backward(cotangent_for(view))
    assert tensor.grad.layout == layout([2, 3], [1, 2])
    assert values(tensor.grad) == [1 + 4, 1 + 4, 2 + 5, 2 + 5, 3 + 6, 3 + 6]
    # The producer of such a tensor receives what the view received, not yet summed.
    (gradient,) = orlop.unsqueeze(tensor, 0).autograd_ctx.backward(counting(layout([1, 2, 3], [0, 1, 2])))
    assert gradient.layout == layout([2, 3], [1, 2])
    assert values(gradient) == [0, 1, 2, 3, 4, 5]


def test_a_source_that_shares_slots_otherwise_has_no_gradient():
    tensor = counting(layout([3, 2], [1, 1]))
    view = tensor[:, 0]
    with pytest.raises(ValueError, match="share slots"):
        view.backward(cotangent_for(view))
    assert tensor.grad is None


def test_a_cotangent_of_another_layout_or_type_is_refused():
    tensor = counting(layout([2, 3], [1, 2]))
    view = orlop.permute(tensor, 1, 0)
    with pytest.raises(ValueError, match="layout"):
        view.backward(counting(layout([3, 2], [1, 3])))
    with pytest.raises(TypeError):
        view.autograd_ctx.backward(1.0)
    with pytest.raises(TypeError, match="dtype"):
        view.autograd_ctx.backward(counting(view.layout, dtype=DType.Int32))
    with pytest.raises(ValueError):
        view.backward()
    assert tensor.grad is None
    single = tensor[1:2, 0]
    single.backward()
    assert values(tensor.grad) == [0, 1, 0, 0, 0, 0]


def test_a_source_mutated_since_is_found_first():
    tensor = counting(layout([2, 3], [1, 2]))
    view = tensor[0, :]
    cotangent = cotangent_for(view)
    tensor[0, 0] = 9.0
    with pytest.raises(RuntimeError, match="modified"):
        view.backward(cotangent)
    with pytest.raises(RuntimeError, match="modified"):
        view.autograd_ctx.backward(counting(layout([7], [1])))
    assert tensor.grad is None


def test_a_view_made_without_recording_is_a_leaf():
    tensor = counting(layout([2, 3], [1, 2]))
    with no_grad():
        view = tensor[0, :]
    assert view.autograd_ctx is None
    view.backward(cotangent_for(view))
    assert tensor.grad is None
    assert values(view.grad) == [1, 2, 3]
