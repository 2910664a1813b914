"""Moves of classes with a CarrierDefinition: routes, elementwise fallback, completions, gradients (X20, S403-S419)."""

import dataclasses
import gc
import threading

import pytest
from defined_carrier import BOX, FLOAT, INT, box, defined, filled, snapshot, whole

from orlop import CPU, Carrier, Evictable, Generic, Layout, Shape, Stride, Tensor, move, move_async, no_grad, profile
from orlop.carriers.extension import (
    CarrierDefinition,
    PreparedTransfer,
    TransferProvider,
    TransferRequest,
    TransferRoute,
    Unsupported,
    register_carrier_definition,
)
from orlop.carriers.move import ElementwiseMoveOperation, MoveOperation

STRICT = dataclasses.replace(BOX, elementwise_fallback=False)


class Trouble(Exception):
    pass


def copy(request):
    """Moves the span in one piece."""

    def submit():
        start = request.tensor.offset
        request.destination.box[: request.physical_span] = request.tensor.carrier.box[
            start : start + request.physical_span]

    return PreparedTransfer(submit)


def pair(prepare=copy, back=copy, storage=STRICT):
    """Two classes with routes both ways."""
    source, destination = type("Source", (Carrier,), {}), type("Destination", (Carrier,), {})
    for one, other, how in ((source, destination, prepare), (destination, source, back)):
        routes = [] if how is None else [TransferRoute(one, other, f"to_{other.__name__}", TransferProvider(how))]
        register_carrier_definition(one, CarrierDefinition(storage, transfers=routes))
    return source, destination


def submitting(submit, **others):
    return pair(lambda request: PreparedTransfer(lambda: submit(request)), **others)


# --- The request and what prepare may do


def test_the_provider_is_asked_about_exactly_this_move():
    seen = []

    def prepare(request):
        seen.append((request, request.destination.is_owned(), request.tensor.carrier.is_owned()))
        return copy(request)

    source, destination = pair(prepare)
    tensor = Tensor(filled(source, [float(i) for i in range(9)]), 2, Layout(Shape(2, 2), Stride(1, 4)))
    target = destination(8, dtype=FLOAT)
    moved = move(tensor, target)
    [(request, *owned)] = seen
    assert isinstance(request, TransferRequest) and owned == [True, True]
    assert request == dataclasses.replace(request) and hash(request) == hash(dataclasses.replace(request))
    assert request != dataclasses.replace(request, physical_span=7)
    assert (request.tensor, request.destination) == (tensor, target)
    assert (request.source_class, request.destination_class) == (source, destination)
    assert request.dtype is FLOAT and request.layout == tensor.layout and request.physical_span == 6
    assert moved.carrier is target and moved.offset == 0 and moved.layout == tensor.layout
    assert target.box == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 0.0] and target.version == 1
    assert tensor.carrier.is_released() and not target.is_owned()


@pytest.mark.parametrize("change", [
    lambda request: request.tensor.carrier.box.append(0.0),
    lambda request: request.destination.box.clear(),
], ids=["source extent", "destination extent"])
def test_prepare_may_change_nothing(change):
    def prepare(request):
        change(request)
        return copy(request)

    source, destination = pair(prepare)
    tensor, target = whole(filled(source, [1.0])), destination(2, dtype=FLOAT)
    with pytest.raises(RuntimeError, match="prepare must change neither carrier"):
        move(tensor, target)
    assert not tensor.carrier.is_owned() and not target.is_owned() and not tensor.carrier.is_released()


@pytest.mark.parametrize("answer", [None, 3, lambda: None])
def test_another_answer_of_prepare_is_refused(answer):
    source, destination = pair(lambda request: answer)
    tensor, target = whole(filled(source, [1.0])), destination(1, dtype=FLOAT)
    before = snapshot(tensor.carrier), snapshot(target)
    with pytest.raises(TypeError, match="prepare"):
        move(tensor, target)
    assert (snapshot(tensor.carrier), snapshot(target)) == before


def test_an_exception_of_prepare_is_raised_at_once():
    def fail(request):
        raise Trouble

    source, destination = pair(fail)
    tensor, target = whole(filled(source, [1.0])), destination(0, dtype=FLOAT)
    before = snapshot(tensor.carrier), snapshot(target)
    for call in (move, move_async):
        with pytest.raises(Trouble):
            call(tensor, target)
    assert (snapshot(tensor.carrier), snapshot(target)) == before


# --- Without a route


def test_a_provider_that_declines_leaves_it_to_the_copy_where_both_allow_it():
    source, destination = pair(lambda request: Unsupported("too far"), storage=BOX)
    target = destination(0, dtype=FLOAT)
    assert move(whole(filled(source, [1.0, 2.0])), target).carrier.box == [1.0, 2.0] and target.version == 1
    source, destination = pair(lambda request: Unsupported("too far"))
    tensor = whole(filled(source, [1.0]))
    with pytest.raises(NotImplementedError, match=r"\(Source, Destination\).*too far"):
        move(tensor, destination(1, dtype=FLOAT))
    assert not tensor.carrier.is_owned()


def test_without_a_route_both_providers_must_allow_the_copy():
    allows, strict = defined("Allows"), defined("Strict", storage=STRICT)
    other = defined("Other")
    assert move(whole(filled(allows, [1, 2], INT)), other(2, dtype=INT)).carrier.box == [1, 2]
    for source, destination in ((allows, strict), (strict, allows), (strict, strict)):
        with pytest.raises(NotImplementedError, match=rf"\({source.__name__}, {destination.__name__}\)"):
            move(whole(filled(source, [1], INT)), destination(1, dtype=INT))


def test_nothing_leads_from_a_class_without_definition_into_one():
    made = defined()
    for source in (CPU(1), Generic([1.0], dtype=FLOAT)):
        with pytest.raises(NotImplementedError, match="Boxed.*nothing moves from a class without"):
            move(whole(source), made(1, dtype=FLOAT))
    with pytest.raises(NotImplementedError, match=r"\(Boxed, CPU\)"):
        move(whole(filled(made, [1.0])), CPU(1))


def test_moves_of_ones_own_do_not_bypass_the_definition():
    class Mine(MoveOperation):
        def _copy(self, tensor, destination, output, element_count):
            raise AssertionError

    strict = defined(storage=STRICT)
    for operation in (Mine(), ElementwiseMoveOperation()):
        with pytest.raises(NotImplementedError):
            operation.forward(whole(filled(strict, [1.0])), CPU(1))
    source, destination = pair()
    with pytest.raises(NotImplementedError, match="runs only through"):
        ElementwiseMoveOperation().forward(whole(filled(source, [1.0])), destination(1, dtype=FLOAT))
    made = defined()
    with pytest.raises(NotImplementedError, match="runs only through"):
        Mine().forward(whole(filled(made, [1.0])), made(1, dtype=FLOAT))
    moved = ElementwiseMoveOperation().forward(whole(filled(made, [1.0])), made(1, dtype=FLOAT))
    assert moved.carrier.box == [1.0]


def test_rows_of_other_checks_come_first():
    asked = []
    source, destination = pair(asked.append)
    tensor = whole(filled(source, [1.0, 2.0]))
    for target, error in [
        (tensor.carrier, ValueError),
        (destination(2, dtype=FLOAT, mutable=False), RuntimeError),
        (destination(2, dtype=INT), TypeError),
        (destination(1, dtype=FLOAT), ValueError),
    ]:
        with pytest.raises(error):
            move(tensor, target)
    assert asked == []


# --- Submission


class Held:
    """A completion that is held open until `finish`."""

    def __init__(self):
        self.event, self.error, self.submitted_on = threading.Event(), None, None

    @property
    def done(self):
        return self.event.is_set()

    def wait(self):
        self.event.wait()
        if self.error is not None:
            raise self.error

    def finish(self, error=None):
        self.error = error
        self.event.set()


def holding():
    """A pair whose moves are held open, and the completion."""
    held = Held()

    def submit(request):
        held.submitted_on = threading.get_ident()
        held.request = request
        copy(request).submit()
        return held

    return (*submitting(submit), held)


def test_submit_runs_before_move_async_returns_and_nothing_is_waited_for():
    source, destination, held = holding()
    tensor, target = whole(filled(source, [1.0, 2.0])), destination(0, dtype=FLOAT)
    handle = move_async(tensor, target)
    assert held.submitted_on == threading.get_ident() and not handle.done
    assert tensor.carrier.is_owned() and target.is_owned() and tensor[1] == 2.0
    with pytest.raises(RuntimeError):
        tensor.carrier.release()
    held.finish()
    assert handle.wait() is handle.wait() and handle.done
    assert handle.wait().carrier is target and target.box == [1.0, 2.0] and tensor.carrier.is_released()


def test_a_dropped_handle_still_completes():
    source, destination, held = holding()
    tensor, target = whole(filled(source, [1.0])), destination(1, dtype=FLOAT)
    move_async(tensor, target)
    gc.collect()
    assert target.is_owned()
    held.finish()
    deadline = threading.Event()
    while target.is_owned():
        deadline.wait(0.001)
    assert tensor.carrier.is_released() and target.version == 1


def test_a_failing_completion_is_one_exception_for_every_waiter():
    source, destination, held = holding()
    tensor, target = whole(filled(source, [1.0])), destination(1, dtype=FLOAT)
    handle = move_async(tensor, target)
    error = Trouble()
    held.finish(error)
    caught = []
    for _ in range(3):
        with pytest.raises(Trouble) as info:
            handle.wait()
        caught.append(info.value)
    assert all(one is error for one in caught)
    assert not tensor.carrier.is_released() and not tensor.carrier.is_owned() and not target.is_owned()
    assert target.version == 1 and tensor.carrier.version == 0


def test_an_exception_of_submit_is_raised_at_once():
    def submit(request):
        raise Trouble

    source, destination = submitting(submit)
    tensor, target = whole(filled(source, [1.0])), destination(1, dtype=FLOAT)
    for call in (move, move_async):
        with pytest.raises(Trouble):
            call(tensor, target)
    assert not tensor.carrier.is_owned() and not target.is_owned() and not tensor.carrier.is_released()


class Finished(Held):
    def __init__(self, result=None, *, done=True):
        super().__init__()
        self.result, self.finished = result, done

    @property
    def done(self):
        return self.finished

    def wait(self):
        return self.result


@pytest.mark.parametrize(
    ("submitted", "words"),
    [
        (3, "completion"),
        (Finished(3), "completion"),
        (Finished(done=False), "done"),
        (Finished(done=1), "done must be a bool"),
    ],
)
def test_what_submit_may_not_give(submitted, words):
    source, destination = submitting(lambda request: submitted)
    tensor = whole(filled(source, [1.0]))
    with pytest.raises(TypeError, match=words):
        move(tensor, destination(1, dtype=FLOAT))
    assert not tensor.carrier.is_owned() and not tensor.carrier.is_released()


def test_the_destination_grows_to_the_span_before_submit():
    sizes = []

    def submit(request):
        sizes.append(request.destination.size())
        copy(request).submit()

    source, destination = submitting(submit)
    move(whole(filled(source, [1.0, 2.0, 3.0])), destination(0, dtype=FLOAT))
    assert sizes == [3]


def test_a_provider_may_write_through_the_carrier():
    def submit(request):
        for slot in range(request.physical_span):
            request.destination[slot] = request.tensor.carrier[request.tensor.offset + slot]

    source, destination = submitting(submit)
    moved = move(whole(filled(source, [1.0, 2.0])), destination(2, dtype=FLOAT))
    assert moved.carrier.box == [1.0, 2.0] and moved.carrier.version == 2  # none is added to the provider's own


# --- Gradients and profiles


def test_gradients_come_back_by_the_reverse_route():
    moves = []

    def back(request):
        moves.append("back")
        return copy(request)

    source, destination = pair(back=back)
    tensor = whole(filled(source, [1.0, 2.0]))
    moved = move(tensor, destination(2, dtype=FLOAT))
    moved.backward(whole(filled(destination, [3.0, 4.0])))
    assert type(tensor.grad.carrier) is source and tensor.grad.carrier.box == [3.0, 4.0] and moves == ["back"]


def test_without_a_way_back_only_moves_without_graph_are_made():
    source, destination = pair(back=None)
    tensor, target = whole(filled(source, [1.0])), destination(1, dtype=FLOAT)
    before = snapshot(tensor.carrier), snapshot(target)
    with pytest.raises(NotImplementedError, match=r"\(Destination, Source\)"):
        move(tensor, target)
    assert (snapshot(tensor.carrier), snapshot(target)) == before
    with no_grad():
        assert move(tensor, target).carrier.box == [1.0]
    assert move(whole(filled(source, [1], INT)), destination(1, dtype=INT)).carrier.box == [1]


def test_moves_of_defined_classes_are_profiled():
    source, destination = pair()
    with profile() as profiler, no_grad():
        move(whole(filled(source, [1.0])), destination(1, dtype=FLOAT))
    assert [event.name for event in profiler.events()] == ["move.submit", "move.complete"]
    assert all(event.succeeded for event in profiler.events())


# --- Hierarchies over defined classes (S302)


def test_a_hierarchy_takes_the_routes_of_its_tiers():
    log = []

    def noted(name):
        def prepare(request):
            log.append(name)
            return copy(request)

        return prepare

    source, destination = pair(noted("out"), noted("in"))
    hierarchy = Evictable(filled(source, [1.0, 2.0]), destination(0, dtype=FLOAT))
    hierarchy.evict()
    assert hierarchy.secondary.box == [1.0, 2.0]
    hierarchy.promote()
    assert [hierarchy[0], hierarchy[1]] == [1.0, 2.0] and log == ["out", "in"]


def test_a_hierarchy_needs_a_way_out_and_back():
    made, strict = defined(), defined(storage=STRICT)
    hierarchy = Evictable(filled(made, [1.0]), made(0, dtype=FLOAT))
    hierarchy.evict()
    hierarchy.promote()
    assert hierarchy[0] == 1.0
    for primary, secondary in (
        (filled(strict, [1.0]), strict(0, dtype=FLOAT)),
        (filled(made, [1.0]), CPU(0)),
        (CPU(1), made(0, dtype=FLOAT)),
    ):
        with pytest.raises(NotImplementedError):
            Evictable(primary, secondary)
        assert not primary.is_owned() and not secondary.is_owned()


def test_two_spans_do_not_meet():
    """A provider is given the Tensor's offset: what lies before it stays."""
    source, destination = pair()
    carrier = filled(source, [1.0, 2.0, 3.0, 4.0])
    moved = move(Tensor(carrier, 1, Layout(Shape(2), Stride(1))), destination(4, dtype=FLOAT))
    assert moved.carrier.box == [2.0, 3.0, 0.0, 0.0]


def test_a_slow_dtype_check_is_asked_under_no_lock():
    """A callback that looks its own class up in the registry does not wait for itself."""
    made = type("Curious", (Carrier,), {})

    def supports(carrier, dtype):
        carrier.operation_capabilities()
        return dtype is FLOAT

    register_carrier_definition(made, CarrierDefinition(box(supports_dtype=supports)))
    assert made(1, dtype=FLOAT).size() == 1
