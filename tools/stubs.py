"""Writes the type stubs of the package from the package that was built in build/.

python/orlop/_core/ says what the extension and its submodules hold. The __init__.pyi of orlop and orlop.carriers
say where each name comes from: at run time the names load on first use, which a type checker cannot follow.
Usage: python tools/stubs.py [--check]      --check compares instead and exits 1 when a file is stale
"""

import difflib
import importlib
import pathlib
import re
import subprocess
import sys
import tempfile
from types import ModuleType

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/orlop"

# Bindings take any object where they refuse a wrong one in the library's own words. What they accept, by the
# name of the parameter, or where a name stands for several things by the function's and its own.
_TYPES = {
    "Tensor": "tensor gradient lhs rhs kernel base indices updates condition on_true on_false to_scatter scatter_onto "
    "__matmul__.other __rmatmul__.other",
    "Tensor | float": "other exponent lower upper",
    "Layout": "layout mapping",
    "Shape": "shape target target_shape",
    "Stride": "stride",
    "Tree | str": "output",
    "Tree": "tree selection reverse_rearrange.output",
    "type[Carrier]": "carrier_class source_class destination_class",
    "Carrier": "carrier destination",
    "str": "description operation_name command",
    "int": "index axis dim dimension size count mapping_offset feature_groups ordinal codomain_size s d k "
    "__init__.bits __init__.base __init__.shift",
    "bool": "mutable empty retain_graph retain enabled batched descending largest copy",
    "Sequence[int]": "strides broadcast_dimensions lhs_dilation kernel_dilation lhs_dims kernel_dims output_dims",
    "Iterable[object]": "values",
    "object": "__eq__.other __ne__.other memo tensor.values",
}
PARAMETER_TYPES = {name: kind for kind, names in _TYPES.items() for name in names.split()} | {
    f"{function}.{side}": "Tensor | float"
    for function in "add sub mul div maximum minimum eq ne lt le gt ge".split()
    for side in ("lhs", "rhs")
} | {"pow.base": "Tensor | float", "__rpow__.base": "Tensor | float"}  # fmt: skip


_MODULES = {
    "Any": "typing",
    "DType": "orlop.carriers.dtype",
    "Iterable": "collections.abc",
    "Sequence": "collections.abc",
    "Tree": "orlop.layout",
} | dict.fromkeys(["Carrier", "Layout", "Shape", "Stride", "Tensor"], "orlop._core")


def with_imports(text: str) -> str:
    """The stub with what with_types names and nothing in it defines."""
    missing = [
        f"from {module} import {name}\n"
        for name, module in _MODULES.items()
        if re.search(rf"[ \[|]{name}\b", text) and not re.search(rf"^(class |from .* import .*\b){name}\b", text, re.M)
    ]
    return "".join(missing) + text


def with_types(text: str) -> str:
    """The stub with PARAMETER_TYPES in the place of `object`, which None is as well."""

    def annotate(function: str, parameter: re.Match) -> str:
        name, default = parameter[1], parameter[2] or ""
        kind = PARAMETER_TYPES.get(f"{function}.{name}") or PARAMETER_TYPES.get(name, "object")
        return f"{name}: {kind}{' | None' if default == ' = None' else ''}{default}"

    return re.sub(
        r"(?<=def )(\w+)\(.*\) ->",
        lambda heading: re.sub(
            r"\b(\w+): object(?: \| None)?( = \w+)?(?=[,)])", lambda match: annotate(heading[1], match), heading[0]
        ),
        text,
    )


def is_closed(kind: type) -> bool:
    """Whether no class can be derived."""
    try:
        type("Derived", (kind,), {})
    except TypeError:
        return True
    return False


def extension_stub(module: ModuleType) -> str:
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "stub.pyi")
        subprocess.run(
            [
                sys.executable,
                "-m",
                "nanobind.stubgen",
                "-q",
                "-i",
                str(ROOT / "build/python"),
                "-m",
                module.__name__,
                "-o",
                str(output),
            ],
            check=True,
        )
        text = with_imports(with_types(output.read_text()))

    def mark_final(heading: re.Match) -> str:
        return ("@final\n" if is_closed(getattr(module, heading[1])) else "") + heading[0]

    marked = re.sub(r"^class (\w+)", mark_final, text, flags=re.MULTILINE)
    return marked if marked == text else "from typing import final\n" + marked


def lazy_stub(package: ModuleType, submodules: list[str]) -> str:
    core = importlib.import_module("orlop._core")

    def home(name: str) -> str:
        value = getattr(package, name)
        return "orlop._core" if getattr(core, name, None) is value else package._EXPORTS[name]

    names = sorted(package.__all__, key=lambda name: (home(name), name))
    return "\n".join(
        [
            *(f"from {package.__name__} import {name} as {name}" for name in submodules),
            *(f"from {home(name)} import {name} as {name}" for name in names),
            "",
            "__all__: list[str]",
            "",
        ]
    )


def generate() -> dict[pathlib.Path, str]:
    """The stub files by path."""
    sys.path.insert(0, str(ROOT / "build/python"))
    package, carriers = importlib.import_module("orlop"), importlib.import_module("orlop.carriers")
    core = importlib.import_module("orlop._core")
    parts = {
        name.rpartition(".")[2]: sys.modules[name]
        for name in sorted(sys.modules)
        if name.startswith("orlop._core.")
    }
    shown = "".join(f"from orlop._core import {part} as {part}\n" for part in parts)
    return {
        PACKAGE / "__init__.pyi": lazy_stub(package, sorted(package._SUBMODULES)),
        PACKAGE / "carriers/__init__.pyi": lazy_stub(carriers, sorted(carriers._SUBMODULES)),
        PACKAGE / "_core/__init__.pyi": shown + extension_stub(core),
        **{PACKAGE / f"_core/{part}.pyi": extension_stub(module) for part, module in parts.items()},
    }


def main(check: bool) -> None:
    stubs = generate()
    existing = {path: path.read_text() for path in PACKAGE.rglob("*.pyi")}
    stale = [path for path in sorted(stubs.keys() | existing.keys()) if stubs.get(path) != existing.get(path)]
    for path in stale:
        if check:
            before, after = existing.get(path, "").splitlines(), stubs.get(path, "").splitlines()
            print(
                *list(difflib.unified_diff(before, after, f"{path} committed", "built", lineterm=""))[:40],
                sep="\n",
            )
        elif path in stubs:
            path.parent.mkdir(exist_ok=True)
            path.write_text(stubs[path])
        else:
            path.unlink()
    if check and stale:
        sys.exit("stubs: stale; run ./dev docs and commit them")
    print(f"{len(stubs)} stub files, {len(stale)} {'stale' if check else 'written'}")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
