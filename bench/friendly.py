"""Values into tensors and out of them, 10^5 elements (Q120)."""

import functools

import harness

COUNT = 100_000


def array(*extents):
    import numpy

    return numpy.arange(COUNT, dtype=numpy.float32).reshape(extents)


def orlop_tensor(make):
    from orlop import friendly

    return functools.partial(friendly.tensor, make())


def orlop_new_like():
    from orlop import CPU

    return functools.partial(CPU(1).new_like, array(COUNT))


def orlop_to_list():
    from orlop import friendly

    return functools.partial(friendly.to_list, friendly.tensor(array(COUNT)))


def numpy_copy(*extents):
    import numpy

    return functools.partial(numpy.copy, array(*extents))


def numpy_transposed_copy(*extents):
    import numpy

    return functools.partial(numpy.copy, array(*extents), order="F")


def numpy_array():
    import numpy

    return functools.partial(numpy.array, array(COUNT).tolist(), dtype=numpy.float32)


def torch_tensor():
    import torch

    return functools.partial(torch.tensor, array(COUNT).tolist())


def row(name, mark, libraries, limit=None):
    return harness.Row("Q120", name, mark, libraries, limit)


ROWS = [
    row(
        "tensor(ndarray)",
        None,
        {
            "orlop": lambda: orlop_tensor(lambda: array(COUNT)),
            "numpy": lambda: numpy_copy(COUNT),
        },
        limit=1e-3,
    ),
    row(
        "tensor(ndarray of 250 rows), to column-major",
        None,
        {
            "orlop": lambda: orlop_tensor(lambda: array(250, 400)),
            "numpy": lambda: numpy_transposed_copy(250, 400),
        },
        limit=1e-3,
    ),
    row(
        "tensor(list)",
        None,
        {
            "orlop": lambda: orlop_tensor(lambda: array(COUNT).tolist()),
            "numpy": numpy_array,
            "torch": torch_tensor,
        },
        limit=5e-3,
    ),
    row("new_like(ndarray)", None, {"orlop": orlop_new_like, "numpy": lambda: numpy_copy(COUNT)}, limit=1e-3),
    row("to_list", 1.5, {"orlop": orlop_to_list, "numpy": lambda: array(COUNT).tolist}),
]

if __name__ == "__main__":
    harness.main(__file__, ROWS, threads="1")
