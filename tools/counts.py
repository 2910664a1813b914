"""Prints how many places an extension of Orlop touches, counted in this tree against the promised limits.

An operation's places are the files of src/ that name it in quotes (plan, definition, kernels); its public function
adds those of include/ and python/. The operation in the middle is shown: others are also used by name. So is the
carrier in the middle: a device's runtimes and the machinery of tiles are more than a carrier. A carrier's places are
its header, its sources other than kernels and moves (which a carrier that only stores does without), and the files of
the core that name its class; interop, above the carriers, uses them as anybody may. Comments, tests,
documents and stubs do not count. Exits 1 when a promise is broken.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".cpp", ".hpp", ".py"}
OPERATIONS = """add sub elementwise_mul div pow neg abs sign recip sqrt rsqrt exp exp2 log log2 sin cos erf
floor ceil round maximum minimum rem relu sigmoid tanh gelu silu softplus elu leaky_relu reduce_sum reduce_prod
reduce_max reduce_min argmax argmin cumsum matmul conv_general gather scatter_add select clamp""".split()


def read_sources() -> dict[pathlib.Path, str]:
    """The text of each source without its comments."""
    return {
        path.relative_to(ROOT): re.sub(r"//.*" if path.suffix != ".py" else r"#.*", "", path.read_text())
        for top in ("include", "src", "python")
        for path in sorted((ROOT / top).rglob("*"))
        if path.suffix in SUFFIXES
    }


def required_virtuals(sources: dict[pathlib.Path, str]) -> list[str]:
    """The functions that a C++ carrier must write: the pure virtual ones of Carrier."""
    text = sources.get(pathlib.Path("include/orlop/storage/carrier.hpp"), "")
    carrier = re.search(r"\bclass (?:ORLOP_API )?Carrier\b[^;{]*\{(.*?)\n\};", text, re.DOTALL)
    declarations = carrier.group(1).split(";") if carrier else []
    pure = [words for words in declarations if re.search(r"\bvirtual\b.*=\s*0$", words.strip(), re.DOTALL)]
    return [re.search(r"(\w+)\s*\(", words).group(1) for words in pure]


def naming_files(sources: dict[pathlib.Path, str], name: str) -> list[pathlib.Path]:
    return [path for path, text in sources.items() if f'"{name}"' in text]


def carrier_files(
    sources: dict[pathlib.Path, str], folder: str
) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """The files of a carrier that every carrier has, and the files of the core that name its class in code."""
    special = {"cpu": "CPU", "block_device": "BlockDeviceCarrier"}
    class_name = special.get(folder, "".join(word.capitalize() for word in folder.split("_")))
    named = re.compile(rf"\b{class_name}\b")
    own = [
        path
        for path in sources
        if path.parent.name == folder
        and "carriers" in path.parts
        and not re.search("kernel|loops|moves", path.stem)
    ]
    core = [
        path
        for path, text in sources.items()
        if path.parts[0] != "python" and not {"carriers", "interop"} & set(path.parts)
        if named.search(re.sub(r'"[^"\n]*"', "", text))
    ]
    return own, core


def main() -> None:
    sources = read_sources()
    broken = False

    def count(what: str, found: list, limit: int | None) -> None:
        nonlocal broken
        if limit is None:
            verdict = f"{len(found):3}"
        else:
            state = "OVER" if len(found) > limit else "ok" if found else "nothing found"
            broken |= state != "ok"
            verdict = f"{len(found):3} of at most {limit}: {state}"
        print(f"{what:45}{verdict:22}{' '.join(map(str, found))}")

    count("functions a C++ carrier must write", required_virtuals(sources), 6)
    files = {name: naming_files(sources, name) for name in OPERATIONS}
    table = {name: [path for path in found if path.parts[0] == "src"] for name, found in files.items()}
    defined = [name for name in OPERATIONS if any(path.parent.name == "definitions" for path in table[name])]
    typical = sorted(defined, key=lambda name: (len(table[name]), name))[len(defined) // 2]
    count(f"files of a typical operation ({typical})", table[typical], 5)
    count("  and of its public function", [path for path in files[typical] if path.parts[0] != "src"], None)
    folders = sorted(path.name for path in (ROOT / "src/carriers").iterdir() if path.is_dir())
    carriers = {folder: sum(carrier_files(sources, folder), []) for folder in folders}
    typical = sorted(folders, key=lambda folder: (len(carriers[folder]), folder))[len(folders) // 2]
    count(f"files of a typical carrier ({typical})", carriers[typical], 4)
    for folder in folders:
        count(f"  of {folder}", carriers[folder], None)
    sys.exit(broken)


if __name__ == "__main__":
    main()
