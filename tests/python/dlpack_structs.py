"""DLPack's structs in ctypes: a producer and a consumer that do exactly what a test says."""

import ctypes


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("version", Version),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

FLOAT, INT, BOOL = (2, 32, 1), (0, 32, 1), (6, 8, 1)
NAMES = {Managed: b"dltensor", ManagedVersioned: b"dltensor_versioned"}
USED_NAMES = {name: b"used_" + name for name in NAMES.values()}  # a capsule keeps no copy of its name


def name_of(capsule):
    return _api.PyCapsule_GetName(capsule)


def managed_of(capsule):
    """The struct in a capsule."""
    kind = ManagedVersioned if b"versioned" in name_of(capsule) else Managed
    return kind.from_address(_api.PyCapsule_GetPointer(capsule, name_of(capsule)))


def consume(capsule):
    """Takes the struct over as a consumer does; the deleter is then the caller's to call."""
    managed = managed_of(capsule)
    _api.PyCapsule_SetName(capsule, USED_NAMES[name_of(capsule)])
    return managed


def delete(managed):
    managed.deleter(ctypes.addressof(managed))


# A consumer uses the struct and its callback for as long as it likes: they live for ever.
_producers = []


class Producer:
    """Speaks DLPack over the memory at `address`; counts its deleter's calls."""

    def __init__(
        self, address, shape, strides=None, *, dtype=FLOAT, kind=ManagedVersioned, flags=0, major=1, ndim=None,
        byte_offset=0, device=(1, 0), capsule_name=None, on_delete=lambda: None
    ):  # fmt: skip
        self.deleted, self.device, self.on_delete = 0, device, on_delete
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        pointer = ctypes.POINTER(ctypes.c_int64)
        self.managed = kind()
        self.managed.tensor = DLTensor(
            address,
            Device(*device),
            len(shape) if ndim is None else ndim,
            DataType(*dtype),
            ctypes.cast(self.shape, pointer),
            pointer() if strides is None else ctypes.cast(self.strides, pointer),
            byte_offset,
        )
        if kind is ManagedVersioned:
            self.managed.version, self.managed.flags = Version(major, 0), flags
        self.managed.deleter = self.keep = DELETER(self._delete)
        self.name = capsule_name or NAMES[kind]
        self.requests = []
        _producers.append(self)

    def _delete(self, _):
        self.deleted += 1
        self.on_delete()

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.requests.append(options)
        return _api.PyCapsule_New(ctypes.addressof(self.managed), self.name, None)
