"""Layer normalisation as one operation from outside: its own gradient, and a kernel pack for somebody's carrier."""

from statistics import fmean

from orlop import (
    Carrier, CarrierDefinition, DType, KernelExecutionInterface, KernelPack, KernelPattern, KernelProvider, OperandKind,
    OperandSpec, OperationSchema, OptionSpec, ResultSpec, StorageProvider, Tensor, define_operation, grad,
    register_carrier_definition, register_kernel_pack,
)
from orlop.carriers.extension import PreparedKernel, ProviderResult
from orlop.carriers.operation_capability import OperationCapability
from orlop.carriers.operation_policy import Arithmetic, OperandPlan, OperandRole, OperationPlan
from orlop.friendly import column_major
from orlop.operation import ResolvedInvocation, execute_reference

OPERAND = OperandPlan(OperandRole.TENSOR, DType.Float32, DType.Float32)
PLAN = OperationPlan("acme.layer_norm", (OPERAND,), Arithmetic.BINARY32, None, None, DType.Float32)


def rows(tensor):
    return [[tensor[i, j] for j in range(tensor.shape[1])] for i in range(tensor.shape[0])]


def like(tensor, table):
    values = [value for column in zip(*table, strict=True) for value in column]
    return Tensor(tensor.carrier.new_like(values), 0, column_major(*tensor.shape))


def moments(row, epsilon):
    center = fmean(row)
    return center, (fmean([(x - center) ** 2 for x in row]) + epsilon) ** 0.5


def resolve(call):
    layout = column_major(*call.operands[0].shape)
    return ResolvedInvocation(call, PLAN, [ResultSpec(DType.Float32, layout.shape, layout)], saved_operands=[0])


def normalise(invocation):
    x, epsilon = invocation.operands[0], invocation.options["epsilon"]
    table = [(row, *moments(row, epsilon)) for row in rows(x)]
    return like(x, [[(value - center) / deviation for value in row] for row, center, deviation in table])


def gradient(context, cotangents):
    """(g - mean(g) - y · mean(g · y)) / deviation, for each row."""
    (x,), (g,), (y,) = context.saved_operands, cotangents, context.outputs
    table = []
    for row, up, out in zip(rows(x), rows(g), rows(y), strict=True):
        deviation = moments(row, context.invocation.options["epsilon"])[1]
        drift, pull = fmean(up), fmean([a * b for a, b in zip(up, out, strict=True)])
        table.append([(a - drift - b * pull) / deviation for a, b in zip(up, out, strict=True)])
    return (like(x, table),)


layer_norm = define_operation(
    "acme.layer_norm", OperationSchema([OperandSpec("x", OperandKind.TENSOR, True)], [OptionSpec("epsilon", 1e-5)]),
    resolve, normalise, gradient)


class Desk(Carrier):
    """Somebody's carrier: slots in a list, no operation of its own."""


STORAGE = StorageProvider(
    supports_dtype=lambda desk, dtype: dtype is DType.Float32, physical_size=lambda desk: len(desk.slots),
    allocate=lambda desk, slots: setattr(desk, "slots", [0.0] * slots), release=lambda desk: desk.slots.clear(),
    read=lambda desk, index: desk.slots[index], write=lambda desk, index, value: desk.slots.__setitem__(index, value))
INTERFACE = KernelExecutionInterface("desk 1")
register_carrier_definition(Desk, CarrierDefinition(STORAGE, KernelProvider(INTERFACE)))
register_kernel_pack(KernelPack("acme", "1.0", Desk, INTERFACE, [KernelPattern(
    layer_norm, [OperationCapability.from_plan(PLAN)], "rows", lambda invocation, interface: PreparedKernel(
        interface, lambda: ProviderResult(execute_reference(invocation))))]))

if __name__ == "__main__":
    x = like(Tensor(Desk(6, dtype=DType.Float32), 0, column_major(2, 3)), [[1.0, 2.0, 6.0], [4.0, 4.0, 1.0]])
    y = layer_norm(x, epsilon=1e-3)
    (g,) = grad(y, [x], like(x, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    print(*([[round(value, 3) for value in row] for row in rows(tensor)] for tensor in (y, g)), sep="\n")
