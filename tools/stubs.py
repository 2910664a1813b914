"""Writes python/orlop/_core.pyi, the type stubs of the extension, from the extension that was built.

Usage: python tools/stubs.py [--check]      --check compares instead and exits 1 when the file is stale
"""

import difflib
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
STUBS = ROOT / "python/orlop/_core.pyi"


def generate() -> str:
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "_core.pyi")
        subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-i", str(ROOT / "build/python"),
                        "-m", "orlop._core", "-o", str(output)], check=True)
        return output.read_text()


def main(check: bool) -> None:
    expected = generate()
    actual = STUBS.read_text() if STUBS.exists() else ""
    if not check:
        STUBS.write_text(expected)
    elif actual != expected:
        changes = difflib.unified_diff(actual.splitlines(), expected.splitlines(), "committed", "built", lineterm="")
        print("\n".join(list(changes)[:60]))
        sys.exit("stubs: python/orlop/_core.pyi is stale; run ./dev docs and commit it")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
