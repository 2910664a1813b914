// Comparing and restoring operands.
#include "operation/operand_guard.hpp"

#include <algorithm>
#include <cstring>

#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

OperandGuard::OperandGuard(Ref<Carrier> carrier, bool is_authorized, bool compares_values)
    : carrier_(std::move(carrier)),
      is_authorized_(is_authorized),
      compares_values_(compares_values),
      version_(carrier_->version()) {
  if (!compares_values_) return;
  {
    const std::lock_guard lock(carrier_->ownership_mutex_);
    owner_ = carrier_->owner_token_.load(std::memory_order_acquire);
    scope_thread_ = carrier_->scope_thread_.load(std::memory_order_acquire);
    scope_depth_ = carrier_->scope_depth_;
  }
  size_ = carrier_->size();
  if (has_native_slots())
    slots_ = read_slots();
  else
    values_ = read_values();
  carrier_->hold_storage();
  holds_ = true;
}

OperandGuard::~OperandGuard() {
  try {
    let_go();
  } catch (...) {  // its storage goes with the last reference
  }
}

bool OperandGuard::has_native_slots() const { return carrier_->dtype().storage_type() != StorageType::other; }

std::vector<std::byte> OperandGuard::read_slots() const {
  std::vector<std::byte> slots(slots_to_bytes(carrier_->dtype(), size_));
  carrier_->read_span(0, size_, slots.data());
  return slots;
}

std::vector<Scalar> OperandGuard::read_values() const {
  std::vector<Scalar> values;
  values.reserve(static_cast<std::size_t>(size_));
  for (Index i = 0; i < size_; ++i) values.push_back(carrier_->get_value(i));
  return values;
}

bool OperandGuard::has_changed_values() const {
  if (carrier_->size() != size_) return true;
  return has_native_slots() ? read_slots() != slots_ : read_values() != values_;
}

std::string_view OperandGuard::unauthorized_change() const {
  if (compares_values_ && carrier_->owner_token_.load(std::memory_order_acquire) != owner_)
    return "ownership";
  if (is_authorized_) return {};
  if (compares_values_ && carrier_->is_released()) return "release";
  if (carrier_->version() != version_) return "version";
  return compares_values_ && has_changed_values() ? "values" : std::string_view();
}

void OperandGuard::commit() {
  if (is_authorized_) carrier_->version_.store(version_ + 1, std::memory_order_release);
  let_go();
}

void OperandGuard::let_go() {
  if (!std::exchange(holds_, false)) return;
  carrier_->drop_storage_hold();
}

void OperandGuard::restore_values() {
  if (!has_native_slots()) {
    const std::vector<Scalar> now = read_values();
    for (Index i = 0; i < size_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (!(now[at] == values_[at])) carrier_->set_value(i, values_[at]);
    }
    return;
  }
  // Only what differs: a write may be a call into somebody's code.
  const auto step = static_cast<std::size_t>(carrier_->dtype().slot_bytes());
  const std::vector<std::byte> now = read_slots();
  const auto differs = [&](std::size_t at) {
    return std::memcmp(now.data() + at, slots_.data() + at, step) != 0;
  };
  for (std::size_t at = 0; at < slots_.size(); at += step) {
    if (!differs(at)) continue;
    std::size_t end = at + step;
    while (end < slots_.size() && differs(end)) end += step;
    carrier_->write_span(static_cast<Index>(at / step), static_cast<Index>((end - at) / step),
                         slots_.data() + at);
    at = end;
  }
}

void OperandGuard::restore() {
  if (!compares_values_) return;
  const auto set_owner = [this](Carrier::OwnerToken owner, std::uint64_t thread, std::uint32_t depth) {
    const std::lock_guard lock(carrier_->ownership_mutex_);
    carrier_->owner_token_.store(owner, std::memory_order_release);
    carrier_->scope_thread_.store(thread, std::memory_order_release);
    carrier_->scope_depth_ = depth;
  };
  if (holds_) {
    const std::lock_guard lock(carrier_->ownership_mutex_);
    if (std::exchange(carrier_->is_release_due_, false))
      carrier_->life_.store(Carrier::Life::live, std::memory_order_release);
  }
  if (has_changed_values()) {
    set_owner(0, 0, 0);  // whoever owns the carrier now, these are its values
    try {
      restore_values();
    } catch (...) {
      set_owner(owner_, scope_thread_, scope_depth_);
      throw;
    }
  }
  set_owner(owner_, scope_thread_, scope_depth_);
  carrier_->version_.store(version_, std::memory_order_release);
  let_go();
}

OperandEffects::OperandEffects(const ResolvedInvocation& invocation, bool compares_values)
    : name_(invocation.name()) {
  const std::span<const std::size_t> mutated = invocation.mutated_operands();
  const auto is_mutated = [&](std::size_t position) {
    return std::ranges::find(mutated, position) != mutated.end();
  };
  const auto operands = invocation.operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Tensor* tensor = operands[i].tensor();
    if (tensor == nullptr) continue;
    const Ref<Carrier>& carrier = tensor->carrier();
    if (std::ranges::any_of(guards_, [&](const auto& guard) { return guard->carrier() == carrier.get(); }))
      continue;
    bool is_authorized = true;  // every position on this carrier
    for (std::size_t k = 0; k < operands.size(); ++k)
      if (const Tensor* other = operands[k].tensor(); other != nullptr && other->carrier() == carrier)
        is_authorized = is_authorized && is_mutated(k);
    guards_.push_back(std::make_unique<OperandGuard>(carrier, is_authorized, compares_values));
  }
}

void OperandEffects::check() const {
  for (const auto& guard : guards_)
    if (const std::string_view change = guard->unauthorized_change(); !change.empty())
      raise<ProviderContractError>(name_, "the provider changed an unauthorized operand: the ", change,
                                   " of a ", guard->carrier()->carrier_class(),
                                   "; only carriers whose every operand is in mutated_operands may change");
}

void OperandEffects::commit() {
  for (const auto& guard : guards_) guard->commit();
}

void OperandEffects::restore() {
  std::string failures;
  for (const auto& guard : guards_) {
    try {
      guard->restore();
    } catch (const std::exception& error) {
      failures += text(failures.empty() ? "" : ", ", error.what());
    }
  }
  if (!failures.empty())
    raise<ProviderContractError>(name_,
                                 "an operand that the provider changed could not be put back: ", failures);
}

}  // namespace orlop::inline v0
