"""The examples of README and docs run, and the C++ ones are those that the C++ tests compile."""

import pathlib
import re

import pytest

from orlop._core import _replace_metal_runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


WITH_EXAMPLES = [page for page in PAGES if blocks(page, "python")]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}  # those of a page go on
    try:
        for number, block in enumerate(blocks(page, "python")):
            exec(compile(block, f"{page.name}, example {number}", "exec"), names)  # noqa: S102
    finally:
        _replace_metal_runtime(None)  # which a page may have chosen


def test_examples_of_the_recipes_are_there():
    assert {"adding_a_carrier", "adding_an_operation", "README"} <= {page.stem for page in WITH_EXAMPLES}


@pytest.mark.parametrize("page", ["adding_a_carrier.md", "adding_an_operation.md"])
def test_cpp_example_is_the_one_that_is_compiled(page):
    compiled = (ROOT / "tests/cpp/recipe_test.cpp").read_text()
    examples = blocks(ROOT / "docs" / page, "cpp")
    assert examples
    for example in examples:
        assert example in compiled
