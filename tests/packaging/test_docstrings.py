"""Every public callable says what it is and shows an example; the examples run, those of the extension too."""

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import orlop
from orlop._core import _replace_metal_runtime

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
    try:
        doctest.DocTestRunner(optionflags=FLAGS).run(example, out=output.append)
    finally:
        _replace_metal_runtime(None)  # which an example may have chosen
    assert "".join(output) == ""


# Callables that are no function or class of ours.
WITHOUT_DOCSTRING = {"orlop.Tiler": "another name of Sequence[Layout]"}


def public_callables() -> dict[str, tuple[str | None, str | None]]:
    """By path, a class with its public methods under it: the docstring, and of a method that of its class.

    A method that a base class of ours has is described there.
    """
    found = {}
    seen = set()
    for module in modules():
        if "._" in module.__name__:
            continue
        for name in module.__all__:
            value, path = getattr(module, name), f"{module.__name__}.{name}"
            if inspect.ismodule(value) or not callable(value) or id(value) in seen:
                continue
            seen.add(id(value))
            if not inspect.isclass(value):
                found[path] = value.__doc__, None
                continue
            found[path] = vars(value).get("__doc__"), None
            bases = [base for base in value.__mro__[1:] if base.__module__.startswith("orlop")]
            for member in vars(value):
                method = getattr(value, member, None)
                if not (member.startswith("_") or inspect.isclass(method) or any(hasattr(b, member) for b in bases)):
                    if callable(method):
                        found[f"{path}.{member}"] = method.__doc__, vars(value).get("__doc__")
    return found


def example_lines(text: str | None) -> list[str]:
    return re.findall(r"^ *(?:>>>|\.\.\.) (.*)", text or "", re.MULTILINE)


def test_every_public_callable_says_what_it_is():
    callables = public_callables()
    assert len(callables) > 300
    assert [path for path, (text, _) in callables.items() if not text and path not in WITHOUT_DOCSTRING] == []


def test_every_public_callable_shows_an_example():
    """In its docstring; of a method, one in the docstring of its class will do."""
    missing = [
        path
        for path, (text, of_class) in public_callables().items()
        if not example_lines(text)
        and not any(re.search(rf"\b{path.rpartition('.')[2]}\b", line) for line in example_lines(of_class))
        and path not in WITHOUT_DOCSTRING
    ]
    assert missing == []
