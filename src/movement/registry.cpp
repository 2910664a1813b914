// The process-wide registry of move routes, keyed by the exact pair of classes (S413, S415).
#include <map>
#include <mutex>

#include "orlop/base/forever.hpp"

#include "orlop/movement/move.hpp"
#include "orlop/operation/capability.hpp"

namespace orlop::inline v0 {

namespace {

using Pair = std::pair<const CarrierClass::Record*, const CarrierClass::Record*>;

struct Registry {
  std::mutex mutex;
  std::map<Pair, MoveRoute> routes;
  std::map<const CarrierClass::Record*, detail::RoutePolicy> policies;

  [[nodiscard]] detail::RoutePolicy policy(CarrierClass carrier_class) const {
    const auto found = policies.find(carrier_class.record());
    return found == policies.end() ? detail::RoutePolicy::open : found->second;
  }
  [[nodiscard]] bool is_built_in(CarrierClass source_class, CarrierClass destination_class) const {
    return policy(source_class) == detail::RoutePolicy::built_in ||
           policy(destination_class) == detail::RoutePolicy::built_in;
  }
};

Registry& registry() {
  static Forever<Registry> instance;  // routes may be asked for at exit
  return *instance;
}

std::string pair_text(CarrierClass source_class, CarrierClass destination_class) {
  return text("(", source_class, ", ", destination_class, ")");
}

Pair key_of(CarrierClass source_class, CarrierClass destination_class) {
  if (!source_class) raise<TypeError>("move registry", "source_class must be a Carrier class: got none");
  if (!destination_class)
    raise<TypeError>("move registry", "destination_class must be a Carrier class: got none");
  return {source_class.record(), destination_class.record()};
}

void require_open(const Registry& known, CarrierClass source_class, CarrierClass destination_class) {
  if (known.is_built_in(source_class, destination_class))
    raise<ValueError>("move registry", "the routes of block-device carriers are protected built-ins: ",
                      pair_text(source_class, destination_class), "; register routes for other pairs");
}

/// Definitions of both classes from now on come too late, so that what is said next stays true (X8).
void observe(CarrierClass source_class, CarrierClass destination_class) {
  detail::observe_class(source_class);
  detail::observe_class(destination_class);
}

/// The registry is for classes without definition. Observes both.
void require_undefined(std::string_view what, CarrierClass source_class, CarrierClass destination_class) {
  observe(source_class, destination_class);
  for (const CarrierClass carrier_class : {source_class, destination_class})
    if (carrier_class.is_defined())
      raise<RuntimeError>(what, carrier_class, " has a CarrierDefinition, whose routes are fixed in it",
                          "; give it a TransferRoute there");
}

const detail::DefinedClass* definition_of(CarrierClass carrier_class) {
  return carrier_class.record()->definition.load(std::memory_order_acquire);
}

MoveRoute elementwise_route() { return move_route<ElementwiseMoveOperation>("ElementwiseMoveOperation"); }

/// The entry of a pair of classes without definition.
MoveRoute find_registered(CarrierClass source_class, CarrierClass destination_class) {
  const Pair key = key_of(source_class, destination_class);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  if (const auto found = known.routes.find(key); found != known.routes.end()) return found->second;
  if (known.is_built_in(source_class, destination_class))
    raise<NotImplementedError>("dispatch_move", "no move exists for the block-device carrier pair ",
                               pair_text(source_class, destination_class), "; move through a CPU carrier");
  return elementwise_route();
}

void insert(Registry& known, CarrierClass source_class, CarrierClass destination_class, MoveRoute&& route) {
  const auto [entry, is_new] =
      known.routes.try_emplace(key_of(source_class, destination_class), std::move(route));
  if (!is_new)
    raise<ValueError>("register_move_operation", "a move operation is already registered for ",
                      pair_text(source_class, destination_class), ": ", entry->second.name,
                      "; unregister it first");
}

}  // namespace

void register_move_operation(CarrierClass source_class, CarrierClass destination_class, MoveRoute route) {
  static_cast<void>(key_of(source_class, destination_class));
  require_undefined("register_move_operation", source_class, destination_class);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  require_open(known, source_class, destination_class);
  insert(known, source_class, destination_class, std::move(route));
}

MoveRoute unregister_move_operation(CarrierClass source_class, CarrierClass destination_class) {
  const Pair key = key_of(source_class, destination_class);
  require_undefined("unregister_move_operation", source_class, destination_class);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  require_open(known, source_class, destination_class);
  const auto found = known.routes.find(key);
  if (found == known.routes.end())
    raise<KeyError>("unregister_move_operation", "no move operation is registered for ",
                    pair_text(source_class, destination_class), "; register_move_operation adds one");
  MoveRoute removed = std::move(found->second);
  known.routes.erase(found);
  return removed;
}

MoveRoute dispatch_move(CarrierClass source_class, CarrierClass destination_class) {
  static_cast<void>(key_of(source_class, destination_class));
  require_undefined("dispatch_move", source_class, destination_class);
  return find_registered(source_class, destination_class);
}

namespace {

/// X20: why a pair of which at least one class has a definition has no route.
[[noreturn]] void refuse_pair(CarrierClass source_class, CarrierClass destination_class) {
  const auto is_tiled = [](CarrierClass each) { return each.is_shipped() && each.is_defined(); };
  std::string_view why =
      "a class with a CarrierDefinition moves through a TransferRoute of its own, or one by one where both "
      "storage providers allow elementwise_fallback";
  if (is_tiled(source_class) || is_tiled(destination_class))
    why = "tiled Tensors do not move; project() gathers tiles of one, scatter() makes one of them";
  else if (!source_class.is_defined())
    why = "nothing moves from a class without a CarrierDefinition to one that has one";
  raise<NotImplementedError>("move", "there is no route for the pair ",
                             pair_text(source_class, destination_class), ": ", why);
}

}  // namespace

MoveRoute detail::find_move_route(CarrierClass source_class, CarrierClass destination_class) {
  observe(source_class, destination_class);
  const DefinedClass* source = definition_of(source_class);
  const DefinedClass* destination = definition_of(destination_class);
  if (source == nullptr && destination == nullptr) return find_registered(source_class, destination_class);
  if (source != nullptr)
    if (MoveRoute route = source->route_to(destination_class); route.make) return route;
  if (source == nullptr || destination == nullptr || !source->copies_elementwise() ||
      !destination->copies_elementwise())
    refuse_pair(source_class, destination_class);
  return elementwise_route();
}

bool has_move_operation(CarrierClass source_class, CarrierClass destination_class) {
  const Pair key = key_of(source_class, destination_class);
  if (const detail::DefinedClass* source = definition_of(source_class))
    return static_cast<bool>(source->route_to(destination_class).make);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  return known.routes.contains(key);
}

void detail::forget_python_routes() noexcept {
  std::map<Pair, MoveRoute> forgotten;  // classes are let go outside the lock
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  for (auto entry = known.routes.begin(); entry != known.routes.end();) {
    const auto next = std::next(entry);
    if (entry->second.python_class != nullptr) forgotten.insert(known.routes.extract(entry));
    entry = next;
  }
}

bool detail::declare_move_route(CarrierClass source_class, CarrierClass destination_class, MoveRoute route) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  insert(known, source_class, destination_class, std::move(route));
  return true;
}

bool detail::declare_route_policy(CarrierClass carrier_class, RoutePolicy policy) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.policies[carrier_class.record()] = policy;
  return true;
}

detail::RoutePolicy detail::route_policy(CarrierClass carrier_class) noexcept {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  return known.policy(carrier_class);
}

}  // namespace orlop::inline v0
