"""The wheel: what it holds, that it imports alone, and that C++ finds the library inside it."""

import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

pytestmark = pytest.mark.slow

CONSUMER = """
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(orlop 0.1 CONFIG REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE orlop::orlop)
"""

# The exported error types must be the library's own across the boundary, also with hidden visibility.
CONSUMER_MAIN = """
#include <iostream>
#include <orlop/orlop.hpp>
int main() {
  try {
    orlop::raise<orlop::ValueError>("consumer", "size must be positive: ", -1);
  } catch (const orlop::Error& error) {
    std::cout << error.what();
  }
}
"""


def run(*command: object, cwd: pathlib.Path | None = None) -> str:
    """Standard output of a command that must succeed; it sees no package of the build tree."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "-w",
        folder,
        root,
    )
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> pathlib.Path:
    """The Python of an environment that holds the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    return python


def test_wheel_holds_the_package_and_nothing_else(wheel, root):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    version = re.search(r"project\(orlop VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text()).group(1)
    assert wheel.name.startswith(f"orlop-{version}-cp")
    sources = [
        path.relative_to(root / "python")
        for path in (root / "python/orlop").rglob("*")
        if path.suffix in (".py", ".pyi") or path.name == "py.typed"
    ]
    headers = [pathlib.Path("orlop") / path.relative_to(root) for path in (root / "include").rglob("*.hpp")]
    expected = {str(path) for path in sources + headers}
    expected |= {
        f"orlop/{name}"
        for name in (
            "include/orlop/orlop.hpp",
            "lib/cmake/orlop/orlopConfig.cmake",
            "lib/cmake/orlop/orlopConfigVersion.cmake",
            "lib/cmake/orlop/orlopTargets-release.cmake",
            "lib/cmake/orlop/orlopTargets.cmake",
            "liborlop.so.0",
            "libscipy_openblas.so",
            "licenses/OpenBLAS.txt",
            "licenses/Orlop.txt",
            "licenses/nanobind.txt",
        )
    }
    if "orlop/libtbb.so.12" in names:  # otherwise the machine's own oneTBB is linked
        expected |= {
            f"orlop/{name}"
            for name in ("libtbb.so.12", "licenses/oneTBB.txt", "licenses/oneTBB-third-party.txt")
        }
    rest = {name for name in names - expected if ".dist-info/" not in name}
    assert expected <= names
    assert [re.sub(r"\.cpython-\w+-[\w-]+\.so$", "", name) for name in rest] == ["orlop/_core"]


def test_wheel_imports_without_any_other_package(installed, tmp_path):
    output = run(
        installed,
        "-I",
        "-c",
        "import orlop, sys; print(orlop.__file__, 'numpy' in sys.modules)",
        cwd=tmp_path,
    )
    path, numpy_loaded = output.split()
    assert pathlib.Path(path).is_relative_to(installed.parent.parent)
    assert numpy_loaded == "False"


def test_extension_of_the_wheel_finds_its_libraries_beside_it(installed, tmp_path):
    folder = pathlib.Path(
        run(installed, "-I", "-c", "import orlop; print(orlop.__path__[0])", cwd=tmp_path).strip()
    )
    mapped = run(
        installed, "-I", "-c", "import orlop._core; print(open('/proc/self/maps').read())", cwd=tmp_path
    )
    assert set(re.findall(r"\S+/liborlop\S*", mapped)) == {str(folder / "liborlop.so.0")}


def test_cpp_program_builds_against_the_installed_wheel(installed, tmp_path):
    prefix = run(
        installed, "-I", "-c", "import orlop, os; print(os.path.dirname(orlop.__file__))", cwd=tmp_path
    ).strip()
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER)
    (tmp_path / "main.cpp").write_text(CONSUMER_MAIN)
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-Dorlop_ROOT={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert "size must be positive: -1" in run(tmp_path / "build/consumer")


def test_cpp_programs_of_the_documents_build_without_cmake(root, installed, tmp_path):
    """By the two lines of docs/cpp.md; they print what it shows, and what their comments promise."""
    page = (root / "docs/cpp.md").read_text()
    [lines] = re.findall(r"```sh\n(P=.*?)```", page, re.DOTALL)
    [program], [printed] = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("cpp", "text"))
    [shortest] = re.findall(r"```cpp\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    facts = "shape=(2, 2), strides=(1, 2), dtype=Float32, carrier=CPU, residency=resident, version=0"
    product = f"Tensor(6.0, 12.0, 12.0, 26.0, {facts})\n"
    for text, output in ((program, printed), (shortest, product)):
        (tmp_path / "main.cpp").write_text(text)
        run("sh", "-ec", lines.replace("$(python ", f"$({installed} -I "), cwd=tmp_path)
        assert run(tmp_path / "mine", cwd=tmp_path) == output


def test_carrier_extension_builds_against_the_installed_wheel(root, installed, tmp_path):
    """The example of a carrier in C++, as its author builds it."""
    prefix = run(installed, "-I", "-c", "import orlop; print(orlop.__path__[0])", cwd=tmp_path).strip()
    source = root / "examples/carrier_extension"
    found = (f"-DCMAKE_PREFIX_PATH={prefix}", f"-DPython_EXECUTABLE={sys.executable}")
    run("cmake", "-G", "Ninja", "-S", source, "-B", tmp_path / "build", *found)
    run("cmake", "--build", tmp_path / "build")
    program = "from run_length import RunLength; carrier = RunLength(9); carrier[4] = 2; print(carrier.runs())"
    [module] = (tmp_path / "build").glob("run_length*.so")
    module.rename(tmp_path / module.name)
    assert run(installed, "-c", program, cwd=tmp_path) == "3\n"


def test_editable_install_follows_the_source_tree(root, tmp_path):
    hook = f"from scikit_build_core.build import build_editable; print(build_editable({str(tmp_path)!r}))"
    name = run(sys.executable, "-c", hook, cwd=root).splitlines()[-1]
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "environment")
    python = tmp_path / "environment/bin/python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", tmp_path / name
    )
    output = run(python, "-I", "-c", "import orlop, orlop._core; print(orlop.__file__)", cwd=tmp_path)
    assert pathlib.Path(output.strip()) == root / "python/orlop/__init__.py"
