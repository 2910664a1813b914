// The device: opening, geometry, the free extents, faults and closing.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "io/fork.hpp"
#include "io/opened.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/base/error.hpp"
#include "orlop/base/log.hpp"
#include "orlop/carriers/block_device/block_device.hpp"
#include "orlop/storage/storage_dtype.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::string_view kWhat = "BlockDevice";
constexpr Index kSlotBytes = 4;
constexpr Index kMost = std::numeric_limits<Index>::max();

[[noreturn]] void refuse_node(const std::string& path) {
  raise<ValueError>(kWhat, "the path must be a block device: '", path, "' is none; use the node of one");
}

detail::DeviceGeometry read_geometry(detail::IoCalls& calls, int descriptor, const std::string& path) {
  detail::NodeStatus status;
  if (const int result = calls.stat_node(descriptor, status); result < 0)
    detail::raise_os_error(kWhat, "fstat", -result, path, {});
  if (status.kind != detail::NodeStatus::Kind::kBlockDevice) refuse_node(path);
  detail::DeviceGeometry geometry;
  const int result = calls.geometry(descriptor, geometry);
  if (result == -ENOSYS)
    raise<NotImplementedError>(kWhat, "block devices are not supported on this system; use Linux or macOS");
  if (result < 0) detail::raise_os_error(kWhat, "geometry", -result, path, {});
  const auto& [capacity, logical, physical] = geometry;
  if (capacity == 0 || logical == 0 || physical == 0 || capacity % logical != 0 || physical % logical != 0)
    raise<ValueError>(
        kWhat, "the geometry of '", path, "' is of no use: capacity ", capacity, ", logical block ", logical,
        ", physical block ", physical,
        " bytes; all must be positive, and the first and the last multiples of the logical block");
  if (std::cmp_greater(capacity, kMost) || std::cmp_greater(std::max(logical, physical), kMost))
    raise<OverflowError>(kWhat, "the capacity of '", path, "' leaves 64 bits: ", capacity,
                         " bytes; at most 2**63 - 1 are possible");
  return geometry;
}

}  // namespace

Ref<BlockDevice> BlockDevice::open(std::string path) { return open(std::move(path), detail::io_calls()); }

Ref<BlockDevice> BlockDevice::open(std::string path, const std::shared_ptr<detail::IoCalls>& calls) {
  if (path.find('\0') != std::string::npos)
    raise<ValueError>(kWhat, "the path has an embedded NUL; a path ends before it");
  const BlockingScope blocking;
  detail::Opened opened(*calls, detail::IoCalls::kWorkingDirectory, path, O_RDWR | O_CLOEXEC);
  const int descriptor = opened.descriptor();
  if (descriptor == -EISDIR) refuse_node(path);
  if (descriptor < 0) detail::raise_os_error(kWhat, "open", -descriptor, path, {});
  const detail::DeviceGeometry geometry = read_geometry(*calls, descriptor, path);
  Ref<BlockDevice> made = make_ref<BlockDevice>(std::move(path), calls, descriptor, geometry);
  opened.keep();
  log(LogChannel::io, kWhat, ": opened '", made->path_, "' of ", made->capacity_, " bytes");
  return made;
}

BlockDevice::BlockDevice(std::string path, std::shared_ptr<detail::IoCalls> calls, int descriptor,
                         const detail::DeviceGeometry& geometry)
    : path_(std::move(path)),
      calls_(std::move(calls)),
      owner_(detail::process_id()),
      descriptor_(descriptor),
      capacity_(static_cast<Index>(geometry.capacity_bytes)),
      logical_block_(static_cast<Index>(geometry.logical_block_size)),
      physical_block_(static_cast<Index>(geometry.physical_block_size)),
      alignment_(std::max(logical_block_, physical_block_)) {
  if (const Index usable = capacity_ / alignment_ * alignment_; usable > 0) free_.push_back({0, usable});
}

BlockDevice::~BlockDevice() {
  if (const int descriptor = descriptor_.exchange(-1); descriptor >= 0) calls_->close(descriptor);
}

void BlockDevice::require_owner() const {
  if (owner_ != detail::process_id())
    raise<RuntimeError>(kWhat, "a device opened before a fork belongs to the parent process ", owner_,
                        " and process ", detail::process_id(), " may only close it; open it again here");
}

void BlockDevice::require_usable() const {
  require_owner();
  if (is_closed()) raise<RuntimeError>(kWhat, "the device '", path_, "' is closed; open it again");
  if (is_faulted())
    raise<RuntimeError>(kWhat, "the device '", path_,
                        "' is faulted: a transfer has failed, and its slots cannot be trusted any more; open "
                        "the device again once it works");
}

void BlockDevice::check_size(Index size) {
  if (size < 0)
    raise<ValueError>(kWhat, "size must not be negative: got ", size, "; a carrier has 0 or more slots");
  if (size > kMost / kSlotBytes)
    raise<OverflowError>(kWhat, size, " slots of ", kSlotBytes, " bytes leave 64 bits; use a smaller size");
}

void BlockDevice::check_dtype(const DType& dtype) {
  static const std::array<const DType*, 1> accepted{&dtypes::Float32};
  validate_storage_dtype(dtype, kWhat, accepted);
}

Ref<BlockDeviceCarrier> BlockDevice::allocate(Index size, const BlockDeviceOptions& options) {
  check_size(size);
  check_dtype(*options.dtype);
  const Index payload = size * kSlotBytes;
  if (payload > kMost - (alignment_ - 1))
    raise<OverflowError>(kWhat, payload, " bytes, rounded up to the alignment ", alignment_,
                         ", leave 64 bits; use a smaller size");
  require_usable();
  // Made before the lock: it counts a reference of the device.
  Ref<BlockDeviceCarrier> carrier = make_ref<BlockDeviceCarrier>(Ref<BlockDevice>(this), options.is_mutable);
  try {
    const BlockingScope blocking;
    const std::lock_guard lock(mutex_);
    require_usable();
    if (size > 0) initialise(*carrier, size, options.empty);
  } catch (...) {
    report_fault();
    throw;
  }
  return carrier;
}

void BlockDevice::initialise(BlockDeviceCarrier& carrier, Index size, bool empty) {
  const Extent extent = take(size * kSlotBytes);
  if (!empty) {
    try {
      zero_fill(extent);
    } catch (...) {
      give_back(extent);
      throw;
    }
  }
  carrier.offset_ = extent.offset;
  carrier.extent_ = extent.bytes;
  carrier.size_ = size;
}

BlockDevice::Extent BlockDevice::take(Index payload) {
  const Index bytes = (payload + alignment_ - 1) / alignment_ * alignment_;
  // Between any two free extents lies one that is taken: giving back never needs memory.
  const auto most = static_cast<std::size_t>(carriers_.load(std::memory_order_acquire)) + 1;
  if (free_.capacity() < most) free_.reserve(2 * most);
  const auto found = std::ranges::find_if(free_, [&](const Extent& range) { return range.bytes >= bytes; });
  if (found == free_.end()) {
    Index largest = 0;
    for (const Extent& range : free_) largest = std::max(largest, range.bytes);
    raise<MemoryError>(kWhat, "no room on '", path_, "' for ", bytes, " bytes: the largest free extent has ",
                       largest, " of ", capacity_, "; release other carriers");
  }
  const Extent taken{found->offset, bytes};
  found->offset += bytes;
  found->bytes -= bytes;
  if (found->bytes == 0) free_.erase(found);
  return taken;
}

void BlockDevice::give_back(Extent extent) noexcept {
  auto next = std::ranges::lower_bound(free_, extent.offset, {}, &Extent::offset);
  if (next != free_.end() && next->offset == extent.offset + extent.bytes) {
    extent.bytes += next->bytes;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->offset + std::prev(next)->bytes == extent.offset)
    std::prev(next)->bytes += extent.bytes;
  else
    free_.insert(next, extent);
}

detail::IoTarget BlockDevice::target() const {
  return {*calls_, descriptor_.load(std::memory_order_acquire), kWhat, path_};
}

/// Whatever a transfer fails with, the bytes are no longer known.
template <class Transfer>
void BlockDevice::guarded(Transfer transfer) {
  try {
    transfer(target());
  } catch (...) {
    is_faulted_.store(true, std::memory_order_release);
    throw;
  }
}

void BlockDevice::zero_fill(const Extent& extent) {
  constexpr Index most = Index{1} << 20;
  const std::vector<std::byte> zeros(static_cast<std::size_t>(std::min(extent.bytes, most)));
  guarded([&](const detail::IoTarget& to) {
    for (Index done = 0; done < extent.bytes; done += most)
      detail::write_fully(
          to, std::span(zeros).first(static_cast<std::size_t>(std::min(extent.bytes - done, most))),
          extent.offset + done);
  });
}

void BlockDevice::close() {
  if (is_closed()) return;
  int descriptor;
  int result = 0;
  {
    const bool is_inherited = owner_ != detail::process_id();
    const BlockingScope blocking;
    std::unique_lock lock(mutex_, std::defer_lock);
    if (!is_inherited) lock.lock();  // a thread of the parent may hold it for ever
    if (const Index count = carriers_.load(std::memory_order_acquire); count != 0)
      raise<RuntimeError>(kWhat, "the device '", path_,
                          "' cannot be closed while a Carrier object exists: ", count,
                          " of them are there; drop them first");
    descriptor = descriptor_.exchange(-1, std::memory_order_acq_rel);
    if (descriptor >= 0) result = calls_->close(descriptor);
  }
  if (descriptor < 0) return;
  log(LogChannel::io, kWhat, ": closed '", path_, "'");
  if (result < 0) detail::raise_os_error(kWhat, "close", -result, path_, {});
}

/// After a failed transfer, outside the lock.
void BlockDevice::report_fault() noexcept {
  if (is_faulted() && !is_fault_reported_.exchange(true))
    log(LogChannel::io, kWhat, ": faulted '", path_, "'");
}

// --- The carrier

namespace {
const CarrierClass carrier_class_record =
    detail::declare_shipped_class(typeid(BlockDeviceCarrier), "BlockDeviceCarrier", false);
}  // namespace

BlockDeviceCarrier::BlockDeviceCarrier(Ref<BlockDevice> device, bool is_mutable)
    : Carrier(carrier_class_record), device_(std::move(device)), is_mutable_(is_mutable) {
  device_->carriers_.fetch_add(1, std::memory_order_acq_rel);
}

BlockDeviceCarrier::~BlockDeviceCarrier() {
  retire();
  device_->carriers_.fetch_sub(1, std::memory_order_acq_rel);
}

void BlockDeviceCarrier::retire() noexcept {
  if (device_->owner_ != detail::process_id()) {  // the extent is the parent's
    size_ = offset_ = extent_ = 0;
    return;
  }
  const BlockingScope blocking;
  const std::lock_guard lock(device_->mutex_);
  if (extent_ != 0) device_->give_back({offset_, extent_});
  size_ = offset_ = extent_ = 0;
}

void BlockDeviceCarrier::on_release() { retire(); }

Index BlockDeviceCarrier::place(Index first, Index count) const {
  require_live();
  require_working();
  const Index size = size_;
  if (first < 0 || count < 0 || first > size || count > size - first || size * kSlotBytes > extent_)
    raise<IndexError>("BlockDeviceCarrier", "slots ", first, " to ", first + count, " leave the carrier's ",
                      size);
  return offset_ + first * kSlotBytes;
}

template <class Transfer>
void BlockDeviceCarrier::transfer(Index first, Index count, Transfer transfer) const {
  try {
    const BlockingScope blocking;
    const std::lock_guard lock(device_->mutex_);
    const Index offset = place(first, count);
    if (count == 0) return;
    device_->guarded([&](const detail::IoTarget& target) {
      transfer(target, static_cast<std::size_t>(count * kSlotBytes), offset);
    });
  } catch (...) {
    device_->report_fault();
    throw;
  }
}

void BlockDeviceCarrier::read_span(Index first, Index count, void* out) const {
  transfer(first, count, [out](const detail::IoTarget& from, std::size_t bytes, Index offset) {
    detail::read_fully(from, {static_cast<std::byte*>(out), bytes}, offset);
  });
}

void BlockDeviceCarrier::write_span(Index first, Index count, const void* in) {
  transfer(first, count, [in](const detail::IoTarget& to, std::size_t bytes, Index offset) {
    detail::write_fully(to, {static_cast<const std::byte*>(in), bytes}, offset);
  });
}

}  // namespace orlop::inline v0
