from typing import final
from orlop._core import Carrier
from orlop._core import Tensor
import orlop._core
import orlop.carriers.tiled_evictable
from orlop.carriers.tiled_evictable import (
    ResidencyPlan as ResidencyPlan,
    TileSelection as TileSelection,
    TileSet as TileSet,
    TileState as TileState
)
import orlop.carriers.tiled_evictable.streaming
from orlop.carriers.tiled_evictable.streaming import (
    ResidencyStats as ResidencyStats,
    TiledProgress as TiledProgress,
    progress as progress
)


@final
class AwaitResidency(orlop._core.AwaitResult):
    """
    The handle of a residency request: wait() returns once it has ended (X52).

    >>> from orlop import CPU, TileSet, TiledEvictable, friendly
    >>> carrier = TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,))
    >>> carrier.evict_async(TileSet([(1,)])).wait()
    >>> carrier.secondary_tiles
    TileSet(coordinates=((1,),))
    """

    def __init__(self, *args, **kwargs) -> None: ...

    def wait(self) -> None:
        """As AwaitResult.wait: the result, or what the work failed with."""

@final
class TiledEvictable(orlop._core.DependentCarrier):
    """
    TiledEvictable(primary, secondary, grid_shape, tile_shape, *, residency_policy=None, primary_budget_bytes=None)

    A Tensor's storage cut into a grid of equal tiles, each in the primary tier, in the secondary one, an
    implicit zero, or invalid. It owns both tiers, two live unowned carriers of one dtype, each empty or of the
    full extent: a full one is the seed. `residency_policy` is a ResidencyPolicy; `primary_budget_bytes` limits what
    the primary tier holds at any instant (X40, X100).

    Errors in this order: TypeError for tiers that are no independent carriers; ValueError for one object twice;
    RuntimeError for released or owned tiers; TypeError for different dtypes; then the shapes, the tiers' sizes, the
    policy and the budget. A failure leaves both tiers as they were.

    >>> from orlop import CPU, TileSet, TiledEvictable, friendly
    >>> carrier = TiledEvictable(friendly.arange(8).carrier, CPU(0), (2, 1), (2, 2), primary_budget_bytes=32)
    >>> carrier.evict(TileSet([(0, 0)]))
    >>> carrier.tile_state((0, 0)).location, carrier.primary_tiles, carrier.residency_stats().evictions
    ('secondary', TileSet(coordinates=((1, 0),)), 1)
    >>> carrier.promote(TileSet([(0, 0)]))
    >>> carrier.evict_async(TileSet([(1, 0)])).wait()
    >>> carrier.promote_async(TileSet([(1, 0)])).wait()
    >>> carrier.reset_residency_stats()
    >>> carrier.tile_state((2, 0))
    Traceback (most recent call last):
        ...
    ValueError: [TileSet] tile coordinate 2 on axis 0 is outside the grid (2, 1); use 0 to 1
    """

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def primary(self) -> orlop._core.Carrier:
        """The primary tier's seed."""

    @property
    def secondary(self) -> orlop._core.Carrier:
        """The secondary tier's seed."""

    @property
    def grid_shape(self) -> tuple:
        """Tiles along each axis."""

    @property
    def tile_shape(self) -> tuple:
        """Elements of a tile along each axis."""

    @property
    def logical_shape(self) -> tuple:
        """Elements along each axis."""

    @property
    def residency_policy(self) -> object:
        """The policy, or None."""

    @property
    def primary_budget_bytes(self) -> object:
        """The budget, or None where it is unlimited (X100)."""

    def tile_state(self, coordinate: object) -> orlop.carriers.tiled_evictable.TileState:
        """
        Where a tile is: a TileState. Errors: TypeError for what is no iterable of int; ValueError outside the grid.
        """

    @property
    def primary_tiles(self) -> orlop.carriers.tiled_evictable.TileSet:
        """The tiles in the primary tier."""

    @property
    def secondary_tiles(self) -> orlop.carriers.tiled_evictable.TileSet:
        """The tiles in the secondary tier."""

    @property
    def valid_tiles(self) -> orlop.carriers.tiled_evictable.TileSet:
        """The tiles that have a value."""

    @property
    def dirty_tiles(self) -> orlop.carriers.tiled_evictable.TileSet:
        """The tiles written since they became primary."""

    def residency_stats(self) -> orlop.carriers.tiled_evictable.streaming.ResidencyStats:
        """
        What moved and what was found primary since the last reset: a streaming.ResidencyStats (X115).
        """

    def reset_residency_stats(self) -> None:
        """Counts from 0 again; the peak restarts at what is primary now."""

    def promote(self, tiles: TileSet | TileSelection) -> None:
        """
        Makes tiles primary, all of them or none: implicit ones become zeros. Nothing for those that are.

        Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles, ‹invalid› ones, or where the budget has
        no room now; ValueError for tiles outside the grid, or more than the budget holds.
        """

    def promote_async(self, tiles: TileSet | TileSelection) -> AwaitResidency:
        """
        Makes tiles primary, all of them or none: implicit ones become zeros. Nothing for those that are.

        Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles, ‹invalid› ones, or where the budget has
        no room now; ValueError for tiles outside the grid, or more than the budget holds.

        The work goes on in the background; the handle's wait() gives its end.
        """

    def evict(self, tiles: TileSet | TileSelection) -> None:
        """
        Moves primary tiles to the secondary tier, all of them or none. Nothing for the others.

        Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles; ValueError for tiles outside the grid.
        """

    def evict_async(self, tiles: TileSet | TileSelection) -> AwaitResidency:
        """
        Moves primary tiles to the secondary tier, all of them or none. Nothing for the others.

        Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles; ValueError for tiles outside the grid.

        The work goes on in the background; the handle's wait() gives its end.
        """

    @classmethod
    def __init_subclass__(cls, **kwargs) -> None: ...

def promote(carrier: Carrier, tiles: object) -> object:
    """
    Makes tiles primary, all of them or none: implicit ones become zeros. Nothing for those that are.

    Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles, ‹invalid› ones, or where the budget has
    no room now; ValueError for tiles outside the grid, or more than the budget holds.
    """

def promote_async(carrier: Carrier, tiles: object) -> AwaitResidency:
    """
    Makes tiles primary, all of them or none: implicit ones become zeros. Nothing for those that are.

    Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles, ‹invalid› ones, or where the budget has
    no room now; ValueError for tiles outside the grid, or more than the budget holds.

    The work goes on in the background; the handle's wait() gives its end.
    """

def evict(carrier: Carrier, tiles: object) -> object:
    """
    Moves primary tiles to the secondary tier, all of them or none. Nothing for the others.

    Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles; ValueError for tiles outside the grid.
    """

def evict_async(carrier: Carrier, tiles: object) -> AwaitResidency:
    """
    Moves primary tiles to the secondary tier, all of them or none. Nothing for the others.

    Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles; ValueError for tiles outside the grid.

    The work goes on in the background; the handle's wait() gives its end.
    """

@final
class AwaitProjection(orlop._core.AwaitResult):
    """
    The handle of a projection: wait() gives the compact Tensor. Until then its destination is owned
    by the projection (X57).

    >>> from orlop import CPU, Tensor, TileSelection, TiledEvictable, friendly
    >>> tensor = Tensor(TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,)), 0, friendly.column_major(4))
    >>> handle = orlop.project(tensor, TileSelection([[1]]))
    >>> friendly.to_list(handle.wait())
    [2.0, 3.0]
    """

    def __init__(self, *args, **kwargs) -> None: ...

    def wait(self) -> Tensor:
        """As AwaitResult.wait: the result, or what the work failed with."""

def project(tensor: Tensor, selection: TileSelection, destination: Carrier | None = None) -> AwaitProjection:
    """
    Gathers the chosen tiles of a full tiled Tensor into an ordinary dense one, of shape count · tile_shape, on
    `destination`: a live, unowned, mutable carrier of exactly the primary's class and dtype, large enough or empty
    and able to grow; None makes one. Returns the handle; primary tiles are gathered at once, others when they
    have come (X57).

    Errors: TypeError, ValueError and RuntimeError in the order of X57, before anything has changed.

    >>> from orlop import CPU, Tensor, TileSelection, TiledEvictable, friendly
    >>> tensor = Tensor(TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,)), 0, friendly.column_major(4))
    >>> friendly.to_list(orlop.project(tensor, TileSelection([[1]])).wait())
    [2.0, 3.0]
    """

def scatter(compact: Tensor, template: Tensor, selection: TileSelection, reduction: str = 'replace') -> AwaitMove:
    """
    A new full Tensor like `template` whose chosen tiles hold `compact`, laid out as project() gives it:
    "replace" alone, "add" on top of the template's values. The other tiles are invalid, the inputs unchanged.
    Returns the handle; until its end `compact` is owned (X59).

    Errors: ValueError, TypeError and RuntimeError in the order of X59, before anything has changed.
    """
