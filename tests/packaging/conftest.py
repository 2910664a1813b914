"""Where the repository is, for the tests of what is shipped and shown."""

import pathlib

import pytest


@pytest.fixture(scope="session")
def root() -> pathlib.Path:
    return pathlib.Path(__file__).resolve().parents[2]
