// Tensors among Python's other arrays: DLPack both ways, the buffer protocol and __array__ (S701-S711).
#include <string>

#include "carrier.hpp"
#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/interop/dlpack.hpp"
#include "orlop/interop/foreign_array.hpp"
#include "orlop/interop/friendly.hpp"
#include "packing.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

bool is_truthy(nb::handle value) {
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw_python_error();
  return truth == 1;
}

// --- Capsules

/// How a capsule of one managed struct is named, before and after a consumer took it.
template <class Managed>
constexpr const char* fresh_name = "dltensor";
template <>
constexpr const char* fresh_name<DLManagedTensorVersioned> = "dltensor_versioned";
template <class Managed>
constexpr const char* used_name = "used_dltensor";
template <>
constexpr const char* used_name<DLManagedTensorVersioned> = "used_dltensor_versioned";

/// A capsule that nobody consumed ends its export; Python calls this with whatever error is on its way.
template <class Managed>
void end_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, fresh_name<Managed>) == 0) return;
  const nb::error_scope error;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, fresh_name<Managed>));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <class Managed>
nb::object capsule_of(Managed* managed) {
  PyObject* const capsule = PyCapsule_New(managed, fresh_name<Managed>, &end_capsule<Managed>);
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw_python_error();
  }
  return nb::steal(capsule);
}

/// Takes the struct over if the capsule is of its kind.
template <class Managed>
std::optional<Tensor> consume(nb::handle capsule, bool copy) {
  if (PyCapsule_IsValid(capsule.ptr(), fresh_name<Managed>) == 0) return std::nullopt;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), fresh_name<Managed>));
  // Marked first: with a copy the producer is let go, and may run its own code, before this returns.
  PyCapsule_SetName(capsule.ptr(), used_name<Managed>);
  try {
    return from_dlpack(managed, {.copy = copy});
  } catch (...) {
    PyCapsule_SetName(capsule.ptr(), fresh_name<Managed>);
    throw;
  }
}

// --- Export

/// An optional argument of two entries.
std::optional<nb::tuple> to_pair(nb::handle value, std::string_view name) {
  if (value.is_none()) return std::nullopt;
  if (PyTuple_Check(value.ptr()) == 0 && PyList_Check(value.ptr()) == 0)
    raise<TypeError>("__dlpack__", name, " must be a tuple or None: got ", python_type_name(value));
  nb::tuple entries(nb::borrow(value));
  if (entries.size() != 2)
    raise<ValueError>("__dlpack__", name, " must have two entries: got ", entries.size());
  return entries;
}

void check_device(nb::handle wanted, const DLPackInfo& memory) {
  const std::optional<nb::tuple> device = to_pair(wanted, "dl_device");
  if (!device) return;
  const nb::tuple own = nb::make_tuple(memory.device_type, memory.device_id);
  const int equal = PyObject_RichCompareBool(device->ptr(), own.ptr(), Py_EQ);
  if (equal < 0) throw_python_error();
  if (equal == 0)
    raise<BufferError>("__dlpack__", "cross-device export is not supported: the Tensor is on device (",
                       memory.device_type, ", ", memory.device_id, "), asked for ",
                       to_text(nb::repr(wanted)));
}

/// Whether the consumer understands the versioned struct.
bool wants_versioned(nb::handle max_version) {
  const std::optional<nb::tuple> version = to_pair(max_version, "max_version");
  if (!version) return false;
  const Index major = to_index<ValueError>((*version)[0], "__dlpack__", "the major version");
  const Index minor = to_index<ValueError>((*version)[1], "__dlpack__", "the minor version");
  if (major < 0 || minor < 0)
    raise<ValueError>("__dlpack__", "max_version must not be negative: got (", major, ", ", minor, ")");
  return major >= 1;
}

/// The order of the checks is S701's.
nb::object export_capsule(TensorObject& self, nb::handle, nb::handle max_version, nb::handle dl_device,
                          nb::handle copy) {
  const Tensor tensor = handle_of(self);
  tensor.require_single_subtensor("DLPack");
  if (is_truthy(copy))
    raise<BufferError>("__dlpack__", "copy exports are not supported; copy the array at its consumer");
  const DLPackInfo memory = orlop::detail::dlpack_memory(tensor);
  check_device(dl_device, memory);
  orlop::detail::check_dlpack_dtype(tensor);
  if (wants_versioned(max_version)) return capsule_of(orlop::detail::to_dlpack_versioned(tensor, memory));
  return capsule_of(orlop::detail::to_dlpack(tensor, memory));
}

nb::tuple export_device(TensorObject& self) {
  const DLPackInfo memory = orlop::detail::dlpack_memory(handle_of(self));
  return nb::make_tuple(memory.device_type, memory.device_id);
}

// --- Import

constexpr const char* importing = "from_dlpack";

/// None and False: no copy (S710).
bool to_copy(nb::handle copy, std::string_view what) {
  return !copy.is_none() && to_bool(copy, what, "copy, where it is not None,");
}

void check_wanted_device(nb::handle device) {
  if (device.is_none()) return;
  bool is_cpu = false;
  if (PyUnicode_Check(device.ptr())) {
    is_cpu = PyUnicode_CompareWithASCIIString(device.ptr(), "cpu") == 0;
  } else if (PyTuple_Check(device.ptr())) {
    const int equal = PyObject_RichCompareBool(device.ptr(), nb::make_tuple(1, 0).ptr(), Py_EQ);
    if (equal < 0) throw_python_error();
    is_cpu = equal == 1;
  } else {
    raise<TypeError>(importing, "device must be None, 'cpu' or (1, 0): got ", python_type_name(device));
  }
  if (!is_cpu)
    raise<BufferError>(importing, "device must be None, 'cpu' or (1, 0): got ", to_text(nb::repr(device)),
                       "; move the Tensor afterwards");
}

nb::object protocol_method(nb::handle producer, const char* name) {
  PyObject* const method = PyObject_GetAttrString(producer.ptr(), name);
  if (method != nullptr) return nb::steal(method);
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw_python_error();
  PyErr_Clear();
  raise<TypeError>(importing, python_type_name(producer), " has no ", name,
                   "; pass an array that speaks DLPack, or use from_buffer");
}

void check_producer_device(const nb::object& device) {
  if (PyTuple_Check(device.ptr()) == 0 || nb::len(device) != 2)
    raise<TypeError>(importing, "__dlpack_device__() must return a pair of integers: got ",
                     to_text(nb::repr(device)));
  const Index type = to_index(device[0], importing, "the device type");
  static_cast<void>(to_index(device[1], importing, "the device id"));
  if (type != dlpack::cpu_device)
    raise<BufferError>(importing, "the array is on a device of type ", type,
                       ", not in host memory, type 1; copy it there first");
}

nb::object request_capsule(const nb::object& method) {
  try {
    return method("max_version"_a = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();  // a producer from before versions
}

Tensor import_dlpack(nb::handle producer, nb::handle device, nb::handle copy) {
  const bool is_copy = to_copy(copy, importing);
  check_wanted_device(device);
  const nb::object export_method = protocol_method(producer, "__dlpack__");
  check_producer_device(protocol_method(producer, "__dlpack_device__")());
  const nb::object capsule = request_capsule(export_method);
  if (PyCapsule_CheckExact(capsule.ptr()) == 0)
    raise<TypeError>(importing, "__dlpack__() must return a capsule: got ", python_type_name(capsule));
  if (auto tensor = consume<DLManagedTensorVersioned>(capsule, is_copy)) return std::move(*tensor);
  if (auto tensor = consume<DLManagedTensor>(capsule, is_copy)) return std::move(*tensor);
  const char* const name = PyCapsule_GetName(capsule.ptr());
  PyErr_Clear();
  const std::string_view found = name == nullptr ? "no name" : name;
  if (found == used_name<DLManagedTensor> || found == used_name<DLManagedTensorVersioned>)
    raise<BufferError>(importing, "the capsule is used already: ", found, "; ask its producer for a new one");
  raise<TypeError>(importing, "__dlpack__() must return a DLPack capsule: its name is ", found);
}

/// A buffer held until the last Tensor over it is gone, on whichever thread that is.
struct HeldBuffer {
  Py_buffer view{};

  explicit HeldBuffer(nb::handle exporter) {
    if (PyObject_GetBuffer(exporter.ptr(), &view, PyBUF_FULL_RO) != 0) throw_python_error();
  }
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;
  ~HeldBuffer() {
    with_interpreter([this] {
      const nb::error_scope error;
      PyBuffer_Release(&view);
    });
  }
};

const DType& dtype_of(const Py_buffer& view, std::string_view what) {
  switch (storage_type_of(view)) {
    case StorageType::float32:
      return dtypes::Float32;
    case StorageType::int32:
      return dtypes::Int32;
    case StorageType::bool8:
      return dtypes::Bool;
    case StorageType::other:
      break;
  }
  orlop::detail::refuse_element_type(what, text("with format '", view.format == nullptr ? "B" : view.format,
                                                "' of ", view.itemsize, " bytes"));
}

Tensor import_buffer(nb::handle exporter, nb::handle copy) {
  constexpr const char* what = "from_buffer";
  const bool is_copy = to_copy(copy, what);
  if (PyObject_CheckBuffer(exporter.ptr()) == 0)
    raise<TypeError>(what, "the object exports no buffer: got ", python_type_name(exporter));
  auto buffer = std::make_shared<HeldBuffer>(exporter);
  const Py_buffer& view = buffer->view;
  const DType& dtype = dtype_of(view, what);
  orlop::detail::ForeignGeometry geometry;
  if (view.ndim > 0 && view.shape == nullptr)
    raise<BufferError>(what, "the buffer has no shape for its ", view.ndim,
                       " dimensions; its exporter must give one");
  geometry.extents.assign(view.shape, view.shape + view.ndim);
  if (view.strides != nullptr && view.ndim > 0) geometry.strides.emplace();
  for (int i = 0; i < view.ndim; ++i) {
    if (view.suboffsets != nullptr && view.suboffsets[i] >= 0)
      raise<BufferError>(what, "the buffer has suboffsets: ", view.suboffsets[i], " in dimension ", i,
                         "; copy it into one block first");
    if (!geometry.strides) continue;
    if (view.strides[i] % view.itemsize != 0)
      raise<BufferError>(what, "the stride of ", view.strides[i], " bytes is no multiple of the item's ",
                         view.itemsize, "; copy it into one block first");
    geometry.strides->push_back(view.strides[i] / view.itemsize);
  }
  const orlop::detail::ForeignArray array(what, view.buf, dtype, std::move(geometry), view.readonly != 0);
  return is_copy ? array.copy() : array.borrow(std::move(buffer));
}

// --- The buffer protocol

/// What a view of a Tensor points to and what keeps it valid beyond the carrier's release.
struct ExportedBuffer {
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
  std::shared_ptr<const void> memory;
};

const char* buffer_format(const DType& dtype) {
  constexpr const char* formats[] = {"f", "i", "?", nullptr};
  return formats[static_cast<std::size_t>(dtype.storage_type())];
}

/// Whether the elements lie in host memory that outlives a release: an exact CPU.
bool is_lendable(const Carrier& carrier) { return dynamic_cast<const CPU*>(&carrier) != nullptr; }

/// RuntimeError for values that cannot be reached now.
void require_values(const Tensor& tensor, std::string_view what) {
  tensor.require_single_subtensor(what);
  tensor.carrier()->require_live();
  tensor.carrier()->require_reachable();
}

void fill_view(Py_buffer& view, const Tensor& tensor, int flags) {
  constexpr const char* what = "buffer";
  require_values(tensor, what);
  const Carrier& carrier = *tensor.carrier();
  if (!is_lendable(carrier))
    raise<BufferError>(what, "only a Tensor on CPU exports its memory: it is on ", carrier.carrier_class(),
                       "; move it there, or use numpy.asarray for a copy");
  view.readonly = tensor.is_mutable() ? 0 : 1;
  if ((flags & PyBUF_WRITABLE) != 0 && view.readonly != 0)
    raise<BufferError>(what, "the Tensor is not mutable: it exports a read-only buffer");
  const Layout& layout = tensor.layout();
  const DType& dtype = carrier.dtype();
  const Index bytes = dtype.slot_bytes();
  if (__builtin_mul_overflow(layout.size(), bytes, &view.len))
    raise<BufferError>(what, "the Tensor has too many elements for a buffer: ", layout.size());
  const DLPackInfo info = carrier.dlpack_info();
  auto exported = std::make_unique<ExportedBuffer>();
  exported->memory = carrier.host_memory();
  exported->shape.assign(layout.extents().begin(), layout.extents().end());
  for (const Index stride : layout.strides()) exported->strides.push_back(stride * bytes);
  view.buf = static_cast<std::byte*>(info.pointer) + tensor.offset() * bytes;
  view.itemsize = bytes;
  view.format = const_cast<char*>(buffer_format(dtype));
  view.ndim = static_cast<int>(exported->shape.size());
  view.shape = exported->shape.data();
  view.strides = exported->strides.data();
  view.suboffsets = nullptr;
  const auto wants = [flags](int request) { return (flags & request) == request; };
  const char order = wants(PyBUF_C_CONTIGUOUS) || !wants(PyBUF_STRIDES) ? 'C'
                     : wants(PyBUF_F_CONTIGUOUS)                        ? 'F'
                     : wants(PyBUF_ANY_CONTIGUOUS)                      ? 'A'
                                                                        : '\0';
  if (order != '\0' && PyBuffer_IsContiguous(&view, order) == 0)
    raise<BufferError>(what, "the Tensor is not contiguous as asked for: its layout is ", layout);
  if (!wants(PyBUF_FORMAT)) view.format = nullptr;
  if (!wants(PyBUF_STRIDES)) view.strides = nullptr;
  if (!wants(PyBUF_ND)) view.shape = nullptr;
  view.internal = exported.release();
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  *view = {};
  try {
    TensorObject* const tensor = try_tensor(self);
    if (tensor == nullptr)
      raise<TypeError>("Tensor", "the Tensor is not initialised; call its constructor first");
    fill_view(*view, handle_of(*tensor), flags);
  } catch (...) {
    set_python_error();
    return -1;
  }
  view->obj = nb::handle(self).inc_ref().ptr();
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) {
  const std::unique_ptr<ExportedBuffer> ended(static_cast<ExportedBuffer*>(view->internal));
}

// --- __array__

/// A fresh array of the logical values, in NumPy's type for the slots.
nb::object fresh_array(const nb::module_& numpy, const Tensor& tensor) {
  const DType& dtype = tensor.carrier()->dtype();
  nb::object flat;
  if (dtype.storage_type() == StorageType::other) {
    nb::list values;
    for (Index i = 0; i < tensor.size(); ++i)
      values.append(carrier_item(*tensor.carrier(), tensor.offset() + tensor.layout().index_ordinal(i)));
    flat = numpy.attr("array")(values);
  } else {
    const std::vector<std::byte> slots = orlop::detail::dense_slots(tensor);
    const nb::object bytes = nb::steal(PyByteArray_FromStringAndSize(
        reinterpret_cast<const char*>(slots.data()), static_cast<Py_ssize_t>(slots.size())));
    if (!bytes.is_valid()) throw_python_error();
    flat = numpy.attr("frombuffer")(bytes, "dtype"_a = buffer_format(dtype));
  }
  nb::list extents;
  for (const Index extent : tensor.layout().extents()) extents.append(extent);
  return flat.attr("reshape")(nb::tuple(extents), "order"_a = "F");
}

nb::object to_array(TensorObject& self, nb::handle dtype, nb::handle copy) {
  const Tensor tensor = handle_of(self);
  require_values(tensor, "__array__");
  const bool must_share = !copy.is_none() && !to_bool(copy, "__array__", "copy, where it is not None,");
  const bool must_copy = !copy.is_none() && !must_share;
  const auto refuse = [&](std::string_view reason) {
    raise<ValueError>("__array__", "copy=False is not possible: ", reason, "; leave it out");
  };
  const nb::module_ numpy = nb::module_::import_("numpy");
  const bool is_shared = is_lendable(*tensor.carrier()) && !must_copy;
  nb::object array;
  if (is_shared) {
    const nb::object view = nb::steal(PyMemoryView_FromObject(nb::find(&self).ptr()));
    if (!view.is_valid()) throw_python_error();
    array = numpy.attr("asarray")(view);
  } else {
    if (must_share) refuse(text("the values are on ", tensor.carrier_type()));
    array = fresh_array(numpy, tensor);
  }
  if (dtype.is_none()) return array;
  const nb::object wanted = numpy.attr("dtype")(dtype);
  if (wanted.equal(array.attr("dtype"))) return array;
  if (must_share) refuse("the dtype differs");
  return array.attr("astype")(wanted);
}

}  // namespace

PyType_Slot* tensor_slots() {
  static PyType_Slot slots[] = {collector_slots[0],
                                collector_slots[1],
                                {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                                {0, nullptr}};
  return slots;
}

void bind_tensor_exchange(nb::class_<TensorObject>& tensor) {
  tensor
      .def("__dlpack__", &export_capsule, "stream"_a = nb::none(), nb::kw_only(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           "A DLPack capsule of the Tensor's own memory: Float32 or Int32 on CPU. `stream` is ignored.")
      .def("__dlpack_device__", &export_device, "The DLPack device type and id.")
      .def("__array__", &to_array, "dtype"_a = nb::none(), "copy"_a = nb::none(),
           "A NumPy array: the Tensor's own memory on CPU, else a fresh copy of its values.");
}

void bind_interchange(nb::module_& module) {
  module.def(
      "from_dlpack", &import_dlpack, nb::arg().none(), nb::kw_only(), "device"_a = nb::none(),
      "copy"_a = nb::none(),
      nb::sig("def from_dlpack(x: object, /, *, device: object | None = None, copy: bool | None = None) "
              "-> Tensor"),
      R"(A CPU Tensor over the memory of an array that speaks DLPack, or of a copy with copy=True.

float32, int32 and bool elements in host memory; mutable unless the array is read-only. TypeError for what has no
__dlpack__; BufferError for other elements or devices, or where only a copy would do and none is wanted (S710).

>>> from orlop import friendly
>>> source = friendly.ones(2)
>>> shared, copied = orlop.from_dlpack(source), orlop.from_dlpack(source, copy=True)
>>> source[0] = 5
>>> shared[0], copied[0]
(5.0, 1.0))");
  module.def("from_buffer", &import_buffer, nb::arg().none(), nb::kw_only(), "copy"_a = nb::none(),
             nb::sig("def from_buffer(exporter: object, /, *, copy: bool | None = None) -> Tensor"),
             R"(A CPU Tensor over the memory of a buffer exporter, or of a copy with copy=True.

Native float32, int32 and bool items; mutable unless the buffer is read-only. TypeError for what exports no buffer,
BufferError for other items.

>>> import array
>>> memory = array.array("f", [1, 2])
>>> tensor = orlop.from_buffer(memory)
>>> tensor[0] = 5
>>> memory[0]
5.0
>>> orlop.from_buffer(array.array("d", [1, 2]))
Traceback (most recent call last):
    ...
BufferError: [from_buffer] the element type with format 'd' of 8 bytes is not supported; use native ...)");
}

}  // namespace orlop::bindings
