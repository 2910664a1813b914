"""A carrier written in Python, for tests of what the library does with carriers it does not know."""

from orlop import Carrier, DType, Layout, Shape, Stride, Tensor
from orlop.carriers.operation_capability import OperationCapability, register_operation_capabilities
from orlop.carriers.operation_policy import resolvable_plans, resolve_operation_plan
from orlop.core._representation import Subtensor, TensorRepresentation
from orlop.operation import table_operation


class ListHooks:
    """The required hooks of a carrier, over a list of values of any dtype."""

    allocations = 0

    def __init__(self, values=(), dtype=DType.Float32, *, mutable=True):
        super().__init__()
        self.values, self.held_dtype, self.mutable = list(values), dtype, mutable

    def size(self):
        return len(self.values)

    def dtype(self):
        return self.held_dtype

    def get_value(self, index):
        return self.values[index]

    def set_value(self, index, value):
        self.values[index] = value

    def new_like(self, values, *, mutable=True, dtype=None):
        return type(self)(values, dtype or self.held_dtype, mutable=mutable)

    def allocate_like(self, size, *, mutable=True, dtype=None):
        type(self).allocations += 1
        return type(self)([0] * size, dtype or self.held_dtype, mutable=mutable)

    def scatter(self, to_scatter, scatter_onto, mapping, mapping_offset=0):
        raise NotImplementedError(f"{type(self).__name__} does not scatter")


class ListCarrier(ListHooks, Carrier):
    """Grows when empty and computes `relu`, `add` and `mul` on Float32."""

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


register_operation_capabilities(
    ListCarrier,
    [
        OperationCapability.from_plan(resolve_operation_plan(name, *operands))
        for name, *operands in [
            ("relu", DType.Float32),
            ("add", DType.Float32, DType.Float32),
            ("mul", DType.Float32, DType.Float32),
            ("mul", DType.Float32, 2.0),
        ]
    ],
)


def compound_tensor():
    """32 elements of MXFP4 in two planes."""
    planes = (
        Subtensor(dtype, ListCarrier([0] * size, dtype=dtype), 0, Layout(Shape(size), Stride(1)))
        for dtype, size in ((DType.E2M1, 32), (DType.E8M0, 1))
    )
    return Tensor._from_representation(
        TensorRepresentation(DType.MXFP4, tuple(planes), (Layout(Shape(32), Stride(0)),))
    )


class ComputingCarrier(ListCarrier):
    """The same with every plan, computed by the reference kernels."""


register_operation_capabilities(
    ComputingCarrier,
    [OperationCapability.from_plan(plan) for plan in resolvable_plans((DType.Float32, DType.Int32, DType.Bool))],
)
