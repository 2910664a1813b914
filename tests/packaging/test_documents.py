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


def test_readme_example_prints_what_it_shows(root):
    text = (root / "README.md").read_text()
    example, expected = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", text, re.DOTALL).groups()
    assert len([line for line in example.splitlines() if line and not line.startswith("from ")]) <= 10
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})
    assert printed.getvalue() == expected
