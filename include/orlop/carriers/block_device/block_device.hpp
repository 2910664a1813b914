// BlockDevice: an open block device as an allocator, and BlockDeviceCarrier: slots in one extent of it.
//
// Protocol. The carrier owns the bytes of its extent, the device hands extents out; other processes that open
// the device are not coordinated, and whatever the device held before is overwritten. Nothing on the device
// describes what is where: a crash, or the end of the process, forgets every extent. One lock per device
// orders all I/O, allocation, release and close. Atomic: nothing; a failed transfer may have changed a prefix
// of its range and faults the device for good, since the state of its bytes is no longer known. Durable:
// nothing is flushed. A fork's child may only drop and close its copies.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "orlop/io/transfer.hpp"
#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

class BlockDeviceCarrier;

struct BlockDeviceOptions {
  bool is_mutable = true;
  DTypeRef dtype = dtypes::Float32;
  bool empty = false;  ///< slots may start unwritten
};

/// An open block device, from which carriers are allocated.
/// `auto slots = BlockDevice::open("/dev/sdb1")->allocate(1000);`
class ORLOP_API BlockDevice final : public Object {
 public:
  /// Opens that very node for reading and writing and writes nothing. ValueError ‹block device› for anything
  /// else, and for a geometry that is not positive or not whole blocks; OverflowError for one beyond 64 bits;
  /// OSError where it cannot be opened.
  [[nodiscard]] static Ref<BlockDevice> open(std::string path);
  /// The same through these system calls.
  [[nodiscard]] static Ref<BlockDevice> open(std::string path, const std::shared_ptr<detail::IoCalls>& calls);
  ~BlockDevice() override;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] Index capacity_bytes() const noexcept { return capacity_; }
  [[nodiscard]] Index logical_block_size() const noexcept { return logical_block_; }
  [[nodiscard]] Index physical_block_size() const noexcept { return physical_block_; }
  /// What every extent starts and ends at a multiple of.
  [[nodiscard]] Index allocation_alignment() const noexcept { return alignment_; }
  [[nodiscard]] bool is_closed() const noexcept { return descriptor_.load(std::memory_order_acquire) < 0; }
  /// Whether a transfer has failed: then no slot can be reached any more.
  [[nodiscard]] bool is_faulted() const noexcept { return is_faulted_.load(std::memory_order_acquire); }

  /// `size` Float32 slots in the lowest free extent that is large enough. ValueError for a negative size or
  /// another dtype; OverflowError beyond 64 bits; RuntimeError ‹closed›, ‹faulted›; MemoryError where there
  /// is no room. Slots are zero unless `empty`; where they cannot be written the device is faulted.
  [[nodiscard]] Ref<BlockDeviceCarrier> allocate(Index size, const BlockDeviceOptions& options = {});
  /// What allocate() says about a size, and then about a dtype, before it looks at anything else.
  static void check_size(Index size);
  static void check_dtype(const DType& dtype);
  /// Closes the device, once; an OSError leaves it closed too. RuntimeError ‹Carrier object exists› while any
  /// carrier of it is there, even a released one.
  void close();

 private:
  friend class BlockDeviceCarrier;
  template <class T, class... Args>
  friend Ref<T> make_ref(Args&&... args);
  struct Extent {
    Index offset = 0;
    Index bytes = 0;
  };

  BlockDevice(std::string path, std::shared_ptr<detail::IoCalls> calls, int descriptor,
              const detail::DeviceGeometry& geometry);

  void require_owner() const;
  /// RuntimeError ‹closed›, ‹faulted›. With the lock held, or as a check before.
  void require_usable() const;
  // With the lock held.
  [[nodiscard]] Extent take(Index payload);
  void give_back(Extent extent) noexcept;
  [[nodiscard]] detail::IoTarget target() const;
  template <class Transfer>
  void guarded(Transfer transfer);
  void zero_fill(const Extent& extent);
  void initialise(BlockDeviceCarrier& carrier, Index size, bool empty);
  void report_fault() noexcept;

  std::string path_;
  std::shared_ptr<detail::IoCalls> calls_;
  int owner_;
  std::atomic<int> descriptor_;
  Index capacity_;
  Index logical_block_;
  Index physical_block_;
  Index alignment_;
  std::atomic<bool> is_faulted_{false};
  std::atomic<bool> is_fault_reported_{false};
  std::atomic<Index> carriers_{0};  // objects, released ones too
  std::mutex mutex_;
  std::vector<Extent> free_;  // by offset; neighbours are merged
};

/// Float32 slots on a BlockDevice, of fixed size. Made by BlockDevice::allocate and by the factories of
/// another one. Computes nothing; dispatches only views.
class ORLOP_API BlockDeviceCarrier final : public Carrier {
 public:
  ~BlockDeviceCarrier() override;

  [[nodiscard]] const Ref<BlockDevice>& device() const noexcept { return device_; }
  /// Where slot 0 lies on the device; 0 once released or without slots.
  [[nodiscard]] Index device_offset_bytes() const noexcept { return offset_.load(std::memory_order_acquire); }
  /// The bytes reserved for the slots, a multiple of the alignment.
  [[nodiscard]] Index extent_bytes() const noexcept { return extent_.load(std::memory_order_acquire); }

  [[nodiscard]] Index size() const override { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] const DType& dtype() const override { return dtypes::Float32; }
  [[nodiscard]] Scalar get_value(Index index) const override;
  void set_value(Index index, const Scalar& value) override;
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values,
                                      const NewLikeOptions& options = {}) const override;
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options = {}) const override;
  void read_span(Index first, Index count, void* out) const override;
  void write_span(Index first, Index count, const void* in) override;
  [[nodiscard]] bool holes_are_zero() const noexcept override { return true; }
  [[nodiscard]] std::string_view residency() const noexcept override { return "device"; }
  /// RuntimeError ‹closed›, ‹faulted›. No I/O.
  void require_working() const override { device_->require_usable(); }

 protected:
  [[nodiscard]] bool intrinsic_mutable() const override { return is_mutable_; }
  [[nodiscard]] Ref<Operation> make_operation(std::string_view operation_name) override;
  void on_release() override;

 private:
  friend class BlockDevice;
  template <class T, class... Args>
  friend Ref<T> make_ref(Args&&... args);
  BlockDeviceCarrier(Ref<BlockDevice> device, bool is_mutable);

  void retire() noexcept;
  template <class Transfer>
  void transfer(Index first, Index count, Transfer transfer) const;
  /// The place of the slots on the device. With the device's lock held.
  [[nodiscard]] Index place(Index first, Index count) const;

  Ref<BlockDevice> device_;
  bool is_mutable_;
  std::atomic<Index> size_{0};
  std::atomic<Index> offset_{0};
  std::atomic<Index> extent_{0};
};

}  // namespace orlop::inline v0
