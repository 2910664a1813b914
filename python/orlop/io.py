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

    def __init__(self, stream, label):
        self.stream, self.label, self.drawn = stream, label, None

    def __call__(self, done, total):
        percent = 100 * done // total
        if percent == self.drawn:
            return
        self.drawn = percent
        bar = "#" * (percent * 30 // 100)
        self.stream.write(f"\r{self.label} [{bar:<30}] {percent:3d} %" + ("\n" if done == total else ""))
        self.stream.flush()


def _callback(progress, path):
    if progress is None or progress is False:
        return None
    if progress is True:
        stream = sys.stderr
        return _Bar(stream, os.path.basename(os.fsdecode(path))) if stream is not None and stream.isatty() else None
    if callable(progress):
        return progress
    raise TypeError(f"[orlop.io] progress must be a callable, a bool or None: got {type(progress).__name__}")


def load_npy(path: _Path, *, carrier: _Where = None, progress: _Progress = None) -> Tensor:
    """The array of a .npy file as a Tensor.

    Its layout is the file's order over contiguous slots: row-major, or first mode fastest where the file says
    fortran_order. Either byte order loads.

    :param carrier: a carrier whose kind the storage shall be of, or CPU, FileBacked, Generic; CPU by default
    :param progress: called with (bytes done, bytes in all) after each block; True draws a bar on a terminal
    """
    path = os.fspath(path)
    return _array_files.load_npy(os.fsencode(path), _prototype(carrier), _callback(progress, path))


def save_npy(path: _Path, tensor: Tensor, *, progress: _Progress = None) -> None:
    """Writes a Tensor of any carrier and layout as a .npy file; nested modes as their leaves.

    The file is called exactly `path`, whatever its ending.
    """
    path = os.fspath(path)
    _array_files.save_npy(os.fsencode(path), tensor, _callback(progress, path))


def load_safetensors(
    path: _Path, names: Iterable[str] | None = None, *, carrier: _Where = None, progress: _Progress = None
) -> dict[str, Tensor]:
    """The arrays of a safetensors file as a dict of row-major Tensors: all in the order of their bytes, or `names`.

    KeyError for a name that the file lacks. `carrier` and `progress` as in load_npy.
    """
    path = os.fspath(path)
    return _array_files.load_safetensors(os.fsencode(path), names, _prototype(carrier), _callback(progress, path))


def safetensors_metadata(path: _Path) -> dict[str, str]:
    """The dict of texts that a safetensors file holds beside its arrays."""
    return _array_files.safetensors_metadata(os.fsencode(os.fspath(path)))


def save_safetensors(
    path: _Path,
    tensors: Mapping[str, Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
    progress: _Progress = None,
) -> None:
    """Writes a mapping of names to Tensors, of any carriers and layouts, as a safetensors file."""
    path = os.fspath(path)
    try:
        named = dict(tensors)
    except (TypeError, ValueError) as error:
        given = type(tensors).__name__
        raise TypeError(f"[save_safetensors] tensors must be a mapping of names to Tensors: got {given}") from error
    metadata = {} if metadata is None else dict(metadata)
    _array_files.save_safetensors(os.fsencode(path), named, metadata, _callback(progress, path))
