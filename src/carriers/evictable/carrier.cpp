// The hierarchy: construction, element access, factories and the two transitions.
#include <array>
#include <exception>

#include "orlop/base/log.hpp"
#include "orlop/carriers/evictable/evictable.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/profiler.hpp"
#include "orlop/storage/normalize.hpp"
#include "orlop/tensor/scatter.hpp"

namespace orlop::inline v0 {

namespace {

const CarrierClass evictable_class = detail::declare_shipped_class(typeid(Evictable), "Evictable", true);

/// Rows 12 and 13 of S301: values must be able to go and to come back.
void check_route(CarrierClass source, CarrierClass destination) {
  const auto is_exact = [](CarrierClass carrier_class) {
    return detail::route_policy(carrier_class) == detail::RoutePolicy::exact;
  };
  if ((is_exact(source) || is_exact(destination)) && !has_move_operation(source, destination))
    raise<RuntimeError>("Evictable", "the tiers need an exact registered move operation for (", source, ", ",
                        destination, "): none is registered; register both directions first");
  static_cast<void>(detail::find_move_route(source, destination));
}

/// Rows 1 to 13 of S301; `smallest` slots are the least that the primary must have.
void check_tiers(const Ref<Carrier>& primary, const Ref<Carrier>& secondary, Index smallest) {
  if (!primary)
    raise<TypeError>("Evictable", "primary must be a Carrier: got none; give the one that computes");
  if (!secondary)
    raise<TypeError>("Evictable",
                     "secondary must be a Carrier: got none; give the one that keeps evicted values");
  if (detail::route_policy(primary->carrier_class()) == detail::RoutePolicy::built_in)
    raise<TypeError>("Evictable", "a ", primary->carrier_class(),
                     " is not a supported primary tier; use a CPU");
  if (primary == secondary)
    raise<ValueError>("Evictable",
                      "primary and secondary must be distinct carriers: got one object for both");
  const auto check_state = [](const Carrier& tier, std::string_view role) {
    if (tier.is_released())
      raise<RuntimeError>("Evictable", role, " is released: a ", tier.carrier_class(),
                          "; use a live carrier");
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
    raise<TypeError>("Evictable", "the tiers' dtypes must be identical: primary has ",
                     primary->dtype().name(), ", secondary ", secondary->dtype().name());
  if (!secondary->is_mutable())
    raise<RuntimeError>("Evictable",
                        "secondary must be mutable: eviction writes to it; make it with mutable=True");
  if (primary->size() < smallest)
    raise<ValueError>("Evictable", "primary must hold at least one slot: it has ", primary->size());
  check_route(primary->carrier_class(), secondary->carrier_class());
  check_route(secondary->carrier_class(), primary->carrier_class());
}

}  // namespace

Evictable::Evictable(const Ref<Carrier>& primary, const Ref<Carrier>& secondary)
    : DependentCarrier(evictable_class),
      dtype_(&primary->dtype()),
      size_(primary->size()),
      is_mutable_(primary->is_mutable()) {
  primary_ = {primary, primary->claim_ownership()};
  try {
    secondary_ = {secondary, secondary->claim_ownership()};
    finalize_dependent_capabilities(detail::capabilities_of(*primary).where_output(
        [this](const DType& output) { return stores(output); }));
  } catch (...) {
    primary->relinquish_ownership(primary_.token);
    if (secondary_.token != 0) secondary->relinquish_ownership(secondary_.token);
    primary_ = secondary_ = {};
    throw;
  }
}

Ref<Evictable> Evictable::make_unsized(const Ref<Carrier>& primary, const Ref<Carrier>& secondary) {
  check_tiers(primary, secondary, 0);
  return make_ref<Evictable>(primary, secondary);
}

Ref<Evictable> Evictable::make(const Ref<Carrier>& primary, const Ref<Carrier>& secondary) {
  check_tiers(primary, secondary, 1);
  return make_ref<Evictable>(primary, secondary);
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

// --- Elements

// Each call holds the primary: one that lets the interpreter go may be overtaken by a transition that
// replaces it.

Scalar Evictable::get_value(Index index) const {
  check_readable(index);
  const Ref<Carrier> tier = primary();
  return tier->at(index);
}

void Evictable::set_value(Index index, const Scalar& value) {
  check_writable(index);
  const Ref<Carrier> tier = primary();
  const OwnerAccess access(*tier, primary_.token);
  tier->store(index, value);
  advance_version();
}

void Evictable::scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
                        Index mapping_offset) {
  check_scatter(*this, to_scatter, scatter_onto, mapping);
  if (const auto* source = dynamic_cast<const Evictable*>(to_scatter.carrier().get()))
    source->require_promoted();
  const Tensor lowered = Tensor::trusted(primary(), scatter_onto.offset(), scatter_onto.layout());
  const OwnerAccess access(*lowered.carrier(), primary_.token);
  lowered.carrier()->scatter(to_scatter, lowered, mapping, mapping_offset);
  advance_version();
}

void Evictable::read_span(Index first, Index count, void* out) const {
  require_promoted();
  const Ref<Carrier> tier = primary();
  tier->read_span(first, count, out);
}

void Evictable::write_span(Index first, Index count, const void* in) {
  require_promoted();
  const Ref<Carrier> tier = primary();
  const OwnerAccess access(*tier, primary_.token);
  tier->write_span(first, count, in);
}

std::byte* Evictable::host_data() const noexcept {
  return is_released() || is_evicted_ ? nullptr : primary()->host_data();
}

const KernelTable* Evictable::kernel_table() const noexcept { return primary()->kernel_table(); }

// --- Factories

namespace {

/// Gives up storage that a failed call has made, unless somebody else owns it.
void release_unowned(const Ref<Carrier>& carrier) noexcept {
  try {
    if (carrier && !carrier->is_owned()) carrier->release();
  } catch (...) {  // the first error is the one that counts
  }
}

}  // namespace

Ref<Evictable> Evictable::hierarchy_over(const Ref<Carrier>& primary) const {
  Ref<Carrier> secondary;
  try {
    secondary = this->secondary()->allocate_like(0, {.is_mutable = true, .dtype = primary->dtype()});
    return make_unsized(primary, secondary);
  } catch (...) {
    release_unowned(primary);
    release_unowned(secondary);
    throw;
  }
}

Ref<Carrier> Evictable::new_like(Sequence<Scalar> values, const NewLikeOptions& options) const {
  return hierarchy_over(primary()->new_like(values, {options.is_mutable, factory_dtype(options.dtype)}));
}

Ref<Carrier> Evictable::allocate_like(Index size, const AllocateOptions& options) const {
  AllocateOptions tier = options;
  tier.dtype = factory_dtype(options.dtype);
  return hierarchy_over(primary()->allocate_like(size, tier));
}

// --- Transitions (S306)

/// Lets one transition or release run at a time, on whatever thread: a second one is refused, not queued, so
/// that a hook that comes back here cannot wait for itself.
class Evictable::Exclusive {
 public:
  explicit Exclusive(Evictable& hierarchy) : hierarchy_(hierarchy) {
    if (hierarchy.is_changing_.exchange(true, std::memory_order_acq_rel))
      raise<RuntimeError>("Evictable",
                          "another transition or the release of this hierarchy is running; wait for it");
  }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;
  ~Exclusive() { hierarchy_.is_changing_.store(false, std::memory_order_release); }

 private:
  Evictable& hierarchy_;
};

// A tier that holds no value any more. The transition has succeeded or failed already: storage that cannot be
// given up now goes with its last holder. By value: the caller's tier may be replaced while it goes.
void Evictable::discard(Tier tier) noexcept {  // NOLINT(performance-unnecessary-value-param)
  try {
    const OwnerAccess access(*tier.carrier, tier.token);
    tier.carrier->release();
  } catch (...) {
    log(LogChannel::residency, "Evictable: a replaced ", tier.carrier->carrier_class(),
        " could not be released");
  }
  tier.carrier->relinquish_ownership(tier.token);
}

void Evictable::evict() { transfer(primary_, secondary_, true); }
void Evictable::promote() { transfer(secondary_, primary_, false); }

/// Where the values go: the tier itself where they fit, else fresh storage of its kind, claimed.
Evictable::Tier Evictable::provide(const Tier& tier) const {
  if (!tier.carrier->is_released() && tier.carrier->size() >= size_) return tier;
  Ref<Carrier> fresh =
      tier.carrier->allocate_like(size_, {.is_mutable = true, .dtype = *dtype_, .empty = true});
  if (fresh->carrier_class() != tier.carrier->carrier_class()) {
    release_unowned(fresh);
    raise<TypeError>("Evictable", "the tier's factory must return its own exact class ",
                     tier.carrier->carrier_class(), ": got ", fresh->carrier_class());
  }
  const OwnerToken token = fresh->claim_ownership();
  return {std::move(fresh), token};
}

void Evictable::transfer(Tier& from, Tier& to, bool evicts) {
  if (is_owned() && !has_owner_access())
    raise<RuntimeError>("Evictable", "an owned hierarchy cannot be modified directly; use its owner");
  require_live();
  if (is_evicted_ == evicts) return;
  const Exclusive exclusive(*this);
  require_live();
  if (is_evicted_ == evicts) return;

  const auto bytes = static_cast<Index>(slots_to_bytes(*dtype_, size_));
  detail::ResidencySpan span(evicts ? "evict" : "promote", carrier_class(), bytes);
  const Tier destination = provide(to);
  const bool is_fresh = destination.carrier != to.carrier;
  try {
    const Ref<MoveOperation> operation =
        detail::find_move_route(from.carrier->carrier_class(), to.carrier->carrier_class()).make();
    const OwnerAccess source_access(*from.carrier, from.token);
    const OwnerAccess destination_access(*destination.carrier, destination.token);
    if (size_ == 0) {
      from.carrier->release();  // a factory's empty hierarchy has no values that a Tensor could hold
    } else {
      const Tensor values = Tensor::trusted(from.carrier, 0, Layout(Shape{size_}, Stride{1}));
      const std::array<Argument, 2> arguments{Argument(values), Argument::of(destination.carrier)};
      // Checks the result and releases the source, last.
      static_cast<void>(execute_lowered_operation(*operation, arguments));
    }
  } catch (...) {
    if (is_fresh) discard(destination);
    throw;
  }
  span.close(true);
  is_evicted_ = evicts;
  if (is_fresh) discard(std::exchange(to, destination));
  log(LogChannel::residency, "Evictable: ", evicts ? "evicted " : "promoted ", size_, " ", dtype_->name(),
      " slots from ", from.carrier->carrier_class(), " to ", to.carrier->carrier_class());
}

void Evictable::on_release() {
  const Exclusive exclusive(*this);
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
  for (Tier* tier : {&primary_, &secondary_})
    tier->carrier->relinquish_ownership(std::exchange(tier->token, 0));
  log(LogChannel::residency, "Evictable: released ", size_, " ", dtype_->name(), " slots");
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
