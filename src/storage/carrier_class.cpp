// The registry of carrier classes, keyed by type, so that modules with hidden visibility agree.
#include "orlop/storage/carrier_class.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "orlop/base/forever.hpp"
#include "storage/type_name.hpp"

namespace orlop::inline v0 {

std::string short_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  const std::string full = status == 0 ? readable.get() : type.name();
  const auto colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::type_index, std::unique_ptr<CarrierClass::Record>> native;
  std::vector<std::unique_ptr<CarrierClass::Record>> python;
};

Registry& registry() {
  static Forever<Registry> instance;  // classes outlive carriers
  return *instance;
}

CarrierClass record_for(const std::type_info& type, std::string name, bool dependent, bool shipped) {
  Registry& classes = registry();
  const std::lock_guard lock(classes.mutex);
  auto& slot = classes.native[type];
  if (!slot) {
    slot = std::make_unique<CarrierClass::Record>();
    slot->name = name.empty() ? short_name(type) : std::move(name);
    slot->dependent = dependent;
  }
  // A route may have named the class at load before its own file declared it. Nobody writes later, when many
  // read.
  if (shipped) slot->shipped = true;
  return CarrierClass(slot.get());
}

}  // namespace

CarrierClass detail::native_carrier_class(const std::type_info& type, bool dependent) {
  return record_for(type, {}, dependent, false);
}

CarrierClass detail::declare_shipped_class(const std::type_info& type, std::string name, bool dependent) {
  return record_for(type, std::move(name), dependent, true);
}

CarrierClass detail::python_carrier_class(void* python_type, std::string name, bool dependent) {
  auto record = std::make_unique<CarrierClass::Record>();
  record->name = std::move(name);
  record->dependent = dependent;
  record->python_type = python_type;
  Registry& classes = registry();
  const std::lock_guard lock(classes.mutex);
  return CarrierClass(classes.python.emplace_back(std::move(record)).get());
}

}  // namespace orlop::inline v0
