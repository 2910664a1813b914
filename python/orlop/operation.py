"""Operations: dispatch, lowered execution, plans, profiling, and the functions of orlop.functional."""

from orlop._core import Operation, execute_lowered_operation, table_operation
from orlop.carriers.evictable import EvictableOperation
from orlop.carriers.move import (
    BlockDeviceToCpuMoveOperation,
    CpuToBlockDeviceMoveOperation,
    CpuToFileBackedMoveOperation,
    CpuToMetalMoveOperation,
    ElementwiseMoveOperation,
    FileBackedToCpuMoveOperation,
    MetalToCpuMoveOperation,
    MetalToMetalMoveOperation,
    MoveOperation,
)
from orlop.carriers.operation_policy import (
    OperationExecutionOptions,
    OperationPlan,
    operation_execution_options,
    resolve_operation_plan,
)
from orlop.functional import *  # noqa: F403
from orlop.functional import __all__ as _functions
from orlop.profiler import Profiler, ProfilerAggregate, ProfilerEvent, profile

__all__ = [
    *_functions,
    "BlockDeviceToCpuMoveOperation",
    "CpuToBlockDeviceMoveOperation",
    "CpuToFileBackedMoveOperation",
    "CpuToMetalMoveOperation",
    "ElementwiseMoveOperation",
    "EvictableOperation",
    "FileBackedToCpuMoveOperation",
    "MetalToCpuMoveOperation",
    "MetalToMetalMoveOperation",
    "MoveOperation",
    "Operation",
    "OperationExecutionOptions",
    "OperationPlan",
    "Profiler",
    "ProfilerAggregate",
    "ProfilerEvent",
    "execute_lowered_operation",
    "operation_execution_options",
    "profile",
    "resolve_operation_plan",
    "table_operation",
]
