"""Scripted system calls for tests of storage code: interruptions, short transfers, failures, held calls.

>>> from orlop._testing import IoScript, file_backed_io
>>> script = IoScript(write=[("intr",), ("short", 3)])
>>> with file_backed_io(script):
...     pass  # files written here see an interrupted call, then one of three bytes
>>> script.writes, script.writes_left
(0, 2)
"""

from orlop._core.testing import Gate, IoScript, file_backed_io, open_block_device, open_temporary_files

__all__ = ["Gate", "IoScript", "file_backed_io", "open_block_device", "open_temporary_files"]
