"""Every function of tensors refuses a wrong type with its own words: ``[what] what was wrong: …``."""

import inspect
import re

import numpy as np
import pytest
from arrays import floats, ints, tensor

import orlop
from orlop import Node, Shape, Stride, Tree, einops, friendly, functional

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
