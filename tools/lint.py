"""Format and static checks of the C++ sources.

Usage: python tools/lint.py format [--fix]     clang-format over every tracked C++ file
       python tools/lint.py tidy [all]         clang-tidy over the sources changed since main, or over all
       python tools/lint.py symbols            what the objects for one instruction set share with the others
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def cpp_files() -> list[str]:
    files = git("ls-files", "--cached", "--others", "--exclude-standard", "*.cpp", "*.hpp")
    return [file for file in files if pathlib.Path(ROOT, file).exists()]


def check_format(fix: bool) -> None:
    files = cpp_files()
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    done = subprocess.run(["clang-format", *mode, *files], cwd=ROOT, capture_output=True, text=True)
    unformatted = sorted({line.split(":", 1)[0] for line in done.stderr.splitlines() if ": error: " in line})
    if done.returncode != 0:
        sys.exit("\n".join([*(unformatted or [done.stderr]), "format: run ./dev check format --fix"]))
    print(f"{len(files)} files are formatted")


def changed_files() -> set[str]:
    base = next(
        (found for ref in ("origin/main", "main") if (found := git("merge-base", "HEAD", ref))), ["HEAD"]
    )
    return set(git("diff", "--name-only", base[0])) | set(git("ls-files", "--others", "--exclude-standard"))


def tidy_one(file: str) -> tuple[str, subprocess.CompletedProcess]:
    return file, subprocess.run(
        ["clang-tidy", "-p", "build", "--quiet", file], cwd=ROOT, capture_output=True, text=True
    )


def check_tidy(everything: bool) -> None:
    changed = changed_files()
    sources = [file for file in cpp_files() if file.startswith("src/") and file.endswith(".cpp")]
    if not everything:
        sources = [file for file in sources if file in changed]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, done in pool.map(tidy_one, sources):
            if done.returncode != 0 or "warning:" in done.stdout:
                bad += 1
                print(done.stdout or done.stderr)
    print(
        f"{len(sources)} sources looked at, {bad} with findings"
        + ("" if everything else " (changed ones only)")
    )
    sys.exit(bad != 0)


def check_symbols() -> None:
    """An object compiled for a newer CPU must define no symbol that the linker may take for the older ones.

    Such a symbol is a weak function (inline, a template) and not inside the object's own namespace x86_64_vN.
    """
    shared = 0
    commands = json.loads((ROOT / "build/compile_commands.json").read_text())
    units = [
        ROOT / "build" / command["output"]
        for command in commands
        if re.search(r"\borlop\.dir/.*_x86_64_v[234]\.cpp\.o$", command["output"])
    ]
    for unit in units:
        namespace = unit.name[-len("x86_64_v3.cpp.o") : -len(".cpp.o")]
        listing = subprocess.run(
            ["nm", "-C", "--defined-only", unit], capture_output=True, text=True, check=True
        ).stdout
        for line in listing.splitlines():
            _address, kind, name = line.split(maxsplit=2)
            if kind == "W" and namespace not in name:
                shared += 1
                print(f"{unit.name}: {name}")
    print(f"{len(units)} units for one instruction set, {shared} symbols that others could get")
    sys.exit(shared != 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["format", *rest]:
            check_format("--fix" in rest)
        case ["tidy", *rest]:
            check_tidy("all" in rest)
        case ["symbols"]:
            check_symbols()
        case _:
            sys.exit(__doc__)
