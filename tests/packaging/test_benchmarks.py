"""The runner of the benchmarks: a table and a JSON file from every row, and its verdicts."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
BENCHMARKS = sorted(path.stem for path in BENCH.glob("*.py") if path.stem not in ("harness", "scaling"))


def load(name, monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quick_run_writes_a_table_and_json(tmp_path):
    command = [sys.executable, BENCH / "friendly.py", "--quick", "--only", "list", "--results", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "friendly.json").read_text())["rows"]
    assert [row["row"] for row in rows] == ["tensor(list)", "to_list"]
    table = (tmp_path / "friendly.md").read_text()
    for row in rows:
        assert row["figures"]["orlop"]["min"] > 0
        assert row["ok"] in (True, False)
        assert f"| Q120 | {row['row']} | 1 |" in table
    assert table in done.stdout


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_row_measures_orlop_beside_what_its_mark_is_about(name, monkeypatch):
    rows = load(name, monkeypatch).ROWS
    assert rows
    for row in rows:
        assert row.id.startswith("Q")
        assert "orlop" in row.libraries
        assert len(row.libraries) > 1 or row.mark is None  # held to a limit, or to a check of its own


def test_verdict_needs_every_mark_of_the_row(monkeypatch):
    harness = load("harness", monkeypatch)

    def verdict(mark, limit, ours=2.0):
        row = harness.Row("Q000", "row", mark, {}, limit)
        return harness.summarise(row, 1, {"orlop": [ours, 3.0], "numpy": [1.0]}, 0.0)["ok"]

    assert verdict(2.0, None) is True
    assert verdict(1.5, None) is False
    assert verdict(2.0, 1.0) is False
    assert verdict(None, 2.0) is True
    assert verdict(None, None) is None


def test_function_that_tells_its_time_is_taken_at_its_word(monkeypatch):
    harness = load("harness", monkeypatch)
    assert harness.time_once(lambda: harness.Seconds(0.01)) == pytest.approx(0.01)
    undone = []
    timed = harness.restored(lambda: None, lambda: undone.append(1))
    assert 0 < harness.time_once(timed, seconds=1e-6) < 1e-3
    assert undone


def test_exponent_is_the_slope_of_time_over_work(monkeypatch):
    scaling = load("scaling", monkeypatch)
    work = [10.0, 40.0, 160.0, 640.0]
    assert scaling.exponent(work, [3e-6 * n**1.25 for n in work]) == pytest.approx(1.25)
    assert scaling.exponent(work, [5e-3 * n for n in work]) == pytest.approx(1.0)


def test_scaling_names_every_fit_and_writes_json(tmp_path):
    command = [sys.executable, BENCH / "scaling.py", "--quick", "--only", "add", "--results", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    families = json.loads((tmp_path / "scaling.json").read_text())["families"]
    assert [family["family"] for family in families] == ["add", "add, one operand transposed", "scatter_add"]
    assert all(seconds > 0 for family in families for seconds in family["times"].values())
    assert done.stdout.splitlines()[-1].startswith("3 fits, too steep:")


ANSWERING = """
import json, os, sys

for question in sys.stdin:
    print(json.dumps([question.strip(), os.environ.get("OPENBLAS_CORETYPE"), os.environ["OPENBLAS_NUM_THREADS"]]))
    sys.stdout.flush()
"""


def test_a_worker_chooses_its_blas_kernel_itself(monkeypatch, tmp_path):
    harness = load("harness", monkeypatch)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    script = tmp_path / "answering.py"
    script.write_text(ANSWERING)
    worker = harness.Worker(str(script), "numpy", 2)
    assert worker.blas() == ["blas", None, "2"]
    assert worker.measure(7) == ["7", None, "2"]
    worker.process.kill()
    worker.process.wait()
    assert worker.blas() == [] and worker.measure(7) is None
    worker.close()
