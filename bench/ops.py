"""Operations on CPU beside NumPy and, where they are installed, JAX, numexpr and PyTorch (Q101 to Q115).

The others get C-ordered arrays. Ours come in column-major order, which is canonical and what every result has, and
where order matters in row-major order too: such a row holds the transposition of the result that our rule asks for.
"""

import functools
from collections.abc import Callable, Sequence

import harness
import numpy

COLUMN_MAJOR, ROW_MAJOR = "column-major", "row-major"


# --- Each library's operands and the call to be timed -------------------------------------------------------


def orlop_tensor(array, order):
    import orlop
    from orlop import friendly

    dtype = orlop.DType.Float32 if array.dtype == numpy.float32 else orlop.DType.Int32
    if array.ndim < 2 or order == COLUMN_MAJOR:
        return friendly.tensor(array, dtype=dtype)
    modes = range(array.ndim)[::-1]
    transposed = numpy.ascontiguousarray(array.transpose(*modes))
    return orlop.permute(friendly.tensor(transposed, dtype=dtype), *modes)


def orlop_call(make, function, order):
    import orlop

    orlop.set_grad_enabled(False)
    tensors = [
        orlop.ne(orlop_tensor(array.astype(numpy.int32), order), 0)
        if array.dtype == bool
        else orlop_tensor(array, order)
        for array in make()
    ]
    return functools.partial(function, orlop, *tensors)


def numpy_call(make, function):
    return functools.partial(function, numpy, *make())


def jax_call(make, function):
    import jax

    arrays = [jax.numpy.asarray(array) for array in make()]
    compiled = jax.jit(functools.partial(function, jax))
    return lambda: jax.block_until_ready(compiled(*arrays))


def numexpr_call(make, expression):
    import numexpr

    names = dict(zip("abc", make(), strict=False))
    numexpr.evaluate(expression, names)
    return lambda: numexpr.re_evaluate(names)


def torch_call(make, function):
    import torch

    torch.set_grad_enabled(False)
    return functools.partial(function, torch, *(torch.from_numpy(array) for array in make()))


CALLS = {"numpy": numpy_call, "jax": jax_call, "numexpr": numexpr_call, "torch": torch_call}


def case(
    identity: str,
    name: str,
    mark: float | None,
    make: Callable[[], Sequence[numpy.ndarray]],
    ours: Callable,
    orders: Sequence[str] = (COLUMN_MAJOR,),
    **others: Callable | str,
) -> list[harness.Row]:
    """A row for each order. `ours` and `others` get their library's module first, then the operands."""
    libraries = {
        library: functools.partial(CALLS[library], make, function) for library, function in others.items()
    }
    return [
        harness.Row(
            identity,
            name if len(orders) == 1 else f"{name}, {order}",
            mark,
            {"orlop": functools.partial(orlop_call, make, ours, order), **libraries},
        )
        for order in orders
    ]


# --- Operands -----------------------------------------------------------------------------------------------


def generator():
    return numpy.random.default_rng(7)


def floats(*shapes):
    """A function that makes arrays of normally distributed values."""

    def make():
        random = generator()
        return [random.standard_normal(shape, dtype=numpy.float32) for shape in shapes]

    return make


def integers(*shapes):
    def make():
        random = generator()
        return [random.integers(-1000, 1000, shape, dtype=numpy.int32) for shape in shapes]

    return make


def table_and_indices(*shape, with_updates=False):
    """A table, as many random indices as it has rows, and updates for them."""

    def make():
        random = generator()
        table = random.standard_normal(shape, dtype=numpy.float32)
        indices = random.integers(0, shape[0], shape[0], dtype=numpy.int32)
        updates = [random.standard_normal(shape, dtype=numpy.float32)] if with_updates else []
        return [table, indices, *updates]

    return make


def choice(count):
    def make():
        random = generator()
        values = [random.standard_normal(count, dtype=numpy.float32) for _ in range(2)]
        return [random.random(count) < 0.5, *values]

    return make


# --- The rows -----------------------------------------------------------------------------------------------

MILLION = 1_000_000
MATRIX = (4096, 1024)
BOTH = (COLUMN_MAJOR, ROW_MAJOR)


def elementwise() -> list[harness.Row]:
    rows = []
    for count, mark in ((10_000, 1.5), (MILLION, 1.0), (10 * MILLION, 1.0)):
        rows += case(
            "Q101",
            f"add {count:.0e}",
            mark,
            floats(count, count),
            lambda orlop, a, b: orlop.add(a, b),
            numpy=lambda numpy, a, b: numpy.add(a, b),
            jax=lambda jax, a, b: jax.numpy.add(a, b),
            numexpr="a + b",
            torch=lambda torch, a, b: torch.add(a, b),
        )
    unary = functools.partial(case, make=floats(MILLION))
    rows += unary(
        "Q102",
        "exp 1e+06",
        0.9,
        ours=lambda orlop, x: orlop.exp(x),
        numpy=lambda numpy, x: numpy.exp(x),
        jax=lambda jax, x: jax.numpy.exp(x),
        numexpr="exp(a)",
        torch=lambda torch, x: torch.exp(x),
    )
    rows += unary(
        "Q103",
        "tanh 1e+06",
        1.5,
        ours=lambda orlop, x: orlop.tanh(x),
        numpy=lambda numpy, x: numpy.tanh(x),
        jax=lambda jax, x: jax.numpy.tanh(x),
        numexpr="tanh(a)",
        torch=lambda torch, x: torch.tanh(x),
    )
    rows += unary(
        "Q103",
        "erf 1e+06",
        1.0,
        ours=lambda orlop, x: orlop.erf(x),
        jax=lambda jax, x: jax.lax.erf(x),
        torch=lambda torch, x: torch.erf(x),
    )
    rows += unary(
        "Q103",
        "gelu 1e+06",
        1.5,
        ours=lambda orlop, x: orlop.gelu(x),
        jax=lambda jax, x: jax.nn.gelu(x, approximate=False),
        torch=lambda torch, x: torch.nn.functional.gelu(x),
    )
    return rows


def reductions() -> list[harness.Row]:
    rows = []
    for where, axis, command in (
        ("all", None, "i j -> 1"),
        ("last axis", 1, "i j -> i"),
        ("first axis", 0, "i j -> j"),
    ):
        named = {} if axis is None else {"dim": axis}
        rows += case(
            "Q104",
            f"sum 4096×1024, {where}",
            1.0,
            floats(MATRIX),
            lambda orlop, x, command=command: orlop.reduce_sum(x, command),
            BOTH,
            numpy=lambda numpy, x, axis=axis: x.sum(axis),
            jax=lambda jax, x, axis=axis: x.sum(axis),
            torch=lambda torch, x, named=named: torch.sum(x, **named),
        )
        rows += case(
            "Q104",
            f"max 4096×1024, {where}",
            1.0,
            floats(MATRIX),
            lambda orlop, x, command=command: orlop.reduce_max(x, command),
            BOTH,
            numpy=lambda numpy, x, axis=axis: x.max(axis),
            jax=lambda jax, x, axis=axis: x.max(axis),
            torch=lambda torch, x, named=named: torch.amax(x, **named),
        )
    rows += case(
        "Q105",
        "cumsum 1e+06",
        1.2,
        floats(MILLION),
        lambda orlop, x: orlop.cumsum(x, 0),
        numpy=lambda numpy, x: numpy.cumsum(x),
        jax=lambda jax, x: jax.numpy.cumsum(x),
        torch=lambda torch, x: torch.cumsum(x, 0),
    )
    rows += case(
        "Q106",
        "argmax 1e+06",
        1.2,
        floats(MILLION),
        lambda orlop, x: orlop.argmax(x, "i -> 1"),
        numpy=lambda numpy, x: numpy.argmax(x),
        jax=lambda jax, x: jax.numpy.argmax(x),
        torch=lambda torch, x: torch.argmax(x),
    )
    return rows


def numpy_sort(numpy, x):
    order = numpy.argsort(x, kind="stable")
    return x[order], order


def numpy_topk(numpy, x, count=10):
    largest = numpy.argpartition(x, len(x) - count)[len(x) - count :]
    order = largest[numpy.argsort(-x[largest], kind="stable")]
    return x[order], order


def jax_sort(jax, x):
    numbers = jax.lax.iota(jax.numpy.int32, len(x))
    return jax.lax.sort((x, numbers), is_stable=True, num_keys=1)


def ordering() -> list[harness.Row]:
    return [
        *case(
            "Q107",
            "sort with indices, stable, 1e+06",
            0.2,
            floats(MILLION),
            lambda orlop, x: orlop.sort(x),
            numpy=numpy_sort,
            jax=jax_sort,
            torch=lambda torch, x: torch.sort(x, stable=True),
        ),
        *case(
            "Q108",
            "topk 10 of 1e+06",
            0.5,
            floats(MILLION),
            lambda orlop, x: orlop.topk(x, 10),
            numpy=numpy_topk,
            jax=lambda jax, x: jax.lax.top_k(x, 10),
            torch=lambda torch, x: torch.topk(x, 10),
        ),
    ]


def convolve_jax(jax, x, kernel):
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), ((1, 1), (1, 1)))


def contractions() -> list[harness.Row]:
    """Ours contracts the second modes of both operands; the others get the transposed right side as a view."""

    def product(identity, name, mark, shapes, make=floats):
        return case(
            identity,
            name,
            mark,
            make(*shapes),
            lambda orlop, a, b: orlop.matmul(a, b),
            BOTH,
            numpy=lambda numpy, a, b: a @ b.T,
            jax=lambda jax, a, b: a @ b.T,
            torch=lambda torch, a, b: a @ b.T,
        )

    rows = []
    for size, mark in ((64, 1.5), (256, 1.1), (512, 1.05), (1024, 1.05)):
        rows += product("Q109", f"matmul {size}", mark, ((size, size), (size, size)))
    rows += product("Q110", "1×1024 by 1024×1024", 1.2, ((1, 1024), (1024, 1024)))
    rows += product("Q111", "Int32 matmul 512", 0.15, ((512, 512), (512, 512)), integers)
    for batch in (1, 8):
        rows += case(
            "Q112",
            f"conv 3×3, 64 to 64, 56×56, batch {batch}",
            1.3,
            floats((batch, 64, 56, 56), (64, 64, 3, 3)),
            lambda orlop, x, kernel: orlop.conv_general(x, kernel, (1, 1), ((1, 1), (1, 1))),
            BOTH,
            jax=convolve_jax,
            torch=lambda torch, x, kernel: torch.nn.functional.conv2d(x, kernel, padding=1),
        )
    return rows


def numpy_scatter_add(numpy, base, indices, updates):
    result = base.copy()
    numpy.add.at(result, indices, updates)
    return result


def indexing() -> list[harness.Row]:
    gather = functools.partial(
        case,
        "Q113",
        mark=1.0,
        ours=lambda orlop, x, i: orlop.gather(x, i, 0),
        numpy=lambda numpy, x, i: numpy.take(x, i, 0),
        jax=lambda jax, x, i: jax.numpy.take(x, i, 0),
        torch=lambda torch, x, i: torch.index_select(x, 0, i),
    )
    return [
        *gather("gather 1e+06", make=table_and_indices(MILLION)),
        *gather("gather 1e+06 rows of 16", make=table_and_indices(MILLION, 16), orders=BOTH),
        *case(
            "Q113",
            "scatter_add 1e+06",
            1.0,
            table_and_indices(MILLION, with_updates=True),
            lambda orlop, x, i, u: orlop.scatter_add(x, i, u, 0),
            numpy=numpy_scatter_add,
            jax=lambda jax, x, i, u: x.at[i].add(u),
            torch=lambda torch, x, i, u: torch.index_add(x, 0, i, u),
        ),
    ]


def geometry() -> list[harness.Row]:
    rows = case(
        "Q114",
        "a transposed 2048² view, materialised",
        1.0,
        floats((2048, 2048)),
        lambda orlop, x: orlop.mul(orlop.permute(x, 1, 0), 1.0),
        numpy=lambda numpy, x: numpy.ascontiguousarray(x.T),
        jax=lambda jax, x: jax.numpy.transpose(x),
        torch=lambda torch, x: x.T.contiguous(),
    )
    for where, shape in (("last", (1, 1024)), ("first", (4096, 1))):
        rows += case(
            "Q115",
            f"add 4096×1024 + {max(shape)} along the {where} axis",
            1.0,
            floats(MATRIX, shape),
            lambda orlop, x, bias: orlop.add(x, bias),
            BOTH,
            numpy=lambda numpy, x, bias: numpy.add(x, bias),
            jax=lambda jax, x, bias: jax.numpy.add(x, bias),
            numexpr="a + b",
            torch=lambda torch, x, bias: torch.add(x, bias),
        )
    rows += case(
        "Q115",
        "select 1e+06",
        1.0,
        choice(MILLION),
        lambda orlop, c, a, b: orlop.select(c, a, b),
        numpy=lambda numpy, c, a, b: numpy.where(c, a, b),
        jax=lambda jax, c, a, b: jax.numpy.where(c, a, b),
        numexpr="where(a, b, c)",
        torch=lambda torch, c, a, b: torch.where(c, a, b),
    )
    rows += case(
        "Q115",
        "clamp 1e+06",
        1.0,
        floats(MILLION),
        lambda orlop, x: orlop.clamp(x, -0.5, 0.5),
        numpy=lambda numpy, x: numpy.clip(x, -0.5, 0.5),
        jax=lambda jax, x: jax.numpy.clip(x, -0.5, 0.5),
        torch=lambda torch, x: torch.clamp(x, -0.5, 0.5),
    )
    return rows


ROWS = [*elementwise(), *reductions(), *ordering(), *contractions(), *indexing(), *geometry()]

if __name__ == "__main__":
    harness.main(__file__, ROWS)
