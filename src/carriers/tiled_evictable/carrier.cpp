// The tiled carrier: construction in order, elements, factories, release.
#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "carriers/tiled_evictable/tile_store.hpp"
#include "orlop/base/log.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::string_view what = "TiledEvictable";

const CarrierClass tiled_class =
    detail::declare_shipped_class(typeid(TiledEvictable), "TiledEvictable", true);

// --- Capabilities (X61)

/// The operations that run on all tiles at once.
constexpr std::array<std::string_view, 6> direct_names{"add", "elementwise_mul", "matmul",
                                                       "mul", "reduce_sum",      "relu"};

bool has_first_tensor(const OperationCapability& capability, const DType& dtype) {
  for (const OperandCapability& operand : capability.operands)
    if (operand.role == OperandRole::Tensor) return operand.dtype == &dtype;
  return false;
}

/// What a carrier of `dtype` over `primary` can do: one set per set of the primary's and dtype. Sets of
/// classes live as long as the process, and so do these, which share nothing with whoever registered the
/// others.
std::shared_ptr<const CapabilitySet> direct_capabilities(const Carrier& primary, const DType& dtype) {
  const std::shared_ptr<const CapabilitySet> storable = detail::capabilities_of(primary).where_output(
      [&](const DType& output) { return primary.supports_storage_dtype(output); });
  using Key = std::pair<const CapabilitySet*, const DType*>;
  static std::mutex mutex;
  static auto& known = *std::make_unique<std::map<Key, std::shared_ptr<const CapabilitySet>>>().release();
  const std::lock_guard lock(mutex);
  std::shared_ptr<const CapabilitySet>& set = known[{storable.get(), &dtype}];
  if (set != nullptr) return set;
  std::vector<CapabilitySet::Entry> entries;
  const auto add = [&](const OperationCapability& capability) {
    if (std::ranges::none_of(entries, [&](const auto& present) { return *present == capability; }))
      entries.push_back(std::make_shared<const OperationCapability>(capability));
  };
  for (const std::string_view name : direct_names)
    for (const CapabilitySet::Entry& entry : storable->named(name)) {
      if (!has_first_tensor(*entry, dtype)) continue;
      add(*entry);
      const auto& operands = entry->operands;
      if (name != "mul" || operands[0].role == operands[1].role) continue;
      add({entry->operation,
           {operands[1], operands[0]},
           entry->compute,
           entry->accumulation,
           entry->accumulator_dtype,
           entry->output});
    }
  return set = CapabilitySet::make(std::move(entries));
}

// --- Construction (X40)

void check_tier(const Carrier& tier, std::string_view role, const TileGrid& grid) {
  if (const Index size = tier.size(); size != 0 && size != grid.size())
    raise<ValueError>(what, role, " must be empty or hold the full extent of ", grid.size(),
                      " slots: it has ", size);
  const DType& dtype = tier.dtype();
  if (!tier.supports_storage_dtype(dtype) || dtype.storage_type() == StorageType::other)
    raise<TypeError>(what, role, " does not support tiles of dtype ", dtype.name(),
                     "; use Float32, Int32 or Bool");
}

void check_budget(std::optional<std::int64_t> budget, Index tile_bytes) {
  if (budget && *budget < tile_bytes)
    raise<ValueError>(what, "primary_budget_bytes must hold at least one tile: got ", *budget,
                      ", a tile has ", tile_bytes, " bytes; raise the budget or use smaller tiles");
}

std::shared_ptr<ResidencyPolicy> hold(const std::shared_ptr<ResidencyPolicy>& policy) {
  if (policy == nullptr) return nullptr;
  std::shared_ptr<ResidencyPolicy> own = policy->held_again();
  return own != nullptr ? own : policy;
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::string_view to_string(TileLocation location) noexcept {
  constexpr std::array<std::string_view, 4> names{"primary", "secondary", "implicit", "invalid"};
  return names[static_cast<std::size_t>(location)];
}

void TiledEvictable::check_tiers(const Ref<Carrier>& primary, const Ref<Carrier>& secondary) {
  if (!primary) raise<TypeError>(what, "primary must be a Carrier: got none; give the one that computes");
  if (!secondary)
    raise<TypeError>(what, "secondary must be a Carrier: got none; give the one that keeps evicted tiles");
  const auto check_independent = [](const Carrier& tier, std::string_view role) {
    if (tier.carrier_class().is_dependent())
      raise<TypeError>(what, role, " must not depend on other carriers: got a ", tier.carrier_class());
  };
  check_independent(*primary, "primary");
  check_independent(*secondary, "secondary");
  if (primary == secondary)
    raise<ValueError>(what, "primary and secondary must be distinct carriers: got one object for both");
  const auto check_state = [](const Carrier& tier, std::string_view role) {
    if (tier.is_released())
      raise<RuntimeError>(what, role, " is released: a ", tier.carrier_class(), "; use a live carrier");
  };
  const auto check_owner = [](const Carrier& tier, std::string_view role) {
    if (tier.is_owned())
      raise<RuntimeError>(what, role, " is already owned by another carrier; a tier has one owner");
  };
  check_state(*primary, "primary");
  check_state(*secondary, "secondary");
  check_owner(*primary, "primary");
  check_owner(*secondary, "secondary");
  if (&primary->dtype() != &secondary->dtype())
    raise<TypeError>(what, "the tiers' dtypes must be identical: primary has ", primary->dtype().name(),
                     ", secondary ", secondary->dtype().name());
}

void TiledEvictable::check_sizes(const Carrier& primary, const Carrier& secondary, const TileGrid& grid) {
  check_tier(primary, "primary", grid);
  check_tier(secondary, "secondary", grid);
}

struct TiledEvictable::Parts {
  Ref<Carrier> primary;
  Ref<Carrier> secondary;
  TileGrid grid;
  bool is_mutable;
  std::shared_ptr<ResidencyPolicy> policy;
  std::optional<std::int64_t> budget;
  detail::TileFlags initial{};
  bool evicts_to_seed = false;
};

TiledEvictable::TiledEvictable(Parts parts)
    : DependentCarrier(v0::carrier_class<TiledEvictable>()),
      primary_(std::move(parts.primary)),
      secondary_(std::move(parts.secondary)),
      grid_(std::move(parts.grid)),
      dtype_(&primary_->dtype()),
      is_mutable_(parts.is_mutable),
      policy_(hold(parts.policy)),
      budget_(parts.budget),
      serial_(next_serial()) {
  store_ = std::make_unique<detail::TileStore>(*this, parts.initial, parts.evicts_to_seed);
  try {
    primary_token_ = primary_->claim_ownership();
    secondary_token_ = secondary_->claim_ownership();
    finalize_dependent_capabilities(direct_capabilities(*primary_, *dtype_));
  } catch (...) {
    give_tiers_back();
    throw;
  }
}

Ref<TiledEvictable> TiledEvictable::make(const Ref<Carrier>& primary, const Ref<Carrier>& secondary,
                                         const TiledOptions& options) {
  check_tiers(primary, secondary);
  TileGrid grid(options.grid_shape, options.tile_shape);
  check_sizes(*primary, *secondary, grid);
  check_budget(options.primary_budget_bytes, grid.tile_size() * primary->dtype().slot_bytes());
  const bool has_primary = primary->size() != 0;
  const bool has_secondary = secondary->size() != 0;
  const bool is_seed_writable =
      has_secondary && secondary->carrier_class().is_shipped() && secondary->is_mutable();
  detail::TileFlags initial;
  if (has_primary) {
    initial.location = TileLocation::primary;
    initial.on_primary_seed = true;
  } else if (has_secondary) {
    initial.location = TileLocation::secondary;
    initial.on_secondary_seed = secondary->carrier_class().is_shipped();
  }
  Ref<TiledEvictable> made = make_ref<TiledEvictable>(
      Parts{primary, secondary, std::move(grid), primary->is_mutable(), options.residency_policy,
            options.primary_budget_bytes, initial, is_seed_writable && !has_primary});
  if (has_primary) {
    if (is_seed_writable) made->store_->use_seed_as_backing();
    made->store_->place_primary_seed();
  } else if (has_secondary && !initial.on_secondary_seed) {
    made->store_->place_secondary_seed();
  }
  return made;
}

void TiledEvictable::give_tiers_back() noexcept {
  if (primary_token_ != 0) primary_->relinquish_ownership(std::exchange(primary_token_, 0));
  if (secondary_token_ != 0) secondary_->relinquish_ownership(std::exchange(secondary_token_, 0));
}

TiledEvictable::~TiledEvictable() { give_tiers_back(); }

bool TiledEvictable::stores(const DType& dtype) const {
  return primary_->supports_storage_dtype(dtype) && secondary_->supports_storage_dtype(dtype);
}

Index TiledEvictable::tile_bytes() const noexcept { return grid_.tile_size() * dtype_->slot_bytes(); }
Index TiledEvictable::primary_bytes() const { return store_->primary_bytes(); }

// --- Elements

Scalar TiledEvictable::get_value(Index index) const {
  check_readable(index);
  std::array<std::byte, 8> slot{};
  store_->read(index, 1, slot.data());
  return decode_slot(*dtype_, slot.data());
}

void TiledEvictable::set_value(Index index, const Scalar& value) {
  check_writable(index);
  std::array<std::byte, 8> slot{};
  encode_slot(*dtype_, value, slot.data());
  store_->write(grid_.place(index), 1, slot.data());
  advance_version();
}

void TiledEvictable::read_span(Index first, Index count, void* out) const {
  require_live();
  store_->read(first, count, static_cast<std::byte*>(out));
}

void TiledEvictable::write_span(Index first, Index count, const void* in) {
  require_live();
  const auto* slots = static_cast<const std::byte*>(in);
  while (count > 0) {
    const TileGrid::Place place = grid_.place(first);
    const Index part = std::min(count, grid_.run() - place.position % grid_.run());
    store_->write(place, part, slots);
    first += part;
    count -= part;
    slots += part * dtype_->slot_bytes();
  }
}

// --- Residency

TileState TiledEvictable::tile_state(Sequence<Index> coordinate) const {
  const TileSet tile({TileCoordinate(coordinate.begin(), coordinate.end())});
  return tile_state(tile.numbers(grid_.grid_shape()).front());
}

TileState TiledEvictable::tile_state(Index tile) const { return store_->state(tile); }

TileSet TiledEvictable::primary_tiles() const {
  return store_->tiles_where([](const detail::Tile& tile) { return tile.location == TileLocation::primary; });
}
TileSet TiledEvictable::secondary_tiles() const {
  return store_->tiles_where(
      [](const detail::Tile& tile) { return tile.location == TileLocation::secondary; });
}
TileSet TiledEvictable::valid_tiles() const {
  return store_->tiles_where([](const detail::Tile& tile) { return tile.location != TileLocation::invalid; });
}
TileSet TiledEvictable::dirty_tiles() const {
  return store_->tiles_where([](const detail::Tile& tile) { return tile.is_dirty; });
}

std::string TiledEvictable::tile_symbols() const { return store_->symbols(); }

AwaitResidency TiledEvictable::promote_async(const TileSet& tiles) {
  return require_facet<TiledResidencyFacet>().promote_async(*this, tiles);
}
AwaitResidency TiledEvictable::evict_async(const TileSet& tiles) {
  return require_facet<TiledResidencyFacet>().evict_async(*this, tiles);
}

Index TiledEvictable::pending_requests() const { return store_->pending_requests(); }
streaming::ResidencyStats TiledEvictable::residency_stats() const { return store_->stats(); }
void TiledEvictable::reset_residency_stats() { store_->reset_stats(); }

// --- Factories

Ref<TiledEvictable> TiledEvictable::make_like(bool is_implicit, const DType& dtype, bool is_mutable) const {
  const AllocateOptions empty{.is_mutable = is_mutable, .dtype = factory_dtype(dtype)};
  Ref<Carrier> primary = primary_->allocate_like(0, empty);
  Ref<Carrier> secondary = secondary_->allocate_like(0, {.is_mutable = true, .dtype = dtype});
  check_tiers(primary, secondary);
  check_sizes(*primary, *secondary, grid_);
  check_budget(budget_, grid_.tile_size() * dtype.slot_bytes());
  detail::TileFlags initial;
  if (is_implicit) initial.location = TileLocation::implicit;
  return make_ref<TiledEvictable>(
      Parts{std::move(primary), std::move(secondary), grid_, is_mutable, policy_, budget_, initial});
}

Ref<Carrier> TiledEvictable::new_like(Sequence<Scalar> values, const NewLikeOptions& options) const {
  if (const auto count = static_cast<Index>(values.size()); count != grid_.size())
    raise<ValueError>(what, "new_like needs a value for every slot: ", grid_.size(), " expected, ", count,
                      " given");
  const DType& dtype = factory_dtype(options.dtype);
  std::vector<std::byte> slots(slots_to_bytes(dtype, grid_.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    encode_slot(dtype, values[i], slots.data() + i * static_cast<std::size_t>(dtype.slot_bytes()));
  Ref<TiledEvictable> made = make_like(true, dtype, options.is_mutable);
  made->store_->place_values(slots.data());
  return made;
}

Ref<Carrier> TiledEvictable::allocate_like(Index size, const AllocateOptions& options) const {
  if (size != grid_.size())
    raise<ValueError>(what, "the carrier has ", grid_.size(),
                      " slots in its fixed grid and so has everything like it: asked for ", size,
                      "; make another TiledEvictable for another size");
  return make_like(!options.empty, factory_dtype(options.dtype), options.is_mutable);
}

// --- Tiles one by one, and full Tensors

void TiledEvictable::check_tensor(std::string_view of, const Tensor& tensor) const {
  if (!tensor) raise<TypeError>(of, "tensor must be a Tensor: got none");
  tensor.require_single_subtensor(of);
  if (tensor.carrier().get() != this)
    raise<TypeError>(of, "the Tensor must live on this TiledEvictable: it lives on another ",
                     tensor.carrier_type());
  require_live();
  grid_.check_layout(of, tensor.layout(), tensor.offset());
}

Tensor TiledEvictable::start_tile(Index tile) { return store_->start_tile(tile); }
void TiledEvictable::finish_tile(Index tile, bool is_dirty) { store_->finish_tile(tile, is_dirty); }
void TiledEvictable::install_tile(Index tile, const Ref<Carrier>& storage, bool is_dirty) {
  store_->install_tile(tile, storage, is_dirty);
}

// --- Release (X64)

void TiledEvictable::on_release() {
  store_->close();
  std::exception_ptr first_error;
  for (const auto& [tier, token] :
       {std::pair(primary_.get(), primary_token_), std::pair(secondary_.get(), secondary_token_)}) {
    try {
      if (tier->is_released()) continue;
      const OwnerAccess access(*tier, token);
      tier->release();
    } catch (...) {
      if (!first_error) first_error = std::current_exception();
    }
  }
  if (first_error) {
    store_->reopen();
    std::rethrow_exception(first_error);
  }
  store_->drop_tiles();
  give_tiers_back();
  log(LogChannel::residency, "TiledEvictable: released ", grid_.size(), " ", dtype_->name(), " slots");
}

void TiledEvictable::visit_references(ReferenceVisitor& visitor) const {
  visitor.visit(primary_);
  visitor.visit(secondary_);
  if (policy_ != nullptr) policy_->visit_references(visitor);
  store_->visit_references(visitor);
}

}  // namespace orlop::inline v0
