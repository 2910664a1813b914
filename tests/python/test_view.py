"""orlop.view: pictures of layouts."""

import itertools
import xml.etree.ElementTree

import pytest
from orlop import IndexMap, Layout, Shape, Stride, Swizzle, SwizzleStage, view

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
