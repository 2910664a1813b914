"""The examples of README and docs run, and the C++ ones are those that the C++ tests compile."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


EXAMPLES = [(page, number, block) for page in PAGES for number, block in enumerate(blocks(page, "python"))]
IDS = [f"{page.stem}-{number}" for page, number, _ in EXAMPLES]


@pytest.mark.parametrize(("page", "number", "block"), EXAMPLES, ids=IDS)
def test_python_example_runs(page, number, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, f"{page.name}, example {number}", "exec"), {"__name__": "__main__"})  # noqa: S102


def test_examples_of_the_recipes_are_there():
    assert {"adding_a_carrier-0", "adding_an_operation-0", "README-0"} <= set(IDS)


@pytest.mark.parametrize("page", ["adding_a_carrier.md", "adding_an_operation.md"])
def test_cpp_example_is_the_one_that_is_compiled(page):
    compiled = (ROOT / "tests/cpp/recipe_test.cpp").read_text()
    examples = blocks(ROOT / "docs" / page, "cpp")
    assert examples
    for example in examples:
        assert example in compiled
