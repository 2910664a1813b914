"""One function per operation name; the operation reference gives domains, values and gradients."""

from typing import NamedTuple

from orlop._core import (
    Tensor,
    _sort,
    _topk,
    abs,
    add,
    argmax,
    argmin,
    as_strided,
    broadcast_in_dim,
    broadcast_to,
    ceil,
    clamp,
    conv_general,
    cos,
    cumsum,
    div,
    einsum,
    elementwise_mul,
    elu,
    eq,
    erf,
    exp,
    exp2,
    floor,
    gather,
    ge,
    gelu,
    gt,
    le,
    leaky_relu,
    log,
    log2,
    logical_not,
    lt,
    matmul,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    permute,
    pow,
    rearrange,
    recip,
    reduce_max,
    reduce_min,
    reduce_prod,
    reduce_sum,
    relu,
    rem,
    reshape,
    round,
    rsqrt,
    scatter,
    scatter_add,
    select,
    sigmoid,
    sign,
    silu,
    sin,
    softplus,
    sqrt,
    squeeze,
    sub,
    tanh,
    unsqueeze,
)
from orlop._core._tiled import project

__all__ = [
    "SortResult",
    "TopKResult",
    "abs",
    "add",
    "argmax",
    "argmin",
    "as_strided",
    "broadcast_in_dim",
    "broadcast_to",
    "ceil",
    "clamp",
    "conv_general",
    "cos",
    "cumsum",
    "div",
    "einsum",
    "elementwise_mul",
    "elu",
    "eq",
    "erf",
    "exp",
    "exp2",
    "floor",
    "gather",
    "ge",
    "gelu",
    "gt",
    "le",
    "leaky_relu",
    "log",
    "log2",
    "logical_not",
    "lt",
    "matmul",
    "maximum",
    "minimum",
    "mul",
    "ne",
    "neg",
    "permute",
    "pow",
    "project",
    "rearrange",
    "recip",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "relu",
    "rem",
    "reshape",
    "round",
    "rsqrt",
    "scatter",
    "scatter_add",
    "select",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softplus",
    "sort",
    "sqrt",
    "squeeze",
    "sub",
    "tanh",
    "topk",
    "unsqueeze",
]


class SortResult(NamedTuple):
    """The ordered elements, and where each was along the axis, as Int32.

    >>> from orlop import friendly
    >>> values, indices = orlop.sort(friendly.tensor([3, 1, 2]))
    >>> friendly.to_list(values), friendly.to_list(indices)
    ([1.0, 2.0, 3.0], [1, 2, 0])
    """

    values: Tensor
    indices: Tensor


class TopKResult(NamedTuple):
    """The first elements in order, and where each was along the axis, as Int32.

    >>> from orlop import friendly
    >>> best = orlop.topk(friendly.tensor([3, 1, 2]), 2)
    >>> friendly.to_list(best.values), friendly.to_list(best.indices)
    ([3.0, 2.0], [0, 2])
    """

    values: Tensor
    indices: Tensor


def sort(tensor: Tensor, axis: int = -1, descending: bool = False) -> SortResult:
    """Orders the elements along a mode: two operations, the values first (P69).

    Equal elements keep their order either way. NaN is the greatest, all NaNs are equal, and so are both zeros.
    ValueError for a mode that there is not, OverflowError for one of more than 2**31 - 1 elements.

    >>> from orlop import friendly
    >>> values, indices = sort(friendly.tensor([3.0, 1.0, 2.0]))
    >>> friendly.to_list(values), friendly.to_list(indices)
    ([1.0, 2.0, 3.0], [1, 2, 0])
    """
    return SortResult(*_sort(tensor, axis, descending))


def topk(tensor: Tensor, k: int, axis: int = -1, largest: bool = True) -> TopKResult:
    """The first k elements of ``sort(tensor, axis, largest)``; the mode becomes one of extent k (P69).

    ValueError unless k is from 1 to the mode's size.

    >>> from orlop import friendly
    >>> friendly.to_list(topk(friendly.tensor([3.0, 1.0, 2.0]), 2).values)
    [3.0, 2.0]
    """
    return TopKResult(*_topk(tensor, k, axis, largest))
