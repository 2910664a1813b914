"""scatter on CPU and Generic beside a NumPy model: values, geometry, refusals, gradients (P68)."""

import math

import numpy as np
import pytest
from arrays import array, canonical, expect, floats, ints, numbers, tensor

import orlop
from orlop import CPU, Generic, Layout, Shape, Stride, Tensor

KINDS = [CPU, Generic]


def model(base, indices, updates, axis):
    result = base.copy()
    moved = np.moveaxis(result, axis, 0)
    items = np.moveaxis(updates.reshape(*base.shape[:axis], indices.size, *base.shape[axis + 1 :], order="F"), axis, 0)
    for position, index in enumerate(indices.ravel(order="F")):
        moved[index] = items[position]
    return result


CASES = [((5,), 0, (3,)), ((5,), 0, (5,)), ((4, 3), 0, (2,)), ((4, 3), 1, (3,)), ((2, 30, 3), 1, (4, 5)),
         ((2, 30, 3), -2, (7,)), ((40, 700), 1, (600,)), ((700, 40), 0, (600,)), ((1,), 0, (1,)), ((3, 4), 1, (1, 2))]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
@pytest.mark.parametrize(("extents", "axis", "index_extents"), CASES)
def test_updates_replace_entries_of_a_copy(extents, axis, index_extents, dtype, kind):
    random = np.random.default_rng(len(extents))
    base = numbers(dtype, math.prod(extents), 1).reshape(extents)
    indices = random.permutation(extents[axis])[: math.prod(index_extents)].astype(np.int32).reshape(index_extents)
    place = axis % len(extents)
    item_extents = (*extents[:place], *index_extents, *extents[place + 1 :])
    updates = numbers(dtype, math.prod(item_extents), 2).reshape(item_extents)
    strides, step = [], 1
    for extent in item_extents[::-1]:  # last mode first, with gaps
        strides.insert(0, step)
        step *= extent + 1
    source = tensor(base, kind=kind)
    version = source.version
    result = orlop.scatter(source, tensor(indices, kind=kind), tensor(updates, strides, 1, kind=kind), axis)
    assert type(result.carrier) is kind
    assert result.layout == canonical(extents)
    expected = model(base, indices, updates, place)
    np.testing.assert_array_equal(array(result), expected)
    np.testing.assert_array_equal(array(source), base)
    assert source.version == version


def test_a_nested_axis_is_addressed_by_its_ordinal():
    carrier = tensor(np.arange(6, dtype=np.int32)).carrier
    base = Tensor(carrier, 0, Layout(Shape(((2, 3),)), Stride(((3, 1),))))
    result = orlop.scatter(base, ints(5, 0), ints(50, 60), 0)
    assert [result[i] for i in range(6)] == [60, 3, 1, 4, 2, 50]


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_index_is_a_value_error(kind):
    base, updates = tensor(np.zeros(4, np.float32), kind=kind), tensor(np.ones(3, np.float32), kind=kind)
    for indices in ([1, 2, 1], [3, 3, 3], [0, 1, 0]):
        with pytest.raises(ValueError, match=rf"^\[scatter\] an index is repeated: {indices[-1]};"):
            orlop.scatter(base, tensor(np.array(indices, np.int32), kind=kind), updates, 0)
    standing = Tensor(tensor(np.array([2], np.int32), kind=kind).carrier, 0, Layout(Shape(3), Stride(0)))
    with pytest.raises(ValueError, match="an index is repeated: 2"):
        orlop.scatter(base, standing, updates, 0)
    np.testing.assert_array_equal(array(base), np.zeros(4))


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_outside_the_axis_is_an_index_error_even_beside_a_repeated_one(kind):
    base, updates = tensor(np.zeros(4, np.float32), kind=kind), tensor(np.ones(3, np.float32), kind=kind)
    for wrong in (-1, 4, 2**31 - 1, -(2**31)):
        with pytest.raises(IndexError, match=str(wrong)):
            orlop.scatter(base, tensor(np.array([1, 1, wrong], np.int32), kind=kind), updates, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.bool_])
@pytest.mark.parametrize("extents", [(37, 5, 40), (8, 3, 33), (7, 3, 33), (70, 40), (9, 64), (130, 16)])
def test_a_table_in_rows_is_read_and_written_along_any_axis(extents, dtype):
    random = np.random.default_rng(5)
    values = numbers(dtype, math.prod(extents), 3).reshape(extents)
    strides = [math.prod(extents[place + 1 :]) for place in range(len(extents))]
    table = tensor(values, strides)
    for axis, extent in enumerate(extents):
        for count in (1, 6, 90):
            indices = random.integers(0, extent, count).astype(np.int32)
            expect(orlop.gather(table, ints(*indices), axis), np.take(values, indices, axis))
        indices = random.permutation(extent)[: extent // 2 + 1].astype(np.int32)
        updates = np.take(values, indices[::-1], axis)
        expected = model(values, indices, updates, axis)
        expect(orlop.scatter(table, ints(*indices), tensor(updates), axis), expected)


@pytest.mark.parametrize("wrong", [-1, 8, 2**31 - 1, -(2**31)])
def test_an_index_outside_the_axis_is_found_wherever_it_stands(wrong):
    table = floats(*range(8))
    for step in (1, 2):
        for length in (1, 3, 4, 15, 16, 17, 37):
            for place in range(length):
                indices = np.zeros(length, np.int32)  # repeated, which would be a ValueError
                indices[place] = wrong
                with pytest.raises(IndexError, match=rf"outside the axis: got {wrong};"):
                    orlop.scatter(table, tensor(indices, strides=(step,)), floats(*range(length)), 0)


def test_wrong_arguments_are_refused():
    base, indices, updates = floats(1, 2, 3), ints(0, 2), floats(7, 8)
    for arguments in [
        (base, indices, ints(7, 8), 0),
        (base, floats(0, 2), updates, 0),
        (base, indices, updates, True),
        (base, indices, updates, 0.0),
        (base, indices, updates, None),
        (base, indices, 1.0, 0),
        (base, [0, 2], updates, 0),
        (base, indices, updates),
    ]:
        with pytest.raises(TypeError):
            orlop.scatter(*arguments)
    for arguments in [
        (base, indices, updates, 1),
        (base, indices, updates, -2),
        (base, indices, updates, 2**63),
        (base, indices, floats(7), 0),
        (base, indices, floats(7, 8, 9), 0),
        (base, indices, tensor(np.ones((2, 1), np.float32)), 0),
    ]:
        with pytest.raises(ValueError):
            orlop.scatter(*arguments)
    generic = tensor(np.array([7, 8], np.float32), kind=Generic)
    with pytest.raises(TypeError, match="carrier class"):
        orlop.scatter(base, indices, generic, 0)


def test_an_axis_that_no_memory_holds_is_refused_before_anything_is_written():
    base = Tensor(floats(1).carrier, 0, Layout(Shape(2**40), Stride(0)))
    with pytest.raises(ValueError, match="repeated"):
        orlop.scatter(base, ints(5, 5), floats(1, 2), 0)
    with pytest.raises(MemoryError):
        orlop.scatter(Tensor(floats(1).carrier, 0, Layout(Shape(2**60), Stride(0))), ints(5, 6), floats(1, 2), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_go_to_what_the_result_kept(kind):
    base = tensor(np.zeros((2, 3), np.float32), [4, 1], kind=kind)
    updates = tensor(np.ones((2, 2), np.float32), kind=kind)
    cotangent = tensor(np.arange(1, 7, dtype=np.float32).reshape(2, 3), kind=kind)
    result = orlop.scatter(base, tensor(np.array([2, 0], np.int32), kind=kind), updates, 1)
    gradients = orlop.grad(result, [base, updates], cotangent)
    assert gradients[0].layout == base.layout
    np.testing.assert_array_equal(array(gradients[0]), [[0, 2, 0], [0, 5, 0]])
    np.testing.assert_array_equal(array(gradients[1]), [[3, 1], [6, 4]])


def test_gradients_agree_with_central_differences():
    random = np.random.default_rng(4)
    base, updates = random.standard_normal((4, 3)), random.standard_normal((4, 2))
    cotangent, indices = random.standard_normal((4, 3)), np.array([2, 1], np.int32)
    leaves = [tensor(base.astype(np.float32)), tensor(updates.astype(np.float32))]
    result = orlop.scatter(leaves[0], tensor(indices), leaves[1], 1)
    gradients = orlop.grad(result, leaves, tensor(cotangent.astype(np.float32)))
    for which, operand in enumerate((base, updates)):
        slopes = np.zeros_like(operand)
        for place in np.ndindex(*operand.shape):
            values = []
            for step in (1e-6, -1e-6):
                operands = [base.copy(), updates.copy()]
                operands[which][place] += step
                values.append(np.sum(model(operands[0], indices, operands[1], 1) * cotangent))
            slopes[place] = (values[0] - values[1]) / 2e-6
        np.testing.assert_allclose(array(gradients[which]), slopes, rtol=1e-5, atol=1e-6)


def test_integers_and_bools_record_nothing():
    assert orlop.scatter(ints(1, 2), ints(1), ints(3), 0).autograd_ctx is None
    result = orlop.scatter(tensor(np.array([True, False])), ints(1), tensor(np.array([True])), 0)
    expect(result, np.array([True, True]))
    assert result.autograd_ctx is None
