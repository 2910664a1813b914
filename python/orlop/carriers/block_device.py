"""Block devices as storage: the device that extents are allocated from, and the carrier of one extent (S501-S512)."""

from orlop._core import BlockDevice, BlockDeviceCarrier

__all__ = ["BlockDevice", "BlockDeviceCarrier"]
