"""Arrays in files: NumPy's .npy and safetensors, streamed to and from any carrier through a small buffer.

>>> import pathlib, tempfile
>>> import orlop
>>> from orlop import friendly, io
>>> folder = tempfile.TemporaryDirectory()
>>> path = pathlib.Path(folder.name, "weights.safetensors")
>>> io.save_safetensors(path, {"w": friendly.tensor([[1.0, 2.0], [3.0, 4.0]]), "b": friendly.zeros(2)})
>>> loaded = io.load_safetensors(path, carrier=orlop.FileBacked)  # straight into files, never whole in memory
>>> sorted(loaded), loaded["w"][1, 0], type(loaded["w"].carrier).__name__
(['b', 'w'], 3.0, 'FileBacked')
>>> folder.cleanup()

Files hold float32, int32 and bool. A save writes a temporary file beside its name and renames it: after an error
the old file is still there. Failed system calls are OSError, malformed files ValueError, other element types
TypeError.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping

from orlop._core import CPU, Carrier, FileBacked, Generic, Tensor, _array_files
from orlop.carriers.dtype import DType

__all__ = ["load_npy", "load_safetensors", "safetensors_metadata", "save_npy", "save_safetensors"]

_Path = str | bytes | os.PathLike
_Where = Carrier | type[Carrier] | None
_Progress = Callable[[int, int], object] | bool | None

# How to make an empty carrier of a class: what a load asks for more of the kind.
_PROTOTYPES = {
    CPU: lambda: CPU(0),
    FileBacked: lambda: FileBacked(dtype=DType.Float32),
    Generic: lambda: Generic([], dtype=DType.Float32),
}


def _prototype(carrier):
    if carrier is None or isinstance(carrier, Carrier):
        return carrier
    if isinstance(carrier, type) and carrier in _PROTOTYPES:
        return _PROTOTYPES[carrier]()
    allowed = ", ".join(kind.__name__ for kind in _PROTOTYPES)
    raise TypeError(f"[orlop.io] carrier must be a Carrier, or one of the classes {allowed}: got {carrier!r}")


class _Bar:
    """One line on a terminal: how much is done, redrawn when that shows."""

    def __init__(self, stream, path):
        self.stream, self.path, self.drawn = stream, path, None

    def __call__(self, done, total):
        percent = 100 * done // total
        if percent == self.drawn:
            return
        self.drawn = percent
        bar = "#" * (percent * 30 // 100)
        label = os.path.basename(os.fsdecode(self.path))
        self.stream.write(f"\r{label} [{bar:<30}] {percent:3d} %" + ("\n" if done == total else ""))
        self.stream.flush()


def _callback(progress, path):
    if progress is None or progress is False:
        return None
    if progress is True:
        stream = sys.stderr
        return _Bar(stream, path) if stream is not None and stream.isatty() else None
    if callable(progress):
        return progress
    raise TypeError(f"[orlop.io] progress must be a callable, a bool or None: got {type(progress).__name__}")


def load_npy(path: _Path, *, carrier: _Where = None, progress: _Progress = None) -> Tensor:
    """The array of a .npy file as a Tensor.

    Its layout is the file's order over contiguous slots: row-major, or first mode fastest where the file says
    fortran_order. Either byte order loads.

    :param carrier: a carrier whose kind the storage shall be of, or CPU, FileBacked, Generic; CPU by default
    :param progress: called with (bytes done, bytes in all) after each block; True draws a bar on a terminal

    >>> import pathlib, tempfile
    >>> from orlop import friendly, io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.npy")
    ...     io.save_npy(path, friendly.tensor([[1, 2], [3, 4]]))
    ...     stored = io.load_npy(path, carrier=orlop.FileBacked)
    >>> stored[1, 0], type(stored.carrier).__name__
    (3.0, 'FileBacked')
    """
    return _array_files.load_npy(path, _prototype(carrier), _callback(progress, path))


def save_npy(path: _Path, tensor: Tensor, *, progress: _Progress = None) -> None:
    """Writes a Tensor of any carrier and layout as a .npy file; nested modes as their leaves.

    The file is called exactly `path`, whatever its ending.

    >>> import pathlib, tempfile
    >>> from orlop import friendly, io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.save_npy(pathlib.Path(folder, "a.npy"), friendly.ones(2))
    ...     [path.name for path in pathlib.Path(folder).iterdir()]
    ['a.npy']
    """
    _array_files.save_npy(path, tensor, _callback(progress, path))


def load_safetensors(
    path: _Path, names: Iterable[str] | None = None, *, carrier: _Where = None, progress: _Progress = None
) -> dict[str, Tensor]:
    """The arrays of a safetensors file as a dict of row-major Tensors: all in the order of their bytes, or `names`.

    KeyError for a name that the file lacks. `carrier` and `progress` as in load_npy.

    >>> import pathlib, tempfile
    >>> from orlop import friendly, io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.safetensors")
    ...     io.save_safetensors(path, {"a": friendly.ones(2), "b": friendly.zeros(3)})
    ...     loaded = io.load_safetensors(path, ["b"])
    >>> list(loaded), loaded["b"].shape
    (['b'], (3,))
    """
    return _array_files.load_safetensors(path, names, _prototype(carrier), _callback(progress, path))


def safetensors_metadata(path: _Path) -> dict[str, str]:
    """The dict of texts that a safetensors file holds beside its arrays.

    >>> import pathlib, tempfile
    >>> from orlop import friendly, io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.safetensors")
    ...     io.save_safetensors(path, {"a": friendly.ones(2)}, metadata={"format": "pt"})
    ...     io.safetensors_metadata(path)
    {'format': 'pt'}
    """
    return _array_files.safetensors_metadata(path)


def save_safetensors(
    path: _Path,
    tensors: Mapping[str, Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
    progress: _Progress = None,
) -> None:
    """Writes a mapping of names to Tensors, of any carriers and layouts, as a safetensors file.

    >>> import pathlib, tempfile
    >>> from orlop import friendly, io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.safetensors")
    ...     io.save_safetensors(path, {"a": friendly.ones(2)})
    ...     io.load_safetensors(path)["a"].shape
    (2,)
    >>> io.save_safetensors("model.safetensors", friendly.ones(2))
    Traceback (most recent call last):
        ...
    TypeError: [save_safetensors] tensors must be a mapping of names to Tensors: got Tensor
    """
    try:
        named = dict(tensors)
    except (TypeError, ValueError) as error:
        given = type(tensors).__name__
        raise TypeError(f"[save_safetensors] tensors must be a mapping of names to Tensors: got {given}") from error
    try:
        metadata = {} if metadata is None else dict(metadata)
    except (TypeError, ValueError) as error:
        given = type(metadata).__name__
        raise TypeError(f"[save_safetensors] metadata must be a mapping of texts to texts: got {given}") from error
    _array_files.save_safetensors(path, named, metadata, _callback(progress, path))
