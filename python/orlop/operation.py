"""Operations: dispatch, lowered execution, and the functions of orlop.functional."""

from orlop._core import Operation, execute_lowered_operation, table_operation
from orlop.functional import *  # noqa: F403
from orlop.functional import __all__ as _functions

__all__ = [*_functions, "Operation", "execute_lowered_operation", "table_operation"]
