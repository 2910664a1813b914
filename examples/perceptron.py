"""A small network on modules of orlop.nn, whose parameters leave memory for a file between two rounds of training.

It learns the shape of a saddle from points of it. Names, gradients and the optimizer stay the same, wherever the
parameters live.
"""

import argparse
import random

from orlop import Evictable, FileBacked, Module, Parameter, Tensor, friendly, nn


class Saddle(Module):
    """Two inputs, one output, one hidden layer."""

    def __init__(self, width, rng):
        super().__init__()
        self.hidden, self.activation = nn.Linear(2, width, rng=rng), nn.Tanh()
        self.output = nn.Linear(width, 1, rng=rng)

    def forward(self, points):
        return self.output(self.activation(self.hidden(points)))


def spill(tensor):
    """The same values in a hierarchy of memory over a file."""
    return Tensor(Evictable(tensor.carrier, FileBacked(dtype=tensor.dtype())), tensor.offset, tensor.layout)


def main(steps, seed):
    rng = random.Random(seed)
    points = [[rng.uniform(-1, 1), rng.uniform(-1, 1)] for _ in range(64)]
    inputs = spill(friendly.tensor(points))
    targets = spill(friendly.tensor([[a * a - b * b] for a, b in points]))
    model = Saddle(16, rng)
    for layer in (model.hidden, model.output):
        layer.weight, layer.bias = Parameter(spill(layer.weight)), Parameter(spill(layer.bias))
    optimizer, loss_function = nn.SGD(model.parameters(), lr=0.2), nn.MSELoss()
    for training in range(2):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_function(model(inputs), targets)
            loss.backward()
            optimizer.step()
        print(f"round {training}: loss {friendly.item(loss):.4f}")
        for name, parameter in model.get_named_parameters():
            parameter.carrier.evict()
            size = parameter.carrier.secondary.path.stat().st_size
            print(f"  {name:14} {parameter.shape!s:8} {size:4} bytes in a file")
            parameter.carrier.promote()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
