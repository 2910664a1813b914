"""Evictable: a hierarchy of two tiers, and the adapter that runs the primary's operations on it."""

from orlop._core import Evictable, EvictableOperation

__all__ = ["Evictable", "EvictableOperation"]
