"""TiledEvictable: one Tensor cut into tiles, each in a primary or a secondary tier (X40-X64).

>>> from orlop import DType, FileBacked, Tensor, friendly
>>> tiled = TiledEvictable(friendly.arange(24).carrier, FileBacked(dtype=DType.Float32), (2, 3), (2, 2))
>>> tiled.evict(TileSet([(0, 0)]))
>>> tiled.tile_state((0, 0)).location, tiled[0]
('secondary', 0.0)
>>> full = Tensor(tiled, 0, friendly.column_major(4, 6))
>>> project(full, TileSelection([[1, 0], [2]])).wait().shape
(4, 2)
"""

from typing import Protocol, runtime_checkable

from orlop._core import _extension, _tiled
from orlop._core._tiled import (
    AwaitProjection,
    AwaitResidency,
    ResidencyPlan,
    TiledEvictable,
    TileSelection,
    TileSet,
    TileState,
    _ProjectionOperation,
    _ScatterOperation,
    project,
    scatter,
)
from orlop.carriers.extension import CarrierFacet

__all__ = [
    "AwaitProjection",
    "AwaitResidency",
    "ResidencyPlan",
    "ResidencyPolicy",
    "TileSelection",
    "TileSet",
    "TiledEvictable",
    "TiledResidencyFacet",
]


@runtime_checkable
class ResidencyPolicy(Protocol):
    """Decides which tiles are primary around a piece of work; write one with this method (X56).

    >>> class Streaming:
    ...     def plan(self, required, purpose):
    ...         return ResidencyPlan(evict=required)
    >>> isinstance(Streaming(), ResidencyPolicy)
    True
    """

    def plan(self, required: TileSet, purpose: str) -> ResidencyPlan:
        """Called once per piece of work and carrier, before any transfer.

        `purpose` is "operation", "projection", "scatter" or "backward". What it raises ends the work.
        """
        ...


class TiledResidencyFacet(CarrierFacet):
    """Residency of tiles, for who knows a carrier by its facets (X51). The methods are those of TiledEvictable.

    >>> from orlop import CPU
    >>> carrier = TiledEvictable(CPU(4), CPU(0), (2,), (2,))
    >>> facet = carrier.require_facet(TiledResidencyFacet)
    >>> facet.evict(carrier, TileSet([(1,)]))
    >>> carrier.primary_tiles
    TileSet(coordinates=((0,),))
    >>> facet.promote_async(carrier, TileSet([(1,)])).wait()
    >>> facet.evict_async(carrier, TileSet([(0,)])).wait()
    >>> facet.promote(carrier, TileSet([(0,)]))
    """

    def promote(self, carrier: TiledEvictable, tiles: TileSet | TileSelection) -> None:
        """Makes tiles primary."""
        _tiled.promote(carrier, tiles)

    def promote_async(self, carrier: TiledEvictable, tiles: TileSet | TileSelection) -> AwaitResidency:
        """The same in the background."""
        return _tiled.promote_async(carrier, tiles)

    def evict(self, carrier: TiledEvictable, tiles: TileSet | TileSelection) -> None:
        """Moves tiles to the secondary tier."""
        _tiled.evict(carrier, tiles)

    def evict_async(self, carrier: TiledEvictable, tiles: TileSet | TileSelection) -> AwaitResidency:
        """The same in the background."""
        return _tiled.evict_async(carrier, tiles)


_extension.show_facets(TiledEvictable, (TiledResidencyFacet(),))


def __getattr__(name):
    if name == "streaming":
        return __import__(f"{__name__}.streaming", fromlist=[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
