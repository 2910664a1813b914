// Exports and imports of DLPack's managed structs.
#include "orlop/interop/dlpack.hpp"

#include <memory>
#include <vector>

#include "orlop/interop/foreign_array.hpp"

namespace orlop::inline v0 {

namespace {

/// A lent Tensor: what the struct points to and what keeps it valid.
template <class Managed>
struct Export {
  Managed managed{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  Tensor tensor;
  std::shared_ptr<const void> memory;

  static void end(Managed* managed) {
    const std::unique_ptr<Export> ended(static_cast<Export*>(managed->manager_ctx));
  }
};

template <class Managed>
std::unique_ptr<Export<Managed>> lend(const Tensor& tensor, const DLPackInfo& memory) {
  const Layout& layout = tensor.layout();
  auto lent = std::make_unique<Export<Managed>>();
  lent->shape.assign(layout.extents().begin(), layout.extents().end());
  lent->strides.assign(layout.strides().begin(), layout.strides().end());
  lent->tensor = tensor;
  lent->memory = tensor.carrier()->host_memory();
  const bool is_float = &tensor.dtype() == &dtypes::Float32;
  lent->managed.dl_tensor = {
      .data = memory.pointer,
      .device = {memory.device_type, memory.device_id},
      .ndim = static_cast<std::int32_t>(lent->shape.size()),
      .dtype = {is_float ? dlpack::float_code : dlpack::int_code, 32, 1},
      .shape = lent->shape.data(),
      .strides = lent->strides.data(),
      .byte_offset = static_cast<std::uint64_t>(tensor.offset() * tensor.dtype().slot_bytes())};
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = &Export<Managed>::end;
  return lent;
}

/// A producer's struct, held once it is armed.
template <class Managed>
struct Producer {
  Managed* managed = nullptr;

  Producer() = default;
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;
  ~Producer() {
    if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
  }
};

constexpr std::string_view importing = "from_dlpack";

const DType& dtype_of(const DLDataType& type) {
  if (type.lanes == 1 && type.bits == 32 && type.code == dlpack::float_code) return dtypes::Float32;
  if (type.lanes == 1 && type.bits == 32 && type.code == dlpack::int_code) return dtypes::Int32;
  if (type.lanes == 1 && type.bits == 8 && type.code == dlpack::bool_code) return dtypes::Bool;
  constexpr std::string_view codes[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const auto code = std::size_t{type.code};
  detail::refuse_element_type(
      importing,
      text(code < std::size(codes) ? std::string(codes[code]) : text("of code ", code, ", bits "),
           static_cast<int>(type.bits), type.lanes == 1 ? "" : text(" in ", type.lanes, " lanes")));
}

detail::ForeignArray foreign_array(const DLTensor& tensor, bool is_read_only) {
  const DType& dtype = dtype_of(tensor.dtype);
  if (tensor.device.device_type != dlpack::cpu_device)
    raise<BufferError>(importing, "the device type ", tensor.device.device_type,
                       " is not supported; copy the array to host memory, device type 1");
  if (tensor.ndim < 0 || static_cast<std::size_t>(tensor.ndim) > detail::max_array_rank)
    raise<BufferError>(importing, "the number of dimensions is ", tensor.ndim, "; 0 to ",
                       detail::max_array_rank);
  if (tensor.ndim > 0 && tensor.shape == nullptr)
    raise<BufferError>(importing, "the shape of ", tensor.ndim, " dimensions is null");
  detail::ForeignGeometry geometry{.extents = {tensor.shape, tensor.shape + tensor.ndim}, .strides = {}};
  if (tensor.strides != nullptr)
    geometry.strides = std::vector<Index>(tensor.strides, tensor.strides + tensor.ndim);
  std::uintptr_t address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address != 0 && __builtin_add_overflow(address, tensor.byte_offset, &address))
    raise<OverflowError>(importing, "the byte offset leaves the address space: ", tensor.byte_offset);
  return {importing, reinterpret_cast<void*>(address), dtype, std::move(geometry), is_read_only};
}

template <class Managed>
Tensor take_over(Managed* managed, bool is_read_only, const FromDLPackOptions& options) {
  const detail::ForeignArray array = foreign_array(managed->dl_tensor, is_read_only);
  auto producer = std::make_shared<Producer<Managed>>();
  Tensor result = options.copy ? array.copy() : array.borrow(producer);
  producer->managed = managed;  // from here on nothing can fail
  return result;
}

void require_struct(const void* managed) {
  if (managed == nullptr)
    raise<BufferError>(importing, "the managed tensor is null; its producer must make one");
}

}  // namespace

DLPackInfo detail::dlpack_memory(const Tensor& tensor) {
  tensor.require_single_subtensor("DLPack");
  const Carrier& carrier = *tensor.carrier();
  DLPackInfo memory = carrier.dlpack_info();
  if (memory.pointer == nullptr)
    raise<BufferError>(carrier.carrier_class().name(), "the carrier has no memory to lend",
                       carrier.is_released() ? ": it is released" : "");
  return memory;
}

void detail::check_dlpack_dtype(const Tensor& tensor) {
  if (&tensor.dtype() != &dtypes::Float32 && &tensor.dtype() != &dtypes::Int32)
    raise<BufferError>("DLPack", "only Float32 and Int32 are exported: the Tensor holds ",
                       tensor.dtype().name());
}

DLManagedTensor* detail::to_dlpack(const Tensor& tensor, const DLPackInfo& memory) {
  check_dlpack_dtype(tensor);
  return &lend<DLManagedTensor>(tensor, memory).release()->managed;
}

DLManagedTensorVersioned* detail::to_dlpack_versioned(const Tensor& tensor, const DLPackInfo& memory) {
  check_dlpack_dtype(tensor);
  const std::uint64_t flags = tensor.is_mutable() ? 0 : dlpack::read_only_flag;
  auto lent = lend<DLManagedTensorVersioned>(tensor, memory);
  lent->managed.version = {1, 0};
  lent->managed.flags = flags;
  return &lent.release()->managed;
}

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  return detail::to_dlpack(tensor, detail::dlpack_memory(tensor));
}

DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor) {
  return detail::to_dlpack_versioned(tensor, detail::dlpack_memory(tensor));
}

Tensor from_dlpack(DLManagedTensor* managed, const FromDLPackOptions& options) {
  require_struct(managed);
  return take_over(managed, false, options);
}

Tensor from_dlpack(DLManagedTensorVersioned* managed, const FromDLPackOptions& options) {
  require_struct(managed);
  if (managed->version.major > 1)
    raise<BufferError>(importing, "the managed tensor has DLPack version ", managed->version.major, '.',
                       managed->version.minor, "; at most major version 1");
  return take_over(managed, (managed->flags & dlpack::read_only_flag) != 0, options);
}

}  // namespace orlop::inline v0
