// DefinedCarrier: the base of carriers whose slots are kept by the StorageProvider of their CarrierDefinition
// (X9-X11).
//
// Who owns the bytes: the carrier, through its provider; they go with `release()` or with the object. Atomic:
// what the provider makes atomic. Durable: likewise.
#pragma once

#include <memory>

#include "orlop/extension/storage_provider.hpp"

namespace orlop::inline v0 {

struct DefinedOptions {
  DTypeRef dtype{};  ///< required
  bool is_mutable = true;
};

/// Derive a concrete class `T` from DefinedCarrier, implement `make_blank()`, register its definition and
/// make instances with `make_defined<T>(slots, {.dtype = …})`. What the provider needs to know about one
/// carrier are members of `T`, set in its constructor.
template <class Base>
class ORLOP_API DefinedStorage : public Base {
 public:
  ~DefinedStorage() override;

  /// Storage for `slots` slots; called once, by make_defined. Errors: TypeError where the class has no
  /// definition or the dtype is missing; ValueError for a negative size;
  /// UnsupportedStorageDTypeError; ValueError ‹requested physical size› where the provider made another one;
  /// whatever the provider throws. After an error the carrier is released.
  void construct(Index slots, const DefinedOptions& options);

  [[nodiscard]] Index size() const override;
  [[nodiscard]] const DType& dtype() const override;
  [[nodiscard]] Scalar get_value(Index index) const override;
  void set_value(Index index, const Scalar& value) override;
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values,
                                      const NewLikeOptions& options = {}) const override;
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options = {}) const override;
  void scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
               Index mapping_offset = 0) override;
  void read_span(Index first, Index count, void* out) const override;
  void write_span(Index first, Index count, const void* in) override;
  [[nodiscard]] bool is_growable() const noexcept override { return true; }
  [[nodiscard]] const DType& factory_dtype(DTypeRef dtype) const override;

 protected:
  DefinedStorage() noexcept;
  explicit DefinedStorage(CarrierClass carrier_class) noexcept;

  /// A fresh object of the same exact class with the same configuration, not yet constructed.
  [[nodiscard]] virtual Ref<Carrier> make_blank() const = 0;
  /// A constructed carrier of the same exact class. Default: make_blank(), then construct().
  [[nodiscard]] virtual Ref<Carrier> make_same(Index slots, const DefinedOptions& options) const;

  [[nodiscard]] bool intrinsic_mutable() const override { return is_mutable_; }
  [[nodiscard]] bool stores(const DType& dtype) const override;
  void on_release() override;
  void on_allocate(Index size) override;

 private:
  [[nodiscard]] const StorageProvider& storage() const;
  void require_size(Index slots) const;
  [[nodiscard]] const DType& require_supported(const DType& dtype) const;

  std::shared_ptr<const StorageProvider> storage_;
  const DType* dtype_ = nullptr;
  bool is_mutable_ = true;
};

extern template class DefinedStorage<Carrier>;
extern template class DefinedStorage<DependentCarrier>;

using DefinedCarrier = DefinedStorage<Carrier>;
/// The same for a hierarchy: its constructor freezes what the definition's composite provider can do.
using DefinedDependentCarrier = DefinedStorage<DependentCarrier>;

/// A constructed carrier of class `T`, made from `arguments` of its constructor. Errors: see construct().
template <class T, class... Arguments>
[[nodiscard]] Ref<T> make_defined(Index slots, const DefinedOptions& options, Arguments&&... arguments) {
  Ref<T> carrier = make_ref<T>(std::forward<Arguments>(arguments)...);
  carrier->construct(slots, options);
  return carrier;
}

/// The same at `place`, for bindings that make the object there. After an error nothing is there.
template <class T, class... Arguments>
void construct_defined_at(T* place, Index slots, const DefinedOptions& options, Arguments&&... arguments) {
  T* const carrier = std::construct_at(place, std::forward<Arguments>(arguments)...);
  try {
    carrier->construct(slots, options);
  } catch (...) {
    std::destroy_at(carrier);
    throw;
  }
}

}  // namespace orlop::inline v0
