"""Orlop: tensors whose place is a first-class, pluggable thing."""

# Every public name and its home, loaded on first use (PEP 562), so that importing the package stays cheap.
_EXPORTS = {
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
    "UnsupportedOperationPlan": "orlop.carriers.operation_capability",
    "Whole": "orlop.carriers.dtype",
    "WholeExtent": "orlop.carriers.dtype",
    "IndexMap": "orlop.layout",
    "Layout": "orlop.layout",
    "Node": "orlop.layout",
    "Permutation": "orlop.layout",
    "Product": "orlop.layout",
    "Shape": "orlop.layout",
    "Stride": "orlop.layout",
    "Swizzle": "orlop.layout",
    "SwizzleStage": "orlop.layout",
    "Tiler": "orlop.layout",
    "Tree": "orlop.layout",
    "as_strided": "orlop.functional",
    "broadcast_in_dim": "orlop.functional",
    "broadcast_to": "orlop.functional",
    "permute": "orlop.functional",
    "rearrange": "orlop.functional",
    "reshape": "orlop.functional",
    "squeeze": "orlop.functional",
    "unsqueeze": "orlop.functional",
}

# Modules that load on first use as attributes of the package.
_SUBMODULES = frozenset({"carriers", "layout"})

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
