"""The command grammar and the functions that take a command (M701-M708)."""

import contextlib
import dataclasses
import math
import pickle
import threading

import numpy as np
import pytest
from arrays import array, canonical, carrier_of, leaf_index, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

import orlop
from orlop import CPU, DType, Generic, Layout, Node, Shape, Stride, Tensor, Tree, einops, no_grad
from orlop.einops import Token, TokenKind

LEAF = Node.Leaf
IDS = [Node.id(number) for number in range(8)]


def counting(*extents):
    return tensor(np.arange(math.prod(extents), dtype=np.float32).reshape(extents))


def nested(shape, strides, size, kind=CPU):
    return Tensor(carrier_of(np.arange(size, dtype=np.float32), kind), 0, Layout(Shape(*shape), Stride(*strides)))


# --- The grammar -------------------------------------------------------------------------------------------------


def test_the_module_exports_the_grammar():
    assert set(einops.__all__) == {
        "EinsumSpec", "LayoutReference", "RearrangeSpec", "ReduceSpec", "Token", "TokenKind", "einsum", "lex",
        "parse_einsum", "parse_layout_ref", "parse_rearrange", "parse_reduce", "rearrange", "reduce",
    }  # fmt: skip
    assert orlop.einsum is einops.einsum
    assert not hasattr(orlop, "reduce")


def test_lex_gives_frozen_tokens_with_their_places():
    assert einops.lex(" h1\t(1)->,\v\f") == [
        Token(TokenKind.symbol, "h1", 1, 3),
        Token(TokenKind.left_paren, "(", 4, 5),
        Token(TokenKind.one, "1", 5, 6),
        Token(TokenKind.right_paren, ")", 6, 7),
        Token(TokenKind.arrow, "->", 7, 9),
        Token(TokenKind.comma, ",", 9, 10),
    ]
    (token,) = einops.lex("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        token.value = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        token.other = "b"
    assert hash(token) == hash(Token(TokenKind.symbol, "a", 0, 1))
    assert einops.lex("") == []


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("aé", "Layout command must contain only ASCII characters at offset 1"),
        ("日 ->", "Layout command must contain only ASCII characters at offset 0"),
        ("a \ud800", "Layout command must contain only ASCII characters at offset 2"),
        ("a -", "Expected '->' arrow token at offset 2"),
        ("a - > b", "Expected '->' arrow token at offset 2"),
        ("a >", "Unexpected '>' at offset 2"),
        ("11", "Invalid singleton token at offset 0"),
        ("1_", "Invalid singleton token at offset 0"),
        ("2", "Invalid dimension symbol at offset 0"),
        ("a + b", "Unexpected character at offset 2"),
        ("a\0", "Unexpected character at offset 1"),
    ],
)
def test_lex_names_what_is_no_word(command, text):
    for compiler in (einops.lex, einops.parse_rearrange, einops.parse_reduce, einops.parse_einsum):
        with pytest.raises(ValueError) as caught:
            compiler(command)
        assert str(caught.value).endswith(text)


@pytest.mark.parametrize(
    ("compiler", "command", "text"),
    [
        (einops.parse_rearrange, "a b", "Rearrange command must contain one '->' arrow"),
        (einops.parse_rearrange, "a -> a -> a", "Rearrange command must contain only one '->' arrow"),
        (einops.parse_rearrange, "-> a", "Layout reference must not be empty"),
        (einops.parse_rearrange, "a ->", "Layout reference must not be empty"),
        (einops.parse_rearrange, "a ( -> a", "Layout reference must not be empty"),
        (einops.parse_rearrange, "a () -> a", "Empty parenthesized group at offset 3"),
        (einops.parse_rearrange, "a ) -> a", "Unmatched right parenthesis at offset 2"),
        (einops.parse_rearrange, "(a (b -> a", "Unclosed left parenthesis at offset 3"),
        (einops.parse_rearrange, "a, b -> a", "Commas are not valid in layout references at offset 1"),
        (einops.parse_rearrange, "a (b a) -> a", "Duplicate dimension symbol 'a' at offset 5"),
        (einops.parse_rearrange, "a -> a b", "Unknown dimension symbol 'b' at offset 7"),
        (einops.parse_rearrange, "ab c -> ab ab", "Duplicate output dimension symbol 'ab' at offset 11"),
        (einops.parse_reduce, "a", "Reduce command must contain one '->' arrow"),
        (einops.parse_reduce, "a -> a -> a", "Reduce command must contain only one '->' arrow"),
        (einops.parse_reduce, "a b -> (b a)", "Reduce command must omit at least one dimension"),
        (einops.parse_einsum, "a, a", "Einsum command must contain one '->' arrow"),
        (einops.parse_einsum, "a, a -> a -> a", "Einsum command must contain only one '->' arrow"),
        (einops.parse_einsum, "a -> a", "Contraction command must contain one comma before '->'"),
        (einops.parse_einsum, "a, a, a -> a", "Contraction command must contain only one comma before '->'"),
        (einops.parse_einsum, "a, b -> )", "Contraction command must include at least one shared dimension"),
        (einops.parse_einsum, "p q, r q -> p, r", "Commas are not valid in layout references at offset 13"),
        (einops.parse_einsum, "d q c, q -> q", "Einsum output must include every non-shared input symbol: c, d"),
    ],
)
def test_compilers_name_what_is_wrong(compiler, command, text):
    for _ in range(2):  # failures are not remembered as anything else
        with pytest.raises(ValueError) as caught:
            compiler(command)
        assert str(caught.value).endswith(text)


@pytest.mark.parametrize(
    "compiler", [einops.lex, einops.parse_rearrange, einops.parse_reduce, einops.parse_einsum]
)
@pytest.mark.parametrize("command", [None, 3, b"a -> a", ["a"]])
def test_commands_must_be_strings(compiler, command):
    with pytest.raises(TypeError, match="command must be a str"):
        compiler(command)


def test_parse_layout_ref_numbers_leaves_from_the_left():
    reference = einops.parse_layout_ref(einops.lex("m (1 n) k"))
    assert reference.tree == Tree(LEAF, Tree(LEAF, LEAF), LEAF)
    assert reference.symbol_ids == (("m", 0), ("n", 2), ("k", 3))
    assert einops.parse_layout_ref(iter(einops.lex("m (1 n) k"))) == reference
    for tokens in (3, None, ["m"], [Token("symbol", "m", 0, 1)]):
        with pytest.raises(TypeError):
            einops.parse_layout_ref(tokens)
    arrow = einops.lex("a -> b")
    with pytest.raises(ValueError, match="Arrows are not valid in layout references at offset 2"):
        einops.parse_layout_ref(arrow)


def test_specs_have_the_parts_of_both_sides():
    spec = einops.parse_rearrange("a 1 (b c) -> (c a) 1 b")
    assert spec.selection == Tree(LEAF, LEAF, Tree(LEAF, LEAF))
    assert spec.output == Tree(Tree(IDS[3], IDS[0]), LEAF, IDS[2])
    assert spec.symbol_ids == (("a", 0), ("b", 2), ("c", 3))
    spec = einops.parse_reduce("m (p q) n -> m p")
    assert spec.reduced == Tree(IDS[2], IDS[3])
    assert spec.rearrange_output == Tree(Tree(IDS[0], IDS[1]), Tree(IDS[2], IDS[3]))
    spec = einops.parse_einsum("h i k, h j k -> h i j")
    assert (spec.union_symbols, spec.batch_symbols, spec.contraction_symbols) == (("h", "i", "k", "j"), ("h",), ("k",))
    assert spec.rhs_union_output == spec.rhs_rearrange_output == Tree(IDS[0], LEAF, IDS[2], IDS[1])
    spec = einops.parse_einsum("q, r q -> r")
    assert spec.lhs_rearrange_output == Tree(Tree(LEAF), Tree(IDS[0]))
    assert spec.matmul_output_selection == Tree(Tree(LEAF), Tree(LEAF))
    assert spec.output == Tree(IDS[1])
    assert pickle.loads(pickle.dumps(spec)) == spec
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.output = Tree()


def test_compilers_remember_what_they_compiled():
    for compiler, command in [
        (einops.parse_rearrange, "a b -> b a"),
        (einops.parse_reduce, "a b -> b"),
        (einops.parse_einsum, "a b, c b -> a c"),
    ]:
        found = []
        threads = [threading.Thread(target=lambda f=compiler, c=command: found.append(f(c))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(spec) for spec in found}) == 1
        assert compiler(type("Text", (str,), {})(command)) is found[0]
        assert compiler(command + " ") is not found[0]
    assert einops.parse_rearrange("b a -> b") is not einops.parse_reduce("b a -> b")


def test_deep_nests_are_refused():
    for depth in (64, 1000, 10**6):
        with pytest.raises(ValueError):
            einops.parse_rearrange("(" * depth + "a" + ")" * depth + " -> a")


# --- The functions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [einops.rearrange, orlop.rearrange])
def test_rearrange_is_a_view(function):
    source = nested((2, (3, 4)), (1, (2, 6)), 24)
    view = function(source, "a (b c) -> (c a) 1 b")
    assert view.layout == Layout(Shape((4, 2), 1, 3), Stride((6, 1), 0, 2))
    assert view.carrier is source.carrier
    with pytest.raises(ValueError, match="layout and tree profile do not match"):
        function(source, "a b c -> a b c")
    with pytest.raises(ValueError, match="Layout rearrange ids must include every extracted layout"):
        function(source, "a b -> b")


def test_rearrange_takes_a_command_or_trees_not_both():
    source = counting(2, 3)
    assert orlop.rearrange(source, Tree(IDS[1], IDS[0])).layout == orlop.rearrange(source, "a b -> b a").layout
    with pytest.raises(TypeError):
        orlop.rearrange(source, "a b -> b a", Tree(LEAF, LEAF))
    with pytest.raises(TypeError):
        orlop.rearrange(source, 3)


def test_reduce_sums_into_the_kept_shape():
    source = counting(3, 4)
    result = einops.reduce(source, "p q -> (q 1)")
    assert result.layout == Layout(Shape([(4, 1)]), Stride([(1, 4)]))
    np.testing.assert_array_equal(array(result)[:, 0], np.arange(12).reshape(3, 4).sum(0))
    assert einops.reduce(source, "p q -> 1").layout == Layout(Shape(1), Stride(1))
    wide = nested((4,), (1,), 4, Generic)
    for index, value in enumerate([2.0**24, 1.0, 1.0, -(2.0**24)]):
        wide.carrier[index] = value
    assert array(einops.reduce(wide, "k -> 1")).item() == 0.0
    assert array(einops.reduce(wide, "k -> 1", accumulator_dtype=DType.Float64)).item() == 2.0


def test_functions_report_the_command_before_the_operands():
    for function in (einops.rearrange, einops.reduce, orlop.rearrange):
        with pytest.raises(ValueError, match="arrow"):
            function(None, "a b")
        with pytest.raises(TypeError, match="tensor must be a Tensor"):
            function(None, "a b -> a")
    for function in (einops.rearrange, einops.reduce):
        with pytest.raises(TypeError, match="description must be a str"):
            function(counting(2), None)
    with pytest.raises(ValueError, match="Contraction command must contain one comma"):
        einops.einsum(None, None, "a -> a")
    with pytest.raises(TypeError, match="description must be a str"):
        einops.einsum(None, None, None)
    with pytest.raises(AttributeError, match="layout"):
        einops.einsum(3, counting(2), "a, a -> a")


def test_einsum_refuses_mismatched_operands():
    with pytest.raises(ValueError, match="Einsum shared dimension 'q' has mismatched logical size"):
        orlop.einsum(counting(2, 3), counting(2, 4), "p q, r q -> p r")
    with pytest.raises(ValueError, match="layout and tree profile do not match"):
        orlop.einsum(counting(2, 3), counting(3), "p q, r q -> p r")
    with pytest.raises(TypeError):
        orlop.einsum(counting(2, 3), nested((2, 3), (1, 2), 6, Generic), "p q, r q -> p r")


@pytest.mark.parametrize("grad_mode", [contextlib.nullcontext, no_grad])
@pytest.mark.parametrize(("nesting", "steps"), [((4, 1), (10, 40)), ((2, 2), (10, 20)), (4, 10)])
def test_einsum_of_a_batch_refuses_a_symbol_of_two_shapes(nesting, steps, grad_mode):
    lhs, rhs = nested((3, (1, 4), 5), (1, (3, 3), 12), 60), nested((2, 5, nesting), (1, 2, steps), 40)
    for description in ("i k b, j b k -> b i j", "i k b, j b k -> i k b j"):
        with grad_mode(), pytest.raises(ValueError, match="Einsum shared dimension 'k' has mismatched shape"):
            orlop.einsum(lhs, rhs, description)


def test_einsum_lets_a_symbol_stand_for_a_nested_mode():
    lhs, rhs = nested(((2, 2), 3), ((1, 2), 4), 12), counting(5, 3)
    flat = tensor(array(lhs).reshape(4, 3, order="F"))
    for description in ("i k, j k -> j i", "i k, j k -> k j i"):
        result = orlop.einsum(lhs, rhs, description)
        assert result.shape[-1] == (2, 2)
        expected = array(orlop.einsum(flat, rhs, description))
        np.testing.assert_array_equal(array(result).reshape(expected.shape, order="F"), expected)


def test_einsum_of_a_batch_lets_a_symbol_stand_for_a_nested_mode():
    lhs, rhs = nested(((2, 2), 3, 6), ((1, 2), 4, 12), 72), counting(5, 3, 6)
    flat = tensor(array(lhs).reshape(4, 3, 6, order="F"))
    for description in ("i k b, j k b -> b i j", "i k b, j k b -> i j b"):
        expected = array(orlop.einsum(flat, rhs, description))
        result = array(orlop.einsum(lhs, rhs, description))
        np.testing.assert_array_equal(result.reshape(expected.shape, order="F"), expected)


@st.composite
def contractions(draw):
    """(lhs symbols, rhs symbols, output symbols, extents)."""
    symbols = "abcde"
    places = {symbol: draw(st.sampled_from(["both", "left", "right", "neither"])) for symbol in symbols}
    places[draw(st.sampled_from(symbols))] = "both"
    shared = [symbol for symbol in symbols if places[symbol] == "both"]
    kept = draw(st.sets(st.sampled_from(shared)))
    free = {symbol for symbol in symbols if places[symbol] in ("left", "right")}
    sides = [[s for s in symbols if places[s] in ("both", side)] for side in ("left", "right")]
    lhs, rhs, output = (draw(st.permutations(sorted(part))) for part in (*sides, kept | free))
    return lhs, rhs, output, {symbol: draw(st.integers(1, 4)) for symbol in symbols}


@pytest.mark.parametrize("kind", [CPU, Generic])
@given(contractions(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_einsum_agrees_with_numpy(kind, contraction, random):
    lhs, rhs, output, extents = contraction
    values = [
        np.array([random.randint(-4, 4) for _ in range(math.prod(extents[s] for s in side))], np.float32).reshape(
            [extents[s] for s in side]
        )
        for side in (lhs, rhs)
    ]
    result = orlop.einsum(
        *(tensor(value, kind=kind) for value in values), f"{' '.join(lhs)}, {' '.join(rhs)} -> {' '.join(output) or 1}"
    )
    expected = np.einsum(f"{''.join(lhs)},{''.join(rhs)}->{''.join(output)}", *values)
    np.testing.assert_array_equal(array(result).reshape(expected.shape), expected)


@st.composite
def nestings(draw, extent):
    """A mode of so many elements, as one leaf or as two."""
    inner = draw(st.sampled_from([each for each in range(1, extent + 1) if extent % each == 0]))
    return draw(st.sampled_from([extent, (inner, extent // inner)]))


@given(contractions(), st.sampled_from([contextlib.nullcontext, no_grad]), st.data())
@settings(max_examples=150, deadline=None)
def test_einsum_of_nested_symbols_agrees_with_numpy_or_is_refused(contraction, grad_mode, data):
    *sides, output, extents = contraction
    usual = {symbol: data.draw(nestings(extent)) for symbol, extent in extents.items()}
    nests, operands, values = [], [], []
    for side in sides:
        own = {s: usual[s] if data.draw(st.integers(0, 3)) else data.draw(nestings(extents[s])) for s in side}
        leaves = [leaf for s in side for leaf in (own[s] if isinstance(own[s], tuple) else (own[s],))]
        steps = (math.prod(leaves[i + 1 :]) for i in range(len(leaves)))
        strides = [tuple(next(steps) for _ in m) if isinstance(m, tuple) else next(steps) for m in own.values()]
        layout = Layout(Shape(tuple(own.values())), Stride(tuple(strides)))  # one mode may be nested
        operand = Tensor(counting(math.prod(leaves)).carrier, 0, layout)
        nests.append(own)
        operands.append(operand)
        values.append(array(operand).reshape([extents[s] for s in side], order="F"))
    shared = set(sides[0]) & set(sides[1])
    command = f"{' '.join(sides[0])}, {' '.join(sides[1])} -> {' '.join(output) or 1}"
    with grad_mode():
        if shared & set(output) and any(nests[0][symbol] != nests[1][symbol] for symbol in shared):
            with pytest.raises(ValueError, match="mismatched shape"):
                orlop.einsum(*operands, command)
            return
        result = array(orlop.einsum(*operands, command))
    expected = np.einsum(f"{''.join(sides[0])},{''.join(sides[1])}->{''.join(output)}", *values)
    np.testing.assert_array_equal(result.reshape(expected.shape, order="F"), expected)


def graph_of(result):
    """The names of the operations below a result, from the result on."""
    names, pending = [], [result.autograd_ctx]
    while pending:
        node = pending.pop()
        if node is not None:
            names.append(node._operation_name)
            pending += [operand.autograd_ctx for operand in node.inputs()]
    return names


def test_einsum_records_only_views_products_and_sums():
    without = orlop.einsum(counting(2, 3), counting(4, 3), "p q, r q -> p r")
    assert graph_of(without) == ["rearrange", "matmul", "rearrange", "rearrange"]
    batch = orlop.einsum(counting(2, 3), counting(2, 3), "p q, p q -> p")
    assert graph_of(batch) == ["reduce_sum", "rearrange", "elementwise_mul", "rearrange", "rearrange"]
    product = orlop.einsum(counting(2, 3), counting(2, 3), "p q, p q -> q p")
    assert graph_of(product) == ["rearrange", "elementwise_mul", "rearrange", "rearrange"]


@pytest.mark.parametrize("kind", [CPU, Generic])
def test_einsum_of_a_batch_gives_one_layout_with_and_without_a_graph(kind):
    lhs, rhs = (nested((2, 3, 4), (1, 2, 6), 24, kind) for _ in range(2))
    for description in ("b i k, b j k -> b i j", "b i k, b j k -> j 1 i b"):
        recorded = orlop.einsum(lhs, rhs, description)
        assert graph_of(recorded) == ["reduce_sum", "rearrange", "elementwise_mul", "rearrange", "rearrange"]
        with no_grad(), orlop.profile() as profiler:
            result = orlop.einsum(lhs, rhs, description)
        assert "elementwise_mul" not in {event.name for event in profiler.events()}  # matrix by matrix
        assert result.autograd_ctx is None
        assert result.layout == recorded.layout == canonical(array(result).shape)
        np.testing.assert_array_equal(array(result), array(recorded))


@pytest.mark.parametrize(("batch", "rows"), [(1, 33), (3, 33), (7, 33), (20, 5), (20, 1)])
@pytest.mark.parametrize("order", ["bik", "ikb", "kib"])
@pytest.mark.parametrize("kinds", [(np.float32, np.float32), (np.int32, np.float32), (np.int32, np.int32)])
def test_einsum_of_a_batch_takes_operands_in_any_order_and_dtype(batch, rows, order, kinds):
    rng = np.random.default_rng(3)
    extents = {"b": batch, "i": rows, "j": 17, "k": 21}
    sides = order, order.replace("i", "j")
    values = [
        rng.integers(-9, 9, [extents[s] for s in side]).astype(kind) for side, kind in zip(sides, kinds, strict=True)
    ]
    for output in ("bij", "ijb", "jib"):
        expected = np.einsum(f"{sides[0]},{sides[1]}->{output}", *values)
        command = f"{' '.join(sides[0])}, {' '.join(sides[1])} -> {' '.join(output)}"
        with no_grad():
            result = orlop.einsum(*(tensor(value) for value in values), command)
        assert result.layout == canonical(expected.shape)
        np.testing.assert_array_equal(array(result), expected)


def test_einsum_of_a_batch_reads_repeated_elements():
    matrix = counting(3, 4)
    repeated = Tensor(matrix.carrier, 0, Layout(Shape(5, 3, 4), Stride(0, 1, 3)))
    other = counting(5, 2, 4)
    expected = np.einsum("ik,bjk->bij", array(matrix), array(other))
    with no_grad():
        result = orlop.einsum(repeated, other, "b i k, b j k -> b i j")
    np.testing.assert_array_equal(array(result), expected)


@pytest.mark.parametrize("mode", [no_grad, contextlib.nullcontext])
def test_einsum_of_a_batch_checks_every_product_of_integers(mode):
    lhs, rhs = (tensor(np.array(values, np.int32)) for values in ([[[2**30, 2**30]]], [[[4, -4]]]))
    with mode(), pytest.raises(OverflowError):
        orlop.einsum(lhs, rhs, "b i k, b j k -> b i j")


@pytest.mark.parametrize(
    "description",
    [
        "p q, r q -> r p",
        "p q, p q -> p",
        "p q, p r -> r p q",
        "p q, q r -> p 1 r",
        "p q s, p r s -> p q r",
        "s q p, r s p -> r 1 p q",
        "p q s, p s -> q p",
    ],
)
def test_gradients_of_einsum_agree_with_numpy(description):
    rng = np.random.default_rng(2)
    extents = {"p": 2, "q": 3, "r": 4, "s": 5}
    inputs, output = description.replace(" ", "").split("->")
    sides, letters = inputs.split(","), output.replace("1", "")
    values = [rng.standard_normal([extents[s] for s in side]).astype(np.float32) for side in sides]
    operands = [tensor(value) for value in values]
    result = orlop.einsum(*operands, description)
    cotangent = rng.standard_normal([extents[s] for s in letters]).astype(np.float32)
    slots = np.zeros(result.layout.cosize, np.float32)
    slots[leaf_index(result.layout)] = cotangent.reshape(array(result).shape)
    result.backward(Tensor(carrier_of(slots), 0, result.layout))
    for own, other in ((0, 1), (1, 0)):
        expected = np.einsum(f"{letters},{sides[other]}->{sides[own]}", cotangent, values[other])
        np.testing.assert_allclose(array(operands[own].grad), expected, rtol=1e-5, atol=1e-6)
