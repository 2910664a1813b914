"""The examples in docstrings run, those of the extension too."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

import orlop

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> Iterator[ModuleType]:
    yield orlop
    for found in pkgutil.walk_packages(orlop.__path__, "orlop."):
        if ".lib" not in found.name:  # the libraries beside the extension are no modules
            yield importlib.import_module(found.name)


def docstrings(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Paths and docstrings of the module and of what it shows: functions, classes and their members."""
    pending = [(module.__name__, module)]
    seen = set()
    while pending:
        path, thing = pending.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        text = getattr(thing, "__doc__", None)
        if isinstance(text, str) and ">>>" in text and text != type(thing).__doc__:
            yield path, text
        if inspect.ismodule(thing) or inspect.isclass(thing):
            pending += [
                (f"{path}.{key}", value)
                for key, value in vars(thing).items()
                if not inspect.ismodule(value) or value.__name__.startswith(f"{module.__name__}.")
                if not inspect.isclass(value) or value.__module__.startswith("orlop")
            ]


def examples() -> list[doctest.DocTest]:
    """Each docstring once, with the names of a module that shows it."""
    parser = doctest.DocTestParser()
    found = {text: (path, module) for module in modules() for path, text in docstrings(module)}
    return [
        parser.get_doctest(text, {**vars(module), "orlop": orlop}, path, None, 0)
        for text, (path, module) in found.items()
    ]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_docstring_example_runs(example):
    output = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=output.append)
    assert "".join(output) == ""
