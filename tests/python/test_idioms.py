"""The tables of docs/from_numpy_and_pytorch.md: every Orlop cell runs, and gives what its NumPy cell gives."""

import pathlib
import re

import numpy as np
import pytest
from arrays import DTYPES

from orlop import DType, Tensor

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/from_numpy_and_pytorch.md"
TEXT = PAGE.read_text()
NAMES = re.search(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)[1]


def code(cell):
    return None if cell.strip() == "—" else re.match(r"\s*`([^`]+)`", cell)[1]


LINES = [line for line in TEXT.splitlines() if re.match(r"\| (`|—)", line)]
ROWS = [tuple(code(cell) for cell in line.strip("|").split(" | ")) for line in LINES]


def plain(value):
    """The value as an array, with one axis per top-level mode of a Tensor; dtypes as Orlop's."""
    if isinstance(value, Tensor):
        from orlop import friendly

        sizes = [value.layout[mode].size for mode in range(value.ndim)]
        return np.array(friendly.to_list(value)).reshape(sizes, order="F")
    if isinstance(value, np.dtype):
        return DTYPES[value]
    return value if isinstance(value, DType) else np.asarray(value)


def outcome(source, names):
    """The value of an expression; of statements, what `a` is after them, if it still is."""
    try:
        return eval(compile(source, PAGE.name, "eval"), names)  # noqa: S307
    except SyntaxError:
        exec(compile(source, PAGE.name, "exec"), names)  # noqa: S102
        return names.get("a")


def test_every_row_has_three_cells_and_the_page_is_no_longer_than_promised():
    assert {len(row) for row in ROWS} == {3}
    assert 40 <= len(ROWS) <= 70
    for row in ROWS:
        for cell in filter(None, row):
            compile(cell, PAGE.name, "exec")


@pytest.mark.parametrize(("in_numpy", "in_orlop"), [(row[0], row[2]) for row in ROWS], ids=[row[2] for row in ROWS])
def test_idiom(in_numpy, in_orlop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.arange(6, dtype=np.float32).tofile("a.raw")
    names = {}
    exec(NAMES, names)  # noqa: S102
    model = {name: np.asfortranarray(plain(value)) for name, value in names.items() if isinstance(value, Tensor)}
    for name, values in model.items():
        kind = np.float32 if names[name].dtype() is DType.Float32 else np.int32
        model[name] = values.astype(kind)
    result = outcome(in_orlop, names)
    if in_numpy is None:
        return
    expected = outcome(in_numpy, {"np": np, **model})
    if expected is None:  # it writes a file, or a is gone
        return
    if isinstance(expected, np.ndarray) and result is None:  # in place
        result = names["a"]
    result, expected = plain(result), plain(expected)
    if "random" in in_numpy:
        assert result.shape == expected.shape
    elif isinstance(expected, DType):
        assert result is expected
    else:
        assert result.shape == expected.shape and result.dtype.kind == expected.dtype.kind
        np.testing.assert_allclose(result, expected, rtol=1e-5)
