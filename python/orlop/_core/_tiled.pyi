from orlop.carriers.tiled_evictable import (
    ResidencyPlan as ResidencyPlan,
    TileSelection as TileSelection,
    TileSet as TileSet
)
