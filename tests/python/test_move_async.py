"""Moves in the background: handles, their one terminal state, owners, hooks that move, exit, forks, profiles."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import orlop
import pytest
from list_carrier import ListCarrier
from orlop import CPU, AwaitMove, AwaitResult, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride, Tensor
from orlop import friendly, move_async
from orlop._testing import Gate, IoScript, file_backed_io
from orlop.carriers import move as moves
from waiting import PATIENCE, are_collected, eventually


def line(carrier, count, offset=0, stride=1):
    return Tensor(carrier, offset, Layout(Shape(count), Stride(stride)))


def cpu_line(*values):
    return line(CPU(0).new_like(values), len(values))


def file_backed():
    return FileBacked(dtype=DType.Float32)


def run_child(code):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p)),
        capture_output=True,
        text=True,
        timeout=120,
    )


class held_writes:
    """While the body runs every first write to a file stops at the gate; it opens at the end."""

    def __init__(self, *following):
        self.gate = Gate()
        self.io = file_backed_io(IoScript(write=[("hold", self.gate), *following]))

    def __enter__(self):
        self.io.__enter__()
        return self

    def wait_entered(self):
        assert self.gate.wait_entered(PATIENCE)

    def __exit__(self, *error):
        self.gate.open()
        return self.io.__exit__(*error)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CPU(12),
        lambda: Generic([0.0] * 12, dtype=DType.Float32),
        file_backed,
        lambda: Evictable(CPU(12), file_backed()),
        lambda: ListCarrier([0.0] * 12),
    ],
    ids=["CPU", "Generic", "FileBacked", "Evictable", "ListCarrier"],
)
def test_a_handle_gives_what_move_returns(make):
    carrier = CPU(0).new_like([float(i) for i in range(12)])
    tensor, destination = line(carrier, 4, offset=1, stride=3), make()
    handle = move_async(tensor, destination)
    assert type(handle) is AwaitMove and isinstance(handle, AwaitResult)
    result = handle.wait()
    assert handle.done is True and handle.wait() is result
    assert result.carrier is destination and (result.offset, result.layout) == (0, tensor.layout)
    assert friendly.to_list(result) == [1.0, 4.0, 7.0, 10.0]
    assert carrier.is_released() and not carrier.is_owned() and not destination.is_owned()


def test_errors_before_submission_are_raised_at_once():
    tensor = cpu_line(1.0, 2.0)
    for destination, error in [(None, TypeError), (tensor.carrier, ValueError), (CPU(1), ValueError),
                               (Generic([0], dtype=DType.Int32), TypeError)]:
        with pytest.raises(error):
            move_async(tensor, destination)
    with pytest.raises(TypeError):
        move_async([tensor], CPU(2))
    assert not tensor.carrier.is_owned() and friendly.to_list(tensor) == [1.0, 2.0]


def test_a_pending_move_owns_both_carriers():
    tensor, destination = cpu_line(1.0, 2.0), file_backed()
    with held_writes() as writes:
        handle = move_async(tensor, destination)
        writes.wait_entered()
        assert handle.done is False
        assert tensor.carrier.is_owned() and destination.is_owned()
        assert friendly.to_list(tensor) == [1.0, 2.0]
        for attempt in (
            lambda: tensor.carrier.__setitem__(0, 5.0),
            tensor.carrier.release,
            destination.release,
            tensor.carrier._increment_version,
            lambda: orlop.move(tensor, CPU(2)),
            lambda: orlop.move(cpu_line(3.0), destination),
            lambda: Evictable(tensor.carrier, file_backed()),
        ):
            with pytest.raises(RuntimeError):
                attempt()
    results = []
    threads = [threading.Thread(target=lambda: results.append(handle.wait())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(results) == 2 and results[0] is results[1] is handle.wait()
    assert tensor.carrier.is_released() and not destination.is_owned() and destination.version == 1


def test_a_dropped_handle_neither_blocks_nor_cancels():
    tensor, destination = cpu_line(1.0, 2.0), file_backed()
    with held_writes() as writes:
        gone = weakref.ref(move_async(tensor, destination))
        writes.wait_entered()
    assert eventually(lambda: not destination.is_owned())
    assert tensor.carrier.is_released() and [destination[0], destination[1]] == [1.0, 2.0]
    assert eventually(lambda: gone() is None)


def test_a_failure_is_one_exception_for_every_waiter():
    tensor, destination = cpu_line(1.0, 2.0), file_backed()
    with file_backed_io(IoScript(write=[("fail", 5)])):
        handle = move_async(tensor, destination)
        with pytest.raises(OSError) as first:
            handle.wait()
    with pytest.raises(OSError) as second:
        handle.wait()
    assert first.value is second.value and first.value.errno == 5 and first.value.filename == str(destination.path)
    seen = []

    def wait():
        try:
            handle.wait()
        except OSError as error:
            seen.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(PATIENCE)
    assert seen == [first.value] and seen[0] is first.value
    assert handle.done and not tensor.carrier.is_released()
    assert not tensor.carrier.is_owned() and not destination.is_owned() and destination.size() == 0
    assert friendly.to_list(orlop.move(tensor, destination)) == [1.0, 2.0]


class Failing(moves.MoveOperation):
    def _copy(self, tensor, destination, output, element_count):
        raise KeyError("mine")


class Answering(moves.MoveOperation):
    def _copy(self, tensor, destination, output, element_count):
        return 0


def test_an_exception_of_a_hook_is_passed_on_as_it_is():
    tensor = cpu_line(1.0)
    with moves.registered_move_operation(CPU, CPU, Failing):
        handle = move_async(tensor, CPU(1))
        errors = []
        for _ in range(3):
            with pytest.raises(KeyError, match="mine") as caught:
                handle.wait()
            errors.append(caught.value)
    assert errors[0] is errors[1] is errors[2]
    assert len([frame for frame in _frames(errors[0]) if frame == "_copy"]) == 1
    with moves.registered_move_operation(CPU, CPU, Answering):
        handle = move_async(tensor, CPU(1))
        with pytest.raises(TypeError, match="_copy must return None"):
            handle.wait()


def _frames(error):
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame.f_code.co_name
        traceback = traceback.tb_next


def test_a_failed_handle_is_collected_with_its_exception():
    def fail():
        tensor = cpu_line(1.0)
        with moves.registered_move_operation(CPU, CPU, Failing):
            handle = move_async(tensor, CPU(1))
        try:
            handle.wait()
        except KeyError:
            pass
        return weakref.ref(handle), weakref.ref(tensor.carrier)

    assert are_collected(*fail())


def test_handles_are_made_by_the_framework():
    for kind in (AwaitResult, AwaitMove):
        with pytest.raises(TypeError, match="created by the framework"):
            kind()
        with pytest.raises(TypeError, match="created by the framework"):
            kind(1, two=2)
        assert not hasattr(kind, "__await__") and not hasattr(kind, "cancel")
    assert AwaitMove[Tensor].__origin__ is AwaitMove and AwaitResult[int].__args__ == (int,)
    with pytest.raises(TypeError):
        type("Derived", (AwaitMove,), {})
    handle = move_async(cpu_line(1.0), CPU(1))
    assert weakref.ref(handle)() is handle
    handle.wait()


class Relay(moves.MoveOperation):
    """Moves through a third carrier, by a handle that it waits for."""

    def _copy(self, tensor, destination, output, element_count):
        between = cpu_line(*friendly.to_list(tensor))
        result = move_async(between, Generic([0.0] * element_count, dtype=DType.Float32)).wait()
        for slot in range(element_count):
            destination[slot] = result.carrier[slot]


def test_hooks_that_move_cannot_exhaust_the_pool():
    with moves.registered_move_operation(CPU, ListCarrier, Relay):
        handles = [move_async(cpu_line(float(i), 1.0), ListCarrier([0.0, 0.0])) for i in range(64)]
        assert [friendly.to_list(handle.wait()) for handle in handles] == [[float(i), 1.0] for i in range(64)]


class SelfWaiting(moves.MoveOperation):
    handles = []
    is_known = threading.Event()

    def _copy(self, tensor, destination, output, element_count):
        assert self.is_known.wait(PATIENCE)
        self.handles.pop().wait()


def test_a_hook_that_waits_for_its_own_move_is_refused():
    with moves.registered_move_operation(CPU, CPU, SelfWaiting):
        handle = move_async(cpu_line(1.0), CPU(1))
        SelfWaiting.handles.append(handle)
        SelfWaiting.is_known.set()
        with pytest.raises(RuntimeError, match="cannot wait for its own end"):
            handle.wait()


class WaitingForTheOther(moves.MoveOperation):
    """Move number i waits for handle i."""

    handles = {}
    all_know = threading.Barrier(3)

    def _copy(self, tensor, destination, output, element_count):
        self.all_know.wait(PATIENCE)
        self.handles[tensor[0]].wait()
        destination[0] = tensor[0]


def test_of_two_moves_that_wait_for_each_other_one_is_refused():
    with moves.registered_move_operation(CPU, CPU, WaitingForTheOther):
        for _ in range(20):
            sources = [cpu_line(0.0), cpu_line(1.0)]
            handles = [move_async(source, CPU(1)) for source in sources]
            WaitingForTheOther.handles.update({0.0: handles[1], 1.0: handles[0]})
            WaitingForTheOther.all_know.wait(PATIENCE)
            failures = []
            for handle in handles:
                try:
                    handle.wait()
                except RuntimeError as error:
                    failures.append(str(error))
            # The one that is refused fails, and with it the one that waits for its result.
            assert len(failures) == 2 and all("cannot wait for its own end" in words for words in failures)
            assert [source[0] for source in sources] == [0.0, 1.0]
            assert not any(source.carrier.is_owned() for source in sources)


def test_a_gradient_comes_back_by_the_route_kept_at_the_call():
    tensor = cpu_line(1.0, 2.0)
    handle = move_async(tensor, CPU(2))
    with orlop.no_grad():
        result = handle.wait()  # what counts is how the move was asked for
    (result * 3.0).backward(cpu_line(1.0, 2.0))
    assert friendly.to_list(tensor.grad) == [3.0, 6.0]
    with orlop.no_grad():
        handle = move_async(cpu_line(1.0), CPU(1))
    assert handle.wait().autograd_ctx is None


def test_inside_an_owners_scope_the_move_is_over_on_return():
    source, tensor = CPU(0).new_like([1.0, 2.0]), None
    token = source._claim_ownership()
    source._begin_owner_access(token)
    tensor = line(source, 2)
    handle = move_async(tensor, CPU(2))
    assert handle.done and friendly.to_list(handle.wait()) == [1.0, 2.0]
    source._end_owner_access(token)
    source._relinquish_ownership(token)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_wait_but_not_the_move():
    tensor, destination = cpu_line(1.0), file_backed()
    with held_writes() as writes:
        handle = move_async(tensor, destination)
        writes.wait_entered()
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            handle.wait()
        timer.join()
        assert not handle.done
    assert friendly.to_list(handle.wait()) == [1.0]


def events(profiler):
    return [event for event in profiler.events() if event.name.startswith("move.")]


def test_a_completion_after_the_context_still_appears():
    tensor, destination = cpu_line(1.0), file_backed()
    with held_writes() as writes:
        with orlop.profile() as profiler:
            handle = move_async(tensor, destination)
            writes.wait_entered()
            tensor + tensor
        assert [event.name for event in profiler.events()] == ["move.submit", "add"]
    handle.wait()
    handle.wait()
    assert [event.name for event in profiler.events()] == ["move.submit", "move.complete", "add"]
    submit, complete, _ = profiler.events()
    assert [event.id for event in profiler.events()] == [0, 1, 2]
    assert submit.parent_id is None and complete.parent_id == submit.id
    assert submit.succeeded and complete.succeeded
    assert {submit.carrier_type, complete.carrier_type} == {CPU}
    assert {submit.implementation_type, complete.implementation_type} == {moves.CpuToFileBackedMoveOperation}
    assert complete.self_time_ns == complete.duration_ns > submit.duration_ns > 0


def test_a_failed_move_is_profiled_as_such_and_a_refused_one_not_at_all():
    with orlop.profile() as profiler:
        with file_backed_io(IoScript(write=[("fail", 28)])):
            handle = move_async(cpu_line(1.0), file_backed())
            with pytest.raises(OSError):
                handle.wait()
        with pytest.raises(ValueError):
            move_async(cpu_line(1.0, 2.0), CPU(1))
    submit, complete = events(profiler)
    assert submit.succeeded and not complete.succeeded


def test_at_exit_running_transfers_finish_and_the_others_fail():
    done = run_child(
        """
        import atexit, threading
        from orlop import CPU, DType, FileBacked, Layout, Shape, Stride, Tensor, move_async
        from orlop._testing import Gate, IoScript, file_backed_io

        def line(carrier, count):
            return Tensor(carrier, 0, Layout(Shape(count), Stride(1)))

        gates = [Gate() for _ in range(4)]
        io = file_backed_io(IoScript(write=[("hold", gate) for gate in gates]))
        io.__enter__()
        handles = [move_async(line(CPU(2), 2), FileBacked(dtype=DType.Float32)) for _ in range(6)]
        assert all(gate.wait_entered(60) for gate in gates)
        timer = threading.Timer(0.5, lambda: [gate.open() for gate in gates])
        timer.daemon = True  # nobody waits for it before the callbacks at exit
        timer.start()

        import orlop._core, sys

        class Report:  # runs when the interpreter takes the modules down, after every callback
            def __del__(self):
                for handle in handles:
                    try:
                        handle.wait()
                        print("moved")
                    except RuntimeError as error:
                        print("ended" if "ended before" in str(error) else error)

        report = Report()
        """
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["ended"] * 2 + ["moved"] * 4, done.stdout + done.stderr


def test_pending_moves_are_over_in_a_forked_child():
    tensor, destination = cpu_line(1.0, 2.0), file_backed()
    with held_writes() as writes:
        handle = move_async(tensor, destination)
        writes.wait_entered()
        child = os.fork()
        if child == 0:
            try:
                assert handle.done
                try:
                    handle.wait()
                except RuntimeError as error:
                    assert "fork" in str(error)
                else:
                    raise AssertionError("no error")
                assert not tensor.carrier.is_owned() and not destination.is_owned()
                assert friendly.to_list(orlop.move(tensor, CPU(2))) == [1.0, 2.0]
                assert friendly.to_list(move_async(cpu_line(3.0), CPU(1)).wait()) == [3.0]
            except BaseException as error:
                print(error, file=sys.stderr)
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert friendly.to_list(handle.wait()) == [1.0, 2.0]


class Forking(moves.MoveOperation):
    def _copy(self, tensor, destination, output, element_count):
        destination[0] = 7.0
        if os.fork() == 0:
            Forking.is_child = True


def test_a_hook_that_forks_goes_on_on_both_sides():
    done = run_child(
        f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import os
        from test_move_async import CPU, Forking, cpu_line, friendly, move_async, moves

        Forking.is_child = False
        with moves.registered_move_operation(CPU, CPU, Forking):
            handle = move_async(cpu_line(1.0), CPU(1))
            assert friendly.to_list(handle.wait()) == [7.0]
        if Forking.is_child:
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.wait()[1]) in (0, 3)
        """
    )
    assert done.returncode in (0, 3), done.stderr


def test_moves_from_many_threads_end_with_every_value():
    failures = []

    def run(seed):
        for i in range(50):
            value = float(seed * 1000 + i)
            handle = move_async(cpu_line(value), [CPU(1), Generic([0.0], dtype=DType.Float32), file_backed()][i % 3])
            if friendly.to_list(handle.wait()) != [value]:
                failures.append(value)

    threads = [threading.Thread(target=run, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []


def test_of_racing_moves_of_one_tensor_one_wins():
    tensor = cpu_line(1.0)
    barrier, results = threading.Barrier(4), []

    def run():
        destination = CPU(1)
        barrier.wait()
        try:
            results.append(move_async(tensor, destination).wait())
        except RuntimeError as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sum(isinstance(result, Tensor) for result in results) == 1 and len(results) == 4
