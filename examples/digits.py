"""Handwritten digits: a perceptron trains while its parameters travel between RAM and files.

Every parameter and its gradient live in an Evictable hierarchy, CPU over FileBacked. A layer is promoted to RAM when
it works and evicted to its files in between. The same training on plain CPU carriers gives the identical losses.
"""
import argparse, csv, os, random
import orlop
from orlop import Evictable, FileBacked, Tensor, friendly

BATCH, RATE = 32, 0.5

class Storage:
    """Where tensors live: on plain CPU or, spilling, on CPU over a file. It counts what travels."""

    def __init__(self, spills):
        self.spills, self.parameters, self.counts, self.timeline = spills, [], {"evict": 0, "promote": 0}, [(0, 0)]

    def place(self, tensor):
        carrier = Evictable(tensor.carrier, FileBacked(dtype=tensor.dtype())) if self.spills else tensor.carrier
        return Tensor(carrier, tensor.offset, tensor.layout)

    def travel(self, carriers, how):
        if self.spills:
            for carrier in carriers:
                getattr(carrier, how)()
            self.counts[how] += len(carriers)
            resident = sum(4 * c.size() for c in self.parameters if not c.is_evicted())
            in_files = sum(os.path.getsize(c.secondary.path) for c in self.parameters if c.is_evicted())
            self.timeline.append((resident, in_files))


class Layer:
    """A linear layer that is resident only inside `with layer:`."""

    def __init__(self, storage, inputs, outputs, rng):
        draws = [[rng.uniform(-(inputs**-0.5), inputs**-0.5) for _ in range(inputs)] for _ in range(outputs)]
        self.storage, self.parameters = storage, [storage.place(t) for t in (friendly.tensor(draws), friendly.zeros(1, outputs))]
        self.carriers = [parameter.carrier for parameter in self.parameters]
        storage.parameters += self.carriers
        storage.travel(self.carriers, "evict")

    def __enter__(self):
        self.storage.travel(self.carriers, "promote")

    def __exit__(self, *exception):
        self.storage.travel(self.carriers, "evict")

    def __call__(self, x):
        return x @ self.parameters[0] + self.parameters[1]

    def step(self):
        with orlop.no_grad():
            for parameter in self.parameters:
                parameter.carrier.scatter(parameter - parameter.grad * RATE, parameter, parameter.layout)
                parameter.grad = None


def cross_entropy(logits, one_hot):
    shifted = logits - orlop.unsqueeze(orlop.reduce_max(logits, "row class -> row"), 1)
    log_total = orlop.log(orlop.reduce_sum(orlop.exp(shifted), "row class -> row"))
    return friendly.mean(log_total - orlop.reduce_sum(shifted * one_hot, "row class -> row"))


def accuracy(logits, rows):
    answers = zip(friendly.to_list(orlop.argmax(logits, "row class -> row")), rows)
    return sum(answer == label for answer, (_, label) in answers) / len(rows)


def train(rows, storage, seed, report):
    """Trains on rows of (pixels, label). Returns the loss of each epoch and the two layers."""
    rng, losses = random.Random(seed), []
    first, second = Layer(storage, 64, 128, rng), Layer(storage, 128, 10, rng)
    for epoch in range(20):
        rng.shuffle(rows)
        batches = [rows[start : start + BATCH] for start in range(0, len(rows) - BATCH + 1, BATCH)]
        total = right = 0.0
        for number, batch in enumerate(batches):
            report(f"\repoch {epoch:2}, batch {number:2} of {len(batches)}", end="")
            x = storage.place(friendly.tensor([pixels for pixels, _ in batch]))
            one_hot = storage.place(friendly.tensor([[float(label == d) for d in range(10)] for _, label in batch]))
            with first:
                hidden = orlop.relu(first(x))
            joint = Tensor(hidden.carrier, hidden.offset, hidden.layout)  # cuts the graph: one layer at a time is resident
            with second:
                loss = cross_entropy(logits := second(joint), one_hot)
                loss.backward()
                second.step()
            with first:
                hidden.backward(joint.grad)
                first.step()
            total, right = total + friendly.item(loss), right + accuracy(logits, batch)
        losses.append(total / len(batches))
        travels = [f"{size / 1024:9.1f} KiB" for size in storage.timeline[-1]], [f"{n:10}" for n in storage.counts.values()]
        report(f"\r{epoch:5}{losses[-1]:9.4f}{right / len(batches):10.1%}", *travels[0], *travels[1])
    return losses, first, second


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="the digits: lines of 64 pixels and a label")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", help="draw residency over time into this PNG file")
    args = parser.parse_args()
    with open(args.data, newline="") as file:
        rows = [([float(pixel) / 16 for pixel in line[:64]], int(float(line[64]))) for line in csv.reader(file)]
    random.Random(args.seed).shuffle(rows)
    test, rows = rows[: len(rows) // 5], rows[len(rows) // 5 :]
    print("epoch     loss  accuracy     resident     in files  evictions promotions")
    storage = Storage(spills=True)
    losses, first, second = train(list(rows), storage, args.seed, lambda *a, **k: print(*a, flush=True, **k))
    with orlop.no_grad(), first, second:
        logits = second(orlop.relu(first(storage.place(friendly.tensor([pixels for pixels, _ in test])))))
        print(f"test accuracy: {accuracy(logits, test):.4f} on {len(test)} digits never trained on")
    plain, *_ = train(list(rows), Storage(spills=False), args.seed, lambda *a, **k: None)
    print("the same training on plain CPU:", "identical losses" if plain == losses else f"DIFFERENT LOSSES {plain}")
    if args.plot:
        from matplotlib import pyplot
        pyplot.stackplot(range(-60, 0), *zip(*storage.timeline[-60:]), step="post", labels=["resident", "in files"])
        pyplot.legend(title="bytes of parameters"), pyplot.savefig(args.plot)
