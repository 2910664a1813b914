"""orlop.io: .npy and safetensors between files and any carrier, hostile headers, atomic saves, faults."""

import itertools
import json
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest
from arrays import compound
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from list_carrier import ListCarrier

import orlop
from orlop import CPU, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride, Tensor, friendly, io
from orlop._testing import IoScript, file_backed_io

FLOAT, INT, BOOL = DType.Float32, DType.Int32, DType.Bool
TYPES = [np.float32, np.int32, np.bool_]
NAMES = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32", np.dtype(np.bool_): "BOOL"}


def sample(shape, kind=np.float32):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return (values % 3 == 1) if kind is np.bool_ else values.astype(kind)


def tensor_of(array):
    return orlop.from_dlpack(np.ascontiguousarray(array), copy=True)


def safetensors_bytes(header, data=b""):
    words = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(words)) + words + data


def entry(array, begin=0):
    return {
        "dtype": NAMES[array.dtype],
        "shape": list(array.shape),
        "data_offsets": [begin, begin + array.nbytes],
    }


def read_safetensors(path):
    """An independent reader of what a save wrote: arrays, metadata."""
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    assert length % 8 == 0
    header = json.loads(raw[8 : 8 + length])
    metadata, data = header.pop("__metadata__", None), raw[8 + length :]
    kinds = {name: kind for kind, name in NAMES.items()}
    arrays = {}
    for name, described in header.items():
        begin, end = described["data_offsets"]
        assert begin % kinds[described["dtype"]].itemsize == 0
        arrays[name] = np.frombuffer(data[begin:end], kinds[described["dtype"]]).reshape(described["shape"])
    assert sum(array.nbytes for array in arrays.values()) == len(data)
    return arrays, metadata


def npy_bytes(header, data=b"", version=(1, 0)):
    length = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + length + header + data


PROTOTYPES = {
    "CPU": lambda: CPU(0),
    "FileBacked": lambda: FileBacked(dtype=FLOAT),
    "Generic": lambda: Generic([], dtype=FLOAT),
    "Evictable": lambda: Evictable(CPU(1), CPU(0)),
    "Python": lambda: ListCarrier(),
}


# --- .npy


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 4), (2, 3, 4), (1, 5, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_of_numpy_load(tmp_path, kind, shape, order):
    array = np.asarray(sample(shape, kind), order=order)
    np.save(tmp_path / "a.npy", array)
    tensor = io.load_npy(tmp_path / "a.npy")
    assert type(tensor.carrier) is CPU and tensor.is_mutable() and tensor.offset == 0
    assert tensor.shape == (shape or (1,)) and tensor.carrier.size() == array.size
    assert np.array_equal(np.asarray(tensor).reshape(shape), array)
    assert np.asarray(tensor).tobytes("A") == array.tobytes("A")  # the slots lie as in the file


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "layout",
    [
        Layout(Shape(5), Stride(1)),
        Layout(Shape(3, 4), Stride(4, 1)),
        Layout(Shape(3, 4), Stride(1, 3)),
        Layout(Shape(3, 4), Stride(8, 2)),
        Layout(Shape(3, (2, 2)), Stride(2, (1, 6))),
        Layout(Shape(3, 4), Stride(0, 1)),
        Layout(Shape(2, 3, 4), Stride(4, 8, 1)),
        Layout.empty(),
    ],
)
def test_numpy_reads_what_save_npy_writes(tmp_path, kind, layout):
    tensor = Tensor(tensor_of(sample((40,), kind)).carrier, 3, layout)
    io.save_npy(tmp_path / "a.npy", tensor)
    loaded = np.load(tmp_path / "a.npy")
    assert loaded.dtype == kind and np.array_equal(loaded, np.asarray(tensor))
    assert (tmp_path / "a.npy").read_bytes().index(b"\n") % 64 == 63
    again = io.load_npy(tmp_path / "a.npy")
    assert np.array_equal(np.asarray(again).reshape(loaded.shape), loaded)


def test_compact_orders_keep_their_layout(tmp_path):
    for strides in (Stride(4, 1), Stride(1, 3)):
        tensor = Tensor(tensor_of(sample((12,))).carrier, 0, Layout(Shape(3, 4), strides))
        io.save_npy(tmp_path / "a.npy", tensor)
        assert io.load_npy(tmp_path / "a.npy").layout == tensor.layout


@pytest.mark.parametrize("name", PROTOTYPES)
def test_every_carrier_loads_and_saves_npy(tmp_path, name):
    array = sample((30, 50))
    np.save(tmp_path / "a.npy", array)
    prototype = PROTOTYPES[name]()
    tensor = io.load_npy(tmp_path / "a.npy", carrier=prototype)
    assert type(tensor.carrier) is type(prototype) and tensor.carrier is not prototype
    assert np.array_equal(tensor.__array__(), array)
    for layout in (tensor.layout, Layout(Shape(10, 30), Stride(45, 1)), Layout(Shape(20, 7), Stride(3, 200))):
        view = Tensor(tensor.carrier, 0, layout)
        io.save_npy(tmp_path / "b.npy", view)
        assert np.array_equal(np.load(tmp_path / "b.npy"), view.__array__())


def test_carriers_are_chosen_by_class_or_prototype(tmp_path):
    np.save(tmp_path / "a.npy", sample((3,), np.int32))
    for kind in (CPU, FileBacked, Generic):
        tensor = io.load_npy(tmp_path / "a.npy", carrier=kind)
        assert type(tensor.carrier) is kind and tensor.dtype() is INT
    for wrong in (3, "CPU", int, ListCarrier, orlop.Carrier):
        with pytest.raises(TypeError, match="carrier"):
            io.load_npy(tmp_path / "a.npy", carrier=wrong)
    np.save(tmp_path / "b.npy", sample((3,), np.bool_))
    with pytest.raises(ValueError, match="FileBacked"):
        io.load_npy(tmp_path / "b.npy", carrier=FileBacked)


@pytest.mark.parametrize("order", "<>")
def test_either_byte_order_loads(tmp_path, order):
    for kind in ("f4", "i4"):
        array = np.array([1, -2, 70000], order + kind)
        np.save(tmp_path / "a.npy", array)
        for carrier in (CPU, FileBacked):
            assert io.load_npy(tmp_path / "a.npy", carrier=carrier).__array__().tolist() == array.tolist()


def test_npy_versions_and_trailing_bytes(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
    data = np.array([1.5, 2.5], "<f4").tobytes()
    for version in ((1, 0), (2, 0), (3, 0)):
        (tmp_path / "a.npy").write_bytes(npy_bytes(header, data + b"more", version))
        assert friendly.to_list(io.load_npy(tmp_path / "a.npy")) == [1.5, 2.5]
    for words in (
        b'{"shape":(2),"fortran_order":False,"descr":"f4"}',
        b"{'descr':'<f4','fortran_order':False,'shape':(1, 2 ,)}",
    ):
        (tmp_path / "a.npy").write_bytes(npy_bytes(words.replace(b"(2)", b"(2,)"), data))
        assert friendly.to_list(io.load_npy(tmp_path / "a.npy")) == [1.5, 2.5]


@pytest.mark.parametrize(
    "array", [np.zeros(2), np.zeros(2, "f2"), np.zeros(2, "i8"), np.zeros(2, "u4"), np.zeros(2, [("a", "f4")])]
)
def test_other_element_types_are_type_errors(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(TypeError, match="float32, int32 and bool"):
        io.load_npy(tmp_path / "a.npy")


GOOD = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x93NUMP",
        b"NUMPY" + bytes(100),
        npy_bytes(GOOD, b"1234567"),  # one byte short
        npy_bytes(GOOD)[:30],
        npy_bytes(GOOD, bytes(8), (4, 0)),
        npy_bytes(GOOD, bytes(8), (1, 1)),
        npy_bytes(b"", bytes(8)),
        npy_bytes(GOOD + b" x", bytes(8)),
        npy_bytes(GOOD.replace(b"}", b""), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(2)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"2"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(-2,)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(+2,)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(02,)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(2.0,)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(2L,)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(True,)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(0,)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(,)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(2,,)"), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(%d,)" % 2**63), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(%d,)" % 2**61), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(%d, %d)" % (2**40, 2**40)), bytes(8)),
        npy_bytes(GOOD.replace(b"(2,)", b"(%s)" % (b"1," * 65)), bytes(8)),
        npy_bytes(GOOD.replace(b"False", b"0"), bytes(8)),
        npy_bytes(GOOD.replace(b"False", b"None"), bytes(8)),
        npy_bytes(GOOD.replace(b"'shape'", b"'descr'"), bytes(8)),
        npy_bytes(GOOD.replace(b"'shape'", b"'other'"), bytes(8)),
        npy_bytes(GOOD.replace(b"}", b"'shape': (1,)}"), bytes(8)),
        npy_bytes(GOOD.replace(b"}", b"'more': (1,)}"), bytes(8)),
        npy_bytes(GOOD.replace(b"'<f4'", b"__import__('os')"), bytes(8)),
        npy_bytes(GOOD.replace(b"'<f4'", b"'\\x3cf4'"), bytes(8)),
        npy_bytes(b"{'descr': '<f4", bytes(8)),
        npy_bytes(b"{" * 60000, bytes(8)),
        npy_bytes(b"{'shape': " + b"(" * 60000, bytes(8)),
        npy_bytes(b"{}", bytes(8)),
        npy_bytes(b"[]", bytes(8)),
        b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + GOOD,
    ],
)
def test_a_malformed_npy_is_a_value_error(tmp_path, raw):
    (tmp_path / "a.npy").write_bytes(raw)
    with pytest.raises(ValueError, match="a.npy|array"):
        io.load_npy(tmp_path / "a.npy")


# --- safetensors


def test_safetensors_round_trip(tmp_path):
    arrays = {
        "flags": sample((5,), np.bool_),
        "w": sample((3, 4)),
        "ids": sample((2, 2, 2), np.int32),
        'odd "name" \\ \n ü 😀 \0': sample((1,)),
        "": sample((2,)),
    }
    path = tmp_path / "a.safetensors"
    io.save_safetensors(path, {name: tensor_of(array) for name, array in arrays.items()}, metadata={"k": 'v"\t'})
    written, metadata = read_safetensors(path)
    assert metadata == {"k": 'v"\t'} == io.safetensors_metadata(path)
    for found in (written, io.load_safetensors(path)):
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert np.array_equal(np.asarray(found[name]), array) and np.asarray(found[name]).dtype == array.dtype
    assert io.load_safetensors(path)["w"].layout == Layout(Shape(3, 4), Stride(4, 1))
    assert list(io.load_safetensors(path, ["w", "flags"])) == ["w", "flags"]
    assert io.load_safetensors(path, ()) == {}
    io.save_safetensors(path, {})
    assert io.load_safetensors(path) == io.safetensors_metadata(path) == {}


@pytest.mark.parametrize("name", PROTOTYPES)
def test_every_carrier_loads_and_saves_safetensors(tmp_path, name):
    array = sample((20, 30))
    path = tmp_path / "a.safetensors"
    tensor = Tensor(tensor_of(array.T).carrier, 0, Layout(Shape(20, 30), Stride(20, 1)))
    array = tensor.__array__().copy()
    io.save_safetensors(path, {"a": tensor})
    prototype = PROTOTYPES[name]()
    loaded = io.load_safetensors(path, carrier=prototype)["a"]
    assert type(loaded.carrier) is type(prototype) and np.array_equal(loaded.__array__(), array)
    columns = Tensor(loaded.carrier, 0, Layout(Shape(30, 20), Stride(1, 30)))
    io.save_safetensors(path, {"columns": columns, "again": loaded})
    arrays, _ = read_safetensors(path)
    assert np.array_equal(arrays["columns"], columns.__array__()) and np.array_equal(arrays["again"], array)


def test_names_and_tensors_are_checked(tmp_path):
    path = tmp_path / "a.safetensors"
    one = tensor_of(sample((1,)))
    for wrong, error in (
        ({"__metadata__": one}, ValueError),
        ({3: one}, TypeError),
        ({"a": 3}, TypeError),
        ({"a": None}, TypeError),
        ({"\ud800": one}, ValueError),
        ({"a": compound()}, NotImplementedError),
        ({"a": Tensor(ListCarrier([1], dtype=DType.Any), 0, Layout(Shape(1), Stride(1)))}, TypeError),
        (3, TypeError),
    ):
        with pytest.raises(error):
            io.save_safetensors(path, wrong)
    for metadata in ({"k": 3}, {3: "v"}, 3):
        with pytest.raises(TypeError):
            io.save_safetensors(path, {"a": one}, metadata=metadata)
    assert os.listdir(tmp_path) == []
    io.save_safetensors(path, {"a": one})
    with pytest.raises(KeyError, match="other"):
        io.load_safetensors(path, ["a", "other"])
    for names in ("a", [3], 3):
        with pytest.raises(TypeError):
            io.load_safetensors(path, names)


def test_other_arrays_may_be_left_out(tmp_path):
    a = sample((2,))
    header = {"h": {"dtype": "F16", "shape": [3], "data_offsets": [8, 14]}, "a": entry(a)}
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors_bytes(header, a.tobytes() + bytes(6)))
    with pytest.raises(TypeError, match="F16.*F32"):
        io.load_safetensors(path)
    assert np.array_equal(np.asarray(io.load_safetensors(path, ["a"])["a"]), a)


A = sample((2,))
ONE = {"a": entry(A)}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        bytes(7),
        struct.pack("<Q", 2**64 - 1) + b"{}",
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 3) + b"{}",
        struct.pack("<Q", 0),
        safetensors_bytes(b"[]"),
        safetensors_bytes(b"{"),
        safetensors_bytes(b"{}}"),
        safetensors_bytes(b'{"a":1}'),
        safetensors_bytes(b"{'a':{}}"),
        safetensors_bytes(b'{"a":{}}'),
        safetensors_bytes(b'{"a":' * 100000),
        safetensors_bytes(b'{"a":{"shape":[[[[]]]]}}'),
        safetensors_bytes(ONE),  # no data
        safetensors_bytes(ONE, bytes(7)),
        safetensors_bytes(ONE, bytes(9)),
        safetensors_bytes({"a": entry(A, 4)}, bytes(12)),  # a hole
        safetensors_bytes({"a": entry(A), "b": entry(A, 4)}, bytes(12)),  # an overlap
        safetensors_bytes({"a": entry(A), "b": entry(A)}, bytes(8)),
        safetensors_bytes({"a": entry(A), "b": entry(A, 12)}, bytes(20)),
        safetensors_bytes({"a": {**entry(A), "data_offsets": [8, 0]}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "data_offsets": [0]}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "data_offsets": [0, 8, 8]}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "data_offsets": [0, 2**63]}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "shape": [3]}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "shape": [-2]}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "shape": [2.0]}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "shape": 2}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "shape": [2**40, 2**40]}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "shape": [2**62, 1]}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "shape": [1] * 65}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "shape": [0], "data_offsets": [0, 0]}}),
        safetensors_bytes({"a": {**entry(A), "more": 1}}, bytes(8)),
        safetensors_bytes({"a": {**entry(A), "dtype": 32}}, bytes(8)),
        safetensors_bytes(b'{"a":%s,"a":%s}' % ((json.dumps(ONE["a"]).encode(),) * 2), bytes(8)),
        safetensors_bytes(b'{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', bytes(8)),
        safetensors_bytes(b'{"__metadata__":{"k":1}}'),
        safetensors_bytes(b'{"__metadata__":{"k":"v","k":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{},"__metadata__":{}}'),
        safetensors_bytes(b'{"__metadata__":{"\\ud800":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\\udc00":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\\ud800\\u0041":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\\u12g4":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\\x":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\x01":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\xff":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\xc0\x80":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\xed\xa0\x80":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\xf4\x90\x80\x80":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"\xe2\x82":"v"}}'),
        safetensors_bytes(b'{"__metadata__":{"k":"v'),
        safetensors_bytes(b'{"__metadata__":{"k":"v\\'),
    ],
)
def test_a_malformed_safetensors_file_is_a_value_error(tmp_path, raw):
    path = tmp_path / "a.safetensors"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="a.safetensors"):
        io.load_safetensors(path)


def test_json_escapes_and_spaces(tmp_path):
    words = rb' { "__metadata__" : { "\u00e9\ud83d\ude00\/\b\f\n\r\t\"\\" : "" } } '
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors_bytes(words.strip() + b"  "))
    assert io.safetensors_metadata(path) == {'é😀/\b\f\n\r\t"\\': ""}


def check_loaded_or_refused(folder, raw):
    path = folder / "a"
    path.write_bytes(raw)
    for load in (io.load_npy, io.load_safetensors):
        try:
            loaded = load(path)
        except (ValueError, TypeError):
            continue
        for tensor in loaded.values() if isinstance(loaded, dict) else [loaded]:
            assert tensor.carrier.size() * tensor.carrier.dtype().bits // 8 <= len(raw)


CORPUS = [
    npy_bytes(GOOD, bytes(8)),
    npy_bytes(GOOD.replace(b"(2,)", b"(1, 2)").replace(b"False", b"True"), bytes(8), (2, 0)),
    safetensors_bytes({"__metadata__": {"k": "v"}, "a": entry(A), "b": entry(sample((3,), np.bool_), 8)}, bytes(11)),
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(CORPUS), st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=4)), max_size=4))
def test_a_damaged_file_loads_or_is_refused(tmp_path, raw, damages):
    damaged = bytearray(raw)
    for place, words in damages:
        place %= len(damaged) + 1
        damaged[place : place + max(len(words), 1)] = words
    check_loaded_or_refused(tmp_path, damaged)


WHOLE = st.sampled_from([0, 1, 2, 3, 8, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, -1])
WORDS = st.sampled_from(["dtype", "shape", "data_offsets", "__metadata__", "a", "F32", "I32", "BOOL", "F16", "\ud83d", "é"])
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(0, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "I32", "BOOL", "F64"]),
        "shape": st.lists(WHOLE, max_size=3),
        "data_offsets": st.lists(WHOLE, min_size=2, max_size=2),
    }
)
DICTS = st.builds(
    "{{'descr': {}, 'fortran_order': {}, 'shape': {}{}".format,
    st.sampled_from(["'<f4'", "'>i4'", '"|b1"', "'f8'", "[('a', '<f4')]", "4", "''"]),
    st.sampled_from(["False", "True", "0", "None"]),
    st.lists(WHOLE, max_size=4).map(lambda extents: str(tuple(extents))) | st.sampled_from(["2", "(2", "[2]", "(2,,)"]),
    st.sampled_from([", }", "}", "}}", "", ", 'a': 1}"]),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.builds(safetensors_bytes, st.dictionaries(WORDS, ENTRIES | JSON, max_size=3), st.binary(max_size=16))
    | st.builds(lambda words, data: npy_bytes(words.encode(), data), DICTS, st.binary(max_size=16))
)
def test_an_invented_file_loads_or_is_refused(tmp_path, raw):
    check_loaded_or_refused(tmp_path, raw)


# --- Large arrays, memory, speed of strange layouts


@pytest.mark.parametrize("carrier", [CPU, FileBacked])
def test_arrays_of_several_blocks(tmp_path, carrier):
    array = sample((3000, 1001))  # 12 MB, three blocks
    np.save(tmp_path / "a.npy", array)
    tensor = io.load_npy(tmp_path / "a.npy", carrier=carrier)
    assert np.array_equal(tensor.__array__(), array)
    for layout in (Layout(Shape(1001, 3000), Stride(1, 1001)), Layout(Shape(1500, 1001), Stride(2002, 1))):
        view = Tensor(tensor.carrier, 0, layout)
        io.save_safetensors(tmp_path / "b", {"a": view})
        assert np.array_equal(read_safetensors(tmp_path / "b")[0]["a"], view.__array__())
    scattered = Tensor(tensor.carrier, 1, Layout(Shape(900, 700), Stride(1001, 3000)))
    io.save_npy(tmp_path / "c.npy", scattered)
    assert np.array_equal(np.load(tmp_path / "c.npy"), scattered.__array__())


def test_a_file_goes_to_a_file_in_bounded_memory(tmp_path):
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            """if True:
            import resource, sys
            from orlop import FileBacked, Layout, Shape, Stride, Tensor, io
            path = sys.argv[1]
            count = 16 << 20
            tensor = Tensor(FileBacked(dtype=__import__("orlop").DType.Float32).allocate_like(count), 0,
                            Layout(Shape(4096, 4096), Stride(1, 4096)))
            tensor[4095, 1] = 7.0
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            io.save_npy(path + "/a.npy", tensor)
            loaded = io.load_npy(path + "/a.npy", carrier=FileBacked)
            assert loaded.layout == tensor.layout and loaded[4095, 1] == 7.0
            io.save_safetensors(path + "/b", {"a": loaded})  # another order than the file's
            assert io.load_safetensors(path + "/b", carrier=FileBacked)["a"][4095, 1] == 7.0
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < 40 << 10, grown
            """,
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


# --- Progress


def test_progress_counts_bytes(tmp_path):
    tensor = friendly.zeros(3_000_000)
    for save, load in (
        (lambda path, **options: io.save_npy(path, tensor, **options), io.load_npy),
        (lambda path, **options: io.save_safetensors(path, {"a": tensor}, **options), io.load_safetensors),
    ):
        for transfer in (save, load):
            calls = []
            transfer(tmp_path / "a", progress=lambda done, total: calls.append((done, total)))
            assert len(calls) > 1 and calls[-1] == (12_000_000, 12_000_000)
            assert calls == sorted(calls) and {total for _, total in calls} == {12_000_000}
            transfer(tmp_path / "a", progress=True)  # no terminal: silent
            transfer(tmp_path / "a", progress=False)
            with pytest.raises(TypeError, match="progress"):
                transfer(tmp_path / "a", progress=3)


def test_the_bar_is_drawn_on_a_terminal_only(tmp_path, monkeypatch, capsys):
    io.save_npy(tmp_path / "a.npy", friendly.zeros(3), progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    io.save_npy(tmp_path / "a.npy", friendly.zeros(3), progress=True)
    shown = capsys.readouterr().err
    assert shown == "\ra.npy [" + "#" * 30 + "] 100 %\n"


def test_a_failing_progress_ends_the_transfer_cleanly(tmp_path):
    old = sample((2,))
    np.save(tmp_path / "a.npy", old)

    def stop(done, total):
        raise KeyboardInterrupt

    for carrier in (CPU(1000), FileBacked(dtype=FLOAT).allocate_like(1000)):
        tensor = Tensor(carrier, 0, Layout(Shape(1000), Stride(1)))
        with pytest.raises(KeyboardInterrupt):
            io.save_npy(tmp_path / "a.npy", tensor, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        io.load_npy(tmp_path / "a.npy", progress=stop)
    assert os.listdir(tmp_path) == ["a.npy"] and np.array_equal(np.load(tmp_path / "a.npy"), old)


# --- Paths and failures


def test_paths_may_be_str_bytes_or_path_like(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tensor = friendly.arange(3)
    for path in ("a.npy", b"b.npy", pathlib.Path("c.npy"), tmp_path / "d \udcff"):
        io.save_npy(path, tensor)
        assert friendly.to_list(io.load_npy(path)) == [0.0, 1.0, 2.0]
    for path in (3, None, 1.5):
        for call in (lambda: io.save_npy(path, tensor), lambda: io.load_npy(path), lambda: io.load_safetensors(path)):
            with pytest.raises(TypeError):
                call()
    for call in (lambda: io.save_npy("a\0b", tensor), lambda: io.load_npy("a\0b")):
        with pytest.raises(ValueError, match="NUL"):
            call()


def test_what_is_no_file_is_refused(tmp_path):
    tensor = friendly.arange(3)
    with pytest.raises(FileNotFoundError) as caught:
        io.load_npy(tmp_path / "none")
    assert caught.value.filename == str(tmp_path / "none")
    for call in (lambda: io.load_npy(tmp_path), lambda: io.load_safetensors(tmp_path)):
        with pytest.raises(IsADirectoryError):
            call()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="regular"):
        io.load_npy(tmp_path / "pipe")
    with pytest.raises(ValueError, match="regular"):
        io.save_npy(tmp_path / "pipe", tensor)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "none" / "a.npy", tmp_path / "pipe" / "a.npy"):
        with pytest.raises(OSError):
            io.save_npy(path, tensor)
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


def test_released_and_evicted_tensors_are_not_saved(tmp_path):
    released = friendly.arange(3)
    released.carrier.release()
    evicted = Tensor(Evictable(CPU(1), FileBacked(dtype=FLOAT)), 0, Layout(Shape(1), Stride(1)))
    evicted.carrier.evict()
    for tensor, word in ((released, "released"), (evicted, "evicted")):
        for save in (lambda path, t: io.save_npy(path, t), lambda path, t: io.save_safetensors(path, {"a": t})):
            with pytest.raises(RuntimeError, match=word):
                save(tmp_path / "a", tensor)
    for wrong in (3, None, np.zeros(3, np.float32)):
        with pytest.raises(TypeError, match="Tensor"):
            io.save_npy(tmp_path / "a", wrong)
    with pytest.raises(NotImplementedError):
        io.save_npy(tmp_path / "a", compound())
    with pytest.raises((OverflowError, OSError)):
        io.save_npy(tmp_path / "a", Tensor(CPU(1), 0, Layout(Shape(2**62), Stride(0))))
    assert os.listdir(tmp_path) == []


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kind", [CPU, FileBacked])
def test_any_failing_call_leaves_everything_as_it_was(tmp_path, kind):
    path, old = tmp_path / "a.npy", sample((2,))
    source = tmp_path / "source.npy"
    np.save(source, sample((40, 50)))
    tensor = io.load_npy(source, carrier=kind)
    columns = Tensor(tensor.carrier, 0, Layout(Shape(7, 30), Stride(50, 3)))
    jobs = {
        "save": lambda: io.save_npy(path, tensor),
        "save columns": lambda: io.save_npy(path, columns),
        "load": lambda: io.load_npy(source, carrier=kind),
    }
    for job in jobs.values():
        np.save(path, old)
        for at in itertools.count(1):
            before = open_descriptors()
            script = IoScript(fail_at=at, fail_errno=28)
            with file_backed_io(script):
                try:
                    job()
                except OSError as error:
                    assert error.errno == 28 and error.filename
                    assert np.array_equal(np.load(path), old)
            if script.calls < at:
                break
            np.save(path, old)  # a call that may fail, a copy inside the kernel or a close, stops nothing
            assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []
            assert open_descriptors() <= before + 2
        assert at > 4


def test_short_and_interrupted_transfers_go_on(tmp_path):
    array = sample((100,))
    np.save(tmp_path / "a.npy", array)
    with file_backed_io(IoScript(read=[("intr",), ("short", 3), ("pass",), ("intr",), ("short", 5)])):
        tensor = io.load_npy(tmp_path / "a.npy")
    assert np.array_equal(np.asarray(tensor), array)
    with file_backed_io(IoScript(write=[("intr",), ("short", 3), ("pass",), ("intr",), ("short", 5)])):
        io.save_npy(tmp_path / "b.npy", tensor)
    assert np.array_equal(np.load(tmp_path / "b.npy"), array)


def test_a_save_from_the_file_it_replaces(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, sample((5,)))
    tensor = io.load_npy(path, carrier=FileBacked)
    tensor[0] = 9.0
    io.save_npy(path, tensor)
    assert np.load(path)[0] == 9.0
    assert os.stat(path).st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask():
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_saves_and_loads_leak_nothing(tmp_path):
    path = tmp_path / "a"
    tensor, metadata = friendly.arange(3), {"k": "v"}
    references, before = sys.getrefcount(tensor), open_descriptors()

    def progress(done, total):
        pass

    callback = sys.getrefcount(progress)
    for _ in range(200):
        io.save_safetensors(path, {"a": tensor}, metadata=metadata, progress=progress)
        io.load_safetensors(path, progress=progress)
        io.save_npy(path, tensor)
        with pytest.raises(ValueError):
            io.load_safetensors(path)
    assert sys.getrefcount(tensor) == references and sys.getrefcount(progress) == callback
    assert open_descriptors() == before


@pytest.mark.parametrize("kind", [CPU, FileBacked])
def test_round_trips_with_the_safetensors_package(tmp_path, kind):
    package = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    arrays = {"w": sample((3, 4)), "ids": sample((2,), np.int32), "é \"": sample((2, 1, 3))}
    if kind is CPU:  # files hold no Bool
        arrays["flags"] = sample((5,), np.bool_)
    path = str(tmp_path / "a")
    package.save_file(arrays, path, metadata={"k": "v"})
    assert io.safetensors_metadata(path) == {"k": "v"}
    loaded = io.load_safetensors(path, carrier=kind)
    assert loaded.keys() == arrays.keys()
    io.save_safetensors(path, loaded, metadata={"é": "\n"})
    back = package.load_file(path)
    assert back.keys() == arrays.keys()
    for name, array in back.items():
        assert array.dtype == arrays[name].dtype and np.array_equal(array, arrays[name])
    from safetensors import safe_open

    with safe_open(path, "np") as opened:
        assert opened.metadata() == {"é": "\n"}


def test_numpy_is_not_needed(tmp_path):
    program = """if True:
        import sys, orlop
        assert "orlop.io" not in sys.modules
        orlop.io.save_npy(sys.argv[1], orlop.friendly.arange(3))
        orlop.io.load_npy(sys.argv[1])
        assert "numpy" not in sys.modules
    """
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.npy")], capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, ended.stderr) == (0, "")
