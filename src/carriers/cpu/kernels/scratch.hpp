// Memory that a kernel works in.
#pragma once

#include <limits>
#include <memory>

#include "orlop/base/error.hpp"
#include "storage/host_memory.hpp"

namespace orlop::inline v0 {

/// Room for values, not initialized. Where it is large the next call finds the same pages.
template <class T>
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(Index count) : size_(count) {
    if (count == 0) return;
    if (count <= std::numeric_limits<Index>::max() / Index{sizeof(T)})
      memory_ = allocate_host_memory(static_cast<std::size_t>(count) * sizeof(T), false);
    if (!memory_)
      raise<MemoryError>("CPU", "no memory to work in: ", count, " values of ", sizeof(T),
                         " bytes; use smaller operands");
  }
  [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(memory_.get()); }
  [[nodiscard]] std::byte* bytes() const noexcept { return memory_.get(); }
  [[nodiscard]] Index size() const noexcept { return size_; }
  /// Grows to at least `count` values, which are lost.
  T* reserve(Index count) {
    if (count > size_) *this = Scratch(count);
    return data();
  }

 private:
  std::shared_ptr<std::byte> memory_;
  Index size_ = 0;
};

}  // namespace orlop::inline v0
