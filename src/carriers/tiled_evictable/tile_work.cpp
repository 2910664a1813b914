// One piece of work over tiled carriers: policies, pins, turns, steps.
#include "carriers/tiled_evictable/tile_work.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "carriers/tiled_evictable/tile_store.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/base/log.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::string_view what = "TiledEvictable";

std::vector<Index> union_of(const std::vector<Index>& a, const std::vector<Index>& b) {
  std::vector<Index> result;
  std::ranges::set_union(a, b, std::back_inserter(result));
  return result;
}

}  // namespace

struct TileWork::State {
  /// One distinct carrier.
  struct Carried {
    Ref<TiledEvictable> carrier;
    std::optional<std::vector<Index>> required;  // absent: all
    Index minimum_tiles;
    bool is_read;
    bool has_steps;
    ResidencyPlan plan{};
    detail::TileClaim claim{};
    std::vector<Index> promote{};
    std::vector<Index> evict{};
    std::vector<Index> retained{};  // primary when the work began: held to its end
    bool is_begun = false;
    bool has_turn = false;

    [[nodiscard]] detail::TileStore& store() const noexcept { return carrier->tile_store(); }
    [[nodiscard]] bool requires_tile(Index tile) const {
      return !required || std::ranges::binary_search(*required, tile);
    }
  };
  /// A tile of a step: (index of Carried, number).
  using Use = std::pair<std::size_t, Index>;
  /// Tiles of one carrier that are on their way.
  struct Transfer {
    std::size_t carried;
    std::vector<Index> tiles;
    Ref<detail::ResidencyRequest> request;

    [[nodiscard]] bool brings(const Use& use) const {
      return use.first == carried && std::ranges::binary_search(tiles, use.second);
    }
  };

  State(std::vector<Source> given, Purpose purpose);

  void add(Source source);
  void ask(Carried& carried, Purpose purpose) const;
  void check_minimum(const Carried& carried, Index more, std::string_view why) const;
  void begin(Carried& carried) const;
  void promote_ahead(Carried& carried) const;
  [[nodiscard]] std::vector<Use> uses(std::span<const TileRef> refs) const;
  void begin_step(std::span<const TileRef> tiles, std::span<const TileRef> next);
  void complete_step();
  [[nodiscard]] bool fits(const std::vector<Use>& ahead) const;
  void look_ahead(const std::vector<Use>& ahead);
  [[nodiscard]] bool is_on_its_way(const Use& use) const;
  void submit(const std::vector<Use>& missing, bool is_ahead);
  void await(bool only_whole);
  [[nodiscard]] const detail::ResidencyRequest::Arriving* arriving(const TileRef& ref) const;
  void await_departures();
  std::exception_ptr end() noexcept;
  void await_all() noexcept;

  const bool takes_turns;
  std::vector<Carried> carried;
  std::vector<std::size_t> carried_of;  // by source
  std::vector<Use> step;                // the tiles of the present one, sorted
  std::vector<Use> held;                // this step and the one looked at ahead, sorted
  std::vector<Use> missed;              // looked at ahead and not primary then, sorted
  std::vector<Transfer> transfers;      // not yet waited for
  bool has_entered = false;
  bool is_ended = false;
};

TileWork::State::State(std::vector<Source> given, Purpose purpose)
    : takes_turns(purpose == Purpose::operation || purpose == Purpose::backward) {
  for (Source& source : given) add(std::move(source));
  for (Carried& each : carried) {
    each.carrier->require_live();
    check_minimum(each, 0, "one step");
  }
  std::vector<Carried*> in_order;
  in_order.reserve(carried.size());
  for (Carried& each : carried) in_order.push_back(&each);
  std::ranges::sort(in_order, {}, [](const Carried* each) { return each->carrier->serial(); });
  try {
    if (takes_turns)
      for (Carried* each : in_order)
        if (each->store().capacity()) {
          each->store().take_turn(this);
          each->has_turn = true;
        }
    for (Carried& each : carried) ask(each, purpose);
    for (Carried& each : carried) begin(each);
  } catch (...) {
    static_cast<void>(end());
    throw;
  }
}

void TileWork::State::add(Source source) {
  const auto found = std::ranges::find(carried, source.carrier, &Carried::carrier);
  carried_of.push_back(static_cast<std::size_t>(found - carried.begin()));
  std::optional<std::vector<Index>> required;
  if (source.required) required = source.required->numbers(source.carrier->grid().grid_shape());
  if (found == carried.end()) {
    carried.push_back({std::move(source.carrier), std::move(required), source.minimum_tiles, source.is_read,
                       source.has_steps});
    return;
  }
  found->minimum_tiles = std::max(found->minimum_tiles, source.minimum_tiles);
  found->is_read = found->is_read || source.is_read;
  if (!required)
    found->required.reset();
  else if (found->required)
    found->required = union_of(*found->required, *required);
}

/// X106: `more` tiles stay whatever a step needs.
void TileWork::State::check_minimum(const Carried& carried, Index more, std::string_view why) const {
  const std::optional<Index> capacity = carried.store().capacity();
  const Index tiles = carried.minimum_tiles + more;
  if (!capacity || tiles <= *capacity) return;
  raise<ValueError>(what, why, " needs ", tiles, " tiles of ", carried.carrier->tile_bytes(), " bytes, ",
                    tiles * carried.carrier->tile_bytes(), " in all: primary_budget_bytes is ",
                    *carried.carrier->primary_budget_bytes(), "; raise the budget or use smaller tiles");
}

/// X56: the policy's plan, checked.
void TileWork::State::ask(Carried& carried, Purpose purpose) const {
  const std::vector<Index>& shape = carried.carrier->grid().grid_shape();
  if (const std::shared_ptr<ResidencyPolicy> policy = carried.carrier->residency_policy()) {
    const TileSet required =
        carried.required ? TileSet::from_numbers(shape, *carried.required) : TileSet::all(shape);
    carried.plan = policy->plan(required, purpose);
    carried.plan.validate();
  }
  carried.promote = carried.plan.promote.numbers(shape);
  carried.evict = carried.plan.evict.numbers(shape);
  carried.retained = carried.plan.retain.numbers(shape);
  if (!carried.required)
    carried.claim.is_all = true;
  else
    carried.claim.tiles = union_of(*carried.required, union_of(carried.promote, carried.retained));
  // What the steps bring in anyway need not come before.
  std::erase_if(carried.promote, [&](Index tile) { return carried.requires_tile(tile); });
}

void TileWork::State::begin(Carried& carried) const {
  detail::TileStore& store = carried.store();
  Index outside = 0;  // required tiles that are not retained
  {
    const std::lock_guard lock(detail::residency_mutex());
    std::erase_if(carried.retained,
                  [&](Index tile) { return store.at(tile).location != TileLocation::primary; });
    const auto retained_inside =
        std::ranges::count_if(carried.retained, [&](Index tile) { return carried.requires_tile(tile); });
    const auto required =
        carried.required ? static_cast<Index>(carried.required->size()) : store.grid().tile_count();
    outside = std::min(carried.minimum_tiles, required - retained_inside);
  }
  const auto kept = static_cast<Index>(carried.retained.size());
  check_minimum(carried, kept + outside - carried.minimum_tiles, "one step beside the retained tiles");
  const std::lock_guard lock(detail::residency_mutex());
  std::vector<Index> readable = carried.promote;
  if (carried.is_read && carried.required) readable = union_of(readable, *carried.required);
  for (const Index tile : carried.retained) store.prepare_hold(tile);
  store.begin_work(carried.claim, readable, carried.is_read && !carried.required, carried.has_steps);
  carried.is_begun = true;
  for (const Index tile : carried.retained) store.hold(tile);
}

/// Tiles that the plan wants beyond the required ones; under a budget as many as leave room for a step.
void TileWork::State::promote_ahead(Carried& carried) const {
  std::span<const Index> tiles = carried.promote;
  if (const std::optional<Index> capacity = carried.store().capacity()) {
    const Index room = *capacity - carried.minimum_tiles - static_cast<Index>(carried.retained.size());
    tiles = tiles.first(std::min(tiles.size(), static_cast<std::size_t>(std::max<Index>(room, 0))));
  }
  if (!tiles.empty()) carried.store().promote(tiles, &carried.claim)->wait();
}

std::vector<TileWork::State::Use> TileWork::State::uses(std::span<const TileRef> refs) const {
  std::vector<Use> result;
  result.reserve(refs.size());
  for (const TileRef& ref : refs) result.emplace_back(carried_of[ref.source], ref.tile);
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

void TileWork::State::begin_step(std::span<const TileRef> tiles, std::span<const TileRef> next) {
  if (!std::exchange(has_entered, true))
    for (Carried& each : carried) promote_ahead(each);
  step = uses(tiles);
  std::vector<Use> ahead;
  std::ranges::set_difference(uses(next), step, std::back_inserter(ahead));
  await_departures();
  std::vector<Use> entered = step;
  std::vector<Use> missing;
  {
    const std::lock_guard lock(detail::residency_mutex());
    missing.reserve(step.size());  // what may fail, before anything has changed
    for (const Use& use : step) carried[use.first].store().prepare_hold(use.second);
    for (const Use& use : step)
      if (!std::ranges::binary_search(held, use)) carried[use.first].store().hold(use.second);
    for (const Use& use : held)
      if (!std::ranges::binary_search(step, use)) carried[use.first].store().unhold(use.second);
    held.swap(entered);
    for (const Use& use : step) {
      detail::TileStore& store = carried[use.first].store();
      const detail::Tile& entry = store.at(use.second);
      const bool is_primary = entry.location == TileLocation::primary && !entry.is_pending;
      const bool was_missed = std::ranges::binary_search(missed, use);
      store.count_hits(is_primary && !was_missed ? 1 : 0, is_primary && !was_missed ? 0 : 1);
      if (!is_primary && !is_on_its_way(use)) missing.push_back(use);
    }
    missed.clear();
  }
  submit(missing, false);
  if (!ahead.empty() && fits(ahead)) look_ahead(ahead);
  await(true);
  for (const Use& use : step) carried[use.first].store().make_readable(use.second);
}

void TileWork::State::complete_step() { await(false); }

/// A tile that is needed again may be on its way out, for one that was looked at ahead.
void TileWork::State::await_departures() {
  const auto is_leaving = [this](const Use& use) {
    return carried[use.first].store().at(use.second).is_pending && !is_on_its_way(use);
  };
  {
    const std::lock_guard lock(detail::residency_mutex());
    if (std::ranges::none_of(step, is_leaving)) return;
  }
  for (; !transfers.empty(); transfers.pop_back()) {
    transfers.back().request->wait_until_done();
    transfers.back().request->forget_arriving();
  }
}

/// X109: both steps, and what is retained beside them, within the budget of each carrier.
bool TileWork::State::fits(const std::vector<Use>& ahead) const {
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const std::optional<Index> capacity = carried[i].store().capacity();
    if (!capacity) continue;
    auto needed = static_cast<Index>(carried[i].retained.size());
    for (const auto* uses : {&step, &ahead})
      needed += std::ranges::count_if(*uses, [&](const Use& use) {
        return use.first == i && !std::ranges::binary_search(carried[i].retained, use.second);
      });
    if (needed > *capacity) return false;
  }
  return true;
}

void TileWork::State::look_ahead(const std::vector<Use>& ahead) {
  {
    missed.reserve(ahead.size());
    held.reserve(held.size() + ahead.size());
    const std::lock_guard lock(detail::residency_mutex());
    for (const Use& use : ahead) carried[use.first].store().prepare_hold(use.second);
    for (const Use& use : ahead) {
      detail::TileStore& store = carried[use.first].store();
      store.hold(use.second);
      if (store.at(use.second).location != TileLocation::primary) missed.push_back(use);
    }
    held.insert(held.end(), ahead.begin(), ahead.end());
    std::ranges::sort(held);
  }
  submit(missed, true);
}

bool TileWork::State::is_on_its_way(const Use& use) const {
  return std::ranges::any_of(transfers, [&](const Transfer& transfer) { return transfer.brings(use); });
}

/// One request per carrier. Looking ahead gives way to whatever others do.
void TileWork::State::submit(const std::vector<Use>& missing, bool is_ahead) {
  for (auto first = missing.begin(); first != missing.end();) {
    const std::size_t which = first->first;
    const auto last = std::find_if(first, missing.end(), [&](const Use& use) { return use.first != which; });
    std::vector<Index> tiles;
    for (; first != last; ++first) tiles.push_back(first->second);
    const Carried& each = carried[which];
    transfers.reserve(transfers.size() + 1);  // a request that has begun is waited for
    Ref<detail::ResidencyRequest> request =
        is_ahead ? each.store().try_promote(tiles, &each.claim) : each.store().promote(tiles, &each.claim);
    if (request) transfers.push_back({which, std::move(tiles), std::move(request)});
  }
}

/// Waits for the tiles of the step; or only for those that cannot be read as they come.
void TileWork::State::await(bool only_whole) {
  for (std::size_t i = 0; i < transfers.size();) {
    const Transfer& transfer = transfers[i];
    const bool is_needed = std::ranges::any_of(transfer.tiles, [&](Index tile) {
      return std::ranges::binary_search(step, Use(transfer.carried, tile));
    });
    if (!is_needed || (only_whole && !transfer.request->arriving().empty())) {
      ++i;
      continue;
    }
    const Ref<detail::ResidencyRequest> request = transfer.request;
    for (const auto& each : request->arriving())
      while (each.arrival->bring_one()) check_interrupts();
    request->wait();  // interrupted, it stays among those to be waited for
    request->forget_arriving();
    transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void TileWork::State::await_all() noexcept {
  for (const Transfer& transfer : transfers) {
    while (!transfer.request->is_done()) {
      try {
        transfer.request->wait_until_done();
      } catch (...) {  // an interrupt: the tiles must be at rest first
      }
    }
    transfer.request->forget_arriving();
  }
  transfers.clear();
}

const detail::ResidencyRequest::Arriving* TileWork::State::arriving(const TileRef& ref) const {
  for (const Transfer& transfer : transfers)
    if (transfer.carried == carried_of[ref.source])
      for (const auto& each : transfer.request->arriving())
        if (each.tile == ref.tile) return &each;
  return nullptr;
}

std::exception_ptr TileWork::State::end() noexcept {
  if (std::exchange(is_ended, true)) return nullptr;
  await_all();
  {
    const std::lock_guard lock(detail::residency_mutex());
    for (const Use& use : held) carried[use.first].store().unhold(use.second);
    for (Carried& each : carried) {
      if (!each.is_begun) continue;
      for (const Index tile : each.retained) each.store().unhold(tile);
      each.store().end_work(each.claim);
    }
    held.clear();
  }
  std::exception_ptr failure;
  for (Carried& each : carried) {
    try {
      if (each.is_begun) each.store().let_leave(each.evict);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
    each.store().settle(takes_turns);
    if (each.has_turn) each.store().give_turn(this);
  }
  return failure;
}

TileWork::TileWork(std::vector<Source> sources, Purpose purpose)
    : state_(std::make_unique<State>(std::move(sources), purpose)) {}

TileWork::~TileWork() {
  if (state_->end())
    log(LogChannel::residency, what, ": tiles that a policy wanted evicted stay primary: a transfer failed");
}

void TileWork::enter_step(std::span<const TileRef> tiles, std::span<const TileRef> next) {
  begin_step(tiles, next);
  complete_step();
}

void TileWork::begin_step(std::span<const TileRef> tiles, std::span<const TileRef> next) {
  state_->begin_step(tiles, next);
}

void TileWork::complete_step() { state_->complete_step(); }

std::shared_ptr<Arrival> TileWork::arrival(TileRef ref) const {
  const auto* const found = state_->arriving(ref);
  return found == nullptr ? nullptr : found->arrival;
}

Tensor TileWork::tile(TileRef ref) const {
  const TiledEvictable& carrier = *state_->carried[state_->carried_of[ref.source]].carrier;
  if (const auto* const found = state_->arriving(ref))
    return Tensor::trusted(found->storage->ref(), 0, carrier.grid().tile_layout());
  return carrier.tile_store().tile(ref.tile);
}

namespace {
bool is_at(const TiledEvictable& carrier, Index tile, TileLocation location) {
  const std::lock_guard lock(detail::residency_mutex());
  return carrier.tile_store().at(tile).location == location;
}
}  // namespace

bool TileWork::is_primary(TileRef ref) const {
  return is_at(*state_->carried[state_->carried_of[ref.source]].carrier, ref.tile, TileLocation::primary);
}

bool TileWork::is_implicit(TileRef ref) const {
  return is_at(*state_->carried[state_->carried_of[ref.source]].carrier, ref.tile, TileLocation::implicit);
}

const ResidencyPlan& TileWork::plan(std::size_t source) const {
  return state_->carried[state_->carried_of[source]].plan;
}

void TileWork::finish() {
  if (const std::exception_ptr failure = state_->end()) std::rethrow_exception(failure);
}

void TileWork::forget() noexcept {
  if (std::exchange(state_->is_ended, true)) return;
  for (const State::Use& use : state_->held) state_->carried[use.first].store().unhold(use.second);
  for (State::Carried& each : state_->carried) {
    if (!each.is_begun) continue;
    for (const Index tile : each.retained) each.store().unhold(tile);
    each.store().end_work(each.claim);
  }
}

}  // namespace orlop::inline v0
