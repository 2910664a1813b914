from orlop.carriers.dtype import DType
from orlop._core import Layout
from orlop._core import Shape
from orlop._core import Tensor
def lex(command: str) -> list: ...

def layout_reference_fields(tokens: list) -> tuple: ...

def rearrange_fields(command: str) -> tuple: ...

def reduce_fields(command: str) -> tuple: ...

def einsum_fields(command: str) -> tuple: ...

def rearrange(tensor: Tensor, description: str) -> Tensor:
    """
    The view that the description spells: `rearrange(t, "b (h w) -> h w b")` (M707). TypeError for no Tensor or no str,
    ValueError where the description is malformed or does not fit the modes.

    >>> from orlop import einops, friendly
    >>> einops.rearrange(friendly.zeros(2, 3), "row column -> column row").shape
    (3, 2)
    >>> einops.rearrange(friendly.zeros(2, 3), "row -> row")
    Traceback (most recent call last):
        ...
    ValueError: [Layout] layout and tree profile do not match: 1 named for the modes of Shape<(2, 3)>; ...
    """

def reduce(tensor: Tensor, description: str, *, accumulator_dtype: DType | None = None) -> Tensor:
    """
    The sum over the dimensions that the description leaves out, as reduce_sum gives it, with its
    accumulator_dtype and its errors (M707).

    >>> from orlop import einops, friendly
    >>> friendly.to_list(einops.reduce(friendly.tensor([[1, 2], [3, 4]]), "row column -> row"))
    [3.0, 7.0]
    """
