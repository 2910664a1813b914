"""The channels orlop.io and orlop.residency: silent by default, complete for whoever listens."""

import logging
import os
import subprocess
import sys

import pytest
from orlop import CPU, DType, Evictable, FileBacked
from orlop._testing import IoScript, open_block_device


def test_transitions_are_told(caplog):
    hierarchy = Evictable(CPU(3), FileBacked(dtype=DType.Float32))
    with caplog.at_level(logging.DEBUG, "orlop.residency"):
        hierarchy.evict()
        hierarchy.evict()
        hierarchy.promote()
        hierarchy.release()
    assert [(record.name, record.levelno) for record in caplog.records] == [("orlop.residency", logging.DEBUG)] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "Evictable: evicted 3 Float32 slots from CPU to FileBacked",
        "Evictable: promoted 3 Float32 slots from FileBacked to CPU",
        "Evictable: released 3 Float32 slots",
    ]


def test_files_and_devices_are_told(caplog, tmp_path):
    node = tmp_path / "node"
    node.write_bytes(bytes(1 << 16))
    with caplog.at_level(logging.DEBUG, "orlop.io"):
        file = FileBacked(dtype=DType.Float32)
        path = file.path
        file.release()
        device = open_block_device(node, capacity=1 << 16, script=IoScript(write=[("fail", 5)]))
        for _ in range(2):
            with pytest.raises((OSError, RuntimeError)):
                device.allocate(1)
        device.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"FileBacked: made '{path}'",
        f"FileBacked: removed '{path}'",
        f"BlockDevice: opened '{node}' of 65536 bytes",
        f"BlockDevice: faulted '{node}'",
        f"BlockDevice: closed '{node}'",
    ]


def test_nothing_is_shown_by_default(caplog):
    code = """if True:
        from orlop import CPU, DType, Evictable, FileBacked
        import sys
        assert "logging" not in sys.modules
        Evictable(CPU(1), FileBacked(dtype=DType.Float32)).evict()
        import logging
        Evictable(CPU(1), FileBacked(dtype=DType.Float32)).evict()
    """
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Raising(logging.Handler):
    def emit(self, record):
        raise ZeroDivisionError


def test_a_listener_that_raises_does_not_disturb(monkeypatch, caplog):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(unraisable.exc_type))
    logger, handler = logging.getLogger("orlop.residency"), Raising()
    logger.addHandler(handler)
    try:
        hierarchy = Evictable(CPU(1), FileBacked(dtype=DType.Float32))
        with caplog.at_level(logging.DEBUG, "orlop.residency"):
            hierarchy.evict()
        assert hierarchy.is_evicted()
    finally:
        logger.removeHandler(handler)
    assert raised == [ZeroDivisionError]
