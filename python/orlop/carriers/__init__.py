"""The carriers and what describes their slots; every name loads on first use."""

_EXPORTS = {
    "BlockDevice": "orlop._core",
    "BlockDeviceCarrier": "orlop._core",
    "CPU": "orlop._core",
    "Carrier": "orlop.carriers.base",
    "DependentCarrier": "orlop.carriers.base",
    "Evictable": "orlop.carriers.evictable",
    "EvictableOperation": "orlop.carriers.evictable",
    "FileBacked": "orlop._core",
    "Generic": "orlop._core",
    "Metal": "orlop._core",
    "TiledEvictable": "orlop.carriers.tiled_evictable",
    "BlockScaledDType": "orlop.carriers.dtype",
    "CompoundDType": "orlop.carriers.dtype",
    "DType": "orlop.carriers.dtype",
    "DTypeCategory": "orlop.carriers.dtype",
    "Level": "orlop.carriers.dtype",
    "LevelExtent": "orlop.carriers.dtype",
    "RepresentationRule": "orlop.carriers.dtype",
    "RepresentationValidationContext": "orlop.carriers.dtype",
    "SimpleDType": "orlop.carriers.dtype",
    "SymbolicBits": "orlop.carriers.dtype",
    "Whole": "orlop.carriers.dtype",
    "WholeExtent": "orlop.carriers.dtype",
}

# Modules that load on first use as attributes of this one.
_SUBMODULES = frozenset(
    {"base", "block_device", "definition_dispatch", "dtype", "evictable", "extension", "metal", "move",
     "operation_capability", "operation_policy", "tiled_evictable"}
)

__all__ = sorted(_EXPORTS)


def __getattr__(name):
    if name in _SUBMODULES:
        return __import__(f"{__name__}.{name}", fromlist=[name])
    home = _EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(__import__(home, fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_SUBMODULES})
