"""One Evictable hierarchy through random lives, with a NumPy array as the model: whatever fails, no value is lost."""

import errno

import numpy as np
import pytest
from arrays import canonical, carrier_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orlop import CPU, DType, Evictable, FileBacked, Tensor, move
from orlop._testing import IoScript, file_backed_io

FLOATS = st.floats(width=32, allow_nan=False)
CODES = st.sampled_from([errno.EIO, errno.ENOSPC])


def empty_file():
    return FileBacked(dtype=DType.Float32)


class Hierarchy(RuleBasedStateMachine):
    @initialize(values=st.lists(FLOATS, min_size=1, max_size=7))
    def make(self, values):
        self.model = np.array(values, np.float32)
        self.carrier = Evictable(carrier_of(self.model), empty_file())
        self.version = 0

    def is_promoted(self):
        return not self.carrier.is_evicted()

    def tensor(self):
        return Tensor(self.carrier, 0, canonical([len(self.model)]))

    @precondition(is_promoted)
    @rule(place=st.integers(0, 6), value=FLOATS)
    def write(self, place, value):
        place %= len(self.model)
        self.carrier[place] = value
        self.model[place] = value
        self.version += 1

    @precondition(is_promoted)
    @rule(value=FLOATS)
    def write_through_a_view(self, value):
        view = self.tensor()[len(self.model) - 1 :]
        view[0] = value
        self.model[-1] = value
        self.version += 1

    @rule(place=st.integers(0, 6), value=FLOATS)
    def a_write_that_is_refused(self, place, value):
        outside = len(self.model) + place
        with pytest.raises((IndexError, RuntimeError)):
            self.carrier[outside] = value

    @rule()
    def evict(self):
        self.carrier.evict()

    @rule()
    def promote(self):
        self.carrier.promote()

    @precondition(is_promoted)
    @rule(code=CODES)
    def evict_onto_a_failing_file(self, code):
        with file_backed_io(IoScript(write=[("fail", code)])), pytest.raises(OSError):
            self.carrier.evict()
        assert not self.carrier.is_evicted()

    @precondition(lambda self: self.carrier.is_evicted())
    @rule(code=CODES)
    def promote_from_a_failing_file(self, code):
        with file_backed_io(IoScript(read=[("fail", code)])), pytest.raises(OSError):
            self.carrier.promote()
        assert self.carrier.is_evicted()

    @precondition(is_promoted)
    @rule()
    def compute(self):
        result = self.tensor() + self.tensor()
        result.carrier.evict()
        result.carrier.promote()
        with np.errstate(over="ignore"):
            expected = self.model + self.model
        assert np.array_equal([result[i] for i in range(len(expected))], expected)

    @precondition(is_promoted)
    @rule()
    def move_out_and_in(self):
        outside = move(self.tensor(), CPU(len(self.model)))
        assert self.carrier.is_released()
        self.carrier = Evictable(outside.carrier, empty_file())
        self.version = 0

    @invariant()
    def nothing_is_lost(self):
        live = self.carrier.secondary if self.carrier.is_evicted() else self.carrier.primary
        assert np.array_equal([live[i] for i in range(live.size())], self.model)
        assert (self.carrier.size(), self.carrier.version) == (len(self.model), self.version)

    def teardown(self):
        if hasattr(self, "carrier"):
            self.carrier.release()
            assert self.carrier.is_released()


Hierarchy.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestHierarchy = Hierarchy.TestCase
