// The table of published descriptors; private to the dtype layer.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/dtype/dtype.hpp"

namespace orlop::inline v0::detail {

/// Storage whose object is constructed on demand and never destroyed: its address is a constant.
template <class T>
union Immortal {
  constexpr Immortal() noexcept : nothing{} {}
  ~Immortal() {}
  char nothing;
  T value;
};

class DTypeRegistry {
 public:
  static DTypeRegistry& instance();

  /// Under one lock: name free, structure free (given for block-scaled formats), then visible.
  void add(const DType& dtype, const Structure* unique_structure);
  [[nodiscard]] const DType* find(std::string_view name) const;

  template <class T>
  [[nodiscard]] std::vector<const T*> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<const T*> found;
    for (const DType* dtype : in_order_)
      if (const auto* match = dynamic_cast<const T*>(dtype)) found.push_back(match);
    return found;
  }

  template <class T>
  [[nodiscard]] const T& get(std::string_view name, std::string_view class_name) const {
    const DType* dtype = find(name);
    if (dtype == nullptr)
      raise<LookupError>(text(class_name, ".from_name"), "No Orlop dtype named '", name,
                         "'; registered() lists the known ones");
    if (const auto* match = dynamic_cast<const T*>(dtype)) return *match;
    raise<LookupError>(text(class_name, ".from_name"), *dtype, " is not a ", class_name,
                       " descriptor; ask the class it belongs to, or DType");
  }

 private:
  mutable std::mutex mutex_;
  std::vector<const DType*> in_order_;
  std::map<std::string, const DType*, std::less<>> by_name_;
  std::map<Structure, const DType*> by_structure_;
};

}  // namespace orlop::inline v0::detail
