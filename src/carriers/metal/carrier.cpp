// The Metal carrier: construction, factories, its place in dispatch, and the buffers behind it.
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "carriers/metal/kernels.hpp"
#include "carriers/metal/slots.hpp"
#include "orlop/carriers/metal/metal.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/storage/storage_dtype.hpp"
#include "orlop/tensor/scatter.hpp"

namespace orlop::inline v0 {

namespace {

const CarrierClass metal_class = [] {
  const CarrierClass carrier_class = detail::declare_shipped_class(typeid(Metal), "Metal", false);
  detail::declare_shipped_capabilities(carrier_class, &metal_capabilities);
  return carrier_class;
}();

std::span<const DType* const> accepted_dtypes() {
  static const std::array<const DType*, 3> accepted{&dtypes::Float32, &dtypes::Int32, &dtypes::Bool};
  return accepted;
}

/// Live slots by the address of the first one.
struct Slots {
  std::mutex mutex;
  std::map<const std::byte*, std::weak_ptr<MetalBuffer>> buffers;
};

Slots& live_slots() {
  static auto& instance = *std::make_unique<Slots>().release();  // carriers may outlive static objects
  return instance;
}

}  // namespace

std::shared_ptr<MetalBuffer> make_metal_buffer(MetalRuntime& runtime, std::size_t bytes, bool is_zeroed) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  std::shared_ptr<MetalBuffer> buffer =
      size <= runtime.largest_buffer_bytes() ? runtime.allocate(size) : nullptr;
  if (buffer == nullptr)
    raise<MemoryError>("Metal", "no memory for a buffer of ", size, " bytes; the device allows ",
                       runtime.largest_buffer_bytes(), " at most");
  if (is_zeroed) std::memset(buffer->contents(), 0, size);
  return buffer;
}

std::shared_ptr<MetalBuffer> make_metal_slots(MetalRuntime& runtime, std::size_t bytes, bool is_zeroed) {
  std::shared_ptr<MetalBuffer> buffer = make_metal_buffer(runtime, bytes, is_zeroed);
  const std::byte* const first = buffer->contents();
  Slots& slots = live_slots();
  const auto forget = [buffer, first, &slots](MetalBuffer*) {
    const std::lock_guard lock(slots.mutex);
    slots.buffers.erase(first);
  };
  std::shared_ptr<MetalBuffer> tracked(buffer.get(), forget);
  const std::lock_guard lock(slots.mutex);
  slots.buffers.insert_or_assign(first, tracked);
  return tracked;
}

namespace {

/// Nothing in the binding where no buffer holds `address`.
MetalBinding try_binding(const std::byte* address) {
  Slots& slots = live_slots();
  const std::lock_guard lock(slots.mutex);
  const auto after = slots.buffers.upper_bound(address);
  if (after == slots.buffers.begin()) return {};
  const auto& [first, held] = *std::prev(after);
  std::shared_ptr<MetalBuffer> buffer = held.lock();
  const auto offset = static_cast<std::size_t>(address - first);
  if (buffer == nullptr || offset >= buffer->bytes()) return {};
  return {std::move(buffer), offset};
}

}  // namespace

MetalBinding find_metal_binding(const std::byte* address) {
  MetalBinding found = try_binding(address);
  if (found.buffer == nullptr) raise<RuntimeError>("Metal", "an operand's slots lie in no Metal buffer");
  return found;
}

bool is_in_metal_buffer(const std::byte* address) { return try_binding(address).buffer != nullptr; }

Ref<Metal> Metal::make(Index size, const MetalOptions& options) {
  if (size < 0)
    raise<ValueError>("Metal", "size must not be negative: got ", size, "; a carrier has 0 or more slots");
  const DType& dtype = validate_storage_dtype(*options.dtype, "Metal", accepted_dtypes());
  const std::shared_ptr<MetalRuntime> runtime = detail::metal_runtime();
  if (size > largest_size)
    raise<MemoryError>("Metal", "no memory for ", size, " slots of ", dtype.name(), "; a Metal carrier has ",
                       largest_size, " at most");
  const auto bytes = static_cast<std::size_t>(size * dtype.slot_bytes());
  std::shared_ptr<MetalBuffer> buffer = make_metal_slots(*runtime, bytes, !options.empty);
  std::byte* const contents = buffer->contents();
  return make_ref<Metal>(metal_class, size, contents, options.is_mutable, dtype, std::move(buffer));
}

Ref<Carrier> Metal::new_like(Sequence<Scalar> values, const NewLikeOptions& options) const {
  Ref<Metal> result =
      make(static_cast<Index>(values.size()), {options.is_mutable, factory_dtype(options.dtype), true});
  result->fill(values);
  return result;
}

Ref<Carrier> Metal::allocate_like(Index size, const AllocateOptions& options) const {
  return make(size, {options.is_mutable, factory_dtype(options.dtype), options.empty});
}

void Metal::scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
                    Index mapping_offset) {
  scatter_values(*this, to_scatter, scatter_onto, mapping, mapping_offset);
  advance_version();
}

const KernelTable* Metal::kernel_table() const noexcept { return &metal_kernels(); }

bool Metal::stores(const DType& dtype) const { return accepts_storage_dtype(dtype, accepted_dtypes()); }

Ref<Operation> Metal::make_operation(std::string_view operation_name) {
  return table_operation(operation_name);
}

}  // namespace orlop::inline v0
