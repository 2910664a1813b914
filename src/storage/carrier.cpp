// The base of all carriers: element checks, ownership, version and release.
#include "orlop/storage/carrier.hpp"

#include <utility>

#include "orlop/storage/normalize.hpp"
#include "orlop/storage/storage_dtype.hpp"

namespace orlop::inline v0 {

namespace {

// One number per thread, from 1, never used again: a thread's id or address may come back after its end.
std::uint64_t this_thread_mark() noexcept {
  static std::atomic<std::uint64_t> next_mark{1};
  thread_local const std::uint64_t mark = next_mark.fetch_add(1, std::memory_order_relaxed);
  return mark;
}

void check_range(const Carrier& carrier, Index index) {
  const Index size = carrier.size();
  if (index < 0 || index >= size)
    raise<IndexError>(carrier.carrier_class().name(), "the index is out of range: ", index,
                      "; the carrier has ", size, " slots and indices start at 0");
}

}  // namespace

Carrier::Carrier() noexcept = default;
Carrier::Carrier(CarrierClass carrier_class) noexcept : carrier_class_(carrier_class.record()) {}
Carrier::~Carrier() = default;
DependentCarrier::DependentCarrier() noexcept = default;
DependentCarrier::DependentCarrier(CarrierClass carrier_class) noexcept : Carrier(carrier_class) {}
DependentCarrier::~DependentCarrier() = default;

CarrierClass Carrier::carrier_class() const {
  const auto* record = carrier_class_.load(std::memory_order_acquire);
  if (record == nullptr) {
    const bool dependent = dynamic_cast<const DependentCarrier*>(this) != nullptr;
    record = detail::native_carrier_class(typeid(*this), dependent).record();
    carrier_class_.store(record, std::memory_order_release);
  }
  return CarrierClass(record);
}

void Carrier::set_value(Index, const Scalar&) {
  raise<RuntimeError>(carrier_class().name(), "the carrier is not mutable; it implements no set_value");
}

DLPackInfo Carrier::dlpack_info() const {
  raise<BufferError>(
      carrier_class().name(),
      "DLPack export is not supported; move the Tensor to CPU first, or project() a tiled one");
}

void Carrier::read_span(Index first, Index count, void* out) const {
  const DType& type = dtype();
  auto* slot = static_cast<std::byte*>(out);
  for (Index i = 0; i < count; ++i, slot += type.slot_bytes()) encode_slot(type, get_value(first + i), slot);
}

void Carrier::write_span(Index first, Index count, const void* in) {
  const DType& type = dtype();
  const auto* slot = static_cast<const std::byte*>(in);
  for (Index i = 0; i < count; ++i, slot += type.slot_bytes()) set_value(first + i, decode_slot(type, slot));
}

void Carrier::require_live() const {
  if (life_.load(std::memory_order_acquire) == Life::released)
    raise<RuntimeError>(carrier_class().name(), "the carrier is released; its storage is gone for good");
}

void Carrier::require_mutable() const {
  if (is_mutable()) return;
  raise<RuntimeError>(
      carrier_class().name(), "the carrier is not mutable: ",
      intrinsic_mutable() ? "it is owned by another carrier; write through its owner" : immutable_reason());
}

std::string Carrier::immutable_reason() const {
  return "its storage permits no writes; make it with mutable=True";
}

void Carrier::check_readable(Index index) const {
  require_live();
  require_working();
  check_range(*this, index);
  require_reachable();
}

void Carrier::check_writable(Index index) const {
  require_live();
  require_working();
  require_mutable();
  check_range(*this, index);
  require_reachable();
}

std::string Carrier::to_string() const {
  return text(carrier_class(), "(size=", size(), ", dtype=", dtype().name(), ", residency=", residency_word(),
              ", version=", version(), ")");
}

Scalar Carrier::at(Index index) const {
  check_readable(index);
  return get_value(index);
}

void Carrier::store(Index index, const Scalar& value) {
  check_writable(index);
  const std::int64_t before = version();
  set_value(index, value);
  if (version() == before) increment_version();
}

bool Carrier::is_mutable() const { return intrinsic_mutable() && (!is_owned() || has_owner_access()); }

void Carrier::require_access(std::string_view what) const {
  if (is_owned() && !has_owner_access())
    raise<RuntimeError>(carrier_class().name(), what,
                        ": the carrier is owned by another carrier; use its owner");
}

void Carrier::release() {
  require_access("cannot be released directly");
  Life expected = Life::live;
  {
    const std::lock_guard lock(ownership_mutex_);
    if (storage_holds_ != 0) {
      is_release_due_ |= life_.compare_exchange_strong(expected, Life::released, std::memory_order_acq_rel);
      return;
    }
  }
  if (!life_.compare_exchange_strong(expected, Life::releasing, std::memory_order_acq_rel)) return;
  try {
    on_release();
  } catch (...) {
    life_.store(Life::live, std::memory_order_release);
    throw;
  }
  life_.store(Life::released, std::memory_order_release);
}

void Carrier::hold_storage() {
  const std::lock_guard lock(ownership_mutex_);
  ++storage_holds_;
}

void Carrier::drop_storage_hold() {
  {
    const std::lock_guard lock(ownership_mutex_);
    if (--storage_holds_ != 0 || !std::exchange(is_release_due_, false)) return;
    life_.store(Life::releasing, std::memory_order_release);
  }
  try {
    on_release();
  } catch (...) {
    life_.store(Life::live, std::memory_order_release);
    throw;
  }
  life_.store(Life::released, std::memory_order_release);
}

void Carrier::increment_version() {
  require_access("the version cannot be advanced");
  advance_version();
}

const DType& Carrier::factory_dtype(DTypeRef dtype) const {
  if (!dtype) return this->dtype();
  std::vector<const DType*> accepted;
  for (const DType* candidate :
       {static_cast<const DType*>(&dtypes::Float32), static_cast<const DType*>(&dtypes::Int32),
        static_cast<const DType*>(&dtypes::Bool)})
    if (stores(*candidate)) accepted.push_back(candidate);
  return validate_storage_dtype(*dtype, carrier_class().name(), accepted);
}

void Carrier::allocate(Index size) {
  const std::string_view name = carrier_class().name();
  if (size < 0) raise<ValueError>(name, "size must not be negative: ", size);
  require_live();
  require_mutable();
  if (this->size() != 0)
    raise<RuntimeError>(name, "only an empty carrier can be allocated: it has ", this->size(), " slots");
  on_allocate(size);
}

void Carrier::on_allocate(Index) {
  raise<NotImplementedError>(carrier_class().name(),
                             "the carrier cannot grow; allocate one of the right size");
}

namespace {
void require_token(const Carrier& carrier, Carrier::OwnerToken token, Carrier::OwnerToken current) {
  if (token == 0 || token != current)
    raise<RuntimeError>(carrier.carrier_class().name(),
                        "the ownership token is not current; only the owner's own token is");
}
}  // namespace

Carrier::OwnerToken Carrier::claim_ownership() {
  static std::atomic<OwnerToken> next_token{1};
  const std::lock_guard lock(ownership_mutex_);
  require_live();
  if (is_owned())
    raise<RuntimeError>(carrier_class().name(),
                        "the carrier is already owned by another carrier; it must relinquish it first");
  const OwnerToken token = next_token.fetch_add(1, std::memory_order_relaxed);
  owner_token_.store(token, std::memory_order_release);
  return token;
}

void Carrier::relinquish_ownership(OwnerToken token) {
  const std::lock_guard lock(ownership_mutex_);
  require_token(*this, token, owner_token_.load(std::memory_order_acquire));
  if (scope_depth_ != 0)
    raise<RuntimeError>(carrier_class().name(),
                        "an owner access scope is open; close it before relinquishing");
  owner_token_.store(0, std::memory_order_release);
}

void Carrier::begin_owner_access(OwnerToken token) {
  const std::lock_guard lock(ownership_mutex_);
  require_token(*this, token, owner_token_.load(std::memory_order_acquire));
  if (scope_depth_ != 0 && !has_owner_access())
    raise<RuntimeError>(carrier_class().name(), "another thread holds the owner access scope; wait for it");
  ++scope_depth_;
  scope_thread_.store(this_thread_mark(), std::memory_order_release);
}

void Carrier::end_owner_access(OwnerToken token) {
  const std::lock_guard lock(ownership_mutex_);
  require_token(*this, token, owner_token_.load(std::memory_order_acquire));
  if (!has_owner_access())
    raise<RuntimeError>(carrier_class().name(), "this thread holds no owner access scope");
  if (--scope_depth_ == 0) scope_thread_.store(0, std::memory_order_release);
}

OwnerAccess::~OwnerAccess() {
  try {
    carrier_.end_owner_access(token_);
  } catch (const RuntimeError&) {  // the child of a fork has forgotten the owner
  }
}

void Carrier::forget_owner() noexcept {
  std::construct_at(&ownership_mutex_);  // a thread of the parent may have held it
  scope_depth_ = 0;
  scope_thread_.store(0, std::memory_order_release);
  owner_token_.store(0, std::memory_order_release);
}

bool Carrier::has_owner_access() const noexcept {
  return scope_thread_.load(std::memory_order_acquire) == this_thread_mark();
}

const std::string_view closed_carrier_message =
    "[{name}] {name} is a closed carrier implementation and cannot be subclassed; write a sibling Carrier "
    "that "
    "is composed of existing ones";

}  // namespace orlop::inline v0
