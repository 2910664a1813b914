"""The parts of a tensor: one subtensor per plane of its dtype, and the layouts between neighbouring planes (M406)."""

from dataclasses import dataclass

from orlop import _core
from orlop.carriers.dtype import DType

__all__ = ["Subtensor", "TensorRepresentation"]


@dataclass(frozen=True)
class Subtensor:
    """One plane: element i of ``layout`` lies in slot ``offset + layout(i)`` of ``carrier``, whose dtype is ``dtype``."""

    dtype: object
    carrier: object
    offset: object
    layout: object


@dataclass(frozen=True)
class TensorRepresentation:
    """What a tensor of ``logical_dtype`` refers to.

    ``adjacent_layouts[i]`` maps a coordinate of plane i to an ordinal of plane i + 1. Checked in the order of M407:
    TypeError for parts of other types, ValueError for counts, dtypes, bounds and shapes, and what the rules raise.
    """

    logical_dtype: object
    subtensors: tuple
    adjacent_layouts: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "subtensors", tuple(self.subtensors))
        object.__setattr__(self, "adjacent_layouts", tuple(self.adjacent_layouts))
        if not isinstance(self.logical_dtype, DType):
            raise TypeError(f"[TensorRepresentation] logical dtype must be a DType: got {self.logical_dtype!r}")
        for entry in self.subtensors:
            if not isinstance(entry, Subtensor):
                raise TypeError(f"[TensorRepresentation] subtensors must be Subtensor records: got {type(entry).__name__}")
        _core.check_representation(self.logical_dtype, self.subtensors, self.adjacent_layouts)

    @classmethod
    def _checked_before(cls, logical_dtype, subtensors, adjacent_layouts):
        """The representation of a tensor that exists, also where its carriers are released by now."""
        self = cls.__new__(cls)
        object.__setattr__(self, "logical_dtype", logical_dtype)
        object.__setattr__(self, "subtensors", subtensors)
        object.__setattr__(self, "adjacent_layouts", adjacent_layouts)
        return self

    @property
    def primary(self):
        """Subtensor 0."""
        return self.subtensors[0]

    @property
    def is_single_subtensor(self):
        return len(self.subtensors) == 1

    def _version_token(self):
        """(carrier identity, version) of each carrier once, by first occurrence (M408)."""
        return _core.carriers_token(tuple(entry.carrier for entry in self.subtensors))
