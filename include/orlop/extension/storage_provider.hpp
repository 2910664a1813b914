// StorageProvider: how a class with a CarrierDefinition keeps its slots (X10).
#pragma once

#include <functional>
#include <memory>

#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

/// A carrier class was asked for storage of a dtype that its provider does not support. In Python the
/// exception is a ValueError and a TypeError.
class ORLOP_API UnsupportedStorageDTypeError : public ValueError {
 public:
  using ValueError::ValueError;
  ~UnsupportedStorageDTypeError() override;
};

/// One object serves every carrier of a class, from any thread; what belongs to one carrier lies in the
/// carrier. An exception of a function is passed on, and version, ownership and graph stay as they were.
class ORLOP_API StorageProvider {
 public:
  StorageProvider() = default;
  StorageProvider(const StorageProvider&) = delete;
  StorageProvider& operator=(const StorageProvider&) = delete;
  virtual ~StorageProvider();

  /// Whether slots of this very descriptor can be stored; the same answer in every state, also released.
  [[nodiscard]] virtual bool supports_dtype(const Carrier& carrier, const DType& dtype) const = 0;
  /// Slots of a live carrier.
  [[nodiscard]] virtual Index physical_size(const Carrier& carrier) const = 0;
  /// Provides `slots` slots for a new carrier, or for one of size 0 that grows.
  virtual void allocate(Carrier& carrier, Index slots) const = 0;
  /// Gives the storage up, at most once. If it throws, the carrier stays live.
  virtual void release(Carrier& carrier) const = 0;
  /// The value of a slot in range.
  [[nodiscard]] virtual Scalar read(const Carrier& carrier, Index index) const = 0;
  /// Writes a slot in range; `value` is what a slot of the dtype holds.
  virtual void write(Carrier& carrier, Index index, const Scalar& value) const = 0;
  /// Whether a move without route may copy value by value; both classes must say so.
  [[nodiscard]] virtual bool elementwise_fallback() const { return false; }
  /// Copies `count` slots from `first` in the dtype's native encoding. Default: one read per slot.
  virtual void read_span(const Carrier& carrier, Index first, Index count, void* out) const;
  /// Default: one write per slot.
  virtual void write_span(Carrier& carrier, Index first, Index count, const void* in) const;
};

/// The functions of a provider, as fields; all are required.
struct StorageFunctions {
  std::function<bool(const Carrier&, const DType&)> supports_dtype;
  std::function<Index(const Carrier&)> physical_size;
  std::function<void(Carrier&, Index)> allocate;
  std::function<void(Carrier&)> release;
  std::function<Scalar(const Carrier&, Index)> read;
  std::function<void(Carrier&, Index, const Scalar&)> write;
  bool elementwise_fallback = false;
};

/// A provider of lambdas. TypeError where one is missing.
[[nodiscard]] ORLOP_API std::shared_ptr<const StorageProvider> make_storage(StorageFunctions functions);

}  // namespace orlop::inline v0
