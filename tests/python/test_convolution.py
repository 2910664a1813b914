"""conv_general on CPU and Generic beside a direct model in float64 (P10, P60, P65, P67)."""

import itertools
import math

import numpy as np
import pytest
from arrays import array, canonical, carrier_of, leaf_index, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

import orlop
from orlop import CPU, DType, FileBacked, Generic, Layout, Shape, Stride, Tensor

KINDS = [CPU, Generic]
NAN, INF = math.nan, math.inf
HUGE = 2**62


def under_windows(lhs, taps, strides, padding, lhs_dilation, kernel_dilation):
    """lhs under every tap of every window: [batch, feature, *taps, *results]."""
    spread = [(n - 1) * d + 1 for n, d in zip(lhs.shape[2:], lhs_dilation, strict=True)]
    padded = np.zeros(lhs.shape[:2] + tuple(low + n + high for n, (low, high) in zip(spread, padding, strict=True)))
    inside = tuple(
        slice(low, low + n, d) for n, (low, _), d in zip(spread, padding, lhs_dilation, strict=True)
    )
    padded[(..., *inside)] = lhs
    windows = zip(padded.shape[2:], taps, strides, kernel_dilation, strict=True)
    places = [
        np.arange(m)[:, None] * d + np.arange((n - (m - 1) * d - 1) // s + 1)[None] * s for n, m, s, d in windows
    ]
    rank = len(taps)
    index = tuple(
        place.reshape([place.shape[0] if a == i else place.shape[1] if a == rank + i else 1 for a in range(2 * rank)])
        for i, place in enumerate(places)
    )
    return padded[(slice(None), slice(None), *index)]


def model(lhs, kernel, strides, padding, lhs_dilation=None, kernel_dilation=None, groups=1):
    """The result in float64."""
    rank = kernel.ndim - 2
    ones = (1,) * rank
    columns = under_windows(lhs, kernel.shape[2:], strides, padding, lhs_dilation or ones, kernel_dilation or ones)
    features, out = lhs.shape[1] // groups, kernel.shape[0] // groups
    taps, axes = tuple(range(2, 2 + rank)), tuple(range(1, 2 + rank))
    parts = []
    for group in range(groups):
        part = np.tensordot(
            columns[:, group * features : (group + 1) * features],
            kernel[group * out : (group + 1) * out].astype(np.float64),
            ((1, *taps), axes),
        )
        parts.append(np.moveaxis(part, -1, 1))
    return np.concatenate(parts, axis=1)


def magnitudes(values):
    return np.abs(values.astype(np.float64))


def assert_within_bound(result, lhs, kernel, *parameters):
    """γ_K · Σ |lhs · kernel| (P10)."""
    terms = math.prod(kernel.shape[1:])
    bound = terms * 2.0**-24 / (1 - terms * 2.0**-24) * model(magnitudes(lhs), magnitudes(kernel), *parameters)
    assert (np.abs(result - model(lhs, kernel, *parameters)) <= bound).all()


@st.composite
def convolutions(draw):
    """(lhs shape, kernel shape, strides, padding, lhs dilation, kernel dilation, groups)."""
    rank = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    features, out = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    steps = st.lists(st.integers(1, 3), min_size=rank, max_size=rank).map(tuple)
    strides, lhs_dilation, kernel_dilation = draw(steps), draw(steps), draw(steps)
    taps = draw(steps)
    lhs, padding = [], []
    for i in range(rank):
        low, high = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        reach = (taps[i] - 1) * kernel_dilation[i] + 1
        least = next(n for n in itertools.count(1) if low + (n - 1) * lhs_dilation[i] + 1 + high >= reach)
        lhs.append(draw(st.integers(least, least + 4)))
        padding.append((low, high))
    batch = draw(st.integers(1, 3))
    shapes = (batch, features, *lhs), (out, features // groups, *taps)
    return *shapes, strides, tuple(padding), lhs_dilation, kernel_dilation, groups


@st.composite
def strides_of(draw, extents):
    """Strides of these extents: in any order in memory, with gaps, some modes in one place; or canonical."""
    if draw(st.booleans()):
        return canonical(extents).stride
    strides = [0] * len(extents)
    step = 1
    for mode in draw(st.permutations(range(len(extents)))):
        step += draw(st.integers(0, 1))
        strides[mode] = 0 if draw(st.integers(0, 5)) == 0 else step
        step *= extents[mode]
    return Stride(*strides)


def placed(extents, stride, rng, kind):
    layout = Layout(Shape(*extents), stride)
    slots = rng.standard_normal(layout.cosize).astype(np.float32)
    return Tensor(carrier_of(slots, kind), 0, layout), slots[leaf_index(layout)]


@pytest.mark.parametrize("kind", KINDS)
@given(st.data(), convolutions(), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_conv_general_agrees_with_the_model(kind, data, convolution, seed):
    shapes, parameters = convolution[:2], convolution[2:]
    rng = np.random.default_rng(seed)
    operands = [placed(shape, data.draw(strides_of(shape)), rng, kind) for shape in shapes]
    (lhs, lhs_values), (kernel, kernel_values) = operands
    strides, padding, lhs_dilation, kernel_dilation, groups = parameters
    options = {"lhs_dilation": lhs_dilation, "kernel_dilation": kernel_dilation, "feature_groups": groups}
    result = orlop.conv_general(lhs, kernel, strides, padding, **options)
    expected = model(lhs_values, kernel_values, *parameters)
    assert result.layout == canonical(expected.shape) and result.dtype() is DType.Float32
    assert_within_bound(array(result), lhs_values, kernel_values, *parameters)

    result.backward(tensor(np.ones(expected.shape, np.float32), kind=kind))
    # Both gradients are linear in the other operand: compare them along random directions, in float64.
    for operand, values, position in ((lhs, lhs_values, 0), (kernel, kernel_values, 1)):
        direction = rng.standard_normal(operand.layout.cosize)[leaf_index(operand.layout)]
        arguments = [lhs_values.astype(np.float64), kernel_values.astype(np.float64)]
        arguments[position] = direction
        slope = model(*arguments, *parameters).sum()
        gradient = array(operand.grad).astype(np.float64)
        slots = np.zeros(operand.layout.cosize)
        slots[leaf_index(operand.layout)] = direction
        unique, first = np.unique(leaf_index(operand.layout), return_index=True)
        found = (gradient.ravel()[first] * slots[unique]).sum()  # each position of a slot holds the slot's total
        scale = model(*map(magnitudes, arguments), *parameters).sum()
        assert abs(found - slope) <= 1e-4 * scale + 1e-12


def floats(values, kind=CPU):
    return tensor(np.array(values, np.float32), kind=kind)


def signal(*values, kind=CPU):
    return floats([[values]], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_and_its_gradients(kind):
    lhs, kernel = signal(1, 2, 4, kind=kind), signal(3, -1, kind=kind)
    result = orlop.conv_general(lhs, kernel, (1,), ((0, 0),))
    assert array(result).tolist() == [[[1.0, 2.0]]]
    result.backward(signal(1, 1, kind=kind))
    assert array(lhs.grad).tolist() == [[[3.0, 2.0, -1.0]]]
    assert array(kernel.grad).tolist() == [[[3.0, 6.0]]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_hole_is_zero_times_the_kernel(kind):
    result = orlop.conv_general(signal(2, kind=kind), signal(INF, kind=kind), (1,), ((1, 1),))
    np.testing.assert_array_equal(array(result), [[[NAN, INF, NAN]]])
    spread = orlop.conv_general(signal(2, 3, kind=kind), signal(NAN, kind=kind), (1,), ((0, 0),), lhs_dilation=(2,))
    assert np.isnan(array(spread)).all()
    plain = orlop.conv_general(signal(INF, kind=kind), signal(2, kind=kind), (1,), ((1, 1),))
    np.testing.assert_array_equal(array(plain), [[[0.0, INF, 0.0]]])


@pytest.mark.parametrize("kind", KINDS)
def test_a_hole_in_the_gradients(kind):
    for value in (INF, NAN):
        lhs, kernel = signal(2, 3, kind=kind), signal(value, 1, kind=kind)
        orlop.conv_general(lhs, kernel, (1,), ((1, 0),)).backward(signal(1, 1, kind=kind))
        np.testing.assert_array_equal(array(lhs.grad), [[[value, 1.0]]])  # a hole adds nothing, 1 does under tap 1
        lhs, kernel = signal(2, 3, kind=kind), signal(5, 7, kind=kind)
        orlop.conv_general(lhs, kernel, (1,), ((1, 0),)).backward(signal(value, 1, kind=kind))
        np.testing.assert_array_equal(array(kernel.grad), [[[NAN, value]]])  # a hole adds value * 0


@pytest.mark.parametrize("kind", KINDS)
def test_batch_and_feature_modes_may_be_nested(kind):
    rng = np.random.default_rng(4)
    lhs, kernel = (rng.standard_normal(shape).astype(np.float32) for shape in ((6, 12, 5), (4, 6, 3)))
    expected = array(orlop.conv_general(floats(lhs, kind), floats(kernel, kind), (1,), ((1, 1),), feature_groups=2))

    def nested(values, shape):
        slots = values.reshape(-1, order="F")
        strides, step = [], 1
        for mode in shape:
            leaves = mode if isinstance(mode, tuple) else (mode,)
            strides.append(tuple(step * math.prod(leaves[:i]) for i in range(len(leaves))))
            step *= math.prod(leaves)
        strides = [stride if isinstance(mode, tuple) else stride[0] for mode, stride in zip(shape, strides, strict=True)]
        return Tensor(carrier_of(slots, kind), 0, Layout(Shape(*shape), Stride(*strides)))

    left, right = nested(lhs, ((2, 3), (3, 4), 5)), nested(kernel, ((2, 2), (2, 3), 3))
    result = orlop.conv_general(left, right, (1,), ((1, 1),), feature_groups=2)
    assert result.layout.shape == Shape((2, 3), (2, 2), 5)
    np.testing.assert_array_equal(array(result).reshape(expected.shape, order="F"), expected)
    result.backward(nested(np.ones((6, 4, 5), np.float32), ((2, 3), (2, 2), 5)))
    assert left.grad.layout == left.layout and right.grad.layout == right.layout


@pytest.mark.parametrize("kind", KINDS)
def test_dims_name_the_mode_in_each_role(kind):
    rng = np.random.default_rng(6)
    lhs, kernel = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 5, 6), (4, 3, 2, 3)))
    arguments = (1, 2), ((0, 1), (2, 0))
    expected = array(orlop.conv_general(floats(lhs, kind), floats(kernel, kind), *arguments))
    lhs_dims, kernel_dims, output_dims = (2, 0, 3, 1), (3, 2, 0, 1), (1, 2, 3, 0)
    left = floats(lhs.transpose(np.argsort(lhs_dims)), kind)
    right = floats(kernel.transpose(np.argsort(kernel_dims)), kind)
    dims = {"lhs_dims": lhs_dims, "kernel_dims": kernel_dims}
    result = orlop.conv_general(left, right, *arguments, **dims, output_dims=output_dims)
    np.testing.assert_array_equal(array(result), expected.transpose(output_dims))
    operation = left.carrier.dispatch_op("conv_general")
    role_order = operation.forward(left, right, *arguments, None, None, 1, lhs_dims, kernel_dims, output_dims)
    np.testing.assert_array_equal(array(role_order), expected)  # forward only looks whether output_dims is valid
    cotangent = rng.standard_normal(expected.shape).astype(np.float32)
    plain = floats(lhs, kind), floats(kernel, kind)
    orlop.conv_general(*plain, *arguments).backward(floats(cotangent, kind))
    role_order.backward(floats(cotangent, kind))
    np.testing.assert_array_equal(array(left.grad), array(plain[0].grad).transpose(np.argsort(lhs_dims)))
    np.testing.assert_array_equal(array(right.grad), array(plain[1].grad).transpose(np.argsort(kernel_dims)))
    assert left.grad.layout == left.layout and right.grad.layout == right.layout


def test_any_sequence_of_integers_will_do():
    class One:
        def __index__(self):
            return 1

    lhs, kernel = floats(np.ones((1, 2, 4, 4))), floats(np.ones((2, 2, 1, 1)))
    expected = array(orlop.conv_general(lhs, kernel, (1, 1), ((0, 0), (0, 0))))
    for strides in ([1, 1], range(1, 3), np.array([1, 2]), [np.int32(1), One()]):
        for padding in ([[0, 0], (0, 0)], ([0, 0], [0, 0])):
            result = orlop.conv_general(lhs, kernel, strides, padding, lhs_dims=range(4), feature_groups=One())
            assert array(result).ravel()[0] == expected.ravel()[0]


def test_one_node_and_one_event():
    lhs, kernel = signal(1, 2), signal(1)
    with orlop.profile() as profiler:
        result = orlop.conv_general(lhs, kernel, (1,), ((0, 0),))
    assert [event.name for event in profiler.events()] == ["conv_general"]
    assert result.autograd_ctx.inputs() == (lhs, kernel)


# --- Accuracy and repetition ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5], indirect=True)
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    ("lhs", "kernel", "strides", "padding", "groups"),
    [
        ((1, 64, 20, 20), (32, 64, 3, 3), (1, 1), ((1, 1), (1, 1)), 1),
        ((3, 16, 30, 40), (24, 4, 5, 3), (2, 1), ((2, 1), (0, 3)), 4),
        ((20, 3, 33, 31), (8, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), 1),
        ((2, 130, 9, 9), (70, 130, 1, 1), (1, 1), ((0, 0), (0, 0)), 1),
        ((2, 32, 17, 17), (32, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), 32),
        ((1, 4096, 3), (2, 4096, 1), (1,), ((0, 0),), 1),
        ((17, 2, 3000), (4, 2, 9), (1,), ((4, 4),), 1),
    ],
)
def test_large_convolutions_keep_the_bound_and_repeat_their_bits(lhs, kernel, strides, padding, groups):
    rng = np.random.default_rng(8)
    left, right = (rng.standard_normal(shape).astype(np.float32) for shape in (lhs, kernel))
    parameters = strides, padding, None, None, groups
    exact, bound = model(left, right, *parameters), model(magnitudes(left), magnitudes(right), *parameters)
    terms = math.prod(kernel[1:])
    cotangent = rng.standard_normal(exact.shape).astype(np.float32)
    row_major = [[math.prod(shape[i + 1 :]) for i in range(len(shape))] for shape in (lhs, kernel)]
    slow = [floats(left, Generic), floats(right, Generic)]
    orlop.conv_general(*slow, strides, padding, feature_groups=groups).backward(floats(cotangent, Generic))
    for layouts in ((None, None), row_major):
        operands = [tensor(values, layout) for values, layout in zip((left, right), layouts, strict=True)]
        result = orlop.conv_general(*operands, strides, padding, feature_groups=groups)
        again = orlop.conv_general(*operands, strides, padding, feature_groups=groups)
        assert (np.abs(array(result) - exact) <= terms * 2.0**-24 / (1 - terms * 2.0**-24) * bound).all()
        np.testing.assert_array_equal(array(result), array(again))
        result.backward(floats(cotangent))
        gradients = [array(operand.grad) for operand in operands]
        for gradient, other in zip(gradients, slow, strict=True):
            np.testing.assert_allclose(gradient, array(other.grad), rtol=2e-4, atol=2e-3)
        again.backward(floats(cotangent))
        for gradient, operand in zip(gradients, operands, strict=True):
            np.testing.assert_array_equal(array(operand.grad), gradient + gradient)


@pytest.mark.parametrize("features", [1, 3, 16, 100])
@pytest.mark.parametrize("rows", [1, 10, 16, 17, 33, 48, 64, 65, 100, 130, 200])
def test_any_number_of_features_is_multiplied(rows, features):
    """Of small integers, whose sums are exact in any order: where the weights fit the caches and where they do not."""
    rng = np.random.default_rng(rows + features)
    left = rng.integers(-3, 3, (2, 2 * features, 6, 7), endpoint=True).astype(np.float32)
    right = rng.integers(-3, 3, (2 * rows, features, 3, 2), endpoint=True).astype(np.float32)
    expected = model(left, right, (1, 2), ((1, 1), (0, 3)), None, (2, 1), 2)
    for layouts in ((None, None), ((84 * features, 42, 7, 1), (6 * features, 6, 2, 1))):
        lhs, kernel = (tensor(values, layout) for values, layout in zip((left, right), layouts, strict=True))
        result = orlop.conv_general(lhs, kernel, (1, 2), ((1, 1), (0, 3)), kernel_dilation=(2, 1), feature_groups=2)
        np.testing.assert_array_equal(array(result), expected)


# --- Refusals, in order --------------------------------------------------------------------------------------------

LHS, KERNEL = np.ones((2, 4, 5, 6), np.float32), np.ones((6, 2, 3, 2), np.float32)
VALID = {
    "strides": (1, 1),
    "padding": ((0, 0), (0, 0)),
    "lhs_dilation": None,
    "kernel_dilation": None,
    "feature_groups": 2,
    "lhs_dims": None,
    "kernel_dims": None,
    "output_dims": None,
}
# One fault per check, in P67's order: a call with two faults fails by the earlier one.
FAULTS = [
    ("lhs_dims", "0123", TypeError, "lhs_dims"),
    ("lhs_dims", (0, 1, 2, 2), ValueError, "lhs_dims"),
    ("kernel_dims", (0, 1, 2, 3.0), TypeError, "kernel_dims"),
    ("kernel_dims", (1, 2, 3), ValueError, "kernel_dims"),
    ("output_dims", b"\0\1\2\3", TypeError, "output_dims"),
    ("output_dims", (0, 1, 2, -1), ValueError, "output_dims"),
    ("strides", 1, TypeError, "strides"),
    ("strides", (1, 0), ValueError, "strides"),
    ("lhs_dilation", (1, True), TypeError, "lhs_dilation"),
    ("lhs_dilation", (1,), ValueError, "lhs_dilation"),
    ("kernel_dilation", "11", TypeError, "kernel_dilation"),
    ("kernel_dilation", (1, 1, 1), ValueError, "kernel_dilation"),
    ("padding", (0, 0), TypeError, "padding"),
    ("padding", ((0, 0), (-1, 0)), ValueError, "padding"),
    ("feature_groups", 2.0, TypeError, "feature_groups"),
    ("feature_groups", 3, ValueError, "feature_groups"),
    ("feature_groups", 4, ValueError, "feature_groups"),
    ("feature_groups", 1, ValueError, "in features"),
    ("kernel_dilation", (3, 1), ValueError, "no position"),
    ("padding", ((0, 0), (2**63, 1)), OverflowError, "64 bits"),
]


def call(kind, parameters, lhs=LHS, kernel=KERNEL):
    return orlop.conv_general(tensor(lhs, kind=kind), tensor(kernel, kind=kind), **{**VALID, **parameters})


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_come_in_order(kind):
    assert call(kind, {}).layout.shape == Shape(2, 6, 3, 5)
    for at, (name, value, error, words) in enumerate(FAULTS):
        with pytest.raises(error, match=words):
            call(kind, {name: value})
        for later, other, _, _ in FAULTS[at + 1 :]:
            if later != name:
                with pytest.raises(error, match=words):
                    call(kind, {name: value, later: other})
        for lhs in (LHS[..., None], LHS[0, 0, 0]):  # the rank is looked at first
            with pytest.raises(ValueError, match="spatial modes, at least one"):
                call(kind, {name: value}, lhs=lhs)


@pytest.mark.parametrize("value", [None, "12", 5, 1.5, {1, 1}, [1, "1"], [None, 1], [[1], 1], object(), [slice(1), 1]])
def test_what_is_no_sequence_of_integers_is_a_type_error(value):
    names = ["strides", "padding", *(name for name in VALID if value is not None and "d" in name and name != "padding")]
    for name in names:
        if name == "feature_groups":
            continue
        with pytest.raises(TypeError, match=name):
            call(CPU, {name: value})


@pytest.mark.parametrize(
    "padding", [(), [(0, 0)], [(0, 0)] * 3, [(0, 0), (0, 0, 0)], [(0, 0), ()], [(0, 0), (0, -(2**70))]]
)
def test_wrong_padding_is_a_value_error(padding):
    with pytest.raises(ValueError, match="padding"):
        call(CPU, {"padding": padding})


def test_nested_spatial_modes_are_refused():
    lhs = Tensor(carrier_of(np.ones(240, np.float32)), 0, Layout(Shape(2, 4, 5, (3, 2)), Stride(1, 2, 8, (40, 120))))
    with pytest.raises(ValueError, match="must be leaves"):
        orlop.conv_general(lhs, tensor(KERNEL), **VALID)
    with pytest.raises(ValueError, match="must be leaves"):  # before the parameters
        orlop.conv_general(lhs, tensor(KERNEL), **{**VALID, "strides": 1})


@pytest.mark.parametrize("step", [1, 2])
def test_windows_far_apart_over_repeated_elements(step):
    layout = Layout(Shape(1, 2, 2**40), Stride(0, step, 0))
    lhs = Tensor(carrier_of(np.array([3, 5, 5], np.float32)), 0, layout)
    for taps, options in (((1,), {}), ((2,), {"kernel_dilation": (3,)})):
        kernel = floats(np.ones((1, 2, *taps)))
        result = orlop.conv_general(lhs, kernel, (2**39 - 4,), ((1, 0),), **options)
        assert array(result).tolist() == [[[8.0 * (taps[0] - 1), 8.0 * taps[0], 8.0 * taps[0]]]]


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_near_64_bits_are_refused_before_anything_is_allocated(kind):
    one = np.ones((1, 1, 1), np.float32)
    two = np.ones((1, 1, 2), np.float32)

    def run(lhs, kernel, stride=1, padding=(0, 0), **options):
        return orlop.conv_general(tensor(lhs, kind=kind), tensor(kernel, kind=kind), (stride,), (padding,), **options)

    for padding in ((HUGE, HUGE), (2**63 - 1, 0), (0, 2**70)):
        with pytest.raises((OverflowError, MemoryError)):
            run(one, one, padding=padding)
    for padding in ((HUGE, 0), (2**61, 2**61 - 4)):
        with pytest.raises((OverflowError, MemoryError)):
            run(one, one, padding=padding)
    with pytest.raises(OverflowError):
        run(two, one, lhs_dilation=(2**63 - 1,))
    with pytest.raises(ValueError, match="no position"):
        run(two, two, kernel_dilation=(2**80,))
    # Distances alone are harmless.
    assert array(run(two, one, lhs_dilation=(HUGE,), stride=HUGE)).tolist() == [[[1.0, 1.0]]]
    assert array(run(one, two, padding=(HUGE, 0), kernel_dilation=(HUGE,))).tolist() == [[[1.0]]]
    assert array(run(one, one, stride=2**80, kernel_dilation=(2**80,), lhs_dilation=(2**80,))).tolist() == [[[1.0]]]
    assert array(run(one, one, padding=(HUGE, HUGE - 2), stride=HUGE)).tolist() == [[[0.0, 1.0]]]


@pytest.mark.parametrize("kind", KINDS)
def test_operands_that_no_copy_has_room_for_are_refused(kind):
    one = carrier_of(np.ones(1, np.float32), kind)
    for features in (2**61, 2**62):
        repeated = Tensor(one, 0, Layout(Shape(1, features, 1), Stride(0, 0, 0)))
        with pytest.raises(MemoryError):
            orlop.conv_general(repeated, repeated, (1,), ((0, 0),))


def test_operands_are_checked_before_the_parameters():
    lhs, kernel = tensor(LHS), tensor(KERNEL)
    for operands in ((LHS, kernel), (lhs, None), (2.0, kernel)):
        with pytest.raises(TypeError, match="must be a Tensor"):
            orlop.conv_general(*operands, **VALID)
    with pytest.raises(TypeError, match="one exact carrier class"):
        orlop.conv_general(lhs, tensor(KERNEL, kind=Generic), **VALID)
    with pytest.raises(TypeError, match="only lhs and kernel"):
        orlop.conv_general(lhs, kernel, **{**VALID, "strides": lhs})
    for left, right in ((LHS.astype(np.int32), KERNEL), (LHS, KERNEL.astype(np.int32))):
        with pytest.raises(TypeError):
            orlop.conv_general(tensor(left), tensor(right), **{**VALID, "strides": None})
    with pytest.raises(NotImplementedError):
        orlop.conv_general(tensor(LHS.astype(bool)), tensor(KERNEL.astype(bool)), **VALID)
    stored = Tensor(FileBacked(dtype=DType.Float32).new_like([1.0]), 0, canonical((1, 1, 1)))
    with pytest.raises(NotImplementedError, match="conv_general"):
        orlop.conv_general(stored, stored, (1,), ((0, 0),))
    operation = lhs.carrier.dispatch_op("conv_general")
    for count in (2, 4, 9, 11):
        with pytest.raises(TypeError, match="10 arguments"):
            operation.forward(*[lhs, kernel, (1, 1), ((0, 0), (0, 0)), None, None, 2, None, None, None, None][:count])
    kernel.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        orlop.conv_general(lhs, kernel, **{**VALID, "strides": None})


def test_a_cotangent_of_another_shape_is_refused():
    result = call(CPU, {})
    with pytest.raises(ValueError):
        result.autograd_ctx.backward(tensor(np.ones((2, 6, 5, 3), np.float32)))
