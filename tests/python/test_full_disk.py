"""A file system without room: OSError before a value is lost, never a signal, and the next call works once there is
room again. In processes of their own, whose files lie on a small tmpfs."""

import os
import subprocess
import sys

import pytest

SIZE = 1 << 20

PROLOGUE = """if True:
    import errno, os, pathlib
    from orlop import CPU, DType, Evictable, FileBacked, Layout, Shape, Stride, Tensor, friendly, io, move, move_async
    from orlop._testing import IoScript, file_backed_io
    disk = pathlib.Path(os.environ["ORLOP_TMPDIR"])
    FLOAT, COUNT = DType.Float32, 100_000
    values = friendly.arange(COUNT)
    expected = friendly.to_list(values)
    prototype = FileBacked(dtype=FLOAT)
    session = prototype.path.parent

    def fill(left=0):
        filler = os.open(disk / "filler", os.O_CREAT | os.O_RDWR)
        room = os.statvfs(disk)
        os.posix_fallocate(filler, 0, os.fstat(filler).st_size + room.f_bavail * room.f_bsize - left or 1)
        os.close(filler)

    def free():
        os.unlink(disk / "filler")

    def refused(call):
        files = sorted(os.listdir(session))
        try:
            call()
        except OSError as error:
            assert error.errno == errno.ENOSPC and error.filename and "space" in str(error)
        else:
            raise AssertionError("there was room")
        assert sorted(os.listdir(session)) == files
"""

PROGRAMS = {
    "new storage": """
        for left in (0, 4096, 200_000):
            fill(left)
            refused(lambda: prototype.allocate_like(COUNT))
            refused(lambda: prototype.new_like(expected))
            free()
        assert prototype.new_like(expected)[COUNT - 1] == COUNT - 1
    """,
    "move": """
        for transfer in (move, lambda *given: move_async(*given).wait()):
            source, destination = Tensor(values.carrier.new_like(expected), 0, values.layout), FileBacked(dtype=FLOAT)
            fill(4096)
            refused(lambda: transfer(source, destination))
            assert friendly.to_list(source) == expected and destination.size() == 0 and destination.version == 0
            assert not source.carrier.is_owned() and not destination.is_owned()
            free()
            moved = transfer(source, destination)
            assert moved[COUNT - 1] == COUNT - 1
            del moved, source, destination
    """,
    "evict": """
        hierarchy = Evictable(values.carrier, prototype)
        fill(4096)
        refused(hierarchy.evict)
        assert not hierarchy.is_evicted() and friendly.to_list(Tensor(hierarchy, 0, values.layout)) == expected
        free()
        hierarchy.evict()
        fill()
        hierarchy.promote()
        assert friendly.to_list(Tensor(hierarchy, 0, values.layout)) == expected and hierarchy.version == 0
    """,
    "tiles": """
        from orlop import TiledEvictable, TileSet, relu
        tiled = TiledEvictable(values.carrier.new_like(expected), FileBacked(dtype=FLOAT), (10,), (COUNT // 10,))
        whole, two = Tensor(tiled, 0, values.layout), TileSet([(0,), (7,)])
        fill(4096)
        refused(lambda: tiled.evict(two))
        assert tiled.secondary_tiles == TileSet() and friendly.to_list(relu(whole)) == expected
        free()
        tiled.evict(two)
        fill()
        tiled.promote(two)
        tiled[0] = 5.0
        tiled.evict(two)  # the tiles have their blocks since they were there first
        assert tiled.secondary_tiles == two and friendly.to_list(relu(whole)) == [5.0, *expected[1:]]
    """,
    "slots": """
        carrier = prototype.allocate_like(COUNT)
        fill()
        for i in range(0, COUNT, 997):  # has its blocks since it was made
            carrier[i] = i
        assert all(carrier[i] == i for i in range(0, COUNT, 997)) and carrier.version == len(range(0, COUNT, 997))
    """,
    "zeros in place of a reservation": """
        fill(200_000)
        with file_backed_io(IoScript(reserve=[("fail", errno.EOPNOTSUPP)])):
            refused(lambda: prototype.allocate_like(COUNT))
        room = os.statvfs(disk)
        assert room.f_bavail * room.f_bsize >= 190_000
        free()
        assert prototype.allocate_like(COUNT)[COUNT - 1] == 0
    """,
    "array files": """
        io.save_npy(disk / "a.npy", friendly.arange(3))
        fill(200_000)
        names = sorted(os.listdir(disk))
        refused(lambda: io.save_npy(disk / "a.npy", values))
        refused(lambda: io.save_safetensors(disk / "a.npy", {"a": values}))
        assert sorted(os.listdir(disk)) == names and friendly.to_list(io.load_npy(disk / "a.npy")) == [0, 1, 2]
        free()
        io.save_npy(disk / "a.npy", values)
        fill()
        refused(lambda: io.load_npy(disk / "a.npy", carrier=prototype))
        assert friendly.to_list(io.load_npy(disk / "a.npy")) == expected
    """,
    "no room for a name": """
        names = []
        while os.statvfs(disk).f_favail:
            names.append(disk / str(len(names)))
            names[-1].touch()
        refused(lambda: FileBacked(dtype=FLOAT))
        refused(lambda: move(values, prototype.allocate_like(0)))
        assert friendly.to_list(values) == expected
        for name in names:
            name.unlink()
        assert move(values, prototype.allocate_like(0))[1] == 1.0
    """,
}


@pytest.fixture
def disk(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},nr_inodes=40", "orlop-test", str(tmp_path)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no program 'mount'")
    if mounted.returncode != 0:
        pytest.skip(f"this user may not mount a small file system: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_room(disk, name):
    ended = subprocess.run(
        [sys.executable, "-c", PROLOGUE + PROGRAMS[name].replace("\n    ", "\n")],
        env=os.environ | {"ORLOP_TMPDIR": str(disk)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not [entry for entry in os.listdir(disk) if entry.startswith(".")]
