"""Commands that name dimensions: the grammar, what it compiles to, and the functions that take one (M701-M708).

>>> from orlop import CPU, Layout, Shape, Stride, Tensor
>>> tensor = Tensor(CPU(6), 0, Layout(Shape(2, 3), Stride(1, 2)))
>>> rearrange(tensor, "row column -> column row").layout
Layout( Shape<(3, 2)>, Stride<(2, 1)>)
>>> parse_reduce("m (p q) n -> m p").reduced
Tree(Node.id(2), Node.id(3))
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from orlop._core import _einops as _native
from orlop._core import einsum
from orlop.layout import Tree

__all__ = [
    "EinsumSpec",
    "LayoutReference",
    "RearrangeSpec",
    "ReduceSpec",
    "Token",
    "TokenKind",
    "einsum",
    "lex",
    "parse_einsum",
    "parse_layout_ref",
    "parse_rearrange",
    "parse_reduce",
    "rearrange",
    "reduce",
]

rearrange = _native.rearrange
reduce = _native.reduce

SymbolIds = tuple[tuple[str, int], ...]


class TokenKind(Enum):
    """What a word of a command is.

    >>> from orlop.einops import TokenKind, lex
    >>> [token.kind is TokenKind.symbol for token in lex("row -> 1")]
    [True, False, False]
    """

    left_paren = "left_paren"
    right_paren = "right_paren"
    arrow = "arrow"
    comma = "comma"
    one = "one"
    symbol = "symbol"


@dataclass(frozen=True)
class Token:
    """One word of a command: ``value`` is its text, at the characters from ``start`` up to ``end``.

    >>> from orlop.einops import lex
    >>> lex("a->a")[1]
    Token(kind=<TokenKind.arrow: 'arrow'>, value='->', start=1, end=3)
    """

    kind: TokenKind
    value: str
    start: int
    end: int


@dataclass(frozen=True)
class LayoutReference:
    """How a command names the modes of a layout: a leaf of ``tree`` for each symbol and each ``1``.

    ``symbol_ids`` are the pairs of a symbol and the number of its leaf.

    >>> from orlop.einops import lex, parse_layout_ref
    >>> reference = parse_layout_ref(lex("b (h w)"))
    >>> reference.tree, reference.symbol_ids
    (Tree(Node.Leaf, Tree(Node.Leaf, Node.Leaf)), (('b', 0), ('h', 1), ('w', 2)))
    """

    tree: Tree
    symbol_ids: SymbolIds


@dataclass(frozen=True)
class RearrangeSpec:
    """``Layout.rearrange(layout, output, selection)``.

    >>> from orlop.einops import parse_rearrange
    >>> spec = parse_rearrange("b (h w) -> h w b")
    >>> spec.selection, spec.output
    (Tree(Node.Leaf, Tree(Node.Leaf, Node.Leaf)), Tree(Node.id(1), Node.id(2), Node.id(0)))
    """

    selection: Tree
    output: Tree
    symbol_ids: SymbolIds


@dataclass(frozen=True)
class ReduceSpec:
    """``Layout.rearrange(layout, rearrange_output, selection)`` has the modes (kept, reduced).

    >>> from orlop.einops import parse_reduce
    >>> spec = parse_reduce("row column -> row")
    >>> spec.output, spec.reduced
    (Tree(Node.id(0)), Tree(Node.id(1)))
    """

    selection: Tree
    output: Tree
    reduced: Tree
    rearrange_output: Tree
    symbol_ids: SymbolIds


@dataclass(frozen=True)
class EinsumSpec:
    """A contraction: batch symbols are in both operands and kept, contraction symbols in both and summed (M705).

    Without a batch it is a matmul of two rearrangements, whose result ``output`` rearranges. With one it is a product
    over the union of all symbols.

    >>> from orlop.einops import parse_einsum
    >>> spec = parse_einsum("b i k, b j k -> b i j")
    >>> spec.batch_symbols, spec.contraction_symbols
    (('b',), ('k',))
    """

    lhs_selection: Tree
    rhs_selection: Tree
    lhs_rearrange_output: Tree
    rhs_rearrange_output: Tree
    matmul_output_selection: Tree
    output: Tree
    lhs_symbol_ids: SymbolIds
    rhs_symbol_ids: SymbolIds
    common_symbols: tuple[str, ...]
    union_symbols: tuple[str, ...]
    contraction_symbols: tuple[str, ...]
    batch_symbols: tuple[str, ...]
    lhs_union_output: Tree
    rhs_union_output: Tree
    union_selection: Tree
    general_output: Tree


def lex(command: str) -> list[Token]:
    """The words of a command. TypeError for another type; ValueError that names the offset of what is no word (M702).

    >>> [token.value for token in lex("a (b 1) -> b")]
    ['a', '(', 'b', '1', ')', '->', 'b']
    """
    return [Token(TokenKind(kind), *rest) for kind, *rest in _native.lex(command)]


def parse_layout_ref(tokens: Iterable[Token]) -> LayoutReference:
    """One side of a command, read as an input. TypeError for anything but Tokens; ValueError (M702).

    >>> from orlop.einops import lex, parse_layout_ref
    >>> parse_layout_ref(lex("b (h w)")).symbol_ids
    (('b', 0), ('h', 1), ('w', 2))
    >>> parse_layout_ref(lex("b ()"))
    Traceback (most recent call last):
        ...
    ValueError: [command] Empty parenthesized group at offset 3
    """
    try:
        entries = iter(tokens)
    except TypeError:
        raise TypeError(f"[parse_layout_ref] tokens must be iterable: got {type(tokens).__name__}") from None
    fields = []
    for token in entries:
        if not isinstance(token, Token):
            raise TypeError(f"[parse_layout_ref] every token must be a Token: got {type(token).__name__}")
        if not isinstance(token.kind, TokenKind):
            raise TypeError(f"[Token] kind must be a TokenKind: got {type(token.kind).__name__}")
        fields.append((token.kind.value, token.value, token.start, token.end))
    return LayoutReference(*_native.layout_reference_fields(fields))


_rearrangements: dict[str, RearrangeSpec] = {}
_reductions: dict[str, ReduceSpec] = {}
_contractions: dict[str, EinsumSpec] = {}


def _compiled(remembered, record, fields, command):
    # A command that compiled once gives the same record for good, whichever thread was first (M706).
    key = str.__str__(command) if isinstance(command, str) else None
    spec = remembered.get(key)
    if spec is None:
        spec = remembered.setdefault(key, record(*fields(command)))
    return spec


def parse_rearrange(command: str) -> RearrangeSpec:
    """Compiles a rearrangement: ``"b (h w) -> h w b"``. TypeError; ValueError (M702).

    >>> from orlop.einops import parse_rearrange
    >>> parse_rearrange("b (h w) -> h w b").output
    Tree(Node.id(1), Node.id(2), Node.id(0))
    >>> parse_rearrange("b h -> h w")
    Traceback (most recent call last):
        ...
    ValueError: [command] Unknown dimension symbol 'w' at offset 9
    """
    return _compiled(_rearrangements, RearrangeSpec, _native.rearrange_fields, command)


def parse_reduce(command: str) -> ReduceSpec:
    """Compiles a reduction, which omits dimensions: ``"row column -> row"``. TypeError; ValueError (M702).

    >>> from orlop.einops import parse_reduce
    >>> parse_reduce("row column -> row").reduced
    Tree(Node.id(1))
    >>> parse_reduce("row column -> column row")
    Traceback (most recent call last):
        ...
    ValueError: [command] Reduce command must omit at least one dimension
    """
    return _compiled(_reductions, ReduceSpec, _native.reduce_fields, command)


def parse_einsum(command: str) -> EinsumSpec:
    """Compiles a contraction: ``"i k, j k -> i j"``. TypeError; ValueError (M702).

    >>> from orlop.einops import parse_einsum
    >>> parse_einsum("i k, j k -> i j").contraction_symbols
    ('k',)
    >>> parse_einsum("i k, j k -> i")
    Traceback (most recent call last):
        ...
    ValueError: [command] Einsum output must include every non-shared input symbol: j
    """
    return _compiled(_contractions, EinsumSpec, _native.einsum_fields, command)
