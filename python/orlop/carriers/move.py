"""Moving Tensors between carriers: the operations, and the registry of which one moves a pair (S401-S419).

>>> from orlop import CPU, DType, FileBacked
>>> dispatch_move(CPU, FileBacked).__name__, dispatch_move(CPU, CPU).__name__
('CpuToFileBackedMoveOperation', 'ElementwiseMoveOperation')

A class of your own copies the values in `_copy`:

>>> class Doubling(MoveOperation):
...     def _copy(self, tensor, destination, output, element_count):
...         for slot in range(element_count):
...             destination[slot] = 2 * tensor.carrier[tensor.offset + slot]
>>> with registered_move_operation(CPU, CPU, Doubling):
...     dispatch_move(CPU, CPU) is Doubling
True
"""

from contextlib import contextmanager

from orlop._core import (
    AwaitMove,
    AwaitResult,
    BlockDeviceToCpuMoveOperation,
    CpuToBlockDeviceMoveOperation,
    CpuToFileBackedMoveOperation,
    CpuToMetalMoveOperation,
    ElementwiseMoveOperation,
    FileBackedToCpuMoveOperation,
    MetalToCpuMoveOperation,
    MetalToMetalMoveOperation,
    MoveOperation,
    dispatch_move,
    move_async,
    register_move_operation,
    unregister_move_operation,
)

__all__ = [
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
    "dispatch_move",
    "move_async",
    "register_move_operation",
    "registered_move_operation",
    "unregister_move_operation",
]


@contextmanager
def registered_move_operation(source_class, destination_class, operation_class):
    """Registers `operation_class` for the exact pair while the body runs; yields it. The errors of the registry.

    >>> from orlop import CPU, Generic
    >>> from orlop.carriers import move
    >>> class Counting(move.MoveOperation):
    ...     def _copy(self, tensor, destination, output, element_count): ...
    >>> with move.registered_move_operation(Generic, CPU, Counting):
    ...     move.dispatch_move(Generic, CPU) is Counting
    True
    >>> move.dispatch_move(Generic, CPU).__name__
    'ElementwiseMoveOperation'
    """
    register_move_operation(source_class, destination_class, operation_class)
    try:
        yield operation_class
    finally:
        unregister_move_operation(source_class, destination_class)
