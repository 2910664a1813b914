// The hierarchy: construction, element access, factories and the two transitions.
#include <array>
#include <exception>

#include "orlop/carriers/evictable/evictable.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/storage/normalize.hpp"
#include "orlop/tensor/scatter.hpp"

namespace orlop::inline v0 {

namespace {

const CarrierClass evictable_class = detail::declare_shipped_class(typeid(Evictable), "Evictable", true);

/// Rows 1 to 10 of S301.
void check_tiers(const Ref<Carrier>& primary, const Ref<Carrier>& secondary) {
  if (!primary) raise<TypeError>("Evictable", "primary must be a Carrier");
  if (!secondary) raise<TypeError>("Evictable", "secondary must be a Carrier");
  if (primary == secondary)
    raise<ValueError>("Evictable", "primary and secondary must be distinct carriers: got one object for both");
  const auto check_state = [](const Carrier& tier, std::string_view role) {
    if (tier.is_released())
      raise<RuntimeError>("Evictable", role, " is released: a ", tier.carrier_class(), "; use a live carrier");
  };
  const auto check_owner = [](const Carrier& tier, std::string_view role) {
    if (tier.is_owned())
      raise<RuntimeError>("Evictable", role, " is already owned by another carrier; a tier has one owner");
  };
  check_state(*primary, "primary");
  check_state(*secondary, "secondary");
  check_owner(*primary, "primary");
  check_owner(*secondary, "secondary");
  if (&primary->dtype() != &secondary->dtype())
    raise<TypeError>("Evictable", "the tiers' dtypes must be identical: primary has ", primary->dtype().name(),
                     ", secondary ", secondary->dtype().name());
  if (!secondary->is_mutable())
    raise<RuntimeError>("Evictable", "secondary must be mutable: eviction writes to it; make it with mutable=True");
}

}  // namespace

Evictable::Evictable(Ref<Carrier> primary, Ref<Carrier> secondary)
    : DependentCarrier(evictable_class),
      dtype_(&primary->dtype()),
      size_(primary->size()),
      is_mutable_(primary->is_mutable()) {
  primary_ = {primary, primary->claim_ownership()};
  try {
    secondary_ = {secondary, secondary->claim_ownership()};
    finalize_dependent_capabilities(
        detail::capabilities_of(*primary).where_output([this](const DType& output) { return stores(output); }));
  } catch (...) {
    primary->relinquish_ownership(primary_.token);
    if (secondary_.token != 0) secondary->relinquish_ownership(secondary_.token);
    primary_ = secondary_ = {};
    throw;
  }
}

Ref<Evictable> Evictable::make_unsized(Ref<Carrier> primary, Ref<Carrier> secondary) {
  check_tiers(primary, secondary);
  return make_ref<Evictable>(std::move(primary), std::move(secondary));
}

Ref<Evictable> Evictable::make(Ref<Carrier> primary, Ref<Carrier> secondary) {
  check_tiers(primary, secondary);
  if (primary->size() < 1)
    raise<ValueError>("Evictable", "primary must hold at least one slot: it has ", primary->size());
  return make_ref<Evictable>(std::move(primary), std::move(secondary));
}

Evictable::~Evictable() {
  for (Tier* tier : {&primary_, &secondary_})
    if (tier->token != 0) tier->carrier->relinquish_ownership(tier->token);
}

bool Evictable::stores(const DType& dtype) const {
  return primary()->supports_storage_dtype(dtype) && secondary()->supports_storage_dtype(dtype);
}

std::string_view Evictable::residency() const noexcept {
  return is_released() ? "released" : is_evicted_ ? "evicted" : "promoted";
}

void Evictable::require_promoted() const {
  require_live();
  if (is_evicted_) raise<RuntimeError>("Evictable", "the values are evicted; promote() the carrier first");
}

// --- Elements ---------------------------------------------------------------------------------------------------

Scalar Evictable::get_value(Index index) const {
  check_readable(index);
  require_promoted();
  return primary()->at(index);
}

void Evictable::set_value(Index index, const Scalar& value) {
  check_writable(index);
  require_promoted();
  const OwnerAccess access(*primary(), primary_.token);
  primary()->store(index, value);
  advance_version();
}

void Evictable::scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
                        Index mapping_offset) {
  require_live();
  require_mutable();
  require_promoted();
  to_scatter.require_single_subtensor("scatter");
  scatter_onto.require_single_subtensor("scatter");
  if (scatter_onto.carrier().get() != this)
    raise<ValueError>("Evictable", "scatter_onto must be backed by the receiving carrier: it lives on another ",
                      scatter_onto.carrier_type());
  if (const auto* source = dynamic_cast<const Evictable*>(to_scatter.carrier().get())) source->require_promoted();
  const Tensor lowered = Tensor::trusted(primary(), scatter_onto.offset(), scatter_onto.layout());
  // A source on this very hierarchy reads the primary, too: the receiver of the lowered call is its own tier.
  const OwnerAccess access(*primary(), primary_.token);
  primary()->scatter(to_scatter, lowered, mapping, mapping_offset);
  advance_version();
}

void Evictable::read_span(Index first, Index count, void* out) const {
  require_promoted();
  primary()->read_span(first, count, out);
}

void Evictable::write_span(Index first, Index count, const void* in) {
  require_promoted();
  const OwnerAccess access(*primary(), primary_.token);
  primary()->write_span(first, count, in);
}

std::byte* Evictable::host_data() const noexcept {
  return is_released() || is_evicted_ ? nullptr : primary()->host_data();
}

const KernelTable* Evictable::kernel_table() const noexcept { return primary()->kernel_table(); }

// --- Factories --------------------------------------------------------------------------------------------------

Ref<Evictable> Evictable::hierarchy_over(Ref<Carrier> primary) const {
  const DType& dtype = primary->dtype();
  try {
    Ref<Carrier> secondary = this->secondary()->allocate_like(0, {.is_mutable = true, .dtype = dtype});
    return make_unsized(primary, std::move(secondary));
  } catch (...) {
    if (!primary->is_owned()) primary->release();
    throw;
  }
}

Ref<Carrier> Evictable::new_like(std::span<const Scalar> values, const NewLikeOptions& options) const {
  return hierarchy_over(primary()->new_like(values, {options.is_mutable, factory_dtype(options.dtype)}));
}

Ref<Carrier> Evictable::allocate_like(Index size, const AllocateOptions& options) const {
  AllocateOptions tier = options;
  tier.dtype = factory_dtype(options.dtype);
  return hierarchy_over(primary()->allocate_like(size, tier));
}

// --- Transitions (S306) -------------------------------------------------------------------------------------------

void Evictable::discard(Tier& tier) {
  if (!tier.carrier->is_released()) {
    const OwnerAccess access(*tier.carrier, tier.token);
    tier.carrier->release();
  }
  tier.carrier->relinquish_ownership(tier.token);
  tier = {};
}

void Evictable::evict() { transfer(primary_, secondary_, true); }
void Evictable::promote() { transfer(secondary_, primary_, false); }

void Evictable::transfer(Tier& from, Tier& to, bool evicts) {
  if (is_owned() && !has_owner_access())
    raise<RuntimeError>("Evictable", "an owned hierarchy cannot be modified directly; use its owner");
  require_live();
  if (is_evicted_ == evicts) return;

  const bool reuses = !to.carrier->is_released() && to.carrier->size() >= size_;
  Tier destination = to;
  if (!reuses) {
    Ref<Carrier> fresh = to.carrier->allocate_like(size_, {.is_mutable = true, .dtype = *dtype_});
    if (fresh->carrier_class() != to.carrier->carrier_class())
      raise<TypeError>("Evictable", "the tier's factory must return its own exact class ", to.carrier->carrier_class(),
                       ": got ", fresh->carrier_class());
    destination = {fresh, fresh->claim_ownership()};
  }
  try {
    const Ref<MoveOperation> operation =
        dispatch_move(from.carrier->carrier_class(), to.carrier->carrier_class()).make();
    const OwnerAccess source_access(*from.carrier, from.token);
    const OwnerAccess destination_access(*destination.carrier, destination.token);
    const std::array<Argument, 2> arguments{
        Argument(Tensor::trusted(from.carrier, 0, Layout(Shape{size_}, Stride{1}))), Argument::of(destination.carrier)};
    const Tensor result = execute_lowered_operation(*operation, arguments);
    if (result.carrier() != destination.carrier)
      raise<RuntimeError>("Evictable", operation->implementation_name(), " returned a Tensor on another carrier than the "
                          "destination; the transition is not made");
    from.carrier->release();
  } catch (...) {
    if (!reuses) discard(destination);
    throw;
  }
  is_evicted_ = evicts;
  if (reuses) return;
  std::swap(to, destination);
  discard(destination);
}

void Evictable::on_release() {
  std::exception_ptr first_error;
  for (Tier* tier : {&primary_, &secondary_}) {
    try {
      if (tier->carrier->is_released()) continue;
      const OwnerAccess access(*tier->carrier, tier->token);
      tier->carrier->release();
    } catch (...) {
      if (!first_error) first_error = std::current_exception();
    }
  }
  if (first_error) std::rethrow_exception(first_error);
  for (Tier* tier : {&primary_, &secondary_}) {
    tier->carrier->relinquish_ownership(tier->token);
    tier->token = 0;
  }
}

Ref<Operation> Evictable::make_operation(std::string_view operation_name) {
  require_promoted();
  return make_ref<EvictableOperation>(primary()->dispatch_op(operation_name));
}

void Evictable::visit_references(ReferenceVisitor& visitor) const {
  visitor.visit(primary_.carrier);
  visitor.visit(secondary_.carrier);
}

}  // namespace orlop::inline v0
