"""The Metal carrier and who runs its kernels: an Apple device or, for tests, the emulator (docs/metal.md)."""

from orlop._core import Metal
from orlop._core import metal_runtime_info as runtime_info
from orlop._core import use_metal_runtime as use_runtime

__all__ = ["Metal", "runtime_info", "use_runtime"]
