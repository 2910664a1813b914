"""Profiler.export_chrome_trace: what was recorded, as the JSON that trace viewers draw."""

import errno
import itertools
import json

import pytest

import orlop
from orlop import CPU, DType, Evictable, FileBacked, Tensor, TiledEvictable, friendly, move_async, profile
from orlop._testing import IoScript, file_backed_io


def exported(profiler, path):
    profiler.export_chrome_trace(path)
    trace = json.loads(path.read_text())
    tracks = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    bars = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    return {name: [bar for bar in bars if tracks[bar["tid"]] == name] for name in tracks.values()}


def hierarchy(size=1000):
    return Evictable(CPU(size), FileBacked(dtype=DType.Float32))


def test_operations_nest_on_one_track(tmp_path):
    x = Tensor(hierarchy(), 0, friendly.column_major(1000))
    with profile(record_shapes=True) as profiler:
        orlop.relu(x)
    outer, inner = exported(profiler, tmp_path / "trace.json")["operations"]
    assert (outer["name"], outer["args"]["carrier"]) == ("relu", "Evictable")
    assert inner["args"] == {
        "carrier": "CPU",
        "implementation": "TableOperation",
        "id": 1,
        "succeeded": True,
        "parent": 0,
        "shapes": ["(1000,)"],
    }
    assert outer["ts"] == 0.0
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.001


def test_times_are_microseconds(tmp_path):
    with profile() as profiler:
        for _ in range(3):
            orlop.relu(friendly.zeros(3))
    first, *_ = events = profiler.events()
    bars = exported(profiler, tmp_path / "trace.json")["operations"]
    for event, bar in zip(events, bars, strict=True):
        assert bar["ts"] == pytest.approx((event.start_time_ns - first.start_time_ns) / 1000, abs=1e-6)
        assert bar["dur"] == pytest.approx(event.duration_ns / 1000, abs=1e-6)


def test_evictions_and_promotions_are_a_track_and_no_events(tmp_path):
    carrier = hierarchy()
    with profile() as profiler:
        for how in (carrier.evict, carrier.evict, carrier.promote):
            how()
    assert profiler.events() == ()
    bars = exported(profiler, tmp_path / "trace.json")["residency"]
    assert [(bar["name"], bar["args"]) for bar in bars] == [
        ("evict", {"carrier": "Evictable", "bytes": 4000, "succeeded": True}),
        ("promote", {"carrier": "Evictable", "bytes": 4000, "succeeded": True}),
    ]


def test_the_filter_of_carriers_holds_for_transitions(tmp_path):
    carrier = hierarchy()
    with profile(carriers=[CPU]) as profiler:
        carrier.evict()
    assert exported(profiler, tmp_path / "trace.json")["residency"] == []


def test_moves_are_tracks_without_overlap(tmp_path):
    with profile() as profiler:
        handles = [move_async(friendly.zeros(200_000), FileBacked(dtype=DType.Float32)) for _ in range(6)]
        for handle in handles:
            handle.wait()
    tracks = exported(profiler, tmp_path / "trace.json")
    assert tracks["operations"] == []
    moves = {name: bars for name, bars in tracks.items() if name.startswith("moves")}
    assert sorted(bar["name"] for bars in moves.values() for bar in bars) == 6 * ["move.complete"] + 6 * ["move.submit"]
    for bars in moves.values():
        for one, other in itertools.pairwise(sorted(bars, key=lambda bar: bar["ts"])):
            assert one["ts"] + one["dur"] <= other["ts"] + 0.001


def test_what_failed_is_marked(tmp_path):
    carrier = hierarchy()
    with profile() as profiler, file_backed_io(IoScript(write=[("fail", errno.EIO)])), pytest.raises(OSError):
        carrier.evict()
    (bar,) = exported(profiler, tmp_path / "trace.json")["residency"]
    assert bar["args"]["succeeded"] is False


def test_any_path_and_whole_or_not_at_all(tmp_path):
    target = tmp_path / "é trace.json"
    with profile() as profiler:
        with pytest.raises(RuntimeError):
            profiler.export_chrome_trace(target)
    assert not target.exists()
    profiler.export_chrome_trace(str(target))
    assert json.loads(target.read_text())["displayTimeUnit"] == "ns"
    with pytest.raises(OSError):
        profiler.export_chrome_trace(tmp_path / "none" / "trace.json")
    for wrong in (None, 3, ["trace.json"]):
        with pytest.raises(TypeError):
            profiler.export_chrome_trace(wrong)
    with pytest.raises(ValueError):
        profiler.export_chrome_trace("a\0b")
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_tiles_that_stream_are_on_the_residency_track(tmp_path):
    file = FileBacked(dtype=DType.Float32).allocate_like(80)
    carrier = TiledEvictable(CPU(0), file, (1, 4), (10, 2), primary_budget_bytes=160)
    matrix = Tensor(carrier, 0, friendly.column_major(10, 8))
    with profile() as profiler:
        friendly.ones(2, 8) @ matrix
    tracks = exported(profiler, tmp_path / "trace.json")
    outer = tracks["operations"][0]
    assert (outer["name"], outer["args"]["carrier"]) == ("matmul", "TiledEvictable")
    residency = [bar for name in tracks if name.startswith("residency") for bar in tracks[name]]
    assert [bar["name"] for bar in residency] == 4 * ["promote"]  # what leaves was not written, and nothing moves
    for bar in residency:
        assert bar["args"] == {"carrier": "TiledEvictable", "bytes": 80, "succeeded": True}
        assert outer["ts"] <= bar["ts"]
        assert bar["ts"] + bar["dur"] <= outer["ts"] + outer["dur"] + 0.001
