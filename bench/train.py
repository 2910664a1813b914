"""A perceptron 784-512-256-10 with relu on a batch of 128: forward, and forward with all gradients (Q117).

The loss is the sum of squared differences from a target. NumPy's gradients are written by hand.
"""

import functools

import harness
import numpy

WIDTHS = (784, 512, 256, 10)
BATCH = 128


def arrays():
    """The batch, its target, and weights (inputs, outputs) and biases (1, outputs) of each layer."""
    random = numpy.random.default_rng(7)

    def draw(*shape):
        return random.standard_normal(shape, dtype=numpy.float32)

    layers = [
        (draw(fed, made) / numpy.float32(fed) ** numpy.float32(0.5), draw(1, made))
        for fed, made in zip(WIDTHS, WIDTHS[1:], strict=False)
    ]
    return draw(BATCH, WIDTHS[0]), draw(BATCH, WIDTHS[-1]), layers


# --- Orlop: matmul contracts the second modes, so a weight is (outputs, inputs) -----------------------------


def orlop_operands(graph):
    import orlop
    from orlop import friendly

    orlop.set_grad_enabled(graph)
    x, target, layers = arrays()
    return friendly.tensor(x), friendly.tensor(target), [
        (friendly.tensor(numpy.ascontiguousarray(weight.T)), friendly.tensor(bias)) for weight, bias in layers
    ]


def orlop_logits(x, layers):
    import orlop

    for weight, bias in layers[:-1]:
        x = orlop.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def orlop_forward():
    x, _, layers = orlop_operands(graph=False)
    return functools.partial(orlop_logits, x, layers)


def orlop_train():
    import orlop
    from orlop import friendly

    x, target, layers = orlop_operands(graph=True)
    parameters = [parameter for layer in layers for parameter in layer]
    one = friendly.ones(1)

    def call():
        difference = orlop_logits(x, layers) - target
        loss = orlop.reduce_sum(difference * difference, "row class -> 1")
        return loss, orlop.grad(loss, parameters, one)

    return call


# --- NumPy --------------------------------------------------------------------------------------------------


def numpy_activations(x, layers):
    """The input of every layer, and the logits."""
    found = [x]
    for number, (weight, bias) in enumerate(layers):
        x = x @ weight + bias
        if number + 1 < len(layers):
            x = numpy.maximum(x, 0)
        found.append(x)
    return found


def numpy_forward():
    x, _, layers = arrays()
    return functools.partial(numpy_activations, x, layers)


def numpy_train():
    x, target, layers = arrays()

    def call():
        *inputs, logits = numpy_activations(x, layers)
        difference = logits - target
        loss = (difference * difference).sum()
        flow, gradients = 2 * difference, []
        for number in reversed(range(len(layers))):
            gradients += [flow.sum(0, keepdims=True), inputs[number].T @ flow]
            if number > 0:
                flow = (flow @ layers[number][0].T) * (inputs[number] > 0)
        return loss, gradients[::-1]

    return call


# --- JAX and PyTorch ----------------------------------------------------------------------------------------


def jax_logits(layers, x):
    import jax

    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def jax_call(function, *operands):
    import jax

    operands = jax.tree.map(jax.numpy.asarray, operands)
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*operands))


def jax_forward():
    x, _, layers = arrays()
    return jax_call(jax_logits, layers, x)


def jax_train():
    import jax

    x, target, layers = arrays()

    def loss(layers, x, target):
        return ((jax_logits(layers, x) - target) ** 2).sum()

    return jax_call(jax.value_and_grad(loss), layers, x, target)


def torch_logits(x, layers):
    import torch

    for weight, bias in layers[:-1]:
        x = torch.relu(torch.addmm(bias, x, weight))
    weight, bias = layers[-1]
    return torch.addmm(bias, x, weight)


def torch_operands(graph):
    import torch

    torch.set_grad_enabled(graph)
    x, target, layers = arrays()
    layers = [tuple(torch.from_numpy(array).requires_grad_(graph) for array in layer) for layer in layers]
    return torch.from_numpy(x), torch.from_numpy(target), layers


def torch_forward():
    x, _, layers = torch_operands(graph=False)
    return functools.partial(torch_logits, x, layers)


def torch_train():
    import torch

    x, target, layers = torch_operands(graph=True)
    parameters = [parameter for layer in layers for parameter in layer]

    def call():
        loss = ((torch_logits(x, layers) - target) ** 2).sum()
        return loss, torch.autograd.grad(loss, parameters)

    return call


ROWS = [
    harness.Row(
        "Q117",
        "perceptron, forward",
        1.0,
        {"orlop": orlop_forward, "numpy": numpy_forward, "jax": jax_forward, "torch": torch_forward},
    ),
    harness.Row(
        "Q117",
        "perceptron, forward and backward",
        1.0,
        {"orlop": orlop_train, "numpy": numpy_train, "jax": jax_train, "torch": torch_train},
    ),
]

if __name__ == "__main__":
    harness.main(__file__, ROWS)
