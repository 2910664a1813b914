"""Pictures: where a layout puts each coordinate, and where the tiles of a tiled carrier are.

>>> from orlop import Layout, Shape, Stride, view
>>> picture = view.layout(Layout(Shape(4, [2, 3]), Stride(2, [1, 8])))
>>> picture.svg.startswith("<svg")
True

`picture.save("layout.svg")` writes a file; a notebook draws the picture itself. `.png` needs matplotlib: install
`orlop[view]`. `print(view.tiles(carrier))` is plain text; a console of rich draws the same in colour.
"""

import itertools
import math
import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from xml.sax.saxutils import escape

from orlop._core import Carrier, IndexMap, Layout

__all__ = ["LayoutPicture", "Residency", "TilePicture", "layout", "tiles"]

_MOST_CELLS = 4096
_MOST_TILES = 10_000_000
_CELL = 36  # pixels
_ROW_OF_PANELS = 36  # cells side by side before a further panel goes below
# Cells of equal index modulo eight look alike, so that runs and jumps show.
_SHADES = ("#ffffff", "#dbe9f6", "#bad6eb", "#fee6ce", "#fdd0a2", "#e5f5e0", "#c7e9c0", "#dadaeb")


class _Mark(NamedTuple):
    """A text at the centre of a cell; with a shade, the cell itself."""

    column: float
    row: float
    text: str
    shade: str | None = None


def _extent(mode):
    size = 1
    for item in mode if isinstance(mode, tuple) else (mode,):
        size *= _extent(item) if isinstance(item, tuple) else item
    return size


def _coordinate(mode, ordinal):
    """The nested coordinate of an ordinal, first leaf fastest: what stands beside a row or column."""
    if not isinstance(mode, tuple):
        return str(ordinal)
    parts = []
    for item in mode:
        size = _extent(item)
        parts.append(_coordinate(item, ordinal % size))
        ordinal //= size
    return "(" + ",".join(parts) + ")"


def _marks(index_map):
    """Every text of the picture: one panel for each coordinate of the third mode and those after it."""
    rows, columns, *others = (*index_map.shape.top_level, 1, 1)[: max(2, len(index_map.shape))]
    height, width = _extent(rows), _extent(columns)
    side_by_side = max(1, _ROW_OF_PANELS // (width + 1))
    ordinals = itertools.count()  # in the order of the loops below
    for panel in range(_extent(tuple(others))):
        left, top = panel % side_by_side * (width + 2), panel // side_by_side * (height + 2)
        if others:
            yield _Mark(left, top, "·,·," + _coordinate(tuple(others), panel)[1:-1])
        for row in range(height):
            yield _Mark(left, top + row + 1, _coordinate(rows, row))
        for column in range(width):
            yield _Mark(left + column + 1, top, _coordinate(columns, column))
            for row in range(height):
                index = index_map(next(ordinals))
                yield _Mark(left + column + 1, top + row + 1, str(index), _SHADES[index % len(_SHADES)])


class LayoutPicture:
    """What `layout` draws: rows are the first mode, columns the second, each cell shows its index.

    >>> from orlop import friendly, view
    >>> picture = view.layout(friendly.row_major(2, 3))
    >>> picture, picture.svg[:4]
    (LayoutPicture((2, 3):(3, 1)), '<svg')
    """

    def __init__(self, index_map: IndexMap) -> None:
        if not isinstance(index_map, IndexMap):
            given = type(index_map).__name__
            raise TypeError(f"[view.layout] layout must be a Layout or another IndexMap: got {given}")
        if index_map.size > _MOST_CELLS:
            raise ValueError(
                f"[view.layout] the layout has {index_map.size} coordinates; at most {_MOST_CELLS} can be read: draw a "
                "part of it"
            )
        self._marks = list(_marks(index_map))
        self._width = max(mark.column for mark in self._marks) + 1
        self._height = max(mark.row for mark in self._marks) + 1
        self.title = type(index_map).__name__
        if isinstance(index_map, Layout):
            self.title = f"{index_map.shape.top_level}:{index_map.stride.top_level}"

    @property
    def svg(self) -> str:
        """The picture as the text of an SVG file."""
        width, height = max(self._width * _CELL, 9 * len(self.title)), (self._height + 1) * _CELL
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
            ' font-family="sans-serif" text-anchor="middle" dominant-baseline="central">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            f'<text x="8" y="{_CELL / 2}" font-size="14" text-anchor="start">{escape(self.title)}</text>',
        ]
        for column, row, text, shade in self._marks:
            x, y = column * _CELL, (row + 1) * _CELL
            if shade is not None:
                lines.append(f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" fill="{shade}" stroke="#444"/>')
            size, colour = self._font(text), "#000" if shade is not None else "#a22"
            lines.append(
                f'<text x="{x + _CELL / 2}" y="{y + _CELL / 2}" font-size="{size}" fill="{colour}">{escape(text)}</text>'
            )
        return "\n".join([*lines, "</svg>\n"])

    @staticmethod
    def _font(text):
        return max(6, min(13, 50 // len(text)))

    def _repr_svg_(self):
        return self.svg

    def __repr__(self):
        return f"LayoutPicture({self.title})"

    def save(self, path: str | os.PathLike) -> None:
        """Writes an SVG file, or by matplotlib a PNG file; ValueError for another suffix.

        >>> import os, tempfile
        >>> from orlop import friendly, view
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     view.layout(friendly.row_major(2, 3)).save(os.path.join(folder, "layout.svg"))
        ...     os.listdir(folder)
        ['layout.svg']
        >>> view.layout(friendly.row_major(2, 3)).save("layout.gif")
        Traceback (most recent call last):
            ...
        ValueError: [LayoutPicture.save] the name must end in .svg or .png: got 'layout.gif'
        """
        if not isinstance(path, (str, bytes, os.PathLike)):
            given = type(path).__name__
            raise TypeError(f"[LayoutPicture.save] path must be a str, bytes or os.PathLike: got {given}")
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        if suffix == ".svg":
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.svg)
        elif suffix == ".png":
            self._save_png(path)
        else:
            raise ValueError(f"[LayoutPicture.save] the name must end in .svg or .png: got {os.fspath(path)!r}")

    def _save_png(self, path):
        try:
            from matplotlib.figure import Figure
            from matplotlib.patches import Rectangle
        except ImportError as error:
            raise ImportError("[LayoutPicture.save] PNG needs matplotlib; install orlop[view] or save as .svg") from error
        figure = Figure(figsize=(self._width * 0.4, (self._height + 1) * 0.4), layout="constrained")
        axes = figure.add_subplot(xlim=(0, self._width), ylim=(self._height, 0), aspect="equal", title=self.title)
        axes.axis("off")
        for column, row, text, shade in self._marks:
            if shade is not None:
                axes.add_patch(Rectangle((column, row), 1, 1, facecolor=shade, edgecolor="#444"))
            colour = "#000" if shade is not None else "#a22"
            axes.text(column + 0.5, row + 0.5, text, size=self._font(text) * 0.7, color=colour, ha="center", va="center")
        figure.savefig(path, dpi=120, bbox_inches="tight")


def layout(layout: IndexMap) -> LayoutPicture:
    """A picture of a Layout or another IndexMap of at most 4096 coordinates.

    Modes after the second make one panel for each of their coordinates. TypeError for what is no IndexMap,
    ValueError for one too large to be read.

    >>> from orlop import friendly, view
    >>> view.layout(friendly.row_major(2, 3)).title
    '(2, 3):(3, 1)'
    >>> view.layout(friendly.row_major(100, 100))
    Traceback (most recent call last):
        ...
    ValueError: [view.layout] the layout has 10000 coordinates; at most 4096 can be read: draw a part of it
    """
    return LayoutPicture(layout)


# How a tile is drawn: symbol, meaning, terminal style; from the least to the most of interest.
_STATES = (
    ("-", "invalid", "dim red"),
    ("0", "implicit zero", "dim"),
    (".", "on file", "blue"),
    ("#", "resident", "bold green"),
    ("*", "dirty", "bold yellow"),
    ("~", "moving", "bold magenta"),
)
_SYMBOLS = "".join(symbol for symbol, _, _ in _STATES)


class TilePicture:
    """What `tiles` draws, as it was at that moment: `str` is plain text, and rich prints it in colour.

    >>> from orlop import CPU, TileSet, TiledEvictable, friendly, view
    >>> carrier = TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,))
    >>> carrier.evict(TileSet([(1,)]))
    >>> view.tiles(carrier).lines, view.tiles(carrier).counts["resident"]
    (['#.'], 1)
    """

    def __init__(self, carrier, width, height, legend):
        states = carrier._tile_symbols()  # in the order of the tiles' numbers, first axis fastest
        rows = carrier.grid_shape[0] if len(carrier.grid_shape) > 1 else 1
        self.counts = {meaning: states.count(symbol) for symbol, meaning, _ in _STATES}
        self._has_legend = legend
        self.lines = _shrunk([states[row::rows] for row in range(rows)], width, height)

    @property
    def legend(self):
        """What is there, as text: `# 3 resident, . 5 on file`."""
        there = [(symbol, self.counts[meaning], meaning) for symbol, meaning, _ in reversed(_STATES)]
        return ", ".join(f"{symbol} {count} {meaning}" for symbol, count, meaning in there if count)

    def __str__(self):
        return "\n".join([*self.lines, self.legend] if self._has_legend else self.lines)

    def __repr__(self):
        return f"TilePicture({self.counts})"

    def __rich__(self):
        from rich.text import Text

        text = Text("\n".join(self.lines), no_wrap=True)
        for symbol, _, style in _STATES:
            text.highlight_regex(re.escape(symbol) + "+", style)
        return text.append("\n" + self.legend) if self._has_legend else text


class Residency:
    """Groups of tiled carriers, a line each: where their tiles are now, and how much was in memory over time.

    `groups` maps a name to carriers. A Console or a Live of rich draws the lines, `sample()` notes the moment, and
    `plot(path)` draws what was noted, by matplotlib.

    >>> from orlop import CPU, TiledEvictable, friendly, view
    >>> carrier = TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,))
    >>> residency = view.Residency({"weights": [carrier]})
    >>> residency.sample()
    >>> residency.resident_bytes(), len(residency.samples)
    ({'weights': 16}, 1)
    """

    def __init__(self, groups: Mapping[str, Iterable[Carrier]], *, width: int = 48) -> None:
        if not isinstance(groups, Mapping):
            raise TypeError(f"[Residency] groups must map names to carriers: got {type(groups).__name__}")
        self.groups = {name: tuple(carriers) for name, carriers in groups.items()}
        self.width = width
        self.samples = []  # (seconds of the monotonic clock, bytes in memory by group)

    def resident_bytes(self) -> dict[str, int]:
        """Bytes of the tiles in memory, by group."""
        return {name: sum(carrier._primary_bytes for carrier in carriers) for name, carriers in self.groups.items()}

    def sample(self) -> None:
        """Notes the moment for `plot`."""
        self.samples.append((time.monotonic(), self.resident_bytes()))

    def __rich__(self):
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for name, carriers in self.groups.items():
            strips = [tiles(carrier, width=self.width, height=1, legend=False).__rich__() for carrier in carriers]
            table.add_row(name, Text("  ", no_wrap=True).join(strips))
        return table

    def plot(self, path: str | os.PathLike) -> None:
        """A picture of the samples: the bytes of each group on top of those before it.

        >>> from orlop import view
        >>> view.Residency({}).plot("memory.png")
        Traceback (most recent call last):
            ...
        ValueError: [Residency.plot] nothing was noted yet; call sample() while tiles move
        """
        if not self.samples:
            raise ValueError("[Residency.plot] nothing was noted yet; call sample() while tiles move")
        from matplotlib.figure import Figure

        times, samples = zip(*self.samples, strict=True)
        figure = Figure(figsize=(10, 5), layout="constrained")
        axes = figure.add_subplot(xlabel="seconds", ylabel="MiB of tiles in memory")
        heights = [[sample[name] / 2**20 for sample in samples] for name in self.groups]
        axes.stackplot([now - times[0] for now in times], heights, step="post", labels=list(self.groups))
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5))  # as they lie
        figure.savefig(path, dpi=120)


def _shrunk(rows, width, height):
    """Lines of at most `width` symbols, at most `height` of them; where it must, a symbol stands for several tiles."""
    if len(rows) == 1:  # one row goes on in the next line
        (row,) = rows
        group = -(-len(row) // (width * height))
        symbols = [max(row[i : i + group], key=_SYMBOLS.index) for i in range(0, len(row), group)]
        return ["".join(symbols[i : i + width]) for i in range(0, len(symbols), width)]
    down, across = -(-len(rows) // height), -(-len(rows[0]) // width)
    return [
        "".join(
            max((symbol for row in rows[top : top + down] for symbol in row[left : left + across]), key=_SYMBOLS.index)
            for left in range(0, len(rows[0]), across)
        )
        for top in range(0, len(rows), down)
    ]


def tiles(carrier: Carrier, *, width: int = 64, height: int = 16, legend: bool = True) -> TilePicture:
    """A terminal picture of where the tiles of a TiledEvictable are.

    Rows are the first axis of the grid, columns the others; a grid of one row goes on in the next line. Where the
    picture would take more than `height` lines of `width` symbols, a symbol stands for several tiles and shows the
    one of most interest; `legend` adds a line of counts. TypeError for another carrier, ValueError for no
    place to draw or more than ten million tiles.

    >>> from orlop import CPU, TileSet, TiledEvictable, friendly, view
    >>> carrier = TiledEvictable(friendly.arange(8).carrier, CPU(0), (2, 2), (2, 1))
    >>> carrier.evict(TileSet([(0, 1)]))
    >>> print(view.tiles(carrier))
    #.
    ##
    # 3 resident, . 1 on file
    """
    from orlop.carriers.tiled_evictable import TiledEvictable

    if not isinstance(carrier, TiledEvictable):
        raise TypeError(f"[view.tiles] carrier must be a TiledEvictable: got {type(carrier).__name__}")
    count = math.prod(carrier.grid_shape)
    if count > _MOST_TILES:
        raise ValueError(f"[view.tiles] the grid has {count} tiles; at most {_MOST_TILES} are drawn: ask for single ones")
    if width < 1 or height < 1:
        raise ValueError(f"[view.tiles] width and height must be at least 1: got {width} and {height}")
    return TilePicture(carrier, width, height, legend)
