// The Python face of BlockDevice and BlockDeviceCarrier.
#include "orlop/carriers/block_device/block_device.hpp"

#include "block_device.hpp"
#include "call_arguments.hpp"
#include "carrier.hpp"
#include "carrier_class.hpp"

namespace orlop::bindings {

namespace {

constexpr std::string_view kWhat = "BlockDevice";

Ref<BlockDevice> open_device(nb::handle path) { return BlockDevice::open(to_device_path(path)); }

nb::object path_of(const BlockDevice& device) {
  const std::string& path = device.path();
  const nb::object decoded =
      nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
  if (!decoded.is_valid()) throw_python_error();
  return decoded;
}

Ref<BlockDeviceCarrier> allocate(BlockDevice& device, const nb::args& args, const nb::kwargs& kwargs) {
  const CallArguments call("BlockDevice.allocate", args, kwargs, {"size"}, 1, {"mutable", "dtype", "empty"});
  const Index size = to_size(call.get("size"), kWhat, true);
  BlockDevice::check_size(size);
  BlockDeviceOptions options{.is_mutable = call.flag("mutable", true)};
  if (const nb::object dtype = call.get("dtype"); dtype.is_valid()) {
    options.dtype = to_dtype(dtype, kWhat);
    BlockDevice::check_dtype(*options.dtype);
  }
  options.empty = call.flag("empty", false);
  return device.allocate(size, options);
}

bool exit_device(BlockDevice& device, const nb::args&) {
  device.close();
  return false;
}

}  // namespace

std::string to_device_path(nb::handle value) {
  const nb::object path = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.is_valid()) throw_python_error();
  if (!PyUnicode_Check(path.ptr()))
    raise<TypeError>(kWhat, "path must be a str or an os.PathLike of one: got ", python_type_name(path));
  return to_file_name(path);
}

void bind_block_device(nb::module_& module) {
  nb::class_<BlockDevice>(module, "BlockDevice", counted<BlockDevice>(), nb::type_slots(collector_slots),
                          nb::is_final(), nb::is_weak_referenceable(),
                          R"(BlockDevice(path)

An open block device, from which carriers are allocated; whatever it held is overwritten. ValueError
‹block device› for any other node, OSError where it cannot be opened. A context manager: leaving it
closes the device. A transfer that fails faults it for good (S501-S511).

>>> import pathlib, tempfile
>>> from orlop import friendly
>>> from orlop._testing import open_block_device
>>> folder = tempfile.TemporaryDirectory()
>>> node = pathlib.Path(folder.name, "node")
>>> _ = node.write_bytes(bytes(1 << 16))
>>> device = open_block_device(node, capacity=1 << 16)  # a file in place of BlockDevice("/dev/...")
>>> moved = orlop.move(friendly.arange(3), device.allocate(3))
>>> moved[2], device.is_faulted()
(2.0, False)
>>> del moved
>>> device.close()
>>> device.is_closed()
True
>>> folder.cleanup()
>>> orlop.BlockDevice("/dev/null")
Traceback (most recent call last):
    ...
ValueError: [BlockDevice] the path must be a block device: '/dev/null' is none; use the node of one)")
      .def(nb::new_(&open_device), "path"_a.none())
      .def_prop_ro("path", &path_of, "The path as it was given.")
      .def_prop_ro("capacity_bytes", &BlockDevice::capacity_bytes)
      .def_prop_ro("logical_block_size", &BlockDevice::logical_block_size)
      .def_prop_ro("physical_block_size", &BlockDevice::physical_block_size)
      .def_prop_ro("allocation_alignment", &BlockDevice::allocation_alignment,
                   "What every extent starts and ends at a multiple of.")
      .def("is_closed", &BlockDevice::is_closed)
      .def("is_faulted", &BlockDevice::is_faulted,
           "Whether a transfer has failed: then no slot can be reached.")
      .def(
          "allocate", &allocate,
          nb::sig("def allocate(self, size: int, *, mutable: bool = True, dtype: object = ..., empty: bool = "
                  "False) -> BlockDeviceCarrier"),
          "`size` Float32 slots in the lowest free extent that is large enough; zero unless `empty`. "
          "MemoryError\n"
          "where there is no room, ValueError for another dtype, RuntimeError once closed or faulted.")
      .def("close", &BlockDevice::close,
           "Closes the device, once. RuntimeError while a carrier of it exists, even a released one.")
      .def("__enter__", [](BlockDevice& device) { return Ref<BlockDevice>(&device); })
      .def("__exit__", &exit_device);

  nb::class_<BlockDeviceCarrier, Carrier> carrier(
      module, "BlockDeviceCarrier", counted<BlockDeviceCarrier>(), nb::type_slots(collector_slots),
      nb::is_final(),
      R"(Float32 slots in one extent of a BlockDevice, of fixed size; made by BlockDevice.allocate and by the
factories of another one. Moves to and from CPU only, computes nothing.

>>> orlop.BlockDeviceCarrier()
Traceback (most recent call last):
    ...
TypeError: [BlockDeviceCarrier] the class cannot be called; use BlockDevice.allocate to make one)");
  carrier
      .def("__init__",
           [](nb::pointer_and_handle<BlockDeviceCarrier>, const nb::args&, const nb::kwargs&) {
             raise<TypeError>("BlockDeviceCarrier",
                              "the class cannot be called; use BlockDevice.allocate to make one");
           })
      .def_prop_ro("device", [](BlockDeviceCarrier& self) { return self.device(); })
      .def_prop_ro("device_offset_bytes", &BlockDeviceCarrier::device_offset_bytes,
                   "Where slot 0 lies on the device; 0 once released or without slots.")
      .def_prop_ro("extent_bytes", &BlockDeviceCarrier::extent_bytes, "The bytes reserved for the slots.");
  reject_subclasses(carrier, "BlockDeviceCarrier");
  name_carrier_class<BlockDeviceCarrier>(carrier);
}

}  // namespace orlop::bindings
