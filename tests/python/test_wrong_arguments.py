"""Every function of tensors refuses a wrong type with its own words: ``[what] what was wrong: …``."""

import inspect
import os
import re

import numpy as np
import pytest
from arrays import floats, ints, tensor

import orlop
from orlop import (
    CPU,
    DType,
    FileBacked,
    Layout,
    MoveOperation,
    Node,
    Shape,
    Stride,
    Tensor,
    Tree,
    einops,
    friendly,
    functional,
    nn,
    operation,
    view,
)
from orlop.carriers.dtype import accepts_storage_dtype

PATTERN = r"^\[[^\]]+\] .+"
TENSORS = ["lhs", "rhs", "tensor", "base", "exponent", "lower", "upper", "on_true", "on_false", "updates"]


def matrix():
    return tensor(np.ones((1, 2), np.float32))


# Arguments that fit, by parameter; those of a function that needs others by its name first.
FITTING = {
    **dict.fromkeys(TENSORS, matrix),
    "condition": lambda: tensor(np.ones((1, 2), np.bool_)),
    "indices": lambda: ints(0),
    "axis": lambda: 0,
    "dim": lambda: 0,
    "dimension": lambda: 0,
    "k": lambda: 1,
    "descending": lambda: False,
    "largest": lambda: True,
    "description": lambda: "row column -> row",
    "output": lambda: Tree(Node.id(1), Node.id(0)),
    "shape": lambda: Shape(2),
    "target": lambda: Shape(3, 2),
    "broadcast_dimensions": lambda: [0, 1],
    "kernel": lambda: tensor(np.ones((1, 1, 2), np.float32)),
    "strides": lambda: [1],
    "padding": lambda: [(0, 0)],
    ("conv_general", "lhs"): lambda: tensor(np.ones((1, 1, 3), np.float32)),
    ("as_strided", "stride"): lambda: Stride(1),
    ("einsum", "description"): lambda: "i k, j k -> i j",
    ("rearrange", "description"): lambda: "row column -> column row",
}
# Where a list or a str is no wrong type.
TAKES_LISTS = {"shape", "target", "broadcast_dimensions", "strides"}
TAKES_STRINGS = {"description", "output"}


def parameters_of(function):
    """The positional parameters, but for `selection`, which may be None."""
    if inspect.isfunction(function):
        return list(inspect.signature(function).parameters)
    inside = re.search(r"\((.*)\) ->", function.__nb_signature__[0][0])[1]
    names = [part.split(":")[0].strip() for part in inside.split(", ")]
    positional = names[: names.index("*") if "*" in names else None]
    return [name for name in positional if not name.startswith("*") and name != "selection"]


FUNCTIONS = {
    **{
        f"orlop.{name}": function
        for name, function in vars(functional).items()
        # project has its own test: its errors come in an order.
        if name in functional.__all__ and not isinstance(function, type) and name != "project"
    },
    "einops.rearrange": einops.rearrange,
    "einops.reduce": einops.reduce,
}
CASES = [
    (called, parameter)
    for called, function in FUNCTIONS.items()
    for parameter in parameters_of(function)
]


@pytest.mark.parametrize(("called", "parameter"), CASES)
def test_a_wrong_type_is_refused_in_our_words(called, parameter):
    function, name = FUNCTIONS[called], called.split(".")[1]
    fitting = {each: FITTING.get((name, each)) or FITTING[each] for each in parameters_of(function)}
    wrong = [None, object(), 1j]
    wrong += [] if parameter in TAKES_STRINGS else ["a"]
    wrong += [] if parameter in TAKES_LISTS else [[1, 2]]
    for value in wrong:
        arguments = {each: make() for each, make in fitting.items()}
        arguments[parameter] = value
        # M707: an operand of einsum is first asked for its layout.
        kind = AttributeError if name == "einsum" and parameter != "description" else TypeError
        with pytest.raises(kind, match=PATTERN if kind is TypeError else "layout"):
            function(*arguments.values())


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES} - {"orlop.einsum"}))
def test_nothing_at_all_is_refused_in_our_words(name):
    function = FUNCTIONS[name]
    with pytest.raises(TypeError, match=PATTERN):
        function(*[None] * len(parameters_of(function)))


@pytest.mark.parametrize("function", [friendly.sum, friendly.mean, friendly.item, friendly.to_list])
def test_friendly_functions_ask_for_an_attribute_first(function):
    for value in (None, 1, "a"):
        with pytest.raises(AttributeError, match="layout|size"):
            function(value)


def test_friendly_factories_refuse_none_in_our_words():
    for call in [
        lambda: friendly.tensor(None),
        lambda: friendly.arange(None),
        lambda: friendly.zeros(None),
        lambda: friendly.ones(2, None),
        lambda: friendly.full(None, value=1),
        lambda: friendly.full(2, value=None),
        lambda: friendly.row_major(None),
        lambda: friendly.tensor(None, layout=floats(1).layout),
    ]:
        with pytest.raises((TypeError, ValueError), match=PATTERN):
            call()


@pytest.mark.parametrize("call", [lambda: orlop.permute(matrix(), None), lambda: orlop.permute(None, 0, 1)])
def test_permute_refuses_none_in_our_words(call):
    with pytest.raises(TypeError, match=PATTERN):
        call()


@pytest.mark.parametrize(("value", "type_name"), [("x", "str"), (None, "NoneType"), (1j, "complex")])
def test_a_refused_operand_is_named_by_its_type(value, type_name):
    for call in (lambda: functional.add(matrix(), value), lambda: functional.clamp(matrix(), value, 1.0)):
        with pytest.raises(TypeError, match=f"real number: got {type_name}"):
            call()


def test_an_order_whose_iteration_fails_passes_its_own_error_on():
    class Order:
        def __iter__(self):
            raise ArithmeticError("mine")

    x = friendly.zeros(2, 3)
    for permute in (x.layout.permute, lambda order: functional.permute(x, order)):
        with pytest.raises(ArithmeticError, match="mine"):
            permute(Order())


@pytest.mark.parametrize("other", [None, "x", [1], object()])
def test_a_tensor_is_unequal_to_what_is_neither_a_tensor_nor_a_number(other):
    assert (matrix() == other) is False
    assert (matrix() != other) is True


# Python's own operators and keys of a Tensor, and its constructor; values a newcomer tries.
REFUSED_MEMBERS = {
    "None on the right": (lambda t: t + None, "must be a Tensor or a real number: got NoneType"),
    "None on the left": (lambda t: None * t, "must be a Tensor or a real number: got NoneType"),
    "compared with None": (lambda t: t < None, "must be a Tensor or a real number: got NoneType"),
    "power of None": (lambda t: t**None, "must be a Tensor or a real number: got NoneType"),
    "product with None": (lambda t: t @ None, "must be a Tensor: got NoneType"),
    "None as a key": (lambda t: t[None], "a key must be an integer"),
    "written at None": (lambda t: t.__setitem__(None, 1.0), "a key must be an integer"),
    "None written": (lambda t: t.__setitem__((0, 0), None), "must be a real number: got NoneType"),
    "slot None": (lambda t: t.carrier[None], "the index must be an integer: got NoneType"),
    "None in a slot": (lambda t: t.carrier.__setitem__(0, None), "must be a real number: got NoneType"),
    "a NumPy bool in a slot": (lambda t: tensor(np.ones(1, np.bool_)).carrier.__setitem__(0, np.True_), "numpy.bool"),
    "dispatch of None": (lambda t: t.carrier.dispatch_op(None), "operation_name must be a str: got NoneType"),
    "cotangents None": (lambda t: orlop.grad(t, [t], None), "cotangents must be a Tensor: got NoneType"),
    "recording None": (lambda t: orlop.set_grad_enabled(None), "enabled must be a bool: got NoneType"),
    "threads None": (lambda t: orlop.set_thread_count(None), "count must be an integer: got NoneType"),
    "DLPack of None": (lambda t: orlop.from_dlpack(None), "NoneType has no __dlpack__"),
    "buffer of None": (lambda t: orlop.from_buffer(None), "exports no buffer: got NoneType"),
    "mode None": (lambda t: t.layout.shape[None], "a mode's position must be an integer: got NoneType"),
    "coordinate None": (lambda t: t.layout.shape.encode(None), "a key must be an integer"),
    "ordinal None": (lambda t: t.layout.shape.decode(None), "ordinal must be an integer: got NoneType"),
    "a Tensor of values": (lambda t: orlop.Tensor([1, 2]), "carrier must be a Carrier: got list; friendly.tensor"),
    "a Tensor of nothing": (lambda t: orlop.Tensor(), "carrier must be a Carrier: got NoneType"),
    "no placement": (lambda t: orlop.Tensor(t.carrier, 0), "placement must be a Layout: got NoneType"),
    "an axis for a command": (lambda t: orlop.reduce_sum(t, 0), 'names their modes, as in "row column -> row"'),
}


@pytest.mark.parametrize("name", REFUSED_MEMBERS)
def test_members_refuse_in_our_words(name):
    call, words = REFUSED_MEMBERS[name]
    t = matrix()
    with pytest.raises(TypeError, match=PATTERN) as refused:
        call(t)
    assert words in str(refused.value)
    assert t.version == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones(2), 'ndarray of float64; convert it first, as in values.astype("float32")'),
        (np.float32(1.0), "float32 of float32 and no mode; put it in a list"),
        ([], "an empty list"),
        (3, "got int"),
    ],
)
def test_values_that_make_no_tensor_are_described(values, words):
    with pytest.raises(ValueError, match="non-empty list or tuple") as refused:
        friendly.tensor(values)
    assert words in str(refused.value)


# What Python itself would refuse in words of its own.
WRONG_KINDS = {
    "a path": (lambda: orlop.io.load_npy(None), "[load_npy] path must be a str, bytes or os.PathLike: got NoneType"),
    "a path of many": (lambda: orlop.io.load_safetensors(3), "[load_safetensors] path must be a str, bytes"),
    "a path of metadata": (lambda: orlop.io.safetensors_metadata(3), "[safetensors_metadata] path must be a str, bytes"),
    "a path to save at": (lambda: orlop.io.save_npy(None, matrix()), "[save_npy] path must be a str, bytes"),
    "a path to save many at": (lambda: orlop.io.save_safetensors(None, {}), "[save_safetensors] path must be a str"),
    "a path of a trace": (lambda: orlop.Profiler().export_chrome_trace(None), "[Profiler.export_chrome_trace] path"),
    "a path of a picture": (lambda: view.layout(matrix().layout).save(3), "[LayoutPicture.save] path must be a str"),
    "names": (lambda: orlop.io.load_safetensors("no file", 3), "[load_safetensors] names must be iterable: got int"),
    "texts": (
        lambda: orlop.io.save_safetensors("no file", {}, metadata=3),
        "[save_safetensors] metadata must be a mapping of texts to texts: got int",
    ),
    "a picture": (lambda: view.LayoutPicture(None), "must be a Layout or another IndexMap: got NoneType"),
    "groups": (lambda: view.Residency(None), "[Residency] groups must map names to carriers: got NoneType"),
    "dtypes": (lambda: accepts_storage_dtype(DType.Bool, None), "[accepts_storage_dtype] accepted must be iterable"),
    "tokens": (lambda: einops.parse_layout_ref(None), "[parse_layout_ref] tokens must be iterable: got NoneType"),
    "parameters": (lambda: nn.SGD(None, 0.1), "[SGD] parameters must be an iterable of Parameters: got NoneType"),
    "features": (lambda: nn.Linear(None, 2), "[Linear] in_features must be an integer: got NoneType"),
    "leaves": (lambda: Tree(1).reshape(3), "[Tree.reshape] items must be a finite iterable: got int"),
    "a leaf's number": (lambda: Node.id("a"), "[Node.id] the number must be an integer: got str"),
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_another_kind_of_argument_is_refused_in_our_words(name):
    call, words = WRONG_KINDS[name]
    with pytest.raises(TypeError, match=re.escape(words)):
        call()


def test_a_call_that_does_not_fit_shows_how_the_function_is_called():
    for call, signature in [
        (lambda: orlop.grad(matrix(), []), "grad(output: Tensor, inputs: Iterable[Tensor], cotangents: Tensor, *"),
        (lambda: orlop.from_dlpack(), "from_dlpack(x: object, /, *"),
        (lambda: orlop.from_buffer(), "from_buffer(exporter: object, /, *"),
        (lambda: einops.rearrange(matrix()), "rearrange(tensor: Tensor, description: str) -> Tensor"),
        (lambda: einops.reduce(matrix()), "reduce(tensor: Tensor, description: str, *, accumulator_dtype: DType | None"),
        (lambda: orlop.set_grad_enabled(), "set_grad_enabled(enabled: bool) -> None"),
        (lambda: orlop.set_thread_count(), "set_thread_count(count: int) -> None"),
    ]:
        with pytest.raises(TypeError, match=re.escape(signature)):
            call()


def test_extents_in_one_tuple_are_told_apart():
    with pytest.raises(ValueError, match=r"got tuple; give one argument for each mode, as in zeros\(2, 3\)"):
        friendly.zeros((2, 3))


@pytest.mark.parametrize(
    ("name", "place"),
    [("max", "orlop.reduce_max"), ("where", "orlop.select"), ("dot", "orlop.matmul"), ("transpose", "orlop.permute")],
)
def test_other_libraries_names_lead_to_ours(name, place):
    with pytest.raises(AttributeError) as missing:
        getattr(orlop, name)
    assert str(missing.value) == f"module 'orlop' has no attribute '{name}'; there is {place}"
    assert callable(eval(place, {"orlop": orlop}))  # noqa: S307


def test_a_placement_far_outside_is_a_value_error():
    t = matrix()
    with pytest.raises(ValueError, match=r"exceeds carrier size: offset 9223372036854775807 plus span 2"):
        orlop.Tensor(t.carrier, 2**63 - 1, t.layout)


def test_backwards_traversal_of_no_node_does_nothing():
    t = matrix()
    assert orlop.Tensor.backwards_traversal(t, None) is None
    assert orlop.Tensor.backwards_traversal(None, t.autograd_ctx) is None
    assert t.grad is None


def test_representations_show_where_the_values_are():
    t = matrix()
    assert repr(t.carrier) == "CPU(size=2, dtype=Float32, residency=resident, version=0)"
    t.carrier.release()
    assert repr(t).startswith("Tensor(released, ") and "residency=released" in repr(t)
    assert repr(t.carrier) == "CPU(size=0, dtype=Float32, residency=released, version=0)"


def test_only_a_tensor_of_one_mode_is_read_implicitly_in_either_direction():
    assert list(floats(3, 1, 2)) == [3.0, 1.0, 2.0]
    assert list(reversed(floats(3, 1, 2))) == [2.0, 1.0, 3.0]
    for read in (iter, reversed, list, sorted):
        with pytest.raises(TypeError, match="a Tensor of 2 modes is not iterated implicitly"):
            read(matrix())


def test_numpys_bool_is_a_scalar_of_operators_as_pythons_is():
    t = floats(2.0, 3.0)
    for scalar in (True, np.True_):
        assert friendly.to_list(t * scalar) == friendly.to_list(scalar * t) == [2.0, 3.0]
        assert friendly.to_list(t == scalar) == [False, False]
    assert friendly.to_list(t - np.False_) == [2.0, 3.0]


# --- Names that are no text, objects without their base, no memory ---------------------------------------------------


@pytest.mark.parametrize("name", ["a\ud800", "\udfff", "nobody's", "a\0", ""])
def test_a_name_that_nothing_has_is_unknown_whatever_is_in_it(name):
    carrier = floats(1.0).carrier
    for call in (carrier.dispatch_op, operation.table_operation):
        with pytest.raises(NotImplementedError, match=PATTERN):
            call(name)
    for call in (
        lambda: einops.einsum(matrix(), matrix(), name),
        lambda: orlop.rearrange(matrix(), name),
        lambda: CPU(1, **{name: 1}),
        lambda: operation.OperandSpec(name, operation.OperandKind.TENSOR),
        lambda: operation.operation_definition(name),
    ):
        with pytest.raises((TypeError, ValueError, LookupError), match=PATTERN) as caught:
            call()
        assert not isinstance(caught.value, UnicodeError)


@pytest.mark.filterwarnings("ignore:nanobind. attempted to access an uninitialized instance")
@pytest.mark.parametrize("base", [operation.Operation, MoveOperation])
def test_an_operation_without_its_base_constructor_says_so(base):
    class Forgetful(base):
        def __init__(self):
            self.ready = False

        def _forward(self, tensor, *rest):
            return tensor

    source = floats(1.0)
    for call in (
        lambda made: made.forward(source, source.carrier),
        lambda made: made._execute_lowered(source),
        lambda made: operation.execute_lowered_operation(made, source),
        lambda made: made.store_inputs(source),
        lambda made: made.inputs(),
        lambda made: made.ctx,
    ):
        with pytest.raises(TypeError, match=r"^\[Forgetful\] the object is not initialised: .*super\(\).__init__\(\)"):
            call(Forgetful())
    with pytest.raises(TypeError, match=PATTERN):
        base.forward(3, source)


@pytest.mark.skipif("ORLOP_SANITIZED" in os.environ, reason="AddressSanitizer ends the process where new has no memory")
def test_a_convolution_beyond_all_memory_says_so_in_our_words():
    def repeated(*extents):
        return Tensor(CPU(1), 0, Layout(Shape(*extents), Stride(*[0] * len(extents))))

    features = 1 << 40
    with pytest.raises(MemoryError, match=PATTERN):
        orlop.conv_general(repeated(1, features, 1), repeated(1, features, 1), [1], [(0, 0)])


@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_is_judged_before_the_carrier_is_asked_and_after_the_classes(axis):
    stored = Tensor(FileBacked(dtype=DType.Float32).new_like([1.0, 2.0]), 0, Layout(Shape(1, 2), Stride(1, 1)))
    places = Tensor(FileBacked(dtype=DType.Int32).new_like([0]), 0, Layout(Shape(1), Stride(1)))
    calls = {
        "cumsum": lambda: orlop.cumsum(stored, axis),
        "sort": lambda: orlop.sort(stored, axis),
        "topk": lambda: orlop.topk(stored, 1, axis),
        "gather": lambda: orlop.gather(stored, places, axis),
        "scatter": lambda: orlop.scatter(stored, places, stored, axis),
        "scatter_add": lambda: orlop.scatter_add(stored, places, stored, axis),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"^\[{name}\]"):
            call()
    with pytest.raises(TypeError, match="exact carrier class"):
        orlop.gather(stored, ints(0), axis)
    with pytest.raises(NotImplementedError, match="cumsum"):
        orlop.cumsum(stored, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x.carrier.dispatch_op("cumsum").forward("a", 0), "the first argument must be a Tensor: got str"),
        (lambda x: x.carrier.dispatch_op("cumsum").forward(x, None), "dimension must be an integer: got None"),
        (lambda x: x.carrier.dispatch_op("gather").forward(x, 3, 0), "takes 2 Tensors and an axis: got number for a"),
        (lambda x: x.carrier.dispatch_op("gather").forward(x, ints(0), "a"), "axis must be an integer: got str"),
        (lambda x: x.carrier.dispatch_op("matmul").forward(x, 2.0), "both operands must be Tensors: got number; use"),
        (lambda x: x.carrier.dispatch_op("permute").forward("a", 0), "tensor must be a Tensor: got str"),
        (lambda x: pow(x, 2, 3), "a modulus is not supported: got int; leave it out"),
    ],
)
def test_a_refusal_tells_what_was_given_and_what_is_allowed(call, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        call(floats(1.0))
