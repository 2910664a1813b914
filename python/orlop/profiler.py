"""Profiling of dispatched operations: which ran, on which carrier class, nested how, for how long (P95-P100).

>>> import orlop
>>> with orlop.profile(record_shapes=True) as profiler:
...     pass
>>> profiler.events()
()
"""

from collections.abc import Iterable
from dataclasses import dataclass

from orlop._core import _profiler as _native

__all__ = ["Profiler", "ProfilerAggregate", "ProfilerEvent", "profile"]

Profiler = _native.Profiler


@dataclass(frozen=True)
class ProfilerEvent:
    """One call of a dispatched operation; times of the host's monotonic clock.

    ``parent_id`` is the nearest selected operation around it; ``self_time_ns`` leaves out immediate children,
    selected or not; ``input_shapes`` has one entry per positional argument, None for those that are no Tensor.

    >>> from orlop import friendly
    >>> with orlop.profile(record_shapes=True) as profiler:
    ...     _ = friendly.ones(2) * 3.0
    >>> event, = profiler.events()
    >>> event.name, event.input_shapes, event.succeeded, event.duration_ns > 0
    ('mul', ((2,), None), True, True)
    """

    id: int
    parent_id: int | None
    name: str
    carrier_type: type
    implementation_type: type
    input_shapes: tuple | None
    start_time_ns: int
    duration_ns: int
    self_time_ns: int
    thread_id: int
    succeeded: bool


@dataclass(frozen=True)
class ProfilerAggregate:
    """All calls of one name on one carrier class, and with the same shapes if so asked.

    >>> from orlop import friendly
    >>> with orlop.profile() as profiler:
    ...     _ = friendly.ones(2) + friendly.ones(2) + friendly.ones(2)
    >>> aggregate, = profiler.key_averages()
    >>> aggregate.name, aggregate.count, aggregate.mean_time_ns == aggregate.total_time_ns / 2
    ('add', 2, True)
    """

    name: str
    carrier_type: type
    input_shapes: tuple | None
    count: int
    total_time_ns: int
    self_total_time_ns: int
    mean_time_ns: float
    min_time_ns: int
    max_time_ns: int


def profile(*, carriers: Iterable[type] | None = None, record_shapes: bool = False) -> Profiler:
    """A fresh Profiler: ``with orlop.profile() as profiler: ...``, then ``print(profiler.table())``.

    >>> from orlop import friendly
    >>> with orlop.profile() as profiler:
    ...     _ = orlop.relu(friendly.ones(2))
    >>> profiler.events()[0].name
    'relu'
    """
    return Profiler(carriers=carriers, record_shapes=record_shapes)
