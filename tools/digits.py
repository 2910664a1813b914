"""Writes scikit-learn's handwritten digits as one CSV file: 1797 lines of 64 pixels (0 to 16) and a label.

Only this one data file is taken out of the wheel; nothing of scikit-learn is installed or imported.
Usage: python tools/digits.py DESTINATION
"""

import gzip
import pathlib
import subprocess
import sys
import tempfile
import zipfile

MEMBER = "sklearn/datasets/data/digits.csv.gz"
LINES = 1797


def main(destination: pathlib.Path) -> None:
    if destination.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        download = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            folder,
            "scikit-learn",
        ]
        if subprocess.run(download).returncode != 0:
            sys.exit(
                "digits: could not download scikit-learn's wheel, which holds the data; is there a network?"
            )
        wheel = next(pathlib.Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            data = gzip.decompress(archive.read(MEMBER))
    lines = data.count(b"\n")
    if lines != LINES:
        sys.exit(f"digits: expected {LINES} lines in {MEMBER} of {wheel.name}, found {lines}")
    destination.parent.mkdir(parents=True, exist_ok=True)
    unfinished = destination.with_suffix(".part")
    unfinished.write_bytes(data)
    unfinished.rename(destination)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
