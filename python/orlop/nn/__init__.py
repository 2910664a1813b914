"""Modules of a neural network, a loss and an optimizer, over the operations of orlop (M806 to M810).

>>> import random
>>> from orlop import Module, friendly, nn
>>> class Perceptron(Module):
...     def __init__(self, rng):
...         super().__init__()
...         self.hidden, self.activation = nn.Linear(2, 8, rng=rng), nn.Tanh()
...         self.output = nn.Linear(8, 1, rng=rng)
...
...     def forward(self, x):
...         return self.output(self.activation(self.hidden(x)))
>>> model = Perceptron(random.Random(0))
>>> x, target = friendly.tensor([[0.0, 1.0], [1.0, 1.0]]), friendly.tensor([[1.0], [0.0]])
>>> loss_function, optimizer = nn.MSELoss(), nn.SGD(model.parameters(), lr=0.1)
>>> for step in range(100):
...     optimizer.zero_grad()
...     loss = loss_function(model(x), target)
...     loss.backward()
...     optimizer.step()
>>> friendly.item(loss) < 0.001
True
"""

from orlop.nn import init
from orlop.nn._activations import ELU, GELU, LeakyReLU, ReLU, Sigmoid, SiLU, Softplus, Tanh
from orlop.nn._layers import Linear, MSELoss
from orlop.nn._optimizers import SGD

__all__ = [
    "ELU",
    "GELU",
    "SGD",
    "LeakyReLU",
    "Linear",
    "MSELoss",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Tanh",
]
