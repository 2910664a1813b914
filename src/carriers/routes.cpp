// The routes between shipped carriers and their entries in the registry: the only file that knows two of
// them.
#include "orlop/carriers/routes.hpp"

#include <vector>

#include "orlop/carriers/block_device/block_device.hpp"
#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/carriers/metal/metal.hpp"

namespace orlop::inline v0 {

namespace {

[[maybe_unused]] const bool are_routes_declared =
    detail::declare_move_route(carrier_class<CPU>(), carrier_class<FileBacked>(),
                               move_route<CpuToFileBackedMoveOperation>("CpuToFileBackedMoveOperation")) &&
    detail::declare_move_route(carrier_class<FileBacked>(), carrier_class<CPU>(),
                               move_route<FileBackedToCpuMoveOperation>("FileBackedToCpuMoveOperation")) &&
    detail::declare_route_policy(carrier_class<BlockDeviceCarrier>(), detail::RoutePolicy::built_in) &&
    detail::declare_move_route(carrier_class<CPU>(), carrier_class<BlockDeviceCarrier>(),
                               move_route<CpuToBlockDeviceMoveOperation>("CpuToBlockDeviceMoveOperation")) &&
    detail::declare_move_route(carrier_class<BlockDeviceCarrier>(), carrier_class<CPU>(),
                               move_route<BlockDeviceToCpuMoveOperation>("BlockDeviceToCpuMoveOperation")) &&
    detail::declare_route_policy(carrier_class<Metal>(), detail::RoutePolicy::exact) &&
    detail::declare_move_route(carrier_class<CPU>(), carrier_class<Metal>(),
                               move_route<CpuToMetalMoveOperation>("CpuToMetalMoveOperation")) &&
    detail::declare_move_route(carrier_class<Metal>(), carrier_class<CPU>(),
                               move_route<MetalToCpuMoveOperation>("MetalToCpuMoveOperation")) &&
    detail::declare_move_route(carrier_class<Metal>(), carrier_class<Metal>(),
                               move_route<MetalToMetalMoveOperation>("MetalToMetalMoveOperation"));

}  // namespace

CpuToFileBackedMoveOperation::~CpuToFileBackedMoveOperation() = default;
CarrierClass CpuToFileBackedMoveOperation::source_class() const { return carrier_class<CPU>(); }
CarrierClass CpuToFileBackedMoveOperation::destination_class() const { return carrier_class<FileBacked>(); }

void CpuToFileBackedMoveOperation::copy(const Tensor& tensor, Carrier& destination, const Tensor&,
                                        Index element_count) {
  const Ref<Carrier>& source = tensor.carrier();
  std::vector<std::byte> staged;  // only where wrapped memory is not aligned to its slots
  const std::byte* slots = source->host_data();
  if (slots != nullptr) {
    slots += tensor.offset() * source->dtype().slot_bytes();
  } else {
    staged.resize(static_cast<std::size_t>(element_count * source->dtype().slot_bytes()));
    source->read_span(tensor.offset(), element_count, staged.data());
    slots = staged.data();
  }
  detail::WriteProgress progress;
  try {
    dynamic_cast<FileBacked&>(destination).write_span(0, element_count, slots, progress);
  } catch (...) {
    if (progress.may_have_changed) expect_writes();
    throw;
  }
}

FileBackedToCpuMoveOperation::~FileBackedToCpuMoveOperation() = default;
CarrierClass FileBackedToCpuMoveOperation::source_class() const { return carrier_class<FileBacked>(); }
CarrierClass FileBackedToCpuMoveOperation::destination_class() const { return carrier_class<CPU>(); }

void FileBackedToCpuMoveOperation::copy(const Tensor& tensor, Carrier& destination, const Tensor&,
                                        Index element_count) {
  const auto& source = dynamic_cast<const FileBacked&>(*tensor.carrier());
  std::byte* const slots = destination.host_data();
  if (slots == nullptr) {  // wrapped memory that is not aligned to its slots
    std::vector<std::byte> staged(static_cast<std::size_t>(element_count * source.dtype().slot_bytes()));
    source.read_span(tensor.offset(), element_count, staged.data());
    return destination.write_span(0, element_count, staged.data());
  }
  Index completed_bytes = 0;
  try {
    source.read_span(tensor.offset(), element_count, slots, completed_bytes);
  } catch (...) {
    if (completed_bytes != 0) expect_writes();
    throw;
  }
}

CpuToBlockDeviceMoveOperation::~CpuToBlockDeviceMoveOperation() = default;
CarrierClass CpuToBlockDeviceMoveOperation::source_class() const { return carrier_class<CPU>(); }
CarrierClass CpuToBlockDeviceMoveOperation::destination_class() const {
  return carrier_class<BlockDeviceCarrier>();
}

void CpuToBlockDeviceMoveOperation::copy(const Tensor& tensor, Carrier& destination, const Tensor& output,
                                         Index element_count) {
  destination.require_working();
  destination.increment_version();
  SpanMoveOperation::copy(tensor, destination, output, element_count);
}

BlockDeviceToCpuMoveOperation::~BlockDeviceToCpuMoveOperation() = default;
CarrierClass BlockDeviceToCpuMoveOperation::source_class() const {
  return carrier_class<BlockDeviceCarrier>();
}
CarrierClass BlockDeviceToCpuMoveOperation::destination_class() const { return carrier_class<CPU>(); }

void BlockDeviceToCpuMoveOperation::copy(const Tensor& tensor, Carrier& destination, const Tensor& output,
                                         Index element_count) {
  tensor.carrier()->require_working();
  destination.increment_version();
  SpanMoveOperation::copy(tensor, destination, output, element_count);
}

CpuToMetalMoveOperation::~CpuToMetalMoveOperation() = default;
CarrierClass CpuToMetalMoveOperation::source_class() const { return carrier_class<CPU>(); }
CarrierClass CpuToMetalMoveOperation::destination_class() const { return carrier_class<Metal>(); }

MetalToCpuMoveOperation::~MetalToCpuMoveOperation() = default;
CarrierClass MetalToCpuMoveOperation::source_class() const { return carrier_class<Metal>(); }
CarrierClass MetalToCpuMoveOperation::destination_class() const { return carrier_class<CPU>(); }

MetalToMetalMoveOperation::~MetalToMetalMoveOperation() = default;
CarrierClass MetalToMetalMoveOperation::source_class() const { return carrier_class<Metal>(); }
CarrierClass MetalToMetalMoveOperation::destination_class() const { return carrier_class<Metal>(); }

}  // namespace orlop::inline v0
