"""How direct operations stream tiles through a budget: statistics and progress (X115, X116)."""

from orlop._core._tiled import ResidencyStats, TiledProgress, progress

__all__ = ["ResidencyStats", "TiledProgress", "progress"]
