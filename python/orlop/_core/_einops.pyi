import orlop._core


def lex(command: object | None) -> list: ...

def layout_reference_fields(tokens: list) -> tuple: ...

def rearrange_fields(command: object | None) -> tuple: ...

def reduce_fields(command: object | None) -> tuple: ...

def einsum_fields(command: object | None) -> tuple: ...

def rearrange(tensor: object | None, description: object | None) -> orlop._core.Tensor:
    """
    The view that the description spells: `rearrange(t, "b (h w) -> h w b")` (M707).
    """

def reduce(tensor: object | None, description: object | None, *, accumulator_dtype: object | None = None) -> orlop._core.Tensor:
    """
    The sum over the dimensions that the description leaves out, as reduce_sum gives it (M707).
    """
