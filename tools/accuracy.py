"""Tries every function of one float on all 2^32 inputs and writes the largest errors to docs/accuracy.json.

Needs build/accuracy_test, which gives pow an exponent for each. The errors are in units in the last place of the
exact value; those of gelu, whose bound is absolute, in units of 2^-23 times its argument.
Usage: python tools/accuracy.py [NAME...]      only these functions; the figures of the others stay
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs/accuracy.json"
TEST = "Unary/Accuracy.StaysWithinItsBound/"


def names() -> list[str]:
    listed = subprocess.run([ROOT / "build/accuracy_test", "--gtest_list_tests"], capture_output=True, text=True, check=True)
    return re.findall(r"^  StaysWithinItsBound/(\w+)", listed.stdout, re.MULTILINE)


def measure(name: str) -> dict:
    done = subprocess.run(
        [ROOT / "build/accuracy_test", f"--gtest_filter={TEST}{name}"],
        env={**os.environ, "ORLOP_EXHAUSTIVE": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    found = re.search(r"^accuracy (\w+) (\S+) (\S+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        sys.exit(done.stdout)
    unit = "2^-23 * |x|" if name == "gelu" else "ulp"
    return {"largest_error": float(found[2]), "unit": unit, "input": found[3]}


def main(chosen: list[str]) -> None:
    known = names()
    if unknown := set(chosen) - set(known):
        sys.exit(f"accuracy: no function {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    figures = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    for name in chosen or known:
        figures[name] = measure(name)
        print(f"{name:12} {figures[name]['largest_error']:.4f} {figures[name]['unit']} at {figures[name]['input']}", flush=True)
        kept = {name: figures[name] for name in sorted(figures) if name in known}
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(figure)}" for name, figure in kept.items())
        TARGET.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
