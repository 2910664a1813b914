// The identity of a concrete carrier class, the same for native and Python classes (X130).
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>

#include "orlop/base/export.hpp"

namespace orlop::inline v0 {

class CapabilitySet;
class Carrier;
class DependentCarrier;
class InvocationExecutor;
namespace detail {
class DefinedClass;
}

/// Handle of one exact carrier class, or of none. Copying is free; equality is identity. Never walks to a
/// base class.
class ORLOP_API CarrierClass {
 public:
  struct Record {
    std::string name;
    bool shipped = false;    ///< closed: no one else may declare anything about it
    bool dependent = false;  ///< answers about capabilities from the instance, not from the class
    /// The Python class object once a binding knows it (borrowed: classes live as long as the process).
    mutable std::atomic<void*> python_type{nullptr};
    /// What the class can execute, once somebody asked (operation/capability.hpp); lives as long as the
    /// process.
    mutable std::atomic<const CapabilitySet*> capabilities{nullptr};
    /// What runs operations for a class with a definition (operation/invocation_executor.hpp); null without
    /// one.
    mutable std::atomic<const InvocationExecutor*> executor{nullptr};
    /// What its CarrierDefinition says, for the layers below extension; null without one.
    mutable std::atomic<const detail::DefinedClass*> definition{nullptr};
    /// Whether somebody has used the class, so that no definition of it can come any more (X8).
    mutable std::atomic<bool> is_observed{false};
  };

  constexpr CarrierClass() noexcept = default;
  constexpr explicit CarrierClass(const Record* record) noexcept : record_(record) {}

  [[nodiscard]] std::string_view name() const noexcept {
    return record_ != nullptr ? std::string_view(record_->name) : "no carrier class";
  }
  [[nodiscard]] bool is_shipped() const noexcept { return record_ != nullptr && record_->shipped; }
  [[nodiscard]] bool is_dependent() const noexcept { return record_ != nullptr && record_->dependent; }
  /// Whether it has a CarrierDefinition.
  [[nodiscard]] bool is_defined() const noexcept {
    return record_ != nullptr && record_->definition.load(std::memory_order_acquire) != nullptr;
  }
  [[nodiscard]] const Record* record() const noexcept { return record_; }
  [[nodiscard]] std::string to_string() const { return std::string(name()); }
  explicit operator bool() const noexcept { return record_ != nullptr; }
  friend bool operator==(CarrierClass, CarrierClass) noexcept = default;

 private:
  const Record* record_ = nullptr;
};

namespace detail {
/// The class of a native type: created on first use, the same record for every module that names the type.
ORLOP_API CarrierClass native_carrier_class(const std::type_info& type, bool dependent);
/// Names a shipped class; called once by each shipped carrier, before anyone can ask.
ORLOP_API CarrierClass declare_shipped_class(const std::type_info& type, std::string name, bool dependent);
/// A new record for one Python class object.
ORLOP_API CarrierClass python_carrier_class(void* python_type, std::string name, bool dependent);
}  // namespace detail

/// The identity of the native carrier class `T`, a concrete one.
template <class T>
[[nodiscard]] CarrierClass carrier_class() {
  static_assert(std::is_base_of_v<Carrier, T> && !std::is_abstract_v<T>);
  return detail::native_carrier_class(typeid(T), std::is_base_of_v<DependentCarrier, T>);
}

}  // namespace orlop::inline v0

template <>
struct std::hash<orlop::CarrierClass> {
  std::size_t operator()(orlop::CarrierClass value) const noexcept {
    return std::hash<const void*>()(value.record());
  }
};
