// A vector of small trivial values that lives inside its owner until it outgrows N.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace orlop::inline v0 {

/// A growing sequence of `T` that allocates only beyond `N` elements.
template <class T, std::size_t N>
  requires std::is_trivially_copyable_v<T>
class SmallVector {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() noexcept = default;
  explicit SmallVector(std::size_t count, T value = T{}) { resize(count, value); }
  explicit SmallVector(std::span<const T> values) {
    resize(values.size());
    std::copy(values.begin(), values.end(), begin());
  }

  // Copies only: a move would leave a size without its values behind.
  SmallVector(const SmallVector&) = default;
  SmallVector& operator=(const SmallVector&) = default;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] T* data() noexcept { return heap_.empty() ? inline_.data() : heap_.data(); }
  [[nodiscard]] const T* data() const noexcept { return heap_.empty() ? inline_.data() : heap_.data(); }
  [[nodiscard]] T* begin() noexcept { return data(); }
  [[nodiscard]] T* end() noexcept { return data() + size_; }
  [[nodiscard]] const T* begin() const noexcept { return data(); }
  [[nodiscard]] const T* end() const noexcept { return data() + size_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  [[nodiscard]] T& back() noexcept { return data()[size_ - 1]; }
  [[nodiscard]] const T& back() const noexcept { return data()[size_ - 1]; }

  void push_back(T value) {
    if (heap_.empty() && size_ < N) {
      inline_[size_++] = value;
      return;
    }
    spill(size_ + 1);
    heap_.push_back(value);
    ++size_;
  }
  void append(std::span<const T> values) {
    for (const T& value : values) push_back(value);
  }
  void resize(std::size_t count, T value = T{}) {
    if (heap_.empty() && count <= N) {
      if (count > size_) std::fill(inline_.begin() + size_, inline_.begin() + count, value);
    } else {
      spill(count);
      heap_.resize(count, value);
      if (count == 0) heap_.clear();
    }
    size_ = count;
  }
  void clear() noexcept {
    heap_.clear();
    size_ = 0;
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  // Once on the heap the values stay there until clear(), so that heap_.empty() tells where they are.
  void spill(std::size_t capacity) {
    if (!heap_.empty()) return;
    heap_.reserve(std::max(capacity, 2 * N));
    heap_.assign(inline_.begin(), inline_.begin() + size_);
  }

  std::size_t size_ = 0;
  std::array<T, N> inline_{};
  std::vector<T> heap_;
};

}  // namespace orlop::inline v0
