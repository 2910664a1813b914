"""Nested lists as tensors: lists that lie about themselves, or change while they are read."""

import pytest
from orlop import DType, friendly


def test_list_subclass_is_read_by_its_own_entries():
    class Liar(list):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return [1.0]

    assert friendly.to_list(friendly.tensor(Liar([1.0, 2.0]))) == [1.0, 2.0]
    assert friendly.tensor([Liar([1.0, 2.0]), [3.0, 4.0]]).shape == (2, 2)
    with pytest.raises(ValueError, match="non-empty list"):
        friendly.tensor(Liar())


def test_list_that_shrinks_while_it_is_read_is_refused():
    class Clearing:
        def __init__(self, owner):
            self.owner = owner

        def __index__(self):
            self.owner.clear()
            return 1

    rows = []
    rows += [[Clearing(rows)], [2]]
    with pytest.raises(ValueError, match="a length changed while it was read"):
        friendly.tensor(rows, dtype=DType.Int32)


@pytest.mark.parametrize("values", [[[1, 2], [3]], [[1, 2], 3], [1, [2]], [[[1]], [2]]])
def test_ragged_lists_are_refused(values):
    with pytest.raises(ValueError, match="rectangular"):
        friendly.tensor(values)
