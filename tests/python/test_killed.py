"""A process that ends, or stands still, at any system call of a hierarchy's life or of a save: what it left goes with
the next start or save, and nobody touches the files of a process that lives (S604, S605, Q303)."""

import os
import signal
import subprocess
import sys
import time

import pytest
from orlop import friendly, io

MOST_CALLS = 100

LIFE = """if True:
    import ctypes, signal, sys
    from orlop import CPU, DType, Evictable, FileBacked, move, move_async
    from orlop import friendly
    from orlop._testing import IoScript, file_backed_io
    script = file_backed_io(IoScript(signal_at=int(sys.argv[1]), signal=int(sys.argv[2])))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(script))  # in force to the very end
    script.__enter__()
    values = [1.0, 2.0, 3.0]
    kept = FileBacked(dtype=DType.Float32).new_like(values)  # until the exit
    hierarchy = Evictable(CPU(0).new_like(values), FileBacked(dtype=DType.Float32))
    for _ in range(2):
        hierarchy.evict()
        hierarchy.promote()
        assert [hierarchy[i] for i in range(3)] == values
    hierarchy.evict()
    hierarchy.release()
    moved = move_async(friendly.tensor(values), FileBacked(dtype=DType.Float32)).wait()
    assert [kept[i] for i in range(3)] == [moved[i] for i in range(3)] == values
"""

NEIGHBOUR = """if True:
    import sys
    from orlop import DType, FileBacked
    mine = FileBacked(dtype=DType.Float32).new_like([7.0])
    print(mine.path.parent.name, flush=True)
    sys.stdin.readline()
    print(mine[0], mine.path.exists())
"""

NEXT_START = "from orlop import DType, FileBacked; FileBacked(dtype=DType.Float32)"


def start(folder, program, *arguments, **options):
    environment = os.environ | {"ORLOP_TMPDIR": str(folder)}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, **options)


def next_start(folder):
    assert start(folder, NEXT_START).wait(60) == 0


@pytest.fixture
def neighbour(tmp_path):
    """A folder in which another process lives, and that one's directory."""
    process = start(tmp_path, NEIGHBOUR, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    name = process.stdout.readline().strip()
    yield tmp_path, name
    words, _ = process.communicate("\n", timeout=60)
    assert words == "7.0 True\n" and process.returncode == 0
    assert os.listdir(tmp_path) == []


def test_a_killed_process_leaves_nothing_after_the_next_start(neighbour):
    folder, living = neighbour
    for n in range(1, MOST_CALLS):
        status = start(folder, LIFE, n, int(signal.SIGKILL)).wait(60)
        left = {path.name for path in folder.iterdir()}
        assert living in left
        if status == 0:
            assert left == {living} and n > 20
            return
        assert status == -signal.SIGKILL, f"call {n}"
        next_start(folder)
        assert os.listdir(folder) == [living], f"call {n}"
    raise AssertionError("no clean run")


def test_a_process_that_stands_still_keeps_its_files(neighbour):
    folder, living = neighbour
    for n in range(1, MOST_CALLS):
        process = start(folder, LIFE, n, int(signal.SIGSTOP))
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        is_stopped = os.WIFSTOPPED(status)
        if is_stopped:
            next_start(folder)
            os.kill(process.pid, signal.SIGCONT)
            _, status = os.waitpid(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, f"call {n}"
        assert os.listdir(folder) == [living], f"call {n}"
        if not is_stopped:
            assert n > 20
            return
    raise AssertionError("no clean run")


# --- Saves: the user's own folder

SAVE = """if True:
    import errno, signal, sys
    from orlop import friendly, io
    from orlop._testing import IoScript, file_backed_io
    at, signal_, is_named, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "named", sys.argv[4]
    no_unnamed_files = dict(fail_at=2, fail_errno=errno.EOPNOTSUPP) if is_named else {}
    tensor = friendly.full(300, value=2.0)
    with file_backed_io(script := IoScript(signal_at=at, signal=signal_, **no_unnamed_files)):
        io.save_npy(path, tensor)
    sys.exit(script.calls < at)
"""


def save_in_process(*arguments):
    return subprocess.Popen([sys.executable, "-c", SAVE, *map(str, arguments)])


def next_save(folder):
    """Saves something else, again and again until it is the folder's turn to be looked through."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        io.save_npy(folder / "other", friendly.arange(3))
        if not any(name.startswith(".") for name in os.listdir(folder)):
            break
    return sorted(os.listdir(folder))


@pytest.fixture(params=["new", "replaced"])
def saved(request, tmp_path):
    """A path, what it may hold before a save, and a way to that state."""
    path = tmp_path / "saved"
    old = {"new": None, "replaced": [1.0, 1.0]}[request.param]

    def reset():
        if old is None:
            path.unlink(missing_ok=True)
        else:
            io.save_npy(path, friendly.tensor(old))

    return path, old, reset


def held(path):
    return friendly.to_list(io.load_npy(path)) if path.exists() else None


@pytest.mark.parametrize("files", ["unnamed", "named"])
def test_a_killed_save_leaves_nothing_after_the_next_one(saved, files):
    path, old, reset = saved
    new = [2.0] * 300
    left_something = 0
    for n in range(1, MOST_CALLS):
        reset()
        status = save_in_process(n, int(signal.SIGKILL), files, path).wait(60)
        left_something += any(name.startswith(".") for name in os.listdir(path.parent))
        assert held(path) in (old, new), f"call {n}"
        assert next_save(path.parent) == ["other", "saved"] if path.exists() else ["other"], f"call {n}"
        if status >= 0:
            assert status == 1 and held(path) == new and n > 8
            assert left_something == 0 if files == "unnamed" and old is None else left_something > 0
            return
        assert status == -signal.SIGKILL
    raise AssertionError("no clean run")


@pytest.mark.parametrize("files", ["unnamed", "named"])
def test_a_save_that_stands_still_ends_as_if_nothing_had_been(saved, files):
    path, _, reset = saved
    for n in range(1, MOST_CALLS):
        reset()
        process = save_in_process(n, int(signal.SIGSTOP), files, path)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        is_stopped = os.WIFSTOPPED(status)
        if is_stopped:
            for _ in range(3):
                io.save_npy(path.parent / "other", friendly.arange(3))
                time.sleep(0.005)
            os.kill(process.pid, signal.SIGCONT)
            _, status = os.waitpid(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == (0 if is_stopped else 1), f"call {n}"
        assert held(path) == [2.0] * 300
        assert not any(name.startswith(".") for name in os.listdir(path.parent)), f"call {n}"
        if not is_stopped:
            assert n > 8
            return
    raise AssertionError("no clean run")
