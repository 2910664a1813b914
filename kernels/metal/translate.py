"""Turns the generated MSL into C++: a manifest with the text, and the same kernels for the emulator.

    python kernels/metal/translate.py OUTPUT_DIRECTORY

The build runs this. `kernel_manifest.cpp` lists every kernel with its buffers and scalar arguments in their
order and holds the MSL that a real device compiles; `emulated_kernels.cpp` is that very text with pointers that
know their extent (src/carriers/metal/emulation.hpp).
"""

import pathlib
import re
import sys
from typing import NamedTuple

from sizes import SHORT_ROW, TILE

GENERATED = pathlib.Path(__file__).resolve().parent / "generated"

KERNEL = re.compile(
    r"\[\[kernel, max_total_threads_per_threadgroup\((?P<threads>\d+)\)\]\] void (?P<name>\w+)\((?P<parameters>.*?)\n\) \{"
    r"(?P<body>.*?)\n\}\n",
    re.DOTALL,
)
BUFFER = re.compile(r"(?P<const>const )?device (?P<type>\w+)\* __restrict (?P<name>\w+) \[\[ buffer\((?P<index>\d+)\) \]\]")
SHARED = re.compile(r"threadgroup (?P<type>\w+) (?P<name>\w+)\[(?P<count>\d+)\];")


class Kernel(NamedTuple):
    name: str
    family: str
    threads: int
    buffers: list  # (name, type, whether it is read only)
    constants: list  # names, in order
    structure: str
    body: str


def kernels_of(path):
    text = path.read_text()
    for match in KERNEL.finditer(text):
        name = match["name"]
        structure = re.search(rf"struct {name}_args_t \{{.*?\n\}};\n", text, re.DOTALL)
        constants = re.findall(r" (\w+)\[2\];", structure[0]) if structure else []
        buffers = [(b["name"], b["type"], b["const"] is not None) for b in BUFFER.finditer(match["parameters"])]
        yield Kernel(
            name, path.stem, int(match["threads"]), buffers, constants, structure[0] if structure else "", match["body"]
        )


def braces(names):
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


def manifest(paths, kernels):
    lines = [
        "// Made by kernels/metal/translate.py from kernels/metal/generated; do not edit.",
        '#include "carriers/metal/kernel_manifest.hpp"',
        "",
        "namespace orlop::inline v0 {",
        "",
        f"const Index metal_tile = {TILE};",
        f"const Index metal_short_row = {SHORT_ROW};",
        "",
        "std::span<const MetalKernel> metal_kernel_manifest() {",
        "  static const MetalKernel list[] = {",
    ]
    lines += [
        f'    {{"{k.name}", "{k.family}", {k.threads}, {braces(b[0] for b in k.buffers)}, {braces(k.constants)}}},'
        for k in kernels
    ]
    lines += ["  };", "  return list;", "}", "", "std::span<const MetalSource> metal_sources() {", "  static const MetalSource list[] = {"]
    for path in paths:
        lines.append(f'    {{"{path.stem}", R"MSL({path.read_text()})MSL"}},')
    lines += ["  };", "  return list;", "}", "", "}  // namespace orlop::inline v0", ""]
    return "\n".join(lines)


def emulated(kernel):
    body = kernel.body
    body = SHARED.sub(r'const Shared<\g<type>> \g<name> = launch.shared<\g<type>>("\g<name>", \g<count>);', body)
    body = re.sub(r"\bthread (\w+ \w+\[)", r"\1", body)
    body = body.replace("threadgroup_barrier(mem_flags::mem_threadgroup);", "launch.barrier();")
    body = re.sub(r"\n *#pragma[^\n]*", "", body)
    lines = [kernel.structure, f"void {kernel.name}(Launch& launch, uint3 blockIdx, uint3 threadIdx) {{"]
    for index, (name, element, is_const) in enumerate(kernel.buffers):
        element = f"const {element}" if is_const else element
        lines.append(f'  const Pointer<{element}> {name} = launch.buffer<{element}>("{name}", {index});')
    if kernel.structure:
        lines.append(f"  const {kernel.name}_args_t& arg = launch.arguments<{kernel.name}_args_t>();")
    return "\n".join(lines) + body + "\n}\n"


def emulation(paths, kernels):
    lines = [
        "// Made by kernels/metal/translate.py from kernels/metal/generated; do not edit.",
        '#include "carriers/metal/emulation.hpp"',
        "",
        "namespace orlop::inline v0::emulation {",
        "namespace {",
        "",
    ]
    functions = [m[0] for path in paths for m in re.finditer(r"static inline .*\n", path.read_text())]
    lines += dict.fromkeys(functions)  # each once
    lines += [emulated(kernel) for kernel in kernels]
    lines += ["}  // namespace", "", "std::span<const Entry> entries() {", "  static const Entry list[] = {"]
    lines += [f'    {{"{k.name}", {k.name}, {"true" if "threadgroup_barrier" in k.body else "false"}}},' for k in kernels]
    lines += ["  };", "  return list;", "}", "", "}  // namespace orlop::inline v0::emulation", ""]
    return "\n".join(lines)


def main(directory):
    paths = sorted(GENERATED.glob("*.metal"))
    kernels = [kernel for path in paths for kernel in kernels_of(path)]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kernel_manifest.cpp").write_text(manifest(paths, kernels))
    (directory / "emulated_kernels.cpp").write_text(emulation(paths, kernels))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
