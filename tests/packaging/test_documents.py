"""What the documents show is true: links lead somewhere, README's example runs and prints what it says."""

import contextlib
import io
import pathlib
import re
import subprocess


def documents(root: pathlib.Path) -> list[pathlib.Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def test_relative_links_lead_to_files(root):
    broken = [
        f"{document.relative_to(root)}: {target}"
        for document in documents(root)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert broken == []


def test_cpp_page_shows_the_example_that_is_compiled(root):
    shown = re.search(r"```cpp\n(.*?)```", (root / "docs/cpp.md").read_text(), re.DOTALL).group(1)
    assert shown == (root / "examples/first_steps.cpp").read_text()


def test_documentation_says_where_every_module_and_header_folder_is(root):
    page, cpp = (root / "docs/README.md").read_text(), (root / "docs/cpp.md").read_text()
    modules = [
        ".".join(path.relative_to(root / "python").with_suffix("").parts).removesuffix(".__init__")
        for path in (root / "python/orlop").rglob("*.py")
    ]
    carriers = {"orlop.carriers." + path.name for path in (root / "include/orlop/carriers").iterdir() if path.is_dir()}
    public = {name for name in modules if "._" not in name} - carriers
    assert {name for name in public if f"`{name}`" not in page} == set()
    folders = {path.name for path in (root / "include/orlop").iterdir() if path.is_dir()}
    assert {name for name in folders if f"| `{name}" not in cpp} == set()


def test_readme_names_exactly_the_two_commands_of_a_newcomer(root):
    section = (root / "README.md").read_text().split("## Two commands")[1].split("\n## ")[0]
    commands = re.search(r"```sh\n(.*?)```", section, re.DOTALL).group(1)
    assert [line.split("#")[0].split() for line in commands.splitlines()] == [
        ["./dev", "demo"],
        ["./dev", "test"],
    ]


def test_dev_without_a_verb_lists_the_verbs(root):
    done = subprocess.run([root / "dev"], capture_output=True, text=True)
    assert done.returncode == 2
    assert [
        word
        for word in ("demo", "test", "check", "bench", "counts", "docs")
        if f"  {word}" not in done.stderr
    ] == []


def examples(text: str) -> list[tuple[str, str]]:
    """Python blocks that are followed by what they print."""
    return re.findall(r"```python\n((?:(?!```).)*)```\s+```text\n(.*?)```", text, re.DOTALL)


def test_examples_print_what_is_shown_below_them(root):
    found = 0
    for document in documents(root):
        names: dict = {}  # those of a document go on
        for example, expected in examples(document.read_text()):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(example, str(document), "exec"), names)
            assert printed.getvalue() == expected
            found += 1
    assert found >= 3


def test_readme_example_is_short(root):
    ((example, _),) = examples((root / "README.md").read_text())
    assert len([line for line in example.splitlines() if line and not line.startswith("from ")]) <= 10
