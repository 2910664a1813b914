// Carriers over a StorageProvider: construction, element access, factories.
#include "orlop/extension/defined_carrier.hpp"

#include "extension/class_definition.hpp"
#include "orlop/storage/normalize.hpp"
#include "orlop/storage/storage_dtype.hpp"
#include "orlop/tensor/scatter.hpp"

namespace orlop::inline v0 {

namespace {

/// Gives up the storage of a carrier that a failed call has made.
void release_quietly(Carrier& carrier) noexcept {
  try {
    carrier.release();
  } catch (...) {  // the first error is the one that counts
  }
}

/// Writes to a fresh carrier, which goes where that fails.
template <class Write>
void fill(const Ref<Carrier>& fresh, Write write) {
  try {
    write();
  } catch (...) {
    release_quietly(*fresh);
    throw;
  }
}

void write_zeros(const StorageProvider& storage, Carrier& carrier, Index count) {
  if (const auto zero = storage_zero(carrier.dtype()))
    for (Index index = 0; index < count; ++index) storage.write(carrier, index, *zero);
}

}  // namespace

template <class Base>
DefinedStorage<Base>::DefinedStorage() noexcept = default;
template <class Base>
DefinedStorage<Base>::DefinedStorage(CarrierClass carrier_class) noexcept : Base(carrier_class) {}
template <class Base>
DefinedStorage<Base>::~DefinedStorage() = default;

template <class Base>
const StorageProvider& DefinedStorage<Base>::storage() const {
  if (storage_ == nullptr)
    raise<RuntimeError>(this->carrier_class().name(),
                        "the carrier is not constructed; make_defined gives one that is");
  return *storage_;
}

// --- Construction (X9)

template <class Base>
void DefinedStorage<Base>::construct(Index slots, const DefinedOptions& options) {
  const CarrierClass exact = this->carrier_class();
  detail::observe_class(exact);
  const ClassDefinition* defined = find_class_definition(exact);
  if (defined == nullptr)
    raise<TypeError>(exact.name(), "definition-free Carrier construction: ", exact,
                     " has no CarrierDefinition of its own; register one first");
  if (storage_ != nullptr)
    raise<RuntimeError>(exact.name(), "the carrier is already constructed; make another one");
  if (slots < 0) raise<ValueError>(exact.name(), "slots must not be negative: got ", slots);
  if (!options.dtype) raise<TypeError>(exact.name(), "dtype must be given: got none; name that of the slots");
  storage_ = defined->definition().storage;
  dtype_ = options.dtype.get();
  bool is_allocated = false;
  try {
    static_cast<void>(require_supported(*dtype_));
    storage_->allocate(*this, slots);
    is_allocated = true;
    require_size(slots);
    if constexpr (std::is_base_of_v<DependentCarrier, Base>)
      this->finalize_dependent_capabilities(
          CapabilitySet::make(defined->definition().composite->capabilities(*this)));
  } catch (...) {
    if (is_allocated) release_quietly(*this);
    this->abandon();
    throw;
  }
  is_mutable_ = options.is_mutable;
}

template <class Base>
const DType& DefinedStorage<Base>::require_supported(const DType& dtype) const {
  if (dtype.is_compound() || !stores(dtype))
    throw UnsupportedStorageDTypeError(
        message(this->carrier_class().name(), "the class does not support storage dtype ", dtype.name(),
                dtype.is_compound() ? ", whose several planes no homogeneous storage can hold; multi-plane "
                                      "storage is deferred"
                                    : "; supports_storage_dtype() tells which it does"));
  return dtype;
}

template <class Base>
void DefinedStorage<Base>::require_size(Index slots) const {
  if (const Index made = size(); made != slots)
    raise<ValueError>(this->carrier_class().name(), "the provider did not make the requested physical size ",
                      slots, ": physical_size() says ", made);
}

template <class Base>
Ref<Carrier> DefinedStorage<Base>::make_same(Index slots, const DefinedOptions& options) const {
  const Ref<Carrier> fresh = make_blank();
  auto* defined = dynamic_cast<DefinedStorage*>(fresh.get());
  if (defined == nullptr || fresh->carrier_class() != this->carrier_class())
    raise<TypeError>(this->carrier_class().name(), "make_blank must return a carrier of the same class: got ",
                     fresh ? fresh->carrier_class().name() : "none");
  defined->construct(slots, options);
  return fresh;
}

template <class Base>
const DType& DefinedStorage<Base>::factory_dtype(DTypeRef dtype) const {
  return dtype ? require_supported(*dtype) : this->dtype();
}

template <class Base>
Ref<Carrier> DefinedStorage<Base>::new_like(Sequence<Scalar> values, const NewLikeOptions& options) const {
  const DType& type = factory_dtype(options.dtype);
  std::vector<Scalar> normalized;  // all of them before anything is allocated
  normalized.reserve(values.size());
  for (const Scalar& value : values) normalized.push_back(normalize(type, value));
  Ref<Carrier> fresh =
      make_same(static_cast<Index>(values.size()), {.dtype = type, .is_mutable = options.is_mutable});
  fill(fresh, [&] {
    Index index = 0;
    for (const Scalar& value : normalized) storage_->write(*fresh, index++, value);
  });
  return fresh;
}

template <class Base>
Ref<Carrier> DefinedStorage<Base>::allocate_like(Index size, const AllocateOptions& options) const {
  const DType& type = factory_dtype(options.dtype);
  Ref<Carrier> fresh = make_same(size, {.dtype = type, .is_mutable = options.is_mutable});
  if (!options.empty) fill(fresh, [&] { write_zeros(*storage_, *fresh, size); });
  return fresh;
}

// --- Slots

template <class Base>
Index DefinedStorage<Base>::size() const {
  if (this->is_released()) return 0;
  const Index size = storage().physical_size(*this);
  if (size < 0)
    raise<ValueError>(this->carrier_class().name(), "physical_size must not be negative: the provider gave ",
                      size);
  return size;
}

template <class Base>
const DType& DefinedStorage<Base>::dtype() const {
  static_cast<void>(storage());
  return *dtype_;
}

template <class Base>
bool DefinedStorage<Base>::stores(const DType& dtype) const {
  return storage().supports_dtype(*this, dtype);
}

template <class Base>
Scalar DefinedStorage<Base>::get_value(Index index) const {
  this->check_readable(index);
  return normalize(*dtype_, storage().read(*this, index));
}

template <class Base>
void DefinedStorage<Base>::set_value(Index index, const Scalar& value) {
  this->check_writable(index);
  storage().write(*this, index, normalize(*dtype_, value));
  this->advance_version();
}

template <class Base>
void DefinedStorage<Base>::read_span(Index first, Index count, void* out) const {
  storage().read_span(*this, first, count, out);
}

template <class Base>
void DefinedStorage<Base>::write_span(Index first, Index count, const void* in) {
  storage().write_span(*this, first, count, in);
}

template <class Base>
void DefinedStorage<Base>::scatter(const Tensor& to_scatter, const Tensor& scatter_onto,
                                   const Layout& mapping, Index mapping_offset) {
  scatter_values(*this, to_scatter, scatter_onto, mapping, mapping_offset);
  this->advance_version();
}

template <class Base>
void DefinedStorage<Base>::on_release() {
  storage().release(*this);
}

template <class Base>
void DefinedStorage<Base>::on_allocate(Index size) {
  storage().allocate(*this, size);
  require_size(size);
  write_zeros(*storage_, *this, size);
}

template class DefinedStorage<Carrier>;
template class DefinedStorage<DependentCarrier>;

}  // namespace orlop::inline v0
