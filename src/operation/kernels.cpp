// Look-up of kernels by name.
#include "orlop/operation/kernels.hpp"

#include <algorithm>

namespace orlop::inline v0 {

KernelTable::KernelTable(std::initializer_list<KernelList> lists) {
  for (const KernelList list : lists) kernels_.insert(kernels_.end(), list.begin(), list.end());
  std::sort(kernels_.begin(), kernels_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
}

KernelFunction KernelTable::find(std::string_view name) const noexcept {
  const auto found =
      std::lower_bound(kernels_.begin(), kernels_.end(), name,
                       [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  return found != kernels_.end() && found->first == name ? found->second : nullptr;
}

}  // namespace orlop::inline v0
