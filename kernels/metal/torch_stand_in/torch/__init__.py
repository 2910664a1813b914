"""A stand-in for PyTorch while kernels are generated: TileLang imports it, code generation never calls it."""

import importlib.abc
import importlib.machinery
import sys
import types


class _Absent(type):
    """What every name of the stand-in is: attributes, items and calls give it again, and it is false."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *args, **kwargs):
        return cls

    def __getitem__(cls, key):
        return cls

    def __or__(cls, other):
        return cls

    def __bool__(cls):
        return False


class Absent(metaclass=_Absent):
    pass


class _Module(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        # Classes stay classes, since isinstance asks for them.
        return type(name, (), {}) if name[0].isupper() or name == "dtype" else Absent


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if not name.startswith("torch."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, _Finder())
sys.modules[__name__].__class__ = _Module
__version__ = "2.9.0"
