"""orlop.view: pictures of layouts and of tiles."""

import io
import itertools
import math
import re
import xml.etree.ElementTree

import pytest
from orlop import (
    CPU,
    DType,
    FileBacked,
    IndexMap,
    Layout,
    Shape,
    Stride,
    Swizzle,
    SwizzleStage,
    TiledEvictable,
    TileSet,
    view,
)

CELL = 36


def drawn(svg):
    """The texts of a picture by the column and row of the cell they stand in, and which of these are cells."""
    root = xml.etree.ElementTree.fromstring(svg)
    texts, cells = {}, set()
    for element in root:
        tag = element.tag.split("}")[1]
        if tag == "rect" and "x" in element.attrib:
            cells.add((int(element.get("x")) // CELL, int(element.get("y")) // CELL))
        if tag == "text" and element.get("text-anchor") is None:
            place = int(float(element.get("x"))) // CELL, int(float(element.get("y"))) // CELL
            assert place not in texts
            texts[place] = element.text
    return texts, cells


def test_rows_are_the_first_mode_and_columns_the_second():
    layout = Layout(Shape(4, [2, 3]), Stride(2, [1, 8]))
    texts, cells = drawn(view.layout(layout).svg)
    assert cells == set(itertools.product(range(1, 7), range(2, 6)))
    for row, column in itertools.product(range(4), range(6)):
        assert texts[column + 1, row + 2] == str(layout([row, column]))
    assert [texts[0, row + 2] for row in range(4)] == ["0", "1", "2", "3"]
    assert [texts[column + 1, 1] for column in range(6)] == ["(0,0)", "(1,0)", "(0,1)", "(1,1)", "(0,2)", "(1,2)"]
    assert len(texts) == 24 + 4 + 6


def test_further_modes_are_panels():
    layout = Layout(Shape(2, 3, 2, 2), Stride(1, 2, 6, 12))
    texts, _ = drawn(view.layout(layout).svg)
    for number, (fourth, third) in enumerate(itertools.product(range(2), range(2))):
        left = 5 * number
        assert texts[left, 1] == f"·,·,{third},{fourth}"
        for row, column in itertools.product(range(2), range(3)):
            assert texts[left + column + 1, row + 2] == str(layout([row, column, third, fourth]))


@pytest.mark.parametrize(
    ("make", "title"),
    [
        (lambda: Layout(Shape(5), Stride(300)), "(5,):(300,)"),
        (Layout.empty, "():()"),
        (lambda: Layout(Shape([[2, 2], 3]), Stride([[1, 6], 2])), "((2, 2), 3):((1, 6), 2)"),
        (lambda: Swizzle(Shape(8, 8), SwizzleStage(3, 0, 3)), "Swizzle"),
    ],
    ids=["one mode", "no mode", "nested", "swizzle"],
)
def test_every_map_of_indices_is_drawn(make, title):
    index_map = make()
    picture = view.layout(index_map)
    texts, cells = drawn(picture.svg)
    assert isinstance(index_map, IndexMap)
    assert sorted(int(texts[cell]) for cell in cells) == sorted(index_map(ordinal) for ordinal in range(index_map.size))
    assert picture.title == title
    assert repr(picture) == f"LayoutPicture({title})"
    assert picture._repr_svg_() == picture.svg


def test_files(tmp_path):
    picture = view.layout(Layout(Shape(2, 2), Stride(1, 2)))
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == picture.svg
    pytest.importorskip("matplotlib", reason="PNG needs matplotlib")
    picture.save(str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_wrong_arguments(tmp_path):
    picture = view.layout(Layout(Shape(2), Stride(1)))
    for wrong in (None, 3, [2, 3], Shape(2, 3)):
        with pytest.raises(TypeError, match=r"\[view\.layout\]"):
            view.layout(wrong)
    with pytest.raises(ValueError, match="at most 4096"):
        view.layout(Layout(Shape(2**40, 2), Stride(1, 0)))
    with pytest.raises(ValueError, match=r"\.svg or \.png"):
        picture.save(tmp_path / "a.jpg")
    with pytest.raises(TypeError):
        picture.save(3)
    assert list(tmp_path.iterdir()) == []


def tiled(grid=(2, 3), tile=(1, 2), **limits):
    """All tiles on file."""
    size = math.prod(grid) * math.prod(tile)
    return TiledEvictable(CPU(0), FileBacked(dtype=DType.Float32).allocate_like(size), grid, tile, **limits)


def test_tiles_show_where_they_are():
    carrier = tiled()
    assert str(view.tiles(carrier)) == "...\n...\n. 6 on file"
    carrier.promote(TileSet([(0, 1), (1, 1), (1, 2)]))
    carrier[4] = 2.0  # the tile (0, 1)
    picture = view.tiles(carrier)
    assert picture.lines == [".*.", ".##"]
    assert picture.legend == "* 1 dirty, # 2 resident, . 3 on file"
    assert {meaning: count for meaning, count in picture.counts.items() if count} == {"dirty": 1, "resident": 2, "on file": 3}
    carrier.evict(carrier.primary_tiles)
    assert str(picture) == f".*.\n.##\n{picture.legend}"  # as it was
    assert str(view.tiles(carrier, legend=False)) == "...\n..."
    assert view.tiles(carrier.allocate_like(12)).lines == ["000", "000"]
    assert view.tiles(carrier.allocate_like(12, empty=True)).lines == ["---", "---"]


def test_a_row_of_tiles_goes_on_in_the_next_line():
    carrier = tiled((1, 10), (1, 1))
    carrier.promote(TileSet([(0, 7)]))
    assert view.tiles(carrier, width=4).lines == ["....", "...#", ".."]
    assert view.tiles(carrier, width=4, height=1).lines == ["..#."]  # three tiles for a symbol
    line = tiled((10,), (1,))
    assert view.tiles(line, width=100).lines == [10 * "."]


def test_a_large_grid_is_shrunk_to_the_tile_of_most_interest():
    carrier = tiled((40, 90), (1, 1))
    carrier.promote(TileSet([(39, 89)]))
    lines = view.tiles(carrier, width=30, height=10).lines
    assert [len(line) for line in lines] == 10 * [30]
    assert "".join(lines) == 299 * "." + "#"


def test_further_axes_follow_side_by_side():
    carrier = tiled((2, 2, 2), (1, 1, 1))
    carrier.promote(TileSet([(1, 0, 1)]))
    assert view.tiles(carrier).lines == ["....", "..#."]


def test_tiles_in_colour():
    console = pytest.importorskip("rich.console", reason="colours need rich")
    carrier = tiled()
    carrier.promote(TileSet([(0, 0)]))
    for screen in (console.Console(file=io.StringIO()), console.Console(file=io.StringIO(), force_terminal=True)):
        screen.print(view.tiles(carrier))
        text = re.sub(r"\x1b\[[0-9;]*m", "", screen.file.getvalue())
        assert text.rstrip() == "#..\n...\n# 1 resident, . 5 on file"
        assert ("\x1b[1;32m#" in screen.file.getvalue()) == screen.is_terminal


def test_residency_of_groups(tmp_path):
    first, second = tiled(), tiled((1, 4), (1, 1))
    residency = view.Residency({"one": [first], "both": [first, second]})
    with pytest.raises(ValueError, match="nothing was noted"):
        residency.plot(tmp_path / "none.png")
    residency.sample()
    second.promote(TileSet([(0, 0)]))
    first.promote(TileSet([(0, 0)]))
    residency.sample()
    (then, nothing), (now, some) = residency.samples
    assert then < now
    assert nothing == {"one": 0, "both": 0}
    assert some == residency.resident_bytes() == {"one": 8, "both": 12}
    console = pytest.importorskip("rich.console", reason="tables need rich")
    screen = console.Console(file=io.StringIO())
    screen.print(residency)
    assert screen.file.getvalue().split() == ["one", "#..", "both", "#..", "#..."]
    pytest.importorskip("matplotlib", reason="PNG needs matplotlib")
    residency.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_wrong_carriers_and_places():
    for wrong in (None, CPU(2), "tiles"):
        with pytest.raises(TypeError, match=r"\[view\.tiles\]"):
            view.tiles(wrong)
    for place in ({"width": 0}, {"height": -1}):
        with pytest.raises(ValueError, match="at least 1"):
            view.tiles(tiled(), **place)
    with pytest.raises(ValueError, match="100000000 tiles"):
        view.tiles(TiledEvictable(CPU(0), FileBacked(dtype=DType.Float32), (10**8,), (1,)))
