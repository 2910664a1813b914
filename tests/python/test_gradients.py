"""The gradient of every plan beside central differences of its NumPy model in binary64 (P61-P69, P84-P86).

On smooth inputs, through views and broadcasts, and with one Tensor in several positions. What happens at the edges
(ties, zeros, NaN) stands in the tests of each family.
"""

import numpy as np
import pytest
from arrays import array, tensor
from models import (
    BOOL,
    FLOAT,
    INT,
    MODELS,
    PLANS_OF_ALL,
    converted,
    extents_of,
    index_values,
    options_of,
    parameters_of,
    plan_name,
    scalars_of,
)

import orlop
from orlop import CPU, Generic
from orlop.carriers.operation_policy import OperandRole

LENGTH = 6
STEP = 1e-6

# Where the model rounds on the way or is written for one dtype: the same function in binary64 throughout.
SMOOTH = {
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "reduce_prod": lambda x: x.prod(axis=1),
    "scatter_add": lambda base, indices, updates, _: added(base, indices, updates),
    "pow": lambda base, exponent: np.power(np.asarray(base, np.float64), exponent),
}


def added(base, indices, updates):
    result = np.array(base, np.float64)
    np.add.at(result, indices, updates)
    return result


def is_differentiable(plan):
    return plan.output is FLOAT and FLOAT in [operand.dtype for operand in plan.operands]


DIFFERENTIABLE = [plan for plan in PLANS_OF_ALL if is_differentiable(plan)]
# Two operands of one shape, except where equal operands are a kink.
PAIRS_OF_ONE = [
    plan
    for plan in DIFFERENTIABLE
    if [operand.dtype for operand in plan.operands] == [FLOAT, FLOAT]
    and len(set(extents_of(plan.operation, LENGTH)[:2])) == 1
    and plan.operation not in ("maximum", "minimum", "rem")
]


def smooth(size, random):
    """Positive values apart from each other, from integers and from those of every other call: no kink is near."""
    count = int(np.prod(size))
    apart = (random.permutation(count) * 0.37 + 0.31) % 3.9 + random.uniform(0.013, 0.03)
    return apart.reshape(size).astype(np.float32)


def operands(plan, random):
    """For each operand its values, or the number."""
    name, scalars, result = plan.operation, scalars_of(plan), []
    extents = extents_of(name, LENGTH)
    for position, operand in enumerate(plan.operands):
        size = extents[sum(isinstance(entry, np.ndarray) for entry in result)]
        if operand.role is OperandRole.WEAK_SCALAR:
            result.append(scalars[position])
        elif name in ("gather", "scatter", "scatter_add") and position == 1:
            result.append(index_values(name, LENGTH, size[0], random))
        elif operand.dtype is BOOL:
            result.append(random.random(size) < 0.5)
        elif operand.dtype is INT:
            result.append(random.integers(1, 4, size).astype(np.int32))
        else:
            result.append(smooth(size, random))
    return result


def evaluate(plan, values):
    model = SMOOTH.get(plan.operation, MODELS[plan.operation].exact)
    return np.asarray(model(*values, *parameters_of(plan.operation, LENGTH)), np.float64)


def slopes(function, values, cotangent):
    """Central differences of sum(cotangent * function(values))."""
    gradient = np.zeros(values.shape)
    for place in np.ndindex(values.shape):
        change = np.zeros(values.shape)
        change[place] = STEP
        difference = function(values + change) - function(values - change)
        gradient[place] = np.sum(cotangent * difference) / (2 * STEP)
    return gradient


def run(plan, arguments):
    carrier = next(argument for argument in arguments if isinstance(argument, orlop.Tensor)).carrier
    parameters = parameters_of(plan.operation, LENGTH)
    return carrier.dispatch_op(plan.operation).forward(*arguments, *parameters, options=options_of(plan))


def backward(result, random, kind):
    """Runs backward with a random cotangent, which is returned as an array."""
    cotangent = random.standard_normal(tuple(result.shape)).astype(np.float32)
    result.backward(tensor(cotangent, kind=kind))
    return cotangent.astype(np.float64)


def near(gradient, expected):
    np.testing.assert_allclose(gradient, expected, rtol=2e-4, atol=2e-4 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("kind", [CPU, Generic])
@pytest.mark.parametrize("plan", DIFFERENTIABLE, ids=plan_name)
def test_each_operand(plan, kind):
    random = np.random.default_rng(7)
    values = operands(plan, random)
    exact = [converted(value, plan, i) for i, value in enumerate(values)]
    arguments = [tensor(value, kind=kind) if isinstance(value, np.ndarray) else value for value in values]
    cotangent = backward(run(plan, arguments), random, kind)
    for position, argument in enumerate(arguments):
        if plan.operands[position].dtype is not FLOAT:
            continue

        def function(changed, position=position):
            return evaluate(plan, exact[:position] + [changed] + exact[position + 1 :])

        near(array(argument.grad), slopes(function, exact[position], cotangent))


def check_through_a_view(plan, extent, view, array_view):
    """The first differentiable operand is a view of a leaf whose last mode has `extent(that of the operand)`."""
    random = np.random.default_rng(8)
    values = operands(plan, random)
    exact = [converted(value, plan, i) for i, value in enumerate(values)]
    position = next(i for i, operand in enumerate(plan.operands) if operand.dtype is FLOAT)
    size = values[position].shape
    source = smooth((*size[:-1], extent(size[-1])), random)
    leaf = tensor(source)
    arguments = [tensor(value) if isinstance(value, np.ndarray) else value for value in values]
    arguments[position] = view(leaf, size)
    cotangent = backward(run(plan, arguments), random, CPU)

    def function(changed):
        return evaluate(plan, exact[:position] + [array_view(changed, size)] + exact[position + 1 :])

    near(array(leaf.grad), slopes(function, source.astype(np.float64), cotangent))


@pytest.mark.parametrize("plan", DIFFERENTIABLE, ids=plan_name)
def test_through_a_strided_view_of_a_leaf(plan):
    every_second = slice(None, None, 2)
    check_through_a_view(
        plan,
        lambda extent: 2 * extent,
        lambda leaf, size: leaf[(slice(None),) * (len(size) - 1) + (every_second,)],
        lambda values, size: values[..., every_second],
    )


# All entries of a broadcast fibre are equal: a kink for what chooses among them.
WITHOUT_CHOICE = [
    plan
    for plan in DIFFERENTIABLE
    if plan.operation not in ("_sort_values", "_topk_values", "reduce_max", "reduce_min")
]


@pytest.mark.parametrize("plan", WITHOUT_CHOICE, ids=plan_name)
def test_through_a_broadcast_of_a_leaf(plan):
    check_through_a_view(
        plan,
        lambda extent: 1,
        lambda leaf, size: orlop.broadcast_to(leaf, orlop.Shape(*size)),
        np.broadcast_to,
    )


@pytest.mark.parametrize("plan", PAIRS_OF_ONE, ids=plan_name)
def test_one_tensor_in_both_positions(plan):
    random = np.random.default_rng(10)
    values = smooth(extents_of(plan.operation, LENGTH)[0], random)
    leaf = tensor(values)
    cotangent = backward(run(plan, [leaf, leaf]), random, CPU)
    near(array(leaf.grad), slopes(lambda x: evaluate(plan, [x, x]), values.astype(np.float64), cotangent))


@pytest.mark.parametrize("name", [plan.operation for plan in DIFFERENTIABLE if len(plan.operands) == 1])
def test_a_shared_subgraph(name):
    """y·y + 2y with y = f(x): the node of f collects from its three uses before it runs."""
    plan = next(plan for plan in DIFFERENTIABLE if plan.operation == name)
    random = np.random.default_rng(11)
    values = smooth(extents_of(name, LENGTH)[0], random)
    leaf = tensor(values)
    shared = run(plan, [leaf])
    cotangent = backward(shared * shared + shared * 2.0, random, CPU)

    def function(x):
        y = evaluate(plan, [x])
        return y * y + 2.0 * y

    near(array(leaf.grad), slopes(function, values.astype(np.float64), cotangent))


def leaves_of(plan, arguments):
    return [argument for argument, operand in zip(arguments, plan.operands, strict=True) if operand.dtype is FLOAT]


SEVERAL = [plan for plan in DIFFERENTIABLE if len(leaves_of(plan, plan.operands)) > 1]


@pytest.mark.parametrize("plan", SEVERAL, ids=plan_name)
def test_grad_of_one_operand_is_what_grad_of_all_gives(plan):
    random = np.random.default_rng(12)
    values = operands(plan, random)
    arguments = [tensor(value) if isinstance(value, np.ndarray) else value for value in values]
    leaves = leaves_of(plan, arguments)
    result = run(plan, arguments)
    cotangent = tensor(random.standard_normal(tuple(result.shape)).astype(np.float32))
    together = orlop.grad(result, leaves, cotangent, retain_graph=True)
    for leaf, expected in zip(leaves, together, strict=True):
        (found,) = orlop.grad(result, [leaf], cotangent, retain_graph=True)
        np.testing.assert_array_equal(array(found), array(expected))


def test_grad_computes_nothing_for_leaves_that_are_not_asked_for():
    asked = tensor(np.array([[1, 2], [3, 4], [5, 6]], np.float32))
    slots = tensor(np.array([1, 2, 3, 4], np.float32))
    # Neighbouring rows share a slot: there is no gradient that could be given to it.
    shared = orlop.Tensor(slots.carrier, 0, orlop.Layout(orlop.Shape(3, 2), orlop.Stride(1, 1)))
    cotangent = tensor(np.ones((3, 2), np.float32))
    (found,) = orlop.grad(asked * shared, [asked], cotangent)
    np.testing.assert_array_equal(array(found), array(shared))
    with pytest.raises(ValueError, match="share slots"):
        orlop.grad(asked * shared, [asked, shared], cotangent)


def test_one_no_grad_object_may_be_entered_inside_itself():
    scope = orlop.no_grad()
    with scope:
        with scope:
            assert not orlop.is_grad_enabled()
        assert not orlop.is_grad_enabled()
    assert orlop.is_grad_enabled()


@pytest.mark.parametrize("kind", [CPU, Generic])
def test_every_gradient_has_storage_of_its_own(kind):
    a, b, cotangent = (tensor(np.array([1.0, 2.0, 3.0], np.float32) + i, kind=kind) for i in range(3))
    middle = a * b
    middle.retain_grad()
    result = orlop.reshape(middle, orlop.Shape(3)) + b
    found = orlop.grad(result, [a, b, a, middle, result], cotangent, retain_graph=True)
    result.backward(cotangent)
    found += (a.grad, b.grad, middle.grad, cotangent)
    carriers = [gradient.carrier for gradient in found]
    assert all(one is not other for i, one in enumerate(carriers) for other in carriers[:i])
    np.testing.assert_array_equal(array(a.grad), [6.0, 12.0, 20.0])
    np.testing.assert_array_equal(array(b.grad), [6.0, 12.0, 20.0])
    for gradient in (a.grad, b.grad):
        assert gradient.carrier.size() == 3
