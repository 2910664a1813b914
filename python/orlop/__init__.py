"""Orlop: tensors whose place is a first-class, pluggable thing."""

# Every public name and its home, loaded on first use (PEP 562), so that importing the package stays cheap.
_HOMES = {
    "orlop._core": [
        "from_buffer",
        "from_dlpack",
        "move",
        "set_thread_count",
        "thread_count",
    ],
    "orlop.autograd": [
        "grad",
        "is_grad_enabled",
        "no_grad",
        "set_grad_enabled",
    ],
    "orlop.carriers": [
        "CPU",
        "Evictable",
        "EvictableOperation",
        "FileBacked",
        "Generic",
        "Metal",
    ],
    "orlop.carriers.base": [
        "Carrier",
        "DependentCarrier",
    ],
    "orlop.carriers.block_device": [
        "BlockDevice",
        "BlockDeviceCarrier",
    ],
    "orlop.carriers.dtype": [
        "BlockScaledDType",
        "CompoundDType",
        "DType",
        "DTypeCategory",
        "Level",
        "LevelExtent",
        "RepresentationRule",
        "RepresentationValidationContext",
        "SimpleDType",
        "SymbolicBits",
        "Whole",
        "WholeExtent",
    ],
    "orlop.carriers.extension": [
        "CarrierDefinition",
        "CarrierFacet",
        "CompositeProvider",
        "KernelExecutionInterface",
        "KernelPack",
        "KernelPattern",
        "KernelProvider",
        "StorageProvider",
        "TransferRoute",
        "Unsupported",
        "UnsupportedStorageDTypeError",
        "register_carrier_definition",
        "register_kernel_pack",
    ],
    "orlop.carriers.move": [
        "AwaitMove",
        "AwaitResult",
        "BlockDeviceToCpuMoveOperation",
        "CpuToBlockDeviceMoveOperation",
        "CpuToFileBackedMoveOperation",
        "CpuToMetalMoveOperation",
        "ElementwiseMoveOperation",
        "FileBackedToCpuMoveOperation",
        "MetalToCpuMoveOperation",
        "MetalToMetalMoveOperation",
        "MoveOperation",
        "move_async",
    ],
    "orlop.carriers.operation_capability": [
        "UnsupportedOperationPlan",
    ],
    "orlop.carriers.tiled_evictable": [
        "AwaitProjection",
        "AwaitResidency",
        "ResidencyPlan",
        "ResidencyPolicy",
        "TileSelection",
        "TileSet",
        "TiledEvictable",
        "TiledResidencyFacet",
    ],
    "orlop.core": [
        "Tensor",
    ],
    "orlop.core.module": [
        "Module",
    ],
    "orlop.core.parameter": [
        "Parameter",
    ],
    "orlop.functional": [
        "SortResult",
        "TopKResult",
        "abs",
        "add",
        "argmax",
        "argmin",
        "as_strided",
        "broadcast_in_dim",
        "broadcast_to",
        "ceil",
        "clamp",
        "conv_general",
        "cos",
        "cumsum",
        "div",
        "einsum",
        "elementwise_mul",
        "elu",
        "eq",
        "erf",
        "exp",
        "exp2",
        "floor",
        "gather",
        "ge",
        "gelu",
        "gt",
        "le",
        "leaky_relu",
        "log",
        "log2",
        "logical_not",
        "lt",
        "matmul",
        "maximum",
        "minimum",
        "mul",
        "ne",
        "neg",
        "permute",
        "pow",
        "project",
        "rearrange",
        "recip",
        "reduce_max",
        "reduce_min",
        "reduce_prod",
        "reduce_sum",
        "relu",
        "rem",
        "reshape",
        "round",
        "rsqrt",
        "scatter",
        "scatter_add",
        "select",
        "sigmoid",
        "sign",
        "silu",
        "sin",
        "softplus",
        "sort",
        "sqrt",
        "squeeze",
        "sub",
        "tanh",
        "topk",
        "unsqueeze",
    ],
    "orlop.layout": [
        "IndexMap",
        "Layout",
        "Node",
        "Permutation",
        "Product",
        "Shape",
        "Stride",
        "Swizzle",
        "SwizzleStage",
        "Tiler",
        "Tree",
    ],
    "orlop.operation": [
        "Operation",
    ],
    "orlop.operation_definition": [
        "NON_DIFFERENTIABLE",
        "OperandKind",
        "OperandSpec",
        "OperationDefinition",
        "OperationSchema",
        "OptionSpec",
        "ProviderContractError",
        "REQUIRED",
        "ResultSpec",
        "define_operation",
    ],
    "orlop.profiler": [
        "Profiler",
        "ProfilerAggregate",
        "ProfilerEvent",
        "profile",
    ],
}
_EXPORTS = {name: home for home, names in _HOMES.items() for name in names}

# Modules that load on first use as attributes of the package.
_SUBMODULES = frozenset(
    {"autograd", "carriers", "core", "einops", "friendly", "functional", "io", "layout", "nn", "operation",
     "operation_definition", "profiler", "view"}
)

__all__ = sorted(_EXPORTS)


def __getattr__(name):
    if name in _SUBMODULES:
        return __import__(f"{__name__}.{name}", fromlist=[name])
    home = _EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_whereabouts(name)}")
    value = getattr(__import__(home, fromlist=[name]), name)
    globals()[name] = value
    return value


# What other libraries call by other names.
_SYNONYMS = {
    "amax": "orlop.reduce_max",
    "amin": "orlop.reduce_min",
    "array": "orlop.friendly.tensor",
    "asarray": "orlop.friendly.tensor and orlop.from_dlpack",
    "bool": "orlop.DType.Bool",
    "dot": "orlop.matmul",
    "flatten": "orlop.rearrange",
    "float32": "orlop.DType.Float32",
    "from_numpy": "orlop.friendly.tensor and orlop.from_dlpack",
    "int32": "orlop.DType.Int32",
    "load": "orlop.io.load_npy and orlop.io.load_safetensors",
    "max": "orlop.reduce_max",
    "min": "orlop.reduce_min",
    "prod": "orlop.reduce_prod",
    "ravel": "orlop.rearrange",
    "save": "orlop.io.save_npy and orlop.io.save_safetensors",
    "transpose": "orlop.permute",
    "where": "orlop.select",
}


def _whereabouts(name):
    """Where a newcomer who looks here finds a name of the submodules or of other libraries, for the message."""
    if name.startswith("_"):
        return ""
    modules = ("friendly", "functional", "nn", "einops", "io", "layout")
    places = [f"{__name__}.{module}.{name}" for module in modules if hasattr(__getattr__(module), name)]
    if not places and name in _SYNONYMS:
        places = [_SYNONYMS[name]]
    return f"; there is {' and '.join(places)}" if places else ""


def __dir__():
    return sorted({*globals(), *__all__, *_SUBMODULES})
