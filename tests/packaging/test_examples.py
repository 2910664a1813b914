"""Every example is short and runs."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DIGITS = ROOT / "build/digits.csv"  # fetched by ./dev test
ARGUMENTS = {"digits.py": [DIGITS]}


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(example, tmp_path):
    arguments = [str(argument) for argument in ARGUMENTS.get(example.name, [])]
    done = subprocess.run([sys.executable, example, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout != ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_digits_are_learned_alike_in_ram_and_in_files(seed, tmp_path):
    command = [sys.executable, ROOT / "examples/digits.py", DIGITS, "--seed", str(seed)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"test accuracy: (\S+)", done.stdout).group(1)) >= 0.95
    assert "identical losses" in done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_is_short_and_says_what_it_is_for(example):
    text = example.read_text()
    assert len(text.splitlines()) < 120
    assert text.startswith('"""')
