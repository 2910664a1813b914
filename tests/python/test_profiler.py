"""Profiling of dispatched operations (P95-P100)."""

import dataclasses
import itertools
import threading

import pytest

import orlop
from orlop import (
    CPU,
    Evictable,
    FileBacked,
    Layout,
    Operation,
    Profiler,
    ProfilerAggregate,
    ProfilerEvent,
    Shape,
    Stride,
    Tensor,
    functional,
    profile,
)
from orlop.carriers.base import Carrier
from orlop.carriers.operation_capability import OperationCapability, register_operation_capabilities
from orlop.carriers.operation_policy import resolve_operation_plan
from orlop.operation import table_operation

F = orlop.DType.Float32
HEADER = "Name  Carrier  Calls  Total (ns)  Self total (ns)  Mean (ns)  Min (ns)  Max (ns)"


def tensor(shape=2, stride=1):
    layout = Layout(Shape(shape), Stride(stride))
    return Tensor(CPU(layout.size), 0, layout)


class Doubling(Operation):
    """A dispatched operation with a nested one; `gap` fails after it."""

    def _forward(self, x):
        doubled = functional.add(x, x)
        if self._operation_name == "gap":
            raise KeyError("gap")
        return doubled


class Outer(Carrier):
    """Computes through CPU: every dispatch is a Doubling."""

    def size(self):
        return 2

    def dtype(self):
        return F

    def get_value(self, index):
        return 0.0

    def set_value(self, index, value):
        pass

    def new_like(self, values, mutable=True, dtype=None):
        return type(self)()

    def allocate_like(self, size, mutable=True, dtype=None, empty=False):
        return type(self)()

    def scatter(self, to_scatter, scatter_onto, mapping, mapping_offset=0):
        raise NotImplementedError

    def _dispatch_op(self, operation_name):
        return Doubling()


def nested():
    return Outer().dispatch_op("double").forward(tensor())


def recorded(body=lambda: None, **options):
    with profile(**options) as profiler:
        body()
    return profiler


def test_one_object_of_each_name():
    for name in ("profile", "Profiler", "ProfilerEvent", "ProfilerAggregate"):
        assert getattr(orlop, name) is getattr(orlop.operation, name) and name in orlop.__all__
    assert isinstance(profile(), Profiler)


def test_nested_events():
    outer, inner = recorded(nested).events()
    assert (outer.id, outer.parent_id, inner.id, inner.parent_id) == (0, None, 1, 0)
    assert (outer.name, inner.name) == ("double", "add")
    assert (outer.carrier_type, inner.carrier_type) == (Outer, CPU)
    assert outer.implementation_type is Doubling
    assert inner.implementation_type is type(orlop.operation.table_operation("relu"))
    assert inner.implementation_type.__name__ == "TableOperation"
    assert outer.self_time_ns == outer.duration_ns - inner.duration_ns
    assert inner.self_time_ns == inner.duration_ns
    assert outer.start_time_ns <= inner.start_time_ns
    assert outer.succeeded and inner.succeeded
    assert outer.thread_id == inner.thread_id == threading.get_ident()
    assert outer.input_shapes is inner.input_shapes is None


def test_a_hierarchy_and_its_primary():
    x = Tensor(Evictable(CPU(2), FileBacked(dtype=F)), 0, Layout(Shape(2), Stride(1)))
    outer, inner = recorded(lambda: functional.relu(x)).events()
    assert (outer.name, outer.carrier_type, inner.name, inner.carrier_type) == ("relu", Evictable, "relu", CPU)
    assert inner.parent_id == 0 and outer.self_time_ns == outer.duration_ns - inner.duration_ns
    (root,) = recorded(lambda: functional.relu(x), carriers=[CPU]).events()
    assert root.parent_id is None


def test_filters_take_exact_classes():
    (event,) = recorded(nested, carriers=[CPU]).events()
    assert (event.id, event.parent_id, event.name) == (0, None, "add")
    (event,) = recorded(nested, carriers={Outer}).events()
    assert event.self_time_ns < event.duration_ns
    for nothing in ([], [Carrier], iter(())):
        assert recorded(nested, carriers=nothing).events() == ()
    assert len(recorded(nested, carriers=(Outer, CPU, CPU)).events()) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"carriers": 3},
        {"carriers": CPU},
        {"carriers": [int]},
        {"carriers": [CPU.__name__]},
        {"carriers": "CPU"},
        {"carriers": [None]},
        {"record_shapes": 1},
        {"record_shapes": None},
        {"unknown": True},
    ],
)
def test_wrong_options(options):
    for make in (Profiler, profile):
        with pytest.raises(TypeError):
            make(**options)
    with pytest.raises(TypeError):
        Profiler([CPU])


def test_recorded_shapes():
    nest = tensor([[2, 5], 3], [[1, 2], 10])
    (event,) = recorded(lambda: functional.mul(nest, 2.0), record_shapes=True).events()
    assert event.input_shapes == (((2, 5), 3), None)
    (event,) = recorded(lambda: functional.neg(tensor()), record_shapes=True).events()
    assert event.input_shapes == ((2,),)


def test_failures():
    def fail():
        with pytest.raises(KeyError):
            Outer().dispatch_op("gap").forward(tensor())
        with pytest.raises(TypeError):
            CPU(1).dispatch_op("add").forward(tensor(), "x")
        with pytest.raises(TypeError):
            CPU(1).dispatch_op("add").forward(tensor(), tensor(), options=3)
        with pytest.raises(TypeError):
            functional.add(tensor(), "x")
        with pytest.raises(NotImplementedError):
            CPU(1).dispatch_op("nosuch")

    events = recorded(fail).events()
    assert [(event.name, event.succeeded) for event in events] == [
        ("gap", False),
        ("add", True),
        ("add", False),
        ("add", False),
    ]


def test_undispatched_operations_are_invisible():
    assert [event.name for event in recorded(lambda: Doubling().forward(tensor())).events()] == ["add"]


def test_lowered_execution_is_an_event():
    (event,) = recorded(lambda: CPU(1).dispatch_op("neg")._execute_lowered(tensor())).events()
    assert (event.name, event.succeeded) == ("neg", True)


def test_a_profiler_is_used_once():
    profiler = Profiler()
    with pytest.raises(RuntimeError):
        profiler.events()
    with pytest.raises(RuntimeError):
        profiler.__exit__(None, None, None)
    with profiler as entered:
        assert entered is profiler
        with pytest.raises(RuntimeError):
            profiler.table()
        with pytest.raises(RuntimeError):
            profiler.__enter__()
        other = Profiler()
        with pytest.raises(RuntimeError):
            other.__enter__()
        functional.neg(tensor())
    functional.neg(tensor())
    assert len(profiler.events()) == 1
    for again in (profiler.__enter__, other.__enter__, lambda: profiler.__exit__(None, None, None)):
        with pytest.raises(RuntimeError):
            again()
    assert Profiler().__enter__().__exit__(None, None, None) is False


def test_exceptions_pass_through():
    profiler = profile()
    with pytest.raises(ZeroDivisionError), profiler:
        functional.neg(tensor())
        raise ZeroDivisionError
    assert len(profiler.events()) == 1


def run_in_thread(body):
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()


def test_a_foreign_exit_abandons_the_recording():
    profiler = profile().__enter__()
    functional.neg(tensor())
    caught = []

    def leave():
        try:
            profiler.__exit__(None, None, None)
        except RuntimeError as error:
            caught.append(error)

    run_in_thread(leave)
    assert len(caught) == 1
    functional.neg(tensor())
    for late in (profiler.events, lambda: profiler.__exit__(None, None, None)):
        with pytest.raises(RuntimeError):
            late()
    assert len(recorded(lambda: functional.neg(tensor())).events()) == 1


def test_other_threads_are_not_recorded():
    assert recorded(lambda: run_in_thread(lambda: functional.neg(tensor()))).events() == ()
    inner = []
    with profile():
        run_in_thread(lambda: inner.append(recorded(lambda: functional.neg(tensor()))))
    assert len(inner[0].events()) == 1


def test_a_dropped_profiler_frees_its_thread():
    profile().__enter__()
    assert recorded().events() == ()


def test_averages():
    def body():
        functional.neg(tensor())
        functional.add(tensor(), tensor())
        functional.neg(tensor(3))
        nested()

    profiler = recorded(body, record_shapes=True)
    names = [(each.name, each.carrier_type, each.count) for each in profiler.key_averages()]
    assert names == [("add", CPU, 2), ("double", Outer, 1), ("neg", CPU, 2)]
    neg = profiler.key_averages()[2]
    durations = [event.duration_ns for event in profiler.events() if event.name == "neg"]
    assert (neg.total_time_ns, neg.min_time_ns, neg.max_time_ns) == (sum(durations), min(durations), max(durations))
    assert neg.mean_time_ns == sum(durations) / 2 and neg.input_shapes is None
    grouped = profiler.key_averages(group_by_input_shape=True)
    assert [each.input_shapes for each in grouped if each.name == "neg"] == [((2,),), ((3,),)]
    with pytest.raises(TypeError):
        profiler.key_averages(group_by_input_shape=1)


def test_tables():
    empty = recorded()
    assert empty.table() == HEADER + "\n" + "  ".join("-" * width for width in (4, 7, 5, 10, 15, 9, 8, 8))

    def body():
        functional.neg(tensor())
        for _ in range(2):
            functional.add(tensor(), tensor())
        nested()

    profiler = recorded(body, record_shapes=True)

    def names(**options):
        return [line.split()[0] for line in profiler.table(**options).split("\n")[2:]]

    assert names(sort_by="name") == ["neg", "double", "add"]
    assert names(sort_by="count", descending=False) == ["double", "neg", "add"]
    assert names(sort_by="count", row_limit=1) == ["add"]
    assert names(row_limit=0) == []
    assert names(row_limit=2**80, sort_by="carrier_type") == ["double", "add", "neg"]
    assert set(names()) == {"neg", "double", "add"}
    for field in dataclasses.fields(ProfilerAggregate):
        assert len(names(sort_by=field.name)) == 3
    lines = profiler.table(group_by_input_shape=True).split("\n")
    assert "Input shapes" in lines[0] and len({len(line) for line in lines}) == 1
    assert any("((2,), (2,))" in line for line in lines)
    assert profiler.table() == profiler.table()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"sort_by": "speed"}, ValueError),
        ({"sort_by": 3}, ValueError),
        ({"sort_by": None}, ValueError),
        ({"sort_by": []}, TypeError),
        ({"descending": 1}, TypeError),
        ({"group_by_input_shape": None}, TypeError),
        ({"row_limit": True}, ValueError),
        ({"row_limit": -1}, ValueError),
        ({"row_limit": -(2**80)}, ValueError),
        ({"row_limit": 1.0}, ValueError),
        ({"row_limit": "3"}, ValueError),
    ],
)
def test_wrong_table_arguments_are_found_first(options, error):
    for profiler in (recorded(), Profiler()):
        with pytest.raises(error):
            profiler.table(**options)


def test_records_are_frozen_and_complete():
    event = recorded(lambda: functional.neg(tensor())).events()[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.name = "x"
    assert dataclasses.replace(event) == event
    fields = [field.name for field in dataclasses.fields(ProfilerEvent)]
    assert fields == ["id", "parent_id", "name", "carrier_type", "implementation_type", "input_shapes", "start_time_ns",
                      "duration_ns", "self_time_ns", "thread_id", "succeeded"]  # fmt: skip
    for record, count in [(ProfilerEvent, 11), (ProfilerAggregate, 9)]:
        with pytest.raises(TypeError):
            record(*range(count - 1))
        with pytest.raises(TypeError):
            record(*range(count), unknown=1)
        assert record(*range(count)) == record(*range(count))


def test_custom_classes_in_events():
    class Custom(Outer):
        def _dispatch_op(self, operation_name):
            return table_operation(operation_name)

    register_operation_capabilities(Custom, [OperationCapability.from_plan(resolve_operation_plan("neg", F))])
    y = Tensor(Custom(), 0, Layout(Shape(2), Stride(1)))
    events = recorded(lambda: functional.neg(y), carriers=[Custom]).events()
    assert [event.carrier_type for event in events] == [Custom]
    assert list(itertools.chain.from_iterable((e.id, e.name) for e in events)) == [0, "neg"]
