"""Prints how many places an extension of Orlop touches, counted in this tree against the promised limits.

An operation's places are the folders whose files name it in quotes, a carrier's are its own files and those that
name its class. Tests, documentation and generated stubs do not count. Exits 1 when a promise is broken.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".cpp", ".hpp", ".py"}
OPERATIONS = """add sub elementwise_mul div pow neg abs sign recip sqrt rsqrt exp exp2 log log2 sin cos erf floor ceil
round maximum minimum rem relu sigmoid tanh gelu silu softplus elu leaky_relu reduce_sum reduce_prod reduce_max
reduce_min argmax argmin cumsum matmul conv_general gather scatter_add select clamp""".split()


def read_sources() -> dict[pathlib.Path, str]:
    return {
        path.relative_to(ROOT): path.read_text()
        for top in ("include", "src", "python")
        for path in sorted((ROOT / top).rglob("*"))
        if path.suffix in SUFFIXES
    }


def required_virtuals(sources: dict[pathlib.Path, str]) -> list[str]:
    """The functions that a C++ carrier must write: the pure virtual ones of Carrier."""
    text = re.sub(r"//.*", "", sources.get(pathlib.Path("include/orlop/storage/carrier.hpp"), ""))
    carrier = re.search(r"\bclass (?:ORLOP_API )?Carrier\b[^;{]*\{(.*?)\n\};", text, re.DOTALL)
    declarations = carrier.group(1).split(";") if carrier else []
    pure = [words for words in declarations if re.search(r"\bvirtual\b.*=\s*0$", words.strip(), re.DOTALL)]
    return [re.search(r"(\w+)\s*\(", words).group(1) for words in pure]


def operation_places(sources: dict[pathlib.Path, str], name: str) -> set[pathlib.Path]:
    return {path.parent for path, text in sources.items() if f'"{name}"' in text}


def carrier_places(sources: dict[pathlib.Path, str], folder: str) -> set[pathlib.Path]:
    """Files of one carrier, and files elsewhere in the core that name its class."""
    class_name = {"cpu": "CPU"}.get(folder, "".join(word.capitalize() for word in folder.split("_")))
    named = re.compile(rf"\b{class_name}\b")
    own = {path for path in sources if "carriers" in path.parts and (folder in path.parts or path.stem == folder)}
    core = {
        path for path, text in sources.items()
        if path.parts[0] != "python" and "carriers" not in path.parts and named.search(re.sub(r"//.*", "", text))
    }
    return own | core


def main() -> None:
    sources = read_sources()
    broken = False

    def promise(what: str, count: int, limit: int, detail: str = "") -> None:
        nonlocal broken
        verdict = "OVER" if count > limit else "ok" if count > 0 else "nothing found"
        broken |= verdict != "ok"
        print(f"{what:44} {count:3}  of at most {limit:2}  {verdict:5} {detail}")

    virtuals = required_virtuals(sources)
    promise("required virtual functions of a C++ carrier", len(virtuals), 6, " ".join(virtuals))
    places = {name: operation_places(sources, name) for name in OPERATIONS}
    widest = max(places, key=lambda name: len(places[name]))
    promise("folders that name one operation (the most)", len(places[widest]), 5,
            f"{widest}: " + " ".join(map(str, sorted(places[widest]))))
    for folder in sorted((ROOT / "src/carriers").glob("*/")) if (ROOT / "src/carriers").exists() else []:
        found = carrier_places(sources, folder.name)
        promise(f"files of the carrier {folder.name}", len(found), 4, " ".join(map(str, sorted(found))))
    sys.exit(broken)


if __name__ == "__main__":
    main()
