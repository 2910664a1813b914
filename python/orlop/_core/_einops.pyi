from orlop._core import Tensor
import orlop._core


def lex(command: str) -> list: ...

def layout_reference_fields(tokens: list) -> tuple: ...

def rearrange_fields(command: str) -> tuple: ...

def reduce_fields(command: str) -> tuple: ...

def einsum_fields(command: str) -> tuple: ...

def rearrange(tensor: Tensor, description: str) -> orlop._core.Tensor:
    """
    The view that the description spells: `rearrange(t, "b (h w) -> h w b")` (M707).
    """

def reduce(tensor: Tensor, description: str, *, accumulator_dtype: object | None = None) -> orlop._core.Tensor:
    """
    The sum over the dimensions that the description leaves out, as reduce_sum gives it (M707).
    """
