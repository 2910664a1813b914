"""Friendly creation and extraction (M601-M604): layouts, values, order of checks, gradients, every error."""

import array as arrays_of_numbers
import itertools
import random

import numpy as np
import pytest
from arrays import array, canonical, carrier_of, tensor
from list_carrier import ListCarrier, compound_tensor

import orlop
from orlop import CPU, DType, FileBacked, Generic, Layout, Shape, Stride, Tensor, friendly

FLOAT, INT, BOOL = DType.Float32, DType.Int32, DType.Bool


def test_the_module_exports_its_functions():
    assert friendly.__all__ == [
        "arange", "column_major", "full", "item", "mean", "ones", "rand", "randn", "row_major", "sum", "tensor",
        "to_list", "zeros",
    ]  # fmt: skip
    assert set(friendly.__all__).isdisjoint(orlop.__all__)


def test_whoever_looks_in_the_package_is_told_the_module():
    with pytest.raises(AttributeError, match=r"'zeros'; there is orlop\.friendly\.zeros$"):
        orlop.zeros
    with pytest.raises(AttributeError, match=r"'load'; there is orlop\.io\.load_npy and orlop\.io\.load_safetensors$"):
        orlop.load
    with pytest.raises(AttributeError, match="no attribute 'nowhere'$"):
        orlop.nowhere


def test_a_tensor_of_one_element_is_formatted_as_its_number():
    loss = friendly.tensor([2.5])
    assert f"{loss:.2f} {loss:>5}" == "2.50   2.5"
    assert f"{loss}" == format(loss, "") == str(loss)
    with pytest.raises(TypeError, match="only a Tensor of exactly one element takes a format: it has 2"):
        format(friendly.ones(2), ".2f")
    with pytest.raises(ValueError, match="format code"):
        format(loss, "q")


def test_python_s_abs_is_the_operation():
    assert friendly.to_list(abs(friendly.tensor([-1.5, 2.0]))) == [1.5, 2.0]


# --- Layouts and extents (M601) ----------------------------------------------------------------------------------


def test_compact_layouts():
    assert friendly.column_major(3, 2, 5) == Layout(Shape(3, 2, 5), Stride(1, 3, 6))
    assert friendly.row_major(3, 2, 5) == Layout(Shape(3, 2, 5), Stride(10, 5, 1))
    assert friendly.column_major(4) == friendly.row_major(4) == Layout(Shape(4), Stride(1))


BY_EXTENTS = ["column_major", "row_major", "zeros", "ones", "full", "rand", "randn"]


def made_by(name, *extents):
    """What the function of this name makes of extents alone."""
    return getattr(friendly, name)(*extents, **({"value": 1} if name == "full" else {}))


@pytest.mark.parametrize("name", BY_EXTENTS)
def test_extents_are_positive_integers(name):
    with pytest.raises(ValueError, match="at least one extent"):
        made_by(name)
    for wrong in (0, -1, -(2**63), 2.0, True, "2", None, [2], (2, 3)):
        for extents in ((wrong,), (2, wrong), (wrong, 2)):
            with pytest.raises(ValueError, match="positive integers"):
                made_by(name, *extents)
    for extents in ((2**63,), (10**30,), (2**62, 4)):
        with pytest.raises(OverflowError):
            made_by(name, *extents)


@pytest.mark.parametrize("name", BY_EXTENTS[2:])
def test_what_does_not_fit_in_memory_is_refused_at_once(name):
    for extents in ((2**60,), (2**31, 2**20)):
        with pytest.raises(MemoryError):
            made_by(name, *extents)


def test_an_extent_that_raises_or_is_an_integer_by_protocol():
    class Three:
        def __index__(self):
            return 3

    class Broken:
        def __index__(self):
            raise ZeroDivisionError

    assert friendly.zeros(Three(), np.int64(2)).shape == (3, 2)
    with pytest.raises(ZeroDivisionError):
        friendly.zeros(2, Broken())


@pytest.mark.parametrize("dtype", [FLOAT, INT, BOOL])
def test_factories_make_dense_cpu_tensors(dtype):
    one = True if dtype is BOOL else 1
    for made, value in ((friendly.zeros(2, 3, dtype=dtype), 0), (friendly.ones(2, 3, dtype=dtype), one),
                        (friendly.full(2, 3, value=one, dtype=dtype), one)):  # fmt: skip
        assert type(made.carrier) is CPU and (made.offset, made.layout) == (0, friendly.column_major(2, 3))
        assert made.carrier.size() == 6 and made.dtype() is dtype and made.is_mutable() and made.version == 0
        assert friendly.to_list(made) == [value] * 6
        assert type(made[0, 0]) is {FLOAT: float, INT: int, BOOL: bool}[dtype]
    assert friendly.zeros(2).dtype() is friendly.zeros(2, dtype=None).dtype() is FLOAT


def test_dtype_and_value_errors_are_those_of_cpu():
    for make in (
        friendly.zeros,
        friendly.ones,
        friendly.arange,
        lambda n, dtype: friendly.full(n, value=1, dtype=dtype),
        lambda n, dtype: friendly.tensor([1] * n, dtype=dtype),
    ):
        for dtype in (DType.Float64, DType.Floating, DType.MXFP4):
            with pytest.raises(ValueError, match="CPU"):
                make(2, dtype=dtype)
        with pytest.raises(TypeError, match="CPU dtype must be a DType"):
            make(2, dtype="Float32")
    for value, dtype, error in [
        ("1", FLOAT, TypeError),
        (None, FLOAT, TypeError),
        (1j, FLOAT, TypeError),
        (1.5, INT, TypeError),
        (True, INT, TypeError),
        (2**31, INT, OverflowError),
        (1, BOOL, TypeError),
    ]:
        with pytest.raises(error):
            friendly.full(2, value=value, dtype=dtype)
        with pytest.raises(error):
            friendly.tensor([value], dtype=dtype)
    with pytest.raises(TypeError):
        friendly.full(2)
    with pytest.raises(TypeError):
        friendly.full(2, value=1, other=2)


def test_arange_counts():
    assert friendly.to_list(friendly.arange(4)) == [0.0, 1.0, 2.0, 3.0]
    assert friendly.to_list(friendly.arange(3, dtype=INT)) == [0, 1, 2]
    with pytest.raises(TypeError):
        friendly.arange(3, dtype=BOOL)
    for wrong in (0, -1, 2.0, True, None, "3"):
        with pytest.raises(ValueError, match="positive integers"):
            friendly.arange(wrong)
    for arguments in ((), (1, 2)):
        with pytest.raises(TypeError):
            friendly.arange(*arguments)
    with pytest.raises(MemoryError):
        friendly.arange(2**60)


@pytest.mark.parametrize(
    ("name", "draw"), [("rand", random.Random.random), ("randn", lambda rng: rng.gauss(0.0, 1.0))]
)
def test_random_numbers_are_drawn_by_ordinal(name, draw):
    make = getattr(friendly, name)
    made, rng = make(2, 3, rng=random.Random(4)), random.Random(4)
    assert friendly.to_list(made) == np.float32([draw(rng) for _ in range(6)]).tolist()
    assert type(made.carrier) is CPU and made.layout == friendly.column_major(2, 3) and made.dtype() is FLOAT
    assert friendly.to_list(make(4)) != friendly.to_list(make(4))
    with pytest.raises(AttributeError):
        make(2, rng=3)
    with pytest.raises(TypeError):
        make(2, dtype=INT)

    class Stops:
        def random(self):
            raise KeyboardInterrupt

        def gauss(self, mean, deviation):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(2, rng=Stops())


# --- tensor (M602) -----------------------------------------------------------------------------------------------


def test_nested_values_land_at_their_indices():
    made = friendly.tensor([[1.0, 2.0, 3.0], (4.0, 5.0, 6.0)])
    assert made.layout == friendly.column_major(2, 3) and made[1, 0] == 4.0
    assert friendly.to_list(made) == [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
    assert friendly.tensor([[[True]]], dtype=BOOL).shape == (1, 1, 1)


def test_nested_lists_agree_with_numpy():
    rng = np.random.default_rng(0)
    for rank in [1, 2, 3, 4] * 20:
        values = rng.integers(-9, 9, rng.integers(1, 5, rank)).astype(np.float32)
        np.testing.assert_array_equal(array(friendly.tensor(values.tolist())), values)
        np.testing.assert_array_equal(array(friendly.tensor(values)), values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        *(([], "non-empty list or tuple"), ((), "non-empty list or tuple"), (1.0, "non-empty list or tuple")),
        *(("ab", "non-empty list or tuple"), (None, "non-empty list or tuple"), (iter([1]), "non-empty list or tuple")),
        *(({1: 2}, "non-empty list or tuple"), (np.float32(1), "non-empty list or tuple")),
        *((np.zeros((2, 2)), "non-empty list or tuple"), (b"ab", "non-empty list or tuple")),
        *(([[]], "empty levels"), ([[], [1]], "empty levels"), (np.zeros((0, 2), np.float32), "empty levels")),
        *(([[1], []], "rectangular"), ([[1, 2], [3]], "rectangular"), ([[1], 2], "rectangular")),
        *(([1, [2]], "rectangular"), ([[[1]], [2]], "rectangular")),
    ],
)
def test_values_that_are_no_rectangle(values, words):
    with pytest.raises(ValueError, match=words):
        friendly.tensor(values)


def test_deep_nests_are_refused():
    nest = [1.0]
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(ValueError):
        friendly.tensor(nest)
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError):
        friendly.tensor(endless)


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.bool_])
def test_native_arrays_are_nested_values_too(kind):
    values = np.arange(24).reshape(2, 3, 4).astype(kind)
    dtype = {np.float32: FLOAT, np.int32: INT, np.bool_: BOOL}[kind]
    wide = np.broadcast_to(values, (2, 2, 3, 4))
    for seen in (values, values.T, values[::-1], values[:, ::2], values[:, None], wide):
        made = friendly.tensor(seen, dtype=dtype)
        assert made.dtype() is dtype and made.layout == friendly.column_major(*seen.shape)
        np.testing.assert_array_equal(array(made), seen)
    made = friendly.tensor(values, dtype=dtype)
    values[0, 0, 0] = kind(1)
    assert made[0, 0, 0] == 0  # a copy
    assert friendly.to_list(friendly.tensor(arrays_of_numbers.array("f", [1, 2]))) == [1.0, 2.0]


@pytest.mark.parametrize("kind", [np.float32, np.bool_])
def test_native_arrays_of_every_small_extent(kind):
    dtype = FLOAT if kind is np.float32 else BOOL
    memory = np.random.default_rng(3).integers(0, 9, 20 * 70).astype(kind)
    for rows in range(1, 19):
        for columns in (*range(1, 19), 66, 70):
            values = memory[: rows * 70].reshape(rows, 70)[:, :columns]
            for seen in (values, np.ascontiguousarray(values), values.T, np.stack([values, values])):
                np.testing.assert_array_equal(array(friendly.tensor(seen, dtype=dtype)), seen)


@pytest.mark.parametrize("extents", [(8, 128, 40), (4, 256, 33), (3, 2, 512, 7), (16, 64, 20), (5, 4096, 3)])
def test_native_arrays_whose_columns_begin_whole_pages_apart(extents):
    values = np.random.default_rng(4).random(extents).astype(np.float32)
    np.testing.assert_array_equal(array(friendly.tensor(values)), values)
    np.testing.assert_array_equal(array(friendly.tensor(values > 0.5, dtype=BOOL)), values > 0.5)


def test_native_array_of_another_dtype_is_converted_or_refused_as_its_items_are():
    assert friendly.to_list(friendly.tensor(np.int32([1, 2]))) == [1.0, 2.0]
    for values, dtype in ((np.float32([1, 2]), INT), (np.bool_([True]), INT), (np.int32([1]), BOOL)):
        with pytest.raises(TypeError):
            friendly.tensor(values, dtype=dtype)


def test_values_by_ordinal_of_a_layout_leave_holes_zero():
    spread = Layout(Shape(2, (2,)), Stride(1, (3,)))
    made = friendly.tensor(iter([1.0, 2.0, 3.0, 4.0]), layout=spread)
    assert made.layout == spread and made.carrier.size() == 5
    assert [made.carrier[i] for i in range(5)] == [1.0, 2.0, 0.0, 3.0, 4.0]
    assert friendly.to_list(friendly.tensor(range(2), layout=Layout(Shape(2), Stride(0)))) == [1.0, 1.0]
    assert friendly.tensor([7.0], layout=Layout(Shape(), Stride())).shape == ()
    for values in (np.float32([5, 6]), (value for value in (5, 6)), {5: 0, 6: 0}):
        assert friendly.to_list(friendly.tensor(values, layout=canonical((2,)))) == [5.0, 6.0]


def test_checks_with_a_layout_come_in_order():
    asked = []

    class Watched:
        def __iter__(self):
            asked.append(self)
            return iter(["not", "numbers"])

    for wrong in (3, Shape(2), (2,), "2"):
        with pytest.raises(TypeError, match="layout must be a Layout"):
            friendly.tensor(Watched(), layout=wrong)
        with pytest.raises(TypeError, match="layout must be a Layout"):
            friendly.tensor(None, layout=wrong)
    assert asked == []
    with pytest.raises(ValueError, match="layout logical size"):
        friendly.tensor(Watched(), layout=canonical((3,)))
    with pytest.raises(TypeError, match="real number"):
        friendly.tensor(Watched(), layout=canonical((2,)))
    assert len(asked) == 2
    for values in (None, 3, 2.0):
        with pytest.raises(TypeError):
            friendly.tensor(values, layout=canonical((1,)))
    for values in ([], [1.0], [1.0] * 3, np.float32([1]), itertools.repeat(1.0, 3)):
        with pytest.raises(ValueError, match="layout logical size"):
            friendly.tensor(values, layout=canonical((2,)))
    for values in ([[1.0], [2.0]], np.ones((2, 1), np.float32)):
        with pytest.raises(TypeError):
            friendly.tensor(values, layout=canonical((2,)))

    class Raises:
        def __iter__(self):
            yield 1.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        friendly.tensor(Raises(), layout=canonical((2,)))
    with pytest.raises(TypeError):
        friendly.tensor([1.0], canonical((1,)))


# --- sum, mean, item, to_list (M603, M604) -----------------------------------------------------------------------


def test_sum_and_mean_are_one_element_with_a_gradient():
    for reduce, value, slope in ((friendly.sum, 21.0, 1.0), (friendly.mean, 3.5, np.float32(1 / 6))):
        source = friendly.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        result = reduce(source)
        assert result.layout == Layout(Shape(1), Stride(1)) and friendly.item(result) == value
        result.backward()
        assert friendly.to_list(source.grad) == [slope] * 6


@pytest.mark.parametrize("kind", [CPU, Generic])
def test_sum_and_mean_agree_with_numpy(kind):
    values = np.arange(-6, 6, dtype=np.int32).reshape(2, 3, 2)
    assert friendly.item(friendly.sum(tensor(values, kind=kind))) == -6
    mean = friendly.mean(tensor(values, strides=(1, 8, 2), kind=kind))
    assert mean.dtype() is FLOAT and friendly.item(mean) == -0.5
    repeated = Tensor(carrier_of(np.float32([1, 2]), kind), 0, Layout(Shape(3, 2), Stride(0, 1)))
    assert (friendly.item(friendly.sum(repeated)), friendly.item(friendly.mean(repeated))) == (9.0, 1.5)


def test_sum_and_mean_take_at_most_26_flat_modes():
    assert friendly.item(friendly.sum(friendly.ones(*[1] * 26))) == 1.0
    nested = Tensor(CPU(6), 0, Layout(Shape((2,), 3), Stride((1,), 2)))
    scalar = Tensor(CPU(1), 0, Layout(Shape(), Stride()))
    for reduce in (friendly.sum, friendly.mean):
        with pytest.raises(ValueError, match="too many modes to reduce"):
            reduce(friendly.ones(*[1] * 27))
        for wrong in (nested, scalar):
            with pytest.raises(ValueError, match="flat tensor with integer modes"):
                reduce(wrong)
        with pytest.raises(NotImplementedError, match="Bool"):
            reduce(friendly.ones(2, dtype=BOOL))
    in_a_file = Tensor(FileBacked(dtype=FLOAT).new_like([1.0]), 0, canonical((1,)))
    with pytest.raises(ValueError, match="flat tensor with integer modes"):  # before dispatch
        friendly.sum(Tensor(in_a_file.carrier, 0, Layout(Shape((1,), (1, 1)), Stride((1,), (1, 1)))))
    with pytest.raises(NotImplementedError, match="FileBacked"):
        friendly.sum(in_a_file)


def test_item_takes_exactly_one_element():
    assert friendly.item(friendly.full(1, 1, value=2.5)) == 2.5
    assert friendly.item(friendly.ones(1, dtype=BOOL)) is True
    assert friendly.item(Tensor(Generic([4, 5], dtype=INT), 1, Layout(Shape(), Stride()))) == 5
    released = friendly.ones(2)
    released.carrier.release()
    with pytest.raises(ValueError, match="exactly one element"):
        friendly.item(released)
    single = friendly.ones(1)
    single.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        friendly.item(single)


@pytest.mark.parametrize("kind", [CPU, Generic, FileBacked, ListCarrier])
@pytest.mark.parametrize("dtype", [FLOAT, INT])
def test_to_list_is_a_new_list_in_ordinal_order(kind, dtype):
    carrier = CPU(0).new_like(range(12), dtype=dtype)
    if kind is ListCarrier:
        carrier = ListCarrier(list(range(12)), dtype=dtype)
    elif kind is not CPU:
        carrier = (Generic([0], dtype=dtype) if kind is Generic else FileBacked(dtype=dtype)).new_like(range(12))
    view = Tensor(carrier, 1, Layout(Shape((2, 2), 2), Stride((4, 0), 3)))
    values = friendly.to_list(view)
    assert values == [1, 5, 1, 5, 4, 8, 4, 8] and friendly.to_list(view) is not values


def test_a_wrong_object_shows_in_its_first_missing_attribute():
    class Sized:
        size = 3

    class Raising:
        @property
        def layout(self):
            raise ZeroDivisionError

        size = 1

    for function, attribute in (
        (friendly.sum, "layout"), (friendly.mean, "layout"), (friendly.item, "size"), (friendly.to_list, "layout")
    ):  # fmt: skip
        for wrong in (None, 3, "ab", [1.0]):
            with pytest.raises(AttributeError, match=attribute):
                function(wrong)
        with pytest.raises(AttributeError, match="layout"):
            function(Sized())
        with pytest.raises(ZeroDivisionError):
            function(Raising())


def test_compound_tensors_are_refused():
    for function in (friendly.to_list, friendly.sum, friendly.mean):
        with pytest.raises(NotImplementedError, match="Multi-subtensor Tensor"):
            function(compound_tensor())
