"""TiledEvictable: one Tensor cut into tiles, each in a primary or a secondary tier (X40-X64).

>>> TileSelection([[1, 0], [2]]).coordinates
((1, 2), (0, 2))
"""

from orlop._core._tiled import ResidencyPlan, TileSelection, TileSet

__all__ = ["ResidencyPlan", "TileSelection", "TileSet"]
