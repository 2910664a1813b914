"""A carrier written in Python, for tests of what the library does with carriers it does not know."""

from orlop import Carrier, DType, Layout, Shape, Stride, Tensor
from orlop.carriers.operation_capability import OperationCapability, register_operation_capabilities
from orlop.carriers.operation_policy import resolve_operation_plan
from orlop.core._representation import Subtensor, TensorRepresentation
from orlop.operation import table_operation


class ListCarrier(Carrier):
    """Numbers in a list. Grows when empty and computes `relu`, `add` and `mul` on Float32."""

    def __init__(self, values=(), *, mutable=True, dtype=DType.Float32):
        super().__init__()
        self.values, self.mutable, self.held_dtype = list(values), mutable, dtype

    def size(self):
        return len(self.values)

    def dtype(self):
        return self.held_dtype

    def get_value(self, index):
        return self.values[index]

    def set_value(self, index, value):
        self.values[index] = value

    def new_like(self, values, *, mutable=True, dtype=None):
        return type(self)(values, mutable=mutable, dtype=dtype or self.held_dtype)

    def allocate_like(self, size, *, mutable=True, dtype=None):
        return type(self)([0.0] * size, mutable=mutable, dtype=dtype or self.held_dtype)

    def scatter(self, to_scatter, scatter_onto, mapping, mapping_offset=0):
        raise NotImplementedError("ListCarrier does not scatter")

    def _is_mutable(self):
        return self.mutable

    def _supports_storage_dtype(self, dtype):
        return dtype in (DType.Float32, DType.Int32)

    def _allocate(self, size):
        self.values = [0.0] * size

    def _release(self):
        self.values = []

    def _dispatch_op(self, operation_name):
        return table_operation(operation_name)


FLOAT = DType.Float32
PLANS = [
    resolve_operation_plan("relu", FLOAT),
    resolve_operation_plan("add", FLOAT, FLOAT),
    resolve_operation_plan("mul", FLOAT, FLOAT),
    resolve_operation_plan("mul", FLOAT, 2.0),
]
register_operation_capabilities(ListCarrier, [OperationCapability.from_plan(plan) for plan in PLANS])


def compound_tensor():
    """32 elements of MXFP4 in two planes."""
    planes = (
        Subtensor(dtype, ListCarrier([0] * size, dtype=dtype), 0, Layout(Shape(size), Stride(1)))
        for dtype, size in ((DType.E2M1, 32), (DType.E8M0, 1))
    )
    return Tensor._from_representation(
        TensorRepresentation(DType.MXFP4, tuple(planes), (Layout(Shape(32), Stride(0)),))
    )
