// Carrier: one homogeneous storage sequence, the extension point for whoever writes a storage.
//
// A carrier owns or references its slots. Ownership by another carrier (a tier of a hierarchy), the version
// counter and the release state live here, so that no concrete carrier repeats them; each is atomic. Whether
// bytes survive a crash is the concrete carrier's protocol, stated at the head of its own file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/base/object.hpp"
#include "orlop/base/scalar.hpp"
#include "orlop/base/sequence.hpp"
#include "orlop/dtype/dtype.hpp"
#include "orlop/storage/carrier_class.hpp"

namespace orlop::inline v0 {

class CapabilitySet;
class CarrierFacet;
class KernelTable;
class Layout;
class Operation;
class OperationCapability;
class OperationPlan;
class Tensor;
using CapabilityEntry = std::shared_ptr<const OperationCapability>;

struct NewLikeOptions {
  bool is_mutable = true;
  DTypeRef dtype{};  ///< absent: the receiver's
};

struct AllocateOptions {
  bool is_mutable = true;
  DTypeRef dtype{};    ///< absent: the receiver's
  bool empty = false;  ///< initialization may be skipped; every slot is then written before it is read
};

/// What a DLPack consumer needs to know about the memory.
struct DLPackInfo {
  void* pointer;
  std::int32_t device_type;
  std::int32_t device_id;
};

/// Base of all carriers, open to siblings in C++ and Python (S101). A minimal subclass implements the five
/// pure virtual functions and `set_value`; everything else has a default.
class ORLOP_API Carrier : public Object {
 public:
  using OwnerToken = std::uint64_t;

  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;
  ~Carrier() override;

  // --- Hooks for authors ------------------------------------------------------------------------------
  /// Physical slots; may be 0 once released.
  [[nodiscard]] virtual Index size() const = 0;
  /// The one dtype of every slot, also after release.
  [[nodiscard]] virtual const DType& dtype() const = 0;
  /// The value at `index`; the framework passes indices in range.
  [[nodiscard]] virtual Scalar get_value(Index index) const = 0;
  /// Normalizes and writes one slot. Default: RuntimeError ‹not mutable›.
  virtual void set_value(Index index, const Scalar& value);
  /// Fresh storage of the same kind holding `values`; works on a released receiver.
  [[nodiscard]] virtual Ref<Carrier> new_like(Sequence<Scalar> values,
                                              const NewLikeOptions& options = {}) const = 0;
  /// Fresh storage of the same kind with `size` slots; works on a released receiver.
  [[nodiscard]] virtual Ref<Carrier> allocate_like(Index size, const AllocateOptions& options = {}) const = 0;
  /// Writes source values through a mapping (the storage specification). Default: NotImplementedError.
  virtual void scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
                       Index mapping_offset = 0);
  /// Default: BufferError.
  [[nodiscard]] virtual DLPackInfo dlpack_info() const;

  // --- Bulk access; unchecked, slots in the dtype's native encoding -----------------------------------
  /// Copies `count` slots from `first` into `out`. Default: one get_value per slot.
  virtual void read_span(Index first, Index count, void* out) const;
  /// Copies `count` slots from `in`. Shipped carriers leave the version alone. Default: one set_value per
  /// slot.
  virtual void write_span(Index first, Index count, const void* in);
  /// The slots in host memory, or null when they are not simply there.
  [[nodiscard]] virtual std::byte* host_data() const noexcept { return nullptr; }
  /// What keeps `host_data()` valid even if the carrier is released meanwhile, or null where nothing does.
  [[nodiscard]] virtual std::shared_ptr<const void> host_memory() const noexcept { return nullptr; }
  /// The kernels that compute on this carrier's host memory, or null.
  [[nodiscard]] virtual const KernelTable* kernel_table() const noexcept { return nullptr; }
  /// Whether a None in `new_like` values stands for zero.
  [[nodiscard]] virtual bool holes_are_zero() const noexcept { return false; }
  /// Whether an empty carrier can become a larger one by `allocate` (S405).
  [[nodiscard]] virtual bool is_growable() const noexcept { return false; }

  /// What backward does with gradients here: the sum of `first`, a Tensor of this carrier, and of `second`
  /// where it is not null, in the same layout on any carrier; in storage of its own, like this one and with
  /// the slots of `first`. Default: null, for carriers that the table's arithmetic reads (X58).
  [[nodiscard]] virtual Ref<Carrier> sum_gradients(const Tensor& first, const Tensor* second) const;

  /// Where the values are now, in one word, for representations: "resident", "file", "evicted", …
  [[nodiscard]] virtual std::string_view residency() const noexcept { return "resident"; }
  /// The same, or "released".
  [[nodiscard]] std::string_view residency_word() const noexcept {
    return is_released() ? "released" : residency();
  }
  /// `CPU(size=3, dtype=Float32, residency=resident, version=0)`; reads no value.
  [[nodiscard]] virtual std::string to_string() const;

  // --- Element access with all checks (S104) ----------------------------------------------------------
  [[nodiscard]] Scalar at(Index index) const;
  /// Writes one slot; the version advances exactly once.
  void store(Index index, const Scalar& value);
  /// The checks of a read and of a write, in their order.
  void check_readable(Index index) const;
  void check_writable(Index index) const;
  /// RuntimeError ‹released› for a released carrier.
  void require_live() const;
  /// RuntimeError ‹not mutable› unless is_mutable().
  void require_mutable() const;
  /// RuntimeError where the storage has stopped working for good, though the carrier is live: a faulted
  /// device.
  virtual void require_working() const {}
  /// RuntimeError where the slots cannot be reached now, though the carrier is live: an evicted hierarchy.
  virtual void require_reachable() const {}

  // --- State -------------------------------------------------------------------------------------------
  [[nodiscard]] CarrierClass carrier_class() const;
  [[nodiscard]] bool is_mutable() const;
  [[nodiscard]] bool is_owned() const noexcept { return owner_token_.load(std::memory_order_acquire) != 0; }
  [[nodiscard]] bool is_released() const noexcept {
    return life_.load(std::memory_order_acquire) == Life::released;
  }
  /// Gives the storage up for good; idempotent. Owned without scope: RuntimeError ‹owned›.
  void release();
  [[nodiscard]] std::int64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  /// For authors of `set_value` and the like; owned without scope: RuntimeError ‹owned›.
  void increment_version();
  [[nodiscard]] bool supports_storage_dtype(const DType& dtype) const { return stores(dtype); }
  /// The dtype of a factory's result: `dtype`, or the receiver's where it is left out. A descriptor that no
  /// factory of this kind can make, a category among them, is a ValueError.
  [[nodiscard]] virtual const DType& factory_dtype(DTypeRef dtype) const;
  /// Turns an empty growable carrier into one of `size` zero slots (S405).
  void allocate(Index size);

  /// Undoes `allocate` after a failed move, where the carrier can.
  void deallocate() { on_deallocate(); }

  // --- Facets: defined in src/extension/facet.cpp -------------------------------------------------------
  /// The facet of exactly the type `F` that the carrier's definition offers, or null (X12).
  template <class F>
  [[nodiscard]] const F* facet() const {
    return static_cast<const F*>(find_facet(typeid(F)));
  }
  /// The same; NotImplementedError naming `F` where there is none.
  template <class F>
  [[nodiscard]] const F& require_facet() const {
    return static_cast<const F&>(find_required_facet(typeid(F)));
  }
  [[nodiscard]] const CarrierFacet* find_facet(const std::type_info& type) const;
  [[nodiscard]] const CarrierFacet& find_required_facet(const std::type_info& type) const;

  // --- Exclusive ownership (S201) ----------------------------------------------------------------------
  [[nodiscard]] OwnerToken claim_ownership();
  void relinquish_ownership(OwnerToken token);
  void begin_owner_access(OwnerToken token);
  void end_owner_access(OwnerToken token);
  /// In a fork's child, for an owner whose work only the parent goes on with: nobody owns the carrier here.
  void forget_owner() noexcept;
  /// True only on the thread that holds the owner's scope.
  [[nodiscard]] bool has_owner_access() const noexcept;

  // --- Operations: defined in src/operation/carrier_*.cpp ----------------------------------------------
  /// A fresh operation bound to `operation_name` and this exact class (P40).
  [[nodiscard]] Ref<Operation> dispatch_op(std::string_view operation_name);
  /// The advertised capabilities, optionally of one name, in P26 order.
  [[nodiscard]] std::vector<CapabilityEntry> operation_capabilities(
      std::optional<std::string_view> operation_name = std::nullopt) const;
  [[nodiscard]] bool supports_operation_plan(const OperationPlan& plan) const;
  /// Empty when supported, else why not (P28).
  [[nodiscard]] std::string unsupported_plan_reason(const OperationPlan& plan) const;
  /// UnsupportedOperationPlan unless this carrier advertises exactly `plan` (P31).
  void require_operation_plan(const OperationPlan& plan) const;

 protected:
  Carrier() noexcept;
  /// For classes that know their identity: shipped ones and the bindings' trampoline.
  explicit Carrier(CarrierClass carrier_class) noexcept;

  /// Whether the storage itself permits writes.
  [[nodiscard]] virtual bool intrinsic_mutable() const { return false; }
  /// Why intrinsic_mutable() is false and what to do, for the message of a refused write.
  [[nodiscard]] virtual std::string immutable_reason() const;
  /// Structural support for a storage dtype; allocates nothing. Default: only the current one.
  [[nodiscard]] virtual bool stores(const DType& dtype) const { return &dtype == &this->dtype(); }
  /// A fresh operation for a dispatch name. Default: NotImplementedError naming it.
  [[nodiscard]] virtual Ref<Operation> make_operation(std::string_view operation_name);
  /// Gives up the storage, once.
  virtual void on_release() {}
  /// Provides `size` zero slots for an empty carrier. Default: not growable.
  virtual void on_allocate(Index size);
  /// Takes back what on_allocate provided: the move that asked for it failed. Default: the slots stay.
  virtual void on_deallocate() {}
  /// Shipped carriers: one more successful mutation, ownership already tested.
  void advance_version() noexcept { version_.fetch_add(1, std::memory_order_acq_rel); }
  /// A carrier whose construction failed: released, without on_release.
  void abandon() noexcept { life_.store(Life::released, std::memory_order_release); }

 private:
  friend class OperandGuard;  // holds an operand as it is while somebody's kernel runs (X30)
  enum class Life : std::uint8_t { live, releasing, released };
  void require_access(std::string_view what) const;
  /// From now on `release` puts the storage's end off, until the last hold is dropped.
  void hold_storage();
  void drop_storage_hold();

  mutable std::atomic<const CarrierClass::Record*> carrier_class_{nullptr};
  std::atomic<std::int64_t> version_{0};
  std::atomic<OwnerToken> owner_token_{0};
  std::atomic<std::uint64_t> scope_thread_{0};  // 0: no scope is open
  std::uint32_t scope_depth_ = 0;               // only touched under ownership_mutex_
  std::uint32_t storage_holds_ = 0;             // likewise
  bool is_release_due_ = false;                 // likewise: released, with the storage still there
  std::atomic<Life> life_{Life::live};
  std::mutex ownership_mutex_;
};

/// Scope in which the owner of `carrier` may write to it, on this thread (S203).
class ORLOP_API OwnerAccess {
 public:
  OwnerAccess(Carrier& carrier, Carrier::OwnerToken token) : carrier_(carrier), token_(token) {
    carrier_.begin_owner_access(token_);
  }
  OwnerAccess(const OwnerAccess&) = delete;
  OwnerAccess& operator=(const OwnerAccess&) = delete;
  ~OwnerAccess();

 private:
  Carrier& carrier_;
  Carrier::OwnerToken token_;
};

/// Base of carriers whose capabilities depend on what they are built from (P29); open for subclassing.
class ORLOP_API DependentCarrier : public Carrier {
 public:
  ~DependentCarrier() override;
  /// The frozen capabilities; RuntimeError before finalize_dependent_capabilities.
  [[nodiscard]] const CapabilitySet& capability_snapshot() const;
  /// RuntimeError once the capabilities are finalized.
  void require_unfinalized() const;

 protected:
  DependentCarrier() noexcept;
  explicit DependentCarrier(CarrierClass carrier_class) noexcept;
  /// What this instance can do. Default: NotImplementedError.
  [[nodiscard]] virtual std::vector<CapabilityEntry> generate_operation_capabilities() const;
  /// Freezes the capabilities; called once, last in the subclass's constructor.
  void finalize_dependent_capabilities();
  /// The same with a set already at hand, shared with others: for a composite that can do what its tier can.
  void finalize_dependent_capabilities(std::shared_ptr<const CapabilitySet> capabilities);

 private:
  std::shared_ptr<const CapabilitySet> snapshot_;
};

/// CLOSED_CARRIER_MESSAGE of S108: `{name}` stands for the class.
ORLOP_API extern const std::string_view closed_carrier_message;

}  // namespace orlop::inline v0
