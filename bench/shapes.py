"""Operations on thin matrices, images and batches, in column-major and row-major order, beside the others.

The ids are those of the nearest rows with marks. These have none: they show whether an operation runs at the speed
of its memory pattern whatever the shape. The others' operands and results are C-ordered, our results column-major:
a row-major row holds a transposition (see ops.py).
"""

import harness
import numpy
from ops import BOTH, case, floats, generator

SHAPES = [(3, 224, 224), (20_000, 4), (2, 100_000), (64, 3, 32, 32)]


def with_indices(shape, extent, count=100):
    def make():
        return [*floats(shape)(), generator().integers(0, extent, count, dtype=numpy.int32)]

    return make


def rows_of(shape) -> list[harness.Row]:
    names = "abcd"[: len(shape)]
    over_first = f"{' '.join(names)} -> {' '.join(names[1:])}"
    size = "×".join(map(str, shape))
    first = (1, *shape[1:])

    def rows(identity, name, make, ours, **others):
        return case(identity, f"{size}: {name}", None, make, ours, BOTH, **others)

    return [
        *rows(
            "Q115",
            "x + 1",
            floats(shape),
            lambda orlop, x: orlop.add(x, 1.0),
            numpy=lambda numpy, x: x + numpy.float32(1),
            jax=lambda jax, x: x + 1,
            torch=lambda torch, x: x + 1,
        ),
        *rows(
            "Q115",
            "x < y",
            floats(shape, shape),
            lambda orlop, x, y: orlop.lt(x, y),
            numpy=lambda numpy, x, y: x < y,
            jax=lambda jax, x, y: x < y,
            torch=lambda torch, x, y: x < y,
        ),
        *rows(
            "Q115",
            "less one entry of the first axis",
            floats(shape, first),
            lambda orlop, x, y: orlop.sub(x, y),
            numpy=lambda numpy, x, y: x - y,
            jax=lambda jax, x, y: x - y,
            torch=lambda torch, x, y: x - y,
        ),
        *rows(
            "Q104",
            "sum over the first axis",
            floats(shape),
            lambda orlop, x: orlop.reduce_sum(x, over_first),
            numpy=lambda numpy, x: x.sum(0),
            jax=lambda jax, x: x.sum(0),
            torch=lambda torch, x: x.sum(0),
        ),
        *rows(
            "Q104",
            "max over the first axis",
            floats(shape),
            lambda orlop, x: orlop.reduce_max(x, over_first),
            numpy=lambda numpy, x: x.max(0),
            jax=lambda jax, x: x.max(0),
            torch=lambda torch, x: torch.amax(x, 0),
        ),
        *rows(
            "Q108",
            "the greatest along the last axis",
            floats(shape),
            lambda orlop, x: orlop.topk(x, 1, -1),
            jax=lambda jax, x: jax.lax.top_k(x, 1),
            torch=lambda torch, x: torch.topk(x, 1),
        ),
        *rows(
            "Q113",
            "gather 100 along the last axis",
            with_indices(shape, shape[-1]),
            lambda orlop, x, i: orlop.gather(x, i, -1),
            numpy=lambda numpy, x, i: numpy.take(x, i, -1),
            jax=lambda jax, x, i: jax.numpy.take(x, i, -1),
            torch=lambda torch, x, i: torch.index_select(x, -1, i),
        ),
    ]


ROWS = [row for shape in SHAPES for row in rows_of(shape)]

if __name__ == "__main__":
    harness.main(__file__, ROWS)
