"""Moves: the checks of S403 in their order, versions, layouts, growth, the registry, gradients and profiles."""

import numpy
import pytest
from list_carrier import ListCarrier

import orlop
from orlop import CPU, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride, Tensor, friendly
from orlop.carriers import move as moves


def line(carrier, count, offset=0, stride=1):
    return Tensor(carrier, offset, Layout(Shape(count), Stride(stride)))


def cpu_line(*values):
    return line(CPU(0).new_like(values), len(values))


def test_checks_come_in_order_and_change_nothing():
    tensor = cpu_line(1.0, 2.0, 3.0)
    source = tensor.carrier
    foreign = Generic([0], mutable=False, dtype=DType.Int32)
    with pytest.raises(TypeError, match="tensor must be a Tensor"):
        orlop.move(source, foreign)
    with pytest.raises(TypeError, match="destination must be a Carrier instance"):
        orlop.move(tensor, CPU)
    for given, name in [(CPU, "[a-z_]+"), (None, "None|NoneType"), ("cpu", "str"), (tensor, "Tensor")]:
        for move in (orlop.move, moves.move_async, moves.ElementwiseMoveOperation().forward):
            with pytest.raises(TypeError, match=f"destination must be a Carrier instance: got ({name});"):
                move(tensor, given)
    with pytest.raises(ValueError, match="own carrier"):
        orlop.move(tensor, source)
    released = Generic([0], mutable=False, dtype=DType.Int32)
    released.release()
    with pytest.raises(RuntimeError, match="destination carrier is released"):
        orlop.move(tensor, released)
    with pytest.raises(RuntimeError, match="must be mutable"):
        orlop.move(tensor, foreign)
    with pytest.raises(TypeError, match="dtype must match"):
        orlop.move(tensor, Generic([0], dtype=DType.Int32))
    with pytest.raises(ValueError, match="too small"):
        orlop.move(tensor, CPU(2))
    assert (source.version, source.is_released(), source.is_owned()) == (0, False, False)
    assert friendly.to_list(tensor) == [1.0, 2.0, 3.0]


def test_released_or_owned_source_is_refused_before_the_destination_is_looked_at():
    tensor = cpu_line(1.0)
    token = tensor.carrier._claim_ownership()
    with pytest.raises(RuntimeError, match="owned by another carrier.*cannot be moved directly"):
        orlop.move(tensor, None)
    tensor.carrier._relinquish_ownership(token)
    tensor.carrier.release()
    with pytest.raises(RuntimeError, match="tensor carrier is released"):
        orlop.move(tensor, None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CPU(12),
        lambda: Generic([0.0] * 12, dtype=DType.Float32),
        lambda: FileBacked(dtype=DType.Float32),
        lambda: Evictable(CPU(12), FileBacked(dtype=DType.Float32)),
        lambda: ListCarrier([0.0] * 12),
    ],
    ids=["CPU", "Generic", "FileBacked", "Evictable", "ListCarrier"],
)
def test_layout_and_values_arrive_and_the_source_is_released(make):
    carrier = CPU(0).new_like([float(i) for i in range(12)])
    tensor = line(carrier, 4, offset=1, stride=3)
    destination = make()
    before = destination.version
    result = orlop.move(tensor, destination)
    assert result.carrier is destination and (result.offset, result.layout) == (0, tensor.layout)
    assert friendly.to_list(result) == [1.0, 4.0, 7.0, 10.0]
    assert carrier.is_released() and not destination.is_owned()
    assert destination.version > before
    if not isinstance(destination, ListCarrier):
        assert destination.version == before + 1


def test_empty_file_grows_to_exactly_the_span_and_holds_the_slots():
    tensor = line(CPU(0).new_like([0.0, 1.0, 2.0, 3.0, 4.0]), 3, offset=2)
    file = FileBacked(dtype=DType.Float32)
    orlop.move(tensor, file)
    assert file.size() == 3
    assert numpy.fromfile(file.path, numpy.float32).tolist() == [2.0, 3.0, 4.0]


def test_broadcast_needs_only_its_span():
    tensor = Tensor(CPU(0).new_like([1.0, 2.0]), 0, Layout(Shape([5, 2]), Stride([0, 1])))
    assert friendly.to_list(orlop.move(tensor, CPU(2))) == [1.0] * 5 + [2.0] * 5


def test_slots_beyond_the_span_keep_their_contents():
    destination = CPU(0).new_like([9.0] * 4)
    orlop.move(cpu_line(1.0, 2.0), destination)
    assert [destination[i] for i in range(4)] == [1.0, 2.0, 9.0, 9.0]


class Broken(moves.MoveOperation):
    def _copy(self, tensor, destination, output, element_count):
        output[0] = 5.0
        raise KeyboardInterrupt


def test_failed_move_leaves_the_source_and_tells_of_the_write():
    tensor, destination = cpu_line(1.0, 2.0), Generic([0.0, 0.0], dtype=DType.Float32)
    with moves.registered_move_operation(CPU, Generic, Broken):
        with pytest.raises(KeyboardInterrupt):
            orlop.move(tensor, destination)
    assert not tensor.carrier.is_released() and not tensor.carrier.is_owned() and not destination.is_owned()
    assert destination.version == 1
    assert friendly.to_list(orlop.move(tensor, destination)) == [1.0, 2.0]


TAMPERING = {
    "writes to the source": (lambda source, destination: source.__setitem__(0, 9.0), "the source changed"),
    "releases the source": (lambda source, destination: source.release(), "released"),
    "releases the destination": (lambda source, destination: destination.release(), "released"),
    "shrinks the destination": (lambda source, destination: destination.values.pop(), "changed its dtype or size"),
    "turns the destination": (
        lambda source, destination: setattr(destination, "held_dtype", DType.Int32), "changed its dtype or size"),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_a_hook_that_tampers_with_the_carriers_makes_no_move(name):
    tamper, words = TAMPERING[name]

    class Tampering(moves.MoveOperation):
        def _copy(self, tensor, destination, output, element_count):
            tamper(tensor.carrier, destination)

    tensor, destination = cpu_line(1.0, 2.0), ListCarrier([0.0, 0.0])
    with moves.registered_move_operation(CPU, ListCarrier, Tampering):
        with pytest.raises(RuntimeError, match=words):
            orlop.move(tensor, destination)
    assert tensor.carrier.is_released() is (name == "releases the source")
    assert destination.is_released() is (name == "releases the destination")
    assert not tensor.carrier.is_owned() and not destination.is_owned()


def test_registry_is_exact():
    assert moves.dispatch_move(CPU, ListCarrier) is moves.ElementwiseMoveOperation
    assert moves.dispatch_move(CPU, FileBacked) is moves.CpuToFileBackedMoveOperation
    with pytest.raises(KeyError, match="no move operation is registered"):
        moves.unregister_move_operation(CPU, ListCarrier)
    with pytest.raises(TypeError):
        moves.dispatch_move(CPU, int)
    with pytest.raises(TypeError):
        moves.register_move_operation(CPU, ListCarrier, int)
    moves.register_move_operation(CPU, ListCarrier, Broken)
    with pytest.raises(ValueError, match="already registered"):
        moves.register_move_operation(CPU, ListCarrier, Broken)
    assert moves.dispatch_move(CPU, ListCarrier) is Broken
    assert moves.unregister_move_operation(CPU, ListCarrier) is Broken


def test_a_scoped_registration_ends_with_its_body():
    with pytest.raises(ZeroDivisionError):
        with moves.registered_move_operation(CPU, ListCarrier, Broken) as operation_class:
            assert operation_class is Broken and moves.dispatch_move(CPU, ListCarrier) is Broken
            raise ZeroDivisionError
    assert moves.dispatch_move(CPU, ListCarrier) is moves.ElementwiseMoveOperation
    for wrong in ((CPU, ListCarrier, int), (int, ListCarrier, Broken), (CPU, 3, Broken)):
        with pytest.raises(TypeError):
            with moves.registered_move_operation(*wrong):
                raise AssertionError("the body must not run")


def test_pinned_class_is_required():
    tensor = line(Generic([1.0], dtype=DType.Float32), 1)
    with pytest.raises(TypeError, match="requires a CPU source"):
        moves.CpuToFileBackedMoveOperation().forward(tensor, FileBacked(dtype=DType.Float32))


def test_gradient_comes_back_in_storage_like_the_source():
    tensor = cpu_line(1.0, 2.0, 3.0)
    result = orlop.move(tensor, FileBacked(dtype=DType.Float32))
    back = orlop.move(result, CPU(3))
    (back * 2.0).backward(cpu_line(2.0, 2.5, 3.0))
    assert friendly.to_list(tensor.grad) == [4.0, 5.0, 6.0]
    assert type(tensor.grad.carrier) is CPU and tensor.grad.autograd_ctx is None


def test_move_without_graph_makes_a_leaf():
    with orlop.no_grad():
        assert orlop.move(cpu_line(1.0), CPU(1)).autograd_ctx is None


def test_cotangent_of_a_move_must_be_injective_and_of_its_shape():
    result = orlop.move(cpu_line(1.0, 2.0), CPU(2))
    node = result.autograd_ctx
    with pytest.raises(ValueError, match="injective"):
        node.backward(line(CPU(1), 2, stride=0))
    with pytest.raises(ValueError, match="shape"):
        node.backward(cpu_line(1.0))


def test_a_profiler_sees_submission_and_completion():
    with orlop.profile() as profiler:
        orlop.move(cpu_line(1.0, 2.0), CPU(2))
    submit, complete = (next(e for e in profiler.events() if e.name == name) for name in ("move.submit", "move.complete"))
    assert submit.parent_id is None and complete.parent_id == submit.id
    assert submit.succeeded and complete.succeeded and complete.carrier_type is CPU


def test_a_graph_that_saved_the_destination_notices_the_move():
    destination = cpu_line(1.0, 1.0)
    product = destination * destination
    orlop.move(cpu_line(3.0, 4.0), destination.carrier)
    with pytest.raises(RuntimeError, match="modified in-place"):
        product.backward(cpu_line(1.0, 1.0))
