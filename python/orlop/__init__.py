"""Orlop: tensors whose place is a first-class, pluggable thing."""
