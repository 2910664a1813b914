"""Scripted system calls for tests of storage."""

import orlop._core


class Gate:
    """A place where a scripted call stops until someone lets it go on."""

    def __init__(self) -> None: ...

    def wait_entered(self, timeout: float) -> bool:
        """Waits up to `timeout` seconds for a call to arrive; whether one has."""

    def open(self) -> None:
        """Lets every call through, now and later."""

class IoScript:
    """
    System calls that follow a script: one step per pread, pwrite and reserve, in order; an
    exhausted list passes through. Steps: ('pass',), ('intr',), ('short', n), ('zero',),
    ('fail', errno), ('hold', gate). With fail_at=n the n-th call of any kind fails; with signal_at=n
    the process gets `signal` before it.
    """

    def __init__(self, read: object = (), write: object = (), reserve: object = (), open_errno: object = 0, close_errno: object = 0, *, fail_at: object = 0, fail_errno: object = 5, signal_at: object = 0, signal: object = 9) -> None: ...

    @property
    def calls(self) -> int:
        """Calls of every kind so far."""

    @property
    def opens(self) -> int: ...

    @property
    def reads(self) -> int: ...

    @property
    def writes(self) -> int: ...

    @property
    def closes(self) -> int: ...

    @property
    def reads_left(self) -> int:
        """Read steps not used yet."""

    @property
    def writes_left(self) -> int:
        """Write steps not used yet."""

class file_backed_io:
    """
    Context manager: files use `script` for their system calls, in every thread.
    """

    def __init__(self, script: IoScript) -> None: ...

    def __enter__(self) -> IoScript: ...

    def __exit__(self, *args) -> None: ...

def open_temporary_files() -> int:
    """How many descriptors of temporary files this process holds open."""

def open_block_device(path: object, *, capacity: object, logical: object = 512, physical: object = 4096, script: IoScript | None = None) -> orlop._core.BlockDevice:
    """
    A BlockDevice on the regular file `path`, with this geometry in bytes; its system calls follow
    `script`. The file must exist and hold the capacity.
    """
