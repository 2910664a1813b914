// The process-wide registry of move routes, keyed by the exact pair of classes.
#include <map>
#include <mutex>

#include "orlop/movement/move.hpp"

namespace orlop::inline v0 {

namespace {

using Pair = std::pair<const CarrierClass::Record*, const CarrierClass::Record*>;

struct Registry {
  std::mutex mutex;
  std::map<Pair, MoveRoute> routes;
};

Registry& registry() {
  static auto& instance = *std::make_unique<Registry>().release();  // routes may be asked for at exit
  return instance;
}

std::string pair_text(CarrierClass source_class, CarrierClass destination_class) {
  return text("(", source_class, ", ", destination_class, ")");
}

Pair key_of(CarrierClass source_class, CarrierClass destination_class) {
  if (!source_class || !destination_class)
    raise<TypeError>("move registry", "source_class and destination_class must be Carrier classes");
  return {source_class.record(), destination_class.record()};
}

}  // namespace

void register_move_operation(CarrierClass source_class, CarrierClass destination_class, MoveRoute route) {
  const Pair key = key_of(source_class, destination_class);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto [entry, is_new] = known.routes.try_emplace(key, std::move(route));
  if (!is_new)
    raise<ValueError>("register_move_operation", "a move operation is already registered for ",
                      pair_text(source_class, destination_class), ": ", entry->second.name,
                      "; unregister it first");
}

MoveRoute unregister_move_operation(CarrierClass source_class, CarrierClass destination_class) {
  const Pair key = key_of(source_class, destination_class);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  auto node = known.routes.extract(key);
  if (node.empty())
    raise<KeyError>("unregister_move_operation", "no move operation is registered for ",
                    pair_text(source_class, destination_class));
  return std::move(node.mapped());
}

MoveRoute dispatch_move(CarrierClass source_class, CarrierClass destination_class) {
  const Pair key = key_of(source_class, destination_class);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto found = known.routes.find(key);
  return found != known.routes.end() ? found->second
                                     : move_route<ElementwiseMoveOperation>("ElementwiseMoveOperation");
}

bool has_move_operation(CarrierClass source_class, CarrierClass destination_class) {
  const Pair key = key_of(source_class, destination_class);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  return known.routes.contains(key);
}

bool detail::declare_move_route(CarrierClass source_class, CarrierClass destination_class, MoveRoute route) {
  register_move_operation(source_class, destination_class, std::move(route));
  return true;
}

}  // namespace orlop::inline v0
