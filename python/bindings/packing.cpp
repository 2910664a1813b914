// Python values as native slots: see packing.hpp.
#include "packing.hpp"

#include <bit>
#include <cstring>

#include "orlop/storage/normalize.hpp"

namespace orlop::bindings {

NativeBuffer::NativeBuffer(nb::handle exporter) {
  if (PyObject_GetBuffer(exporter.ptr(), &view_, PyBUF_FORMAT | PyBUF_STRIDES) == 0)
    is_held_ = true;
  else
    PyErr_Clear();
}

NativeBuffer::~NativeBuffer() {
  if (is_held_) PyBuffer_Release(&view_);
}

StorageType storage_type_of(const Py_buffer& view) {
  std::string_view format = view.format == nullptr ? "B" : view.format;
  constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
  if (format.size() == 2 && (format[0] == '@' || format[0] == '=' || format[0] == native))
    format.remove_prefix(1);
  if (format == "f" && view.itemsize == 4) return StorageType::float32;
  if ((format == "i" || format == "l") && view.itemsize == 4) return StorageType::int32;
  return format == "?" && view.itemsize == 1 ? StorageType::bool8 : StorageType::other;
}

bool NativeBuffer::holds(const DType& dtype) const {
  return storage_type() != StorageType::other && storage_type() == dtype.storage_type() && view_.ndim == 1 &&
         PyBuffer_IsContiguous(&view_, 'C') == 1;
}

namespace {

void pack_value(nb::handle value, const DType& dtype, bool holes_are_zero, std::string_view what,
                std::byte* slot) {
  if (value.is_none() && holes_are_zero) {
    std::memset(slot, 0, static_cast<std::size_t>(dtype.slot_bytes()));
    return;
  }
  if (dtype.storage_type() == StorageType::int32 && !PyLong_Check(value.ptr()) &&
      PyIndex_Check(value.ptr()) != 0) {
    const Index number = to_index(value, what, "a value");
    encode_slot(dtype, Scalar(number), slot);
    return;
  }
  encode_slot(dtype, to_scalar(value, what, "a value"), slot);
}

}  // namespace

std::vector<std::byte> pack_values(nb::handle values, const DType& dtype, bool holes_are_zero,
                                   std::string_view what) {
  const auto bytes = static_cast<std::size_t>(dtype.slot_bytes());
  std::vector<std::byte> slots;
  if (PyObject_CheckBuffer(values.ptr()) != 0) {
    const NativeBuffer buffer(values);
    if (buffer.holds(dtype)) {
      slots.resize(static_cast<std::size_t>(buffer.view().len));
      std::memcpy(slots.data(), buffer.view().buf, slots.size());
      if (dtype.storage_type() == StorageType::bool8)
        for (std::byte& slot : slots) slot = slot == std::byte{0} ? std::byte{0} : std::byte{1};
      return slots;
    }
  }
  if (PyList_CheckExact(values.ptr()) || PyTuple_CheckExact(values.ptr()))
    slots.reserve(static_cast<std::size_t>(PyObject_Size(values.ptr())) * bytes);
  for_each_item(values, what, "values", [&](nb::handle value) {
    slots.resize(slots.size() + bytes);
    pack_value(value, dtype, holes_are_zero, what, slots.data() + slots.size() - bytes);
  });
  return slots;
}

}  // namespace orlop::bindings
