"""FileBacked from Python: construction, values, factories, lifetime of its file, faults, forks, many carriers."""

import array
import errno
import gc
import os
import pathlib
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading

import orlop
import pytest
from orlop import DType, FileBacked
from orlop._testing import Gate, IoScript, file_backed_io, open_temporary_files

FLOAT, INT = DType.Float32, DType.Int32
CATEGORIES = [DType.Any, DType.Floating, DType.Integer]


def session():
    """The session directory of this process."""
    return FileBacked(dtype=FLOAT).path.parent


def files():
    gc.collect()  # a caught exception keeps the carriers of its frames until then
    return sorted(session().iterdir())


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def grown(values, dtype=FLOAT, **options):
    return FileBacked(dtype=dtype).new_like(values, **options)


def content(carrier, code="f"):
    return array.array(code, carrier.path.read_bytes()).tolist()


def values(carrier):
    return [carrier[i] for i in range(carrier.size())]


def run_child(code, base, check=True):
    """Runs `code` in a fresh interpreter whose session directory lies in `base`."""
    environment = dict(os.environ, ORLOP_TMPDIR=str(base), PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert not check or result.returncode == 0, result.stderr
    return result


@pytest.fixture
def quick_path(tmp_path):
    """A place in memory where there is one: ten thousand small files keep a disk's journal busy."""
    if not os.path.isdir("/dev/shm"):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield pathlib.Path(path)


def sessions(base):
    return list(pathlib.Path(base).glob(".orlop-filebacked-*"))


# --- Construction ---------------------------------------------------------------------------------------


def test_storage_generate_file_backed_storage():
    first, second = FileBacked(dtype=FLOAT), FileBacked(dtype=FLOAT)
    for carrier in (first, second):
        assert carrier.size() == 0 and carrier.dtype() is FLOAT and carrier.is_mutable() and carrier.version == 0
        assert isinstance(carrier.path, pathlib.Path) and carrier.path.stat().st_size == 0
        assert carrier.path.parent.name.startswith(f".orlop-filebacked-{os.getpid()}-")
    assert first.path != second.path


def test_storage_require_the_keyword_only_dtype_before_file_creation():
    before = files()
    for call in (lambda: FileBacked(), lambda: FileBacked("missing-dtype"), lambda: FileBacked(mutable=False)):
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'dtype'"):
            call()
    for call in (lambda: FileBacked("positional", FLOAT), lambda: FileBacked(None, FLOAT), lambda: FileBacked("a", "b", FLOAT)):
        with pytest.raises(TypeError, match="positional argument"):
            call()
    assert files() == before


def test_storage_reject_a_path_like_filename(tmp_path):
    before = files()
    for name in (str(tmp_path / "requested"), "a/b", "/", "./x", "", ".", "..", "a\0b"):
        with pytest.raises(ValueError, match="bare file name"):
            FileBacked(name, dtype=FLOAT)
    assert files() == before and not any(tmp_path.iterdir())


def test_storage_reject_category_backed_file_storage():
    extension = orlop.DTypeCategory("FileBackedTestCategory", supertype=DType.Floating, opaque_storage=True)
    before = files()
    for category in (*CATEGORIES, extension):
        with pytest.raises(ValueError, match="FileBacked dtype must be DType.Float32 or DType.Int32"):
            FileBacked("category", dtype=category)
    assert files() == before


def test_other_descriptors_are_refused_before_the_file_exists():
    before = files()
    for dtype in (DType.Bool, DType.Float64, DType.Int8, DType.E4M3):
        with pytest.raises(ValueError, match="must be DType.Float32 or DType.Int32"):
            FileBacked(dtype=dtype)
    with pytest.raises(ValueError, match="multi-plane"):
        FileBacked(dtype=DType.from_name("MXFP4"))
    for dtype in ("Float32", float, None, 32):
        with pytest.raises(TypeError, match="FileBacked dtype must be a DType"):
            FileBacked(dtype=dtype)
    assert files() == before


@pytest.mark.parametrize("filename", [b"bytes", 3, pathlib.Path("x"), ["a"]])
def test_a_filename_is_a_str_or_none(filename):
    with pytest.raises(TypeError, match="filename must be a str"):
        FileBacked(filename, dtype=FLOAT)


@pytest.mark.parametrize("mutable", [1, 0, None, "yes"])
def test_mutable_is_exactly_a_bool(mutable):
    with pytest.raises(TypeError, match="mutable"):
        FileBacked(mutable=mutable, dtype=FLOAT)


def test_a_named_file_is_made_once():
    carrier = FileBacked("weights", dtype=INT, mutable=False)
    assert carrier.path.name == "weights" and not carrier.is_mutable()
    with pytest.raises(FileExistsError) as caught:
        FileBacked("weights", dtype=INT)
    assert caught.value.errno == errno.EEXIST and caught.value.filename == str(carrier.path)
    assert carrier.path.exists()
    carrier.release()
    FileBacked("weights", dtype=INT)


def test_names_beyond_ascii_and_beyond_utf_8_round_trip():
    for name in ("größe 🗄", "\udcff\udc80"):
        carrier = FileBacked(name, dtype=FLOAT)
        assert carrier.path.name == name and carrier.path.exists()
        with pytest.raises(FileExistsError) as caught:
            FileBacked(name, dtype=FLOAT)
        assert caught.value.filename == str(carrier.path)


def test_a_name_that_is_too_long_is_the_kernels_error():
    with pytest.raises(OSError) as caught:
        FileBacked("x" * 300, dtype=FLOAT)
    assert caught.value.errno == errno.ENAMETOOLONG


def test_file_backed_is_closed():
    with pytest.raises(TypeError, match="closed carrier implementation"):
        type("Mine", (FileBacked,), {})


def test_support_is_structural():
    carrier = FileBacked(dtype=INT)
    supported = [dtype for dtype in DType.registered() if carrier.supports_storage_dtype(dtype)]
    assert supported == [dtype for dtype in DType.registered() if dtype in (DType.Floating, FLOAT, INT)]
    carrier.release()
    assert carrier.supports_storage_dtype(DType.Floating)
    with pytest.raises(TypeError):
        carrier.supports_storage_dtype("Float32")


# --- Values ---------------------------------------------------------------------------------------------


def test_slots_are_native_binary32_and_int32():
    floats = grown([0.1, 1e60, -0.0, 2, True])
    assert struct.unpack("=5f", floats.path.read_bytes())[1:] == (float("inf"), -0.0, 2.0, 1.0)
    assert floats[0] == struct.unpack("f", struct.pack("f", 0.1))[0] and type(floats[3]) is float
    integers = grown([-(2**31), 2**31 - 1], INT)
    assert integers.path.read_bytes() == struct.pack("=2i", -(2**31), 2**31 - 1)
    assert values(integers) == [-(2**31), 2**31 - 1] and type(integers[0]) is int


def test_writes_normalize_last_and_advance_the_version_once():
    carrier = grown([0, 0, 0], INT)
    carrier[1] = 7
    carrier.set_value(2, 8)
    assert carrier.version == 2 and content(carrier, "i") == [0, 7, 8]
    for value, error in ((1.0, TypeError), (True, TypeError), ("1", TypeError), (2**31, OverflowError), (None, TypeError)):
        with pytest.raises(error):
            carrier[0] = value
        with pytest.raises(error):
            carrier.set_value(0, value)
    for index, error in ((3, IndexError), (-1, IndexError), (2**70, IndexError), ("a", TypeError), (1.0, TypeError)):
        with pytest.raises(error):
            carrier[index] = object()
        with pytest.raises(error):
            carrier[index]
    assert carrier.version == 2 and content(carrier, "i") == [0, 7, 8]


def test_an_immutable_carrier_refuses_writes():
    carrier = grown([1.0], mutable=False)
    with pytest.raises(RuntimeError, match="not mutable"):
        carrier[0] = 2.0
    with pytest.raises(RuntimeError, match="not mutable"):
        carrier.set_value(5, 2.0)
    assert values(carrier) == [1.0] and carrier.version == 0


def test_a_file_cut_short_from_outside_is_a_runtime_error():
    carrier = grown([1.0, 2.0])
    os.truncate(carrier.path, 6)
    with pytest.raises(RuntimeError, match="completed 2 of 4 bytes"):
        carrier[1]
    with pytest.raises(RuntimeError, match="completed 2 of 4 bytes"):
        carrier[1] = 1.0
    assert carrier.version == 0 and carrier.path.stat().st_size == 6


def test_a_missing_file_is_an_os_error_when_it_is_opened_again():
    carrier = grown([1.0])
    carrier.path.unlink()
    others = [FileBacked(dtype=FLOAT) for _ in range(64)]
    with pytest.raises(FileNotFoundError):
        carrier[0]
    carrier.release()
    assert carrier.is_released() and len(others) == 64


# --- Factories ------------------------------------------------------------------------------------------


def test_factories_preserve_or_override_the_dtype():
    carrier = FileBacked(dtype=FLOAT)
    carrier.release()
    same = carrier.new_like(iter([1, None, 2.5]))
    assert type(same) is FileBacked and same.dtype() is FLOAT and values(same) == [1.0, 0.0, 2.5]
    other = carrier.new_like([1, None], dtype=INT, mutable=False)
    assert other.dtype() is INT and values(other) == [1, 0] and not other.is_mutable()
    for empty in (False, True):
        zeros = carrier.allocate_like(3, dtype=INT, empty=empty)
        assert zeros.dtype() is INT and values(zeros) == [0, 0, 0] and zeros.version == 0


def test_failed_factories_leave_no_file():
    carrier = FileBacked(dtype=FLOAT)
    before = files()

    def broken():
        yield 1.0
        raise KeyError("mine")

    for error, call in (
        (TypeError, lambda: carrier.new_like(3)),
        (TypeError, lambda: carrier.new_like(["a"])),
        (TypeError, lambda: carrier.new_like([1.5], dtype=INT)),
        (OverflowError, lambda: carrier.new_like([2**31], dtype=INT)),
        (KeyError, lambda: carrier.new_like(broken())),
        (TypeError, lambda: carrier.new_like([], mutable=1)),
        (TypeError, lambda: carrier.new_like([], dtype="Float32")),
        (TypeError, lambda: carrier.allocate_like(1.0)),
        (TypeError, lambda: carrier.allocate_like(1, empty=0)),
        (ValueError, lambda: carrier.allocate_like(-1)),
        (OverflowError, lambda: carrier.allocate_like(2**62)),
        (OverflowError, lambda: carrier.allocate_like(2**70)),
        (OSError, lambda: carrier.allocate_like(2**60)),
        *((ValueError, lambda d=d: carrier.new_like([], dtype=d)) for d in CATEGORIES),
        *((ValueError, lambda d=d: carrier.allocate_like(0, dtype=d)) for d in CATEGORIES),
    ):
        with pytest.raises(error):
            call()
    assert files() == before


def test_an_empty_factory_result_makes_its_file_when_first_looked_at():
    carrier = FileBacked(dtype=FLOAT)
    before = files()
    lazy = carrier.allocate_like(0)
    assert files() == before
    assert lazy.path.exists() and lazy.path == lazy.path
    unseen = carrier.new_like([])
    unseen.release()
    with pytest.raises(RuntimeError, match="released"):
        unseen.path  # noqa: B018


# --- The file's lifetime --------------------------------------------------------------------------------


def test_release_and_deletion_remove_the_file():
    carrier = grown([1.0])
    path = carrier.path
    assert carrier.release() is None and carrier.release() is None
    assert carrier.is_released() and not path.exists() and carrier.path == path and carrier.dtype() is FLOAT
    for call in (lambda: carrier[0], lambda: carrier.get_value(0), lambda: carrier.set_value(0, 1.0)):
        with pytest.raises(RuntimeError, match="released"):
            call()
    dropped = grown([1.0])
    path = dropped.path
    del dropped
    assert not path.exists()


def test_a_normal_exit_removes_the_session_directory(tmp_path):
    run_child(
        """
        import orlop
        keep = orlop.FileBacked("kept", dtype=orlop.DType.Float32)
        cycle = [keep]; cycle.append(cycle)
        orlop.live_for_ever = cycle
        assert keep.path.exists()
        """,
        tmp_path,
    )
    assert sessions(tmp_path) == []


def test_modes_are_private_under_an_open_umask(tmp_path):
    run_child(
        """
        import os, orlop, stat
        os.umask(0)
        path = orlop.FileBacked(dtype=orlop.DType.Float32).new_like([1.0]).path
        carrier = orlop.FileBacked(dtype=orlop.DType.Float32)
        assert stat.S_IMODE(carrier.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(carrier.path.parent.stat().st_mode) == 0o700
        """,
        tmp_path,
    )


def test_kill_9_leaves_nothing_after_the_next_start_and_live_directories_stay(tmp_path):
    code = """
        import orlop, os, signal
        keep = [orlop.FileBacked(dtype=orlop.DType.Float32).new_like([1.0] * 1000) for _ in range(20)]
    """
    environment = dict(os.environ, ORLOP_TMPDIR=str(tmp_path), PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    live = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code) + "print(flush=True); input()"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    live.stdout.readline()
    (kept,) = sessions(tmp_path)
    killed = run_child(code + "    os.kill(os.getpid(), signal.SIGKILL)", tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL and len(sessions(tmp_path)) == 2
    run_child("import orlop; orlop.FileBacked(dtype=orlop.DType.Int32)", tmp_path)
    assert sessions(tmp_path) == [kept] and len(list(kept.iterdir())) == 20
    live.communicate(b"\n", timeout=60)
    assert live.returncode == 0 and sessions(tmp_path) == []


def test_a_place_that_does_not_exist_is_named(tmp_path):
    result = run_child(
        """
        import orlop
        try:
            orlop.FileBacked(dtype=orlop.DType.Float32)
        except FileNotFoundError as error:
            assert "missing" in error.filename and "ORLOP_TMPDIR" in str(error), error
        else:
            raise AssertionError
        """,
        tmp_path / "missing",
    )
    assert result.returncode == 0


def test_a_forked_child_reads_and_deletes_nothing(tmp_path):
    run_child(
        """
        import os, orlop
        F = orlop.DType.Float32
        kept = orlop.FileBacked(dtype=F).new_like([0.25])
        dropped = orlop.FileBacked(dtype=F)
        empty = dropped.allocate_like(0)
        path = dropped.path
        child = os.fork()
        if child == 0:
            assert kept[0] == 0.25 and not kept.is_mutable()
            for call in (lambda: kept.set_value(0, 1.0), lambda: kept.__setitem__(0, 1.0), lambda: empty.path):
                try:
                    call()
                except RuntimeError as error:
                    assert "fork" in str(error), error
                else:
                    raise AssertionError
            kept.release()
            del dropped
            assert kept.is_released() and kept.path.exists() and path.exists()
            own = kept.allocate_like(2)
            own[0] = 3.0
            assert own.path.parent != path.parent
            raise SystemExit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert kept.path.exists() and path.exists() and kept[0] == 0.25
        kept[0] = 1.0
        """,
        tmp_path,
    )
    assert sessions(tmp_path) == []


# --- Dispatch -------------------------------------------------------------------------------------------


def test_scatter_is_not_implemented():
    with pytest.raises(NotImplementedError):
        source = FileBacked(dtype=FLOAT).new_like([1.0])
        layout = orlop.Layout(orlop.Shape(1), orlop.Stride(1))
        tensor = orlop.Tensor(source, 0, layout)
        source.scatter(tensor, tensor, layout)


def test_dispatch_refuse_filebacked_computation():
    carrier = grown([1.0, 2.0])
    before = values(carrier), carrier.version
    for name in ("add", "matmul", "reduce_sum", "relu", "scatter", "nonsense"):
        with pytest.raises(NotImplementedError, match=name):
            carrier.dispatch_op(name)
    assert carrier.operation_capabilities() == () and (values(carrier), carrier.version) == before


def test_views_are_dispatched():
    carrier = grown([0.0, 1.0, 2.0, 3.0])
    tensor = orlop.Tensor(carrier, 0, orlop.Layout(orlop.Shape(4), orlop.Stride(1)))
    with orlop.no_grad():
        window = tensor[1:3]
    assert window.carrier is carrier and window.offset == 1 and carrier.version == 0
    assert [window[0], window[1]] == [1.0, 2.0]


def test_dlpack_is_not_supported():
    with pytest.raises(BufferError, match="not supported"):
        FileBacked(dtype=FLOAT).dlpack_info()


# --- Faults ---------------------------------------------------------------------------------------------


def test_interrupted_and_short_calls_are_continued():
    carrier = grown([0.0, 0.0])
    script = IoScript(read=[("short", 1), ("intr",)], write=[("intr",), ("short", 3), ("short", 1)])
    with file_backed_io(script) as same:
        carrier[1] = 1.5
        assert same is script and carrier[1] == 1.5
    assert script.writes == 3 and script.writes_left == 0 and script.reads_left == 0


def test_a_failed_write_puts_the_old_bytes_back():
    carrier = grown([0.1])
    old = carrier.path.read_bytes()
    with file_backed_io(IoScript(write=[("short", 3), ("fail", errno.EIO)])):
        with pytest.raises(OSError) as caught:
            carrier[0] = -7.25
    assert caught.value.errno == errno.EIO and caught.value.filename == str(carrier.path)
    for part in ("write", "4 bytes", "offset 0", os.strerror(errno.EIO)):
        assert part in str(caught.value)
    assert carrier.version == 0 and carrier.path.read_bytes() == old
    with file_backed_io(IoScript(write=[("short", 3), ("fail", errno.EIO), ("fail", errno.EIO)])):
        with pytest.raises(OSError):
            carrier[0] = -7.25
    assert carrier.version == 1


def test_no_space_before_the_first_byte_changes_nothing():
    carrier = grown([0.1])
    before = files()
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        script = IoScript(write=[("fail", code)], reserve=[("fail", code)])
        with file_backed_io(script):
            with pytest.raises(OSError) as caught:
                carrier[0] = 1.0
            assert caught.value.errno == code and script.writes == 1
            with pytest.raises(OSError) as caught:
                carrier.allocate_like(1000)
            assert caught.value.errno == code and "ORLOP_TMPDIR" in str(caught.value)
    assert carrier.version == 0 and files() == before


def test_zeros_are_written_where_blocks_cannot_be_reserved():
    script = IoScript(reserve=[("fail", errno.EOPNOTSUPP)], write=[("short", 100)])
    carrier = FileBacked(dtype=INT)
    with file_backed_io(script):
        zeros = carrier.allocate_like(1000)
    assert content(zeros, "i") == [0] * 1000 and script.writes == 2


def lifetime():
    """Every kind of call of a carrier's life."""
    carrier = FileBacked(dtype=FLOAT)
    copy = carrier.new_like([1.0, 2.0, 3.0])
    copy[1] = 0.5
    assert values(copy) == [1.0, 0.5, 3.0]
    zeros = copy.allocate_like(2, dtype=INT)
    assert values(zeros) == [0, 0]
    for each in (carrier, copy, zeros):
        each.release()


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_any_system_call_may_fail(code):
    before, opened = files(), descriptors()
    failures = 0
    for n in range(1, 200):
        script = IoScript(fail_at=n, fail_errno=code)
        try:
            with file_backed_io(script):
                lifetime()
        except OSError as error:
            assert error.errno == code
            failures += 1
            del error
        lifetime()
        assert files() == before and descriptors() <= opened  # with EMFILE idle descriptors are closed
        if script.calls < n:
            break
    else:
        pytest.fail("no run passed")
    assert failures >= 15


def test_a_blocked_read_leaves_other_threads_running():
    carrier, gate, seen = grown([2.5]), Gate(), []
    with file_backed_io(IoScript(read=[("hold", gate)])):
        reader = threading.Thread(target=lambda: seen.append(carrier[0]))
        reader.start()
        assert gate.wait_entered(60)
        assert seen == [] and carrier[0] == 2.5
        gate.open()
        reader.join(60)
    assert seen == [2.5]


def test_releasing_during_a_blocked_read_is_safe():
    carrier, gate, seen = grown([2.5]), Gate(), []
    with file_backed_io(IoScript(read=[("hold", gate)])):
        reader = threading.Thread(target=lambda: seen.append(carrier[0]))
        reader.start()
        assert gate.wait_entered(60)
        carrier.release()
        assert not carrier.path.exists()
        gate.open()
        reader.join(60)
    assert seen == [2.5]


def test_ten_thousand_carriers_live_under_a_thousand_descriptors(quick_path):
    run_child(
        """
        import orlop, resource
        from orlop._testing import open_temporary_files
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
        prototype = orlop.FileBacked(dtype=orlop.DType.Int32)
        carriers = [prototype.new_like([i]) for i in range(10_000)]
        assert open_temporary_files() <= 64
        assert [c[0] for c in carriers] == list(range(10_000))
        assert open_temporary_files() <= 64
        """,
        quick_path,
    )
    assert sessions(quick_path) == []


def test_descriptors_stay_flat():
    opened = descriptors()
    for _ in range(300):
        grown([1.0])
    assert descriptors() <= opened + 1 and open_temporary_files() <= 64
